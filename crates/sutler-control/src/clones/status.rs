//! What a VMClone's status says.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::{
        ClonePhase as Phase, CloneProgress, CustomizationStatus, VMClone, VMCloneStatus,
        VirtualMachine, VirtualMachineStatus,
    },
    names::{MANAGER, condition_types, reasons, stages},
    progress::{StageState, Waiting},
    refs::LocalObjectRef,
};

use super::{
    Work,
    plan::{Record, Report, Stage},
    wish,
};
use crate::{
    context::SPACING,
    machine::{Error, status_difference},
};

/// The pause between two writes that only tell of progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// A VMClone that cannot be read.
pub(super) async fn unreadable(work: &Work, message: String) -> Result<(), Error> {
    failed(work, reasons::UNREADABLE, message).await
}

/// A copy whose record the API does not take.
pub(super) async fn refused(work: &Work, message: &str) -> Result<(), Error> {
    failed(work, reasons::INVALID, format!("the copy's record was refused: {message}")).await
}

async fn failed(work: &Work, reason: &str, message: String) -> Result<(), Error> {
    let reason = reason.to_owned();
    let report = Report { stage: Stage::Failed, reason, message, waits: Some(None) };
    publish(work, &Record::default(), &report, None).await?;
    Ok(())
}

/// Writes what is known, if it differs; what only tells of progress may have to wait for as long as
/// is returned.
pub(super) async fn publish(
    work: &Work,
    record: &Record,
    report: &Report,
    machine: Option<&VirtualMachine>,
) -> Result<Option<Duration>, Error> {
    let old = work.clone.status.clone().unwrap_or_default();
    let now = work.context.clock.now();
    let new = next_status(work, record, &old, report, machine, now);
    let Some(patch) = status_difference(&old, &new) else { return Ok(None) };
    let matters = old.phase != new.phase
        || old.target_ref != new.target_ref
        || old.retry_count != new.retry_count
        || old.completion_time != new.completion_time
        || old.observed_generation != new.observed_generation;
    let pause = if matters { Duration::ZERO } else { PROGRESS };
    if let Some(wait) = work.context.too_soon(&work.uid, pause) {
        return Ok(Some(wait));
    }
    let body = json!({
        "metadata": { "resourceVersion": work.clone.metadata.resource_version }, "status": patch,
    });
    let api: Api<VMClone> = Api::namespaced(work.context.client.clone(), &work.key.namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch_status(&work.key.name, &params, &Patch::Merge(body)).await {
        Ok(_) => work.context.wrote(&work.uid),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(kube::Error::Api(status)) if status.code == 409 => return Ok(Some(SPACING)),
        Err(error) => return Err(error.into()),
    }
    if old.phase != new.phase {
        let clone = work.clone.as_ref();
        match report.stage {
            Stage::Ready => {
                work.context.recorder.note(clone, &report.reason, &report.message).await;
            }
            Stage::Failed => {
                work.context.recorder.warn(clone, &report.reason, &report.message).await;
            }
            Stage::Pending | Stage::Preparing | Stage::Following | Stage::Deleting => {}
        }
    }
    Ok(None)
}

fn next_status(
    work: &Work,
    record: &Record,
    old: &VMCloneStatus,
    report: &Report,
    machine: Option<&VirtualMachine>,
    now: Timestamp,
) -> VMCloneStatus {
    let mut new = old.clone();
    let of_machine = machine.and_then(|vm| vm.status.clone()).unwrap_or_default();
    new.phase = Some(phase(report, &of_machine).or(old.phase).unwrap_or(Phase::Pending));
    let message: String = report.message.chars().take(1024).collect();
    new.message = Some(message.clone());
    let ready = report.stage == Stage::Ready;
    if machine.is_some() {
        new.target_ref = Some(LocalObjectRef::new(&record.target));
        new.target_vmid = of_machine.id.clone().or(new.target_vmid);
        new.task_ref.clone_from(&of_machine.last_task_ref);
        let options = work.clone.spec.options.clone().unwrap_or_default();
        new.actual_clone_type = Some(options.type_);
        new.progress = Some(CloneProgress {
            overall_percentage: Some(if ready { 100 } else { percent(&of_machine) }),
            ..CloneProgress::default()
        });
        if work.clone.spec.customization.is_some() {
            let started = of_machine.id.is_some();
            new.customization_status = Some(CustomizationStatus {
                started: Some(started),
                completed: Some(ready),
                ..CustomizationStatus::default()
            });
        }
    }
    if let Some(intent) = &record.intent {
        new.start_time.get_or_insert(Time(intent.at));
        // The try that is told of is the one whose record was seen.
        if machine.is_some() {
            let tries = i32::try_from(intent.attempt.saturating_sub(1)).unwrap_or(i32::MAX);
            new.retry_count = (tries > 0).then_some(tries);
            new.last_retry_time = (tries > 0).then_some(Time(intent.at));
        }
    }
    if ready {
        new.completion_time.get_or_insert(Time(now));
    }
    let before = old.waiting.as_ref().filter(|waiting| waiting.reason == report.reason);
    new.waiting = report.waits.map(|next| Waiting {
        reason: report.reason.clone(),
        message: Some(message.clone()),
        since: before.and_then(|waiting| waiting.since.clone()).or(Some(Time(now))),
        next_attempt: next.map(Time),
    });
    set_conditions(work, &mut new, report, &message, now);
    new
}

fn set_conditions(
    work: &Work,
    new: &mut VMCloneStatus,
    report: &Report,
    message: &str,
    now: Timestamp,
) {
    let generation = work.clone.metadata.generation;
    new.observed_generation = generation;
    let idle = wish::without_effect(&work.clone);
    let mut write = conditions::Writer {
        conditions: &mut new.conditions,
        observed_generation: generation,
        now,
    };
    let reason = &report.reason;
    let (ready, stalled) = (report.stage == Stage::Ready, report.stage == Stage::Failed);
    write.set(condition_types::READY, ready, reason, message);
    write.set_while(stalled, condition_types::STALLED, reason, message);
    write.set_while(!ready && !stalled, condition_types::RECONCILING, reason, message);
    write.set_while(report.stage == Stage::Deleting, condition_types::DELETING, reason, message);
    let without = format!("{}: nothing here depends on that", idle.join(", "));
    write.deny_while(!idle.is_empty(), condition_types::SUPPORTED, reasons::UNSUPPORTED, &without);
}

/// The phase that a report stands for; none leaves it as it was.
fn phase(report: &Report, machine: &VirtualMachineStatus) -> Option<Phase> {
    Some(match report.stage {
        Stage::Pending => Phase::Pending,
        Stage::Preparing => Phase::Preparing,
        Stage::Ready => Phase::Ready,
        Stage::Failed => Phase::Failed,
        Stage::Deleting => return None,
        Stage::Following => {
            let running = machine.stages.iter().find(|stage| stage.state == StageState::Running);
            match running.map(|stage| stage.name.as_str()) {
                None if machine.stages.is_empty() => Phase::Preparing,
                Some(stages::CLONE_TEMPLATE) => Phase::Cloning,
                Some(stages::CONFIGURE_VM) => Phase::Customizing,
                None | Some(_) => Phase::PoweringOn,
            }
        }
    })
}

/// How much of all stages is done.
fn percent(machine: &VirtualMachineStatus) -> i32 {
    let done = machine.stages.iter().map(|stage| match stage.state {
        StageState::Completed | StageState::Skipped => 100,
        _ => stage.percent.unwrap_or(0),
    });
    let all = i32::try_from(stages::ALL.len()).unwrap_or(1);
    (done.sum::<i32>() / all).clamp(0, 99)
}
