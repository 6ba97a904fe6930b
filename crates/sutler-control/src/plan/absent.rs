//! What is done for a record that is on its way out. Only what is on record is needed for that,
//! never a valid wish.

use jiff::Timestamp;
use sutler_api::{
    infra::{PowerState, VirtualMachinePhase as Phase},
    names::reasons,
};
use sutler_provider::{Power, Seen};

use super::{
    DeleteWhy, ForgetWhy, Inputs, Intent, Outcome, Plan, Platform, Report, SEND_WINDOW, Step,
    Waiting,
    create::{
        TASK_POLL, claim, complete_since, gone_since, held, instead, later, look, observe,
        overtaken, poll,
    },
    find::{find, is_on_record, may_be_left_one},
    present::{before_anything, blocked},
    settled_at,
};
use crate::rules::{Rule, broken};

pub(super) fn plan(inputs: &Inputs<'_>) -> Plan {
    let record = inputs.record;
    if !record.finalizer {
        let report = deleting("other finalizers are waited for");
        return Plan { step: Step::Rest, report };
    }
    if record.forget {
        return forget(ForgetWhy::Forced);
    }
    // The finalizer and the intent are one write: without an intent nothing was ever asked for.
    if record.intent.is_none() && record.id.is_none() {
        return forget(ForgetWhy::NeverAsked);
    }
    if record.paused {
        let mut report = deleting("changes are held back: remove the annotation sutler.dev/paused");
        report.waiting = Some(Waiting { next: None });
        return Plan { step: Step::Rest, report };
    }
    if broken(Rule::FinalizerAfterAbsence) && inputs.memory.accepted.contains_key("delete") {
        return forget(ForgetWhy::Gone);
    }
    let platform = match inputs.platform {
        Ok(platform) => platform,
        Err(blocker) => return blocked(inputs, blocker),
    };
    if let Some(call) = inputs.memory.in_flight {
        return Plan { step: Step::Rest, report: deleting(format!("{call} is under way")) };
    }
    let name = inputs.desired.ok().map(|desired| desired.request.name.as_str());
    let search = find(record, name, &platform, inputs.claims, inputs.now);
    // A machine that is kept was let go, which is why it carries no token any more.
    if record.retain && search.disputed.is_some() && search.extras.is_empty() {
        return forget(ForgetWhy::Retained);
    }
    if let Some(plan) = before_anything(inputs, &platform, &search) {
        return plan;
    }
    match search.ours {
        Some(seen) => with_machine(inputs, &platform, &seen),
        None if !search.extras.is_empty() => {
            look(inputs.now, deleting("an extra machine is removed"))
        }
        None => without_machine(inputs, &platform, search.namesake.as_ref()),
    }
}

fn with_machine(inputs: &Inputs<'_>, platform: &Platform<'_>, seen: &Seen) -> Plan {
    let record = inputs.record;
    let id = &seen.machine.id;
    if !is_on_record(record, seen) && !platform.capabilities.token {
        let report = deleting(format!("machine {id} is claimed before it is removed")).of(seen);
        return Plan { step: Step::Claim(id.clone()), report };
    }
    if record.retain {
        if !platform.capabilities.token {
            return forget(ForgetWhy::Retained);
        }
        if let Some(plan) = held(inputs, "disown", id.as_ref(), Phase::Deleting) {
            return plan;
        }
        let report = deleting(format!("machine {id} is kept, and let go")).of(seen);
        return Plan { step: Step::Disown(id.clone()), report };
    }
    if let Some(mut plan) = held(inputs, "delete", id.as_ref(), Phase::Deleting) {
        plan.report.machine = Some(seen.clone());
        return plan;
    }
    if let Ok(desired) = inputs.desired
        && desired.pre_stop
        && !inputs.memory.pre_stopped
        && !broken(Rule::GuestsAreTold)
    {
        if unclear(inputs, seen) {
            let report = deleting("whether it runs, and has to be told of its stop, is looked at");
            return Plan { step: Step::Describe(id.clone()), report };
        }
        if seen.machine.power == Power::On {
            if let Some(mut plan) = held(inputs, "hook", &desired.digest, Phase::Deleting) {
                plan.report.machine = Some(seen.clone());
                return plan;
            }
            let report = deleting("what is to be done before its stop").of(seen);
            return Plan { step: Step::PreStop(id.clone()), report };
        }
    }
    let report = deleting(format!("machine {id} is being removed")).of(seen);
    match inputs.memory.accepted.get("delete").filter(|accepted| accepted.digest == id.0) {
        Some(accepted) if accepted.task.is_some() => match &accepted.task {
            Some(task) => poll(inputs, task, report),
            None => observe(inputs, platform, id, accepted.at, report),
        },
        Some(accepted)
            if inputs.now < later(accepted.at, platform.capabilities.deadlines.change) =>
        {
            observe(inputs, platform, id, accepted.at, report)
        }
        _ => Plan { step: Step::Delete(id.clone(), DeleteWhy::Goal), report },
    }
}

