//! What one process remembers of a machine between two plans. All of it can be lost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sutler_provider::{Error, ErrorKind, MachineId, TaskId};

/// What a process remembers of one record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The incarnation of which this is remembered.
    pub incarnation: Option<u32>,
    /// What became of the create that the intent announced.
    pub attempt: Option<Attempt>,
    /// What the last create asked for.
    pub create_digest: String,
    /// When the machine's ID became known to this process.
    pub id_since: Option<Timestamp>,
    /// The ID that the record had when it was last read.
    pub known_id: Option<MachineId>,
    /// The change that was accepted last, per kind of change.
    pub accepted: BTreeMap<&'static str, Accepted>,
    /// What failed last, per kind of change.
    pub failures: BTreeMap<&'static str, Failure>,
    /// A call that is under way.
    pub in_flight: Option<&'static str>,
    /// A task on record that the platform no longer knows or that ended.
    pub lost_task: Option<TaskId>,
    /// Since when the platform is at work on the machine, as far as this process saw.
    pub busy_since: Option<Timestamp>,
    /// When the running task was last asked after.
    pub polled_at: Option<Timestamp>,
    /// How much of the running task is done.
    pub task_percent: Option<u8>,
    /// When the machine was last looked at alone.
    pub described_at: Option<Timestamp>,
    /// Whether what is to be done before a stop was done for this stop.
    pub pre_stopped: bool,
    /// Whether what is to be done before a stop did not reach the guest.
    pub pre_stop_unheard: bool,
    /// Whether what is to be done after a start was done for this start.
    pub post_started: bool,
    /// When the guest was asked to shut down.
    pub shutdown_since: Option<Timestamp>,
    /// When this process last asked for the machine to go back to a snapshot.
    pub revert_requested_at: Option<Timestamp>,
    /// What became of the machine's removal, where that is on record before it is asked for.
    pub removal: Removal,
}

/// What one process knows of the removals that it asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removal {
    /// When it last asked for one.
    pub asked_at: Option<Timestamp>,
    /// The last one of which nobody knows whether it has had its effect.
    pub open: Option<Timestamp>,
}

impl Removal {
    /// The last removal that may still have an effect, as far as is known here, when this is on record.
    pub fn open(&self, on_record: Option<Timestamp>) -> Option<Timestamp> {
        // What became of another process's nobody knows.
        self.open.max(on_record.filter(|_| on_record != self.asked_at))
    }

    /// Notes that one is asked for, and that nobody knows yet what comes of it.
    pub fn ask(&mut self, at: Timestamp) {
        *self = Self { asked_at: Some(at), open: Some(at) };
    }
}

/// A create that was sent, or was about to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The time in the intent that announced it.
    pub requested_at: Timestamp,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a create.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was accepted.
    Accepted {
        /// The machine's ID, where it was told.
        id: Option<MachineId>,
        /// The task, while it runs.
        task: Option<TaskId>,
        /// When.
        at: Timestamp,
    },
    /// It certainly did nothing.
    Refused(Error),
    /// Its task ended with an error: something may be left over.
    TaskFailed {
        /// The error.
        error: Error,
        /// When that was known.
        at: Timestamp,
    },
    /// Nobody knows.
    Unknown,
}

/// A change that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// When.
    pub at: Timestamp,
    /// Its task, while it runs.
    pub task: Option<TaskId>,
    /// What was asked for, so that the same is not asked again and again.
    pub digest: String,
}

/// Something that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The last error.
    pub error: Error,
    /// How often in a row.
    pub count: u32,
    /// When it was last tried.
    pub at: Timestamp,
    /// What was asked for.
    pub digest: String,
}

impl Memory {
    /// Notes that `what` failed.
    pub fn fail(&mut self, what: &'static str, error: Error, digest: &str, at: Timestamp) {
        let count = match self.failures.get(what) {
            Some(failure) if failure.digest == digest => failure.count.saturating_add(1),
            _ => 1,
        };
        self.failures.insert(what, Failure { error, count, at, digest: digest.to_owned() });
    }

    /// Notes that a stop or a delete failed. One that reached nobody was no stop: a guest that could
    /// not be told of it is told before the next one.
    pub fn fail_stop(&mut self, what: &'static str, error: Error, digest: &str, at: Timestamp) {
        if error.kind() == ErrorKind::Unavailable && self.pre_stop_unheard {
            self.pre_stopped = false;
        }
        self.fail(what, error, digest, at);
    }

    /// What has failed since these were all.
    pub fn failures_since(
        &self,
        before: &BTreeMap<&'static str, Failure>,
    ) -> Vec<(&'static str, Error)> {
        let new =
            self.failures.iter().filter(|(what, failure)| before.get(*what) != Some(*failure));
        new.map(|(what, failure)| (*what, failure.error.clone())).collect()
    }

    /// Notes that `what` succeeded, or is no longer wanted.
    pub fn succeed(&mut self, what: &'static str) {
        self.failures.remove(what);
    }

    /// Takes note of the incarnation that the record has: another process may have made the machine
    /// anew, and what its guest was told, this one was not.
    pub fn is_of(&mut self, incarnation: Option<u32>) {
        if self.incarnation != incarnation {
            self.incarnation = incarnation;
            self.post_started = false;
            self.pre_stopped = false;
            self.shutdown_since = None;
        }
    }

    /// Takes note of the ID on record. One that this process was not told itself is known since it was
    /// read: a list from before that may be older than the machine.
    pub fn knows(&mut self, id: Option<&MachineId>, now: Timestamp) {
        if self.known_id.as_ref() == id {
            return;
        }
        self.known_id = id.cloned();
        let told = match &self.attempt {
            Some(Attempt { outcome: Outcome::Accepted { id, .. }, .. }) => id.as_ref(),
            _ => None,
        };
        if id.is_some() && (told != id || self.id_since.is_none()) {
            self.id_since = Some(now);
        }
    }

    /// Whether a call is under way that changes nothing.
    pub fn is_looking(&self) -> bool {
        matches!(self.in_flight, Some("task" | "describe"))
    }

    /// The attempt that the intent of this time announced.
    pub fn attempt_of(&self, requested_at: Timestamp) -> Option<&Outcome> {
        let attempt = self.attempt.as_ref().filter(|a| a.requested_at == requested_at)?;
        Some(&attempt.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_id_is_known_since_it_was_read_or_told() {
        let (first, second) = (MachineId::from("1"), MachineId::from("2"));
        let mut memory = Memory::default();
        memory.knows(None, at(1));
        assert_eq!(memory.id_since, None);
        memory.knows(Some(&first), at(2));
        memory.knows(Some(&first), at(3));
        assert_eq!(memory.id_since, Some(at(2)));
        // Another process has written another one.
        memory.knows(Some(&second), at(4));
        assert_eq!(memory.id_since, Some(at(4)));
        memory.knows(None, at(5));
        memory.knows(Some(&second), at(6));
        assert_eq!(memory.id_since, Some(at(6)));
        // What the platform itself told is known since then.
        let outcome = Outcome::Accepted { id: Some(first.clone()), task: None, at: at(7) };
        memory.attempt = Some(Attempt { requested_at: at(6), outcome });
        memory.id_since = Some(at(7));
        memory.knows(Some(&first), at(8));
        assert_eq!(memory.id_since, Some(at(7)));
    }
}
