//! The engine in memory, for tests and for the deterministic simulation.
//!
//! It has no thread and waits for nothing: every future is ready when it is first polled, and
//! what happens is decided by the order of the calls alone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::broadcast;

use crate::engine::{Action, Change, Engine, Error, Expect, Page, Range, Record, Version, Write};
use crate::range::Start;
use crate::remaining::Remaining;
use crate::topics::Topics;

/// How many changes a subscriber may fall behind, unless told otherwise.
const CHANNEL: usize = 1024;

/// An engine that keeps everything in memory and nothing else.
#[derive(Debug)]
pub struct Memory {
    state: Mutex<State>,
    topics: Topics,
    remaining: Remaining,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::with_channel(CHANNEL)
    }

    /// An empty store whose subscribers may fall behind by this many changes.
    pub fn with_channel(capacity: usize) -> Self {
        Self {
            state: Mutex::default(),
            topics: Topics::new(capacity),
            remaining: Remaining::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock means that a caller's waker panicked after the state was changed whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self, range: &Range) -> Result<Page, Error> {
        let state = self.state();
        let version = range.at.unwrap_or(state.version);
        state.check(version)?;
        let most = if range.limit == 0 { usize::MAX } else { range.limit };
        let mut keys = state.keys(&range.prefix, range.after.as_deref(), version);
        let records: Vec<Record> = keys.by_ref().take(most).collect();
        let remaining = match records.last() {
            Some(last) if records.len() == most => {
                let known = range
                    .after
                    .as_deref()
                    .and_then(|after| self.remaining.following(&range.prefix, version, after));
                let follow = match known {
                    Some(follow) => follow.saturating_sub(records.len() as u64),
                    None => keys.count() as u64,
                };
                if follow > 0 {
                    self.remaining.remember(&range.prefix, version, last.key.clone(), follow);
                }
                follow
            }
            _ => 0,
        };
        Ok(Page { records, version, remaining })
    }

    fn commit(&self, write: Write) -> Result<Version, Error> {
        let mut state = self.state();
        let Write { key, expect, action, also } = write;
        state.expect(&key, expect)?;
        for (key, expect) in &also {
            state.expect(key, *expect)?;
        }
        let change = state.apply(key, action)?;
        let version = change.version;
        // Under the lock of the state, so that changes go out in version order.
        self.topics.publish([change]);
        state.version = version;
        Ok(version)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for Memory {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        Box::pin(async move { Ok(self.state().get(key)) })
    }

    fn list(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(async move { self.page(&range) })
    }

    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let state = self.state();
            Ok(state.keys(prefix, None, state.version).count() as u64)
        })
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Version, Error>> {
        // One step without a point of waiting: it cannot be left half done.
        Box::pin(async move { self.commit(write) })
    }

    fn changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Version,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Change>, Version), Error>> {
        Box::pin(async move { self.state().changes(prefix, after, limit) })
    }

    fn subscribe(&self, topic: &str) -> broadcast::Receiver<Arc<Change>> {
        self.topics.subscribe(topic)
    }

    fn version(&self) -> Version {
        self.state().version
    }

    fn oldest(&self) -> Version {
        self.state().oldest
    }

    fn compact(&self, before: Version) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.state().compact(before) })
    }
}

#[derive(Debug, Default)]
struct State {
    version: Version,
    oldest: Version,
    /// What each key was, oldest first; never empty.
    keys: BTreeMap<Arc<str>, Vec<Revision>>,
    /// The changes above `oldest`: one per version, without a gap.
    log: VecDeque<Arc<Change>>,
}

#[derive(Debug)]
struct Revision {
    version: Version,
    /// Absent where the key was removed.
    value: Option<Bytes>,
}

