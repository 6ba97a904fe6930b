//! The cluster form: the same controllers against a cluster's own API server.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sutler_control::Settings;
use tokio::sync::watch;

use super::{
    DataDir, ServeArgs,
    controllers::{Options, Shared, ensure_namespace, unique_identity},
};
use crate::{
    cli::Globals, client::discovery::Discovery, metrics::ControlMetrics, session::Session,
};

/// How long kinds that were just installed may take to show.
const PATIENCE: Duration = Duration::from_secs(15);

/// The pause between two looks.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until `stopped` turns true.
pub(super) async fn run(
    args: &ServeArgs,
    globals: &Globals,
    stopped: watch::Receiver<bool>,
) -> Result<()> {
    let session = Session::open(globals).await.map_err(|e| anyhow::anyhow!(e.render()))?;
    kinds_are_there(&session, stopped.clone()).await?;
    let mut config = session.config.clone();
    // Controllers try again by themselves, and an eviction that a budget forbids is an answer.
    config.default_retry = false;
    let client = kube::Client::try_from(config)?;
    ensure_namespace(&client).await.context("there is no namespace for the leader's Lease")?;
    let shared = Shared::default();
    let mut registry = super::registry();
    registry.register_collector(Box::new(ControlMetrics(shared.clone())));
    super::serve_metrics(args, registry, stopped.clone()).await?;
    let options = Options {
        identity: unique_identity(),
        lease: Settings::default().lease,
        sims: args.data_dir.as_deref().map(|folder| DataDir::new(folder).sims()),
        breaker_pause: args.breaker_pause,
        cluster: true,
        scaling: args.externalgrpc.is_none(),
        playground: args.playground,
    };
    super::admission::open(args, &client, stopped.clone()).await?;
    super::autoscaler::open(args, client.clone(), stopped.clone()).await?;
    let server = session.config.cluster_url.to_string();
    tracing::info!(server, identity = options.identity, "connected");
    println!("Sutler runs its controllers for the cluster at {server}");
    super::controllers::spawn(client, options, shared, stopped).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Waits a while for our kinds: a server tells of kinds a moment after it has taken them.
async fn kinds_are_there(session: &Session, mut stopped: watch::Receiver<bool>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let discovery = session
            .rediscover()
            .await
            .map_err(|e| anyhow::anyhow!(e.render()))
            .context("the cluster did not tell which kinds it has")?;
        let missing = missing(&discovery);
        if missing.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!(
                "the cluster lacks {}: install them with `sutler crds | kubectl apply \
                 --server-side -f -`",
                missing.join(", ")
            );
        }
        tracing::info!(missing = missing.join(", "), "waiting for the cluster to serve our kinds");
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = stopped.wait_for(|stopped| *stopped) => bail!("stopped before the kinds were there"),
        }
    }
}

/// Our kinds that the cluster does not serve.
fn missing(discovery: &Discovery) -> Vec<String> {
    sutler_api::crds()
        .iter()
        .filter(|crd| {
            crd.spec.versions.iter().any(|version| {
                let api_version = format!("{}/{}", crd.spec.group, version.name);
                discovery.of_kind(&api_version, &crd.spec.names.kind).is_err()
            })
        })
        .filter_map(|crd| crd.metadata.name.clone())
        .collect()
}
