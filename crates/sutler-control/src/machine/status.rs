//! What a record's status says after a plan, written when it matters and not more often.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use sutler_api::{
    conditions,
    infra::{PowerState, VirtualMachine, VirtualMachinePhase as Phase, VirtualMachineStatus},
    names::{condition_types, reasons, stages},
    progress::{Stage, StageState, Waiting},
};

use super::{
    Error,
    execute::patch_status,
    facts::{facts, forget_machine},
};
use crate::{
    context::{Context, Slot},
    fleet::Key,
    kit::version_of,
    operations,
    plan::{Desired, Outcome, Progress, Record, Report},
    rules::{Rule, broken},
};

/// How many times as long as other news mere motion may wait to be written.
const MOTION: u32 = 5;

/// A record that cannot be read.
pub(super) fn unreadable(message: String) -> Report {
    Report {
        phase: Phase::Failed,
        ready: false,
        reason: reasons::UNREADABLE.to_owned(),
        message,
        stalled: true,
        progress: None,
        waiting: None,
        machine: None,
        held_change: None,
    }
}

/// Writes the report into the record's status, at once if it matters, or later together with what
/// else comes; then the time of that is returned.
pub(super) async fn publish(
    context: &Arc<Context>,
    vm: &Arc<VirtualMachine>,
    desired: Option<&Desired>,
    report: &Report,
) -> Result<Option<Timestamp>, Error> {
    let uid = vm.uid().unwrap_or_default();
    let now = context.clock.now();
    let old = vm.status.clone().unwrap_or_default();
    let mut new = assess(context, vm, desired, report);
    new.operation_ref = operations::begin(context, vm, report).await?;
    let Some(patch) = difference(&old, &new) else {
        context.slot(&uid, |slot| slot.unwritten_since = None);
        operations::follow(context, vm, report, &new, false).await?;
        return Ok(None);
    };
    let due = context.slot(&uid, |slot| {
        let since = *slot.unwritten_since.get_or_insert(now);
        let pause = pause(&old, &new, report, context.settings.coalesce, now);
        let due = since.saturating_add(pause).unwrap_or(now).max(slot.pace.next());
        (due > now).then_some(due)
    });
    if due.is_some() {
        return Ok(due);
    }
    let body = json!({ "metadata": { "resourceVersion": vm.resource_version() }, "status": patch });
    let written = patch_status(context, vm, body).await?;
    let Some(fresh) = written else {
        // Somebody else was first: look again at what they wrote.
        return Ok(Some(now + super::AGAIN));
    };
    context.slot(&uid, |slot| {
        slot.unwritten_since = None;
        slot.pace.wrote(now, version_of(&**vm), version_of(&*fresh));
    });
    tell(context, &fresh, &old, &new, report).await;
    operations::follow(context, &fresh, report, &new, true).await?;
    Ok(None)
}

/// The status that a record has after a report.
pub(super) fn assess(
    context: &Context,
    vm: &VirtualMachine,
    desired: Option<&Desired>,
    report: &Report,
) -> VirtualMachineStatus {
    let now = context.clock.now();
    let old = vm.status.clone().unwrap_or_default();
    let provider = Key::new(
        vm.spec.provider_ref.namespace_or(&vm.namespace().unwrap_or_default()),
        &vm.spec.provider_ref.name,
    );
    let capabilities =
        context.fleet.get(&provider).and_then(|connection| connection.capabilities());
    let carries_token = capabilities.is_some_and(|capabilities| capabilities.token);
    context.slot(&vm.uid().unwrap_or_default(), |slot| {
        note_progress(slot, report.progress.as_ref(), report.ready, now);
        next_status(vm, &old, slot, desired, report, carries_token, now)
    })
}

