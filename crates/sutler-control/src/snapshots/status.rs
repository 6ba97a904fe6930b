//! What a snapshot's status says.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::{SnapshotOnProvider, SnapshotPhase as Phase, SnapshotProgress, VMSnapshotStatus},
    names::{MANAGER, condition_types, reasons},
    progress::Waiting,
    quantity::Quantity,
};

use super::{
    Work, execute, operation,
    plan::{Outcome, Report},
    read_intent,
    retain::Term,
    wish,
};
use crate::{
    context::SPACING,
    fleet::Key,
    machine::{Error, status_difference},
};

/// The pause between two writes that only tell of progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// A record that cannot be read.
pub(super) fn unreadable(message: String) -> Report {
    Report {
        phase: Phase::Failed,
        ready: false,
        reason: reasons::UNREADABLE.to_owned(),
        message,
        stalled: true,
        waits: Some(None),
        percent: None,
        found: None,
        told: None,
    }
}

/// Writes what is known, if it differs; what only tells of progress may have to wait for as long as
/// is returned.
pub(super) async fn publish(
    work: &Work,
    report: &Report,
    term: Option<&Term>,
    provider: Option<&Key>,
) -> Result<Option<Duration>, Error> {
    let old = work.snapshot.status.clone().unwrap_or_default();
    let now = work.context.clock.now();
    let new = next_status(work, &old, report, term, provider, now);
    write(work, &old, new, report.stalled).await
}

/// Writes a status, and tells people of turning points.
pub(super) async fn write(
    work: &Work,
    old: &VMSnapshotStatus,
    new: VMSnapshotStatus,
    stalled: bool,
) -> Result<Option<Duration>, Error> {
    let Some(patch) = status_difference(old, &new) else { return Ok(None) };
    // What is needed after a crash does not wait.
    let facts = old.snapshot_id != new.snapshot_id
        || old.last_schedule_time != new.last_schedule_time
        || old.task_ref != new.task_ref;
    let turns = old.phase != new.phase || old.observed_generation != new.observed_generation;
    let pause = match (facts, turns) {
        (true, _) => Duration::ZERO,
        (false, true) => SPACING,
        (false, false) => PROGRESS,
    };
    if let Some(wait) = work.context.too_soon(&work.uid, pause) {
        return Ok(Some(wait));
    }
    let body = json!({
        "metadata": { "resourceVersion": work.snapshot.metadata.resource_version },
        "status": patch,
    });
    let api = work.api();
    let params = PatchParams::apply(MANAGER);
    let result = api.patch_status(&work.key.name, &params, &Patch::Merge(body)).await;
    let Some(fresh) = execute::written(work, &api, result).await? else {
        return Ok(Some(SPACING));
    };
    work.context.wrote(&work.uid);
    let ready = |status: &VMSnapshotStatus| {
        let ready = conditions::find(&status.conditions, condition_types::READY);
        ready.map(|ready| (ready.status.clone(), ready.reason.clone(), ready.message.clone()))
    };
    if let Some((status, reason, message)) = ready(&new)
        && ready(old).is_none_or(|old| old.0 != status || old.1 != reason)
    {
        match (status == "True", stalled) {
            (true, _) => work.context.recorder.note(fresh.as_ref(), &reason, &message).await,
            (false, true) => work.context.recorder.warn(fresh.as_ref(), &reason, &message).await,
            (false, false) => {}
        }
    }
    Ok(None)
}

