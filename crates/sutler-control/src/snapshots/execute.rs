//! Carries one step out: what has to be on record is written first, and the provider is asked in a
//! task of its own, which wakes the record when the answer is there.

use std::{future::Future, sync::Arc};

use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    infra::VMSnapshot,
    names::{MANAGER, annotations, finalizers},
    sutler::OperationType,
};
use sutler_provider::{
    Error as ProviderError, ErrorKind, Left, MachineId, SnapshotId, SnapshotRequest, TaskId,
    TaskState,
};

use super::{
    Work,
    home::{self, Fate, Reach},
    later, operation,
    plan::{Accepted, Intent, Memory, Outcome, Plan, Record, Step, Wish},
};
use crate::{
    context::Context,
    fleet::{Key, lock},
    machine::Error,
    plan::SEND_WINDOW,
};

/// What a step did to the record.
pub(super) enum Done {
    Nothing,
    /// It was written.
    Wrote(Arc<VMSnapshot>),
    /// It was not as the plan supposed.
    Void,
    /// It is off the books.
    Gone,
}

pub(super) async fn execute(
    work: &Work,
    record: &Record,
    wish: Option<&Wish>,
    reach: Option<&Reach>,
    plan: &Plan,
) -> Result<Done, Error> {
    match (&plan.step, reach) {
        (Step::Rest | Step::Wait(_), _) => {}
        (Step::Forget, _) => return forget(work, record, &plan.report.message).await,
        (Step::Intend(intent), _) => return intend(work, intent).await,
        (_, None) => {}
        (Step::Take(intent), Some(reach)) => {
            let Some(wish) = wish else { return Ok(Done::Nothing) };
            operation::begin(work, OperationType::Snapshot, reach).await?;
            take(work, intent, wish, reach);
        }
        (Step::Describe(id), Some(reach)) => describe(work, id, reach),
        (Step::Task(task), Some(reach)) => follow(work, task, reach),
        (Step::Delete(machine, id), Some(reach)) => {
            // Its record may be deleted because that of its machine is gone, which a cache does not
            // show yet: a machine that is kept keeps its snapshots.
            let Some(intent) = &record.intent else { return Ok(Done::Nothing) };
            match home::fate(&work.context, &work.snapshot, intent, reach).await? {
                Fate::Stays => {
                    operation::begin(work, OperationType::Destroy, reach).await?;
                    delete(work, machine, id, reach);
                }
                Fate::GoesBack => {
                    let name = &work.snapshot.spec.vm_ref.name;
                    let message = format!("VirtualMachine {name} may be going back to it");
                    let now = work.context.clock.now();
                    let error = ProviderError::unavailable(message);
                    work.entry(|entry| entry.memory.fail("delete", error, id.as_ref(), now));
                    return Ok(Done::Void);
                }
                Fate::Goes => return Ok(Done::Void),
            }
        }
    }
    Ok(Done::Nothing)
}

/// Writes the intent, with the finalizer, over exactly the version that was planned on.
async fn intend(work: &Work, intent: &Intent) -> Result<Done, Error> {
    let mut names = work.snapshot.finalizers().to_vec();
    if !names.iter().any(|name| name == finalizers::VM_SNAPSHOT) {
        names.push(finalizers::VM_SNAPSHOT.to_owned());
    }
    let mut note = serde_json::to_value(intent).unwrap_or_default();
    note["of"] = json!(work.uid);
    let body = json!({
        "finalizers": names, "annotations": { annotations::SNAPSHOT_INTENT: note.to_string() },
    });
    let written = write(work, body).await?;
    if written.is_some() {
        work.entry(|entry| entry.memory.announced = Some(intent.requested_at));
    }
    Ok(written.map_or(Done::Void, Done::Wrote))
}

