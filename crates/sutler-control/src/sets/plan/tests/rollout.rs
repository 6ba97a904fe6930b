//! Whole updates of a set whose machines fail, whose controller crashes, and whose view is behind.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::at;

/// What really is there.
#[derive(Debug, Clone)]
struct Machine {
    member: Member,
    /// Whether it failed by itself.
    failed: bool,
}

/// A set, its machines, and a controller that sees them late.
struct World {
    wanted: Wanted,
    truth: BTreeMap<u32, Machine>,
    /// What the controller sees: the truth of some time ago, of each machine another time.
    view: BTreeMap<u32, Machine>,
    /// What is on the set's record.
    replacing: Replacing,
    uids: u32,
    now: i64,
}

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The controller looks and acts; it crashes after this many of its acts.
    Act(usize),
    /// The view catches up on the machine with this number.
    See(u32),
    /// The view catches up, or the controller starts anew and lists everything.
    SeeAll,
    /// A machine that is coming becomes ready.
    Ready(u32),
    /// A machine fails by itself.
    Fail(u32),
    /// It recovers.
    Recover(u32),
    /// A record that is being deleted goes.
    Gone(u32),
    /// Somebody wants another template.
    Template,
    /// Somebody wants another number.
    Scale(u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0usize..12).prop_map(Event::Act),
        3 => (0u32..130).prop_map(Event::See),
        2 => Just(Event::SeeAll),
        6 => (0u32..130).prop_map(Event::Ready),
        1 => (0u32..130).prop_map(Event::Fail),
        1 => (0u32..130).prop_map(Event::Recover),
        6 => (0u32..130).prop_map(Event::Gone),
        1 => Just(Event::Template),
        1 => (1u32..110).prop_map(Event::Scale),
    ]
}

impl World {
    fn new(replicas: u32, max_unavailable: u32, max_surge: u32, ordered: bool) -> Self {
        let update = Update::Rolling { max_unavailable, max_surge, partition: 0 };
        let mut wanted = super::wanted(replicas, update);
        wanted.ordered = ordered;
        let mut world = Self {
            wanted,
            truth: BTreeMap::new(),
            view: BTreeMap::new(),
            replacing: Replacing::new(),
            uids: 0,
            now: 1,
        };
        for number in 0..replicas {
            world.make(number, "old");
            world.ready(number);
        }
        world.view = world.truth.clone();
        world
    }

    fn make(&mut self, number: u32, revision: &str) {
        // A name is given once: the API refuses a second record of it.
        if self.truth.contains_key(&number) {
            return;
        }
        self.uids += 1;
        let member = Member {
            uid: format!("u{}", self.uids),
            revision: Some(revision.to_owned()),
            state: State::Coming,
        };
        self.truth.insert(number, Machine { member, failed: false });
    }

    fn ready(&mut self, number: u32) {
        let now = at(self.now);
        if let Some(machine) = self.truth.get_mut(&number)
            && machine.member.state == State::Coming
        {
            machine.member.state = State::Ready(now);
        }
    }

    fn available(&self) -> usize {
        let ready = |machine: &&Machine| matches!(machine.member.state, State::Ready(_));
        self.truth.values().filter(ready).count()
    }

    /// Machines that failed and that the controller takes for well.
    fn unseen_failures(&self) -> usize {
        let unseen = |(number, machine): &(&u32, &Machine)| {
            let taken_for_well = |shown: &Machine| {
                shown.member.uid == machine.member.uid
                    && matches!(shown.member.state, State::Ready(_))
            };
            machine.failed && self.view.get(number).is_some_and(taken_for_well)
        };
        self.truth.iter().filter(unseen).count()
    }

    fn members(&self) -> Members {
        self.view.iter().map(|(number, machine)| (*number, machine.member.clone())).collect()
    }

    /// One look of the controller, which may end after some of its acts.
    fn act(&mut self, acts: usize) -> Result<(), String> {
        let mut next = plan(&self.wanted, &self.members(), &self.replacing, at(self.now));
        for (number, uid) in &next.unsent {
            let there = self.truth.get(number).filter(|machine| machine.member.uid == *uid);
            if there.is_some_and(|machine| machine.member.state != State::Leaving) {
                next.replacing.remove(number);
            }
        }
        // The record is written first, over the version that was planned on.
        self.replacing = next.replacing;
        let mut left = acts;
        for (number, revision) in next.create {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            if number >= self.wanted.surge_end() {
                return Err(format!("machine {number} is more than there may be"));
            }
            self.make(number, &revision);
        }
        for (number, uid, why) in next.remove {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            self.remove(number, &uid, why)?;
        }
        Ok(())
    }

