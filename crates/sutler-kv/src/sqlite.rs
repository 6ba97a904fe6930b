//! The engine on SQLite: one file, and every acknowledged write is on disk.
//!
//! One thread writes. It takes what is queued, up to a bound, into one transaction (a group
//! commit): one sync of the write-ahead log pays for all of them. After the commit it publishes
//! the changes, then answers. Other threads read, each a snapshot of its own, and neither side
//! waits for the other.
//!
//! The log is the only copy of a value. One index over key and version finds the newest state of
//! a key, its state at a version, and the keys of a list; a list reads the history of its keys
//! along with them, which compaction keeps short. A table of the newest versions would make first
//! pages cheaper to count, and cost a third of the write throughput.
//!
//! Costs: a write is an append, one index entry and, where it replaces a value, a read of that;
//! a page is its index entries and values; what follows the page is counted once per list (an
//! index walk over the rest), not per page. Compaction costs what was written since the last.

mod background;
mod batch;
mod read;
mod readers;
mod schema;
mod seals;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use futures::future::BoxFuture;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::crypto::{KeyError, Keyring};
use crate::engine::{Action, Change, Engine, Error, Page, Range, Record, Version, Write};
use crate::remaining::Remaining;
use crate::stats::Stats;
use crate::topics::Topics;

use readers::Readers;
use seals::Seals;
use writer::{Command, Writer};

/// What SQLite takes, with room to spare. It is checked before the queue, because what SQLite
/// refuses fails the whole commit.
const VALUE_MAX: usize = 256 << 20;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many writes go into one commit at most. More share a sync, but the first waits for
    /// the last.
    pub batch: usize,
    /// How many writes may wait for the writer; more than that wait to be queued.
    pub queue: usize,
    /// How many changes of a topic a subscriber may fall behind.
    pub channel: usize,
    /// Bytes of page cache, all connections together.
    pub cache: usize,
    /// How many threads read lists and history, and how many connections read single keys.
    pub readers: usize,
    /// How many bytes the database may grow to; what does not fit is refused.
    pub size_max: Option<u64>,
    /// Values of keys with these prefixes are sealed; needs a keyring.
    pub encrypt: Vec<String>,
    /// What seals and opens them.
    pub keyring: Option<Keyring>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch: 256,
            queue: 1024,
            channel: 1024,
            cache: 8 << 20,
            readers: 2,
            size_max: None,
            encrypt: Vec::new(),
            keyring: None,
        }
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or its lock cannot be made.
    #[error("cannot use {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("{path} is in use by another process: stop that one first")]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// It was written by a newer release.
    #[error(
        "{path} has schema {found}, and this release knows up to {known}: use the release that \
         wrote it, or a newer one"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that is known here.
        known: i64,
    },
    /// It is a database of something else.
    #[error("{path} is not a database of this store: choose another path")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// The keys that were given do not fit.
    #[error("the encryption keys do not fit the store {path}: {source}")]
    Keys {
        /// The database.
        path: PathBuf,
        /// What is wrong with them.
        source: KeyError,
    },
    /// SQLite refuses it.
    #[error("cannot open the database {path}")]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread for the store")]
    Thread(#[source] std::io::Error),
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        Self::Unavailable(match (&error, cause) {
            // Its text has the cause.
            (OpenError::Keys { .. }, _) | (_, None) => error.to_string(),
            (_, Some(cause)) => format!("{error}: {cause}"),
        })
    }
}

/// Why values cannot be sealed anew.
#[derive(Debug, thiserror::Error)]
pub enum ResealError {
    /// The keys that were given do not fit.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] Error),
}

/// A store in one SQLite file. Dropping it ends its threads, after what is queued is written.
#[derive(Debug)]
pub struct Sqlite {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
    /// Absent only while it is being dropped.
    commands: Option<mpsc::Sender<Command>>,
    readers: Readers,
    writer: Option<JoinHandle<()>>,
    /// Held until everything else is gone; fields are dropped in order.
    _lock: File,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    topics: Topics,
    remaining: Remaining,
    seals: Seals,
    oldest: AtomicU64,
    stats: Arc<Stats>,
}

/// How far the writer is.
#[derive(Debug, Clone, Default)]
struct Progress {
    published: Version,
    /// Why it takes no more writes.
    failed: Option<Arc<str>>,
}

