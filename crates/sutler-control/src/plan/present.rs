//! What is done for a record whose machine should be there.

use std::time::Duration;

use jiff::Timestamp;
use sutler_api::{
    infra::{PowerState, VirtualMachinePhase as Phase},
    names::reasons,
};
use sutler_provider::{ErrorKind, Power, Seen};

use super::{
    DeleteWhy, Desired, Inputs, Outcome, Plan, Platform, PowerStep, Report, Step, WantedPower,
    change::{difference, wants_disks},
    create::{self, TASK_POLL, held, later, look, observe, poll},
    find::{Search, find, is_on_record},
    report::{Waiting, stage},
    settled_at,
};
use crate::rules::{Rule, broken};

/// How long a change that was accepted and changed nothing is left alone.
const NOT_APPLIED_PAUSE: Duration = Duration::from_secs(300);

pub(super) fn plan(inputs: &Inputs<'_>) -> Plan {
    if inputs.record.paused {
        return Plan { step: Step::Rest, report: paused(inputs) };
    }
    let platform = match inputs.platform {
        Ok(platform) => platform,
        Err(blocker) => return blocked(inputs, blocker),
    };
    if let Some(call) = inputs.memory.in_flight {
        let phase =
            if inputs.record.provisioned { Phase::Reconfiguring } else { Phase::Provisioning };
        let report = Report::busy(phase, reasons::WAITING, format!("{call} is under way"));
        return Plan { step: Step::Rest, report };
    }
    let name = inputs.desired.ok().map(|desired| desired.request.name.as_str());
    let search = find(inputs.record, name, &platform, inputs.claims, inputs.now);
    if let Some(plan) = before_anything(inputs, &platform, &search) {
        return plan;
    }
    match (search.ours, inputs.desired) {
        (Some(seen), Ok(desired)) => with_machine(inputs, &platform, desired, &seen),
        (Some(seen), Err(blocker)) => {
            let mut plan = blocked(inputs, blocker);
            plan.report.machine = Some(seen);
            plan
        }
        (None, Ok(desired)) => create::plan(inputs, &platform, desired, search.namesake.as_ref()),
        (None, Err(blocker)) => blocked(inputs, blocker),
    }
}

/// What comes first whatever is wanted: a record that is behind, a machine that lost its token, and
/// machines that are too many.
pub(super) fn before_anything(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    search: &Search,
) -> Option<Plan> {
    let phase = if inputs.record.deleting { Phase::Deleting } else { Phase::Provisioning };
    if let Some(incarnation) = search.ahead {
        let message =
            "a machine with a later token of this record was seen: the record is corrected";
        let report = Report::busy(phase, reasons::OBSERVING, message);
        return Some(Plan { step: Step::Restore { incarnation }, report });
    }
    if let Some(seen) = &search.disputed {
        let message = format!(
            "machine {} no longer carries the token of this record: nothing is done to it. Put the \
             token back on it, or delete the record with the annotation sutler.dev/forget=true",
            seen.machine.id
        );
        return Some(Plan {
            step: Step::Rest,
            report: Report::stalled(reasons::OWNERSHIP_LOST, message),
        });
    }
    if let Some(seen) = &search.contested {
        let message = format!(
            "machine {} has the name of this record's, and another record has its ID: that one is \
             waited for",
            seen.machine.id
        );
        return Some(look(inputs.now, Report::busy(phase, reasons::OBSERVING, message)));
    }
    let extra = search.extras.first().filter(|_| !broken(Rule::ExtrasAreReaped))?;
    let id = &extra.machine.id;
    let report = Report::busy(
        phase,
        reasons::EXTRA_MACHINE,
        format!("machine {id} is one too many and is removed"),
    );
    // A removal that fails or takes its time must not keep the record from its own machine.
    let accepted = inputs.memory.accepted.get("reap").filter(|accepted| accepted.digest == id.0);
    if accepted.is_some_and(|a| inputs.now < later(a.at, platform.capabilities.deadlines.change))
        || held(inputs, "reap", id.as_ref(), phase).is_some()
    {
        return None;
    }
    Some(Plan { step: Step::Delete(id.clone(), DeleteWhy::Extra), report })
}

fn with_machine(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    desired: &Desired,
    seen: &Seen,
) -> Plan {
    let record = inputs.record;
    let mut plan = steps(inputs, platform, desired, seen);
    if !is_on_record(record, seen) && !platform.capabilities.token {
        // Where a machine can carry no token, the claim on record is the proof: it comes first.
        plan.step = Step::Claim(seen.machine.id.clone());
    }
    plan.report.machine = Some(seen.clone());
    plan
}

