//! What is done for a record whose machine is not to be seen.

use std::time::Duration;

use jiff::Timestamp;
use sutler_api::{infra::VirtualMachinePhase as Phase, names::reasons};
use sutler_provider::{Error, ErrorKind, MachineId, Seen, TaskId, UniqueBy};

use super::{
    Desired, Inputs, Intent, Outcome, Plan, Platform, Report, Retry, Step, report::stage, retry,
    settled_at,
};
use crate::rules::{Rule, broken};

/// The pause between two questions after one task.
pub(super) const TASK_POLL: Duration = Duration::from_secs(2);

/// The pause between two tries at something that must happen in the end.
const PERSISTENCE: Duration = Duration::from_secs(300);

/// How long an event is waited for before the machine is looked at.
const EVENT_GRACE: Duration = Duration::from_secs(2);

/// Plans for a record whose machine is wanted and not seen.
pub(super) fn plan(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    desired: &Desired,
    namesake: Option<&Seen>,
) -> Plan {
    let Some(intent) = &inputs.record.intent else {
        return match inputs.record.asked_at {
            Some(asked_at) => take_over(asked_at),
            None => create(inputs, desired, 1),
        };
    };
    let attempt = inputs.memory.attempt_of(intent.requested_at);
    let capabilities = platform.capabilities;
    // A task is asked after for as long as it takes, unless it is all that is known of the machine.
    let told = matches!(attempt, Some(Outcome::Accepted { id: Some(_), .. }));
    let overdue = !capabilities.returns_id
        && !told
        && inputs.record.id.is_none()
        && inputs.now >= later(intent.first_requested_at, platform.discovery_timeout);
    if let Some(Outcome::Accepted { task: Some(task), .. }) = attempt
        && !overdue
    {
        let report = provisioning(reasons::PROVISIONING, "the machine is being made");
        return poll(inputs, task, report);
    }
    if let Some(id) = &inputs.record.id {
        let since = proof_needed_since(inputs, platform, intent);
        if let Some(seen) = namesake.filter(|_| gone_since(platform, id, since)) {
            return claim(seen, provisioning(reasons::OBSERVING, instead(id, seen)));
        }
        return known(inputs, platform, desired, intent, id);
    }
    match attempt {
        Some(Outcome::Refused(error)) => match overtaken(inputs, error) {
            // It may have been removed in the place of another of its group that was to go, which left
            // that one to this record.
            Some(at) if inputs.record.group.is_some() && !complete_since(platform, at) => {
                let message = "the platform refused to make another: the group is looked at first";
                look(at, provisioning(reasons::OBSERVING, message))
            }
            _ => create(inputs, desired, intent.token.incarnation),
        },
        // What the failed task left over is found by its token and removed first.
        Some(Outcome::TaskFailed { at, .. }) => match complete_since(platform, *at) {
            true => create(inputs, desired, intent.token.incarnation + 1),
            false => look(*at, provisioning(reasons::OBSERVING, "the failed task is cleaned up")),
        },
        Some(Outcome::Accepted { id: Some(id), at, .. }) => {
            let settled = settled_at(intent.requested_at, platform.capabilities);
            if gone_since(platform, id, settled) && alone(platform, settled) {
                return create(inputs, desired, intent.token.incarnation + 1);
            }
            let message = format!("machine {id} was accepted and is expected to show up");
            observe(inputs, platform, id, *at, provisioning(reasons::PROVISIONING, message))
        }
        Some(Outcome::Accepted { id: None, .. }) if platform.capabilities.returns_id => {
            unresolved(inputs, platform, desired, intent, reasons::DISCOVERING)
        }
        Some(Outcome::Accepted { id: None, .. }) => discover(inputs, platform, intent),
        Some(Outcome::Unknown) | None if broken(Rule::LookBeforeCreate) => {
            create(inputs, desired, intent.token.incarnation)
        }
        Some(Outcome::Unknown) | None => {
            unresolved(inputs, platform, desired, intent, reasons::OBSERVING)
        }
    }
}

