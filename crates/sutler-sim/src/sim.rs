//! The simulated hypervisor itself, and what tests may ask of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::{SeedableRng as _, rngs::StdRng};
use sutler_provider::{Clock, DiskKey, Error, Machine, MachineId, Owner, Result, UniqueBy};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use crate::{
    chaos::Downtime,
    disk::Disk,
    events::Listeners,
    faults::{Call, Leaves, Planned, Script},
    history::{Cause, Change, Happened},
    inventory::{self, Past},
    row::{ImageRow, KeptRow, Row},
    settings::{Chances, Settings},
    state::{Op, State},
    txn::{Ending, Log, Txn},
};

/// A simulated hypervisor. Clones are the same one; when the last is dropped, its work stops as if
/// its process had been killed.
#[derive(Clone)]
pub struct Sim(pub(crate) Arc<Inner>);

/// A machine as it is, seen or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// What it is like, with the token that it was made with even where the platform shows none.
    pub machine: Machine,
    /// Whether it is not shown yet, because it is still being made.
    pub hidden: bool,
    /// Whether its making or changing was given up half way.
    pub broken: bool,
}

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    core: Mutex<Core>,
    /// Counts changes, for those who wait for one.
    pub(crate) changes: watch::Sender<u64>,
}

/// All that changes. Nothing awaits while it is locked.
pub(crate) struct Core {
    pub(crate) state: State,
    disk: Option<Disk>,
    pub(crate) past: Past,
    pub(crate) listeners: Listeners,
    history: Vec<Change>,
    pub(crate) calls: BTreeMap<Call, u64>,
    pub(crate) script: Script,
    pub(crate) chances: Chances,
    /// Dice for faults of calls.
    pub(crate) dice: StdRng,
    /// Dice for what happens behind our back.
    pub(crate) fate: StdRng,
    /// Dice for times and for what a list lacks.
    pub(crate) noise: StdRng,
    pub(crate) downtime: Option<Downtime>,
    pub(crate) offline: BTreeSet<String>,
    /// Since when work goes on, and how long it had left then.
    pub(crate) timers: BTreeMap<u64, (Instant, Duration)>,
    /// Work that waits for a runtime to go on in.
    pub(crate) asleep: Vec<(u64, Duration)>,
    waiters: BTreeMap<u64, Vec<oneshot::Sender<Ending>>>,
}

/// An image as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTruth {
    /// Its name.
    pub name: String,
    /// Whether machines can be made from it.
    pub ready: bool,
    /// Whether machines were made from it that are still there.
    pub used: bool,
}

/// A disk that outlives its machines, as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTruth {
    /// What it is asked for by.
    pub key: DiskKey,
    /// Which disk of that key it is: one that is made anew has another number.
    pub number: u64,
    /// Its size in GiB.
    pub size_gib: u64,
    /// The machine that has it, seen or not.
    pub machine: Option<MachineId>,
}

impl Sim {
    /// A platform whose machines are gone with the process.
    pub fn in_memory(settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        settings.check()?;
        let state = State::new(settings.ids);
        Ok(Self::start(settings, clock, state, None))
    }

    /// A platform that lives in a folder. No other process may have it open.
    pub fn open(dir: &Path, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        settings.check()?;
        let (disk, state) = Disk::open(dir, &settings)?;
        Ok(Self::start(settings, clock, state, Some(disk)))
    }

    pub(crate) fn start(
        settings: Settings,
        clock: Arc<dyn Clock>,
        state: State,
        disk: Option<Disk>,
    ) -> Self {
        let dice = |purpose: u64| StdRng::seed_from_u64(settings.seed.wrapping_mul(8) + purpose);
        let now = clock.now();
        let asleep = state.works.iter().map(|(id, work)| {
            let left = Duration::try_from(work.due.duration_since(now)).unwrap_or_default();
            (*id, left.min(work.takes))
        });
        let core = Core {
            asleep: asleep.collect(),
            state,
            disk,
            past: Past::new(settings.list_lag),
            listeners: Listeners::new(settings.event_buffer),
            history: Vec::new(),
            calls: BTreeMap::new(),
            script: Script::default(),
            chances: settings.faults,
            dice: dice(1),
            fate: dice(2),
            noise: dice(3),
            downtime: None,
            offline: BTreeSet::new(),
            timers: BTreeMap::new(),
            waiters: BTreeMap::new(),
        };
        let changes = watch::Sender::new(0);
        let sim = Self(Arc::new(Inner { settings, clock, core: Mutex::new(core), changes }));
        sim.0.resume();
        sim
    }

