//! The connection to a host: opened when it is needed, opened again when it was lost, and never waited
//! for longer than its deadline.
//!
//! libvirt's calls block. Each runs on a thread of its own, and no more than [`SLOTS`] do so at the same
//! time, so that a host that hangs holds up these and nothing else. A call that nobody waits for any more
//! keeps its slot until libvirt answers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sutler_provider::{Error, ErrorKind, Result};
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use virt::connect::Connect;

use crate::{
    endpoint::Endpoint,
    fault::{Done, Fault, refusal},
    raw::{self, Listening, Signal},
};

/// Calls of one connection that may block at the same time; a host lets one connection have five.
const SLOTS: usize = 5;
/// Slots that tasks may have: a request finds one however many machines are being started.
const TASK_SLOTS: usize = 4;
/// How long a call may wait for its slot.
const TURN: Duration = Duration::from_secs(20);
/// How long a task may wait for its slot, which nobody waits for in turn.
const TASK_TURN: Duration = Duration::from_secs(600);
/// Long calls that have a connection of their own.
const LONG_SLOTS: usize = 8;
/// How long opening a connection may take.
const OPENING: Duration = Duration::from_secs(20);
/// How long a look may take.
const LOOK: Duration = Duration::from_secs(20);
/// How long a look at everything may take.
const SURVEY: Duration = Duration::from_secs(75);
/// How long a change may take.
const CHANGE: Duration = Duration::from_secs(45);
/// How long a change may take that a task makes.
const TASK: Duration = Duration::from_secs(120);
/// Seconds between two questions whether the other end is there, and how many may go unanswered.
const KEEPALIVE: (i32, u32) = (5, 3);

/// A host, as far as it can be reached.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    /// For looks, and for what the host tells.
    looks: Line,
    /// For changes, which may take long: looks do not wait behind them.
    changes: Line,
    /// For changes that tasks make.
    tasks: Semaphore,
    long: Arc<Semaphore>,
    signals: mpsc::UnboundedSender<Signal>,
}

/// A connection that is opened when it is needed.
struct Line {
    slots: Arc<Semaphore>,
    current: Mutex<Option<Arc<Session>>>,
    opening: tokio::sync::Mutex<()>,
}

impl Line {
    fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(SLOTS)),
            current: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Session>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection with what it tells.
struct Session {
    connect: Connect,
    /// A driver without events has none.
    listening: Option<Listening>,
}

impl Drop for Session {
    /// Leaving talks to the host, which may take its time: whoever happens to be the last to hold the
    /// session does not wait for that.
    fn drop(&mut self) {
        let (connect, listening) = (self.connect.clone(), self.listening.take());
        let leave = move || drop((listening, connect));
        let thread = std::thread::Builder::new().name("libvirt-leave".to_owned());
        if let Err(error) = thread.spawn(leave) {
            tracing::warn!("a connection is left in place: {error}");
        }
    }
}

/// Whether a call that got no answer can have changed something.
#[derive(Clone, Copy)]
enum Kind {
    Look,
    Change,
}

impl Link {
    /// A link to a host, and what it tells by itself.
    pub(crate) fn new(endpoint: Endpoint) -> (Self, mpsc::UnboundedReceiver<Signal>) {
        let (signals, told) = mpsc::unbounded_channel();
        let inner = Inner {
            endpoint,
            looks: Line::new(),
            changes: Line::new(),
            tasks: Semaphore::new(TASK_SLOTS),
            long: Arc::new(Semaphore::new(LONG_SLOTS)),
            signals,
        };
        (Self(Arc::new(inner)), told)
    }

