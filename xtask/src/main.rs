//! Workspace checks that are more than a line: `cargo run -p xtask -- <check>`.

mod arrows;
mod coverage;
mod sizes;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let check = std::env::args().nth(1).unwrap_or_default();
    let done = match check.as_str() {
        "arrows" => arrows::check(),
        "coverage" => coverage::check(),
        "sizes" => sizes::check(),
        "words" => words::check(),
        _ => Err(anyhow::anyhow!("usage: xtask arrows|coverage FILE|sizes|words")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {check}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
