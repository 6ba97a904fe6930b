//! Finds nodes that may have room among many that have none.

use super::Snapshot;
use crate::world::Resources;

/// Nodes that are looked at together.
const BLOCK: usize = 16;

/// The most that any node has left of one thing.
#[derive(Clone, Copy, Debug)]
struct Most {
    cpu: i64,
    memory: i64,
    slots: i64,
}

const NOTHING: Most = Most { cpu: i64::MIN, memory: i64::MIN, slots: i64::MIN };

impl Most {
    fn raise(&mut self, other: Self) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.slots = self.slots.max(other.slots);
    }

    fn may_take(self, wants: &Resources) -> bool {
        self.slots > 0
            && (wants.cpu <= 0 || wants.cpu <= self.cpu)
            && (wants.memory <= 0 || wants.memory <= self.memory)
    }
}

/// A list of nodes in blocks, each with the most that any node of it has left.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    sites: Vec<usize>,
    blocks: Vec<Most>,
}

impl Rooms {
    pub(crate) fn new(snapshot: &Snapshot<'_>, sites: impl Iterator<Item = usize>) -> Self {
        let mut rooms = Self::default();
        for site in sites {
            rooms.push(snapshot, site);
        }
        rooms
    }

    /// One more node at the end.
    pub(crate) fn push(&mut self, snapshot: &Snapshot<'_>, site: usize) {
        if self.sites.len().is_multiple_of(BLOCK) {
            self.blocks.push(NOTHING);
        }
        self.sites.push(site);
        if let Some(block) = self.blocks.last_mut() {
            block.raise(left(snapshot, site));
        }
    }

    /// The node at a place in the list.
    pub(crate) fn site(&self, at: usize) -> usize {
        self.sites[at]
    }

    /// What the node at this place has left has changed.
    pub(crate) fn touch(&mut self, snapshot: &Snapshot<'_>, at: usize) {
        let block = at / BLOCK;
        let end = self.sites.len().min((block + 1) * BLOCK);
        let mut most = NOTHING;
        for site in &self.sites[block * BLOCK..end] {
            most.raise(left(snapshot, *site));
        }
        self.blocks[block] = most;
    }

    /// The first place from `at` on whose node may have room.
    pub(crate) fn next(
        &self,
        snapshot: &Snapshot<'_>,
        mut at: usize,
        wants: &Resources,
    ) -> Option<usize> {
        while at < self.sites.len() {
            if !self.blocks[at / BLOCK].may_take(wants) {
                at = (at / BLOCK + 1) * BLOCK;
                continue;
            }
            if left(snapshot, self.sites[at]).may_take(wants) {
                return Some(at);
            }
            at += 1;
        }
        None
    }
}

fn left(snapshot: &Snapshot<'_>, site: usize) -> Most {
    if snapshot.sites[site].closed {
        return NOTHING;
    }
    Most { cpu: snapshot.cpu[site], memory: snapshot.memory[site], slots: snapshot.slots[site] }
}
