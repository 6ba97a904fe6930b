//! The planner of copies: what is to be done next for one VMClone, as a pure function.
//!
//! A copy is carried out by the record of its machine, whose own planner makes one machine of one
//! record. What is left to do here is to see to it that one request has one record: it has one name,
//! it is written down before it is made, and it is known by the mark of its VMClone.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sutler_api::names::reasons;

use crate::{
    plan::Blocker,
    rules::{Rule, broken},
};

/// What was written down before the copy's record was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    /// Which try this is, counted from 1.
    pub(crate) attempt: u32,
    /// When it began.
    pub(crate) at: Timestamp,
    /// It failed, and what is left of it is removed before the next one.
    pub(crate) given_up: bool,
}

/// A VMClone as the API shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) paused: bool,
    /// The copy was made.
    pub(crate) done: bool,
    pub(crate) intent: Option<Intent>,
    /// The try whose record was seen.
    pub(crate) seen: Option<u32>,
    pub(crate) target: String,
    pub(crate) timeout: Duration,
    pub(crate) retry: Retry,
}

/// How a failed try is repeated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Tries after the first one.
    pub(crate) most: u32,
    pub(crate) pause: Duration,
    pub(crate) factor: u32,
}

impl Retry {
    /// The pause after the try of this number.
    fn after(&self, attempt: u32) -> Duration {
        let factor = self.factor.max(1).saturating_pow(attempt.saturating_sub(1).min(16));
        self.pause.saturating_mul(factor).min(Duration::from_secs(24 * 3600))
    }
}

/// The record of the copy's machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    /// There is none of that name.
    Absent,
    /// Another one has that name.
    Theirs,
    /// It is there and carries the mark of this VMClone.
    Ours(Copy),
}

/// The record of the copy's machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Copy {
    pub(crate) uid: String,
    pub(crate) deleting: bool,
    pub(crate) ready: bool,
    /// Why a person has to do something: a reason and the same for people.
    pub(crate) stalled: Option<(String, String)>,
    /// What it says of itself.
    pub(crate) message: String,
    /// It no longer goes with the VMClone.
    pub(crate) released: bool,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing until something changes.
    Rest,
    /// Nothing until then, or until something changes.
    Wait(Timestamp),
    /// Write down, with the finalizer, that a try begins or is given up.
    Intend(Intent),
    /// Make the record of the copy's machine under this name.
    Make(String),
    /// Let the record go on without the VMClone.
    Release(String),
    /// Delete the record, and its machine with it.
    Undo(String),
    /// Take the VMClone off the books.
    Forget,
}

/// What to do, and what to say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) report: Report,
}

/// What a VMClone says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    pub(crate) stage: Stage,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Whether it waits, and when it is tried next.
    pub(crate) waits: Option<Option<Timestamp>>,
}

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Something else comes first.
    Pending,
    /// Its record is made.
    Preparing,
    /// Its record tells how far it is.
    Following,
    Ready,
    /// A person has to do something.
    Failed,
    Deleting,
}

/// Everything that a plan is made from.
pub(crate) struct Inputs<'a> {
    pub(crate) record: &'a Record,
    /// Whether the copy's record could be made, or why not.
    pub(crate) wish: Result<(), &'a Blocker>,
    pub(crate) target: &'a Target,
    pub(crate) now: Timestamp,
}

/// Decides on the next step.
pub(crate) fn plan(inputs: &Inputs<'_>) -> Plan {
    if inputs.record.deleting {
        return absent(inputs);
    }
    if inputs.record.done {
        return rest(Stage::Ready, reasons::READY, "the copy was made");
    }
    if inputs.record.paused {
        let message = "changes are held back: remove the annotation sutler.dev/paused";
        return rest(Stage::Pending, reasons::PAUSED, message);
    }
    match inputs.target {
        Target::Theirs => {
            let message = format!(
                "spec.target.name: a VirtualMachine called {} is there, and is not this copy: \
                 choose another name",
                inputs.record.target
            );
            rest(Stage::Failed, reasons::CONFLICT, &message)
        }
        Target::Ours(copy) => follow(inputs, copy),
        Target::Absent => begin(inputs),
    }
}

/// There is no record of the copy.
fn begin(inputs: &Inputs<'_>) -> Plan {
    let record = inputs.record;
    if let Some(intent) = record.intent {
        if intent.given_up {
            return again(inputs, intent);
        }
        if record.seen == Some(intent.attempt) {
            let message = format!(
                "VirtualMachine {} was deleted before the copy was made: delete this VMClone",
                record.target
            );
            return rest(Stage::Failed, reasons::LOST, &message);
        }
    }
    if let Err(blocker) = inputs.wish {
        return blocked(inputs, blocker);
    }
    if record.intent.is_none() || !record.finalizer {
        let attempt = record.intent.map_or(1, |intent| intent.attempt);
        return intend(Intent { attempt, at: inputs.now, given_up: false });
    }
    let name = match broken(Rule::OneCopyOfARequest) {
        true => format!("{}-{}", record.target, inputs.now.as_second()),
        false => record.target.clone(),
    };
    step(Step::Make(name), Stage::Preparing, reasons::CLONING, "the copy's record is made")
}

