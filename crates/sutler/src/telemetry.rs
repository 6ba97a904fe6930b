//! Logs: on standard error, as text or JSON.

use std::io::{IsTerminal as _, stderr};

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// How the server writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// What a filter looks like that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "--log-level {0:?} is no level: write error, warn, info, debug or trace, or target=level,…"
)]
pub(crate) struct BadLevel(String);

/// Logs of a client command: none, unless `-v` asks for them.
pub(crate) fn init_client(verbose: u8) {
    let filter = match verbose {
        0 => return,
        1 => "sutler=info,kube=warn",
        2 => "sutler=debug,kube=debug",
        _ => "trace",
    };
    let layer = fmt::layer()
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .without_time()
        .with_target(false);
    let _ = tracing_subscriber::registry().with(EnvFilter::new(filter)).with(layer).try_init();
}

/// Logs of the server. A subscriber that is there already, because of `-v`, stays.
pub(crate) fn init_server(format: LogFormat, level: &str) -> Result<(), BadLevel> {
    let filter = EnvFilter::try_new(level).map_err(|_| BadLevel(level.to_owned()))?;
    let registry = tracing_subscriber::registry().with(filter);
    let _ = match format {
        LogFormat::Text => registry
            .with(fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(stderr)).try_init()
        }
    };
    Ok(())
}