    /// What kind of platform it is.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// All machines as they are, seen or not.
    pub fn machines(&self) -> Vec<Truth> {
        let core = self.0.lock();
        let truth = |row: &Arc<Row>| Truth {
            machine: row.machine.clone(),
            hidden: row.hidden,
            broken: row.broken,
        };
        core.state.machines.values().map(truth).collect()
    }

    /// All images as they are, finished or not.
    pub fn images(&self) -> Vec<ImageTruth> {
        let core = self.0.lock();
        let truth = |(name, row): (&String, &ImageRow)| ImageTruth {
            name: name.clone(),
            ready: row.ready,
            used: core.state.uses_image(name),
        };
        core.state.images.iter().map(truth).collect()
    }

    /// All kept disks as they are.
    pub fn kept(&self) -> Vec<KeptTruth> {
        let core = self.0.lock();
        let truth = |(key, row): (&DiskKey, &KeptRow)| KeptTruth {
            key: key.clone(),
            number: row.number,
            size_gib: row.size_gib,
            machine: core.state.holder(key).cloned(),
        };
        core.state.kept.iter().map(truth).collect()
    }

    /// How many machines there are.
    pub fn len(&self) -> usize {
        self.0.lock().state.machines.len()
    }

    /// Whether there is no machine.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pieces of work are under way.
    pub fn pending(&self) -> usize {
        self.0.lock().state.works.len()
    }

    /// How often each call was made.
    pub fn calls(&self) -> BTreeMap<Call, u64> {
        self.0.lock().calls.clone()
    }

    /// How often one call was made.
    pub fn calls_of(&self, call: Call) -> u64 {
        self.0.lock().calls.get(&call).copied().unwrap_or_default()
    }

    /// Every change so far, oldest first, where the settings ask for a history.
    pub fn history(&self) -> Vec<Change> {
        self.0.lock().history.clone()
    }

    /// The changes that came after the first `seen` ones.
    pub fn history_since(&self, seen: usize) -> Vec<Change> {
        self.0.lock().history.get(seen..).unwrap_or_default().to_vec()
    }

    /// Lets something go wrong.
    pub fn plan(&self, planned: Planned) {
        self.0.lock().script.add(planned);
    }

    /// Changes what goes wrong by chance from now on.
    pub fn set_chances(&self, chances: Chances) {
        self.0.lock().chances = chances;
    }

    /// Nothing goes wrong any more: no faults by script or by chance, no outage, all hosts there.
    /// Requests that are under way stay as they are.
    pub fn calm(&self) {
        let mut core = self.0.lock();
        core.script.clear();
        core.chances = Chances::default();
        core.downtime = None;
        core.offline.clear();
    }

    /// Puts machines onto the platform as they are described, IDs included.
    pub fn seed(&self, machines: impl IntoIterator<Item = Machine>) -> Result<()> {
        let machines: Vec<Machine> = machines.into_iter().collect();
        self.0.transact(Cause::Outside, None, None, |txn| {
            for machine in &machines {
                seed_one(txn, machine.clone())?;
            }
            Ok(())
        })
    }

    /// Takes everything off the platform, and forgets planned faults, counts and history. IDs that
    /// are given once stay spent.
    pub fn reset(&self) -> Result<()> {
        self.0.transact(Cause::Outside, None, None, |txn| {
            let next = txn.state.next;
            let all: Vec<Op> = txn.state.dump().collect();
            for op in all {
                txn.apply(match op {
                    Op::Machine(id, _) => Op::Machine(id, None),
                    Op::Work(id, _) => Op::Work(id, None),
                    Op::Done(id, _) => Op::Done(id, None),
                    Op::Image(name, _) => Op::Image(name, None),
                    Op::Import(name, _) => Op::Import(name, None),
                    Op::Export(name, _) => Op::Export(name, None),
                    Op::Kept(key, _) => Op::Kept(key, None),
                    Op::Next(_) => Op::Next(next),
                });
            }
            Ok(())
        })?;
        let mut core = self.0.lock();
        core.script.clear();
        core.calls.clear();
        core.history.clear();
        core.waiters.clear();
        core.timers.clear();
        Ok(())
    }
}