/// When a machine was refused because of a conflict. It may have been there and been removed meanwhile, or
/// still be on its way out.
pub(super) fn overtaken(inputs: &Inputs<'_>, error: &Error) -> Option<Timestamp> {
    let failure = inputs.memory.failures.get("create");
    failure.filter(|_| error.kind() == ErrorKind::Conflict).map(|failure| failure.at)
}

/// Puts on record what somebody else asked for.
fn take_over(asked_at: Timestamp) -> Plan {
    let message = "the machine was asked for by somebody else and is looked for";
    Plan { step: Step::TakeOver { asked_at }, report: provisioning(reasons::DISCOVERING, message) }
}

/// Creates, unless the last try failed and its pause is not over.
fn create(inputs: &Inputs<'_>, desired: &Desired, incarnation: u32) -> Plan {
    if inputs.record.asked_at.is_some() {
        let message = "the machine that somebody else asked for is not there: delete the record";
        return look(inputs.now, Report::stalled(reasons::MACHINE_LOST, message));
    }
    let report = provisioning(reasons::PROVISIONING, "the machine is being asked for");
    if let Some(plan) = held(inputs, "create", &desired.digest, Phase::Provisioning) {
        return plan;
    }
    Plan { step: Step::Create { incarnation }, report }
}

/// A machine whose ID is on record and that is not to be seen: it is somewhere, or gone.
fn known(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    desired: &Desired,
    intent: &Intent,
    id: &MachineId,
) -> Plan {
    let since = proof_needed_since(inputs, platform, intent);
    // Another process may have put a machine on record that is not the one which our own request made:
    // that one has to be gone as well.
    if let Some(Outcome::Accepted { id: Some(made), at, .. }) =
        inputs.memory.attempt_of(intent.requested_at)
        && made != id
        && !gone_since(platform, made, since)
    {
        let message = format!("machine {made} was accepted and is expected to show up");
        return observe(inputs, platform, made, *at, provisioning(reasons::PROVISIONING, message));
    }
    if gone_since(platform, id, since) {
        if inputs.record.once && !broken(Rule::NodesAreMadeOnce) {
            let message = format!("machine {id} is gone and is not made again: delete the record");
            let report = Report::stalled(reasons::MACHINE_LOST, message);
            return Plan { step: Step::Rest, report };
        }
        // For as long as a request can have an effect, one that was sent twice can have a second.
        let settled = settled_at(intent.requested_at, platform.capabilities).max(since);
        if !alone(platform, settled) {
            let message = format!("machine {id} is gone; whether its request made another is seen");
            let report = Report::busy(Phase::Running, reasons::OBSERVING, message);
            return look(settled, report.until(settled.max(inputs.now)));
        }
        let mut plan = create(inputs, desired, intent.token.incarnation + 1);
        if plan.report.reason == reasons::PROVISIONING {
            plan.report.reason = reasons::MACHINE_LOST.to_owned();
            plan.report.message = format!("machine {id} is gone and is made again");
        }
        return plan;
    }
    let message = format!("machine {id} is not to be seen; it is being looked for");
    let report = Report::busy(Phase::Running, reasons::OBSERVING, message);
    // Beyond a platform without lists, only a complete list proves that no other is ours.
    match absent_since(platform, id, since) {
        true if since > inputs.now => look(since, report),
        _ => observe(inputs, platform, id, inputs.memory.id_since.unwrap_or(inputs.now), report),
    }
}

/// Whether everything that is there was seen since then, where it can be: a request that was answered may have
/// been sent twice on its way, and the second have had to wait until the first one's machine was gone.
fn alone(platform: &Platform<'_>, since: Timestamp) -> bool {
    !platform.capabilities.list || complete_since(platform, since)
}

/// Takes a machine onto the record in the place of one that is gone.
pub(super) fn claim(seen: &Seen, report: Report) -> Plan {
    Plan { step: Step::Claim(seen.machine.id.clone()), report: report.of(seen) }
}

/// Why that is done.
pub(super) fn instead(id: &MachineId, seen: &Seen) -> String {
    format!("machine {id} is gone, and {} has this record's name: it is claimed", seen.machine.id)
}

