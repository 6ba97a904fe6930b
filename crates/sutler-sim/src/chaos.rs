//! What happens to the platform without us: outages, changes behind our back, machines of others.

use std::{sync::Arc, time::Duration};

use rand::{Rng as _, rngs::StdRng};
use sutler_provider::{Error, Event, Machine, MachineId, Placement, Power, Result, Token};
use tokio::time::Instant;

use crate::{
    create::disk,
    history::Cause,
    hosts, lifecycle,
    row::Row,
    settings::Chances,
    sim::{Core, Inner, Sim},
    txn::Txn,
};

/// A time in which the platform does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Whether calls hang rather than being refused. Those that hang are never applied, and never
    /// answered.
    pub hang: bool,
    /// How long it is; until [`Sim::end_outage`] when absent.
    pub lasts: Option<Duration>,
}

/// A change behind our back.
#[derive(Debug, Clone, PartialEq)]
pub enum Tamper {
    /// Its power is another.
    Power(Power),
    /// It has this many CPUs.
    Cpu(u32),
    /// It has this much memory in MiB.
    Memory(u64),
    /// It has a disk of this name and size in GiB, which may be smaller than before.
    Disk(String, u64),
    /// It carries these tags.
    Tags(Vec<String>),
    /// It is called this.
    Rename(String),
    /// It carries this token of this installation, or none.
    Token(Option<(Token, String)>),
    /// It is gone.
    Delete,
}

/// A machine that somebody else made.
#[derive(Debug, Clone, PartialEq)]
pub struct Foreign {
    /// Its name, unique or not.
    pub name: String,
    /// Its ID, if it must be a certain one that is free; otherwise as IDs are given here, which may
    /// be a dead machine's.
    pub id: Option<MachineId>,
    /// The token that it carries, and whose.
    pub token: Option<(Token, String)>,
    /// Whether it is on.
    pub power: Power,
    /// The managed group that it is a member of.
    pub group: Option<String>,
}

impl Foreign {
    /// A machine of this name that carries no token and is on.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), id: None, token: None, power: Power::On, group: None }
    }
}

/// An outage that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Downtime {
    hang: bool,
    until: Option<Instant>,
}

impl Sim {
    /// The platform goes away. Event streams end; work that is under way goes on.
    pub fn outage(&self, outage: Outage) {
        self.0.lock().begin_outage(outage.hang, outage.lasts);
    }

    /// The platform is back.
    pub fn end_outage(&self) {
        self.0.lock().downtime = None;
    }

    /// A host stops or begins to answer. Its machines are missing from lists, which say that they
    /// are not complete.
    pub fn set_host_online(&self, host: &str, online: bool) {
        let mut core = self.0.lock();
        match online {
            true => core.offline.remove(host),
            false => core.offline.insert(host.to_owned()),
        };
    }

    /// Everybody who listens is told that events were lost.
    pub fn lose_events(&self) {
        self.0.lock().listeners.tell(Event::Lost);
    }

    /// Changes a machine behind our back.
    pub fn tamper(&self, id: &MachineId, tamper: Tamper) -> Result<()> {
        self.0.transact(Cause::Outside, None, None, |txn| change(txn, id, tamper))
    }

    /// Somebody else's machine appears; its ID is returned.
    pub fn appear(&self, foreign: Foreign) -> Result<MachineId> {
        self.0.transact(Cause::Outside, None, None, |txn| appear(txn, foreign))
    }
}

impl Core {
    /// Whether there is an outage, and whether calls hang in it.
    pub(crate) fn down(&mut self) -> Option<bool> {
        let over = |until: Instant| Instant::now() >= until;
        if self.downtime.and_then(|downtime| downtime.until).is_some_and(over) {
            self.downtime = None;
        }
        self.downtime.map(|downtime| downtime.hang)
    }

    fn begin_outage(&mut self, hang: bool, lasts: Option<Duration>) {
        let until = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
        self.downtime = Some(Downtime { hang, until });
        self.listeners.hang_up();
    }
}

impl Inner {
    /// Lets happen what chance brings with a call.
    pub(crate) fn tempt_fate(self: &Arc<Self>) {
        let (fate, victim) = {
            let mut core = self.lock();
            let core = &mut *core;
            let chances = core.chances;
            let fate = Fate::throw(&mut core.fate, &chances);
            if fate.outage && core.down().is_none() {
                core.begin_outage(chances.outage.hang, Some(chances.outage.lasts));
            }
            let touched = fate.vanish || fate.tamper;
            (fate, if touched { core.pick(fate.whom) } else { None })
        };
        let changed = match victim {
            Some(id) if fate.vanish => self.outside(|txn| change(txn, &id, Tamper::Delete)),
            Some(id) => self.outside(|txn| match txn.get(&id) {
                Some(row) => change(txn, &id, fate.tampering(&row)),
                None => Ok(()),
            }),
            None => Ok(()),
        };
        let appeared = match fate.foreign {
            true => self.outside(|txn| {
                let name = format!("foreign-{}", txn.state.next.number);
                let elsewhere = (Token::new(name.clone(), 1), "elsewhere".to_owned());
                let token = (fate.how < 0.5).then_some(elsewhere);
                appear(txn, Foreign { token, ..Foreign::named(name) }).map(drop)
            }),
            false => Ok(()),
        };
        for error in [changed, appeared].into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "what chance brought did not happen");
        }
    }

    fn outside(self: &Arc<Self>, what: impl FnOnce(&mut Txn<'_>) -> Result<()>) -> Result<()> {
        self.transact(Cause::Outside, None, None, what)
    }
}

