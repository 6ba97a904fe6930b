//! The contract of a store engine: a log of versioned writes over string keys.
//!
//! Invariants that every engine keeps:
//! - Every write has a version of its own; versions only grow, also across restarts.
//! - A [`Change`] is published, in version order, before its writer is answered, and after it is
//!   durable.
//! - A commit whose caller goes away still happens whole, change included, or not at all.
//! - A list is a snapshot: all its pages show the state at one version.
//! - Readers and watchers never block a writer.
//! - What a read shows is durable and was published before the read answers.
//!
//! Nothing here assumes that one process has the log for itself. Where several share one (a
//! PostgreSQL engine), versions are given out inside the commit, under one lock of the log, so
//! that they grow in commit order (a sequence would not do: it counts in the order of asking).
//! Every process follows the log by version, woken by a notification or a timer, with the same
//! query that answers [`Engine::changes`], and feeds its own subscribers from what it reads, its
//! own writes included; [`Engine::version`] is how far that process has come, and a write is
//! answered once its own process has come past it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::broadcast;

/// A point in the log.
pub type Version = u64;

/// One key's value at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Arc<str>,
    /// When it was last written.
    pub version: Version,
    /// What was written; opaque to the engine.
    pub value: Bytes,
}

/// What must hold for a key when a write happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists, whatever its version.
    Present,
    /// The key exists and was last written at this version.
    At(Version),
}

/// A write, with what must hold for it.
#[derive(Debug, Clone)]
pub struct Write {
    /// The key that is written.
    pub key: Arc<str>,
    /// What must hold for it.
    pub expect: Expect,
    /// What is written.
    pub action: Action,
    /// What must hold for other keys in the same step.
    pub also: Vec<(Arc<str>, Expect)>,
}

/// What a write does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Sets the value.
    Put(Bytes),
    /// Removes the key; the bytes are its last state, for watchers. Removing a key that does not
    /// exist is a conflict.
    Delete(Bytes),
}

/// One entry of the log, as watchers see it.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its version.
    pub version: Version,
    /// The key.
    pub key: Arc<str>,
    /// The value, or the last state of a removed key.
    pub value: Bytes,
    /// The value before, absent where the key was created.
    pub before: Option<Bytes>,
    /// Whether the key was removed.
    pub deleted: bool,
    /// What the first reader made of it, kept for the others: one encoding for all watchers.
    pub encoded: OnceLock<Bytes>,
}

/// The part of a key before its second slash (the whole key where there is none). Watchers
/// subscribe to one topic, so a write wakes only those that may care.
pub fn topic(key: &str) -> &str {
    let mut slashes = key.match_indices('/');
    match slashes.nth(1) {
        Some((at, _)) => &key[..at],
        None => key,
    }
}

/// A part of the key space, and of its history.
#[derive(Debug, Clone, Default)]
pub struct Range {
    /// Keys begin with this.
    pub prefix: String,
    /// Keys sort after this one (the last of the page before).
    pub after: Option<String>,
    /// At most this many; 0 is no limit.
    pub limit: usize,
    /// The state at this version; absent is the newest.
    pub at: Option<Version>,
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page {
    /// Sorted by key.
    pub records: Vec<Record>,
    /// The version that the page shows.
    pub version: Version,
    /// How many keys of the range follow this page; 0 is none, and where there is no limit.
    pub remaining: u64,
}

/// Why an engine refuses or fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An expectation does not hold; nothing was written.
    #[error("{key} is not as expected")]
    Conflict {
        /// The key it was about.
        key: Arc<str>,
        /// What is there.
        found: Option<Record>,
    },
    /// That version is no longer, or not yet, in the log.
    #[error("version {asked} is not in the log, which holds {oldest} to {newest}")]
    Compacted {
        /// What was asked for.
        asked: Version,
        /// The oldest version that can be asked for.
        oldest: Version,
        /// The newest version there is.
        newest: Version,
    },
    /// The engine cannot be used now; whether a write happened is unknown.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored cannot be read.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
}

/// A store engine.
pub trait Engine: Send + Sync + 'static {
    /// The newest state of a key.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, Error>>;

    /// A page of keys with their values.
    fn list(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>>;

    /// How many keys begin with a prefix, now.
    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, Error>>;

    /// Writes, and answers with the new version once it is durable and published.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Version, Error>>;

    /// Entries of the log under a prefix with versions above `after`, oldest first, at most
    /// `limit` (0 is no limit). The second value is the version up to which the log was read:
    /// the next call goes on from there.
    fn changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Version,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Change>, Version), Error>>;

    /// Every change under a [`topic`] from now on, in version order. A receiver that falls behind
    /// is told so by the channel and goes back to [`Engine::changes`].
    ///
    /// To follow from a version without a gap: subscribe, then read [`Engine::changes`] from that
    /// version to its end, then take from the receiver what is newer than what was read.
    fn subscribe(&self, topic: &str) -> broadcast::Receiver<Arc<Change>>;

    /// The newest version that was published: every change up to it has been handed to its
    /// subscribers. 0 where nothing was ever written; the first write is 1.
    fn version(&self) -> Version;

    /// The oldest version that [`Engine::changes`] and [`Range::at`] can be asked for.
    fn oldest(&self) -> Version;

    /// Forgets history below `before`: states that a later write of the same key replaced. It is
    /// then [`Engine::oldest`], and the state at it can still be read. A version that was
    /// compacted before changes nothing; one that is not yet written is refused.
    fn compact(&self, before: Version) -> BoxFuture<'_, Result<(), Error>>;
}
