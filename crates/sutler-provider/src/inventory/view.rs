//! What is known of a platform's machines, and how fresh it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;

use crate::{
    identity::MachineId,
    machine::{Listing, Machine},
};

/// A machine that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// What it was like.
    pub machine: Arc<Machine>,
    /// The state is not older than this.
    pub as_of: Timestamp,
    /// When this control plane first saw it.
    pub first_seen: Timestamp,
    /// What is known of its disks is not older than this; none while nobody told of them. That its platform
    /// never does is known once the machine itself was looked at.
    pub disks_as_of: Option<Timestamp>,
    /// The same of its snapshots.
    pub snapshots_as_of: Option<Timestamp>,
}

impl Seen {
    /// A machine that was looked at by itself.
    pub fn looked_at(machine: Machine, at: Timestamp) -> Self {
        Self {
            machine: Arc::new(machine),
            as_of: at,
            first_seen: at,
            disks_as_of: Some(at),
            snapshots_as_of: Some(at),
        }
    }

    /// Whether what is known of its disks is as new as what is known of the machine.
    pub fn knows_disks(&self) -> bool {
        self.disks_as_of == Some(self.as_of)
    }

    /// Whether what is known of its snapshots is as new as what is known of the machine.
    pub fn knows_snapshots(&self) -> bool {
        self.snapshots_as_of == Some(self.as_of)
    }
}

/// What is known of a platform's machines. Observations may come in any order: what is older than
/// what is known already changes nothing, and only a complete list or a look at the machine itself
/// can make it absent. Nor does what a list leaves out take back what a look at the machine told.
#[derive(Debug, Default)]
pub struct View {
    lag: Duration,
    machines: BTreeMap<MachineId, Seen>,
    by_uid: BTreeMap<String, BTreeSet<MachineId>>,
    by_name: BTreeMap<String, BTreeSet<MachineId>>,
    by_group: BTreeMap<String, BTreeSet<MachineId>>,
    /// Machines that were seen to be gone after the last complete list.
    gone: BTreeMap<MachineId, Timestamp>,
    complete: Option<Timestamp>,
    /// The first state that was known completely.
    complete_since: Option<Timestamp>,
    version: u64,
}

/// The versions of all views, so that no two are alike.
static VERSIONS: AtomicU64 = AtomicU64::new(1);

impl View {
    /// A view of a platform whose lists are up to `lag` behind.
    pub fn new(lag: Duration) -> Self {
        Self { lag, ..Self::default() }
    }

    /// Changes how far lists may be behind, for lists to come.
    pub fn set_lag(&mut self, lag: Duration) {
        self.lag = lag;
    }

    /// A number that is another one after each observation, and that no other view has.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The state of the platform that is known completely is not older than this.
    pub fn complete_as_of(&self) -> Option<Timestamp> {
        self.complete
    }

    /// Since when nothing could appear unseen: the state of the first complete list.
    pub fn complete_since(&self) -> Option<Timestamp> {
        self.complete_since
    }

    /// Machines of a managed group, by ID.
    pub fn in_group(&self, group: &str) -> impl Iterator<Item = &Seen> {
        let ids = self.by_group.get(group).into_iter().flatten();
        ids.filter_map(|id| self.machines.get(id))
    }

    /// A machine by its ID.
    pub fn get(&self, id: &MachineId) -> Option<&Seen> {
        self.machines.get(id)
    }

    /// All machines, by ID.
    pub fn iter(&self) -> impl Iterator<Item = &Seen> {
        self.machines.values()
    }

    /// How many machines there are.
    pub fn len(&self) -> usize {
        self.machines.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }

    /// Machines that carry a token of this record, of any incarnation.
    pub fn of_record(&self, uid: &str) -> impl Iterator<Item = &Seen> {
        let ids = self.by_uid.get(uid).into_iter().flatten();
        ids.filter_map(|id| self.machines.get(id))
    }

