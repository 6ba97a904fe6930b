//! What a record says of itself.

use jiff::Timestamp;
use sutler_api::{infra::VirtualMachinePhase as Phase, names::reasons};
use sutler_provider::{Error, Seen};

use super::{Blocker, Record};

/// What a record says of itself after a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Where it is in its life.
    pub phase: Phase,
    /// Whether everything is as wanted.
    pub ready: bool,
    /// A stable word for why, or why not.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Whether a person has to do something.
    pub stalled: bool,
    /// How far a change has come; none when none is under way.
    pub progress: Option<Progress>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// The record's machine, where it was seen.
    pub machine: Option<Seen>,
    /// A change that waits for something although the machine is well: its reason and message.
    pub held_change: Option<(&'static str, String)>,
}

/// How far a change has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Which of the six stages is under way.
    pub stage: usize,
    /// How much of it is done, where that is known.
    pub percent: Option<u8>,
}

/// What a record waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// When it is tried next; none where only a change can help.
    pub next: Option<Timestamp>,
}

/// The stages, by number.
pub(crate) mod stage {
    pub(crate) const CLONE: usize = 0;
    pub(crate) const CONFIGURE: usize = 1;
    pub(crate) const START: usize = 2;
    pub(crate) const NETWORK: usize = 3;
    pub(crate) const POST_PROVISION: usize = 4;
}

impl Report {
    /// A record that is not ready, for this reason.
    pub(super) fn busy(phase: Phase, reason: &str, message: impl Into<String>) -> Self {
        Self {
            phase,
            ready: false,
            reason: reason.to_owned(),
            message: message.into(),
            stalled: false,
            progress: None,
            waiting: None,
            machine: None,
            held_change: None,
        }
    }

    /// A record that waits for a person.
    pub(super) fn stalled(reason: &str, message: impl Into<String>) -> Self {
        let report = Self::busy(Phase::Failed, reason, message);
        Self { stalled: true, waiting: Some(Waiting { next: None }), ..report }
    }

    /// A record that cannot go on because of something outside it.
    pub(super) fn blocked(record: &Record, blocker: &Blocker, now: Timestamp) -> Self {
        let next = blocker.retry.map(|pause| now.saturating_add(pause).unwrap_or(Timestamp::MAX));
        let phase = match (blocker.failed, record.deleting, record.id.is_some()) {
            (_, true, _) => Phase::Deleting,
            (true, _, _) => Phase::Failed,
            (_, _, true) => Phase::Running,
            _ => Phase::Pending,
        };
        let report = Self::busy(phase, &blocker.reason, &blocker.message);
        Self { stalled: blocker.failed, waiting: Some(Waiting { next }), ..report }
    }

    /// A record whose last step failed with `error`.
    pub(super) fn failed(phase: Phase, what: &str, error: &Error, next: Option<Timestamp>) -> Self {
        let field = error.field().map(|field| format!("{field}: ")).unwrap_or_default();
        let message = format!("{what}: {field}{}", error.message());
        let report = Self::busy(phase, error.kind().as_str(), message);
        let stalled = next.is_none();
        let phase = if stalled && phase != Phase::Deleting { Phase::Failed } else { phase };
        Self { phase, stalled, waiting: Some(Waiting { next }), ..report }
    }

    /// The same, in this stage.
    pub(super) fn at(mut self, stage: usize, percent: Option<u8>) -> Self {
        self.progress = Some(Progress { stage, percent });
        self
    }

    /// The same, tried next at `next`.
    pub(super) fn until(mut self, next: Timestamp) -> Self {
        self.waiting = Some(Waiting { next: Some(next) });
        self
    }

    /// The same, with the machine as it was seen.
    pub(super) fn of(mut self, seen: &Seen) -> Self {
        self.machine = Some(seen.clone());
        self
    }

    /// A record whose changes are held back on request.
    pub(super) fn paused() -> Self {
        let message = "changes are held back: remove the annotation sutler.dev/paused";
        let report = Self::busy(Phase::Pending, reasons::PAUSED, message);
        Self { waiting: Some(Waiting { next: None }), ..report }
    }
}
