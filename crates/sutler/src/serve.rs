//! `sutler serve`: the server, from its flags to its end.

mod admission;
mod autoscaler;
mod cluster;
mod connect;
pub(crate) mod controllers;
mod defaults;
mod embedded;
mod web;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use prometheus_client::registry::Registry;
use sutler_frame::logs::{self, LogFormat};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{cli::Globals, clock, error::Error, metrics};

/// Flags of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where everything is kept: database, certificates, keys, admin.kubeconfig, simulated
    /// hypervisors [default: .sutler; with --cluster nothing is kept unless this is given]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The address and port of the API; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7443")]
    pub(crate) listen: SocketAddr,
    /// What keeps the objects
    #[arg(long, value_name = "STORE", default_value = "sqlite")]
    pub(crate) store: StoreKind,
    /// Use a cluster's API server (--kubeconfig) instead of an embedded one
    #[arg(long, conflicts_with_all = ["store", "listen", "secrets_key_file"])]
    pub(crate) cluster: bool,
    /// Serve the API alone: no controllers, and nothing is made at the first start
    #[arg(long, conflicts_with = "cluster")]
    pub(crate) api_only: bool,
    /// Play a Kubernetes cluster: simulated machines that boot with a join document become its
    /// nodes, and pods are scheduled onto them
    #[arg(long, conflicts_with_all = ["cluster", "api_only"])]
    pub(crate) playground: bool,
    /// Let the stock cluster-autoscaler drive NodeGroups through here, over mutual TLS, in place of
    /// Sutler's own scaling
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "externalgrpc_tls",
        conflicts_with = "api_only"
    )]
    pub(crate) externalgrpc: Option<SocketAddr>,
    /// The folder with tls.crt, tls.key and ca.crt for --externalgrpc; they may change while it runs
    #[arg(long, value_name = "FOLDER", requires = "externalgrpc")]
    pub(crate) externalgrpc_tls: Option<PathBuf>,
    /// Let the cluster's API server ask here before it writes node groups and their nodes, and keep the
    /// ValidatingWebhookConfiguration that leads it here
    #[arg(long, value_name = "ADDR:PORT", requires = "cluster")]
    pub(crate) admission: Option<SocketAddr>,
    /// Where the API server reaches --admission: `https://HOST:PORT`, or `https://NAME.NAMESPACE.svc:PORT`
    /// for a Service [default: the address itself]
    #[arg(long, value_name = "URL", requires = "admission")]
    pub(crate) admission_url: Option<String>,
    /// How often the webhook's certificate and configuration are seen to
    #[arg(long, value_name = "DURATION", default_value = "6h", value_parser = clock::parse_duration, requires = "admission", hide = true)]
    pub(crate) admission_upkeep: Duration,
    /// How long a provider is left alone after five failures in a row
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = clock::parse_duration)]
    pub(crate) breaker_pause: Duration,
    /// Serve Prometheus metrics here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// How logs are written
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "SUTLER_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    /// What is logged: a level, or target=level,…
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "SUTLER_LOG_LEVEL")]
    pub(crate) log_level: String,
    /// The file with the keys that encrypt Secrets at rest; without it and without
    /// $SUTLER_SECRETS_KEY, one in the data folder is made
    #[arg(long, value_name = "FILE")]
    pub(crate) secrets_key_file: Option<PathBuf>,
}

/// What keeps the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// A file in the data folder
    Sqlite,
    /// Memory: everything is gone when the server ends
    Memory,
}

/// The data folder where none is named.
const DATA_DIR: &str = ".sutler";

/// The variable that may hold the keys which encrypt Secrets at rest.
pub(crate) const KEY_VARIABLE: &str = "SUTLER_SECRETS_KEY";

/// The files of a data folder.
#[derive(Debug, Clone)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    /// The folder at this path.
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The database.
    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("sutler.db")
    }

    /// Certificates and their keys.
    pub(crate) fn pki(&self) -> PathBuf {
        self.0.join("pki")
    }

    /// The administrator's way in.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join("admin.kubeconfig")
    }

    /// The simulated hypervisors, a folder each.
    pub(crate) fn sims(&self) -> PathBuf {
        self.0.join("sim")
    }

    /// The keys that encrypt Secrets at rest.
    pub(crate) fn keys(&self) -> PathBuf {
        self.0.join("secrets.keys")
    }
}

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(args: ServeArgs, globals: &Globals) -> Result<ExitCode, Error> {
    logs::init(args.log_format, &args.log_level).map_err(|e| Error::Usage(e.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime
        .block_on(serve(&args, globals))
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| Error::Failed(format!("{error:#}")))
}

async fn serve(args: &ServeArgs, globals: &Globals) -> Result<()> {
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(stop_on_signal(stop)?);
    match args.cluster {
        true => cluster::run(args, globals, stopped).await,
        false => embedded::run(args, stopped).await,
    }
}

/// Serves metrics where the flags say so, until the server stops.
async fn serve_metrics(
    args: &ServeArgs,
    registry: Registry,
    stopped: watch::Receiver<bool>,
) -> Result<()> {
    let Some(listen) = args.metrics_listen else { return Ok(()) };
    let (address, _task) = metrics::serve(listen, Arc::new(registry), stopped)
        .await
        .with_context(|| format!("cannot serve metrics on {listen}"))?;
    tracing::info!(%address, "serving metrics");
    Ok(())
}

/// A registry with what every form of the server tells.
fn registry() -> Registry {
    metrics::registry(clock::now().timestamp_millis() as f64 / 1000.0)
}

/// A task that turns `stop` true at the first SIGTERM or SIGINT, and ends the process at the
/// second.
fn stop_on_signal(
    stop: watch::Sender<bool>,
) -> Result<impl std::future::Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot catch SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot catch SIGINT")?;
    Ok(async move {
        for again in [false, true] {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            if again {
                tracing::warn!(signal = name, "stopping at once");
                std::process::exit(130);
            }
            tracing::info!(signal = name, "stopping");
            stop.send_replace(true);
        }
    })
}
