//! The thread that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};

use super::schema::State;
use super::seals::{SealError, check, register, reseal_chunk, truncate_wal};
use super::{Options, Progress, ResealError, Shared, background, batch};
use crate::crypto::Keyring;
use crate::engine::{Change, Error, Version, Write};

/// How many pages the write-ahead log grows by before it is moved into the database: 16 MB. A page
/// of the index changes with every few writes and is moved once for all of them, so more is less
/// work; after a crash it is read once, which takes some 10 ms.
const CHECKPOINT: u32 = 2000;

/// How many pages it may have before that waits for readers, who otherwise could keep it from
/// being started anew for ever.
const CHECKPOINT_LATE: u32 = 8 * CHECKPOINT;

/// How long it then waits at most.
const READERS_WAIT: Duration = Duration::from_millis(50);

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Command {
    Write { write: Write, reply: Reply<Version> },
    Compact { before: Version, reply: Reply<()> },
    Reseal { keyring: Keyring, reply: oneshot::Sender<Result<(), ResealError>> },
}

type Reply<T> = oneshot::Sender<Result<T, Error>>;

pub(super) struct Writer {
    connection: Connection,
    shared: Arc<Shared>,
    report: watch::Sender<Progress>,
    batch: usize,
    /// The last version that was given out. One that a failed commit had is not given out again,
    /// as it may still turn up after a restart.
    version: Version,
    oldest: Version,
    swept: Version,
    /// Who waits for compaction to end.
    compacting: Vec<Reply<()>>,
    /// Whether there is something left to sweep.
    sweeping: bool,
    /// Who waits for values to be sealed anew.
    resealing: Vec<oneshot::Sender<Result<(), ResealError>>>,
    /// How many pages the write-ahead log has, and how many of them are in the database.
    pages: Arc<AtomicU32>,
    checkpointed: u32,
}

impl Writer {
    pub(super) fn new(
        mut connection: Connection,
        shared: Arc<Shared>,
        report: watch::Sender<Progress>,
        options: &Options,
        state: State,
    ) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let seen = pages.clone();
        // In the place of SQLite's own checkpoint, which would run inside a commit: here those who
        // wait for the commit are answered first.
        connection.wal_hook(Some(move |_: &mut _, pages| {
            seen.store(u32::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        }))?;
        let State { newest, oldest, swept } = state;
        Ok(Self {
            connection,
            shared,
            report,
            batch: options.batch.max(1),
            version: newest,
            oldest,
            swept,
            compacting: Vec::new(),
            // A crash may have left something.
            sweeping: true,
            resealing: Vec::new(),
            pages,
            checkpointed: 0,
        })
    }

