//! The `sutler` binary: one program that serves the API, and one that talks to it.

mod cli;
mod client;
mod clock;
mod commands;
mod error;
mod metrics;
mod output;
mod serve;
mod session;
mod telemetry;
mod ui;

use std::process::ExitCode;

use clap::Parser as _;

/// A server of JSON makes and drops many small things: a third of its time went into the system's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let ui = ui::Ui::detect(cli.globals.no_color);
    telemetry::init_client(cli.globals.verbose);
    match commands::run(cli, &ui) {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_reported() {
                ui.error(&error.render());
            }
            error.exit_code()
        }
    }
}
