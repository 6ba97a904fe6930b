//! Answers to changes.

use std::time::Duration;

use sutler_provider::{
    Accepted, Exported, Imported, MachineId, Prepared, SnapshotId, Snapshotted, Started,
};

use crate::guest::Ran;

/// A change that was accepted: the answer, the work that it began, and how long the answer takes
/// because of what was asked for.
pub(crate) struct Begun<T> {
    pub(crate) answer: T,
    pub(crate) work: Option<u64>,
    pub(crate) takes: Duration,
}

impl<T> Begun<T> {
    pub(crate) fn new(answer: T, work: Option<u64>) -> Self {
        Self { answer, work, takes: Duration::ZERO }
    }
}

/// What can be left out of an answer, or comes to be known when work has ended.
pub(crate) trait Answer: Send + 'static {
    /// The work has ended, and made this.
    fn ended(&mut self, _made: Option<String>) {}

    /// What was made is not told.
    fn forget(&mut self) {}
}

impl Answer for () {}
impl Answer for Ran {}

impl Answer for Accepted {
    fn ended(&mut self, made: Option<String>) {
        self.task = None;
        self.id = made.map(MachineId);
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Answer for Started {
    fn ended(&mut self, _made: Option<String>) {
        self.task = None;
    }
}

impl Answer for Snapshotted {
    fn ended(&mut self, made: Option<String>) {
        self.task = None;
        self.id = made.map(SnapshotId);
    }
}

impl Answer for Prepared {
    fn ended(&mut self, _made: Option<String>) {
        self.task = None;
    }
}

impl Answer for Exported {
    fn ended(&mut self, _made: Option<String>) {
        self.task = None;
    }
}

impl Answer for Imported {
    fn ended(&mut self, _made: Option<String>) {
        self.task = None;
    }
}
