//! Logs of client commands, on standard error.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

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
