//! The door for the stock cluster-autoscaler.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use kube::Client;
use sutler_externalgrpc::{CloudProvider, Cluster, listen_tls};
use sutler_rpc::{PemFiles, Store};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::ServeArgs;

/// How often certificates are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// Opens the door where one was asked for, until `stopped` turns true.
pub(super) async fn open(
    args: &ServeArgs,
    client: Client,
    mut stopped: watch::Receiver<bool>,
) -> Result<Option<JoinHandle<()>>> {
    let (Some(address), Some(folder)) = (args.externalgrpc, &args.externalgrpc_tls) else {
        return Ok(None);
    };
    let files = PemFiles::in_folder(folder);
    let store = Store::open(&files).context("--externalgrpc-tls")?;
    let Some(first) = store.server_config() else {
        bail!("--externalgrpc-tls: tls.crt and tls.key are empty");
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("--externalgrpc: {address}"))?;
    let address = listener.local_addr()?;
    let watching = store.watch(files, LOOK);
    let config = move || store.server_config().unwrap_or_else(|| Arc::clone(&first));
    let incoming = listen_tls(listener, config);
    let provider = CloudProvider::new(client, Cluster::Own);
    tracing::info!(%address, "cluster-autoscaler may drive node groups");
    Ok(Some(tokio::spawn(async move {
        let _watching = watching;
        let stop = async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        if let Err(error) = sutler_externalgrpc::serve(provider, incoming, stop).await {
            tracing::warn!(%error, "the door for cluster-autoscaler was closed");
        }
    })))
}