/// A request whose outcome is not known: nothing is sent again until the platform, looked at after
/// the request could still have had an effect, shows nothing of ours.
fn unresolved(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    desired: &Desired,
    intent: &Intent,
    reason: &'static str,
) -> Plan {
    if !platform.capabilities.returns_id || inputs.record.asked_at.is_some() {
        return discover(inputs, platform, intent);
    }
    let settled = match broken(Rule::SettleWindow) {
        true => intent.requested_at,
        false => settled_at(intent.requested_at, platform.capabilities),
    };
    if !platform.capabilities.list {
        // The same token again is the same machine, where the platform sees to that.
        if platform.capabilities.unique_by == UniqueBy::Token {
            return create(inputs, desired, intent.token.incarnation);
        }
        let message = "the outcome of the last request is not known, and this provider cannot list \
                       its machines: look on the platform and set status.id or delete the record";
        return Plan { step: Step::Rest, report: Report::stalled(reasons::OBSERVING, message) };
    }
    if complete_since(platform, settled) {
        return create(inputs, desired, intent.token.incarnation);
    }
    let message = "the outcome of the last request is not known: the platform is looked at before \
                   anything is sent again";
    look(settled, provisioning(reason, message).until(settled.max(inputs.now)))
}

/// A machine whose ID was not told: it is looked for until its time is over, and taken even later.
fn discover(inputs: &Inputs<'_>, platform: &Platform<'_>, intent: &Intent) -> Plan {
    let end = later(intent.first_requested_at, platform.discovery_timeout);
    let name = inputs.record.platform_name.as_deref().unwrap_or(&inputs.record.name);
    // What does not show up may only not have been seen.
    let unseen = match platform.list_error {
        Some(error) => format!("; the last look at the platform failed: {}", error.message()),
        None => String::new(),
    };
    if inputs.now >= end {
        let message = format!(
            "no machine called {name} showed up within {} seconds of {}; it is taken if it still \
             comes, or delete the record{unseen}",
            platform.discovery_timeout.as_secs(),
            intent.first_requested_at,
        );
        let report = Report::stalled(reasons::DISCOVERY_TIMEOUT, message);
        return Plan { step: Step::Look(next_list(inputs, platform)), report };
    }
    if !platform.capabilities.list {
        let message = "the machine's ID was not told and this provider cannot list its machines";
        let report = provisioning(reasons::DISCOVERING, message).until(end);
        return Plan { step: Step::Wait(end), report };
    }
    let message = format!("a machine called {name} is being looked for{unseen}");
    // Its time ends whether or not a list ever comes.
    let step = Step::LookUntil(next_list(inputs, platform), end);
    Plan { step, report: provisioning(reasons::DISCOVERING, message).until(end) }
}

/// The state that the next list shows at least. What is in it is there, however far it may be behind: only
/// for a proof of absence would that have to pass.
fn next_list(inputs: &Inputs<'_>, platform: &Platform<'_>) -> Timestamp {
    let lag = platform.capabilities.list_lag;
    later(inputs.now.saturating_sub(lag).unwrap_or(inputs.now), LOOK_AGAIN)
}

/// A look that must not be older than this instant: the smallest step ahead.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What must hold until then before anything is concluded from absence.
pub(super) fn proof_needed_since(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    intent: &Intent,
) -> Timestamp {
    let since = inputs.memory.id_since.unwrap_or(inputs.now);
    // A reply ends a request; without one, a second effect of it may still come. A machine that is being
    // made need not be in any list before its task has ended.
    match inputs.memory.attempt_of(intent.requested_at) {
        Some(Outcome::Accepted { at, .. }) => since.max(*at),
        _ => since.max(settled_at(intent.requested_at, platform.capabilities)),
    }
}

/// Whether the machine is known to have been gone at `since`, and nothing else can be ours.
pub(super) fn gone_since(platform: &Platform<'_>, id: &MachineId, since: Timestamp) -> bool {
    let enough = !platform.capabilities.list || platform.capabilities.unique_by != UniqueBy::None;
    match enough {
        true => absent_since(platform, id, since),
        false => complete_since(platform, since) && absent_since(platform, id, since),
    }
}