impl Core {
    /// A machine that is seen and at rest.
    fn pick(&self, whom: f64) -> Option<MachineId> {
        let calm = |row: &&Arc<Row>| !row.hidden && row.work.is_none() && !row.broken;
        let count = self.state.machines.values().filter(calm).count();
        let index = (whom * count as f64) as usize;
        self.state.machines.values().filter(calm).nth(index).map(|row| row.id().clone())
    }
}

/// What the dice say for one call. The same number of throws, whatever they say.
#[derive(Clone, Copy)]
struct Fate {
    tamper: bool,
    vanish: bool,
    foreign: bool,
    outage: bool,
    whom: f64,
    how: f64,
}

impl Fate {
    fn throw(rng: &mut StdRng, chances: &Chances) -> Self {
        let mut hits = |chance: f64| rng.random::<f64>() < chance;
        Self {
            tamper: hits(chances.tamper),
            vanish: hits(chances.vanish),
            foreign: hits(chances.foreign),
            outage: hits(chances.outage.chance),
            whom: rng.random(),
            how: rng.random(),
        }
    }

    fn tampering(&self, row: &Row) -> Tamper {
        match (self.how * 4.0) as u8 {
            0 => Tamper::Power(match row.machine.power {
                Power::On => Power::Off,
                _ => Power::On,
            }),
            1 => Tamper::Cpu(row.cpu().saturating_add(1)),
            2 => Tamper::Disk("stray".to_owned(), 1 + row.cards.len() as u64),
            _ => Tamper::Tags(vec!["somebody-was-here".to_owned()]),
        }
    }
}

fn change(txn: &mut Txn<'_>, id: &MachineId, tamper: Tamper) -> Result<()> {
    let gone = || Error::not_found(format!("there is no machine {id}"));
    let mut row = txn.get(id).ok_or_else(gone)?;
    match tamper {
        Tamper::Delete => {
            lifecycle::remove(txn, row);
            return Ok(());
        }
        Tamper::Power(Power::On) if row.machine.power == Power::Off => {
            lifecycle::switch_on(txn, &mut row);
        }
        Tamper::Power(Power::Off) => lifecycle::switch_off(txn, &mut row),
        Tamper::Power(power) => row.machine.power = power,
        Tamper::Cpu(cpu) => row.machine.cpu = Some(cpu),
        Tamper::Memory(memory_mib) => row.machine.memory_mib = Some(memory_mib),
        Tamper::Disk(name, size_gib) => {
            let new = disk(&row, &name, size_gib);
            let disks = row.machine.disks.get_or_insert_default();
            match disks.iter_mut().find(|disk| disk.name == name) {
                Some(old) => old.size_gib = size_gib,
                None => disks.push(new),
            }
        }
        Tamper::Tags(tags) => row.machine.tags = tags,
        Tamper::Rename(name) => row.machine.name = name,
        Tamper::Token(token) => {
            let (token, installation) = token.unzip();
            row.machine.token = token;
            row.machine.installation = installation;
        }
    }
    txn.put(row);
    Ok(())
}

fn appear(txn: &mut Txn<'_>, foreign: Foreign) -> Result<MachineId> {
    const SIZE: (u32, u64) = (1, 1024);
    let id = match foreign.id {
        Some(id) if txn.state.machines.contains_key(&id) => {
            return Err(Error::conflict(format!("there is a machine {id} already")));
        }
        Some(id) => {
            txn.spend_id(&id);
            id
        }
        None => txn.new_id(),
    };
    let number = txn.number();
    let mut machine = Machine::new(id.clone(), foreign.name, foreign.power);
    machine.host = Some(hosts::place(txn, &Placement::default(), SIZE.0, SIZE.1)?);
    (machine.cpu, machine.memory_mib) = (Some(SIZE.0), Some(SIZE.1));
    machine.created_at = Some(txn.now);
    (machine.token, machine.installation) = foreign.token.unzip();
    machine.group = foreign.group;
    let mut row = Row::of(machine, number);
    row.machine.disks = Some(vec![disk(&row, "root", 10)]);
    txn.put(row);
    Ok(id)
}