#[cfg(test)]
impl Core {
    /// Writes the state anew, as a log that has grown does.
    pub(crate) fn rewrite(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.rewrite(&self.state);
        }
    }
}

fn seed_one(txn: &mut Txn<'_>, machine: Machine) -> Result<()> {
    let taken = |what: &str| {
        Err(Error::conflict(format!("there is a machine {} with this {what}", machine.id)))
    };
    if txn.state.machines.contains_key(&machine.id) {
        return taken("ID");
    }
    if txn.settings.unique_by == UniqueBy::Token
        && machine.token.as_ref().is_some_and(|token| txn.state.owned(token).next().is_some())
    {
        return taken("token");
    }
    let kept = machine.disks.iter().flatten().filter_map(|disk| disk.kept.as_ref());
    if let Some(other) = kept.filter_map(|key| txn.state.holder(key)).next() {
        return Err(Error::conflict(format!("machine {other} has a kept disk of {}", machine.id)));
    }
    txn.spend_id(&machine.id);
    let number = txn.number();
    txn.put(Row::of(machine, number));
    Ok(())
}

impl Inner {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change: all of it is written, told and begun, or nothing has happened.
    pub(crate) fn transact<T>(
        self: &Arc<Self>,
        cause: Cause,
        by: Option<&Owner>,
        fails: Option<Leaves>,
        change: impl FnOnce(&mut Txn<'_>) -> Result<T>,
    ) -> Result<T> {
        let now = self.clock.now();
        let mut guard = self.lock();
        let core = &mut *guard;
        let mut txn = Txn {
            settings: &self.settings,
            now,
            state: &mut core.state,
            rng: &mut core.noise,
            offline: &core.offline,
            fails,
            log: Log::default(),
        };
        let result = change(&mut txn);
        let log = txn.log;
        let written = result.and_then(|value| match &mut core.disk {
            Some(disk) => disk.append(&log.ops, &core.state).map(|()| value),
            None => Ok(value),
        });
        match written {
            Ok(value) => {
                self.publish(core, cause, by, log);
                Ok(value)
            }
            Err(error) => {
                log.revert(&mut core.state);
                Err(error)
            }
        }
    }

    /// Tells of a change that has been made.
    fn publish(self: &Arc<Self>, core: &mut Core, cause: Cause, by: Option<&Owner>, log: Log) {
        let mut before: BTreeMap<_, Option<Arc<Row>>> = BTreeMap::new();
        for op in &log.undo {
            if let Op::Machine(id, old) = op {
                before.entry(id.clone()).or_insert_with(|| old.clone());
            }
        }
        for (id, old) in before {
            let new = core.state.machines.get(&id).cloned();
            if self.settings.history
                && let Some(change) = self.change(cause, by, old.as_deref(), new.as_deref())
            {
                core.history.push(change);
            }
            if !core.listeners.is_empty()
                && let Some(event) =
                    inventory::event(&self.settings, old.as_deref(), new.as_deref())
            {
                core.listeners.tell(event);
            }
            core.past.push(id, old);
        }
        for (work, waiter) in log.waiters {
            core.waiters.entry(work).or_default().push(waiter);
        }
        for (work, done) in log.ended {
            core.timers.remove(&work);
            for waiter in core.waiters.remove(&work).into_iter().flatten() {
                // A caller that is gone needs no answer.
                drop(waiter.send(done.result()));
            }
        }
        self.changes.send_modify(|number| *number += 1);
        core.asleep.extend(log.timers);
        self.wake(core);
    }

    fn change(
        &self,
        cause: Cause,
        by: Option<&Owner>,
        old: Option<&Row>,
        new: Option<&Row>,
    ) -> Option<Change> {
        let (what, row) = match (old, new) {
            (None, Some(new)) => (Happened::Made, new),
            (Some(old), Some(new)) if old != new => (Happened::Changed, new),
            (Some(old), None) => (Happened::Gone, old),
            _ => return None,
        };
        Some(Change {
            at: self.clock.now(),
            cause,
            by: by.cloned(),
            what,
            id: row.machine.id.clone(),
            name: row.machine.name.clone(),
            token: row.machine.token.clone(),
            installation: row.machine.installation.clone(),
        })
    }
}
