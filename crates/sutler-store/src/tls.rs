//! TLS of the API server: the keys and certificates made at first start, the server's TLS
//! configuration, and the kubeconfigs that lead clients to it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

mod files;
mod issue;
mod kubeconfig;
mod load;
mod names;

pub use kubeconfig::{kubeconfig, kubeconfig_with_token, write_kubeconfig};

use issue::{Authority, Leaf};
use load::Pem;

/// Why there is no TLS. Each text names the file and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: make it readable for the user that runs the server", .path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {}: make its folder writable for the user that runs the server",
        .path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} {what}: restore it from a backup, or {fix}", .path.display())]
    Malformed {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
        /// What else helps.
        fix: &'static str,
    },
    /// A certificate and a key that are no pair.
    #[error("{} and {} do not belong together: restore both from one backup, or {fix}",
        .cert.display(), .key.display())]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key, or the authority that should have signed the certificate.
        key: PathBuf,
        /// What else helps.
        fix: &'static str,
    },
    /// A certificate whose key is gone.
    #[error("{} is there but {} is not: restore it from a backup, or {fix}",
        .cert.display(), .key.display())]
    KeyMissing {
        /// The certificate.
        cert: PathBuf,
        /// The missing key.
        key: PathBuf,
        /// What else helps.
        fix: &'static str,
    },
    /// A name for the server that no certificate can carry.
    #[error("{0:?} is neither a host name nor an IP address: correct the name of the server")]
    Name(String),
    /// A key or certificate could not be made.
    #[error("cannot make the {what}")]
    Make {
        /// Which one.
        what: &'static str,
        /// What the library said.
        source: rcgen::Error,
    },
    /// The TLS library refuses the certificates.
    #[error("cannot use the certificates for TLS")]
    Config(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Where the server's certificates come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Host names and addresses by which clients reach the server, besides `localhost`.
    pub names: Vec<String>,
    /// A certificate chain and its key, to serve instead of a certificate made here.
    pub server: Option<(PathBuf, PathBuf)>,
    /// Further authorities whose client certificates are accepted.
    pub client_ca: Option<PathBuf>,
}

/// The authority, the server's certificate and the administrator's.
pub struct Pki {
    dir: PathBuf,
    sources: Sources,
    authority: Authority,
    /// What clients verify the server by; `None` leaves it to their system's roots.
    server_ca: Option<String>,
    admin: Pem,
    resolver: Arc<SwapCert>,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The keys stay out of every log.
        f.debug_struct("Pki").field("dir", &self.dir).field("sources", &self.sources).finish()
    }
}

impl Pki {
    /// Loads what `dir` holds and makes what it lacks: an authority, a certificate for the server
    /// under `names`, and one for the administrator (`sutler-admin`, group `system:masters`).
    /// A certificate that ends within 30 days, or a server's that lacks a name, is renewed.
    pub fn ensure(dir: &Path, names: &[String], now: SystemTime) -> Result<Self, TlsError> {
        Self::ensure_from(dir, Sources { names: names.to_vec(), ..Sources::default() }, now)
    }

    /// As [`ensure`](Self::ensure), with a certificate or client authority that a person supplies.
    pub fn ensure_from(dir: &Path, sources: Sources, now: SystemTime) -> Result<Self, TlsError> {
        files::private_dir(dir)?;
        let authority = Authority::ensure(dir, now)?;
        let admin = authority.ensure_leaf(dir, &Leaf::admin(), now)?.pem;
        let (certified, server_ca) = server_certificate(dir, &sources, &authority, now)?;
        let resolver = Arc::new(SwapCert(ArcSwap::from_pointee(certified)));
        let mut roots = vec![authority.certificate().clone()];
        if let Some(path) = &sources.client_ca {
            roots.extend(load::certificates(path, load::SUPPLIED_FIX)?);
        }
        let config = Arc::new(config(roots, Arc::clone(&resolver))?);
        let dir = dir.to_owned();
        Ok(Self { dir, sources, authority, server_ca, admin, resolver, config })
    }

    /// Renews the server's certificate if it is time, or reads a supplied one again, and serves
    /// it to new connections from now on. To be called now and then by a server that runs long.
    pub fn renew(&self, now: SystemTime) -> Result<Renewal, TlsError> {
        let (certified, _) = server_certificate(&self.dir, &self.sources, &self.authority, now)?;
        if certified.cert == self.resolver.0.load().cert {
            return Ok(Renewal::Unchanged);
        }
        self.resolver.0.store(Arc::new(certified));
        Ok(Renewal::Renewed)
    }

    /// The authority's certificate in PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }
}

/// What [`Pki::renew`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The certificate is good for longer.
    Unchanged,
    /// A new certificate is served from now on.
    Renewed,
}

/// The configuration for accepting connections: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. A client
/// may do without a certificate; one that it sends must come from a known authority.
pub fn server_config(pki: &Pki) -> Arc<ServerConfig> {
    Arc::clone(&pki.config)
}

/// The server's certificate with its key, and what clients verify it by.
fn server_certificate(
    dir: &Path,
    sources: &Sources,
    authority: &Authority,
    now: SystemTime,
) -> Result<(CertifiedKey, Option<String>), TlsError> {
    match &sources.server {
        Some((cert, key)) => load::supplied(cert, key, now),
        None => {
            let leaf = Leaf::server(names::subject_alt_names(&sources.names)?);
            let issued = authority.ensure_leaf(dir, &leaf, now)?;
            let certified = issued.certified().map_err(|error| TlsError::Config(error.into()))?;
            Ok((certified, Some(authority.pem().to_owned())))
        }
    }
}

fn config(
    client_roots: Vec<CertificateDer<'static>>,
    resolver: Arc<SwapCert>,
) -> Result<ServerConfig, TlsError> {
    let refused = |error: Box<dyn std::error::Error + Send + Sync>| TlsError::Config(error);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for root in client_roots {
        roots.add(root).map_err(|error| refused(error.into()))?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| refused(error.into()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| refused(error.into()))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Hands out whatever certificate is current.
struct SwapCert(ArcSwap<CertifiedKey>);

impl fmt::Debug for SwapCert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SwapCert")
    }
}

impl ResolvesServerCert for SwapCert {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

#[cfg(test)]
mod tests;
