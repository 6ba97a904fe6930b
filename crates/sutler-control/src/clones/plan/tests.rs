//! One request is one copy, whatever crashes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What happens at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    /// The process dies before it is done.
    CrashBefore,
    /// It is done, and the process dies before it knows.
    CrashAfter,
    /// The copy's record fails meanwhile.
    Fails,
    /// The VMClone is deleted meanwhile.
    Deleted,
}

const FATES: [Fate; 5] =
    [Fate::Done, Fate::CrashBefore, Fate::CrashAfter, Fate::Fails, Fate::Deleted];

struct World {
    record: Record,
    /// Records that carry the mark of the VMClone, by name.
    machines: BTreeMap<String, Copy>,
    number: u32,
    most: usize,
    now: Timestamp,
    forgotten: bool,
    trouble: bool,
}

impl World {
    fn new() -> Self {
        let retry = Retry { most: 2, pause: Duration::from_secs(60), factor: 2 };
        Self {
            record: Record {
                target: "copy".to_owned(),
                timeout: Duration::from_secs(1800),
                retry,
                ..Record::default()
            },
            machines: BTreeMap::new(),
            number: 0,
            most: 0,
            now: Timestamp::from_second(1_000).unwrap(),
            forgotten: false,
            trouble: true,
        }
    }

    fn target(&self) -> Target {
        self.machines.get("copy").map_or(Target::Absent, |copy| Target::Ours(copy.clone()))
    }

    fn plan(&self) -> Plan {
        let target = self.target();
        plan(&Inputs { record: &self.record, wish: Ok(()), target: &target, now: self.now })
    }

    fn step(&mut self, fate: Fate) {
        self.now = later(self.now, Duration::from_secs(1));
        if fate == Fate::Deleted && self.record.finalizer {
            self.record.deleting = true;
        }
        // What the machines' own controller does.
        let gone: Vec<String> = self
            .machines
            .iter()
            .filter(|(_, copy)| copy.deleting)
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.machines.remove(&name);
        }
        for copy in self.machines.values_mut() {
            match fate {
                Fate::Fails if !copy.ready => {
                    copy.stalled = Some(("Failed".to_owned(), String::new()));
                }
                Fate::Done if copy.stalled.is_none() => copy.ready = true,
                _ => {}
            }
        }
        let Plan { step, report } = self.plan();
        if fate == Fate::CrashBefore {
            return;
        }
        match step {
            Step::Rest => {}
            Step::Wait(at) if !self.trouble => self.now = self.now.max(at),
            Step::Wait(_) => {}
            Step::Intend(intent) => {
                self.record.intent = Some(intent);
                self.record.finalizer = true;
            }
            Step::Make(name) => {
                self.number += 1;
                let copy = Copy { uid: self.number.to_string(), ..Copy::default() };
                // The API has one record of a name.
                self.machines.entry(name).or_insert(copy);
            }
            Step::Release(uid) => {
                for copy in self.machines.values_mut().filter(|copy| copy.uid == uid) {
                    copy.released = true;
                }
            }
            Step::Undo(uid) => {
                for copy in self.machines.values_mut().filter(|copy| copy.uid == uid) {
                    copy.deleting = true;
                }
            }
            Step::Forget => self.forgotten = true,
        }
        self.most = self.most.max(self.machines.len());
        if fate == Fate::CrashAfter || self.record.deleting {
            return;
        }
        // What the status says.
        if matches!(self.target(), Target::Ours(_)) {
            self.record.seen = self.record.intent.map(|intent| intent.attempt);
        }
        self.record.done |= report.stage == Stage::Ready;
    }

    fn settle(&mut self) {
        self.trouble = false;
        for _ in 0..200 {
            self.step(Fate::Done);
        }
    }
}

fn run(fates: &[Fate]) -> World {
    let mut world = World::new();
    for fate in fates {
        world.step(*fate);
    }
    world.settle();
    world
}

fn check(fates: &[Fate]) -> Result<(), String> {
    let world = run(fates);
    let left = world.machines.len();
    let released = world.machines.values().filter(|copy| copy.released).count();
    let report = world.plan().report;
    let fine = match (world.record.deleting, world.record.done) {
        // Deleted on the way: all or nothing.
        (true, false) => world.forgotten && left == released,
        (true, true) => world.forgotten && left == 1,
        (false, true) => left == 1 && released == 1,
        // Out of tries: what failed is left for a person to look at.
        (false, false) => left == 1 && report.stage == Stage::Failed,
    };
    match fine && world.most <= 1 {
        true => Ok(()),
        false => Err(format!("{fates:?}: {left} left, {} at once, {report:?}", world.most)),
    }
}

fn table() -> Vec<Vec<Fate>> {
    let mut all = Vec::new();
    for steps in 0..5 {
        for first in FATES {
            for second in FATES {
                for third in FATES {
                    let mut fates = vec![Fate::Done; steps];
                    fates.extend([first, second, third]);
                    all.push(fates);
                }
            }
        }
    }
    all
}

#[test]
fn one_request_is_one_copy_whatever_crashes() {
    for fates in table() {
        check(&fates).unwrap();
    }
}

proptest! {
    #[test]
    fn no_row_of_mishaps_makes_two(
        fates in prop::collection::vec(prop::sample::select(FATES.to_vec()), 0..40),
    ) {
        prop_assert_eq!(check(&fates), Ok(()));
    }
}

#[test]
fn a_failed_try_is_repeated_as_often_as_was_said() {
    let world = run(&[Fate::Done, Fate::Done, Fate::Fails, Fate::Done, Fate::Done]);
    assert_eq!(world.record.intent.map(|intent| intent.attempt), Some(2));
    assert!(world.record.done);
    let retry = Retry { most: 9, pause: Duration::from_secs(300), factor: 2 };
    assert_eq!(retry.after(1), Duration::from_secs(300));
    assert_eq!(retry.after(3), Duration::from_secs(1200));
}

#[test]
fn a_record_that_a_person_deleted_is_not_made_again() {
    let mut world = World::new();
    for _ in 0..2 {
        world.step(Fate::Done);
    }
    assert_eq!(world.record.seen, Some(1));
    world.machines.clear();
    assert_eq!(world.plan().report.reason, reasons::LOST);
    assert_eq!(world.plan().step, Step::Rest);
}

#[test]
fn a_name_that_is_taken_is_not_touched() {
    let world = World::new();
    let inputs =
        Inputs { record: &world.record, wish: Ok(()), target: &Target::Theirs, now: world.now };
    assert_eq!(plan(&inputs).report.reason, reasons::CONFLICT);
    assert_eq!(plan(&inputs).step, Step::Rest);
}

/// The table notices a request that is carried out twice.
#[cfg(feature = "mutations")]
#[test]
fn a_broken_rule_shows() {
    use crate::rules::break_rule;
    break_rule(Some(Rule::OneCopyOfARequest));
    let caught = table().iter().any(|fates| check(fates).is_err());
    break_rule(None);
    assert!(caught);
}
