//! Looks at one machine, or at what becomes of a request.

use jiff::Timestamp;
use sutler_provider::{Error as ProviderError, MachineId, TaskId, TaskState};

use super::Work;
use crate::{
    context::Slot,
    plan::{Attempt, Outcome},
};

impl Work<'_> {
    pub(super) fn describe(&self, id: &MachineId) {
        let (gate, clock) = (self.connection.gate.clone(), self.context.clock.clone());
        let (inventory, id) = (self.connection.inventory.clone(), id.clone());
        self.call("describe", async move {
            let begun = clock.now();
            let result = gate.describe(&id).await;
            let outcome = result.map(|found| {
                inventory.note(&id, found, begun);
            });
            let now = clock.now();
            move |slot: &mut Slot| match outcome {
                Ok(()) => {
                    slot.memory.succeed("describe");
                    slot.memory.described_at = Some(begun);
                }
                Err(error) => slot.memory.fail("describe", error, id.as_ref(), now),
            }
        });
    }

    pub(super) fn task(&self, task: &TaskId) {
        let (gate, clock) = (self.connection.gate.clone(), self.context.clock.clone());
        let task = task.clone();
        self.call("task", async move {
            let result = gate.task(&task).await;
            let now = clock.now();
            move |slot: &mut Slot| note_task(slot, &task, result, now)
        });
    }

    /// A list of its own for every record that waits: what must never be.
    pub(super) fn list_alone(&self) {
        let gate = self.connection.gate.clone();
        self.context.tasks.spawn(async move {
            let _ = gate.list().await;
        });
    }
}

/// What a task's state means for what is remembered.
fn note_task(
    slot: &mut Slot,
    task: &TaskId,
    result: Result<TaskState, ProviderError>,
    now: Timestamp,
) {
    let memory = &mut slot.memory;
    memory.polled_at = Some(now);
    let state = match result {
        Ok(state) => state,
        Err(error) => return memory.fail("task", error, task.as_ref(), now),
    };
    memory.succeed("task");
    memory.task_percent = match &state {
        TaskState::Running { percent, .. } => *percent,
        _ => None,
    };
    if matches!(state, TaskState::Running { .. }) {
        return;
    }
    memory.lost_task = Some(task.clone());
    // The machine shows what the task did: only that counts.
    for (what, accepted) in &mut memory.accepted {
        if accepted.task.as_ref() == Some(task) {
            accepted.task = None;
            accepted.at = now;
            if let TaskState::Failed(error) = &state {
                let (what, error, digest) = (*what, error.clone(), accepted.digest.clone());
                memory.accepted.remove(what);
                memory.fail(what, error, &digest, now);
                return;
            }
        }
    }
    if let Some(Attempt { outcome, .. }) = &mut memory.attempt
        && let Outcome::Accepted { task: running, id, at } = outcome
        && running.as_ref() == Some(task)
    {
        *running = None;
        *at = now;
        match state {
            TaskState::Done { id: Some(made) } => {
                id.get_or_insert(MachineId(made));
                memory.id_since.get_or_insert(now);
            }
            TaskState::Failed(error) => {
                let digest = memory.create_digest.clone();
                *outcome = Outcome::TaskFailed { error: error.clone(), at: now };
                memory.fail("create", error, &digest, now);
            }
            // A task that nobody knows proves nothing.
            TaskState::Unknown => *outcome = Outcome::Unknown,
            TaskState::Done { id: None } | TaskState::Running { .. } => {}
        }
    }
}
