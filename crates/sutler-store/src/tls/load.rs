//! Reads keys and certificates, and refuses what does not fit together.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{TlsError, files};

pub(super) const SUPPLIED_FIX: &str = "supply another file";

/// A certificate and its key as text.
#[derive(Clone)]
pub(super) struct Pem {
    pub(super) cert: String,
    pub(super) key: String,
}

/// All certificates of a PEM file, at least one.
pub(super) fn certificates(
    path: &Path,
    fix: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    parse_certificates(path, &read(path)?, fix)
}

pub(super) fn parse_certificates(
    path: &Path,
    text: &str,
    fix: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let malformed =
        || TlsError::Malformed { path: path.to_owned(), what: "is not a certificate in PEM", fix };
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(text.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| malformed())?;
    let readable = |der: &CertificateDer<'_>| X509Certificate::from_der(der).is_ok();
    match certificates.is_empty() || !certificates.iter().all(readable) {
        true => Err(malformed()),
        false => Ok(certificates),
    }
}

pub(super) fn parse_key(
    path: &Path,
    text: &str,
    fix: &'static str,
) -> Result<PrivateKeyDer<'static>, TlsError> {
    // The parser's error is dropped: it could quote the key.
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| TlsError::Malformed {
        path: path.to_owned(),
        what: "is not a private key in PEM",
        fix,
    })
}

/// A certificate chain and key that a person supplies, and what clients verify it by.
pub(super) fn supplied(
    cert: &Path,
    key: &Path,
    now: SystemTime,
) -> Result<(CertifiedKey, Option<String>), TlsError> {
    let text = read(cert)?;
    let chain = parse_certificates(cert, &text, SUPPLIED_FIX)?;
    let private = parse_key(key, &read(key)?, SUPPLIED_FIX)?;
    let provider = rustls::crypto::ring::default_provider();
    let signer = provider.key_provider.load_private_key(private).map_err(|_| {
        let what = "is not a key of a kind that TLS uses";
        TlsError::Malformed { path: key.to_owned(), what, fix: SUPPLIED_FIX }
    })?;
    let certified = CertifiedKey::new(chain, signer);
    certified.keys_match().map_err(|_| TlsError::Mismatch {
        cert: cert.to_owned(),
        key: key.to_owned(),
        fix: "supply a certificate and the key that it was made for",
    })?;
    let first = parse(&certified.cert[0]);
    if first.is_some_and(|leaf| leaf.validity().not_after.timestamp() < seconds(now)) {
        tracing::warn!(path = %cert.display(), "the supplied server certificate has expired");
    }
    // A chain that ends in an authority tells clients by what to verify it; any other is taken
    // to come from an authority that their systems know.
    let last = certified.cert.last().filter(|last| parse(last).is_some_and(|cert| cert.is_ca()));
    let server_ca = last.map(|last| encode("CERTIFICATE", last));
    Ok((certified, server_ca))
}

pub(super) fn parse<'d>(der: &'d CertificateDer<'_>) -> Option<X509Certificate<'d>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

/// Seconds since 1970; a clock before that counts as 1970.
pub(super) fn seconds(now: SystemTime) -> i64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

pub(super) fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    let provider = rustls::crypto::ring::default_provider();
    let signer: Arc<dyn rustls::sign::SigningKey> = provider.key_provider.load_private_key(key)?;
    Ok(CertifiedKey::new(chain, signer))
}

fn encode(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..body.len()).step_by(64).map(|i| &body[i..body.len().min(i + 64)]).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn read(path: &Path) -> Result<String, TlsError> {
    // A supplied file keeps the mode its owner gave it, so this is a plain read.
    std::fs::read_to_string(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

/// A key and certificate pair of ours, of which either or both may be missing.
pub(super) fn read_pair(
    cert: &Path,
    key: &Path,
) -> Result<(Option<String>, Option<String>), TlsError> {
    Ok((files::read_private(cert)?, files::read_private(key)?))
}