    /// Machines whose platform name or hostname is `name`, or `name` followed by `-` or `.`, in any
    /// case.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Seen> {
        let name = name.to_lowercase();
        let ids: BTreeSet<&MachineId> = self
            .by_name
            .range(name.clone()..)
            .take_while(|(found, _)| found.starts_with(&name))
            .filter(|(found, _)| {
                matches!(found.as_bytes().get(name.len()), None | Some(b'-' | b'.'))
            })
            .flat_map(|(_, ids)| ids)
            .collect();
        ids.into_iter().filter_map(|id| self.machines.get(id))
    }

    /// Since when a machine is known to be absent, if it is.
    pub fn absent_as_of(&self, id: &MachineId) -> Option<Timestamp> {
        if self.machines.contains_key(id) {
            return None;
        }
        self.gone.get(id).copied().max(self.complete)
    }

    /// Takes a list that was begun at `begun` in, and tells which machines changed.
    pub fn take_list(&mut self, listing: Listing, begun: Timestamp) -> Vec<MachineId> {
        self.turn_over();
        let as_of = begun.saturating_sub(self.lag).unwrap_or(begun);
        let mut changed = Vec::new();
        let listed: BTreeSet<MachineId> =
            listing.machines.iter().map(|machine| machine.id.clone()).collect();
        for machine in listing.machines {
            let id = machine.id.clone();
            if self.take(machine, as_of, begun, false) {
                changed.push(id);
            }
        }
        // A part says nothing of the rest, and an older whole nothing of a newer one.
        if listing.complete && self.complete.is_none_or(|known| known < as_of) {
            let missing: Vec<MachineId> = self
                .machines
                .iter()
                .filter(|(id, seen)| seen.as_of <= as_of && !listed.contains(*id))
                .map(|(id, _)| id.clone())
                .collect();
            for id in missing {
                self.remove(&id);
                changed.push(id);
            }
            self.gone.retain(|_, at| *at > as_of);
            self.complete = Some(as_of);
            self.complete_since.get_or_insert(as_of);
        }
        changed
    }

    /// Takes in what a machine was like at `at` or later, and tells whether that is news. It was looked at
    /// by itself: nothing was left out that its platform can tell.
    pub fn take_machine(&mut self, machine: Machine, at: Timestamp) -> bool {
        self.turn_over();
        self.take(machine, at, at, true)
    }

    /// Takes in what the platform told of a machine by itself at `at` or later, and tells whether that is
    /// news. Like a list, it may leave out what takes more work to tell.
    pub fn take_notice(&mut self, machine: Machine, at: Timestamp) -> bool {
        self.turn_over();
        self.take(machine, at, at, false)
    }

    /// Takes in that a machine was not there at `at` or later, and tells whether that is news.
    pub fn take_absence(&mut self, id: &MachineId, at: Timestamp) -> bool {
        self.turn_over();
        if self.machines.get(id).is_some_and(|seen| seen.as_of > at) {
            return false;
        }
        let known = self.gone.entry(id.clone()).or_insert(at);
        *known = (*known).max(at);
        self.remove(id)
    }

    fn turn_over(&mut self) {
        self.version = VERSIONS.fetch_add(1, Ordering::Relaxed);
    }

    fn take(
        &mut self,
        mut machine: Machine,
        as_of: Timestamp,
        seen_at: Timestamp,
        whole: bool,
    ) -> bool {
        if self.gone.get(&machine.id).is_some_and(|gone| *gone >= as_of)
            || self.complete.is_some_and(|complete| {
                complete > as_of && !self.machines.contains_key(&machine.id)
            })
        {
            return false;
        }
        let id = machine.id.clone();
        let mut disks_as_of = (whole || machine.disks.is_some()).then_some(as_of);
        let mut snapshots_as_of = (whole || machine.snapshots.is_some()).then_some(as_of);
        let first_seen = match self.machines.get_mut(&id) {
            Some(seen) if seen.as_of > as_of => return false,
            // The same ID on another machine is another machine.
            Some(seen) if other_machine(&seen.machine, &machine) => seen_at,
            Some(seen) => {
                if disks_as_of.is_none() {
                    machine.disks.clone_from(&seen.machine.disks);
                    disks_as_of = seen.disks_as_of;
                }
                if snapshots_as_of.is_none() {
                    machine.snapshots.clone_from(&seen.machine.snapshots);
                    snapshots_as_of = seen.snapshots_as_of;
                }
                if *seen.machine == machine {
                    (seen.as_of, seen.disks_as_of) = (as_of, disks_as_of);
                    seen.snapshots_as_of = snapshots_as_of;
                    return false;
                }
                seen.first_seen
            }
            None => seen_at,
        };
        self.remove(&id);
        self.gone.remove(&id);
        if let Some(token) = &machine.token {
            self.by_uid.entry(token.uid.clone()).or_default().insert(id.clone());
        }
        for name in names(&machine) {
            self.by_name.entry(name).or_default().insert(id.clone());
        }
        if let Some(group) = &machine.group {
            self.by_group.entry(group.clone()).or_default().insert(id.clone());
        }
        let machine = Arc::new(machine);
        let seen = Seen { machine, as_of, first_seen, disks_as_of, snapshots_as_of };
        self.machines.insert(id, seen);
        true
    }

    fn remove(&mut self, id: &MachineId) -> bool {
        let Some(seen) = self.machines.remove(id) else { return false };
        if let Some(token) = &seen.machine.token {
            unlink(&mut self.by_uid, &token.uid, id);
        }
        for name in names(&seen.machine) {
            unlink(&mut self.by_name, &name, id);
        }
        if let Some(group) = &seen.machine.group {
            unlink(&mut self.by_group, group, id);
        }
        true
    }
}