impl Sqlite {
    /// Opens a store, or makes it. It is migrated, its keys are checked, and values that are to
    /// be sealed and are not yet (a prefix is new) are sealed before this returns. Blocks.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let lock = schema::lock(path)?;
        let mut connection = schema::open(path, &options)?;
        let seals = Seals::open(&mut connection, &options).map_err(|error| error.at(path))?;
        let state = schema::state(&connection)
            .map_err(|source| OpenError::Database { path: path.to_owned(), source })?;
        let shared = Arc::new(Shared {
            topics: Topics::new(options.channel),
            remaining: Remaining::default(),
            seals,
            oldest: AtomicU64::new(state.oldest),
            stats: Arc::default(),
        });
        let progress = Progress { published: state.newest, failed: None };
        let (report, progress) = watch::channel(progress);
        let (commands, queue) = mpsc::channel(options.queue.max(1));
        let readers = Readers::start(path, &options, &shared)?;
        let writer = Writer::new(connection, shared.clone(), report, &options, state)
            .map_err(|source| OpenError::Database { path: path.to_owned(), source })?;
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(OpenError::Thread)?;
        Ok(Self {
            shared,
            progress,
            commands: Some(commands),
            readers,
            writer: Some(writer),
            _lock: lock,
        })
    }

    /// Why the store takes no more writes, if so: the disk failed in a way that leaves open what
    /// is on it. Reads go on; opening the store again is the way out.
    pub fn failure(&self) -> Option<String> {
        self.progress.borrow().failed.as_deref().map(str::to_owned)
    }

    /// What it counts.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.shared.stats
    }

    /// Seals every sealed value anew with the newest key of `keyring`, which must have the keys
    /// in use, while the store serves. When this is done, older keys are needed no more. After a
    /// crash, doing it again goes on where it was.
    pub async fn reseal(&self, keyring: Keyring) -> Result<(), ResealError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Reseal { keyring, reply }).await?;
        answer.await.map_err(|_| gone())?
    }

    /// Makes a new key, puts it in the key file, seals everything anew with it and takes the old
    /// keys out of the file. After a crash at any point the file opens the store, and doing it
    /// again ends it.
    pub async fn rotate(&self, key_file: &Path) -> Result<(), ResealError> {
        let keyring = Keyring::load(key_file)?.with_new_key();
        keyring.save(key_file)?;
        self.reseal(keyring.clone()).await?;
        Ok(keyring.newest_only().save(key_file)?)
    }

    async fn send(&self, command: Command) -> Result<(), Error> {
        let commands = self.commands.as_ref().ok_or_else(gone)?;
        commands.send(command).await.map_err(|_| gone())
    }

    /// Waits until what a reader saw is published: a commit is visible to readers a moment before
    /// its changes are out.
    async fn published(&self, seen: Version) -> Result<(), Error> {
        if self.progress.borrow().published >= seen {
            return Ok(());
        }
        let mut progress = self.progress.clone();
        let reached = progress
            .wait_for(|progress| progress.published >= seen || progress.failed.is_some())
            .await
            .map_err(|_| gone())?;
        match &reached.failed {
            Some(why) if reached.published < seen => Err(Error::Unavailable(why.to_string())),
            _ => Ok(()),
        }
    }
}

impl Engine for Sqlite {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        Box::pin(async move {
            let record = self.readers.get(key).await?;
            if let Some(record) = &record {
                self.published(record.version).await?;
            }
            Ok(record)
        })
    }

    fn list(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(async move {
            let page = self.readers.run(move |reader| reader.list(&range)).await?;
            self.published(page.version).await?;
            Ok(page)
        })
    }

    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, Error>> {
        let prefix = prefix.to_owned();
        Box::pin(async move {
            let (count, version) = self.readers.run(move |reader| reader.count(&prefix)).await?;
            self.published(version).await?;
            Ok(count)
        })
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Version, Error>> {
        Box::pin(async move {
            let (Action::Put(value) | Action::Delete(value)) = &write.action;
            if value.len() > VALUE_MAX {
                let why = format!("a value of {} bytes is too large for it", value.len());
                return Err(Error::Unavailable(why));
            }
            let (reply, answer) = oneshot::channel();
            // Once this is queued it happens, whether or not anybody waits for the answer.
            self.send(Command::Write { write, reply }).await?;
            answer.await.map_err(|_| gone())?
        })
    }

    fn changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Version,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Change>, Version), Error>> {
        let prefix = prefix.to_owned();
        Box::pin(async move {
            let read = move |reader: &mut read::Reader| reader.changes(&prefix, after, limit);
            let (changes, version) = self.readers.run(read).await?;
            self.published(version).await?;
            Ok((changes, version))
        })
    }

    fn subscribe(&self, topic: &str) -> broadcast::Receiver<Arc<Change>> {
        self.shared.topics.subscribe(topic)
    }

    fn version(&self) -> Version {
        self.progress.borrow().published
    }

    fn oldest(&self) -> Version {
        self.shared.oldest.load(Ordering::Acquire)
    }

    fn compact(&self, before: Version) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.send(Command::Compact { before, reply }).await?;
            answer.await.map_err(|_| gone())?
        })
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Readers first: the last connection to close moves the write-ahead log into the database.
        self.readers.stop();
        drop(self.commands.take());
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store had panicked");
        }
    }
}

/// The answer where a thread of the store has ended.
fn gone() -> Error {
    Error::Unavailable("its thread has ended".to_owned())
}

/// What an error of SQLite means to a reader.
fn failed(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => Error::Corrupt(error.to_string()),
        _ => Error::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
