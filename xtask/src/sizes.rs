//! No source file outgrows its room.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// The most lines that a source file may have.
const MOST: usize = 800;

pub(crate) fn check() -> Result<()> {
    let output = Command::new("git").args(["ls-files", "*.rs"]).output().context("git ls-files")?;
    let files = String::from_utf8(output.stdout)?;
    let mut over = Vec::new();
    for file in files.lines() {
        // A file that was removed and not yet committed is still listed.
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        let lines = text.lines().count();
        if lines > MOST {
            over.push(format!("{file} has {lines} lines; {MOST} is the most"));
        }
    }
    if !over.is_empty() {
        bail!("{}", over.join("\n  "));
    }
    println!("sizes: no source file has more than {MOST} lines");
    Ok(())
}