/// Takes the finalizer off.
async fn forget(work: &Work, record: &Record, why: &str) -> Result<Done, Error> {
    if record.forget && record.intent.is_some() {
        tracing::warn!(key = %work.key, uid = work.uid, id = ?record.id, "a snapshot is forgotten");
        let who = work.snapshot.annotations().get(annotations::REQUESTED_BY);
        let who = who.map_or("somebody who may edit the record", String::as_str);
        let message = format!("forgotten at the request of {who}; its platform was not looked at");
        work.context.recorder.warn(work.snapshot.as_ref(), "Forgotten", &message).await;
    }
    tracing::debug!(key = %work.key, why, "a snapshot goes off the books");
    let names: Vec<&String> =
        work.snapshot.finalizers().iter().filter(|name| *name != finalizers::VM_SNAPSHOT).collect();
    let written = write(work, json!({ "finalizers": names })).await?;
    Ok(match written {
        Some(_) => {
            work.entry(|entry| entry.gone = true);
            Done::Gone
        }
        None => Done::Void,
    })
}

/// Changes the object's metadata, if it is still as it was planned on.
async fn write(
    work: &Work,
    mut metadata: serde_json::Value,
) -> Result<Option<Arc<VMSnapshot>>, Error> {
    metadata["uid"] = json!(work.uid);
    metadata["resourceVersion"] = json!(work.snapshot.resource_version());
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let api = work.api();
    let result = api.patch(&work.key.name, &PatchParams::apply(MANAGER), &patch).await;
    written(work, &api, result).await
}

/// What a write left, which is newer than any cache; none when somebody else was first.
pub(super) async fn written(
    work: &Work,
    api: &Api<VMSnapshot>,
    result: Result<VMSnapshot, kube::Error>,
) -> Result<Option<Arc<VMSnapshot>>, Error> {
    let (newest, wrote) = match result {
        Ok(snapshot) => (Some(snapshot), true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            let found = api.get_opt(&work.key.name).await?;
            (found.filter(|found| found.uid().as_deref() == Some(&work.uid)), false)
        }
        Err(error) => return Err(error.into()),
    };
    let newest = newest.map(Arc::new);
    work.entry(|entry| {
        entry.gone = newest.is_none();
        entry.written.clone_from(&newest);
    });
    Ok(newest.filter(|_| wrote))
}

fn take(work: &Work, intent: &Intent, wish: &Wish, reach: &Reach) {
    let request = SnapshotRequest {
        id: intent.machine.clone(),
        proof: reach.proof.clone(),
        name: intent.name.clone(),
        description: wish.description.clone(),
        memory: wish.memory,
        quiesce: wish.quiesce,
    };
    let (requested_at, digest) = (intent.requested_at, wish.config.clone());
    work.entry(|entry| {
        entry.memory.announced = None;
        entry.memory.config.clone_from(&digest);
        entry.memory.attempt = Some((requested_at, Outcome::Unknown));
        entry.memory.percent = None;
        entry.memory.polled_at = None;
    });
    let (gate, clock) = (reach.connection.gate.clone(), work.context.clock.clone());
    let not_after = later(requested_at, SEND_WINDOW);
    call(work, "take", async move {
        let result = gate.snapshot_create(request, not_after).await;
        let now = clock.now();
        move |memory: &mut Memory| {
            let outcome = match result {
                Ok(taken) => {
                    memory.failures.remove("take");
                    // It is looked at anew, and at once.
                    memory.described_at = None;
                    Outcome::Accepted { id: taken.id, task: taken.task, at: now }
                }
                Err(error) => {
                    let outcome = refused(error.kind(), now);
                    memory.fail("take", error, &digest, now);
                    outcome
                }
            };
            memory.attempt = Some((requested_at, outcome));
        }
    });
}

/// What an error means for the attempt.
fn refused(kind: ErrorKind, at: Timestamp) -> Outcome {
    match kind.left() {
        Left::Unknown => Outcome::Unknown,
        Left::Perhaps => Outcome::Failed(at),
        Left::Nothing => Outcome::Refused,
    }
}

fn delete(work: &Work, machine: &MachineId, id: &SnapshotId, reach: &Reach) {
    let (gate, clock) = (reach.connection.gate.clone(), work.context.clock.clone());
    let (proof, machine, id) = (reach.proof.clone(), machine.clone(), id.clone());
    let not_after = later(clock.now(), SEND_WINDOW);
    call(work, "delete", async move {
        let result = gate.snapshot_delete(&machine, &proof, &id, not_after).await;
        let now = clock.now();
        move |memory: &mut Memory| {
            memory.polled_at = None;
            memory.described_at = None;
            match result {
                Ok(started) => {
                    memory.failures.remove("delete");
                    memory.deleted = Some(Accepted { id, at: now, task: started.task });
                }
                Err(error) => {
                    memory.deleted = None;
                    memory.fail("delete", error, id.as_ref(), now);
                }
            }
        }
    });
}