fn next_status(
    work: &Work,
    old: &VMSnapshotStatus,
    report: &Report,
    term: Option<&Term>,
    provider: Option<&Key>,
    now: Timestamp,
) -> VMSnapshotStatus {
    let mut new = old.clone();
    let expired = term.is_some_and(|term| term.expired);
    new.phase = Some(if expired { Phase::Expired } else { report.phase });
    let message: String = match expired {
        true => "its time is over, and it is deleted after its grace period".to_owned(),
        false => report.message.chars().take(1024).collect(),
    };
    new.message = Some(message.clone());
    taken(&mut new, report, now);
    new.expiry_time =
        term.map(|term| Time(term.expiry)).or(new.expiry_time.filter(|_| !report.ready));
    let (task, begun) = work.entry(|entry| match &entry.memory.attempt {
        Some((at, Outcome::Accepted { task, .. })) => (task.clone(), Some(*at)),
        Some((at, _)) => (None, Some(*at)),
        None => (None, None),
    });
    if let Some(task) = task {
        new.task_ref = Some(task.0);
    }
    new.progress = match report.phase {
        Phase::Creating => Some(SnapshotProgress {
            percentage: report.percent.map(i32::from),
            start_time: old
                .progress
                .as_ref()
                .and_then(|progress| progress.start_time.clone())
                .or(begun.map(Time)),
            ..SnapshotProgress::default()
        }),
        _ => None,
    };
    if let (Some(provider), Some(id)) = (provider, &new.snapshot_id) {
        let known = old.provider_status.get(&provider.name);
        let there = SnapshotOnProvider {
            available: report.ready,
            id: Some(id.clone()),
            ..SnapshotOnProvider::default()
        };
        let alike = known.is_some_and(|known| {
            SnapshotOnProvider { last_updated: None, ..known.clone() } == there
        });
        if !alike {
            let there = SnapshotOnProvider { last_updated: Some(Time(now)), ..there };
            new.provider_status.insert(provider.name.clone(), there);
        }
    }
    new.waiting = waiting(old, report, now);
    let under_way = matches!(report.phase, Phase::Creating | Phase::Deleting);
    new.operation_ref = operation::under_way(work).filter(|_| under_way && !report.stalled);
    set_conditions(work, &mut new, report, expired, &message, now);
    new
}

/// What the platform shows of the snapshot; what it does not tell stays as it was.
fn taken(new: &mut VMSnapshotStatus, report: &Report, now: Timestamp) {
    if let Some(found) = &report.found {
        new.snapshot_id = Some(found.id.0.clone());
        let created = found.created_at.map(Time);
        new.creation_time = created.or(new.creation_time.take()).or(Some(Time(now)));
        if let Some(size) = found.size_bytes {
            new.size = Some(Quantity(size.to_string()));
        }
    } else if let Some(id) = &report.told {
        new.snapshot_id = Some(id.0.clone());
        new.creation_time.get_or_insert(Time(now));
    }
    if report.ready {
        new.completion_time.get_or_insert(Time(now));
    }
}

fn waiting(old: &VMSnapshotStatus, report: &Report, now: Timestamp) -> Option<Waiting> {
    let next = report.waits?;
    let before = old.waiting.as_ref().filter(|waiting| waiting.reason == report.reason);
    Some(Waiting {
        since: before.and_then(|waiting| waiting.since.clone()).or(Some(Time(now))),
        reason: report.reason.clone(),
        message: Some(report.message.chars().take(1024).collect()),
        next_attempt: next.map(Time),
    })
}

fn set_conditions(
    work: &Work,
    new: &mut VMSnapshotStatus,
    report: &Report,
    expired: bool,
    message: &str,
    now: Timestamp,
) {
    let generation = work.snapshot.metadata.generation;
    new.observed_generation = generation;
    let intent = read_intent(&work.snapshot).ok().flatten();
    let config = intent.map(|intent| intent.config);
    let idle = wish::without_effect(&work.snapshot, config.as_deref());
    let mut write = conditions::Writer {
        conditions: &mut new.conditions,
        observed_generation: generation,
        now,
    };
    let reason = if expired { reasons::EXPIRED } else { report.reason.as_str() };
    let (ready, stalled) = (report.ready, report.stalled);
    write.set(condition_types::READY, ready, if ready { reasons::READY } else { reason }, message);
    write.set_while(report.phase == Phase::Creating, condition_types::CREATING, reason, message);
    write.set_while(report.phase == Phase::Deleting, condition_types::DELETING, reason, message);
    write.set_while(expired, condition_types::EXPIRED, reasons::EXPIRED, message);
    write.set_while(stalled, condition_types::STALLED, reason, message);
    write.set_while(!ready && !stalled, condition_types::RECONCILING, reason, message);
    let without = idle.join("; ");
    write.deny_while(!idle.is_empty(), condition_types::SUPPORTED, reasons::UNSUPPORTED, &without);
}
