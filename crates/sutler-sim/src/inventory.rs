//! What the platform shows of its machines, now and a while ago.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use rand::Rng as _;
use sutler_provider::{Event, Listing, Machine, MachineId};
use tokio::time::Instant;

use crate::{
    faults::Fault,
    row::Row,
    settings::{Feature, Settings},
    sim::Core,
};

/// How machines were, as far back as a list may reach.
pub(crate) struct Past {
    reach: Duration,
    changes: VecDeque<(Instant, MachineId, Option<Arc<Row>>)>,
}

impl Past {
    pub(crate) fn new(reach: Duration) -> Self {
        Self { reach, changes: VecDeque::new() }
    }

    /// Remembers how a machine was until now.
    pub(crate) fn push(&mut self, id: MachineId, old: Option<Arc<Row>>) {
        if self.reach.is_zero() {
            return;
        }
        let now = Instant::now();
        while self.changes.front().is_some_and(|(at, ..)| now.duration_since(*at) > self.reach) {
            self.changes.pop_front();
        }
        self.changes.push_back((now, id, old));
    }

    /// Machines that were different this long ago, and how they were.
    fn since(&self, ago: Duration) -> BTreeMap<&MachineId, Option<&Arc<Row>>> {
        let now = Instant::now();
        let later = |at: &Instant| now.duration_since(*at) < ago;
        let recent = self.changes.iter().rev().take_while(|(at, ..)| later(at));
        recent.map(|(_, id, old)| (id, old.as_ref())).collect()
    }
}

/// A list as of `ago`, with what a fault does to it. It never claims to be complete when it is not.
pub(crate) fn list(settings: &Settings, core: &mut Core, fault: Option<&Fault>) -> Listing {
    let ago = match fault {
        Some(Fault::Lag(ago)) => (*ago).min(settings.list_lag),
        _ => settings.list_lag,
    };
    let missing = match fault {
        Some(Fault::Partial(percent)) => Some(f64::from(*percent) / 100.0),
        _ => None,
    };
    let Core { state, past, offline, noise, .. } = core;
    let past = past.since(ago);
    let mut complete = missing.is_none();
    let current = state.machines.iter().filter(|(id, _)| !past.contains_key(id));
    let rows: BTreeMap<&MachineId, &Arc<Row>> = current
        .chain(past.iter().filter_map(|(id, old)| old.map(|row| (*id, row))))
        .filter(|(_, row)| !row.hidden)
        .collect();
    let mut machines = Vec::with_capacity(rows.len());
    for row in rows.values() {
        if row.machine.host.as_ref().is_some_and(|host| offline.contains(host)) {
            complete = false;
        } else if missing.is_none_or(|missing| noise.random::<f64>() >= missing) {
            let mut machine = show(settings, row);
            if !settings.can(Feature::ListedDisks) {
                machine.disks = None;
                machine.snapshots = None;
            }
            machines.push(machine);
        }
    }
    Listing { machines, complete }
}

/// A machine as the platform shows it.
pub(crate) fn show(settings: &Settings, row: &Row) -> Machine {
    let mut machine = row.machine.clone();
    if !settings.token {
        machine.token = None;
        machine.installation = None;
    }
    if !settings.can(Feature::Addresses) {
        machine.ips.clear();
        for interface in machine.interfaces.iter_mut().flatten() {
            interface.ips.clear();
        }
    }
    if !settings.can(Feature::Snapshots) {
        machine.snapshots = None;
    }
    if settings.can(Feature::Console) && row.machine.console_url.is_none() {
        machine.console_url = Some(format!("sim://console/{}", machine.id));
    }
    machine
}

/// What is told of a change.
pub(crate) fn event(settings: &Settings, old: Option<&Row>, new: Option<&Row>) -> Option<Event> {
    let old = old.filter(|row| !row.hidden);
    let new = new.filter(|row| !row.hidden);
    match (old, new) {
        (Some(old), None) => Some(Event::Gone(old.id().clone())),
        (Some(old), Some(new)) if old.machine == new.machine => None,
        (_, Some(new)) => Some(Event::Changed(Box::new(show(settings, new)))),
        (None, None) => None,
    }
}
