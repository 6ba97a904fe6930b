//! The planner of snapshots: what is to be done next for one of them, as a pure function.
//!
//! A snapshot is known on its platform by its name, which is on record before it is asked for. What
//! was asked for and not answered is looked for by that name before anything is asked again.

mod absent;
mod memory;
mod present;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sutler_api::{infra::SnapshotPhase as Phase, names::reasons};
use sutler_provider::{Capabilities, MachineId, Seen, Snapshot, SnapshotId, TaskId, Token};

pub(crate) use memory::{Accepted, Memory, Outcome};

use crate::plan::{Blocker, Failure, Retry, retry, settled_at};

/// The pause between two questions after one thing.
const POLL: Duration = Duration::from_secs(2);

/// The pause between two looks at a machine that its platform does not finish with.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The pause between two tries at something that must happen in the end.
const PERSISTENCE: Duration = Duration::from_secs(300);

/// What was written down before the provider was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Intent {
    /// The snapshot's name on the platform.
    pub(crate) name: String,
    /// The token of the machine that it is of.
    pub(crate) token: Token,
    /// That machine's ID.
    pub(crate) machine: MachineId,
    /// When it was about to be asked for, the last time.
    pub(crate) requested_at: Timestamp,
    /// A word that changes with what was asked for.
    pub(crate) config: String,
}

/// A VMSnapshot as the API shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) paused: bool,
    /// It is to be taken off the books whatever the platform has.
    pub(crate) forget: bool,
    pub(crate) intent: Option<Intent>,
    /// Its ID, once it was seen.
    pub(crate) id: Option<SnapshotId>,
    /// The platform's task that was last written down.
    pub(crate) task: Option<TaskId>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    /// The name on the platform.
    pub(crate) name: String,
    /// The name was chosen by a person, and so proves nothing.
    pub(crate) exact: bool,
    pub(crate) description: Option<String>,
    pub(crate) memory: bool,
    pub(crate) quiesce: bool,
    /// A word that changes with all this.
    pub(crate) config: String,
}

/// The machine that a snapshot is of.
#[derive(Debug, Clone)]
pub(crate) enum Home {
    /// It is there, and proven to be the record's.
    Here {
        /// Its ID.
        id: MachineId,
        /// The token that its record has.
        token: Token,
        /// What it is like.
        seen: Option<Seen>,
        /// What its platform can do.
        capabilities: std::sync::Arc<Capabilities>,
    },
    /// It is gone, and its snapshots with it.
    Gone(String),
    /// That is not known, or cannot be used.
    Blocked(Blocker),
}

/// Everything that a plan is made from.
pub(crate) struct Inputs<'a> {
    pub(crate) record: &'a Record,
    /// What it asks for, or why that cannot be.
    pub(crate) wish: Result<&'a Wish, &'a Blocker>,
    pub(crate) home: &'a Home,
    pub(crate) memory: &'a Memory,
    pub(crate) now: Timestamp,
}

/// What to do, and what to say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) report: Report,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing until something changes.
    Rest,
    /// Nothing until then, or until something changes.
    Wait(Timestamp),
    /// Write down, with the finalizer, what is about to be asked for.
    Intend(Intent),
    /// Ask for what was written down.
    Take(Intent),
    /// Look at the machine.
    Describe(MachineId),
    /// Ask how a task is doing.
    Task(TaskId),
    /// Delete it on the platform.
    Delete(MachineId, SnapshotId),
    /// Take the record off the books.
    Forget,
}

/// What a record says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    pub(crate) phase: Phase,
    pub(crate) ready: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Whether a person has to do something.
    pub(crate) stalled: bool,
    /// Whether it waits, and when it is tried next.
    pub(crate) waits: Option<Option<Timestamp>>,
    pub(crate) percent: Option<u8>,
    /// The snapshot as the platform shows it.
    pub(crate) found: Option<Snapshot>,
    /// Its ID, where the platform told it and shows nothing.
    pub(crate) told: Option<SnapshotId>,
}

/// Decides on the next step.
pub(crate) fn plan(inputs: &Inputs<'_>) -> Plan {
    match inputs.record.deleting {
        true => absent::plan(inputs),
        false => present::plan(inputs),
    }
}

impl Report {
    fn busy(phase: Phase, reason: &str, message: impl Into<String>) -> Self {
        Self {
            phase,
            ready: false,
            reason: reason.to_owned(),
            message: message.into(),
            stalled: false,
            waits: None,
            percent: None,
            found: None,
            told: None,
        }
    }

    fn stalled(reason: &str, message: impl Into<String>) -> Self {
        let report = Self::busy(Phase::Failed, reason, message);
        Self { stalled: true, waits: Some(None), ..report }
    }

    fn until(self, next: Timestamp) -> Self {
        Self { waits: Some(Some(next)), ..self }
    }
}