fn other_machine(old: &Machine, new: &Machine) -> bool {
    match (old.created_at, new.created_at) {
        (Some(old), Some(new)) => old != new,
        _ => old.token != new.token,
    }
}

fn names(machine: &Machine) -> BTreeSet<String> {
    let hostname = machine.hostname.as_deref();
    [Some(machine.name.as_str()), hostname].into_iter().flatten().map(str::to_lowercase).collect()
}

fn unlink(index: &mut BTreeMap<String, BTreeSet<MachineId>>, key: &str, id: &MachineId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{DiskInfo, Token, machine::Power};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn machine(id: &str, name: &str) -> Machine {
        Machine::new(id, name, Power::On)
    }

    fn whole(machines: Vec<Machine>) -> Listing {
        Listing { machines, complete: true }
    }

    fn part(machines: Vec<Machine>) -> Listing {
        Listing { machines, complete: false }
    }

    #[test]
    fn a_part_makes_nothing_absent() {
        let mut view = View::default();
        view.take_list(whole(vec![machine("1", "a")]), at(10));
        view.take_list(part(vec![]), at(20));
        assert!(view.get(&"1".into()).is_some());
        assert_eq!(view.complete_as_of(), Some(at(10)));
        assert_eq!(view.absent_as_of(&"2".into()), Some(at(10)));
    }

    #[test]
    fn an_old_list_takes_nothing_back() {
        let mut view = View::default();
        view.take_machine(machine("1", "a"), at(20));
        assert!(view.take_list(whole(vec![]), at(10)).is_empty());
        assert!(view.get(&"1".into()).is_some(), "it was made after the list began");
        view.take_absence(&"1".into(), at(30));
        view.take_list(whole(vec![machine("1", "a")]), at(25));
        assert!(view.get(&"1".into()).is_none(), "it went after the list began");
        assert_eq!(view.absent_as_of(&"1".into()), Some(at(30)));
    }

    #[test]
    fn a_list_that_lags_speaks_of_the_past() {
        let mut view = View::new(Duration::from_secs(5));
        view.take_list(whole(vec![]), at(10));
        assert_eq!(view.complete_as_of(), Some(at(5)));
        view.take_machine(machine("1", "a"), at(12));
        view.take_list(whole(vec![]), at(16));
        assert!(view.get(&"1".into()).is_some());
        view.take_list(whole(vec![]), at(18));
        assert!(view.get(&"1".into()).is_none());
    }

    #[test]
    fn what_a_list_leaves_out_stays_as_it_was_told() {
        let told = |size_gib| DiskInfo { name: "d".into(), size_gib, ..DiskInfo::default() };
        let full = |size| Machine {
            disks: Some(vec![told(size)]),
            snapshots: Some(vec![]),
            ..machine("1", "a")
        };
        let mut view = View::default();
        view.take_list(whole(vec![machine("1", "a")]), at(10));
        let seen = view.get(&"1".into()).unwrap().clone();
        assert_eq!((seen.disks_as_of, seen.snapshots_as_of), (None, None));
        assert!(!seen.knows_disks() && !seen.knows_snapshots());
        assert!(view.take_machine(full(4), at(20)));
        assert!(!view.take_list(whole(vec![machine("1", "a")]), at(30)).contains(&"1".into()));
        assert!(!view.take_notice(machine("1", "a"), at(40)));
        let seen = view.get(&"1".into()).unwrap().clone();
        assert_eq!((*seen.machine).clone(), full(4));
        assert_eq!((seen.as_of, seen.disks_as_of), (at(40), Some(at(20))));
        assert!(!seen.knows_disks() && !seen.knows_snapshots());
        // A list that does tell is as good as a look, and a look that does not tell is one too.
        view.take_list(whole(vec![full(5)]), at(50));
        assert!(view.get(&"1".into()).unwrap().knows_disks());
        view.take_machine(machine("1", "a"), at(60));
        let seen = view.get(&"1".into()).unwrap().clone();
        assert!(seen.knows_disks() && seen.machine.disks.is_none());
        // Another machine under the same ID has disks of its own.
        view.take_machine(full(6), at(70));
        let other = Machine { token: Some(Token::new("u", 1)), ..machine("1", "b") };
        view.take_list(whole(vec![other]), at(80));
        let seen = view.get(&"1".into()).unwrap();
        assert_eq!((&seen.machine.disks, seen.disks_as_of), (&None, None));
    }

    #[test]
    fn names_match_whole_or_before_a_separator() {
        let mut view = View::default();
        for (id, name) in [("1", "n-1"), ("2", "n-10"), ("3", "N-1-k8s"), ("4", "n-1.local")] {
            view.take_machine(machine(id, name), at(1));
        }
        let mut other = machine("5", "vps-77");
        other.hostname = Some("n-1".into());
        view.take_machine(other, at(1));
        let found: Vec<_> = view.named("n-1").map(|seen| seen.machine.id.0.as_str()).collect();
        assert_eq!(found, ["1", "3", "4", "5"]);
    }

    #[test]
    fn a_reused_id_is_first_seen_anew() {
        let mut view = View::default();
        let mut old = machine("1", "a");
        old.token = Some(Token::new("u", 1));
        view.take_machine(old.clone(), at(1));
        view.take_machine(Machine { power: Power::Off, ..old }, at(2));
        assert_eq!(view.get(&"1".into()).unwrap().first_seen, at(1));
        view.take_machine(machine("1", "b"), at(9));
        assert_eq!(view.get(&"1".into()).unwrap().first_seen, at(9));
        assert_eq!(view.of_record("u").count(), 0);
        assert_eq!(view.named("a").count(), 0);
    }

    proptest! {
        /// Whatever the order of truthful observations, the view ends with the newest truth.
        #[test]
        fn the_newest_observation_wins(order in Just((0..6i64).collect::<Vec<_>>()).prop_shuffle()) {
            // The machine is there at even seconds, each time with another name.
            let mut view = View::default();
            for second in order {
                if second % 2 == 0 {
                    view.take_machine(machine("1", &format!("n{second}")), at(second));
                } else {
                    view.take_absence(&"1".into(), at(second));
                }
            }
            prop_assert!(view.get(&"1".into()).is_none());
            prop_assert_eq!(view.absent_as_of(&"1".into()), Some(at(5)));
        }
    }
}
