//! Who may have a call under way: slots of templates and hosts, then those of the connection.

use std::collections::{BTreeMap, BTreeSet};

/// How often somebody who waits for a host and a template may be overtaken by others on that host.
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
/// A ticket waits until all its keys have room and takes them together, then it waits in line for one
/// of the connection's slots. Tickets of the same keys never overtake each other. One that waits for a
/// key may be overtaken by those who do not need that key, so a host that hangs holds up nobody who
/// goes elsewhere. So that this does not go on without end, one that was overtaken often on its host has
/// the host's next slot set aside for it while it waits for its template.
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
    /// Those of the waiting who were overtaken often; the first of them has a slot set aside.
    impatient: BTreeSet<u64>,
}

impl Lane {
    fn has_room(&self, ticket: u64, cap: usize) -> bool {
        let set_aside = self.impatient.first().is_some_and(|first| *first < ticket);
        cap == 0 || self.held + usize::from(set_aside) < cap
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

    /// Goes over to other numbers. They count for everybody who has no slot yet and for those in
    /// `unused`, who have one and give it back. Says who now has one.
    pub(super) fn resize(&mut self, unused: BTreeSet<u64>, caps: Caps) -> Vec<u64> {
        for id in unused.into_iter().filter(|id| self.has(*id)).collect::<Vec<_>>() {
            self.granted -= 1;
            self.line.insert(id);
        }
        for id in std::mem::take(&mut self.line) {
            let Some(ticket) = self.tickets.get_mut(&id) else { continue };
            if ticket.keys.is_empty() {
                ticket.stage = Stage::Line;
                self.line.insert(id);
                continue;
            }
            ticket.stage = Stage::Keys;
            for key in &ticket.keys {
                let lane = self.lanes.entry(key.clone()).or_default();
                lane.held -= 1;
                lane.waiting.insert(id);
            }
        }
        let keys = self.lanes.keys().cloned().collect();
        self.settle(keys, caps)
    }

    /// Lets in whoever can come in after something changed for these keys.
    fn settle(&mut self, keys: Vec<Key>, caps: Caps) -> Vec<u64> {
        for key in keys {
            self.walk(&key, caps);
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

    /// Lets in those of one lane who find room in all of theirs. Nobody else finds room by that: who comes
    /// in takes at least as much as was set aside for them.
    fn walk(&mut self, key: &Key, caps: Caps) {
        let mut from = 0;
        while let Some(lane) = self.lanes.get(key)
            && let Some(&id) = lane.waiting.range(from..).next()
            && lane.has_room(id, caps.of(key))
        {
            from = id + 1;
            if self.fits(id, caps) {
                self.admit(id);
            }
        }
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
    fn admit(&mut self, id: u64) {
        let Some(ticket) = self.tickets.get_mut(&id) else { return };
        ticket.stage = Stage::Line;
        self.line.insert(id);
        let mut overtaken = None;
        for key in &ticket.keys {
            let lane = self.lanes.entry(key.clone()).or_default();
            lane.held += 1;
            lane.waiting.remove(&id);
            lane.impatient.remove(&id);
            if matches!(key, Key::Host(_)) {
                let first = lane.waiting.first().copied().filter(|first| *first < id);
                overtaken = first.map(|first| (key.clone(), first));
            }
        }
        if let Some((host, first)) = overtaken
            && let Some(first_ticket) = self.tickets.get_mut(&first)
        {
            first_ticket.overtaken += 1;
            if first_ticket.overtaken >= PATIENCE {
                self.lanes.entry(host).or_default().impatient.insert(first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOBODY: [u64; 0] = [];

    fn caps(all: usize, per_template: usize, per_host: usize) -> Caps {
        Caps { all, per_template, per_host }
    }

    fn keys(template: &str, host: &str) -> Vec<Key> {
        let template = (!template.is_empty()).then(|| Key::Template(template.to_owned()));
        let host = (!host.is_empty()).then(|| Key::Host(host.to_owned()));
        template.into_iter().chain(host).collect()
    }

    #[test]
    fn who_came_first_is_served_first() {
        let caps = caps(1, 0, 0);
        let mut slots = Slots::default();
        let ids: Vec<_> = (0..4).map(|_| slots.enter(Vec::new(), caps).0).collect();
        assert!(slots.has(ids[0]) && !slots.has(ids[1]));
        assert_eq!(slots.leave(ids[2], caps), NOBODY);
        assert_eq!(slots.leave(ids[0], caps), [ids[1]]);
        assert_eq!(slots.leave(ids[1], caps), [ids[3]]);
        assert_eq!(slots.leave(ids[1], caps), NOBODY, "nothing is given back twice");
    }

    #[test]
    fn a_busy_template_holds_up_only_its_own() {
        let caps = caps(3, 1, 0);
        let mut slots = Slots::default();
        let (a, _) = slots.enter(keys("a", ""), caps);
        let (waits, granted) = slots.enter(keys("a", ""), caps);
        assert_eq!(granted, NOBODY);
        let (b, _) = slots.enter(keys("b", ""), caps);
        let (other, _) = slots.enter(Vec::new(), caps);
        assert!(slots.has(a) && slots.has(b) && slots.has(other));
        assert_eq!(slots.leave(b, caps), NOBODY);
        assert_eq!(slots.leave(a, caps), [waits]);
    }

    #[test]
    fn a_host_that_hangs_holds_up_no_template() {
        let caps = caps(0, 1, 1);
        let mut slots = Slots::default();
        let (hung, _) = slots.enter(keys("", "h"), caps);
        let (waits, _) = slots.enter(keys("a", "h"), caps);
        for _ in 0..10 * PATIENCE {
            let (id, granted) = slots.enter(keys("a", "elsewhere"), caps);
            assert_eq!(granted, [id]);
            slots.leave(id, caps);
        }
        assert_eq!(slots.leave(hung, caps), [waits]);
    }

    /// Somebody who needs a template and a host, both of which others take from each other without end.
    fn wanted_by_all(rounds: u32, caps: Caps) -> (Slots, u64, u64, u64) {
        let mut slots = Slots::default();
        let (mut template, _) = slots.enter(keys("a", ""), caps);
        let (mut host, _) = slots.enter(keys("", "h"), caps);
        let (both, _) = slots.enter(keys("a", "h"), caps);
        for _ in 0..rounds {
            let (next_template, _) = slots.enter(keys("a", ""), caps);
            let (next_host, _) = slots.enter(keys("", "h"), caps);
            slots.leave(template, caps);
            slots.leave(host, caps);
            (template, host) = (next_template, next_host);
        }
        (slots, both, template, host)
    }

    #[test]
    fn who_needs_two_things_gets_them_although_each_is_always_wanted() {
        let (slots, both, ..) = wanted_by_all(PATIENCE + 2, caps(0, 1, 1));
        assert!(slots.has(both));
    }

    #[test]
    fn what_was_set_aside_is_free_again_when_nobody_waits_for_it() {
        let caps = caps(0, 1, 1);
        let (mut slots, both, _, host) = wanted_by_all(PATIENCE + 1, caps);
        assert!(!slots.has(both) && !slots.has(host), "the host's slot is set aside");
        assert_eq!(slots.leave(both, caps), [host]);

        let (mut slots, both, template, host) = wanted_by_all(PATIENCE + 1, caps);
        assert_eq!(slots.leave(template, caps), [both]);
        let caps = Caps { per_host: 2, ..caps };
        assert_eq!(slots.resize(none(), caps), [host], "nothing is set aside for who has it");
    }

    fn none() -> BTreeSet<u64> {
        BTreeSet::new()
    }

    #[test]
    fn other_numbers_count_at_once() {
        let mut slots = Slots::default();
        let ids: Vec<_> = (0..5).map(|_| slots.enter(keys("a", "h"), caps(1, 1, 1)).0).collect();
        assert_eq!(slots.resize(none(), caps(9, 2, 0)), [ids[1]]);
        assert_eq!(slots.resize(none(), caps(0, 0, 0)), ids[2..]);
        assert_eq!(slots.resize(none(), caps(1, 0, 0)), NOBODY);
        let unused = ids[1..].iter().copied().collect();
        assert_eq!(slots.resize(unused, caps(3, 0, 0)), ids[1..3]);
        assert_eq!(slots.resize(none(), caps(0, 0, 0)), ids[3..]);
        for id in &ids[..4] {
            assert_eq!(slots.leave(*id, caps(1, 0, 0)), NOBODY);
        }
        assert!(slots.leave(ids[4], caps(1, 0, 0)).is_empty() && slots.lanes.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Enter(usize, usize),
        Leave(prop::sample::Index),
        Resize(Vec<prop::sample::Index>, Caps),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let index = any::<prop::sample::Index>;
        let resize = (prop::collection::vec(index(), 0..3), 0..5usize, 0..3usize, 0..3usize)
            .prop_map(|(unused, all, template, host)| {
                Op::Resize(unused, caps(all, template, host))
            });
        let op = prop_oneof![
            5 => (0..3usize, 0..3usize).prop_map(|(template, host)| Op::Enter(template, host)),
            4 => index().prop_map(Op::Leave),
            1 => resize,
        ];
        prop::collection::vec(op, 0..120)
    }

    proptest! {
        /// Whatever comes and goes: no more than allowed have a slot when one is given, equals never
        /// overtake each other, nobody waits without a reason, and all are served in the end.
        #[test]
        fn slots_are_given_within_their_numbers_and_in_order(ops in ops()) {
            let mut slots = Slots::default();
            let mut now = caps(2, 1, 1);
            let mut all: BTreeMap<u64, Vec<Key>> = BTreeMap::new();
            let names = ["", "x", "y"];
            let check = |slots: &Slots, all: &BTreeMap<u64, Vec<Key>>, granted: &[u64], now: Caps| {
                let within = |cap: usize, count: usize| cap == 0 || count <= cap;
                let has: Vec<_> = all.keys().filter(|id| slots.has(**id)).copied().collect();
                if !granted.is_empty() {
                    prop_assert!(within(now.all, has.len()));
                }
                for id in granted {
                    prop_assert!(slots.has(*id));
                    for key in &all[id] {
                        let held = has.iter().filter(|id| all[id].contains(key)).count();
                        // What waits in line holds its keys too, so this is the least of it.
                        prop_assert!(within(now.of(key), held));
                    }
                    let equals = all.iter().filter(|(other, keys)| *other < id && **keys == all[id]);
                    for (other, _) in equals {
                        prop_assert!(slots.has(*other), "{id} overtook {other}");
                    }
                }
                if has.is_empty() {
                    prop_assert!(all.is_empty(), "somebody waits for nobody");
                }
                Ok(())
            };
            for op in ops {
                let granted = match op {
                    Op::Enter(template, host) => {
                        let keys = keys(names[template], names[host]);
                        let (id, granted) = slots.enter(keys.clone(), now);
                        all.insert(id, keys);
                        granted
                    }
                    Op::Leave(index) if !all.is_empty() => {
                        let id = *index.get(&all.keys().copied().collect::<Vec<_>>());
                        all.remove(&id);
                        slots.leave(id, now)
                    }
                    Op::Leave(_) => continue,
                    Op::Resize(unused, caps) => {
                        now = caps;
                        let has: Vec<_> = all.keys().filter(|id| slots.has(**id)).copied().collect();
                        let unused = unused.iter().filter(|_| !has.is_empty());
                        slots.resize(unused.map(|index| *index.get(&has)).collect(), now)
                    }
                };
                check(&slots, &all, &granted, now)?;
            }
            while let Some(id) = all.keys().find(|id| slots.has(**id)).copied() {
                all.remove(&id);
                let granted = slots.leave(id, now);
                check(&slots, &all, &granted, now)?;
            }
            prop_assert!(all.is_empty(), "{all:?} were never served");
            prop_assert!(slots.lanes.is_empty() && slots.line.is_empty() && slots.granted == 0);
        }
    }
}
