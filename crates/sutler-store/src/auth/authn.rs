//! Who sends a request: bearer tokens and client certificates.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::Value;
use sha2::{Digest, Sha256};
use x509_parser::der_parser::{Oid, oid};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;
use super::users::{self, TokenHash, UserRecord};

/// The message of the 401 that answers a request without valid credentials.
pub const UNAUTHORIZED: &str = "Unauthorized";

/// The key in [`User::extra`] under which a certificate's fingerprint stands.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The subject attribute in which a certificate may carry the user's UID.
const UID_OID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// Why nobody could be made out. Every variant is answered by 401 [`UNAUTHORIZED`]; the text is
/// for the log and holds nothing of the credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthnError {
    /// Neither a certificate nor a bearer token was sent.
    #[error("no credentials were sent")]
    Missing,
    /// No user has this token.
    #[error("the bearer token is not known")]
    UnknownToken,
    /// The token was good once.
    #[error("token {id:?} of user {user:?} has expired")]
    ExpiredToken {
        /// Whose token it is.
        user: String,
        /// Which of the user's tokens.
        id: String,
    },
    /// The certificate is outside its time of validity, cannot be read or names nobody.
    #[error("the client certificate cannot be used: {0}")]
    Certificate(&'static str),
}

/// Recognizes users by the tokens of their Secrets and by client certificates.
#[derive(Default)]
pub struct Authenticator {
    tokens: ArcSwap<HashMap<TokenHash, Entry>>,
}

struct Entry {
    user: Arc<User>,
    id: String,
    expires: Option<SystemTime>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("tokens", &self.tokens.load().len()).finish()
    }
}

impl Authenticator {
    /// An authenticator that knows no tokens until the first [`reload`](Self::reload).
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces all tokens by those of the user Secrets among `secrets`, at once. A malformed
    /// user Secret is left out and named in a warning; it never stops the others.
    pub fn reload<'v>(&self, secrets: impl Iterator<Item = &'v Value>) {
        let mut tokens = HashMap::new();
        for secret in secrets.filter(|secret| users::is_user_secret(secret)) {
            let name = secret.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
            match UserRecord::from_secret(secret) {
                Ok(record) => add_tokens(&mut tokens, name, record),
                Err(errors) => tracing::warn!(
                    secret = name,
                    namespace = users::NAMESPACE,
                    errors = errors.join("; "),
                    "user Secret is malformed and ignored"
                ),
            }
        }
        self.tokens.store(Arc::new(tokens));
    }

    /// The user whom the certificate names, else the one to whom the bearer token belongs.
    ///
    /// `client_cert` is the leaf in DER whose chain the TLS layer has verified.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        client_cert: Option<&[u8]>,
        now: SystemTime,
    ) -> Result<User, AuthnError> {
        let by_cert = client_cert.map(|der| certificate_user(der, now));
        if let Some(Ok(user)) = by_cert {
            return Ok(user);
        }
        match bearer_token(headers) {
            Some(token) => self.token_user(token, now),
            None => by_cert.unwrap_or(Err(AuthnError::Missing)),
        }
    }

    fn token_user(&self, token: &[u8], now: SystemTime) -> Result<User, AuthnError> {
        let hash: TokenHash = Sha256::digest(token).into();
        let tokens = self.tokens.load();
        let entry = tokens.get(&hash).ok_or(AuthnError::UnknownToken)?;
        if entry.expires.is_some_and(|expires| expires <= now) {
            let (user, id) = (entry.user.name.clone(), entry.id.clone());
            return Err(AuthnError::ExpiredToken { user, id });
        }
        Ok(User::clone(&entry.user))
    }
}

fn add_tokens(tokens: &mut HashMap<TokenHash, Entry>, secret: &str, record: UserRecord) {
    let UserRecord { username, uid, groups, tokens: held } = record;
    let user = User { name: username, uid, groups, extra: BTreeMap::new() }.authenticated();
    let user = Arc::new(user);
    for token in held {
        let entry = Entry {
            user: Arc::clone(&user),
            id: token.id,
            expires: token.expires.map(SystemTime::from),
        };
        match tokens.entry(token.sha256) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(entry);
            }
            std::collections::hash_map::Entry::Occupied(first) => tracing::warn!(
                secret,
                token = entry.id,
                user = entry.user.name,
                first = first.get().user.name,
                "two users have the same token; it stays with the first"
            ),
        }
    }
}

/// The token of an `Authorization: Bearer …` header.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = value.splitn(3, |byte| *byte == b' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

/// The user that a verified client certificate stands for: the common name is the user, each
/// organization a group.
pub fn certificate_user(der: &[u8], now: SystemTime) -> Result<User, AuthnError> {
    let (_, certificate) = X509Certificate::from_der(der)
        .map_err(|_| AuthnError::Certificate("it is not X.509 in DER"))?;
    // The handshake checked this too, but a connection may outlive its certificate.
    let seconds = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .ok_or(AuthnError::Certificate("the clock is out of range"))?;
    let validity = certificate.validity();
    if seconds < validity.not_before.timestamp() || seconds > validity.not_after.timestamp() {
        return Err(AuthnError::Certificate("it is not valid at this time"));
    }
    let subject = certificate.subject();
    // As Go reads a name: of several common names the last one counts.
    let name = subject.iter_common_name().filter_map(|cn| cn.as_str().ok()).last();
    let name = match name {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => return Err(AuthnError::Certificate("it has no common name")),
    };
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned);
    let fingerprint = users::hex(&Sha256::digest(der));
    let extra = [(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={fingerprint}")])];
    let user = User {
        name,
        uid: certificate_uid(&certificate)?,
        groups: groups.collect(),
        extra: extra.into(),
    };
    Ok(user.authenticated())
}

fn certificate_uid(certificate: &X509Certificate<'_>) -> Result<String, AuthnError> {
    let mut uids = certificate.subject().iter_by_oid(&UID_OID);
    match (uids.next(), uids.next()) {
        (None, _) => Ok(String::new()),
        (Some(uid), None) => match uid.as_str() {
            Ok(uid) if !uid.is_empty() => Ok(uid.to_owned()),
            _ => Err(AuthnError::Certificate("its UID is not a text")),
        },
        (Some(_), Some(_)) => Err(AuthnError::Certificate("it has more than one UID")),
    }
}

#[cfg(test)]
mod tests;
