//! Makes and renews the keys and certificates of our own authority.
//!
//! A key is written before its certificate, and a renewal keeps the key. So whatever moment a
//! crash picks, the files still fit together, and a certificate without a key is no accident.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use x509_parser::prelude::X509Certificate;

use super::load::{self, Pem};
use super::names::{Name, names_in};
use super::{TlsError, files};
use crate::auth::MASTERS;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
const LEAF_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// A certificate is renewed when less than this is left of it.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Clients keep a copy of the authority, so it is renewed long before it ends.
const CA_RENEW_BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const CA_FIX: &str = "move the whole folder away to make everything anew (all kubeconfigs and \
                      client certificates then have to be made again)";
const LEAF_FIX: &str = "remove both the .crt and the .key file, and a new pair is made";

/// The authority that signs the server's and the administrator's certificate.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    path: PathBuf,
}

/// A certificate to have: file name, subject and use.
pub(super) struct Leaf {
    file: &'static str,
    what: &'static str,
    common_name: &'static str,
    organization: Option<&'static str>,
    usage: ExtendedKeyUsagePurpose,
    names: BTreeSet<Name>,
}

impl Leaf {
    pub(super) fn server(names: BTreeSet<Name>) -> Self {
        Self {
            file: "server",
            what: "server certificate",
            common_name: "sutler",
            organization: None,
            usage: ExtendedKeyUsagePurpose::ServerAuth,
            names,
        }
    }

    pub(super) fn admin() -> Self {
        Self {
            file: "admin",
            what: "administrator's certificate",
            common_name: "sutler-admin",
            organization: Some(MASTERS),
            usage: ExtendedKeyUsagePurpose::ClientAuth,
            names: BTreeSet::new(),
        }
    }
}

/// A certificate that fits its key.
pub(super) struct Issued {
    pub(super) pem: Pem,
    der: CertificateDer<'static>,
    key: KeyPair,
}

impl Issued {
    pub(super) fn certified(&self) -> Result<CertifiedKey, rustls::Error> {
        let key = rustls_pki_types::PrivatePkcs8KeyDer::from(self.key.serialize_der());
        load::certified(vec![self.der.clone()], key.into())
    }
}

impl Authority {
    /// Loads `ca.crt` and `ca.key`, or makes them.
    pub(super) fn ensure(dir: &Path, now: SystemTime) -> Result<Self, TlsError> {
        let found = Found::load(dir, "ca", "authority", CA_FIX)?;
        let keep = |certificate: &X509Certificate<'_>| {
            if !certificate.is_ca() {
                return Err(TlsError::Malformed {
                    path: found.cert_path.clone(),
                    what: "is not the certificate of an authority",
                    fix: CA_FIX,
                });
            }
            Ok(lasts(certificate, now, CA_RENEW_BEFORE))
        };
        let key = &found.key;
        let make = || authority_params(key, now)?.self_signed(key).map(|made| made.pem());
        let issued = found.keep_or(keep, make, "authority")?;
        let Issued { pem, der, key } = issued;
        let issuer = Issuer::from_ca_cert_der(&der, key)
            .map_err(|source| TlsError::Make { what: "authority", source })?;
        Ok(Self { issuer, certificate: der, pem: pem.cert, path: dir.join("ca.crt") })
    }

    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// Loads a certificate of ours, or makes or renews it.
    pub(super) fn ensure_leaf(
        &self,
        dir: &Path,
        leaf: &Leaf,
        now: SystemTime,
    ) -> Result<Issued, TlsError> {
        let found = Found::load(dir, leaf.file, leaf.what, LEAF_FIX)?;
        let keep = |certificate: &X509Certificate<'_>| {
            let authority = load::parse(&self.certificate);
            let signed = authority.is_some_and(|authority| {
                certificate.verify_signature(Some(authority.public_key())).is_ok()
            });
            if !signed {
                return Err(TlsError::Mismatch {
                    cert: found.cert_path.clone(),
                    key: self.path.clone(),
                    fix: LEAF_FIX,
                });
            }
            Ok(lasts(certificate, now, RENEW_BEFORE)
                && leaf.names.is_subset(&names_in(certificate)))
        };
        let key = &found.key;
        let make = || leaf_params(leaf, key, now)?.signed_by(key, &self.issuer).map(|c| c.pem());
        found.keep_or(keep, make, leaf.what)
    }
}

