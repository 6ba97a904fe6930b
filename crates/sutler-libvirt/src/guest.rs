//! What is asked of the agent in a guest.

use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sutler_provider::{Error, ErrorKind, GuestCommand, GuestOutput, Result};
use virt::domain::Domain;

use crate::{
    domain::Seen,
    fault::{Done, Fault},
    find,
    host::Libvirt,
};

/// Seconds that the agent may take for one answer.
const ANSWER: i32 = 10;
/// How long a guest may take to fill a disk that has grown.
const FILL: Duration = Duration::from_secs(60);
/// Bytes of output that are given back.
const OUTPUT: usize = 64 * 1024;

/// Runs a command in a guest and waits for its end.
pub(crate) async fn exec(host: &Libvirt, command: GuestCommand) -> Result<GuestOutput> {
    if command.command.is_empty() {
        return Err(Error::invalid("command", "a command has at least one word"));
    }
    host.0
        .link
        .long(move |connect| {
            let (domain, _) = find::proven(connect, &command.id, &command.proof)?;
            run(&domain, &command.command, command.timeout)
        })
        .await
}

fn run(domain: &Domain, command: &[String], within: Duration) -> Done<GuestOutput> {
    let (program, args) = command.split_first().unzip();
    let ask = json!({
        "execute": "guest-exec",
        "arguments": { "path": program, "arg": args, "capture-output": true },
    });
    let begun = agent(domain, &ask)?;
    let pid = begun["return"]["pid"]
        .as_i64()
        .ok_or_else(|| Error::internal("the agent told no process"))?;
    wait(domain, pid, within)
}

/// Lets the file systems on a disk that has grown fill it. That a guest has no agent, or something on the
/// disk that is not known here, is no error: the disk has grown, and the rest is for whoever set it up.
pub(crate) fn fill(domain: &Domain, seen: &Seen, serial: &str) {
    if !seen.agent {
        return;
    }
    let command = ["/bin/sh", "-c", include_str!("fill.sh"), "fill", serial].map(str::to_owned);
    let (machine, disk) = (&seen.uuid, serial);
    match run(domain, &command, FILL) {
        Ok(said) if said.exit_code == 0 => {
            tracing::info!(machine, disk, "the guest fills the disk: {}", said.stdout.trim());
        }
        Ok(said) => {
            let why = said.stderr.trim();
            tracing::info!(machine, disk, "the guest leaves its file systems as they are: {why}");
        }
        Err(fault) => tracing::info!(machine, disk, "the guest was not asked: {}", fault.error),
    }
}

fn wait(domain: &Domain, pid: i64, within: Duration) -> Done<GuestOutput> {
    let ask = json!({ "execute": "guest-exec-status", "arguments": { "pid": pid } });
    let end = Instant::now() + within;
    let mut pause = Duration::from_millis(20);
    loop {
        let status = agent(domain, &ask)?;
        let status = &status["return"];
        if status["exited"].as_bool() == Some(true) {
            let code = status["exitcode"].as_i64();
            // A shell says 128 and the signal's number of a command that was ended by one.
            let code = code.or_else(|| status["signal"].as_i64().map(|signal| signal + 128));
            return Ok(GuestOutput {
                exit_code: code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1),
                stdout: text(&status["out-data"]),
                stderr: text(&status["err-data"]),
            });
        }
        if Instant::now() >= end {
            let why =
                format!("the command has not ended within {within:?}, and goes on in the guest");
            return Err(Error::indeterminate(why).into());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

fn text(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    let cut = &bytes[..bytes.len().min(OUTPUT)];
    String::from_utf8_lossy(cut).into_owned()
}

/// Brings the guest's files in order and stops it from writing.
pub(crate) fn freeze(domain: &Domain) -> Done {
    agent(domain, &json!({ "execute": "guest-fsfreeze-freeze" })).map(drop)
}

/// Lets the guest write again.
pub(crate) fn thaw(domain: &Domain) -> Done {
    agent(domain, &json!({ "execute": "guest-fsfreeze-thaw" })).map(drop)
}

/// Asks the agent. A guest that has none, or is not up, is in the wrong state for it.
fn agent(domain: &Domain, ask: &Value) -> Done<Value> {
    let answer = domain.qemu_agent_command(&ask.to_string(), ANSWER, 0).map_err(|error| {
        let fault = Fault::from(error);
        match fault.error.kind() {
            ErrorKind::Unavailable | ErrorKind::Conflict | ErrorKind::Unsupported
                if !fault.connection =>
            {
                let why = format!("the guest's agent does not answer: {}", fault.error.message());
                Fault::from(Error::conflict(why))
            }
            _ => fault,
        }
    })?;
    serde_json::from_str(&answer)
        .map_err(|error| Error::internal(format!("the agent's answer: {error}")).into())
}