fn absent_since(platform: &Platform<'_>, id: &MachineId, since: Timestamp) -> bool {
    match platform.view.get(id) {
        // Another machine has the ID now.
        Some(other) => other.as_of > since,
        None => platform.view.absent_as_of(id).is_some_and(|as_of| as_of > since),
    }
}

/// Whether the platform is known completely after `since`. What was looked at in the same instant
/// may have been looked at before.
pub(super) fn complete_since(platform: &Platform<'_>, since: Timestamp) -> bool {
    platform.view.complete_as_of().is_some_and(|as_of| as_of > since)
}

/// Asks for a look at what is there after `since`.
pub(super) fn look(since: Timestamp, report: Report) -> Plan {
    Plan { step: Step::Look(later(since, LOOK_AGAIN)), report }
}

/// Asks after a task, at most every few seconds.
pub(super) fn poll(inputs: &Inputs<'_>, task: &TaskId, report: Report) -> Plan {
    let report = match inputs.memory.task_percent {
        Some(percent) => {
            let stage = report.progress.as_ref().map_or(stage::CLONE, |progress| progress.stage);
            report.at(stage, Some(percent))
        }
        None => report,
    };
    if let Some(plan) = held(inputs, "task", task.as_ref(), report.phase) {
        return plan;
    }
    match inputs.memory.polled_at.map(|at| later(at, TASK_POLL)) {
        Some(next) if next > inputs.now => {
            Plan { step: Step::Wait(next), report: report.until(next) }
        }
        _ => Plan { step: Step::Task(task.clone()), report },
    }
}

/// Looks at one machine after something happened to it: an event may tell first, then it is looked
/// at once, and from then on the shared list tells.
pub(super) fn observe(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    id: &MachineId,
    after: Timestamp,
    report: Report,
) -> Plan {
    if let Some(plan) = held(inputs, "describe", id.as_ref(), report.phase) {
        return plan;
    }
    let described = inputs.memory.described_at.is_some_and(|at| at >= after);
    let grace = later(after, EVENT_GRACE);
    let capabilities = platform.capabilities;
    if !described && capabilities.events && inputs.now < grace {
        return Plan { step: Step::Wait(grace), report: report.until(grace) };
    }
    if !described || !capabilities.list {
        let next = inputs.memory.described_at.map(|at| later(at, TASK_POLL));
        return match next.filter(|next| described && *next > inputs.now) {
            Some(next) => Plan { step: Step::Wait(next), report: report.until(next) },
            None => Plan { step: Step::Describe(id.clone()), report },
        };
    }
    look(inputs.now, report)
}

/// The plan of a record whose last try at `what` failed, until it may be tried again.
pub(super) fn held(
    inputs: &Inputs<'_>,
    what: &'static str,
    digest: &str,
    phase: Phase,
) -> Option<Plan> {
    let failure = inputs.memory.failures.get(what)?;
    match retry(failure, digest) {
        Retry::At(at) if at <= inputs.now => None,
        Retry::At(at) => {
            let report = Report::failed(phase, what, &failure.error, Some(at));
            Some(Plan { step: Step::Wait(at), report })
        }
        // What is on its way out goes on trying: nobody will edit it any more.
        Retry::OnChange if matches!(what, "delete" | "reap" | "disown" | "describe" | "task") => {
            let at = later(failure.at, PERSISTENCE);
            if at <= inputs.now {
                return None;
            }
            let report = Report::failed(phase, what, &failure.error, Some(at));
            Some(Plan { step: Step::Wait(at), report })
        }
        Retry::OnChange => {
            let report = Report::failed(phase, what, &failure.error, None);
            Some(Plan { step: Step::Rest, report })
        }
    }
}

pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn provisioning(reason: &str, message: impl Into<String>) -> Report {
    Report::busy(Phase::Provisioning, reason, message).at(stage::CLONE, None)
}
