//! Logs: on standard error, as text or JSON.

use std::io::{IsTerminal as _, stderr};

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[value(alias = "console")]
    Text,
    /// One JSON object a line
    Json,
}

/// What a filter looks like that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "--log-level {0:?} is no level: write error, warn, info, debug or trace, or target=level,…"
)]
pub struct BadLevel(String);

/// Begins to log. A subscriber that is there already stays.
pub fn init(format: LogFormat, level: &str) -> Result<(), BadLevel> {
    let filter = EnvFilter::try_new(level).map_err(|_| BadLevel(level.to_owned()))?;
    let registry = tracing_subscriber::registry().with(filter);
    drop(match format {
        LogFormat::Text => registry
            .with(fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(stderr)).try_init()
        }
    });
    Ok(())
}