fn steps(inputs: &Inputs<'_>, platform: &Platform<'_>, desired: &Desired, seen: &Seen) -> Plan {
    let first = !inputs.record.provisioned;
    if seen.machine.busy {
        return unfinished(inputs, platform, seen);
    }
    if let Some(plan) = revert(inputs, platform, desired, seen) {
        return plan;
    }
    let reconfigure = reconfigure(inputs, platform, desired, seen);
    let mut held_change = None;
    match reconfigure {
        Change::None => {}
        Change::Now(plan) => return *plan,
        // The machine is well meanwhile; what it waits for is said beside that.
        Change::Held(reason, message) => held_change = Some((reason, message)),
    }
    if let Some(plan) = power(inputs, platform, desired, seen) {
        return plan;
    }
    let on = seen.machine.power == Power::On;
    let wants_address = on && platform.capabilities.addresses && !inputs.record.has_address;
    if wants_address && seen.machine.ips.is_empty() && first {
        let report = Report::busy(
            Phase::Provisioning,
            reasons::WAITING_FOR_NETWORK,
            "the machine runs and has no address yet",
        );
        return observe(
            inputs,
            platform,
            &seen.machine.id,
            seen.as_of,
            report.at(stage::NETWORK, None),
        );
    }
    if let Some(plan) = post_start(inputs, desired, seen, first) {
        return plan;
    }
    ready(inputs, seen, held_change)
}

/// A machine that the platform is still at work on.
fn unfinished(inputs: &Inputs<'_>, platform: &Platform<'_>, seen: &Seen) -> Plan {
    let id = &seen.machine.id;
    let phase = if inputs.record.provisioned { Phase::Reconfiguring } else { Phase::Provisioning };
    let report = Report::busy(phase, reasons::PROVISIONING, "the platform is at work on it")
        .at(stage::CLONE, None);
    let Some(intent) = &inputs.record.intent else {
        return observe(inputs, platform, id, seen.as_of, report);
    };
    if inputs.record.provisioned {
        return stuck(inputs, platform, seen, report);
    }
    match inputs.memory.attempt_of(intent.requested_at) {
        Some(Outcome::Accepted { task: Some(task), .. }) => poll(inputs, task, report),
        // What a failed task left over is ours, of no use, and in the way.
        Some(Outcome::TaskFailed { .. }) => remove_leftover(inputs, platform, seen),
        _ => match &inputs.record.task {
            Some(task) if inputs.memory.lost_task.as_ref() != Some(task) => {
                poll(inputs, task, report)
            }
            _ if inputs.now > settled_at(intent.requested_at, platform.capabilities) => {
                remove_leftover(inputs, platform, seen)
            }
            _ => observe(inputs, platform, id, seen.as_of, report),
        },
    }
}

/// A machine that was complete once and that the platform does not finish with. It may hold what
/// cannot be made again: nothing is done to it without a person.
fn stuck(inputs: &Inputs<'_>, platform: &Platform<'_>, seen: &Seen, report: Report) -> Plan {
    let id = &seen.machine.id;
    let running = inputs.memory.accepted.values().find_map(|accepted| accepted.task.as_ref());
    if let Some(task) = running {
        return poll(inputs, task, report);
    }
    let since = inputs.memory.busy_since.unwrap_or(inputs.now);
    if inputs.now < later(since, platform.capabilities.deadlines.make) {
        return observe(inputs, platform, id, seen.as_of, report);
    }
    let failure = inputs.memory.failures.values().next();
    let why = failure.map(|failure| format!(": {}", failure.error.message()));
    let message = format!(
        "the platform has not finished with machine {id} since {since}{}; look at it there, or \
         delete the record",
        why.unwrap_or_default()
    );
    create::look(inputs.now, Report::stalled(reasons::FAILED, message))
}

fn remove_leftover(inputs: &Inputs<'_>, platform: &Platform<'_>, seen: &Seen) -> Plan {
    let id = &seen.machine.id;
    let message = format!("machine {id} was left half made and is removed, to be made again");
    let report = Report::busy(Phase::Provisioning, reasons::FAILED, message).at(stage::CLONE, None);
    if let Some(plan) = held(inputs, "reap", id.as_ref(), Phase::Provisioning) {
        return plan;
    }
    match inputs.memory.accepted.get("reap").filter(|accepted| accepted.digest == id.0) {
        Some(accepted)
            if inputs.now < later(accepted.at, platform.capabilities.deadlines.change) =>
        {
            observe(inputs, platform, id, accepted.at, report)
        }
        _ => Plan { step: Step::Delete(id.clone(), DeleteWhy::Extra), report },
    }
}

