//! What is done for a snapshot that should be there.

use sutler_api::{infra::SnapshotPhase as Phase, names::reasons};
use sutler_provider::Snapshot;

use super::{
    Here, Home, Inputs, Intent, Outcome, Plan, Report, Step, Wish, blocked, creating, held, later,
    look, look_seldom, poll, settled,
};
use crate::{
    plan::SEND_WINDOW,
    rules::{Rule, broken},
};

pub(super) fn plan(inputs: &Inputs<'_>) -> Plan {
    let record = inputs.record;
    if record.paused {
        let message = "changes are held back: remove the annotation sutler.dev/paused";
        let phase = if record.id.is_some() { Phase::Ready } else { Phase::Pending };
        let report = Report::busy(phase, reasons::PAUSED, message);
        return Plan { step: Step::Rest, report: Report { waits: Some(None), ..report } };
    }
    let here = match inputs.home {
        Home::Here { id, token, seen, capabilities } => {
            Here { id, token, seen: seen.as_ref(), capabilities }
        }
        Home::Gone(why) => {
            let report = Report::stalled(reasons::LOST, format!("the snapshot is gone: {why}"));
            return Plan { step: Step::Rest, report };
        }
        // What was taken stays so while nobody can be asked.
        Home::Blocked(blocker) if record.id.is_some() => {
            let mut plan = blocked(inputs, blocker, Phase::Ready);
            if !blocker.failed {
                plan.report.ready = true;
                plan.report.reason = reasons::READY.to_owned();
                plan.report.message = "the snapshot was taken".to_owned();
                plan.report.waits = None;
            }
            return plan;
        }
        Home::Blocked(blocker) => return blocked(inputs, blocker, Phase::Pending),
    };
    if let Some(call) = inputs.memory.in_flight {
        let report = creating(format!("{call} is under way"));
        return Plan { step: Step::Rest, report };
    }
    match (&record.intent, inputs.wish) {
        (Some(intent), _) => asked(inputs, &here, intent),
        (None, Ok(wish)) => first(inputs, &here, wish),
        (None, Err(blocker)) => blocked(inputs, blocker, Phase::Pending),
    }
}

/// Nothing was asked for yet.
fn first(inputs: &Inputs<'_>, here: &Here<'_>, wish: &Wish) -> Plan {
    if wish.exact {
        // A name that a person chose may be taken: whose it is has to be known before ours is there.
        match here.list() {
            Some((list, _)) if list.iter().any(|found| found.name == wish.name) => {
                let message = format!(
                    "spec.snapshotConfig.name: machine {} has a snapshot called {} already, which \
                     is not this one: choose another name",
                    here.id, wish.name
                );
                let report = Report::stalled(reasons::CONFLICT, message);
                return Plan { step: Step::Rest, report };
            }
            Some(_) => {}
            None if here.silent() => {}
            None => {
                let report = creating("the machine is looked at first");
                return look(inputs, here, report);
            }
        }
    }
    take(inputs, here)
}

/// It was asked for, by this process or by one before it.
fn asked(inputs: &Inputs<'_>, here: &Here<'_>, intent: &Intent) -> Plan {
    let record = inputs.record;
    let attempt = inputs.memory.attempt_of(intent.requested_at);
    // What another process saw and wrote down is not taken back.
    if record.id.is_none()
        && let Some(Outcome::Accepted { task: Some(task), .. }) = attempt
    {
        return poll(inputs, task, creating("the snapshot is being taken"));
    }
    if let Some(found) = here.find(intent, record.id.as_ref()) {
        return ready(found);
    }
    if here.silent() {
        return unseen(inputs, here, intent, attempt);
    }
    let Some((_, as_of)) = here.list() else {
        let report = match &record.id {
            Some(_) => taken(),
            None => creating("the machine is looked at"),
        };
        return look(inputs, here, report);
    };
    if record.id.is_some() && as_of <= settled(intent, here) {
        // A look from before it was taken does not show it.
        return look(inputs, here, taken());
    }
    if record.id.is_some() {
        let message = format!(
            "the snapshot {} is no longer on machine {}: somebody deleted it there",
            intent.name, here.id
        );
        return Plan { step: Step::Rest, report: Report::stalled(reasons::LOST, message) };
    }
    match attempt {
        Some(Outcome::Refused) => take(inputs, here),
        Some(Outcome::Failed(at)) if as_of > *at => take(inputs, here),
        Some(Outcome::Failed(_)) => look(inputs, here, creating("what failed is looked at")),
        Some(Outcome::Accepted { at, .. }) => {
            let end = settled(intent, here).max(*at);
            match as_of > end {
                true => take(inputs, here),
                false => look(inputs, here, creating("the snapshot is expected to show")),
            }
        }
        // This process wrote it down and has asked for nothing yet.
        None if inputs.memory.announced == Some(intent.requested_at)
            && inputs.now < later(intent.requested_at, SEND_WINDOW) =>
        {
            Plan { step: Step::Take(intent.clone()), report: creating("the snapshot is asked for") }
        }
        Some(Outcome::Unknown) | None => unresolved(inputs, here, intent, as_of),
    }
}

