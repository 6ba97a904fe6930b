//! Who takes which member of a managed group. Members are alike, so whoever looks has to come to the same
//! answer: those that nobody has are shared out among all who wait, in one order, by one computation.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sutler_provider::{MachineId, Seen, View};

/// Who waits for a member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The record's UID.
    pub uid: String,
    /// When its machine was first asked for.
    pub asked: Timestamp,
    /// Since when members may be its own.
    pub since: Timestamp,
    /// Whether it is on its way out.
    pub deleting: bool,
}

impl Waiter {
    /// Its turn: those that are to stay before those that go, those whose time is not over before those
    /// that were asked for until `over`, and then as they were asked for.
    pub fn turn(&self, over: Timestamp) -> (bool, bool, Timestamp, &str) {
        (self.deleting, self.asked <= over, self.asked, &self.uid)
    }
}

/// The members of a group that nobody has, each with who takes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// In the order in which they came.
    members: Vec<Seen>,
    /// For each member the place of who takes it.
    takers: Vec<Option<usize>>,
    /// The places of those who have had their time.
    late: BTreeSet<usize>,
    /// Everyone who waits.
    places: BTreeMap<String, Place>,
    /// Since when members may be those of the ones who wait, and for how many of them.
    sinces: BTreeMap<Timestamp, usize>,
}

/// Where somebody stands in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// From 1 on.
    number: usize,
    /// The member that it takes.
    taken: Option<usize>,
    since: Timestamp,
}

/// The place of one whose claim is on record.
const HAS_IT: usize = 0;

impl Row {
    /// Shares members out: in their turn, everyone takes the first that came after it was asked for. So
    /// nobody takes one that only another can have.
    pub fn share_out<'a>(
        view: &View,
        members: impl Iterator<Item = &'a Seen>,
        mut waiting: Vec<Waiter>,
        over: Timestamp,
    ) -> Self {
        let mut members: Vec<Seen> = members.cloned().collect();
        members.sort_by(|a, b| (came(a), &a.machine.id).cmp(&(came(b), &b.machine.id)));
        waiting.sort_by(|a, b| a.turn(over).cmp(&b.turn(over)));
        let mut takers: Vec<Option<usize>> = vec![None; members.len()];
        let (mut places, mut sinces) = (BTreeMap::new(), BTreeMap::new());
        let mut late = BTreeSet::new();
        let (mut next, mut last) = (0, Timestamp::MIN);
        for (number, one) in (1..).zip(waiting) {
            // Whoever was asked for later finds nothing in what an earlier one passed over.
            if one.since < last {
                next = 0;
            }
            last = one.since;
            while next < members.len()
                && (takers[next].is_some() || !appeared_after(view, &members[next], one.since))
            {
                next += 1;
            }
            let taken = (next < members.len()).then_some(next);
            if let Some(taken) = taken {
                takers[taken] = Some(number);
            }
            if one.asked <= over {
                late.insert(number);
            }
            *sinces.entry(one.since).or_default() += 1;
            places.insert(one.uid, Place { number, taken, since: one.since });
        }
        Self { members, takers, late, places, sinces }
    }

    /// Whether this record is among those who wait.
    pub fn has(&self, uid: &str) -> bool {
        self.places.contains_key(uid)
    }

    /// What is left for a record by those before it, in the order in which they came. One that is not in
    /// the row comes last.
    pub fn left_for(&self, uid: &str) -> impl Iterator<Item = &Seen> {
        let place = self.places.get(uid).map_or(usize::MAX, |place| place.number);
        let left = move |taker: &Option<usize>| taker.is_none_or(|taker| taker >= place);
        let all = self.members.iter().zip(&self.takers);
        all.filter(move |(_, taker)| left(taker)).map(|(seen, _)| seen)
    }

    /// What those before a record are to take and do not have yet. Who has had his time may never take any.
    pub fn to_be_taken_before(&self, uid: &str) -> impl Iterator<Item = &Seen> {
        let place = self.places.get(uid).map_or(usize::MAX, |place| place.number);
        let open = move |taker: &Option<usize>| {
            taker.is_some_and(|at| at != HAS_IT && at < place && !self.late.contains(&at))
        };
        let all = self.members.iter().zip(&self.takers);
        all.filter(move |(_, taker)| open(taker)).map(|(seen, _)| seen)
    }

    /// Notes that a record has a machine now. What the others take is as it was if that is the one that it
    /// was to take; else everything has to be shared out again, which comes back as false.
    pub fn settle(&mut self, uid: &str, id: &MachineId) -> bool {
        let Some(Place { taken: Some(taken), since, .. }) = self.places.get(uid).copied() else {
            return false;
        };
        if self.members[taken].machine.id != *id {
            return false;
        }
        self.takers[taken] = Some(HAS_IT);
        self.places.remove(uid);
        if let Some(count) = self.sinces.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                self.sinces.remove(&since);
            }
        }
        true
    }

    /// Whether somebody else waits who may take this member as well. One that this record alone may take
    /// would be nobody's if it took another.
    pub fn may_be_anothers(&self, uid: &str, view: &View, seen: &Seen) -> bool {
        let own = self.places.get(uid).map(|place| place.since);
        let others = |(since, count): &(&Timestamp, &usize)| **count > 1 || Some(**since) != own;
        let first = self.sinces.iter().find(others);
        first.is_some_and(|(since, _)| appeared_after(view, seen, *since))
    }
}

/// Whether a machine was certainly not there at `asked`: made later, or where that is not told, first
/// seen later by one who saw everything before.
pub(super) fn appeared_after(view: &View, seen: &Seen, asked: Timestamp) -> bool {
    match seen.machine.created_at {
        Some(made) => made.as_second() >= asked.as_second(),
        None => {
            view.complete_since().is_some_and(|since| since <= asked) && seen.first_seen >= asked
        }
    }
}

/// When a machine was made, or where that is not told, first seen.
pub(super) fn came(seen: &Seen) -> Timestamp {
    seen.machine.created_at.unwrap_or(seen.first_seen)
}

#[cfg(test)]
mod tests {
    use sutler_provider::{Listing, Machine, Power};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn waiter(uid: &str, asked: i64, deleting: bool) -> Waiter {
        Waiter { uid: uid.to_owned(), asked: at(asked), since: at(0), deleting }
    }

    /// One that stays comes before one that goes, and may be held back for ever.
    #[test]
    fn who_goes_waits_for_those_ahead_until_they_have_had_their_time() {
        let mut machine = Machine::new("vm-1", "w1", Power::On);
        machine.group = Some("pool".to_owned());
        machine.created_at = Some(at(20));
        let mut view = View::default();
        view.take_list(Listing { machines: vec![machine], complete: true }, at(30));
        let row = |over| {
            let waiting = vec![waiter("stays", 5, false), waiter("goes", 10, true)];
            Row::share_out(&view, view.in_group("pool"), waiting, over)
        };
        assert_eq!(row(at(0)).to_be_taken_before("goes").count(), 1);
        assert_eq!(row(at(5)).to_be_taken_before("goes").count(), 0);
        assert_eq!(row(at(0)).to_be_taken_before("stays").count(), 0);
        assert_eq!(row(at(0)).left_for("goes").count(), 0);
    }
}