/// What a folder holds of one pair: surely a key by now, perhaps a certificate.
struct Found {
    key: KeyPair,
    key_pem: String,
    cert: Option<(String, CertificateDer<'static>)>,
    cert_path: PathBuf,
}

impl Found {
    fn load(
        dir: &Path,
        name: &str,
        what: &'static str,
        fix: &'static str,
    ) -> Result<Self, TlsError> {
        let cert_path = dir.join(format!("{name}.crt"));
        let key_path = dir.join(format!("{name}.key"));
        let (cert, key) = load::read_pair(&cert_path, &key_path)?;
        let key_pem = match (key, &cert) {
            (Some(key), _) => key,
            (None, Some(_)) => {
                return Err(TlsError::KeyMissing { cert: cert_path, key: key_path, fix });
            }
            (None, None) => {
                let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
                    .map_err(|source| TlsError::Make { what, source })?
                    .serialize_pem();
                files::write_private(&key_path, &key)?;
                key
            }
        };
        load::parse_key(&key_path, &key_pem, fix)?;
        let key = KeyPair::from_pem(&key_pem).map_err(|_| TlsError::Malformed {
            path: key_path.clone(),
            what: "is not a private key that can be used here",
            fix,
        })?;
        let cert = match cert {
            None => None,
            Some(text) => {
                let der = load::parse_certificates(&cert_path, &text, fix)?.swap_remove(0);
                let fits = load::parse(&der)
                    .is_some_and(|cert| cert.public_key().raw == key.subject_public_key_info());
                if !fits {
                    return Err(TlsError::Mismatch { cert: cert_path, key: key_path, fix });
                }
                Some((text, der))
            }
        };
        Ok(Self { key, key_pem, cert, cert_path })
    }

    /// The certificate that is there if `keep` says so, else one that `make` makes and that is
    /// written in its place.
    fn keep_or(
        &self,
        keep: impl FnOnce(&X509Certificate<'_>) -> Result<bool, TlsError>,
        make: impl FnOnce() -> Result<String, rcgen::Error>,
        what: &'static str,
    ) -> Result<Issued, TlsError> {
        let failed = |source| TlsError::Make { what, source };
        let kept = match &self.cert {
            None => None,
            Some((text, der)) => match load::parse(der) {
                Some(certificate) if keep(&certificate)? => Some((text.clone(), der.clone())),
                _ => None,
            },
        };
        let (cert, der) = match kept {
            Some(kept) => kept,
            None => {
                let made = make().map_err(failed)?;
                files::write_private(&self.cert_path, &made)?;
                let der = load::parse_certificates(&self.cert_path, &made, "start again")?;
                (made, der.into_iter().next().expect("a parsed file has a certificate"))
            }
        };
        let key = KeyPair::from_pem(&self.key_pem).map_err(failed)?;
        Ok(Issued { pem: Pem { cert, key: self.key_pem.clone() }, der, key })
    }
}

/// Whether a certificate is valid now and for a while to come.
fn lasts(certificate: &X509Certificate<'_>, now: SystemTime, margin: Duration) -> bool {
    let validity = certificate.validity();
    validity.not_before.timestamp() <= load::seconds(now)
        && validity.not_after.timestamp() > load::seconds(now + margin)
}

fn params(key: &KeyPair, now: SystemTime, life: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    // A day back, for clients whose clocks are behind.
    params.not_before = OffsetDateTime::from(now) - DAY;
    params.not_after = OffsetDateTime::from(now) + life;
    params.serial_number = Some(serial_number(key, now));
    params.distinguished_name = DistinguishedName::new();
    params
}

fn authority_params(key: &KeyPair, now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(key, now, CA_LIFE);
    params.distinguished_name.push(DnType::CommonName, "sutler-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    Ok(params)
}

fn leaf_params(
    leaf: &Leaf,
    key: &KeyPair,
    now: SystemTime,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(key, now, LEAF_LIFE);
    params.distinguished_name.push(DnType::CommonName, leaf.common_name);
    if let Some(organization) = leaf.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![leaf.usage.clone()];
    params.use_authority_key_identifier_extension = true;
    params.subject_alt_names =
        leaf.names.iter().map(Name::to_san).collect::<Result<_, rcgen::Error>>()?;
    Ok(params)
}

/// Differs from renewal to renewal: browsers refuse two certificates of one issuer and number.
fn serial_number(key: &KeyPair, now: SystemTime) -> SerialNumber {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(key.subject_public_key_info());
    hash.update(since.as_nanos().to_be_bytes());
    let mut number: [u8; 16] = [0; 16];
    number.copy_from_slice(&hash.finalize()[..16]);
    // Positive and of full length, as the standard wants it.
    number[0] = (number[0] & 0x7f) | 0x40;
    SerialNumber::from_slice(&number)
}
