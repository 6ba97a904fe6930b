//! What is done for a snapshot that is on its way out. Only what is on record is needed for that.

use jiff::Timestamp;
use sutler_api::{infra::SnapshotPhase as Phase, names::reasons};
use sutler_provider::{Snapshot, SnapshotId};

use super::{
    Here, Home, Inputs, Intent, Outcome, Plan, Report, Step, blocked, held, later, look,
    look_seldom, poll, settled,
};

pub(super) fn plan(inputs: &Inputs<'_>) -> Plan {
    let record = inputs.record;
    if !record.finalizer {
        return Plan { step: Step::Rest, report: deleting("other finalizers are waited for") };
    }
    if record.forget {
        return forget("it is forgotten on request");
    }
    let Some(intent) = &record.intent else { return forget("nothing was asked for") };
    if record.paused {
        let report = deleting("changes are held back: remove the annotation sutler.dev/paused");
        return Plan { step: Step::Rest, report };
    }
    let here = match inputs.home {
        Home::Here { id, token, seen, capabilities } => {
            Here { id, token, seen: seen.as_ref(), capabilities }
        }
        Home::Gone(why) => return forget(why),
        Home::Blocked(blocker) => return blocked(inputs, blocker, Phase::Deleting),
    };
    if let Some(call) = inputs.memory.in_flight {
        return Plan { step: Step::Rest, report: deleting(format!("{call} is under way")) };
    }
    let attempt = inputs.memory.attempt_of(intent.requested_at);
    if let Some(Outcome::Accepted { task: Some(task), .. }) = attempt {
        return poll(inputs, task, deleting("it is still being taken, and removed then"));
    }
    if let Some(accepted) = &inputs.memory.deleted
        && let Some(task) = &accepted.task
    {
        return poll(inputs, task, deleting("it is being removed"));
    }
    if here.silent() {
        return unseen(inputs, &here, intent, attempt);
    }
    let Some((_, as_of)) = here.list() else {
        return look(inputs, &here, deleting("the machine is looked at"));
    };
    let ours = here.find(intent, record.id.as_ref());
    match ours.or_else(|| twin(inputs, &here, intent)) {
        Some(found) => remove(inputs, &here, &found.id, as_of),
        None => gone(inputs, &here, intent, attempt, as_of),
    }
}

/// Another of its name, from a request that was sent twice on its way. A name that a person chose proves
/// nothing.
fn twin<'a>(inputs: &Inputs<'_>, here: &Here<'a>, intent: &Intent) -> Option<&'a Snapshot> {
    let exact = inputs.wish.map_or(true, |wish| wish.exact);
    here.find(intent, None).filter(|_| !exact)
}

fn remove(inputs: &Inputs<'_>, here: &Here<'_>, id: &SnapshotId, as_of: Timestamp) -> Plan {
    let report = deleting(format!("snapshot {id} is being removed"));
    if let Some(plan) = held(inputs, "delete", id.as_ref(), Phase::Deleting) {
        return plan;
    }
    match &inputs.memory.deleted {
        // It was seen before it was to go, or has some time left to go.
        Some(accepted)
            if accepted.id == *id
                && (as_of <= accepted.at
                    || inputs.now < later(accepted.at, here.capabilities.deadlines.change)) =>
        {
            look(inputs, here, report)
        }
        _ => Plan { step: Step::Delete(here.id.clone(), id.clone()), report },
    }
}

/// It is not to be seen: that counts once nothing of it can still come.
fn gone(
    inputs: &Inputs<'_>,
    here: &Here<'_>,
    intent: &Intent,
    attempt: Option<&Outcome>,
    as_of: Timestamp,
) -> Plan {
    let since = match (&inputs.record.id, &inputs.memory.deleted, attempt) {
        (_, Some(accepted), _) => accepted.at,
        // A look from before it was taken does not show it either.
        (Some(_), None, _) => settled(intent, here),
        (None, None, Some(Outcome::Refused)) => intent.requested_at,
        (None, None, Some(Outcome::Failed(at))) => *at,
        (None, None, _) => settled(intent, here),
    };
    let busy = here.seen.is_some_and(|seen| seen.machine.busy);
    let busy = busy && inputs.record.id.is_none();
    if as_of > since && !busy {
        return forget("it is gone");
    }
    if as_of > later(since, here.capabilities.deadlines.make) {
        // What the platform is at may be what was asked for: only a person can tell.
        let message = format!(
            "the platform does not finish with machine {}, and the snapshot may be what it is at: \
             look at it there, or set the annotation sutler.dev/forget",
            here.id
        );
        let report =
            Report { stalled: true, reason: reasons::FAILED.to_owned(), ..deleting(message) };
        return look_seldom(inputs, here, as_of, report);
    }
    let report = deleting("a snapshot that was asked for may still show: it is waited for");
    look(inputs, here, report)
}

/// The platform does not tell of snapshots: its answers are all there is.
fn unseen(
    inputs: &Inputs<'_>,
    here: &Here<'_>,
    intent: &Intent,
    attempt: Option<&Outcome>,
) -> Plan {
    if inputs.memory.deleted.is_some() {
        return forget("the platform says that it is gone");
    }
    let told = match attempt {
        Some(Outcome::Accepted { id, .. }) => {
            Some(id.clone().unwrap_or_else(|| intent.name.clone().into()))
        }
        _ => None,
    };
    match inputs.record.id.clone().or(told) {
        Some(id) => match held(inputs, "delete", id.as_ref(), Phase::Deleting) {
            Some(plan) => plan,
            None => {
                let report = deleting(format!("snapshot {id} is being removed"));
                Plan { step: Step::Delete(here.id.clone(), id), report }
            }
        },
        None if matches!(attempt, Some(Outcome::Refused)) => forget("it was never taken"),
        None => {
            let end = settled(intent, here);
            match inputs.now > end {
                true => forget("the time in which it could have been taken is over"),
                false => Plan {
                    step: Step::Wait(end),
                    report: deleting("it may still be taken").until(end),
                },
            }
        }
    }
}

fn deleting(message: impl Into<String>) -> Report {
    Report::busy(Phase::Deleting, reasons::DELETING, message)
}

fn forget(why: &str) -> Plan {
    Plan { step: Step::Forget, report: deleting(why) }
}