    /// Works until nobody can ask any more and everything that was asked is done.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        let mut writes = Vec::with_capacity(self.batch);
        let mut others = Vec::new();
        while self.gather(&mut queue, &mut writes, &mut others) {
            if !writes.is_empty() {
                self.write(&mut writes);
            }
            for command in others.drain(..) {
                match command {
                    Command::Write { .. } => {}
                    Command::Compact { before, reply } => self.compact(before, reply),
                    Command::Reseal { keyring, reply } => self.reseal(&keyring, reply),
                }
            }
            self.sweep();
            self.reseal_some();
            self.checkpoint();
        }
    }

    /// Takes what is queued, up to a bound; waits where there is nothing to do. Says whether
    /// there may be more later.
    fn gather(
        &self,
        queue: &mut mpsc::Receiver<Command>,
        writes: &mut Vec<(Write, Reply<Version>)>,
        others: &mut Vec<Command>,
    ) -> bool {
        let busy = self.sweeping || !self.resealing.is_empty();
        let mut next = if busy {
            match queue.try_recv() {
                Ok(command) => Some(command),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return false,
            }
        } else {
            match queue.blocking_recv() {
                Some(command) => Some(command),
                None => return false,
            }
        };
        while let Some(command) = next {
            match command {
                Command::Write { write, reply } => writes.push((write, reply)),
                other => others.push(other),
            }
            next = if writes.len() < self.batch { queue.try_recv().ok() } else { None };
        }
        true
    }

    /// Commits what was gathered, publishes it, then answers. Where the commit fails, nobody of
    /// them is told more than that: what one saw of another was not written either.
    fn write(&mut self, writes: &mut Vec<(Write, Reply<Version>)>) {
        let (writes, replies): (Vec<_>, Vec<_>) = writes.drain(..).unzip();
        let begun = Instant::now();
        let outcomes = match self.failed() {
            Some(why) => Err(why),
            None => self.commit(writes).map_err(|error| self.trouble(&error)),
        };
        match outcomes {
            Ok(outcomes) => {
                let changes = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
                let written = changes.clone().count();
                let refused = outcomes.len() - written;
                self.shared.stats.committed(written as u64, refused as u64, begun.elapsed());
                if let Some(last) = changes.clone().next_back() {
                    self.shared.topics.publish(changes.cloned());
                    // After the changes are out: who sees this version has been handed them.
                    self.report.send_modify(|progress| progress.published = last.version);
                }
                for (outcome, reply) in outcomes.into_iter().zip(replies) {
                    reply.send(outcome.map(|change| change.version)).ok();
                }
            }
            Err(why) => {
                self.shared.stats.commit_failed(replies.len() as u64);
                for reply in replies {
                    reply.send(Err(Error::Unavailable(why.to_string()))).ok();
                }
            }
        }
    }

    fn commit(&mut self, writes: Vec<Write>) -> rusqlite::Result<Vec<Result<Arc<Change>, Error>>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut any = false;
        let mut heads = batch::Heads::new();
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for write in writes {
            let seals = &self.shared.seals;
            let outcome = batch::apply(&transaction, seals, &mut heads, self.version + 1, write)?;
            if outcome.is_ok() {
                any = true;
                self.version += 1;
            }
            outcomes.push(outcome);
        }
        if any {
            transaction.commit()?;
        } else {
            transaction.rollback()?;
        }
        Ok(outcomes)
    }

    fn compact(&mut self, before: Version, reply: Reply<()>) {
        match self.mark(before) {
            Ok(()) => {
                self.sweeping = true;
                self.compacting.push(reply);
            }
            Err(error) => {
                reply.send(Err(error)).ok();
            }
        }
    }

    /// Moves the oldest version that can be asked for, before anything is deleted.
    fn mark(&mut self, before: Version) -> Result<(), Error> {
        if let Some(why) = self.failed() {
            return Err(Error::Unavailable(why.to_string()));
        }
        let newest = self.report.borrow().published;
        if before > newest {
            return Err(Error::Compacted { asked: before, oldest: self.oldest, newest });
        }
        if before > self.oldest {
            let marked = self.connection.execute("UPDATE state SET oldest = ?1", [before]);
            marked.map_err(|error| Error::Unavailable(self.trouble(&error).to_string()))?;
            self.oldest = before;
            self.shared.oldest.store(before, Ordering::Release);
        }
        Ok(())
    }

    fn sweep(&mut self) {
        if !self.sweeping {
            return;
        }
        // The newest row stays, so that versions go on after it.
        let newest = self.report.borrow().published;
        let target = self.oldest.min(newest.saturating_sub(1));
        let result = match self.failed() {
            Some(why) => Err(why),
            None if self.swept >= target => Ok(self.swept),
            None => background::sweep(&mut self.connection, self.swept, target)
                .map_err(|error| self.trouble(&error)),
        };
        if let Ok(swept) = result {
            self.swept = swept;
            if swept < target {
                return;
            }
        }
        self.sweeping = false;
        if result.is_ok() && !self.compacting.is_empty() {
            self.shared.stats.compacted();
        }
        for reply in self.compacting.drain(..) {
            let result = result.as_ref().map(|_| ());
            reply.send(result.map_err(|why| Error::Unavailable(why.to_string()))).ok();
        }
    }

    fn reseal(&mut self, keyring: &Keyring, reply: oneshot::Sender<Result<(), ResealError>>) {
        let begun = match self.failed() {
            Some(why) => Err(Error::Unavailable(why.to_string()).into()),
            None => self.begin_reseal(keyring).map_err(|error| self.reseal_error(error)),
        };
        match begun {
            Ok(()) => self.resealing.push(reply),
            Err(error) => {
                reply.send(Err(error)).ok();
            }
        }
    }

    fn begin_reseal(&mut self, keyring: &Keyring) -> Result<(), SealError> {
        check(&self.connection, Some(keyring))?;
        register(&self.connection, keyring)?;
        // What a value had before must not stay in the free space of its page.
        self.connection.pragma_update(None, "secure_delete", true)?;
        self.shared.seals.add(keyring);
        Ok(())
    }

    fn reseal_some(&mut self) {
        if self.resealing.is_empty() {
            return;
        }
        let more = match (self.failed(), self.shared.seals.keyring()) {
            (Some(why), _) => Err(Error::Unavailable(why.to_string()).into()),
            (None, None) => Ok(false),
            (None, Some(keyring)) => reseal_chunk(&mut self.connection, &keyring)
                .map_err(|error| self.reseal_error(error)),
        };
        let result = match more {
            Ok(true) => return,
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        let ended = self.connection.pragma_update(None, "secure_delete", false);
        if let Err(error) = ended.and_then(|()| truncate_wal(&self.connection)) {
            tracing::warn!(%error, "cannot empty the write-ahead log after sealing anew");
        }
        let failed = result.as_ref().err().map(ToString::to_string);
        let mut replies = self.resealing.drain(..);
        if let Some(first) = replies.next() {
            first.send(result).ok();
        }
        for reply in replies {
            let result = match &failed {
                None => Ok(()),
                Some(why) => Err(Error::Unavailable(why.clone()).into()),
            };
            reply.send(result).ok();
        }
    }

    fn reseal_error(&self, error: SealError) -> ResealError {
        match error {
            SealError::Keys(error) => error.into(),
            SealError::Database(error) => {
                Error::Unavailable(self.trouble(&error).to_string()).into()
            }
        }
    }

    /// Moves the write-ahead log into the database when it has grown. Where that fails nothing is
    /// lost: the log stays.
    fn checkpoint(&mut self) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.checkpointed {
            // It was started anew.
            self.checkpointed = 0;
        }
        if pages - self.checkpointed < CHECKPOINT {
            return;
        }
        self.checkpointed = pages;
        let run = |mode| {
            let sql = format!("PRAGMA wal_checkpoint({mode})");
            self.connection.query_row(&sql, [], |_| Ok(()))
        };
        let result = if pages < CHECKPOINT_LATE {
            run("PASSIVE")
        } else {
            self.connection
                .busy_timeout(READERS_WAIT)
                .and_then(|()| run("RESTART"))
                .and_then(|()| self.connection.busy_timeout(super::schema::BUSY))
        };
        self.shared.stats.checkpointed();
        if let Err(error) = result {
            tracing::warn!(%error, "cannot move the write-ahead log into the database");
        }
    }

    fn failed(&self) -> Option<Arc<str>> {
        self.report.borrow().failed.clone()
    }

    /// What a failed statement or commit means. Where the disk is full or somebody holds a lock,
    /// the transaction was rolled back and the next may succeed. Otherwise nobody knows what is on
    /// the disk, and the writer refuses from now on rather than acknowledge what may not last.
    fn trouble(&self, error: &rusqlite::Error) -> Arc<str> {
        let passing = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        );
        if passing && self.connection.is_autocommit() {
            tracing::warn!(%error, "a commit of the store failed");
            return error.to_string().into();
        }
        let why: Arc<str> =
            format!("a write failed ({error}); it takes no more until it is restarted").into();
        tracing::error!(%error, "the store failed and takes no more writes until it is restarted");
        self.report.send_modify(|progress| progress.failed = Some(why.clone()));
        why
    }
}