/// A machine that is to go back to a snapshot does so until that is known to be done: what happens to
/// it meanwhile is lost by intent, and it is not said to be ready before.
fn revert(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    desired: &Desired,
    seen: &Seen,
) -> Option<Plan> {
    let wanted = desired.revert.as_ref().filter(|_| inputs.record.provisioned)?;
    let id = &seen.machine.id;
    let message = format!("it goes back to VMSnapshot {}", wanted.name);
    let report =
        Report::busy(Phase::Reconfiguring, reasons::REVERTING, message).at(stage::CONFIGURE, None);
    if !platform.capabilities.snapshots {
        let message = "spec.snapshot.revertToRef: this provider cannot go back to snapshots";
        return Some(Plan {
            step: Step::Rest,
            report: Report::stalled(reasons::UNSUPPORTED, message),
        });
    }
    let digest = wanted.snapshot.as_ref();
    if let Some(plan) = held(inputs, "revert", digest, Phase::Reconfiguring) {
        return Some(plan);
    }
    match inputs.memory.accepted.get("revert").filter(|accepted| accepted.digest == digest) {
        Some(accepted) => Some(match &accepted.task {
            Some(task) => poll(inputs, task, report),
            None if seen.as_of <= accepted.at => observe(inputs, platform, id, accepted.at, report),
            // Its disks may be smaller again, or others.
            None if wants_disks(desired) && seen.disks_as_of.is_none_or(|at| at <= accepted.at) => {
                describe(inputs, seen, report)
            }
            None => Plan { step: Step::Reverted(wanted.name.clone()), report },
        }),
        None => match revert_open_until(inputs, platform) {
            Some(end) if inputs.now <= end => {
                Some(Plan { step: Step::Wait(end), report: report.until(end) })
            }
            Some(end) if seen.as_of <= end => Some(observe(inputs, platform, id, end, report)),
            _ => Some(Plan { step: Step::Revert(id.clone(), wanted.clone()), report }),
        },
    }
}

/// Until when a request to go back may still have an effect of which nobody knows. Were another one
/// sent and answered meanwhile, the first could undo what happened after it.
fn revert_open_until(inputs: &Inputs<'_>, platform: &Platform<'_>) -> Option<Timestamp> {
    let asked = inputs.record.revert_requested_at?;
    let ours = inputs.memory.revert_requested_at == Some(asked);
    let failed = inputs.memory.failures.get("revert").map(|failure| failure.error.kind());
    let known =
        failed.is_some_and(|kind| !matches!(kind, ErrorKind::Indeterminate | ErrorKind::Internal));
    if ours && known || broken(Rule::OneRevertAtATime) {
        return None;
    }
    Some(settled_at(asked, platform.capabilities))
}

