//! The API server: a tower service over one store engine.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::SystemTime,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use serde_json::Value;
use sutler_kv::engine::Engine;

use crate::{
    admission::Namespaces,
    admit::Admit,
    auth::{User, authn::Authenticator, impersonate::Impersonator},
    body::Body,
    dispatch,
    metrics::Metrics,
    policy::PolicyCache,
    registry::{CrdError, Registry},
    status::ApiError,
};

/// Where the server gets the time from.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// Where the server gets identifiers from.
pub trait Ids: Send + Sync + 'static {
    /// A new `metadata.uid`.
    fn uid(&self) -> String;
    /// The five characters that follow `metadata.generateName`.
    fn suffix(&self) -> String;
}

/// What a server is made of.
pub struct Config {
    /// Where everything is kept.
    pub engine: Arc<dyn Engine>,
    /// The custom kinds, as `CustomResourceDefinition` objects.
    pub crds: Vec<Value>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
    /// The version that `/version` tells, such as `0.1.0`.
    pub version: String,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A CRD cannot be served.
    #[error("a kind cannot be served")]
    Crd(#[from] CrdError),
    /// The store refuses.
    #[error("the first objects could not be written")]
    Bootstrap(#[source] ApiError),
}

/// The embedded Kubernetes API server. Cloning is cheap; all clones are one server.
#[derive(Clone)]
pub struct ApiServer(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) registry: Registry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) version: String,
    pub(crate) authn: Authenticator,
    pub(crate) impersonator: Impersonator,
    pub(crate) policy: PolicyCache,
    pub(crate) namespaces: Namespaces,
    pub(crate) admit: OnceLock<Arc<dyn Admit>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: tokio::sync::watch::Sender<bool>,
}

impl ApiServer {
    /// Makes a server and writes what every cluster begins with: namespaces, roles and bindings.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let registry = Registry::new(&config.crds)?;
        Self::start_with(config, registry).await
    }

    /// The same with kinds that were read before: those of `config.crds`.
    pub async fn start_with(config: Config, registry: Registry) -> Result<Self, StartError> {
        let inner = Inner {
            registry,
            policy: PolicyCache::new(&*config.engine),
            engine: config.engine,
            clock: config.clock,
            ids: config.ids,
            version: config.version,
            authn: Authenticator::default(),
            impersonator: Impersonator::default(),
            namespaces: Namespaces::default(),
            admit: OnceLock::new(),
            metrics: Arc::default(),
            stopping: tokio::sync::watch::Sender::new(false),
        };
        let server = Self(Arc::new(inner));
        crate::bootstrap::run(&server, config.crds).await.map_err(StartError::Bootstrap)?;
        Ok(server)
    }

    /// The kinds that are served.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The store's newest version.
    pub fn version(&self) -> u64 {
        self.0.engine.version()
    }

    /// The same server, every request of which is made by `user`: for controllers in process.
    pub fn as_user(&self, user: User) -> Trusted {
        Trusted { server: self.clone(), user: Arc::new(user) }
    }

    /// Lets `admit` be asked before every write from now on. There is one that is asked: whoever
    /// comes second is not.
    pub fn admit_by(&self, admit: Arc<dyn Admit>) {
        let _ = self.0.admit.set(admit);
    }

    /// Ends all watches and makes `/readyz` fail: the first step of a shutdown.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }
}

impl Inner {
    /// Now, in the form of `metav1.Time`.
    pub(crate) fn timestamp(&self) -> String {
        crate::time::rfc3339(self.clock.now())
    }
}

/// A request's identity that needs no proof, because it was made in this process.
#[derive(Clone)]
pub(crate) struct TrustedUser(pub(crate) Arc<User>);

/// [`ApiServer`] for callers in the same process.
#[derive(Clone)]
pub struct Trusted {
    server: ApiServer,
    user: Arc<User>,
}

impl<B> tower::Service<Request<B>> for Trusted
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(TrustedUser(self.user.clone()));
        self.server.call(request)
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(dispatch::handle(server, request).await) })
    }
}

/// The system's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Identifiers from the system's randomness.
#[derive(Debug, Default, Clone, Copy)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn uid(&self) -> String {
        uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string()
    }

    fn suffix(&self) -> String {
        let bytes: [u8; 5] = rand::random();
        bytes.map(|b| SUFFIX[usize::from(b) % SUFFIX.len()] as char).iter().collect()
    }
}

/// No vowels and no digits that look like letters: a suffix never spells a word.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
