//! All rows of the platform, and the one way to change them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use sutler_provider::{DiskKey, MachineId, Token};

use crate::{
    row::{BlobRow, Done, ImageRow, KeptRow, Next, Row, Work},
    settings::Ids,
};

/// The number in the first machine's ID.
pub(crate) const FIRST_ID: u64 = 100;

const PREFIX: &str = "vm-";

/// One row's new value, or none where it goes away. The inverse of a change is another one, so a
/// transaction can be taken back, and the log on disk is a list of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Op {
    Machine(MachineId, Option<Arc<Row>>),
    Work(u64, Option<Arc<Work>>),
    Done(u64, Option<Done>),
    Image(String, Option<ImageRow>),
    Import(String, Option<BlobRow>),
    Export(String, Option<BlobRow>),
    Kept(DiskKey, Option<KeptRow>),
    Next(Next),
}

/// All rows, with the indexes that follow from them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    ids: Ids,
    pub(crate) machines: BTreeMap<MachineId, Arc<Row>>,
    pub(crate) works: BTreeMap<u64, Arc<Work>>,
    pub(crate) done: BTreeMap<u64, Done>,
    pub(crate) images: BTreeMap<String, ImageRow>,
    pub(crate) imports: BTreeMap<String, BlobRow>,
    pub(crate) exports: BTreeMap<String, BlobRow>,
    pub(crate) kept: BTreeMap<DiskKey, KeptRow>,
    pub(crate) next: Next,
    by_name: BTreeMap<String, BTreeSet<MachineId>>,
    by_token: BTreeMap<Token, BTreeSet<MachineId>>,
    pub(crate) used: BTreeMap<String, Used>,
    pub(crate) total: Used,
    /// How many machines were made from an image.
    image_users: BTreeMap<String, usize>,
    /// Which machine has a kept disk.
    holders: BTreeMap<DiskKey, MachineId>,
    /// Numbers of dead machines that can be given again.
    free: BTreeSet<u64>,
}

/// What machines take. Seeds may say anything, so sums wrap rather than panic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cpu: u64,
    pub(crate) memory_mib: u64,
}

impl State {
    pub(crate) fn new(ids: Ids) -> Self {
        Self {
            ids,
            machines: BTreeMap::new(),
            works: BTreeMap::new(),
            done: BTreeMap::new(),
            images: BTreeMap::new(),
            imports: BTreeMap::new(),
            exports: BTreeMap::new(),
            kept: BTreeMap::new(),
            next: Next { id: FIRST_ID, number: 0, work: 1 },
            by_name: BTreeMap::new(),
            by_token: BTreeMap::new(),
            used: BTreeMap::new(),
            total: Used::default(),
            image_users: BTreeMap::new(),
            holders: BTreeMap::new(),
            free: BTreeSet::new(),
        }
    }

    /// Changes one row and returns the change that takes it back.
    pub(crate) fn apply(&mut self, op: Op) -> Op {
        match op {
            Op::Machine(id, row) => {
                let old = self.swap_machine(&id, row);
                Op::Machine(id, old)
            }
            Op::Work(id, work) => {
                let old = swap(&mut self.works, id, work);
                Op::Work(id, old)
            }
            Op::Done(id, done) => {
                let old = swap(&mut self.done, id, done);
                Op::Done(id, old)
            }
            Op::Image(name, image) => {
                let old = swap(&mut self.images, name.clone(), image);
                Op::Image(name, old)
            }
            Op::Import(name, blob) => {
                let old = swap(&mut self.imports, name.clone(), blob);
                Op::Import(name, old)
            }
            Op::Export(name, blob) => {
                let old = swap(&mut self.exports, name.clone(), blob);
                Op::Export(name, old)
            }
            Op::Kept(key, kept) => {
                let old = swap(&mut self.kept, key.clone(), kept);
                Op::Kept(key, old)
            }
            Op::Next(next) => {
                // What was taken back was never given.
                self.free.split_off(&next.id);
                Op::Next(std::mem::replace(&mut self.next, next))
            }
        }
    }

