//! Serving on connections that were accepted already.

use std::{future::Future, io, time::Duration};

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::server::Connected;

use crate::{CloudProvider, pb::cloud_provider_server::CloudProviderServer};

/// How long calls under way may go on once the server is to end.
const DRAIN: Duration = Duration::from_secs(10);

/// After this long a connection is ended in an orderly way, so that whoever was let in by a CA that is
/// trusted no longer does not stay for ever.
const AGE: Duration = Duration::from_secs(3600);

/// Why serving ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport gave up.
    #[error("the server for cluster-autoscaler ended")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves on these connections until `stop` is there; then calls under way may end.
///
/// Whoever can connect can remove nodes: let in only what proved who it is ([`crate::listen_tls`]), or
/// what comes through a socket that nobody else can reach.
pub async fn serve<I, C>(
    provider: CloudProvider,
    incoming: I,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError>
where
    I: Stream<Item = io::Result<C>> + Send,
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (ending, ended) = tokio::sync::oneshot::channel();
    let stopping = async move {
        stop.await;
        drop(ending);
    };
    let serving = tonic::transport::Server::builder()
        .max_connection_age(AGE)
        .add_service(CloudProviderServer::new(provider))
        .serve_with_incoming_shutdown(incoming, stopping);
    let too_long = async move {
        let _: Result<(), _> = ended.await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        ended = serving => Ok(ended?),
        () = too_long => Ok(()),
    }
}