fn describe(work: &Work, id: &MachineId, reach: &Reach) {
    let (gate, clock) = (reach.connection.gate.clone(), work.context.clock.clone());
    let (inventory, id) = (reach.connection.inventory.clone(), id.clone());
    call(work, "describe", async move {
        let begun = clock.now();
        let result = gate.describe(&id).await.map(|found| {
            inventory.note(&id, found, begun);
        });
        let now = clock.now();
        move |memory: &mut Memory| match result {
            Ok(()) => {
                memory.failures.remove("describe");
                memory.described_at = Some(begun);
            }
            Err(error) => memory.fail("describe", error, id.as_ref(), now),
        }
    });
}

fn follow(work: &Work, task: &TaskId, reach: &Reach) {
    let (gate, clock) = (reach.connection.gate.clone(), work.context.clock.clone());
    let task = task.clone();
    call(work, "task", async move {
        let result = gate.task(&task).await;
        let now = clock.now();
        move |memory: &mut Memory| note_task(memory, &task, result, now)
    });
}

/// What a task's state means for what is remembered.
fn note_task(
    memory: &mut Memory,
    task: &TaskId,
    result: Result<TaskState, ProviderError>,
    now: Timestamp,
) {
    memory.polled_at = Some(now);
    let state = match result {
        Ok(state) => state,
        Err(error) => return memory.fail("task", error, task.as_ref(), now),
    };
    memory.failures.remove("task");
    memory.percent = None;
    if let TaskState::Running { percent, .. } = state {
        memory.percent = percent;
        return;
    }
    // The machine shows what the task did: only that counts.
    memory.lost_task = Some(task.clone());
    memory.described_at = None;
    if let Some(accepted) = &mut memory.deleted
        && accepted.task.as_ref() == Some(task)
    {
        accepted.task = None;
        accepted.at = now;
        if let TaskState::Failed(error) = state {
            let id = accepted.id.clone();
            memory.deleted = None;
            memory.fail("delete", error, id.as_ref(), now);
        }
        return;
    }
    let Some((_, outcome)) = &mut memory.attempt else { return };
    let Outcome::Accepted { task: running, id, at } = outcome else { return };
    if running.as_ref() != Some(task) {
        return;
    }
    *running = None;
    *at = now;
    match state {
        TaskState::Done { id: Some(made) } => {
            id.get_or_insert(SnapshotId(made));
        }
        TaskState::Failed(error) => {
            *outcome = Outcome::Failed(now);
            let config = memory.config.clone();
            memory.fail("take", error, &config, now);
        }
        // A task that nobody knows proves nothing.
        TaskState::Unknown => *outcome = Outcome::Unknown,
        TaskState::Done { id: None } | TaskState::Running { .. } => {}
    }
}

/// Runs a call beside everything else; when it ends, what it returns says what is remembered of it,
/// and the record is looked at again.
fn call<F, N>(work: &Work, what: &'static str, call: F)
where
    F: Future<Output = N> + Send + 'static,
    N: FnOnce(&mut Memory) + Send + 'static,
{
    let (context, key, uid) = (work.context.clone(), work.key.clone(), work.uid.clone());
    work.entry(|entry| entry.memory.in_flight = Some(what));
    let guard = InFlight { context: context.clone(), key, uid: uid.clone() };
    work.context.tasks.spawn(async move {
        let note = call.await;
        if let Some(entry) = lock(&context.desk).0.get_mut(&uid) {
            note(&mut entry.memory);
        }
        drop(guard);
    });
}

/// Wakes the record when its call has ended, however it ended.
struct InFlight {
    context: Arc<Context>,
    key: Key,
    uid: String,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(entry) = lock(&self.context.desk).0.get_mut(&self.uid) {
            entry.memory.in_flight = None;
        }
        self.context.wake_snapshot(&self.key);
    }
}
