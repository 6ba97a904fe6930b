//! What the controllers count.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use sutler_provider::guard::Stats;

use crate::{context::Context, fleet::lock};

/// What is counted as it happens.
#[derive(Default)]
pub(crate) struct Counters {
    api_errors: AtomicU64,
    reconciles: Mutex<BTreeMap<&'static str, u64>>,
    operations: Mutex<BTreeMap<&'static str, u64>>,
    reaped: AtomicU64,
}

impl Counters {
    pub(crate) fn count_api_error(&self) {
        self.api_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_reconcile(&self, kind: &'static str) {
        *lock(&self.reconciles).entry(kind).or_default() += 1;
    }

    pub(crate) fn count_reaped(&self) {
        self.reaped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_operation(&self, state: &'static str) {
        *lock(&self.operations).entry(state).or_default() += 1;
    }
}

/// Everything that the controllers count, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Reconciles that ended with an error of the API.
    pub api_errors: u64,
    /// Reconciles, by kind.
    pub reconciles: BTreeMap<&'static str, u64>,
    /// Operations that ended, by their last state.
    pub operations: BTreeMap<&'static str, u64>,
    /// Machines without a record that were removed.
    pub reaped: u64,
    /// Providers, by namespace and name.
    pub providers: BTreeMap<String, ProviderSnapshot>,
}

/// What is counted of one provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderSnapshot {
    /// Which provider serves it.
    pub type_: String,
    /// Whether the last health checks succeeded.
    pub healthy: Option<bool>,
    /// The breaker: 0 closed, 1 open, 2 half open.
    pub breaker: u8,
    /// Its calls.
    pub calls: Stats,
    /// Lists that were begun.
    pub lists: u64,
    /// Machines on it.
    pub machines: usize,
    /// Records on it.
    pub records: usize,
    /// Machines on it that carry our token and have no record.
    pub orphans: usize,
}

impl Context {
    /// Everything that is counted.
    pub fn metrics(&self) -> Snapshot {
        use sutler_provider::guard::BreakerState;
        let providers = self.fleet.all().into_iter().map(|connection| {
            let state = connection.state();
            let snapshot = ProviderSnapshot {
                orphans: state.orphans.len(),
                type_: state.type_,
                healthy: state.healthy,
                breaker: match connection.gate.breaker() {
                    BreakerState::Closed => 0,
                    BreakerState::Open { .. } => 1,
                    BreakerState::HalfOpen => 2,
                },
                calls: connection.gate.stats(),
                lists: connection.inventory.lists(),
                machines: connection.inventory.read(|view| view.len()),
                records: self.users_of(&connection.key).len(),
            };
            (connection.key.to_string(), snapshot)
        });
        Snapshot {
            api_errors: self.counters.api_errors.load(Ordering::Relaxed),
            reconciles: lock(&self.counters.reconciles).clone(),
            operations: lock(&self.counters.operations).clone(),
            reaped: self.counters.reaped.load(Ordering::Relaxed),
            providers: providers.collect(),
        }
    }
}