/// How long a change of status may wait for more to come. What people act on is written at once, the
/// steps on the way there once in a while, and mere motion (a percentage, the time of the next poll)
/// seldom: a machine that takes minutes must not cost a write for every look at its task.
fn pause(
    old: &VirtualMachineStatus,
    new: &VirtualMachineStatus,
    report: &Report,
    coalesce: Duration,
    now: Timestamp,
) -> Duration {
    let turning_point = report.ready
        || report.stalled
        || report.phase == Phase::Failed
        // What was ready and is no longer, people want to know at once.
        || conditions::is_true(&old.conditions, condition_types::READY)
        || report.phase == Phase::Deleting && old.phase != new.phase;
    if turning_point {
        return Duration::ZERO;
    }
    // A next try that is far off is worth knowing soon: who waits for it can go and do other things.
    let next = new.waiting.as_ref().and_then(|waiting| waiting.next_attempt.as_ref());
    let far = next.is_some_and(|Time(next)| *next > now + coalesce * 2 * MOTION);
    match still(old) == still(new) && !far {
        true => coalesce * MOTION,
        false => coalesce,
    }
}

/// A status without what moves by itself while a platform works.
fn still(status: &VirtualMachineStatus) -> VirtualMachineStatus {
    let mut still = status.clone();
    still.last_observed_at = None;
    if let Some(waiting) = &mut still.waiting {
        waiting.next_attempt = None;
    }
    for stage in &mut still.stages {
        stage.percent = None;
    }
    still
}

fn next_status(
    vm: &VirtualMachine,
    old: &VirtualMachineStatus,
    slot: &Slot,
    desired: Option<&Desired>,
    report: &Report,
    carries_token: bool,
    now: Timestamp,
) -> VirtualMachineStatus {
    let mut new = old.clone();
    let generation = vm.metadata.generation;
    let record = Record::read(vm).ok();
    let intent = record.as_ref().and_then(|record| record.intent.as_ref());
    if let Some(intent) = intent {
        let incarnation = i32::try_from(intent.token.incarnation).unwrap_or(i32::MAX);
        if new.incarnation.is_some_and(|old| old != incarnation) {
            forget_machine(&mut new);
        }
        new.incarnation = Some(incarnation);
        match slot.memory.attempt_of(intent.requested_at) {
            Some(Outcome::Accepted { id, task, .. }) => {
                new.last_task_ref = task.as_ref().map(|task| task.0.clone());
                // Where machines carry no token, an ID is written by the claim on it alone.
                if new.id.is_none() && carries_token {
                    new.id = id.as_ref().map(|id| id.0.clone());
                }
            }
            // What was to become a machine never did: its ID is another's by now, or will be. One that was
            // claimed was seen, and need not be what that request was for.
            Some(Outcome::TaskFailed { .. })
                if report.machine.is_none() && new.id.is_some() && carries_token =>
            {
                forget_machine(&mut new);
                new.incarnation = Some(incarnation);
            }
            _ => {}
        }
    }
    // The name of the machine that was taken on record, which its platform may have chosen.
    new.platform_name = record
        .as_ref()
        .and_then(|record| record.machine_name.clone().or_else(|| record.platform_name.clone()));
    if let Some(seen) = &report.machine {
        // Its power counts as on only once what is to be done after a start was done, whether or not
        // its wishes can be met just now.
        let asked = vm.spec.lifecycle.as_ref().is_some_and(|hooks| hooks.post_start.is_some());
        // That of an earlier machine was forgotten above.
        let hold = asked && !slot.memory.post_started && new.power_state != Some(PowerState::On);
        facts(&mut new, seen, desired, hold, now);
    } else if broken(Rule::FactsStay) && report.waiting.is_some() {
        new.ips.clear();
        new.host = None;
    }
    if broken(Rule::SuccessIsObserved) && slot.memory.attempt.is_some() && report.machine.is_none()
    {
        new.power_state = Some(PowerState::On);
    }
    // A reference that is taken away and set again is another wish.
    if vm.spec.snapshot.as_ref().is_none_or(|snapshot| snapshot.revert_to_ref.is_none()) {
        new.reverted_to = None;
    }
    new.phase = Some(report.phase);
    new.message = Some(cut(&report.message));
    new.waiting = waiting(old, report, now);
    new.stages = stages_of(&new, slot, report, now);
    new.observed_generation = generation;
    set_conditions(&mut new, report, generation, now);
    new
}