    /// Runs a job that only looks.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connect) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        self.run(Kind::Look, TURN, LOOK, job).await
    }

    /// Runs a job that looks at everything.
    pub(crate) async fn survey<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connect) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        self.run(Kind::Look, TURN, SURVEY, job).await
    }

    /// Runs a job that changes something. Without an answer its outcome is not known.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connect) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        self.run(Kind::Change, TURN, CHANGE, job).await
    }

    /// Runs a job that changes something for a task, which can wait.
    pub(crate) async fn change_in_task<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connect) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        let _one = self.0.tasks.acquire().await.map_err(closed)?;
        self.run(Kind::Change, TASK_TURN, TASK, job).await
    }

    /// Runs a job that may take as long as it takes, over a connection of its own, so that short ones
    /// are not kept waiting behind it.
    pub(crate) async fn long<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connect) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.0.long.clone().acquire_owned().await.map_err(closed)?;
        // A driver within this process has its state in the one connection that is open.
        let shared = match self.0.endpoint.is_within() {
            true => Some(self.session(Kind::Look).await?),
            false => None,
        };
        let endpoint = self.0.endpoint.clone();
        let work = move || -> Done<T> {
            let _permit = permit;
            match shared {
                Some(session) => job(&session.connect),
                None => job(&open(&endpoint)?),
            }
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(Error::from),
            Err(panic) => Err(Error::internal(format!("a job on libvirt failed: {panic}"))),
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        turn: Duration,
        within: Duration,
        job: impl FnOnce(&Connect) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        let hung = || {
            let why = format!(
                "{} does not answer: all {SLOTS} calls at once are under way",
                self.0.endpoint
            );
            Error::unavailable(why)
        };
        let slot = timeout(turn, self.line(kind).slots.clone().acquire_owned());
        let slot = slot.await.map_err(|_| hung())?.map_err(closed)?;
        let session = self.session(kind).await?;
        let used = session.clone();
        let work = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            job(&used.connect)
        });
        let ended = match timeout(within, work).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => {
                return Err(Error::internal(format!("a job on libvirt failed: {panic}")));
            }
            Err(_) => {
                self.forget(kind, &session);
                let why = format!("{} has not answered within {within:?}", self.0.endpoint);
                return Err(kind.unanswered(why));
            }
        };
        ended.map_err(|fault| {
            if !fault.connection {
                return fault.error;
            }
            self.forget(kind, &session);
            kind.unanswered(format!("{}: {}", self.0.endpoint, fault.error.message()))
        })
    }

    fn line(&self, kind: Kind) -> &Line {
        match kind {
            Kind::Look => &self.0.looks,
            Kind::Change => &self.0.changes,
        }
    }

    /// The connection, opened where there is none.
    async fn session(&self, kind: Kind) -> Result<Arc<Session>> {
        let line = self.line(kind);
        let current = || line.lock().clone();
        if let Some(session) = current() {
            return Ok(session);
        }
        let _one = line.opening.lock().await;
        if let Some(session) = current() {
            return Ok(session);
        }
        let (endpoint, signals) = (self.0.endpoint.clone(), self.0.signals.clone());
        let opening = tokio::task::spawn_blocking(move || -> Done<Session> {
            let connect = open(&endpoint)?;
            let listening = match kind {
                Kind::Change => None,
                Kind::Look => match Listening::begin(&connect, &signals) {
                    Ok(listening) => Some(listening),
                    Err(error) => {
                        let why = error.message();
                        tracing::warn!(%endpoint, "the host tells of no changes: {why}");
                        None
                    }
                },
            };
            Ok(Session { connect, listening })
        });
        let opened = match timeout(OPENING, opening).await {
            Ok(Ok(opened)) => opened.map_err(Error::from)?,
            Ok(Err(panic)) => return Err(Error::internal(format!("opening failed: {panic}"))),
            Err(_) => {
                let why = format!("{} has not answered within {OPENING:?}", self.0.endpoint);
                return Err(Error::unavailable(why));
            }
        };
        tracing::info!(endpoint = %self.0.endpoint, "connected");
        let session = Arc::new(opened);
        *line.lock() = Some(session.clone());
        Ok(session)
    }

    /// Takes a connection that is of no use any more out of the way.
    fn forget(&self, kind: Kind, session: &Arc<Session>) {
        let mut current = self.line(kind).lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
            if session.listening.is_some() {
                drop(self.0.signals.send(Signal::Closed));
            }
        }
    }

    /// Takes the connection out of the way after it has said that it ended.
    pub(crate) fn ended(&self) {
        self.0.looks.lock().take();
    }

    /// The host's address, without what is secret.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }
}

impl Kind {
    fn unanswered(self, why: String) -> Error {
        match self {
            Self::Look => Error::unavailable(why),
            Self::Change => Error::indeterminate(why),
        }
    }
}

fn closed(_: tokio::sync::AcquireError) -> Error {
    Error::internal("the slots of a connection are closed")
}

fn open(endpoint: &Endpoint) -> Done<Connect> {
    raw::start_loop().map_err(|why| Error::internal(format!("libvirt's event loop: {why}")))?;
    let connect = Connect::open(Some(endpoint.uri())).map_err(|error| {
        let fault = Fault::from(error);
        let said = fault.error.message();
        let (kind, why, field) = match (refusal(said), fault.error.kind()) {
            (Some(why), _) => (ErrorKind::Denied, why, "spec.credentialSecretRef"),
            (None, ErrorKind::Denied) => (ErrorKind::Denied, said, "spec.endpoint"),
            (None, _) => (ErrorKind::Unavailable, said, "spec.endpoint"),
        };
        Fault::of_connection(
            Error::new(kind, format!("{endpoint} cannot be reached: {why}")).at(field),
        )
    })?;
    // Drivers within this process have nobody to keep alive.
    if let Err(error) = connect.set_keep_alive(KEEPALIVE.0, KEEPALIVE.1) {
        tracing::debug!(%endpoint, "no keepalive: {}", error.message());
    }
    Ok(connect)
}
