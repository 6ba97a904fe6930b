//! A server under test.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use tower::{Service, ServiceExt};

/// An error of any body or service.
pub type AnyError = Box<dyn StdError + Send + Sync>;
/// A response body, read as it comes.
pub type Body = UnsyncBoxBody<Bytes, AnyError>;

/// One user that every server under test knows.
#[derive(Debug, Clone, Copy)]
pub struct User {
    /// The name.
    pub name: &'static str,
    /// The bearer token.
    pub token: &'static str,
    /// The user's ID, as SelfSubjectReview shows it.
    pub uid: &'static str,
    /// The groups beyond `system:authenticated`.
    pub groups: &'static [&'static str],
}

/// The users that every server under test knows; the first may do everything, the others may do
/// nothing until a case binds a role.
pub const USERS: &[User] = &[
    User {
        name: "admin",
        token: "token-admin",
        uid: "00000000-0000-4000-8000-000000000000",
        groups: &["system:masters"],
    },
    User {
        name: "alice",
        token: "token-alice",
        uid: "00000001-0000-4000-8000-000000000001",
        groups: &["devs"],
    },
    User {
        name: "bob",
        token: "token-bob",
        uid: "00000002-0000-4000-8000-000000000002",
        groups: &["devs", "ops"],
    },
    User {
        name: "carol",
        token: "token-carol",
        uid: "00000003-0000-4000-8000-000000000003",
        groups: &[],
    },
    User {
        name: "dave",
        token: "token-dave",
        uid: "00000004-0000-4000-8000-000000000004",
        groups: &["auditors"],
    },
];

/// The CRDs that every server under test serves, beside the project's own.
pub const TOY_CRDS: &str = include_str!("fixtures/toy-crd.yaml");

/// The project's own CRDs, each a YAML text.
pub fn project_crds() -> Vec<String> {
    // Tests run in the crate's folder, the bench in that of the checkout.
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let folder = folder.map_or_else(PathBuf::new, |crate_| crate_.join("../.."));
    let folder = folder.join("deploy/crds");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    files.sort();
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect()
}

/// The YAML documents of a text as JSON; what is no YAML is left for the server to refuse.
pub fn documents(yaml: &str) -> Vec<Value> {
    yaml.split("\n---")
        .filter_map(|document| serde_saphyr::from_str::<Value>(document).ok())
        .filter(Value::is_object)
        .collect()
}

/// The runtime that all targets and cases of the process share: pooled connections belong to the
/// runtime that opened them, so one per test would not do.
pub fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(64)
            .enable_all()
            .build()
            .expect("a runtime needs nothing but threads")
    })
}

/// A server under test.
pub trait Target: Send + Sync {
    /// What reports call it.
    fn name(&self) -> &str;

    /// Sends one request; its URI is a path with a query.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>>>;

    /// Forgets the history up to a version, so that reading from before it is answered with 410.
    fn compact(&self, version: u64) -> BoxFuture<'_, Result<()>>;
}

/// A server reached over TLS.
pub struct Https {
    name: String,
    base: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    compact: Option<Compact>,
}

/// How to compact a server that is reached over HTTP.
pub type Compact = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<()>> + Send + Sync>;

impl Https {
    /// A server at `base` (`https://host:port`) whose certificate is signed by `ca`, in PEM.
    pub fn new(name: &str, base: &str, ca: &str, compact: Option<Compact>) -> Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            roots.add(cert.context("CA bundle")?).context("CA certificate")?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { name: name.to_owned(), base: base.to_owned(), client, compact })
    }
}

impl Target for Https {
    fn name(&self) -> &str {
        &self.name
    }

    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>>> {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            parts.uri = format!("{}{}", self.base, parts.uri).parse().context("URI")?;
            let response = self.client.request(Request::from_parts(parts, Full::new(body))).await?;
            Ok(response.map(|body| body.map_err(AnyError::from).boxed_unsync()))
        })
    }

    fn compact(&self, version: u64) -> BoxFuture<'_, Result<()>> {
        match &self.compact {
            Some(compact) => compact(version),
            None => Box::pin(async { anyhow::bail!("this target cannot compact") }),
        }
    }
}

/// A tower service called in process.
pub struct InProcess<S> {
    name: String,
    service: S,
    compact: Compact,
}

impl<S> InProcess<S> {
    /// Wraps a service that is cloned for every request.
    pub fn new(name: &str, service: S, compact: Compact) -> Self {
        Self { name: name.to_owned(), service, compact }
    }
}

impl<S, B> Target for InProcess<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<AnyError>,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<AnyError>,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>>> {
        let service = self.service.clone();
        // Over a connection the answer to HEAD has no body, whatever the service says.
        let head = request.method() == http::Method::HEAD;
        Box::pin(async move {
            let response = service
                .oneshot(request.map(Full::new))
                .await
                .map_err(|error| anyhow::anyhow!(error.into()))?;
            Ok(response.map(|body| match head {
                true => Full::default().map_err(|never| match never {}).boxed_unsync(),
                false => body.map_err(Into::into).boxed_unsync(),
            }))
        })
    }

    fn compact(&self, version: u64) -> BoxFuture<'_, Result<()>> {
        (self.compact)(version)
    }
}
