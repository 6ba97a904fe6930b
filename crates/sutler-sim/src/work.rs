//! Work that takes time: it goes on by itself, and after a restart.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use sutler_provider::{Error, ErrorKind, Power, Result, TaskId, TaskState};
use tokio::{
    runtime::Handle,
    time::{self, Instant},
};

use crate::{
    faults::Leaves,
    history::Cause,
    images, kept, lifecycle, reconfigure,
    row::{Doing, Done, Row, Work},
    sim::{Core, Inner},
    snapshots, transfer,
    txn::Txn,
};

/// How work on a machine begins.
pub(crate) enum Step {
    /// It takes no time: do it.
    Now,
    /// It is under way.
    Later(u64),
}

/// Begins work that nothing else may be done beside. The same work twice is one; switching off and
/// deleting go before anything else.
pub(crate) fn exclusive(
    txn: &mut Txn<'_>,
    row: &mut Row,
    doing: Doing,
    takes: Duration,
) -> Result<Step> {
    let id = row.id().clone();
    let urgent = match doing {
        Doing::Delete => true,
        Doing::Power(sutler_provider::PowerOp::Off) => !row.broken,
        _ => false,
    };
    if row.broken && !urgent {
        return Err(Error::conflict(format!("machine {id} was left half made")));
    }
    if let Some(work) = row.work {
        let under_way = txn.state.works.get(&work).map(|work| work.doing.clone());
        match under_way {
            Some(same) if same == doing => return Ok(Step::Later(work)),
            Some(Doing::Delete) => {
                return Err(Error::conflict(format!("machine {id} is being deleted")));
            }
            // What is half made cannot be switched off; it can only be deleted.
            Some(other) if !urgent || (other == Doing::Make && doing != Doing::Delete) => {
                let what = other.as_str();
                return Err(Error::conflict(format!("machine {id} is busy: {what}")));
            }
            _ => {}
        }
        let overtaken = Error::conflict(format!("overtaken: {}", doing.as_str()));
        txn.end(work, Done::badly(&overtaken));
        row.work = None;
    }
    if txn.at_once(takes) {
        return Ok(Step::Now);
    }
    let work = txn.begin(Some(&id), doing, takes);
    row.work = Some(work);
    txn.put(row.clone());
    Ok(Step::Later(work))
}

/// Ends work whose time has come.
fn finish(txn: &mut Txn<'_>, id: u64) -> Result<()> {
    let Some(work) = txn.state.works.get(&id).cloned() else { return Ok(()) };
    let Work { machine, doing, fails, .. } = &*work;
    let row = machine.as_ref().and_then(|machine| txn.get(machine));
    let done = match (row, fails) {
        (Some(row), None) => on_machine(txn, row, id, doing),
        (Some(row), Some(leaves)) => give_up(txn, row, doing, *leaves),
        (None, fails) => elsewhere(txn, doing, fails.is_some()),
    };
    txn.end(id, done);
    Ok(())
}

fn on_machine(txn: &mut Txn<'_>, mut row: Row, id: u64, doing: &Doing) -> Done {
    if *doing == Doing::Boot {
        row.boot = None;
        row.up = row.machine.power != Power::Off;
        txn.put(row);
        return Done::well(None);
    }
    row.work = row.work.filter(|work| *work != id);
    if *doing == Doing::Delete {
        lifecycle::remove(txn, row);
        return Done::well(None);
    }
    let before = row.clone();
    let made = match doing {
        Doing::Make => {
            lifecycle::made(txn, &mut row);
            Ok(txn.settings.returns_id.then(|| row.id().0.clone()))
        }
        Doing::Power(op) => {
            lifecycle::set_power(txn, &mut row, *op);
            Ok(None)
        }
        Doing::Reconfigure(request) => reconfigure::apply(txn, &mut row, request).map(|_| None),
        Doing::SnapshotCreate(request) => {
            Ok(Some(snapshots::take(txn, &mut row, request).to_string()))
        }
        Doing::SnapshotDelete(snapshot) => {
            snapshots::delete(&mut row, snapshot);
            Ok(None)
        }
        Doing::SnapshotRevert(snapshot) => {
            snapshots::revert(txn, &mut row, snapshot).map(|()| None)
        }
        Doing::Upgrade(version) => {
            row.hardware = *version;
            Ok(None)
        }
        Doing::Export(..) => return elsewhere(txn, doing, false),
        Doing::Boot
        | Doing::Delete
        | Doing::ImagePrepare(..)
        | Doing::ImageRemove(_)
        | Doing::Import(..)
        | Doing::KeptRemove(_) => Ok(None),
    };
    match made {
        Ok(made) => {
            txn.put(row);
            Done::well(made)
        }
        Err(error) => {
            txn.put(before);
            Done::badly(&error)
        }
    }
}

