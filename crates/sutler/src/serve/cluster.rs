//! The cluster form: the same controllers against a cluster's own API server. There are none yet,
//! so this makes sure that they could run (the server answers, it has the kinds) and waits.

use anyhow::{Context as _, Result, bail};
use tokio::sync::watch;

use super::ServeArgs;
use crate::{cli::Globals, session::Session};

/// Runs until `stopped` turns true.
pub(super) async fn run(
    args: &ServeArgs,
    globals: &Globals,
    mut stopped: watch::Receiver<bool>,
) -> Result<()> {
    let session = Session::open(globals).await.map_err(|e| anyhow::anyhow!(e.render()))?;
    let discovery = session
        .discovery()
        .await
        .map_err(|e| anyhow::anyhow!(e.render()))
        .context("the cluster did not tell which kinds it has")?;
    let missing: Vec<String> = sutler_api::crds()
        .iter()
        .filter(|crd| {
            crd.spec.versions.iter().any(|version| {
                let api_version = format!("{}/{}", crd.spec.group, version.name);
                discovery.of_kind(&api_version, &crd.spec.names.kind).is_err()
            })
        })
        .filter_map(|crd| crd.metadata.name.clone())
        .collect();
    if !missing.is_empty() {
        bail!(
            "the cluster lacks {}: install them with `sutler crds | kubectl apply --server-side -f -`",
            missing.join(", ")
        );
    }
    super::serve_metrics(args, super::registry(), stopped.clone()).await?;
    tracing::warn!(
        "this release has no controllers: objects are accepted and nothing acts on them"
    );
    println!("Sutler is connected to the cluster; this release has no controllers to run there.");
    let _ = stopped.wait_for(|stopped| *stopped).await;
    tracing::info!("stopped");
    Ok(())
}