/// A try failed, and nothing is left of it.
fn again(inputs: &Inputs<'_>, intent: Intent) -> Plan {
    let at = later(intent.at, inputs.record.retry.after(intent.attempt));
    if at > inputs.now {
        let message = format!("try {} failed; the next one begins at {at}", intent.attempt);
        let mut plan = step(Step::Wait(at), Stage::Pending, reasons::FAILED, &message);
        plan.report.waits = Some(Some(at));
        return plan;
    }
    intend(Intent { attempt: intent.attempt + 1, at: inputs.now, given_up: false })
}

/// The record of the copy is there.
fn follow(inputs: &Inputs<'_>, copy: &Copy) -> Plan {
    let record = inputs.record;
    let intent = record.intent.unwrap_or_default();
    if copy.deleting || intent.given_up {
        let message = "what is left of the last try is removed";
        return match copy.deleting {
            true => step(Step::Rest, Stage::Pending, reasons::DELETING, message),
            false => step(Step::Undo(copy.uid.clone()), Stage::Pending, reasons::DELETING, message),
        };
    }
    if copy.ready {
        return match copy.released {
            true => rest(Stage::Ready, reasons::READY, "the copy was made"),
            false => {
                let message = "the copy was made, and becomes a machine of its own";
                step(Step::Release(copy.uid.clone()), Stage::Following, reasons::CLONING, message)
            }
        };
    }
    let end = later(intent.at, record.timeout);
    let failed = match &copy.stalled {
        Some((reason, message)) => Some((reason.as_str(), message.clone())),
        None if inputs.now >= end => Some((
            reasons::TIMED_OUT,
            format!("it was not made in time (spec.options.timeout): {}", copy.message),
        )),
        None => None,
    };
    let Some((reason, message)) = failed else {
        let mut plan = step(Step::Wait(end), Stage::Following, reasons::CLONING, &copy.message);
        plan.report.waits = Some(Some(end));
        return plan;
    };
    if intent.attempt <= record.retry.most {
        let given_up = Intent { given_up: true, at: inputs.now, ..intent };
        let message = format!("try {} failed and is given up: {message}", intent.attempt);
        return step(Step::Intend(given_up), Stage::Pending, reason, &message);
    }
    // It is followed on: should a person mend it, the copy is made after all.
    rest(Stage::Failed, reason, &message)
}

/// The VMClone is on its way out. A copy that was made is a machine of its own; one that was not goes.
fn absent(inputs: &Inputs<'_>) -> Plan {
    let record = inputs.record;
    let say = |step_: Step, message: &str| step(step_, Stage::Deleting, reasons::DELETING, message);
    if !record.finalizer {
        return say(Step::Rest, "other finalizers are waited for");
    }
    match inputs.target {
        _ if record.done => say(Step::Forget, "the copy stays"),
        Target::Ours(copy) if copy.released => say(Step::Forget, "the copy stays"),
        Target::Ours(copy) if copy.deleting => say(Step::Rest, "the unfinished copy is removed"),
        Target::Ours(copy) => say(Step::Undo(copy.uid.clone()), "the unfinished copy is removed"),
        Target::Absent | Target::Theirs => say(Step::Forget, "nothing is left"),
    }
}

fn intend(intent: Intent) -> Plan {
    step(Step::Intend(intent), Stage::Preparing, reasons::CLONING, "the copy begins")
}

fn step(step: Step, stage: Stage, reason: &str, message: &str) -> Plan {
    let report =
        Report { stage, reason: reason.to_owned(), message: message.to_owned(), waits: None };
    Plan { step, report }
}

fn rest(stage: Stage, reason: &str, message: &str) -> Plan {
    let mut plan = step(Step::Rest, stage, reason, message);
    plan.report.waits = (stage != Stage::Ready).then_some(None);
    plan
}

fn blocked(inputs: &Inputs<'_>, blocker: &Blocker) -> Plan {
    let stage = if blocker.failed { Stage::Failed } else { Stage::Pending };
    match blocker.retry.map(|pause| later(inputs.now, pause)) {
        Some(at) => {
            let mut plan = step(Step::Wait(at), stage, &blocker.reason, &blocker.message);
            plan.report.waits = Some(Some(at));
            plan
        }
        None => rest(stage, &blocker.reason, &blocker.message),
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}