impl State {
    fn check(&self, asked: Version) -> Result<(), Error> {
        if asked < self.oldest || asked > self.version {
            return Err(Error::Compacted { asked, oldest: self.oldest, newest: self.version });
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<Record> {
        let (key, revisions) = self.keys.get_key_value(key)?;
        record(key, revisions, self.version)
    }

    /// The keys of a range that exist at a version.
    fn keys<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        at: Version,
    ) -> impl Iterator<Item = Record> + 'a {
        self.keys
            .range::<str, _>((Start::of(prefix, after).bound(), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .filter_map(move |(key, revisions)| record(key, revisions, at))
    }

    fn expect(&self, key: &Arc<str>, expect: Expect) -> Result<(), Error> {
        let found = self.get(key);
        let holds = match expect {
            Expect::Absent => found.is_none(),
            Expect::Present => found.is_some(),
            Expect::At(version) => found.as_ref().is_some_and(|found| found.version == version),
        };
        if holds { Ok(()) } else { Err(Error::Conflict { key: key.clone(), found }) }
    }

    fn apply(&mut self, key: Arc<str>, action: Action) -> Result<Arc<Change>, Error> {
        let before = self.get(&key).map(|record| record.value);
        let version = self.version + 1;
        let (value, deleted) = match action {
            Action::Put(value) => (value, false),
            Action::Delete(_) if before.is_none() => {
                return Err(Error::Conflict { key, found: None });
            }
            Action::Delete(value) => (value, true),
        };
        let revision = Revision { version, value: (!deleted).then(|| value.clone()) };
        self.keys.entry(key.clone()).or_default().push(revision);
        let encoded = OnceLock::new();
        let change = Arc::new(Change { version, key, value, before, deleted, encoded });
        self.log.push_back(change.clone());
        Ok(change)
    }

    fn changes(
        &self,
        prefix: &str,
        after: Version,
        limit: usize,
    ) -> Result<(Vec<Change>, Version), Error> {
        self.check(after)?;
        let skip = usize::try_from(after - self.oldest).unwrap_or(usize::MAX);
        let mut changes = Vec::new();
        for change in self.log.iter().skip(skip) {
            if change.key.starts_with(prefix) {
                changes.push(Change::clone(change));
                if changes.len() == limit {
                    return Ok((changes, change.version));
                }
            }
        }
        Ok((changes, self.version))
    }

    /// Costs what was written between the old mark and the new one.
    fn compact(&mut self, before: Version) -> Result<(), Error> {
        if before > self.version {
            self.check(before)?;
        }
        while self.oldest < before {
            let Some(change) = self.log.pop_front() else { break };
            self.oldest = change.version;
            let Some(revisions) = self.keys.get_mut(&change.key) else { continue };
            let replaced = revisions.partition_point(|revision| revision.version < change.version);
            revisions.drain(..replaced + usize::from(change.deleted));
            if revisions.is_empty() {
                self.keys.remove(&change.key);
            }
        }
        Ok(())
    }
}

fn record(key: &Arc<str>, revisions: &[Revision], at: Version) -> Option<Record> {
    let newer = revisions.partition_point(|revision| revision.version <= at);
    let Revision { version, value } = revisions.get(newer.checked_sub(1)?)?;
    Some(Record { key: key.clone(), version: *version, value: value.clone()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::engine_conformance!(|channel| ((), Memory::with_channel(channel)), |(), memory| memory);

    #[test]
    fn compaction_forgets_every_trace_of_removed_keys() {
        let memory = Memory::new();
        for key in ["t/a/1", "t/a/2"] {
            for action in [Action::Put(Bytes::new()), Action::Delete(Bytes::new())] {
                let expect = match action {
                    Action::Put(_) => Expect::Absent,
                    Action::Delete(_) => Expect::Present,
                };
                let write = Write { key: key.into(), expect, action, also: Vec::new() };
                memory.commit(write).expect("nothing is in the way");
            }
        }
        memory.state().compact(3).expect("3 is in the log");
        assert_eq!(memory.state().keys.len(), 1);
        memory.state().compact(4).expect("4 is in the log");
        assert!(memory.state().keys.is_empty());
        assert!(memory.state().log.is_empty());
    }
}