fn waiting(old: &VirtualMachineStatus, report: &Report, now: Timestamp) -> Option<Waiting> {
    let next = report.waiting.as_ref()?;
    let (reason, message) = match &report.held_change {
        Some((reason, message)) if report.ready => ((*reason).to_owned(), message.clone()),
        _ => (report.reason.clone(), report.message.clone()),
    };
    let before = old.waiting.as_ref().filter(|waiting| waiting.reason == reason);
    Some(Waiting {
        since: before.and_then(|waiting| waiting.since.clone()).or(Some(Time(now))),
        reason,
        message: Some(cut(&message)),
        next_attempt: next.next.map(Time),
    })
}

/// Notes when stages begin and end, whether or not that is written down at once.
fn note_progress(slot: &mut Slot, progress: Option<&Progress>, ready: bool, now: Timestamp) {
    let reached = match (progress, ready) {
        (Some(progress), _) => progress.stage,
        (None, true) => slot.stages.len(),
        (None, false) => return,
    };
    for (index, stage) in slot.stages.iter_mut().enumerate() {
        if index < reached {
            let (_, end) = stage.get_or_insert((now, None));
            end.get_or_insert(now);
        } else if index == reached {
            stage.get_or_insert((now, None));
        }
    }
}

/// The stages of the machine that a status is of. Those of an earlier one were forgotten with it: as long
/// as they stood there, the next one passed for complete before it was.
fn stages_of(
    known: &VirtualMachineStatus,
    slot: &Slot,
    report: &Report,
    now: Timestamp,
) -> Vec<Stage> {
    let done = known.stages.last().is_some_and(|stage| stage.state == StageState::Completed);
    // Once a machine was made, its stages tell of that; what changes later is in its conditions.
    if done && known.id.is_some() || report.progress.is_none() && !report.ready {
        return known.stages.clone();
    }
    let current = report.progress.as_ref();
    let reached = current.map_or(stages::ALL.len(), |progress| progress.stage);
    stages::ALL
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let times = slot.stages[index];
            let state = match index.cmp(&reached) {
                std::cmp::Ordering::Less => StageState::Completed,
                std::cmp::Ordering::Equal if report.stalled => StageState::Failed,
                std::cmp::Ordering::Equal => StageState::Running,
                std::cmp::Ordering::Greater => StageState::Pending,
            };
            let ended = matches!(state, StageState::Completed | StageState::Failed);
            let known = known.stages.iter().find(|stage| &stage.name == name);
            let started = known.and_then(|stage| stage.started_at.clone());
            Stage {
                name: (*name).to_owned(),
                started_at: started.or(times.map(|(start, _)| Time(start))),
                finished_at: ended.then(|| Time(times.and_then(|(_, end)| end).unwrap_or(now))),
                percent: match state {
                    StageState::Completed => Some(100),
                    StageState::Running => {
                        current.and_then(|progress| progress.percent).map(i32::from)
                    }
                    _ => None,
                },
                message: (index == reached).then(|| cut(&report.message)),
                state,
            }
        })
        .collect()
}

fn set_conditions(
    status: &mut VirtualMachineStatus,
    report: &Report,
    generation: Option<i64>,
    now: Timestamp,
) {
    let provisioning = report.phase == Phase::Provisioning;
    let changing = report.phase == Phase::Reconfiguring || report.held_change.is_some();
    let deleting = report.phase == Phase::Deleting;
    let held = report.held_change.as_ref();
    let mut set = |type_: &str, holds: bool, wanted: bool, reason: &str, message: &str| {
        let list = &mut status.conditions;
        if wanted {
            conditions::set(list, type_, holds.into(), reason, message, generation, now);
        } else {
            list.retain(|condition| condition.type_ != type_);
        }
    };
    let (reason, message) = (report.reason.as_str(), report.message.as_str());
    set(condition_types::READY, report.ready, true, reason, message);
    set(condition_types::PROVISIONING, true, provisioning, reason, message);
    let (change, why) = held.map_or((reason, message), |(reason, why)| (*reason, why.as_str()));
    set(condition_types::RECONFIGURING, held.is_none(), changing, change, why);
    set(condition_types::DELETING, true, deleting, reason, message);
    set(condition_types::STALLED, true, report.stalled, reason, message);
    let moving = !report.ready && !report.stalled;
    set(condition_types::RECONCILING, true, moving, reason, message);
}

