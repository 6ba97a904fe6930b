//! How we prove who we are: a token that somebody gave us, or one that we log in for.

use std::time::Duration;

use jiff::Timestamp;
use sutler_provider::{Credentials, Error, Result, Secret};
use tokio::sync::Mutex;

use super::sync::{AtomicU64, Ordering};

/// How long before its end a token is replaced.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// How long a token lasts whose end cannot be read.
pub(super) const ASSUMED: Duration = Duration::from_secs(3600);

/// A token, and which one it is in the order in which they came.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) token: Secret,
    pub(super) number: u64,
}

/// A token that VPSie gave us.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    pub(super) token: Secret,
    pub(super) expires: Timestamp,
}

/// How we prove who we are.
#[derive(Debug)]
pub(super) enum Auth {
    /// By a token that stays the same.
    Static(Secret),
    /// By tokens that we log in for.
    Login(Box<Login>),
}

/// Logging in: one at a time, for all who wait.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) client_id: Secret,
    pub(super) client_secret: Secret,
    held: Mutex<Held>,
    /// Attempts that have ended.
    ended: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    current: Option<(Issued, Timestamp)>,
    number: u64,
    /// The last attempt that failed, and why: it is told to all who waited for it.
    failed: Option<(u64, Error)>,
}

impl Auth {
    /// Reads a Secret: `token`, or `clientId` and `clientSecret`.
    pub(super) fn read(credentials: &Credentials) -> Result<Self> {
        let get = |key: &str| -> Result<Option<Secret>> {
            let Some(secret) = credentials.get(key) else { return Ok(None) };
            let text = secret.expose_str().map(str::trim).unwrap_or_default();
            if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
                let why = format!("its key {key} is empty, or holds what no token has");
                return Err(Error::invalid("spec.credentialSecretRef", why));
            }
            Ok(Some(Secret::from(text.as_bytes().to_vec())))
        };
        if let Some(token) = get("token")? {
            return Ok(Self::Static(token));
        }
        match (get("clientId")?, get("clientSecret")?) {
            (Some(client_id), Some(client_secret)) => {
                Ok(Self::Login(Box::new(Login::new(client_id, client_secret))))
            }
            _ => Err(Error::invalid(
                "spec.credentialSecretRef",
                "the Secret needs the key token, or the keys clientId and clientSecret",
            )),
        }
    }

    /// What no text may show.
    pub(super) fn secrets(&self) -> Vec<&Secret> {
        match self {
            Self::Static(token) => vec![token],
            Self::Login(login) => vec![&login.client_secret],
        }
    }
}

impl Login {
    pub(super) fn new(client_id: Secret, client_secret: Secret) -> Self {
        let (held, ended) = (Mutex::default(), AtomicU64::new(0));
        Self { client_id, client_secret, held, ended }
    }

    /// A token that is good for a while, and not number `stale`. Whoever comes while somebody logs in
    /// waits for that, and has what came of it, be it an error.
    pub(super) async fn grant<F>(
        &self,
        stale: Option<u64>,
        now: impl Fn() -> Timestamp,
        log_in: impl FnOnce() -> F,
    ) -> Result<Grant>
    where
        F: Future<Output = Result<Issued>>,
    {
        let before = self.ended.load(Ordering::Acquire);
        let mut held = self.held.lock().await;
        if let Some((issued, renew_at)) = &held.current
            && stale != Some(held.number)
            && now() < *renew_at
        {
            return Ok(Grant { token: issued.token.clone(), number: held.number });
        }
        if let Some((attempt, error)) = &held.failed
            && *attempt > before
        {
            return Err(error.clone());
        }
        let answer = log_in().await;
        let attempt = self.ended.fetch_add(1, Ordering::AcqRel) + 1;
        match answer {
            Ok(issued) => {
                held.number += 1;
                held.failed = None;
                let grant = Grant { token: issued.token.clone(), number: held.number };
                let renew_at = renew_at(issued.expires, now());
                held.current = Some((issued, renew_at));
                Ok(grant)
            }
            Err(error) => {
                held.failed = Some((attempt, error.clone()));
                Err(error)
            }
        }
    }
}

/// When a token is to be replaced: early, but not before half its time.
pub(super) fn renew_at(expires: Timestamp, now: Timestamp) -> Timestamp {
    let life = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    expires - EARLY.min(life / 2)
}
