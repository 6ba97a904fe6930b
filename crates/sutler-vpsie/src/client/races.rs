//! `auth.rs` once more, on primitives of shuttle: whoever shares a login does so in every order in which
//! their steps can come.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use shuttle::{
    future::{block_on, yield_now},
    thread::spawn,
};
use sutler_provider::{Error, ErrorKind, Result, Secret};

use auth::{Grant, Issued, Login};

mod sync {
    pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};
}

#[path = "auth.rs"]
#[expect(dead_code, reason = "only logging in is shared")]
#[expect(clippy::duplicate_mod, reason = "the point of it is to be the same code")]
mod auth;

/// Orders that are tried at random, each kind.
const ORDERS: usize = 2_000;

/// Tries everything `body` may do at random, and with few changes of turn, which finds what is rare.
fn in_many_orders(body: fn()) {
    shuttle::check_random(body, ORDERS);
    shuttle::check_pct(body, ORDERS, 3);
}

/// What happened, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Somebody needs a token.
    Came(usize),
    /// He logs in.
    LogsIn(usize),
    /// He has what came of it, or of another's.
    Left(usize),
}

/// Some who need tokens at the same time.
#[derive(Clone)]
struct Bench {
    login: Arc<Login>,
    steps: Arc<Mutex<Vec<Step>>>,
    /// How many wait for somebody else who logs in.
    waiting: Arc<AtomicUsize>,
    /// How many have to before he comes to an end.
    until: usize,
    fails: bool,
}

impl Bench {
    fn new(fails: bool, until: usize) -> Self {
        let secret = || Secret::from(b"s".to_vec());
        let login = Arc::new(Login::new(secret(), secret()));
        Self { login, steps: Arc::default(), waiting: Arc::default(), until, fails }
    }

    fn note(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }

    fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }

    fn logins(&self) -> usize {
        self.steps().iter().filter(|step| matches!(step, Step::LogsIn(_))).count()
    }

    async fn grant(self, who: usize, stale: Option<u64>) -> Result<Grant> {
        let now = || Timestamp::UNIX_EPOCH;
        let logs_in = Cell::new(false);
        let log_in = || async {
            logs_in.set(true);
            self.note(Step::LogsIn(who));
            let number = self.logins();
            yield_now().await;
            while self.waiting.load(Ordering::Relaxed) < self.until {
                yield_now().await;
            }
            match self.fails {
                true => Err(Error::new(ErrorKind::Denied, number.to_string())),
                false => Ok(Issued {
                    token: Secret::from(number.to_string().into_bytes()),
                    expires: now() + Duration::from_secs(3600),
                }),
            }
        };
        self.note(Step::Came(who));
        let mut granted = pin!(self.login.grant(stale, now, log_in));
        let mut counted = false;
        let granted = poll_fn(|context| {
            let polled = granted.as_mut().poll(context);
            if polled.is_pending() && !logs_in.get() && !counted {
                counted = true;
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            polled
        });
        let granted = granted.await;
        self.note(Step::Left(who));
        granted
    }

    /// What all of these get, each of whom was turned away with a token or has none.
    fn grants(&self, stale: &[Option<u64>]) -> Vec<Result<Grant>> {
        let tasks = stale.iter().enumerate();
        let tasks: Vec<_> = tasks
            .map(|(who, stale)| {
                let (bench, stale) = (self.clone(), *stale);
                spawn(move || block_on(bench.grant(who, stale)))
            })
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    }
}

/// What those are told whose logins fail, by the number of the attempt.
fn told(bench: &Bench, count: usize) -> Vec<usize> {
    let grants = bench.grants(&vec![None; count]).into_iter();
    grants.map(|grant| grant.unwrap_err().message().parse().unwrap()).collect()
}

#[test]
fn one_login_is_shared_in_every_order() {
    in_many_orders(|| {
        let bench = Bench::new(false, 0);
        let grants = bench.grants(&[None; 3]);
        assert!(grants.iter().all(|grant| grant.as_ref().unwrap().number == 1), "{grants:?}");
        assert_eq!(bench.logins(), 1);
        // Two are turned away, and a third has not heard of it.
        let grants = bench.grants(&[Some(1), Some(1), None]);
        let numbers: Vec<u64> = grants.iter().map(|grant| grant.as_ref().unwrap().number).collect();
        assert!(numbers[..2] == [2, 2] && matches!(numbers[2], 1 | 2), "{numbers:?}");
        assert_eq!(bench.logins(), 2);
    });
}

#[test]
fn one_failure_is_shared_by_all_who_wait_for_it() {
    in_many_orders(|| {
        let bench = Bench::new(true, 3);
        assert_eq!(told(&bench, 4), [1; 4]);
        assert_eq!(bench.logins(), 1);
    });
}

#[test]
fn nobody_is_told_of_a_failure_that_was_over_before_he_came() {
    in_many_orders(|| {
        let bench = Bench::new(true, 0);
        let told = told(&bench, 4);
        let steps = bench.steps();
        let at = |step: Step| steps.iter().position(|other| *other == step).unwrap();
        let attempts = steps.iter().filter_map(|step| match step {
            Step::LogsIn(who) => Some(*who),
            Step::Came(_) | Step::Left(_) => None,
        });
        let attempts: Vec<usize> = attempts.collect();
        for (who, attempt) in told.into_iter().enumerate() {
            let over = at(Step::Left(attempts[attempt - 1]));
            assert!(at(Step::Came(who)) < over, "{who} is told of attempt {attempt}: {steps:?}");
        }
    });
}