    /// The changes that make this state from nothing.
    pub(crate) fn dump(&self) -> impl Iterator<Item = Op> + '_ {
        let machines = self.machines.iter();
        std::iter::once(Op::Next(self.next))
            .chain(machines.map(|(id, row)| Op::Machine(id.clone(), Some(row.clone()))))
            .chain(self.works.iter().map(|(id, work)| Op::Work(*id, Some(work.clone()))))
            .chain(self.done.iter().map(|(id, done)| Op::Done(*id, Some(done.clone()))))
            .chain(self.images.iter().map(|(name, row)| Op::Image(name.clone(), Some(row.clone()))))
            .chain(
                self.imports.iter().map(|(name, row)| Op::Import(name.clone(), Some(row.clone()))),
            )
            .chain(
                self.exports.iter().map(|(name, row)| Op::Export(name.clone(), Some(row.clone()))),
            )
            .chain(self.kept.iter().map(|(key, row)| Op::Kept(key.clone(), Some(row.clone()))))
    }

    /// Finds the free numbers anew, after a dump was read: it does not say which IDs were given.
    pub(crate) fn find_free(&mut self) {
        if self.ids == Ids::Reused {
            let taken = |number: &u64| self.machines.contains_key(&id_of(*number));
            self.free = (FIRST_ID..self.next.id).filter(|number| !taken(number)).collect();
        }
    }

    /// The number for the next machine's ID; with it, what the counter says afterwards.
    pub(crate) fn next_id(&self) -> (MachineId, u64) {
        if let Some(number) = self.free.first() {
            return (id_of(*number), self.next.id);
        }
        let mut number = self.next.id;
        while self.machines.contains_key(&id_of(number)) {
            number += 1;
        }
        (id_of(number), number + 1)
    }

    /// Machines of this name, seen or not.
    pub(crate) fn named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Arc<Row>> {
        self.by_name.get(name).into_iter().flatten().filter_map(|id| self.machines.get(id))
    }

    /// Machines with this token, seen or not.
    pub(crate) fn owned<'a>(&'a self, token: &Token) -> impl Iterator<Item = &'a Arc<Row>> {
        self.by_token.get(token).into_iter().flatten().filter_map(|id| self.machines.get(id))
    }

    pub(crate) fn uses_image(&self, image: &str) -> bool {
        self.image_users.contains_key(image)
    }

    /// The machine that has this kept disk, seen or not.
    pub(crate) fn holder(&self, key: &DiskKey) -> Option<&MachineId> {
        self.holders.get(key)
    }

    fn swap_machine(&mut self, id: &MachineId, row: Option<Arc<Row>>) -> Option<Arc<Row>> {
        let old = match &row {
            Some(row) => self.machines.insert(id.clone(), row.clone()),
            None => self.machines.remove(id),
        };
        if let Some(old) = &old {
            self.unindex(old);
        }
        if let Some(row) = &row {
            self.index(row);
        }
        if self.ids == Ids::Reused
            && let Some(number) = number_of(id)
        {
            match row.is_some() {
                true => {
                    self.free.remove(&number);
                }
                false if (FIRST_ID..self.next.id).contains(&number) => {
                    self.free.insert(number);
                }
                false => {}
            }
        }
        old
    }

    fn index(&mut self, row: &Row) {
        let id = row.id();
        self.by_name.entry(row.machine.name.clone()).or_default().insert(id.clone());
        if let Some(token) = &row.machine.token {
            self.by_token.entry(token.clone()).or_default().insert(id.clone());
        }
        if let Some(image) = &row.image {
            *self.image_users.entry(image.clone()).or_default() += 1;
        }
        for key in row.kept() {
            self.holders.insert(key.clone(), id.clone());
        }
        self.total.add(row);
        if let Some(host) = &row.machine.host {
            self.used.entry(host.clone()).or_default().add(row);
        }
    }

    fn unindex(&mut self, row: &Row) {
        let id = row.id();
        take(&mut self.by_name, &row.machine.name, id);
        if let Some(token) = &row.machine.token {
            take(&mut self.by_token, token, id);
        }
        if let Some(image) = &row.image
            && let Some(users) = self.image_users.get_mut(image)
        {
            *users -= 1;
            if *users == 0 {
                self.image_users.remove(image);
            }
        }
        for key in row.kept() {
            self.holders.remove(key);
        }
        self.total.subtract(row);
        if let Some(host) = &row.machine.host
            && let Some(used) = self.used.get_mut(host)
        {
            used.subtract(row);
            if *used == Used::default() {
                self.used.remove(host);
            }
        }
    }
}

impl Used {
    fn add(&mut self, row: &Row) {
        self.cpu = self.cpu.wrapping_add(u64::from(row.cpu()));
        self.memory_mib = self.memory_mib.wrapping_add(row.memory_mib());
    }

    fn subtract(&mut self, row: &Row) {
        self.cpu = self.cpu.wrapping_sub(u64::from(row.cpu()));
        self.memory_mib = self.memory_mib.wrapping_sub(row.memory_mib());
    }
}

pub(crate) fn id_of(number: u64) -> MachineId {
    MachineId(format!("{PREFIX}{number}"))
}

/// The number in an ID that we gave, or could have given.
pub(crate) fn number_of(id: &MachineId) -> Option<u64> {
    let number = id.0.strip_prefix(PREFIX)?.parse().ok()?;
    (number < u64::MAX / 2 && id_of(number) == *id).then_some(number)
}

fn swap<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}

fn take<K: Ord + Clone>(index: &mut BTreeMap<K, BTreeSet<MachineId>>, key: &K, id: &MachineId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use sutler_provider::{Machine, Power};

    use super::*;

    #[test]
    fn an_id_that_was_taken_back_was_never_given() {
        let mut state = State::new(Ids::Reused);
        let before = state.clone();
        let (id, next) = state.next_id();
        let row = Row::of(Machine::new(id.clone(), "web", Power::On), 0);
        let given = Op::Next(Next { id: next, ..state.next });
        let undo = [given, Op::Machine(id, Some(Arc::new(row)))].map(|op| state.apply(op));
        assert_ne!(state, before);
        for op in undo.into_iter().rev() {
            state.apply(op);
        }
        assert_eq!(state, before);
    }
}
