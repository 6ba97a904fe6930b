//! Tasks. VPSie has none: a task of ours says what is to be seen once it has ended, in its ID, so that a
//! process that never heard of it can tell how far it has come.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use sutler_provider::{MachineId, Power, Result, TaskId, TaskState};

use super::Inner;

/// Ends that are remembered, so that they do not change.
const KEPT: usize = 1000;

/// What is to be seen once a task has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Aim {
    /// The machine is gone.
    Gone(MachineId),
    /// The machine is on.
    On(MachineId),
    /// The machine is off.
    Off(MachineId),
    /// The machine has a snapshot of this name.
    Snapshot(String, String),
}

impl Aim {
    fn write(&self, number: &str) -> TaskId {
        TaskId(match self {
            Self::Gone(id) => format!("gone/{number}/{id}"),
            Self::On(id) => format!("on/{number}/{id}"),
            Self::Off(id) => format!("off/{number}/{id}"),
            Self::Snapshot(vm, name) => format!("snapshot/{number}/{vm}/{name}"),
        })
    }

    fn read(id: &TaskId) -> Option<Self> {
        let mut parts = id.0.splitn(3, '/');
        let (kind, _number, rest) = (parts.next()?, parts.next()?, parts.next()?);
        Some(match kind {
            "gone" => Self::Gone(rest.into()),
            "on" => Self::On(rest.into()),
            "off" => Self::Off(rest.into()),
            "snapshot" => {
                let (vm, name) = rest.split_once('/')?;
                Self::Snapshot(vm.to_owned(), name.to_owned())
            }
            _ => return None,
        })
    }
}

/// Tasks that were begun and ended here.
#[derive(Debug)]
pub(super) struct Tasks {
    began: i64,
    count: AtomicU64,
    ended: Mutex<VecDeque<(TaskId, Option<String>)>>,
}

impl Tasks {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { began: now.as_millisecond(), count: AtomicU64::new(0), ended: Mutex::default() }
    }

    /// A new task.
    pub(super) fn begin(&self, aim: &Aim) -> TaskId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        aim.write(&format!("{}-{count}", self.began))
    }

    fn ended(&self, id: &TaskId) -> Option<Option<String>> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().find(|(known, _)| known == id).map(|(_, made)| made.clone())
    }

    fn end(&self, id: &TaskId, made: Option<String>) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= KEPT {
            ended.pop_front();
        }
        ended.push_back((id.clone(), made));
    }
}

impl Inner {
    /// How far a task has come, by what is to be seen.
    pub(super) async fn task(&self, id: &TaskId) -> Result<TaskState> {
        if let Some(made) = self.tasks.ended(id) {
            return Ok(TaskState::Done { id: made });
        }
        let Some(aim) = Aim::read(id) else { return Ok(TaskState::Unknown) };
        let end = match &aim {
            Aim::Gone(machine) => self.describe(machine).await?.is_none().then_some(None),
            Aim::On(machine) => self.is(machine, Power::On).await?.then_some(None),
            Aim::Off(machine) => self.is(machine, Power::Off).await?.then_some(None),
            Aim::Snapshot(vm, name) => self.snapshot_named(vm, name).await?.map(Some),
        };
        Ok(match end {
            Some(made) => {
                self.tasks.end(id, made.clone());
                TaskState::Done { id: made }
            }
            None => TaskState::Running { percent: None, message: None },
        })
    }

    /// Whether a machine's power is this. One that is gone has no power that could still change.
    async fn is(&self, machine: &MachineId, power: Power) -> Result<bool> {
        Ok(self.describe(machine).await?.is_none_or(|shown| shown.power == power))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_they_are_written() {
        let tasks = Tasks::new(Timestamp::UNIX_EPOCH);
        for aim in [
            Aim::Gone("node.c.7".into()),
            Aim::On("7".into()),
            Aim::Off("7".into()),
            Aim::Snapshot("7".to_owned(), "a/b".to_owned()),
        ] {
            let (one, two) = (tasks.begin(&aim), tasks.begin(&aim));
            assert_ne!(one, two);
            assert_eq!(Aim::read(&one), Some(aim));
        }
        assert_eq!(Aim::read(&"no-such-task".into()), None);
        assert_eq!(Aim::read(&"dance/1/7".into()), None);
    }
}