/// Tells people about turning points.
async fn tell(
    context: &Context,
    vm: &VirtualMachine,
    old: &VirtualMachineStatus,
    new: &VirtualMachineStatus,
    report: &Report,
) {
    let ready = |status: &VirtualMachineStatus| {
        conditions::find(&status.conditions, condition_types::READY)
            .map(|ready| (ready.status.clone(), ready.reason.clone()))
    };
    let (before, after) = (ready(old), ready(new));
    if before == after {
        return;
    }
    match report.ready {
        true => context.recorder.note(vm, &report.reason, &report.message).await,
        false if report.stalled || is_trouble(&report.reason) => {
            context.recorder.warn(vm, &report.reason, &report.message).await;
        }
        false => {}
    }
}

fn is_trouble(reason: &str) -> bool {
    matches!(
        reason,
        reasons::MACHINE_LOST | reasons::EXTRA_MACHINE | reasons::OWNERSHIP_LOST | reasons::FAILED
    )
}

/// What a status says at most in one text.
fn cut(text: &str) -> String {
    text.chars().take(1024).collect()
}

/// The merge patch that leads from one status to another, or none where they are alike.
pub fn difference<S: serde::Serialize>(old: &S, new: &S) -> Option<Value> {
    let (old, new) = (serde_json::to_value(old).ok()?, serde_json::to_value(new).ok()?);
    merge_patch(&old, &new)
}

fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            None => {
                patch.insert(key.clone(), value.clone());
            }
            Some(before) => {
                if let Some(change) = merge_patch(before, value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use sutler_api::names::annotations;

    use super::*;

    /// A record that asked for a machine of this incarnation, and what its status says.
    fn asked(incarnation: u32, status: Value) -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": { "name": "web", "namespace": "ns", "uid": "u", "annotations": {
                (annotations::TOKEN): format!("u-{incarnation}"),
                (annotations::FIRST_REQUESTED_AT): "2026-01-01T00:00:00Z",
                (annotations::CREATE_REQUESTED_AT): "2026-01-01T00:00:00Z",
            } },
            "spec": { "providerRef": { "name": "p" } },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_machine_that_is_made_again_is_not_complete_because_the_one_before_was() {
        let stages: Vec<Value> =
            stages::ALL.iter().map(|name| json!({ "name": name, "state": "Completed" })).collect();
        let status = json!({ "id": "vm-1", "incarnation": 1, "stages": stages });
        let provisioned = |incarnation| {
            let mut vm = asked(incarnation, status.clone());
            let (old, report) = (vm.status.clone().unwrap(), unreadable("not yet".to_owned()));
            let now = "2026-01-01T00:01:00Z".parse().unwrap();
            vm.status = Some(next_status(&vm, &old, &Slot::default(), None, &report, true, now));
            Record::read(&vm).unwrap().provisioned
        };
        assert!(provisioned(1));
        assert!(!provisioned(2));
    }

    #[test]
    fn a_failed_task_takes_no_machine_that_was_claimed_off_the_record() {
        let vm = asked(1, json!({ "id": "vm-1", "incarnation": 1 }));
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let error = sutler_provider::Error::new(sutler_provider::ErrorKind::Failed, "at 90 %");
        let mut slot = Slot::default();
        slot.memory.attempt = Some(crate::plan::Attempt {
            requested_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            outcome: Outcome::TaskFailed { error, at: now },
        });
        let report = unreadable("nothing is seen".to_owned());
        let old = vm.status.clone().unwrap();
        let id = |tokens| next_status(&vm, &old, &slot, None, &report, tokens, now).id;
        assert_eq!(id(false).as_deref(), Some("vm-1"), "it was seen, and claimed");
        assert_eq!(id(true), None, "the ID came with the request that failed");
    }

    #[test]
    fn a_patch_says_what_differs_and_no_more() {
        let old = json!({ "a": 1, "b": { "c": [1], "d": 2 }, "e": 3 });
        let new = json!({ "a": 1, "b": { "c": [2], "d": 2 }, "f": 4 });
        let patch = merge_patch(&old, &new).unwrap();
        assert_eq!(patch, json!({ "b": { "c": [2] }, "e": null, "f": 4 }));
        assert_eq!(merge_patch(&old, &old), None);
    }
}
