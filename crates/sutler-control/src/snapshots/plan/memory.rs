//! What one process remembers of a snapshot between two plans. All of it can be lost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sutler_provider::{Error, SnapshotId, TaskId};

use crate::plan::Failure;

/// What a process remembers of one snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    /// The time of the intent that this process wrote and has not yet acted upon.
    pub(crate) announced: Option<Timestamp>,
    /// What became of what the intent of this time announced.
    pub(crate) attempt: Option<(Timestamp, Outcome)>,
    /// The word of what was last asked for.
    pub(crate) config: String,
    /// A deletion that was accepted.
    pub(crate) deleted: Option<Accepted>,
    /// What failed last, per kind of call.
    pub(crate) failures: BTreeMap<&'static str, Failure>,
    /// A call that is under way.
    pub(crate) in_flight: Option<&'static str>,
    /// A task on record that the platform no longer knows or that ended.
    pub(crate) lost_task: Option<TaskId>,
    pub(crate) polled_at: Option<Timestamp>,
    pub(crate) percent: Option<u8>,
    pub(crate) described_at: Option<Timestamp>,
}

/// What became of a request for a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// It was accepted.
    Accepted {
        /// Its ID, where it was told.
        id: Option<SnapshotId>,
        /// The task, while it runs.
        task: Option<TaskId>,
        /// When.
        at: Timestamp,
    },
    /// It certainly did nothing.
    Refused,
    /// It was tried and failed; what is left of it was there at this time.
    Failed(Timestamp),
    /// Nobody knows.
    Unknown,
}

/// A deletion that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Accepted {
    pub(crate) id: SnapshotId,
    pub(crate) at: Timestamp,
    pub(crate) task: Option<TaskId>,
}

impl Memory {
    /// Notes that `what` failed.
    pub(crate) fn fail(&mut self, what: &'static str, error: Error, digest: &str, at: Timestamp) {
        let count = match self.failures.get(what) {
            Some(failure) if failure.digest == digest => failure.count.saturating_add(1),
            _ => 1,
        };
        self.failures.insert(what, Failure { error, count, at, digest: digest.to_owned() });
    }

    /// What became of what the intent of this time announced.
    pub(super) fn attempt_of(&self, requested_at: Timestamp) -> Option<&Outcome> {
        let (at, outcome) = self.attempt.as_ref()?;
        (*at == requested_at).then_some(outcome)
    }
}
