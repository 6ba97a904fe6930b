//! Whoever needs a token.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use sutler_provider::{Error, ErrorKind, Result, Secret};

use super::auth::{Auth, Grant, Issued, Login, renew_at};

fn read(pairs: &[(&str, &str)]) -> Result<Auth> {
    let pairs = pairs.iter().map(|(key, value)| (*key, value.as_bytes().to_vec()));
    Auth::read(&pairs.collect())
}

#[test]
fn a_secret_has_a_token_or_a_pair() {
    assert!(matches!(read(&[("token", "abc\n"), ("clientId", "x")]).unwrap(), Auth::Static(_)));
    let both = [("clientId", "a"), ("clientSecret", "b")];
    assert!(matches!(read(&both).unwrap(), Auth::Login(_)));
    for wrong in [&[][..], &both[..1], &[("token", " ")], &[("token", "a b")]] {
        let error = read(wrong).unwrap_err();
        assert_eq!(error.field(), Some("spec.credentialSecretRef"), "{wrong:?}");
    }
    let printed = format!("{:?}", read(&[("token", "hunter2")]).unwrap());
    assert!(!printed.contains("hunter2"), "{printed}");
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A login whose tokens last an hour, on a clock of its own.
struct Bench {
    login: Arc<Login>,
    now: Arc<AtomicI64>,
    logins: Arc<AtomicUsize>,
    fails: bool,
}

impl Bench {
    fn new(fails: bool) -> Self {
        let secret = || Secret::from(b"s".to_vec());
        Self {
            login: Arc::new(Login::new(secret(), secret())),
            now: Arc::default(),
            logins: Arc::default(),
            fails,
        }
    }

    async fn grant(&self, stale: Option<u64>) -> Result<Grant> {
        let now = || at(self.now.load(Ordering::Relaxed));
        let log_in = || async {
            // Others get their turn before this one comes to its end.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let number = self.logins.fetch_add(1, Ordering::Relaxed) + 1;
            match self.fails {
                true => Err(Error::new(ErrorKind::Denied, format!("attempt {number}"))),
                false => Ok(Issued {
                    token: Secret::from(number.to_string().into_bytes()),
                    expires: now() + Duration::from_secs(3600),
                }),
            }
        };
        self.login.grant(stale, now, log_in).await
    }
}

#[tokio::test]
async fn all_who_wait_share_one_login() {
    let bench = Bench::new(false);
    let grants = join_all((0..20).map(|_| bench.grant(None))).await;
    assert!(grants.iter().all(|grant| grant.as_ref().unwrap().number == 1));
    assert_eq!(bench.logins.load(Ordering::Relaxed), 1);
    // Twenty that were turned away with the first token have one second token.
    let grants = join_all((0..20).map(|_| bench.grant(Some(1)))).await;
    assert!(grants.iter().all(|grant| grant.as_ref().unwrap().number == 2));
    assert_eq!(bench.logins.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn all_who_wait_share_one_failure() {
    let bench = Bench::new(true);
    let grants = join_all((0..20).map(|_| bench.grant(None))).await;
    assert!(grants.iter().all(|grant| grant.as_ref().unwrap_err().message() == "attempt 1"));
    // Whoever comes later tries again.
    assert_eq!(bench.grant(None).await.unwrap_err().message(), "attempt 2");
}

#[tokio::test]
async fn a_token_is_replaced_five_minutes_early() {
    let bench = Bench::new(false);
    for (second, number) in [(0, 1), (3299, 1), (3300, 2), (3301, 2)] {
        bench.now.store(second, Ordering::Relaxed);
        assert_eq!(bench.grant(None).await.unwrap().number, number, "at {second}");
    }
    assert_eq!(renew_at(at(240), at(0)), at(120), "a short life is used to its half");
}
