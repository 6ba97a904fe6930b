//! The authority that an API server knows the webhook by: one for all replicas, in a Secret.
//!
//! Only the authority is kept. Every process makes its own certificate from it, in memory and anew every
//! few hours, so that there is none to renew, to copy or to lose.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};
use chrono::{DateTime, Utc};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};
use time::OffsetDateTime;

/// The name of the Secret.
const NAME: &str = "sutler-admission";

/// The annotation that says until when the authority is good. Where there is none, somebody else made
/// it and sees to it.
const UNTIL: &str = "sutler.dev/good-until";

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// The certificate of the authority before this one: replicas show what it signed until they have seen to it.
const PREVIOUS: &str = "previous.crt";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// It is replaced when less than this is left of it.
const MARGIN: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// What a server's certificate lasts; a new one is made long before.
const LEAF_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How often it is tried when others write at the same time.
const TRIES: usize = 5;

/// An authority with its key.
pub(super) struct Authority {
    pem: String,
    key: String,
    previous: Option<String>,
}

impl Authority {
    /// The one that the Secret in `namespace` has, which is made where there is none.
    pub(super) async fn ensure(client: &Client, namespace: &str) -> Result<Self> {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        for _ in 0..TRIES {
            let found = api.get_opt(NAME).await.context("its Secret cannot be read")?;
            let now = SystemTime::now();
            let written = match found {
                Some(secret) if lasts(&secret, now) => return Self::read(&secret),
                Some(old) => {
                    let mut next = Self::make(now)?;
                    next.previous = Self::read(&old).ok().map(|old| old.pem);
                    let fresh = secret(&next, now, old.metadata);
                    api.replace(NAME, &PostParams::default(), &fresh).await
                }
                None => {
                    let fresh = secret(&Self::make(now)?, now, ObjectMeta::default());
                    api.create(&PostParams::default(), &fresh).await
                }
            };
            match written {
                Ok(secret) => return Self::read(&secret),
                // Another replica was first: its is as good.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error).context("its Secret cannot be written"),
            }
        }
        bail!("its Secret {namespace}/{NAME} is written by others all the time")
    }

    /// Its certificate.
    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// The certificates that an API server has to know.
    pub(super) fn bundle(&self) -> String {
        format!("{}{}", self.pem, self.previous.as_deref().unwrap_or_default())
    }

    /// A certificate for a server of this name or address.
    pub(super) fn certify(&self, host: &str) -> Result<Arc<CertifiedKey>> {
        let issuer = Issuer::from_ca_cert_pem(&self.pem, KeyPair::from_pem(&self.key)?)?;
        let key = KeyPair::generate()?;
        let now = SystemTime::now();
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.not_before = OffsetDateTime::from(now - DAY);
        params.not_after = OffsetDateTime::from(now + LEAF_LIFE);
        params.distinguished_name = named("sutler-admission");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &issuer)?;
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let private = PrivatePkcs8KeyDer::from(key.serialize_der());
        let signer = ring::default_provider().key_provider.load_private_key(private.into())?;
        Ok(Arc::new(CertifiedKey::new(chain, signer)))
    }

    fn make(now: SystemTime) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        // A day back, for API servers whose clocks are behind.
        params.not_before = OffsetDateTime::from(now - DAY);
        params.not_after = OffsetDateTime::from(now + LIFE);
        params.distinguished_name = named("sutler-admission-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let (pem, key) = (params.self_signed(&key)?.pem(), key.serialize_pem());
        Ok(Self { pem, key, previous: None })
    }

    fn read(secret: &Secret) -> Result<Self> {
        let text = |key: &str| {
            let data =
                secret.data.as_ref().and_then(|data| data.get(key)).map(|data| data.0.clone());
            data.and_then(|data| String::from_utf8(data).ok())
        };
        let needed = |key: &str| {
            text(key).with_context(|| {
                format!("Secret {NAME} has no {key}: delete it to have it made anew")
            })
        };
        Ok(Self { pem: needed(CERTIFICATE)?, key: needed(KEY)?, previous: text(PREVIOUS) })
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn secret(authority: &Authority, now: SystemTime, mut metadata: ObjectMeta) -> Secret {
    metadata.name = Some(NAME.to_owned());
    let until = DateTime::<Utc>::from(now + LIFE).to_rfc3339();
    metadata.annotations.get_or_insert_default().insert(UNTIL.to_owned(), until);
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    Secret {
        metadata,
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(
            [(CERTIFICATE, Some(&authority.pem)), (KEY, Some(&authority.key))]
                .into_iter()
                .chain([(PREVIOUS, authority.previous.as_ref())])
                .filter_map(|(key, text)| Some((key.to_owned(), bytes(text?))))
                .collect(),
        ),
        ..Secret::default()
    }
}

/// Whether an authority is good for a while to come.
fn lasts(secret: &Secret, now: SystemTime) -> bool {
    let until = secret.metadata.annotations.as_ref().and_then(|notes| notes.get(UNTIL));
    let until = until.and_then(|until| DateTime::parse_from_rfc3339(until).ok());
    until.is_none_or(|until| SystemTime::from(until) > now + MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_kept_until_it_is_old_and_signs_for_names_and_addresses() {
        let now = SystemTime::now();
        let authority = Authority::make(now).unwrap();
        let kept = secret(&authority, now, ObjectMeta::default());
        assert!(lasts(&kept, now) && lasts(&kept, now + LIFE - 2 * MARGIN));
        assert!(!lasts(&kept, now + LIFE - DAY));
        let read = Authority::read(&kept).unwrap();
        for host in ["127.0.0.1", "fd00::5", "sutler.sutler-system.svc"] {
            assert_eq!(read.certify(host).unwrap().cert.len(), 1);
        }
        assert_eq!(read.bundle(), authority.pem);
        // Whoever shows what the old one signed is known for a while longer.
        let mut next = Authority::make(now).unwrap();
        next.previous = Some(read.pem.clone());
        let next = Authority::read(&secret(&next, now, kept.metadata)).unwrap();
        assert_eq!(next.bundle(), format!("{}{}", next.pem, read.pem));
        assert!(lasts(&Secret::default(), now), "what somebody else supplies is theirs to renew");
        assert!(Authority::read(&Secret::default()).is_err());
    }
}