/// Nobody knows what came of the request: nothing is asked again until the machine, looked at after
/// the request could still have had an effect, has no snapshot of that name.
fn unresolved(
    inputs: &Inputs<'_>,
    here: &Here<'_>,
    intent: &Intent,
    as_of: jiff::Timestamp,
) -> Plan {
    if broken(Rule::LookBeforeSnapshot) {
        return take(inputs, here);
    }
    let message = "the outcome of the last request is not known: the machine is looked at before \
                   anything is asked again";
    let report = Report::busy(Phase::Creating, reasons::OBSERVING, message);
    if let Some(task) = &inputs.record.task
        && inputs.memory.lost_task.as_ref() != Some(task)
    {
        return poll(inputs, task, report);
    }
    let end = settled(intent, here);
    let busy = here.seen.is_some_and(|seen| seen.machine.busy);
    match as_of > end && !busy {
        true => take(inputs, here),
        // What the platform is at may be what was asked for: nothing is asked again meanwhile.
        false if as_of > later(end, here.capabilities.deadlines.make) => {
            let message = format!(
                "the platform does not finish with machine {}: look at it there, or delete this \
                 VMSnapshot",
                here.id
            );
            let report = Report { stalled: true, message, ..report };
            look_seldom(inputs, here, as_of, report)
        }
        // It may show at any time, and it is certain at the end.
        false => look(inputs, here, report),
    }
}

/// The platform does not tell of snapshots: what it answered is all there is.
fn unseen(
    inputs: &Inputs<'_>,
    here: &Here<'_>,
    intent: &Intent,
    attempt: Option<&Outcome>,
) -> Plan {
    if inputs.record.id.is_some() {
        return Plan { step: Step::Rest, report: taken() };
    }
    match attempt {
        Some(Outcome::Accepted { id, .. }) => {
            let told = id.clone().unwrap_or_else(|| intent.name.clone().into());
            Plan { step: Step::Rest, report: Report { told: Some(told), ..taken() } }
        }
        None if inputs.memory.announced == Some(intent.requested_at)
            && inputs.now < later(intent.requested_at, SEND_WINDOW) =>
        {
            Plan { step: Step::Take(intent.clone()), report: creating("the snapshot is asked for") }
        }
        Some(Outcome::Refused | Outcome::Failed(_)) => take(inputs, here),
        // A second one of the same name is the first: that is all that can be relied on here.
        Some(Outcome::Unknown) | None => {
            let end = settled(intent, here);
            match inputs.now > end {
                true => take(inputs, here),
                false => Plan {
                    step: Step::Wait(end),
                    report: creating("the outcome of the last request is not known").until(end),
                },
            }
        }
    }
}

/// Writes down what is about to be asked for, unless the last try has to rest.
fn take(inputs: &Inputs<'_>, here: &Here<'_>) -> Plan {
    let wish = match inputs.wish {
        Ok(wish) => wish,
        Err(blocker) => return blocked(inputs, blocker, Phase::Pending),
    };
    if let Some(plan) = held(inputs, "take", &wish.config, Phase::Creating) {
        return plan;
    }
    let intent = Intent {
        name: inputs.record.intent.as_ref().map_or(&wish.name, |intent| &intent.name).clone(),
        token: here.token.clone(),
        machine: here.id.clone(),
        requested_at: inputs.now,
        config: wish.config.clone(),
    };
    let report = creating("the snapshot is asked for");
    match broken(Rule::SnapshotIntentFirst) {
        true => Plan { step: Step::Take(intent), report },
        false => Plan { step: Step::Intend(intent), report },
    }
}

fn taken() -> Report {
    let report = Report::busy(Phase::Ready, reasons::READY, "the snapshot was taken");
    Report { ready: true, ..report }
}

fn ready(found: &Snapshot) -> Plan {
    Plan { step: Step::Rest, report: Report { found: Some(found.clone()), ..taken() } }
}