/// Whether a machine that seems to be off was last written down as on, and was not looked at just now:
/// what is known of it may be from before its start. A look that fails is not waited for, because the
/// removal may do better.
fn unclear(inputs: &Inputs<'_>, seen: &Seen) -> bool {
    let just_now = |at: Timestamp| inputs.now < later(at, TASK_POLL);
    seen.machine.power != Power::On
        && inputs.record.power == Some(PowerState::On)
        && !inputs.memory.described_at.is_some_and(just_now)
        && !inputs.memory.failures.contains_key("describe")
}

/// Nothing of the record is to be seen: that has to be proven before it is forgotten.
fn without_machine(inputs: &Inputs<'_>, platform: &Platform<'_>, namesake: Option<&Seen>) -> Plan {
    let record = inputs.record;
    let why = if record.retain { ForgetWhy::Retained } else { ForgetWhy::Gone };
    let Some(intent) = &record.intent else {
        // An ID without an intent: nothing proves that it is ours, so nothing is done to it.
        return forget(ForgetWhy::Retained);
    };
    if let Some(id) = &record.id {
        let asked = inputs.memory.accepted.get("delete").map(|accepted| accepted.at);
        let removed = removals_end(inputs, platform);
        let since = tombstone_end(inputs, platform, intent).max(asked.unwrap_or(Timestamp::MIN));
        let since = since.max(removed);
        if gone_since(platform, id, since) {
            return match namesake {
                Some(seen) => claim(seen, deleting(instead(id, seen))),
                None => forget(why),
            };
        }
        let report = deleting(match removed > inputs.now {
            true => format!(
                "machine {id} is not to be seen; a removal that was not answered could still meet the \
                 next machine of its name and ID"
            ),
            false => format!("machine {id} is not to be seen; its absence is confirmed"),
        });
        // Where only time is missing for the proof, a list that is begun after it will give it.
        if since > inputs.now {
            return look(since, report.until(since));
        }
        let after = asked.or(inputs.memory.id_since).unwrap_or(inputs.now);
        return observe(inputs, platform, id, after, report);
    }
    let since = tombstone_end(inputs, platform, intent);
    if broken(Rule::Tombstone) {
        return forget(why);
    }
    if complete_since(platform, since) {
        if may_be_left_one(record, platform, inputs.claims, inputs.now) {
            let message = "the members of its group are shared out: others take theirs before";
            return look(inputs.now, deleting(message));
        }
        return forget(why);
    }
    if !platform.capabilities.list {
        return match since <= inputs.now {
            true => forget(ForgetWhy::WindowEnded),
            false => Plan {
                step: Step::Wait(since),
                report: deleting("a machine that was asked for may still show up").until(since),
            },
        };
    }
    let message = "a machine that was asked for may still show up: it is waited for and removed";
    look(since, deleting(message).until(since.max(inputs.now)))
}

/// Until when a removal that nobody answered may still have an effect: a machine that comes by the name and
/// the ID of this one before then would be removed in its place.
fn removals_end(inputs: &Inputs<'_>, platform: &Platform<'_>) -> Timestamp {
    let open = inputs.memory.removal.open(inputs.record.delete_requested_at);
    let window = SEND_WINDOW + platform.capabilities.deadlines.change;
    open.map_or(Timestamp::MIN, |at| later(at, window))
}

/// Until when a machine of the last request may still appear.
fn tombstone_end(inputs: &Inputs<'_>, platform: &Platform<'_>, intent: &Intent) -> Timestamp {
    let known = inputs.memory.id_since.filter(|_| inputs.record.id.is_some());
    let settled = settled_at(intent.requested_at, platform.capabilities);
    match (inputs.memory.attempt_of(intent.requested_at), known) {
        // Where machines carry tokens, a second effect of a request that was answered would be found
        // as an orphan; elsewhere only time proves that there is none.
        // A machine that was seen complete is all that its task was for.
        (Some(Outcome::Accepted { id: Some(_), at, task }), _)
            if platform.capabilities.token && (task.is_none() || inputs.record.provisioned) =>
        {
            known.map_or(*at, |known| known.max(*at))
        }
        (Some(Outcome::Refused(error)), _) => {
            overtaken(inputs, error).unwrap_or(intent.requested_at)
        }
        (Some(Outcome::TaskFailed { at, .. }), _) => *at,
        // The same is known of it after a restart of this process: its record says so.
        (_, Some(known)) if platform.capabilities.token && inputs.record.provisioned => known,
        _ if !platform.capabilities.returns_id && inputs.record.id.is_none() => {
            later(intent.requested_at, platform.discovery_timeout).max(settled)
        }
        _ => settled.max(known.unwrap_or(Timestamp::MIN)),
    }
}

fn forget(why: ForgetWhy) -> Plan {
    let message = match why {
        ForgetWhy::NeverAsked => "no machine was ever asked for",
        ForgetWhy::Gone => "the machine is gone",
        ForgetWhy::Retained => "the machine is kept",
        ForgetWhy::Forced => "the record is taken off the books; its machine was not looked at",
        ForgetWhy::WindowEnded => "no machine showed up in its time",
    };
    Plan { step: Step::Forget(why), report: deleting(message) }
}

fn deleting(message: impl Into<String>) -> Report {
    Report::busy(Phase::Deleting, reasons::DELETING, message)
}
