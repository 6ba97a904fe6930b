//! What went through a gate, for metrics.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::error::{ErrorKind, Result};

/// What went through a gate since it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// By the call's name.
    pub calls: BTreeMap<&'static str, CallStats>,
}

impl Stats {
    /// Calls that wait to be sent.
    pub fn queued(&self) -> usize {
        self.calls.values().map(|call| call.queued).sum()
    }

    /// Calls that were sent and are not answered yet.
    pub fn in_flight(&self) -> usize {
        self.calls.values().map(|call| call.in_flight).sum()
    }

    pub(super) fn of(&mut self, name: &'static str) -> &mut CallStats {
        self.calls.entry(name).or_default()
    }
}

/// What became of the calls of one name. Those that their callers gave up count nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallStats {
    /// How many wait to be sent.
    pub queued: usize,
    /// How many were sent and are not answered yet.
    pub in_flight: usize,
    /// How many times one was sent and came to an end, retries included.
    pub attempts: u64,
    /// How many ended without being sent at all: the breaker was open, or it was too late. They are
    /// among the outcomes too.
    pub unsent: u64,
    /// How long those that were sent had waited, in all.
    pub waited: Duration,
    /// Calls that ended, by how.
    pub outcomes: BTreeMap<Outcome, Tally>,
}

/// How many calls ended in one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// How long the platform took for them, in all.
    pub time: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Well.
    Ok,
    /// With an error of this kind.
    Error(ErrorKind),
}

impl Outcome {
    /// How this result ended.
    pub fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Ok,
            Err(error) => Self::Error(error.kind()),
        }
    }

    /// It in one stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Error(kind) => kind.as_str(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
