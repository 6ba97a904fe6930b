//! Connections to a host: opened when they are needed, opened again when they were lost, and never waited
//! for longer than a deadline.
//!
//! libvirt's calls block. Each runs on a thread of its own, and no more than [`SLOTS`] of a kind do so at the
//! same time, so that a host that hangs holds up these and nothing else. A call that nobody waits for any
//! more keeps its slot until libvirt answers, or notices that the host does not.
//!
//! Each call has a connection to itself. In libvirt before 9.8 (CVE-2024-4418), calls that share one and
//! lose it leave their threads with what was on each other's stacks. What the host tells by itself comes
//! over one more, on which nothing is called.

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

/// Calls of a kind that may block at the same time, each over a connection of its own.
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
    /// For looks.
    looks: Line,
    /// For changes, which may take long: looks do not wait behind them.
    changes: Line,
    /// For changes that tasks make.
    tasks: Semaphore,
    long: Arc<Semaphore>,
    /// For what the host tells.
    ears: Mutex<Option<Arc<Session>>>,
    opening: tokio::sync::Mutex<()>,
    signals: mpsc::UnboundedSender<Signal>,
}

/// Connections for calls of one kind.
struct Line {
    slots: Arc<Semaphore>,
    /// Those that nobody uses at the moment.
    idle: Arc<Mutex<Vec<Connect>>>,
}

impl Line {
    fn new() -> Self {
        Self { slots: Arc::new(Semaphore::new(SLOTS)), idle: Arc::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection with what it tells.
struct Session {
    connect: Connect,
    /// A driver without events has none.
    listening: Option<Listening>,
}

impl Drop for Session {
    /// Whoever happens to be the last to hold the session does not wait for its end.
    fn drop(&mut self) {
        leave((self.listening.take(), self.connect.clone()));
    }
}

/// Leaves a connection. That talks to the host, which may take its time.
fn leave(connection: impl Send + 'static) {
    let thread = std::thread::Builder::new().name("libvirt-leave".to_owned());
    if let Err(error) = thread.spawn(move || drop(connection)) {
        tracing::warn!("a connection is left in place: {error}");
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
            ears: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
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
        let shared = self.within().await?;
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
        let line = self.line(kind);
        let slot = timeout(turn, line.slots.clone().acquire_owned());
        let slot = slot.await.map_err(|_| hung())?.map_err(closed)?;
        // Who looks also wants to hear what happens.
        let ears = match kind {
            Kind::Look => Some(self.ears().await?),
            Kind::Change => None,
        };
        let connection = match self.within().await? {
            Some(session) => Connection { connect: session.connect.clone(), idle: None },
            None => {
                Connection { connect: self.connection(line).await?, idle: Some(line.idle.clone()) }
            }
        };
        let work = tokio::task::spawn_blocking(move || {
            let _held = (slot, ears);
            let done = job(&connection.connect);
            connection.after(&done);
            done
        });
        let ended = match timeout(within, work).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => {
                return Err(Error::internal(format!("a job on libvirt failed: {panic}")));
            }
            Err(_) => {
                let why = format!("{} has not answered within {within:?}", self.0.endpoint);
                return Err(kind.unanswered(why));
            }
        };
        ended.map_err(|fault| match fault.connection {
            false => fault.error,
            true => kind.unanswered(format!("{}: {}", self.0.endpoint, fault.error.message())),
        })
    }

    fn line(&self, kind: Kind) -> &Line {
        match kind {
            Kind::Look => &self.0.looks,
            Kind::Change => &self.0.changes,
        }
    }

    /// The one connection of a driver within this process, which has its state in it. There is no wire, and
    /// calls may share it.
    async fn within(&self) -> Result<Option<Arc<Session>>> {
        match self.0.endpoint.is_within() {
            true => self.ears().await.map(Some),
            false => Ok(None),
        }
    }

    /// A connection that nobody uses, opened where there is none.
    async fn connection(&self, line: &Line) -> Result<Connect> {
        loop {
            let Some(connect) = lock(&line.idle).pop() else { break };
            // One that has ended meanwhile would leave the outcome of a change open.
            if connect.is_alive().unwrap_or_default() {
                return Ok(connect);
            }
            leave(connect);
        }
        let endpoint = self.0.endpoint.clone();
        self.opened(move || open(&endpoint)).await
    }

    /// What the host tells, listened to where nobody does yet.
    async fn ears(&self) -> Result<Arc<Session>> {
        let current = || lock(&self.0.ears).clone();
        if let Some(session) = current() {
            return Ok(session);
        }
        let _one = self.0.opening.lock().await;
        if let Some(session) = current() {
            return Ok(session);
        }
        let (endpoint, signals) = (self.0.endpoint.clone(), self.0.signals.clone());
        let session = self.opened(move || {
            let connect = open(&endpoint)?;
            let listening = Listening::begin(&connect, &signals).inspect_err(|error| {
                tracing::warn!(%endpoint, "the host tells of no changes: {}", error.message());
            });
            Ok(Session { connect, listening: listening.ok() })
        });
        let session = Arc::new(session.await?);
        tracing::info!(endpoint = %self.0.endpoint, "connected");
        *lock(&self.0.ears) = Some(session.clone());
        Ok(session)
    }

    /// Opens a connection, within its deadline.
    async fn opened<T: Send + 'static>(
        &self,
        open: impl FnOnce() -> Done<T> + Send + 'static,
    ) -> Result<T> {
        match timeout(OPENING, tokio::task::spawn_blocking(open)).await {
            Ok(Ok(opened)) => opened.map_err(Error::from),
            Ok(Err(panic)) => Err(Error::internal(format!("opening failed: {panic}"))),
            Err(_) => {
                let why = format!("{} has not answered within {OPENING:?}", self.0.endpoint);
                Err(Error::unavailable(why))
            }
        }
    }

    /// Takes connections out of the way after one has said that it ended.
    pub(crate) fn ended(&self) {
        drop(lock(&self.0.ears).take());
        for line in [&self.0.looks, &self.0.changes] {
            leave(std::mem::take(&mut *lock(&line.idle)));
        }
    }

    /// The host's address, without what is secret.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }
}

/// A connection while a call has it.
struct Connection {
    connect: Connect,
    /// Where it goes afterwards; nowhere if it was not taken from there.
    idle: Option<Arc<Mutex<Vec<Connect>>>>,
}

impl Connection {
    /// Lets others have it, unless it was lost.
    fn after<T>(self, done: &Done<T>) {
        let Self { connect, idle } = self;
        let lost = matches!(done, Err(fault) if fault.connection);
        match idle.filter(|_| !lost) {
            Some(idle) => lock(&idle).push(connect),
            None => drop(connect),
        }
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
