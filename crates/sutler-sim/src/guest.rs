//! Commands in a guest: a tiny shell that always does the same.

use std::time::Duration;

use sutler_provider::{Error, ErrorKind, GuestCommand, GuestOutput, Power, Result};

use crate::{answer::Begun, row::Row, txn::Txn};

const USER_DATA: [&str; 2] = ["user-data", "/var/lib/cloud/instance/user-data.txt"];
const META_DATA: [&str; 2] = ["meta-data", "/run/cloud-init/instance-data.json"];

/// What came of a command. One that took too long has done what it did all the same.
pub(crate) type Ran = Result<GuestOutput>;

/// Runs a command in a guest that is up.
pub(crate) fn exec(txn: &mut Txn<'_>, command: &GuestCommand) -> Result<Begun<Ran>> {
    let mut row = txn.proven(&command.id, &command.proof)?;
    if !row.up || row.machine.power != Power::On {
        return Err(Error::conflict(format!("the guest of machine {} is not up", command.id)));
    }
    if command.command.is_empty() {
        return Err(Error::invalid("command", "there is no command"));
    }
    let before = row.files.clone();
    let mut shell = Shell { row: &mut row, output: GuestOutput::default(), takes: Duration::ZERO };
    shell.run(&command.command);
    let Shell { output, takes, .. } = shell;
    if row.files != before {
        txn.put(row);
    }
    if takes > command.timeout {
        let why = format!("the command took longer than {:?}", command.timeout);
        let answer = Err(Error::new(ErrorKind::Failed, why));
        return Ok(Begun { answer, work: None, takes: command.timeout });
    }
    Ok(Begun { answer: Ok(output), work: None, takes })
}

struct Shell<'a> {
    row: &'a mut Row,
    output: GuestOutput,
    takes: Duration,
}

impl Shell<'_> {
    fn run(&mut self, words: &[String]) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["sh" | "bash" | "/bin/sh" | "/bin/bash", "-c", script, ..] => self.script(script),
            words => self.output.exit_code = self.command(words),
        }
    }

    /// Commands with `;`, `&&` and `||` between them, from left to right.
    fn script(&mut self, script: &str) {
        for line in script.split([';', '\n']) {
            for (index, either) in line.split("||").enumerate() {
                if index > 0 && self.output.exit_code == 0 {
                    break;
                }
                for command in either.split("&&") {
                    let words: Vec<&str> = command
                        .split_whitespace()
                        .map(|word| word.trim_matches(['"', '\'']))
                        .collect();
                    if words.is_empty() {
                        continue;
                    }
                    self.output.exit_code = self.command(&words);
                    if words[0] == "exit" {
                        return;
                    }
                    if self.output.exit_code != 0 {
                        break;
                    }
                }
            }
        }
    }

    fn command(&mut self, words: &[&str]) -> i32 {
        match words {
            ["true" | ":"] => 0,
            ["false"] => 1,
            ["echo", rest @ ..] => self.say(&rest.join(" ")),
            ["hostname"] => {
                let name = self.row.hostname.clone();
                self.say(&name)
            }
            ["whoami"] => self.say("root"),
            ["nproc"] => {
                let cpus = self.row.cpu().to_string();
                self.say(&cpus)
            }
            ["exit"] => self.output.exit_code,
            ["exit", code] => code.parse().unwrap_or(2),
            ["sleep", time] => match time.trim_end_matches('s').parse::<f64>() {
                Ok(time) => match Duration::try_from_secs_f64(time) {
                    Ok(time) => {
                        self.takes = self.takes.saturating_add(time);
                        0
                    }
                    Err(_) => self.complain("sleep: not a time"),
                },
                Err(_) => self.complain("sleep: not a time"),
            },
            ["cat", path] => match self.read(path) {
                Some(text) => {
                    self.output.stdout.push_str(&text);
                    0
                }
                None => self.complain(&format!("cat: {path}: No such file or directory")),
            },
            ["touch", path] => {
                self.row.files.entry((*path).to_owned()).or_default();
                0
            }
            ["rm", "-f", path] => {
                self.row.files.remove(*path);
                0
            }
            ["test", "-e" | "-f", path] => i32::from(self.read(path).is_none()),
            [other, ..] => {
                self.complain(&format!("{other}: command not found"));
                127
            }
            [] => 0,
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        let text = |data: &Option<Vec<u8>>| {
            data.as_ref().map(|data| String::from_utf8_lossy(data).into_owned())
        };
        if let Some(text) = self.row.files.get(path) {
            return Some(text.clone());
        }
        match path {
            path if USER_DATA.contains(&path) => text(&self.row.user_data),
            path if META_DATA.contains(&path) => text(&self.row.meta_data),
            "/etc/hostname" => Some(format!("{}\n", self.row.hostname)),
            _ => None,
        }
    }

    fn say(&mut self, text: &str) -> i32 {
        self.output.stdout.push_str(text);
        self.output.stdout.push('\n');
        0
    }

    fn complain(&mut self, text: &str) -> i32 {
        self.output.stderr.push_str(text);
        self.output.stderr.push('\n');
        1
    }
}
