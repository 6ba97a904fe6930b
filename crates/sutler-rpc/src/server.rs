//! Any provider as a gRPC server.

mod base;
mod extended;
mod listen;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures::StreamExt as _;
use sutler_provider::{Error, ErrorKind, Provider, Result};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Status;
use tonic_health::ServingStatus;

pub use listen::{Hand, Listener};

use crate::{
    Malformed,
    pb::{
        self, base::provider_server::ProviderServer, extended::extensions_server::ExtensionsServer,
    },
    status::status_of,
    tls::ServerSecurity,
};

/// The largest request that is taken.
const LARGEST: usize = 64 << 20;

/// Names under which health is told; the empty one is the server as a whole.
const SERVICES: [&str; 3] = ["", "provider.v1.Provider", "sutler.provider.v1.Extensions"];

/// Hears of every call that was answered, for metrics.
pub trait Observer: Send + Sync + 'static {
    /// A call was answered: well, or with an error of this kind.
    fn answered(&self, call: &'static str, outcome: Option<ErrorKind>, took: Duration);
}

/// How a provider is served.
#[derive(Clone)]
pub struct ServerOptions {
    /// Whether the Extensions are served too.
    pub extensions: bool,
    /// After this long a connection is ended in an orderly way, so that whoever was let in by a CA
    /// that is trusted no longer does not stay for ever.
    pub connection_age: Option<Duration>,
    /// How long calls under way may go on once the server is to end.
    pub drain: Duration,
    /// Who hears of calls.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            extensions: true,
            connection_age: Some(Duration::from_secs(3600)),
            drain: Duration::from_secs(25),
            observer: None,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("extensions", &self.extensions)
            .field("connection_age", &self.connection_age)
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport gave up.
    #[error("the gRPC server ended")]
    Transport(#[from] tonic::transport::Error),
    /// Its certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
    /// It has nothing to describe itself with.
    #[error("the descriptors cannot be served: {0}")]
    Reflection(String),
}

/// A provider as a gRPC server, with health and reflection.
#[derive(Debug)]
pub struct Server {
    service: Service,
    options: ServerOptions,
}

impl Server {
    /// Serves this provider.
    pub fn new(provider: Arc<dyn Provider>, options: ServerOptions) -> Self {
        let observer = options.observer.clone();
        let (work, ending) = (TaskTracker::new(), CancellationToken::new());
        let service = Service { provider, observer, work, ending };
        Self { service, options }
    }

    /// Serves until `stop` is there; then calls under way may end, and work that they began is
    /// waited for.
    pub async fn serve(
        self,
        listener: Listener,
        security: ServerSecurity,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let Self { service, options } = self;
        let connections = listener.connections(security)?;
        let (health, health_service) = tonic_health::server::health_reporter();
        let services = if options.extensions { &SERVICES[..] } else { &SERVICES[..2] };
        for name in services {
            health.set_service_status(*name, ServingStatus::Serving).await;
        }
        let broken =
            |error: tonic_reflection::server::Error| ServeError::Reflection(error.to_string());
        let reflect = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(pb::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let extensions = options
            .extensions
            .then(|| ExtensionsServer::new(service.clone()).max_decoding_message_size(LARGEST));
        let mut server = tonic::transport::Server::builder();
        if let Some(age) = options.connection_age {
            server = server.max_connection_age(age);
        }
        let drained = tokio::sync::Notify::new();
        let stopping = async {
            stop.await;
            for name in services {
                health.set_service_status(*name, ServingStatus::NotServing).await;
            }
            service.ending.cancel();
            drained.notify_one();
        };
        let serving = server
            .add_service(ProviderServer::new(service.clone()).max_decoding_message_size(LARGEST))
            .add_optional_service(extensions)
            .add_service(health_service)
            .add_service(reflect().build_v1().map_err(broken)?)
            .add_service(reflect().build_v1alpha().map_err(broken)?)
            .serve_with_incoming_shutdown(connections.map(Ok::<_, std::io::Error>), stopping);
        let too_long = async {
            drained.notified().await;
            tokio::time::sleep(options.drain).await;
        };
        tokio::select! {
            ended = serving => ended?,
            () = too_long => {}
        }
        service.work.close();
        if tokio::time::timeout(options.drain, service.work.wait()).await.is_err() {
            tracing::warn!("work that calls began was still under way at the end");
        }
        Ok(())
    }
}

/// Both services of one provider.
#[derive(Clone)]
struct Service {
    provider: Arc<dyn Provider>,
    observer: Option<Arc<dyn Observer>>,
    work: TaskTracker,
    /// Ends streams, which have no end of their own, with the server.
    ending: CancellationToken,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

impl Service {
    /// A call that only looks; it ends with its caller.
    async fn look<T>(
        &self,
        call: &'static str,
        looking: impl Future<Output = Result<T>>,
    ) -> Result<T, Status> {
        let began = Instant::now();
        let result = looking.await;
        self.answered(call, began, result).map_err(|error| status_of(&error, false))
    }

    /// A call that changes something. It goes on when its caller is gone: the transport drops the
    /// handler then, and not every provider sees to that itself.
    async fn change<T: Send + 'static>(
        &self,
        call: &'static str,
        changing: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T, Status> {
        let began = Instant::now();
        let result = self.work.spawn(changing).await.unwrap_or_else(|_| {
            Err(Error::indeterminate(format!("{call} broke off in the provider")))
        });
        let making = matches!(call, "Create" | "Clone");
        self.answered(call, began, result).map_err(|error| status_of(&error, making))
    }

    fn answered<T>(&self, call: &'static str, began: Instant, result: Result<T>) -> Result<T> {
        let outcome = result.as_ref().err().map(Error::kind);
        if let Err(error) = &result {
            tracing::debug!(call, kind = %error.kind(), %error, "a call was answered with an error");
        }
        if let Some(observer) = &self.observer {
            observer.answered(call, outcome, began.elapsed());
        }
        result
    }
}

/// A request that makes no sense.
fn refused(error: Malformed) -> Status {
    status_of(&error.into_refusal(), false)
}
