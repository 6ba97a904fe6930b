//! Words that have no place in the repository: absolute paths of somebody's machine, and what would write
//! one into a program.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Each is split so that this file does not find itself.
const FORBIDDEN: [&str; 4] = [
    concat!("/", "root/"),
    concat!("/", "work/"),
    concat!("/home/", "u"),
    // A test that was built in one clone and is run in another would look into the first: tests run in the
    // folder of their crate, and find what they need from there.
    concat!("env!(\"CARGO_", "MANIFEST_DIR\")"),
];

pub(crate) fn check() -> Result<()> {
    let output = Command::new("git").args(["ls-files"]).output().context("git ls-files")?;
    let files = String::from_utf8(output.stdout)?;
    let mut found = Vec::new();
    for file in files.lines() {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        for (number, line) in text.lines().enumerate() {
            if FORBIDDEN.iter().any(|word| line.contains(word)) {
                found.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    if !found.is_empty() {
        bail!("machine paths in the repository:\n  {}", found.join("\n  "));
    }
    println!("words: no machine paths");
    Ok(())
}
