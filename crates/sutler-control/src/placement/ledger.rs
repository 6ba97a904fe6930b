//! What was decided and does not show yet, and what is known of hosts. Decisions are made one at a
//! time, each with those before it: two machines that are made together cannot have the same place.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use sutler_provider::{Error, Host};

use super::decide::Placed;
use crate::fleet::Key;

/// How old a list of hosts may be before the next is asked for.
pub(super) const FRESH: Duration = Duration::from_secs(10);

/// How old a list of hosts may be before nothing is decided on it.
pub(super) const STALE: Duration = Duration::from_secs(120);

/// Decisions and hosts, by record and by Provider.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By the UID of the record.
    pub(super) promises: BTreeMap<String, Promise>,
    pub(super) hosts: BTreeMap<Key, Hosts>,
    /// Records that have no place, by Provider.
    pub(super) waiting: BTreeMap<Key, BTreeSet<Key>>,
}

/// A decision.
#[derive(Debug, Clone)]
pub(super) struct Promise {
    pub(super) provider: Key,
    pub(super) placed: Placed,
    pub(super) cpu: u32,
    pub(super) memory_mib: u64,
    /// When its machine was first seen on a host, which then counts it itself.
    pub(super) seen: Option<Timestamp>,
}

/// What is known of a Provider's hosts.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    /// The last list, and when it was begun.
    pub(super) list: Option<(Arc<Vec<Host>>, Timestamp)>,
    /// Whether one is on its way.
    pub(super) asking: bool,
    /// Why the last one failed.
    pub(super) error: Option<Error>,
    /// When it was last asked for.
    pub(super) asked: Option<Timestamp>,
}

impl Ledger {
    /// Takes the answer of a Provider in, and tells who waited for it.
    pub(super) fn listed(
        &mut self,
        provider: &Key,
        begun: Timestamp,
        answer: Result<Vec<Host>, Error>,
    ) -> BTreeSet<Key> {
        let hosts = self.hosts.entry(provider.clone()).or_default();
        hosts.asking = false;
        match answer {
            Ok(list) => {
                hosts.list = Some((Arc::new(list), begun));
                hosts.error = None;
                // What was seen before the list began is counted in it.
                self.promises.retain(|_, promise| {
                    promise.provider != *provider || promise.seen.is_none_or(|seen| seen >= begun)
                });
            }
            Err(error) => hosts.error = Some(error),
        }
        self.waiting.remove(provider).unwrap_or_default()
    }

    /// CPUs and MiB that were promised on a Provider's hosts, but for this record.
    pub(super) fn promised(&self, provider: &Key, uid: &str) -> BTreeMap<String, (u32, u64)> {
        let mut all: BTreeMap<String, (u32, u64)> = BTreeMap::new();
        for (of, promise) in &self.promises {
            let Some(host) = promise.placed.host.as_ref().filter(|_| of != uid) else { continue };
            if promise.provider == *provider {
                let sum = all.entry(host.clone()).or_default();
                sum.0 = sum.0.saturating_add(promise.cpu);
                sum.1 = sum.1.saturating_add(promise.memory_mib);
            }
        }
        all
    }

    /// Notes that a record has no place for now.
    pub(super) fn wait(&mut self, provider: &Key, record: Key) {
        self.waiting.entry(provider.clone()).or_default().insert(record);
    }
}