    fn remove(&mut self, number: u32, uid: &str, why: Why) -> Result<(), String> {
        let (unseen, available) = (self.unseen_failures(), self.available());
        let Some(machine) = self.truth.get_mut(&number) else { return Ok(()) };
        // The removal names the UID, and of one that serves nobody the version that was seen.
        let as_seen = self.view.get(&number).is_some_and(|seen| seen.member == machine.member);
        if machine.member.uid != uid || (why == Why::Useless && !as_seen) {
            return Ok(());
        }
        let served = matches!(machine.member.state, State::Ready(_));
        machine.member.state = State::Leaving;
        // Stand-ins that nobody needs go because they are too many, and somebody asked for that.
        let stands_in = number >= self.wanted.end();
        let over = self.replacing.range(..self.wanted.end()).next().is_none();
        if !served || why == Why::Scale || (stands_in && over) {
            return Ok(());
        }
        let Update::Rolling { max_unavailable, .. } = self.wanted.update else { return Ok(()) };
        let floor = self.wanted.replicas.saturating_sub(max_unavailable) as usize;
        // What failed unseen is not the update's doing.
        match available - 1 + unseen < floor {
            true => {
                let left = available - 1;
                Err(format!("{left} are available after the removal of {number}, of {floor}"))
            }
            false => Ok(()),
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        self.now += 1;
        match event {
            Event::Act(acts) => self.act(acts)?,
            Event::See(number) => match self.truth.get(&number) {
                Some(machine) => {
                    self.view.insert(number, machine.clone());
                }
                None => {
                    self.view.remove(&number);
                }
            },
            Event::SeeAll => self.view = self.truth.clone(),
            Event::Ready(number) => self.ready(number),
            Event::Fail(number) => {
                if let Some(machine) = self.truth.get_mut(&number)
                    && machine.member.state != State::Leaving
                {
                    machine.member.state = State::Unsure;
                    machine.failed = true;
                }
            }
            Event::Recover(number) => {
                let now = at(self.now);
                if let Some(machine) = self.truth.get_mut(&number)
                    && machine.member.state == State::Unsure
                {
                    machine.member.state = State::Ready(now);
                    machine.failed = false;
                }
            }
            Event::Gone(number) => {
                if self.truth.get(&number).is_some_and(|m| m.member.state == State::Leaving) {
                    self.truth.remove(&number);
                }
            }
            Event::Template => self.wanted.revision = self.now.to_string(),
            Event::Scale(replicas) => self.wanted.replicas = replicas,
        }
        Ok(())
    }

    /// Everything that can happen by itself does, until nothing changes.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..2000 {
            self.happen(Event::SeeAll)?;
            self.act(usize::MAX)?;
            let numbers: Vec<u32> = self.truth.keys().copied().collect();
            for number in numbers {
                self.happen(Event::Gone(number))?;
                self.happen(Event::Ready(number))?;
                self.happen(Event::Recover(number))?;
            }
            self.happen(Event::SeeAll)?;
            let next = plan(&self.wanted, &self.members(), &self.replacing, at(self.now));
            if next.create.is_empty() && next.remove.is_empty() && next.unsent.is_empty() {
                return Ok(());
            }
        }
        Err("it never settles".to_owned())
    }
}

/// Plays the events on a set, lets it settle, and tells what went wrong.
fn play(mut world: World, events: &[Event]) -> Result<(), String> {
    for event in events {
        world.happen(*event)?;
    }
    world.settle()?;
    let all: Vec<u32> = world.truth.keys().copied().collect();
    let wanted: Vec<u32> = (0..world.wanted.replicas).collect();
    if all != wanted {
        return Err(format!("{all:?} are there in the end"));
    }
    let revision = &world.wanted.revision;
    match world.truth.values().all(|m| m.member.revision.as_ref() == Some(revision)) {
        true => Ok(()),
        false => Err("an old revision is left".to_owned()),
    }
}

/// The same event among few machines.
fn small(event: Event) -> Event {
    match event {
        Event::See(number) => Event::See(number % 12),
        Event::Ready(number) => Event::Ready(number % 12),
        Event::Fail(number) => Event::Fail(number % 12),
        Event::Recover(number) => Event::Recover(number % 12),
        Event::Gone(number) => Event::Gone(number % 12),
        Event::Scale(number) => Event::Scale(number % 9 + 1),
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Small sets, where everything happens to everybody.
    #[test]
    fn small_sets_keep_their_floor(
        replicas in 1u32..8,
        max_unavailable in 0u32..4,
        max_surge in 0u32..4,
        ordered: bool,
        events in prop::collection::vec(event(), 0..120),
    ) {
        let max_unavailable = if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable };
        let events: Vec<Event> = events.into_iter().map(small).collect();
        let world = World::new(replicas, max_unavailable, max_surge, ordered);
        if let Err(why) = play(world, &events) {
            prop_assert!(false, "{}", why);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    /// A hundred machines, some of which fail in the middle.
    #[test]
    fn a_hundred_machines_keep_their_floor(
        max_unavailable in 0u32..30,
        max_surge in 0u32..30,
        ordered: bool,
        events in prop::collection::vec(event(), 0..600),
    ) {
        let max_unavailable = if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable };
        let world = World::new(100, max_unavailable, max_surge, ordered);
        if let Err(why) = play(world, &events) {
            prop_assert!(false, "{}", why);
        }
    }
}

/// An update of up to twelve machines, each of which takes its time.
fn plain() -> Vec<Event> {
    let once = |_: u32| {
        (0..12)
            .flat_map(|number| [Event::Gone(number), Event::See(number), Event::Ready(number)])
            .chain([Event::Act(100)])
    };
    (0..12).flat_map(once).collect()
}

#[test]
fn a_plain_update_goes_through() {
    for (max_unavailable, max_surge, ordered) in [(1, 0, true), (0, 2, false), (3, 3, false)] {
        play(World::new(10, max_unavailable, max_surge, ordered), &plain()).unwrap();
    }
}

#[cfg(feature = "mutations")]
#[test]
fn broken_rules_are_noticed() {
    use crate::rules::break_rule;
    for rule in [Rule::SetNeverOvershoots, Rule::UpdateKeepsFloor] {
        break_rule(Some(rule));
        let noticed = play(World::new(10, 1, 0, false), &plain());
        break_rule(None);
        assert!(noticed.is_err(), "{rule:?} can be broken unnoticed");
    }
}