/// The machine where it is known, as a plan needs it.
struct Here<'a> {
    id: &'a MachineId,
    token: &'a Token,
    seen: Option<&'a Seen>,
    capabilities: &'a Capabilities,
}

impl<'a> Here<'a> {
    /// All snapshots that the machine has, and how old that is at most; none where it was not looked at
    /// since something else was told of it, or the platform does not tell.
    fn list(&self) -> Option<(&'a [Snapshot], Timestamp)> {
        let seen = self.seen.filter(|seen| seen.knows_snapshots())?;
        let list = seen.machine.snapshots.as_ref()?;
        Some((list, seen.as_of))
    }

    /// Whether the machine was looked at and its platform tells nothing of snapshots.
    fn silent(&self) -> bool {
        let seen = self.seen.filter(|seen| seen.snapshots_as_of.is_some());
        seen.is_some_and(|seen| seen.machine.snapshots.is_none())
    }

    /// The snapshot that was asked for: of its name and, once that is known, its ID.
    fn find(&self, intent: &Intent, id: Option<&SnapshotId>) -> Option<&'a Snapshot> {
        // One that was seen is there until a look at the machine does not show it.
        let list = self.seen?.machine.snapshots.as_ref()?;
        list.iter().find(|found| found.name == intent.name && id.is_none_or(|id| *id == found.id))
    }
}

fn blocked(inputs: &Inputs<'_>, blocker: &Blocker, phase: Phase) -> Plan {
    let mut report = Report::busy(phase, &blocker.reason, &blocker.message);
    if blocker.failed {
        report.phase = if phase == Phase::Deleting { phase } else { Phase::Failed };
        report.stalled = true;
    }
    match blocker.retry.map(|pause| later(inputs.now, pause)) {
        Some(at) => Plan { step: Step::Wait(at), report: report.until(at) },
        None => Plan { step: Step::Rest, report: Report { waits: Some(None), ..report } },
    }
}

/// The plan while the last try at `what` has to rest; none when it may be tried.
fn held(inputs: &Inputs<'_>, what: &'static str, digest: &str, phase: Phase) -> Option<Plan> {
    let failure = inputs.memory.failures.get(what)?;
    let at = match retry(failure, digest) {
        Retry::At(at) => Some(at),
        Retry::OnChange if what == "take" => None,
        // What is on its way out goes on trying: nobody will edit it any more.
        Retry::OnChange => Some(later(failure.at, PERSISTENCE)),
    };
    match at {
        Some(at) if at <= inputs.now => None,
        Some(at) => {
            Some(Plan { step: Step::Wait(at), report: failed(what, failure, phase).until(at) })
        }
        None => {
            let report = failed(what, failure, Phase::Failed);
            let report = Report { stalled: true, waits: Some(None), ..report };
            Some(Plan { step: Step::Rest, report })
        }
    }
}

fn failed(what: &str, failure: &Failure, phase: Phase) -> Report {
    let error = &failure.error;
    let field = error.field().map(|field| format!("{field}: ")).unwrap_or_default();
    Report::busy(phase, error.kind().as_str(), format!("{what}: {field}{}", error.message()))
}

/// Asks after a task, at most every few seconds.
fn poll(inputs: &Inputs<'_>, task: &TaskId, report: Report) -> Plan {
    let report = Report { percent: inputs.memory.percent, ..report };
    if let Some(plan) = held(inputs, "task", task.as_ref(), report.phase) {
        return plan;
    }
    match inputs.memory.polled_at.map(|at| later(at, POLL)) {
        Some(next) if next > inputs.now => {
            Plan { step: Step::Wait(next), report: report.until(next) }
        }
        _ => Plan { step: Step::Task(task.clone()), report },
    }
}

/// Looks at the machine, at most every few seconds.
fn look(inputs: &Inputs<'_>, here: &Here<'_>, report: Report) -> Plan {
    if let Some(plan) = held(inputs, "describe", here.id.as_ref(), report.phase) {
        return plan;
    }
    let next = inputs.memory.described_at.map_or(Timestamp::MIN, |at| later(at, POLL));
    match next > inputs.now {
        true => Plan { step: Step::Wait(next), report: report.until(next) },
        false => Plan { step: Step::Describe(here.id.clone()), report },
    }
}

/// Looks at a machine that its platform does not finish with, now and then.
fn look_seldom(inputs: &Inputs<'_>, here: &Here<'_>, as_of: Timestamp, report: Report) -> Plan {
    let next = later(as_of, LOOK_AGAIN);
    match inputs.now < next {
        true => Plan { step: Step::Wait(next), report: report.until(next) },
        false => look(inputs, here, report),
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn settled(intent: &Intent, here: &Here<'_>) -> Timestamp {
    settled_at(intent.requested_at, here.capabilities)
}

fn creating(message: impl Into<String>) -> Report {
    Report::busy(Phase::Creating, reasons::SNAPSHOTTING, message)
}
