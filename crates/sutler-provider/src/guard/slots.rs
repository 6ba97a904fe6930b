//! Who may have a call under way: slots of templates and hosts, then those of the connection.

use std::collections::{BTreeMap, BTreeSet};

/// How often somebody who waits for two things may be overtaken by those who need only one of them.
const PATIENCE: u32 = 8;

/// What the platform locks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Template(String),
    Host(String),
}

/// How many slots there are; 0 is any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caps {
    pub(super) all: usize,
    pub(super) per_template: usize,
    pub(super) per_host: usize,
}

impl Caps {
    fn of(self, key: &Key) -> usize {
        match key {
            Key::Template(_) => self.per_template,
            Key::Host(_) => self.per_host,
        }
    }
}

/// Everybody who waits or has a slot, in the order in which they came.
///
/// A ticket waits until all its keys have room and takes them together, so it holds none of them while
/// it waits for another. Then it waits in line for one of the connection's slots. Tickets of the same
/// keys never overtake each other. One that waits for a key may be overtaken by those who do not need
/// that key, but not without end.
#[derive(Debug, Default)]
pub(super) struct Slots {
    next: u64,
    tickets: BTreeMap<u64, Ticket>,
    lanes: BTreeMap<Key, Lane>,
    line: BTreeSet<u64>,
    granted: usize,
}

#[derive(Debug)]
struct Ticket {
    keys: Vec<Key>,
    stage: Stage,
    overtaken: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Keys,
    Line,
    Granted,
}

/// Those who need one key.
#[derive(Debug, Default)]
struct Lane {
    held: usize,
    waiting: BTreeSet<u64>,
    /// Those of the waiting who are not overtaken any more.
    impatient: BTreeSet<u64>,
}

impl Lane {
    fn has_room(&self, ticket: u64, cap: usize) -> bool {
        (cap == 0 || self.held < cap) && self.impatient.first().is_none_or(|first| *first >= ticket)
    }
}

impl Slots {
    /// Takes a place at the end. Says which place, and who now has a slot, which may be this one.
    pub(super) fn enter(&mut self, keys: Vec<Key>, caps: Caps) -> (u64, Vec<u64>) {
        let id = self.next;
        self.next += 1;
        let stage = if keys.is_empty() { Stage::Line } else { Stage::Keys };
        for key in &keys {
            self.lanes.entry(key.clone()).or_default().waiting.insert(id);
        }
        if stage == Stage::Line {
            self.line.insert(id);
        }
        self.tickets.insert(id, Ticket { keys: keys.clone(), stage, overtaken: 0 });
        (id, self.settle(keys, caps))
    }

    /// Whether it has a slot.
    pub(super) fn has(&self, id: u64) -> bool {
        self.tickets.get(&id).is_some_and(|ticket| ticket.stage == Stage::Granted)
    }

    /// Gives back a place or a slot. Says who now has one instead.
    pub(super) fn leave(&mut self, id: u64, caps: Caps) -> Vec<u64> {
        let Some(ticket) = self.tickets.remove(&id) else { return Vec::new() };
        match ticket.stage {
            Stage::Keys => {}
            Stage::Line => {
                self.line.remove(&id);
            }
            Stage::Granted => self.granted -= 1,
        }
        for key in &ticket.keys {
            let Some(lane) = self.lanes.get_mut(key) else { continue };
            lane.waiting.remove(&id);
            lane.impatient.remove(&id);
            lane.held -= usize::from(ticket.stage != Stage::Keys);
            if lane.held == 0 && lane.waiting.is_empty() {
                self.lanes.remove(key);
            }
        }
        self.settle(ticket.keys, caps)
    }

    /// Goes over to other numbers. Says who now has a slot.
    pub(super) fn resize(&mut self, caps: Caps) -> Vec<u64> {
        let keys = self.lanes.keys().cloned().collect();
        self.settle(keys, caps)
    }

    /// Lets in whoever can come in after something changed for these keys.
    fn settle(&mut self, mut keys: Vec<Key>, caps: Caps) -> Vec<u64> {
        while let Some(key) = keys.pop() {
            keys.extend(self.walk(&key, caps));
        }
        let mut granted = Vec::new();
        while caps.all == 0 || self.granted < caps.all {
            let Some(id) = self.line.pop_first() else { break };
            if let Some(ticket) = self.tickets.get_mut(&id) {
                ticket.stage = Stage::Granted;
                self.granted += 1;
                granted.push(id);
            }
        }
        granted
    }

    /// Lets in those of one lane who find room in all of theirs. Says which other lanes somebody
    /// impatient has left.
    fn walk(&mut self, key: &Key, caps: Caps) -> Vec<Key> {
        let mut changed = Vec::new();
        let mut skipped = Vec::new();
        let mut from = 0;
        while let Some(lane) = self.lanes.get(key)
            && let Some(&id) = lane.waiting.range(from..).next()
            && lane.has_room(id, caps.of(key))
        {
            from = id + 1;
            if self.fits(id, caps) {
                changed.extend(self.admit(id));
                for other in &skipped {
                    self.overtake(*other);
                }
            } else {
                skipped.push(id);
            }
        }
        changed
    }

    fn fits(&self, id: u64, caps: Caps) -> bool {
        self.tickets.get(&id).is_some_and(|ticket| {
            ticket
                .keys
                .iter()
                .all(|key| self.lanes.get(key).is_none_or(|lane| lane.has_room(id, caps.of(key))))
        })
    }

    /// Takes all keys of a ticket and puts it in line.
    fn admit(&mut self, id: u64) -> Vec<Key> {
        let mut left = Vec::new();
        let Some(ticket) = self.tickets.get_mut(&id) else { return left };
        ticket.stage = Stage::Line;
        self.line.insert(id);
        for key in &ticket.keys {
            let lane = self.lanes.entry(key.clone()).or_default();
            lane.held += 1;
            lane.waiting.remove(&id);
            if lane.impatient.remove(&id) {
                left.push(key.clone());
            }
        }
        left
    }

    fn overtake(&mut self, id: u64) {
        let Some(ticket) = self.tickets.get_mut(&id) else { return };
        ticket.overtaken += 1;
        if ticket.overtaken == PATIENCE {
            for key in &ticket.keys {
                self.lanes.entry(key.clone()).or_default().impatient.insert(id);
            }
        }
    }
}
