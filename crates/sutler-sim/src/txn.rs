//! Transactions: all of a change, or nothing of it.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use rand::{Rng as _, rngs::StdRng};
use sutler_provider::{Error, MachineId, Proof, Result, TaskId};
use tokio::sync::oneshot;

use crate::{
    faults::Leaves,
    kept,
    row::{Doing, Done, Next, Row, Work},
    settings::{Ids, Settings},
    state::{Op, State, number_of},
};

/// How work ended, for a call that waits for it.
pub(crate) type Ending = Result<Option<String>>;

/// A change that is being made. Dropping it does nothing: whoever began it commits or takes back.
pub(crate) struct Txn<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) now: Timestamp,
    pub(crate) state: &'a mut State,
    pub(crate) rng: &'a mut StdRng,
    /// Hosts that do not answer.
    pub(crate) offline: &'a std::collections::BTreeSet<String>,
    /// The work that this change begins does not end well.
    pub(crate) fails: Option<Leaves>,
    pub(crate) log: Log,
}

/// What a transaction did so far.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) ops: Vec<Op>,
    pub(crate) undo: Vec<Op>,
    /// Work that began, and how long it takes.
    pub(crate) timers: Vec<(u64, Duration)>,
    /// Work that ended.
    pub(crate) ended: Vec<(u64, Done)>,
    pub(crate) waiters: Vec<(u64, oneshot::Sender<Ending>)>,
}

impl Log {
    /// Takes everything back.
    pub(crate) fn revert(self, state: &mut State) {
        for op in self.undo.into_iter().rev() {
            state.apply(op);
        }
    }
}

impl Txn<'_> {
    pub(crate) fn apply(&mut self, op: Op) {
        self.log.undo.push(self.state.apply(op.clone()));
        self.log.ops.push(op);
    }

    pub(crate) fn put(&mut self, mut row: Row) {
        row.settle();
        kept::keep(self, &mut row);
        self.apply(Op::Machine(row.machine.id.clone(), Some(Arc::new(row))));
    }

    /// The machine, seen or not.
    pub(crate) fn get(&self, id: &MachineId) -> Option<Row> {
        self.state.machines.get(id).map(|row| Row::clone(row))
    }

    /// The machine, proven to be the owner's.
    pub(crate) fn proven(&self, id: &MachineId, proof: &Proof) -> Result<Row> {
        let row =
            self.get(id).ok_or_else(|| Error::not_found(format!("there is no machine {id}")))?;
        prove(self.settings, &row, proof)?;
        Ok(row)
    }

    /// A number that never comes again.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.state.next.number;
        self.apply(Op::Next(Next { number: number + 1, ..self.state.next }));
        number
    }

    /// An ID for a new machine.
    pub(crate) fn new_id(&mut self) -> MachineId {
        let (id, next) = self.state.next_id();
        if next != self.state.next.id {
            self.apply(Op::Next(Next { id: next, ..self.state.next }));
        }
        id
    }

    /// Keeps an ID that somebody brought along from being given, where each is given once.
    pub(crate) fn spend_id(&mut self, id: &MachineId) {
        if self.settings.ids == Ids::Increasing
            && let Some(number) = number_of(id)
            && number >= self.state.next.id
        {
            self.apply(Op::Next(Next { id: number + 1, ..self.state.next }));
        }
    }

    /// Begins work. Its number is the task's.
    pub(crate) fn begin(
        &mut self,
        machine: Option<&MachineId>,
        doing: Doing,
        takes: Duration,
    ) -> u64 {
        let fails = match doing {
            Doing::Boot => None,
            _ => self.fails.take(),
        };
        let mut takes = jitter(self.rng, self.settings.jitter, takes);
        if fails.is_some() {
            takes = takes / 10 * 9;
        }
        let id = self.state.next.work;
        self.apply(Op::Next(Next { work: id + 1, ..self.state.next }));
        let delay = SignedDuration::try_from(takes).unwrap_or(SignedDuration::MAX);
        let due = self.now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        let work = Work { machine: machine.cloned(), doing, due, takes, fails };
        self.apply(Op::Work(id, Some(Arc::new(work))));
        self.log.timers.push((id, takes));
        id
    }

    /// Whether work that takes this long is done at once.
    pub(crate) fn at_once(&self, takes: Duration) -> bool {
        takes.is_zero() && self.fails.is_none()
    }

    /// Ends work; the oldest task that ended is forgotten where there are too many.
    pub(crate) fn end(&mut self, id: u64, done: Done) {
        let Some(work) = self.state.works.get(&id) else { return };
        // A boot is work, but no task.
        let task = work.doing != Doing::Boot;
        self.apply(Op::Work(id, None));
        if task {
            self.apply(Op::Done(id, Some(done.clone())));
        }
        self.log.ended.push((id, done));
        while self.state.done.len() > self.settings.task_history.max(1) {
            let Some(oldest) = self.state.done.keys().next().copied() else { break };
            self.apply(Op::Done(oldest, None));
        }
    }

    /// Waits for work, for a call that answers once it is done.
    pub(crate) fn wait(&mut self, work: u64) -> oneshot::Receiver<Ending> {
        let (tell, told) = oneshot::channel();
        self.log.waiters.push((work, tell));
        told
    }
}

/// Refuses a machine that is not the owner's.
pub(crate) fn prove(settings: &Settings, row: &Row, proof: &Proof) -> Result<()> {
    let machine = &row.machine;
    if settings.token {
        let owner = &proof.owner;
        if machine.token.as_ref() == Some(&owner.token)
            && machine.installation.as_deref() == Some(&owner.installation)
        {
            return Ok(());
        }
        let whose = match (&machine.token, &machine.installation) {
            (Some(token), Some(installation)) => format!("{token} of {installation:?}"),
            (Some(token), None) => token.to_string(),
            (None, _) => "none".to_owned(),
        };
        return Err(Error::conflict(format!(
            "machine {} is not ours: its token is {whose}, not {} of {:?}",
            machine.id, owner.token, owner.installation
        )));
    }
    match &proof.name {
        Some(name) if *name != machine.name => Err(Error::conflict(format!(
            "machine {} is not ours: it is called {:?}, not {name:?}",
            machine.id, machine.name
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn task_id(work: u64) -> TaskId {
    TaskId(format!("task-{work}"))
}

/// A time that is up to this many percent longer or shorter.
pub(crate) fn jitter(rng: &mut StdRng, percent: u8, time: Duration) -> Duration {
    if percent == 0 || time.is_zero() {
        return time;
    }
    let percent = u32::from(percent);
    let factor = rng.random_range(100 - percent..=100 + percent);
    time.saturating_mul(factor) / 100
}