/// Work on images and disks that belong to no machine, or whose machine is gone.
fn elsewhere(txn: &mut Txn<'_>, doing: &Doing, fails: bool) -> Done {
    let failed = Done::badly(&failed(doing));
    match doing {
        Doing::ImagePrepare(target, _) => images::end_prepare(txn, target, fails),
        Doing::ImageRemove(target) => images::end_remove(txn, target, fails),
        Doing::Export(to, _) => transfer::end_export(txn, to, fails),
        Doing::Import(target, _) => transfer::end_import(txn, target, fails),
        Doing::KeptRemove(key) => kept::end_remove(txn, key, fails),
        _ => return Done::badly(&Error::not_found("the machine is gone")),
    }
    if fails { failed } else { Done::well(None) }
}

/// Work fails, and leaves what it was told to leave.
fn give_up(txn: &mut Txn<'_>, mut row: Row, doing: &Doing, leaves: Leaves) -> Done {
    if matches!(doing, Doing::Export(..)) {
        return elsewhere(txn, doing, true);
    }
    row.work = None;
    match (leaves, doing) {
        (Leaves::Nothing, Doing::Make) => lifecycle::remove(txn, row),
        (Leaves::Nothing, _) => txn.put(row),
        (Leaves::Broken, _) => {
            row.broken = true;
            row.hidden = false;
            txn.put(row);
        }
    }
    Done::badly(&failed(doing))
}

fn failed(doing: &Doing) -> Error {
    Error::new(ErrorKind::Failed, format!("failed at 90 %: {}", doing.as_str()))
}

/// How far a task has come.
pub(crate) fn task(core: &Core, id: &TaskId) -> TaskState {
    let number = id.0.strip_prefix("task-").and_then(|number| number.parse().ok());
    let Some(number) = number else { return TaskState::Unknown };
    if let Some(work) = core.state.works.get(&number) {
        let percent = core.timers.get(&number).map(|(begun, left)| {
            let left = left.saturating_sub(begun.elapsed());
            let part = left.as_secs_f64() / work.takes.as_secs_f64().max(f64::EPSILON);
            let whole = if work.fails.is_some() { 90.0 } else { 100.0 };
            ((1.0 - part.min(1.0)) * whole) as u8
        });
        let message = Some(work.doing.as_str().to_owned());
        return TaskState::Running { percent: percent.map(|percent| percent.min(99)), message };
    }
    match core.state.done.get(&number).map(Done::result) {
        Some(Ok(id)) => TaskState::Done { id },
        Some(Err(error)) => TaskState::Failed(error),
        None => TaskState::Unknown,
    }
}

impl Inner {
    /// Lets work go on that a restart, or the lack of a runtime, has stopped.
    pub(crate) fn resume(self: &Arc<Self>) {
        self.wake(&mut self.lock());
    }

    pub(crate) fn wake(self: &Arc<Self>, core: &mut Core) {
        if core.asleep.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        for (work, left) in core.asleep.drain(..) {
            if core.state.works.contains_key(&work) {
                core.timers.insert(work, (Instant::now(), left));
                runtime.spawn(carry_out(Arc::downgrade(self), work, left));
            }
        }
    }
}

async fn carry_out(platform: Weak<Inner>, work: u64, left: Duration) {
    const AGAIN: Duration = Duration::from_secs(1);
    time::sleep(left).await;
    loop {
        let Some(platform) = platform.upgrade() else { return };
        match platform.transact(Cause::Work, None, None, |txn| finish(txn, work)) {
            Ok(()) => return,
            Err(error) => tracing::warn!(work, %error, "work of the simulated platform is retried"),
        }
        drop(platform);
        time::sleep(AGAIN).await;
    }
}
