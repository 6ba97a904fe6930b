//! Certificates from PEM to what a connection needs.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::WebPkiClientVerifier,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::explain::AnyServer;

/// Certificate, key and CA certificates as PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pem {
    /// Our certificate, with what leads to the CA.
    pub cert: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
    /// The CA certificates that we trust; during a change of CA, both.
    pub ca: Vec<u8>,
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pem([redacted])")
    }
}

/// Where certificate, key and CA certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemFiles {
    /// Our certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The CA certificates that we trust.
    pub ca: PathBuf,
}

impl PemFiles {
    /// The files of a Secret of type `kubernetes.io/tls` that is mounted in `folder`.
    pub fn in_folder(folder: &Path) -> Self {
        let file = |name| folder.join(name);
        Self { cert: file("tls.crt"), key: file("tls.key"), ca: file("ca.crt") }
    }

    pub(crate) fn read(&self) -> Result<Pem, TlsError> {
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .map_err(|source| TlsError::File { path: path.clone(), source: Arc::new(source) })
        };
        Ok(Pem { cert: read(&self.cert)?, key: read(&self.key)?, ca: read(&self.ca)? })
    }
}

/// Why certificates cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path} cannot be read", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// What should be PEM is not, or has none of what it should.
    #[error("{what}: {why}")]
    Pem {
        /// Which of the three.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Certificate and key do not go together, or cannot be used.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(String),
}

/// What connections are made with.
pub(crate) struct Loaded {
    pub(crate) pem: Pem,
    /// None where there is no certificate to show.
    pub(crate) server: Option<Arc<ServerConfig>>,
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) unverified: Arc<ClientConfig>,
}

impl Loaded {
    pub(crate) fn new(pem: Pem) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(roots(&pem.ca)?);
        let identity = identity(&pem)?;
        let server = identity
            .as_ref()
            .map(|(chain, key)| server(&provider, &roots, chain.clone(), key.clone_key()))
            .transpose()?;
        let client = |verify: bool| client(&provider, &roots, identity.as_ref(), verify);
        let (client, unverified) = (client(true)?, client(false)?);
        Ok(Self { server, client, unverified, pem })
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn roots(ca: &[u8]) -> Result<RootCertStore, TlsError> {
    let wrong = |why: String| TlsError::Pem { what: "the CA certificates", why };
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(ca) {
        let cert = cert.map_err(|error| wrong(error.to_string()))?;
        roots.add(cert).map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is none".to_owned())),
        false => Ok(roots),
    }
}

fn identity(pem: &Pem) -> Result<Option<Identity>, TlsError> {
    if pem.cert.is_empty() && pem.key.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| TlsError::Pem { what: "the certificate", why };
    let chain = CertificateDer::pem_slice_iter(&pem.cert)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong("there is none".to_owned()));
    }
    // The parser's own words might show what it stumbled on.
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|_| TlsError::Pem {
        what: "the key",
        why: "it is no private key in PEM".to_owned(),
    })?;
    Ok(Some((chain, key)))
}

fn server(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |error: rustls::Error| TlsError::Unusable(error.to_string());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|error| TlsError::Unusable(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn client(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    identity: Option<&Identity>,
    verify: bool,
) -> Result<Arc<ClientConfig>, TlsError> {
    let unusable = |error: rustls::Error| TlsError::Unusable(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match verify {
        true => builder.with_root_certificates(roots.clone()),
        false => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(provider.clone()))),
    };
    let mut config = match identity {
        Some((chain, key)) => {
            builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(unusable)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// The DNS names, addresses and URIs that a certificate is for.
pub(crate) fn alternative_names(cert: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, cert)) = parse_x509_certificate(cert) else { return Vec::new() };
    let Ok(Some(names)) = cert.subject_alternative_name() else { return Vec::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => {
            Some((*name).to_owned())
        }
        _ => None,
    };
    names.value.general_names.iter().filter_map(text).collect()
}
