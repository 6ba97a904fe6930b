//! A provider's process, from its listening to its end.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sutler_provider::Provider;
use sutler_rpc::{Listener, Server, ServerOptions, server::ServeError, tls::TlsError};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    args::ServeArgs,
    http::{self, Pages},
    logs::{self, BadLevel},
    metrics::Metrics,
    security::{self, INSECURE},
};

/// Why a provider's process could not go on.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The log level makes no sense.
    #[error(transparent)]
    Level(#[from] BadLevel),
    /// An address cannot be listened on.
    #[error("{address} cannot be listened on: {source}")]
    Listen {
        /// Which one.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// There are no certificates, and nobody asked to do without.
    #[error(
        "there are no certificates: name them with --tls-cert, --tls-key and --tls-ca, mount tls.crt, \
         tls.key and ca.crt in {folder}, or ask for plaintext with --insecure",
        folder = folder.display()
    )]
    Unprotected {
        /// Where they were looked for.
        folder: PathBuf,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server ended.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The process cannot watch its standard input.
    #[error("standard input cannot be watched: {0}")]
    Input(io::Error),
    /// The process cannot hear signals.
    #[error("signals cannot be heard: {0}")]
    Signals(io::Error),
}

/// Serves a provider until SIGTERM or SIGINT, and lets calls under way end then. `make` runs once
/// logging has begun. When calls are taken, a line on standard output says where.
pub async fn serve<E>(
    name: &str,
    args: &ServeArgs,
    make: impl AsyncFnOnce() -> Result<Arc<dyn Provider>, E>,
) -> Result<(), E>
where
    E: From<FrameError>,
{
    // Managers write levels in capitals at times.
    let level = args.log_level.to_ascii_lowercase();
    logs::init(args.log_format, &level).map_err(FrameError::from)?;
    let provider = make().await?;
    run(name, args, provider).await.map_err(E::from)
}

/// Ends when standard input does, if that is asked for. A thread of its own reads it: nothing waits for
/// that thread at the end.
fn orphaned(asked: bool) -> Result<impl Future<Output = ()>, FrameError> {
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let read = move || {
        let mut input = io::stdin().lock();
        // What is said there does not matter.
        drop(io::copy(&mut input, &mut io::sink()));
        drop(ended);
    };
    if asked {
        let thread = std::thread::Builder::new().name("parent".to_owned());
        thread.spawn(read).map_err(FrameError::Input)?;
    }
    Ok(async move {
        match asked {
            true => drop(end.await),
            false => std::future::pending().await,
        }
    })
}

async fn run(name: &str, args: &ServeArgs, provider: Arc<dyn Provider>) -> Result<(), FrameError> {
    let address = args.address();
    let failed = |source| FrameError::Listen { address: address.clone(), source };
    let listener = Listener::bind(&address).await.map_err(failed)?;
    let asked = std::env::var(INSECURE).ok();
    let protection = security::protect(args, listener.is_local(), asked.as_deref())?;
    if let Some(warning) = protection.security.warning() {
        tracing::warn!(security = %protection.security, "{warning}");
    }
    let metrics = Metrics::new(name);
    let ready = Arc::new(AtomicBool::new(true));
    let pages = Pages { metrics: metrics.clone(), ready: ready.clone() };
    let health = (args.health_port != 0).then(|| format!("0.0.0.0:{}", args.health_port));
    let mut servers = Vec::new();
    for address in health.into_iter().chain(args.metrics.clone()) {
        let socket = TcpListener::bind(&address)
            .await
            .map_err(|source| FrameError::Listen { address: address.clone(), source })?;
        tracing::info!(address, "serving health and metrics");
        servers.push(tokio::spawn(http::serve(socket, pages.clone())));
    }
    let options = ServerOptions {
        extensions: !args.without_extensions,
        drain: Duration::from_secs(args.drain),
        observer: Some(Arc::new(metrics)),
        ..ServerOptions::default()
    };
    let mut term = signal(SignalKind::terminate()).map_err(FrameError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(FrameError::Signals)?;
    let orphaned = orphaned(args.with_parent)?;
    let stop = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
            () = orphaned => {}
        }
        ready.store(false, Ordering::Relaxed);
        tracing::info!("calls under way may end");
    };
    let at = listener.address().to_owned();
    tracing::info!(provider = name, address = at, security = %protection.security, "serving");
    println!("listening on {at}");
    let served = Server::new(provider, options).serve(listener, protection.server, stop).await;
    for server in servers {
        server.abort();
    }
    tracing::info!("ended");
    Ok(served?)
}