enum Change {
    None,
    Now(Box<Plan>),
    Held(&'static str, String),
}

fn reconfigure(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    desired: &Desired,
    seen: &Seen,
) -> Change {
    let capabilities = platform.capabilities;
    let phase = if inputs.record.provisioned { Phase::Reconfiguring } else { Phase::Provisioning };
    let found = difference(desired, inputs.record, &seen.machine, capabilities);
    // Lists need not tell of disks: whether they are right was told before, and whether they are not is seen
    // by a look at the machine itself.
    let told = seen.disks_as_of.is_some() || !inputs.record.seen_disks.is_empty();
    let unsure = found.of_disks && !seen.knows_disks() || !told && wants_disks(desired);
    let text = found.text();
    let accepted = inputs.memory.accepted.get("reconfigure").filter(|a| a.digest == text);
    if unsure && accepted.is_none_or(|accepted| accepted.task.is_none()) {
        let report = Report::busy(phase, reasons::OBSERVING, "its disks are looked at");
        return Change::Now(Box::new(describe(inputs, seen, report.at(stage::CONFIGURE, None))));
    }
    if let Some((field, message)) = found.impossible {
        return Change::Held(reasons::INVALID, format!("{field}: {message}"));
    }
    if found.is_empty() {
        return Change::None;
    }
    if !capabilities.reconfigure {
        return Change::Held(
            reasons::UNSUPPORTED,
            format!("{text}: this provider cannot change machines"),
        );
    }
    let report =
        Report::busy(phase, reasons::RECONFIGURING, text.clone()).at(stage::CONFIGURE, None);
    if let Some(failure) = inputs.memory.failures.get("reconfigure")
        && held(inputs, "reconfigure", &text, phase).is_some()
    {
        let reason = failure.error.kind().as_str();
        return Change::Held(reason, format!("{text}: {}", failure.error.message()));
    }
    if let Some(accepted) = accepted {
        if let Some(task) = &accepted.task {
            return Change::Now(Box::new(poll(inputs, task, report)));
        }
        if seen.as_of <= accepted.at {
            let id = &seen.machine.id;
            return Change::Now(Box::new(observe(inputs, platform, id, accepted.at, report)));
        }
        if inputs.now < later(accepted.at, NOT_APPLIED_PAUSE) {
            let message = format!("{text}: the platform accepted the change and did not make it");
            return Change::Held(reasons::NOT_APPLIED, message);
        }
    }
    if found.needs_off {
        let message = format!("{text}: this is changed when the machine is off");
        return Change::Held(reasons::NEEDS_POWER_OFF, message);
    }
    let step = Step::Reconfigure(seen.machine.id.clone(), found);
    Change::Now(Box::new(Plan { step, report }))
}

/// A look at the machine itself: lists do not tell everything.
fn describe(inputs: &Inputs<'_>, seen: &Seen, report: Report) -> Plan {
    let id = &seen.machine.id;
    if let Some(plan) = held(inputs, "describe", id.as_ref(), report.phase) {
        return plan;
    }
    let next = inputs.memory.described_at.map(|at| later(at, TASK_POLL));
    match next.filter(|next| *next > inputs.now) {
        Some(next) => Plan { step: Step::Wait(next), report: report.until(next) },
        None => Plan { step: Step::Describe(id.clone()), report },
    }
}

fn power(
    inputs: &Inputs<'_>,
    platform: &Platform<'_>,
    desired: &Desired,
    seen: &Seen,
) -> Option<Plan> {
    let id = &seen.machine.id;
    let first = !inputs.record.provisioned;
    let wanted = desired.power.or(first.then_some(WantedPower::On));
    let Some(wanted) = wanted else { return restart(inputs, seen) };
    let (power, step) = match (wanted, seen.machine.power) {
        (_, Power::Unknown) | (WantedPower::On, Power::On) => {
            return restart(inputs, seen);
        }
        (WantedPower::Off | WantedPower::OffGraceful, Power::Off) => return None,
        (WantedPower::On, Power::Off | Power::Paused) => ("on", PowerStep::On),
        (WantedPower::Off, Power::On | Power::Paused) => ("off", PowerStep::Off),
        (WantedPower::OffGraceful, Power::On | Power::Paused) => {
            ("off", shutdown_or_off(inputs, platform, desired))
        }
    };
    let phase = if first { Phase::Provisioning } else { Phase::Reconfiguring };
    let stage = stage::START;
    let report = Report::busy(phase, reasons::POWERING, format!("it is being switched {power}"))
        .at(stage, None);
    let digest = format!("{step:?}");
    if let Some(plan) = held(inputs, "power", &digest, phase) {
        return Some(plan);
    }
    if power == "off"
        && desired.pre_stop
        && !inputs.memory.pre_stopped
        && !broken(Rule::GuestsAreTold)
    {
        if let Some(plan) = held(inputs, "hook", &desired.digest, phase) {
            return Some(plan);
        }
        let report =
            Report::busy(phase, reasons::RUNNING_HOOK, "what is to be done before its stop")
                .at(stage, None);
        return Some(Plan { step: Step::PreStop(id.clone()), report });
    }
    let accepted = inputs.memory.accepted.get("power").filter(|accepted| accepted.digest == digest);
    if let Some(accepted) = accepted {
        let patience = match step {
            PowerStep::Shutdown => desired.shutdown_timeout,
            PowerStep::On | PowerStep::Off => platform.capabilities.deadlines.change,
        };
        let end = later(accepted.at, patience);
        if let Some(task) = &accepted.task {
            return Some(poll(inputs, task, report));
        }
        if inputs.now < end {
            let mut plan = observe(inputs, platform, id, accepted.at, report.until(end));
            if step == PowerStep::Shutdown && matches!(plan.step, Step::Look(_)) {
                // A list may come late; the guest's time ends when it ends.
                plan.step = Step::LookUntil(inputs.now + create::LOOK_AGAIN, end);
            }
            return Some(plan);
        }
    }
    Some(Plan { step: Step::Power(id.clone(), step), report })
}

/// The guest is asked once, and has its time; then it is switched off.
fn shutdown_or_off(inputs: &Inputs<'_>, platform: &Platform<'_>, desired: &Desired) -> PowerStep {
    if !platform.capabilities.graceful_shutdown {
        return PowerStep::Off;
    }
    match inputs.memory.shutdown_since {
        Some(since) if inputs.now >= later(since, desired.shutdown_timeout) => PowerStep::Off,
        _ => PowerStep::Shutdown,
    }
}

fn restart(inputs: &Inputs<'_>, seen: &Seen) -> Option<Plan> {
    let request = inputs.record.restart.as_ref()?;
    if !inputs.record.provisioned || seen.machine.power != Power::On {
        return None;
    }
    let report = Report::busy(Phase::Reconfiguring, reasons::POWERING, "it is being restarted")
        .at(stage::START, None);
    if let Some(plan) = held(inputs, "power", request, Phase::Reconfiguring) {
        return Some(plan);
    }
    Some(Plan { step: Step::Restart(seen.machine.id.clone(), request.clone()), report })
}

fn post_start(inputs: &Inputs<'_>, desired: &Desired, seen: &Seen, first: bool) -> Option<Plan> {
    // Its power is written down as on only after the hook was run, so a crash repeats the hook
    // rather than leaving it out.
    let started = seen.machine.power == Power::On && inputs.record.power != Some(PowerState::On);
    if !started || !desired.post_start || inputs.memory.post_started {
        return None;
    }
    let phase = if first { Phase::Provisioning } else { Phase::Reconfiguring };
    let report = Report::busy(phase, reasons::RUNNING_HOOK, "what is to be done after its start")
        .at(stage::POST_PROVISION, None);
    if let Some(plan) = held(inputs, "hook", &desired.digest, phase) {
        return Some(plan);
    }
    Some(Plan { step: Step::PostStart(seen.machine.id.clone()), report })
}

fn ready(inputs: &Inputs<'_>, seen: &Seen, held_change: Option<(&'static str, String)>) -> Plan {
    let (phase, reason, message) = match seen.machine.power {
        Power::Off => (Phase::Stopped, "Stopped", "the machine is off, as wanted"),
        Power::Paused => (Phase::Stopped, "Paused", "the machine is stopped in the middle"),
        Power::On | Power::Unknown => (Phase::Running, reasons::READY, "the machine is as wanted"),
    };
    let failed = held_change.as_ref().is_some_and(|(reason, _)| {
        matches!(*reason, reasons::INVALID | reasons::UNSUPPORTED | reasons::FAILED)
    });
    let mut report = Report::busy(phase, reason, message);
    report.ready = !failed;
    let next = next_try(inputs);
    if let Some((reason, message)) = held_change {
        if failed {
            report.reason = reason.to_owned();
            report.message.clone_from(&message);
            report.stalled = true;
        }
        report.held_change = Some((reason, message));
        report.waiting = Some(Waiting { next });
    }
    let step = match next {
        Some(at) if report.held_change.is_some() => Step::Wait(at),
        _ => Step::Rest,
    };
    Plan { step, report }
}

fn next_try(inputs: &Inputs<'_>) -> Option<Timestamp> {
    let failure = inputs.memory.failures.get("reconfigure")?;
    match super::retry(failure, &failure.digest) {
        // One that is over was for another change, and says nothing of this one.
        super::Retry::At(at) => Some(at).filter(|at| *at > inputs.now),
        super::Retry::OnChange => None,
    }
}

fn paused(inputs: &Inputs<'_>) -> Report {
    let mut report = Report::paused();
    if inputs.record.id.is_some() {
        report.phase = Phase::Running;
    }
    report
}

pub(super) fn blocked(inputs: &Inputs<'_>, blocker: &super::Blocker) -> Plan {
    let report = Report::blocked(inputs.record, blocker, inputs.now);
    let step = match report.waiting.as_ref().and_then(|waiting| waiting.next) {
        Some(at) => Step::Wait(at),
        None => Step::Rest,
    };
    Plan { step, report }
}
