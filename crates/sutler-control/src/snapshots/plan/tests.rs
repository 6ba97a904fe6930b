//! A snapshot is taken once, whatever crashes and whatever the platform answers.

use std::sync::Arc;

use jiff::ToSpan as _;
use proptest::prelude::*;
use sutler_provider::{Error, Machine, Power};

use super::*;

/// What happens to the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is done and answered.
    Done,
    /// A task does it, which ends well.
    Task,
    /// It is done and the answer is lost.
    AnswerLost,
    /// It is done after half of its time, and the answer is lost.
    Late,
    /// It is never done, and nobody says so.
    Lost,
    /// It is refused.
    Refused,
    /// The process dies before it is sent.
    CrashBefore,
    /// It is done, and the process dies before the answer.
    CrashAfter,
}

const FATES: [Fate; 8] = [
    Fate::Done,
    Fate::Task,
    Fate::AnswerLost,
    Fate::Late,
    Fate::Lost,
    Fate::Refused,
    Fate::CrashBefore,
    Fate::CrashAfter,
];

/// A platform that does not mind two snapshots of one name.
struct World {
    record: Record,
    memory: Memory,
    snapshots: Vec<Snapshot>,
    number: u32,
    late: Vec<(Timestamp, String)>,
    seen_at: Option<Timestamp>,
    shown: Vec<Snapshot>,
    /// A list that leaves snapshots out comes all the time.
    terse: bool,
    now: Timestamp,
    made: u32,
    forgotten: bool,
}

fn token() -> Token {
    Token::new("vm", 1)
}

impl World {
    fn new() -> Self {
        Self {
            record: Record { finalizer: false, ..Record::default() },
            memory: Memory::default(),
            snapshots: Vec::new(),
            number: 0,
            late: Vec::new(),
            seen_at: None,
            shown: Vec::new(),
            terse: false,
            now: Timestamp::from_second(1_000_000).unwrap(),
            made: 0,
            forgotten: false,
        }
    }

    fn take(&mut self, name: &str) -> SnapshotId {
        self.number += 1;
        self.made += 1;
        let id = SnapshotId(format!("s{}", self.number));
        self.snapshots.push(Snapshot {
            id: id.clone(),
            name: name.to_owned(),
            created_at: Some(self.now),
            description: None,
            size_bytes: None,
            memory: false,
        });
        id
    }

    fn crash(&mut self) {
        self.memory = Memory::default();
        self.seen_at = None;
    }

    fn pass(&mut self, seconds: i64) {
        self.now += seconds.seconds();
        let (due, later) = self.late.drain(..).partition(|(at, _)| *at <= self.now);
        self.late = later;
        let due: Vec<(Timestamp, String)> = due;
        for (_, name) in due {
            self.take(&name);
        }
    }

    fn seen(&self) -> Option<Seen> {
        let mut view = sutler_provider::View::default();
        let mut machine = Machine::new("m1", "vm-abcde", Power::On);
        machine.token = Some(token());
        if let Some(at) = self.seen_at {
            view.take_machine(
                Machine { snapshots: Some(self.shown.clone()), ..machine.clone() },
                at,
            );
        }
        if self.terse {
            view.take_notice(machine, self.now);
        }
        view.get(&"m1".into()).cloned()
    }

    fn plan(&self) -> Plan {
        let home = Home::Here {
            id: "m1".into(),
            token: token(),
            seen: self.seen(),
            capabilities: Arc::new(Capabilities::default()),
        };
        let wish = Wish {
            name: "nightly-abcde".to_owned(),
            exact: false,
            description: None,
            memory: false,
            quiesce: true,
            config: "c".to_owned(),
        };
        plan(&Inputs {
            record: &self.record,
            wish: Ok(&wish),
            home: &home,
            memory: &self.memory,
            now: self.now,
        })
    }

    /// Carries one step out.
    fn step(&mut self, fate: Fate) {
        let Plan { step, report } = self.plan();
        if let Some(found) = &report.found {
            self.record.id = Some(found.id.clone());
        }
        match step {
            Step::Rest => self.pass(1),
            Step::Wait(at) => {
                let pause = at.duration_since(self.now).as_secs().clamp(1, 60);
                self.pass(pause);
            }
            Step::Intend(_) if fate == Fate::CrashBefore => self.crash(),
            Step::Intend(intent) => {
                self.memory.announced = Some(intent.requested_at);
                self.record.intent = Some(intent);
                self.record.finalizer = true;
                if fate == Fate::CrashAfter {
                    self.crash();
                }
            }
            Step::Take(intent) => self.send(&intent, fate),
            Step::Describe(_) => {
                self.pass(1);
                self.seen_at = Some(self.now);
                self.shown = self.snapshots.clone();
                self.memory.described_at = Some(self.now);
            }
            Step::Task(task) => {
                self.pass(1);
                self.memory.polled_at = Some(self.now);
                let at = self.now;
                if let Some((_, Outcome::Accepted { task: running, at: since, .. })) =
                    &mut self.memory.attempt
                    && running.as_ref() == Some(&task)
                {
                    *running = None;
                    *since = at;
                }
                self.memory.lost_task = Some(task);
            }
            Step::Delete(_, id) => {
                if !matches!(fate, Fate::CrashBefore | Fate::Lost | Fate::Refused) {
                    self.snapshots.retain(|snapshot| snapshot.id != id);
                }
                match fate {
                    Fate::CrashBefore | Fate::CrashAfter => self.crash(),
                    Fate::Refused | Fate::Lost | Fate::AnswerLost | Fate::Late => {
                        let error = Error::indeterminate("no answer");
                        self.memory.fail("delete", error, id.as_ref(), self.now);
                    }
                    Fate::Done | Fate::Task => {
                        self.memory.deleted = Some(Accepted { id, at: self.now, task: None });
                    }
                }
            }
            Step::Forget => self.forgotten = true,
        }
    }

    fn send(&mut self, intent: &Intent, fate: Fate) {
        self.memory.announced = None;
        let outcome = match fate {
            Fate::CrashBefore => return self.crash(),
            Fate::CrashAfter => {
                self.take(&intent.name);
                return self.crash();
            }
            Fate::Done => {
                let id = Some(self.take(&intent.name));
                Outcome::Accepted { id, task: None, at: self.now }
            }
            Fate::Task => {
                self.take(&intent.name);
                let task = TaskId("t".to_owned());
                self.record.task = Some(task.clone());
                Outcome::Accepted { id: None, task: Some(task), at: self.now }
            }
            Fate::AnswerLost => {
                self.take(&intent.name);
                Outcome::Unknown
            }
            Fate::Late => {
                self.late.push((self.now + 150.seconds(), intent.name.clone()));
                Outcome::Unknown
            }
            Fate::Lost => Outcome::Unknown,
            Fate::Refused => {
                let error = Error::unavailable("busy");
                self.memory.fail("take", error, &intent.config, self.now);
                Outcome::Refused
            }
        };
        self.memory.attempt = Some((intent.requested_at, outcome));
    }

    /// Lets it go on without trouble until it rests.
    fn settle(&mut self) {
        for _ in 0..2000 {
            if self.forgotten || self.plan().step == Step::Rest && self.late.is_empty() {
                break;
            }
            self.step(Fate::Done);
        }
        // What was found in the last step is written down.
        self.step(Fate::Done);
    }
}

/// The most snapshots that were there at any time after these fates, and in the end.
fn run(fates: &[Fate], delete: bool, terse: bool) -> (usize, World) {
    let mut world = World { terse, ..World::new() };
    let mut most = 0;
    for fate in fates {
        world.step(*fate);
        most = most.max(world.snapshots.len());
    }
    world.record.deleting = delete;
    // What nobody holds back is gone at once.
    world.forgotten = delete && !world.record.finalizer;
    world.settle();
    (most.max(world.snapshots.len()), world)
}

/// Every crash and every answer at every one of the first steps.
fn table() -> Vec<Vec<Fate>> {
    let mut all = Vec::new();
    for first in FATES {
        for second in FATES {
            for third in FATES {
                for steps in 0..3 {
                    let mut fates = vec![Fate::Done; steps];
                    fates.extend([first, second, third]);
                    all.push(fates);
                }
            }
        }
    }
    all
}

fn check(fates: &[Fate], terse: bool) -> Result<(), String> {
    let (most, world) = run(fates, false, terse);
    let ready = world.plan().report.ready;
    match most == 1 && world.made == 1 && ready && world.record.id.is_some() {
        true => Ok(()),
        false => Err(format!(
            "{fates:?}, {terse}: {most} at once, {} in all, {:?}",
            world.made,
            world.plan()
        )),
    }
}

#[test]
fn one_snapshot_is_taken_whatever_crashes() {
    for fates in table() {
        check(&fates, false).unwrap();
        check(&fates, true).unwrap();
    }
}

#[test]
fn nothing_is_left_of_one_that_is_deleted_on_the_way() {
    for fates in table() {
        for terse in [false, true] {
            let (most, world) = run(&fates, true, terse);
            let clean = world.forgotten && world.snapshots.is_empty();
            assert!(most <= 1 && clean, "{fates:?}, {terse}");
        }
    }
}

proptest! {
    #[test]
    fn no_row_of_mishaps_makes_two(
        fates in prop::collection::vec(prop::sample::select(FATES.to_vec()), 0..40),
        delete in any::<bool>(),
        terse in any::<bool>(),
    ) {
        let (most, world) = run(&fates, delete, terse);
        prop_assert!(most <= 1, "{} at once", most);
        if delete {
            prop_assert!(world.forgotten && world.snapshots.is_empty());
        } else {
            prop_assert_eq!(world.snapshots.len(), 1);
            prop_assert!(world.plan().report.ready);
        }
    }
}

#[test]
fn one_that_somebody_deleted_is_not_taken_again() {
    let (_, mut world) = run(&[], false, false);
    world.snapshots.clear();
    world.shown.clear();
    // As long as the look may be from before it was taken, nothing is made of it.
    world.seen_at = Some(world.now);
    assert!(world.plan().report.ready);
    world.now += 3600.seconds();
    world.seen_at = Some(world.now);
    let plan = world.plan();
    assert_eq!(plan.step, Step::Rest);
    assert_eq!((plan.report.reason.as_str(), plan.report.stalled), (reasons::LOST, true));
}

#[test]
fn a_name_that_is_taken_is_not_touched() {
    let mut world = World::new();
    world.take("mine");
    world.shown = world.snapshots.clone();
    world.seen_at = Some(world.now);
    let wish = Wish {
        name: "mine".to_owned(),
        exact: true,
        description: None,
        memory: false,
        quiesce: true,
        config: "c".to_owned(),
    };
    let mut machine = Machine::new("m1", "vm", Power::On);
    machine.snapshots = Some(world.shown.clone());
    let seen = Seen::looked_at(machine, world.now);
    let home = Home::Here {
        id: "m1".into(),
        token: token(),
        seen: Some(seen),
        capabilities: Arc::new(Capabilities::default()),
    };
    let plan = plan(&Inputs {
        record: &world.record,
        wish: Ok(&wish),
        home: &home,
        memory: &world.memory,
        now: world.now,
    });
    assert_eq!((plan.step, plan.report.reason.as_str()), (Step::Rest, reasons::CONFLICT));
}

/// The table notices a rule that is broken.
#[cfg(feature = "mutations")]
#[test]
fn broken_rules_show() {
    use crate::rules::{Rule, break_rule};
    for rule in [Rule::SnapshotIntentFirst, Rule::LookBeforeSnapshot] {
        break_rule(Some(rule));
        let caught = table().iter().any(|fates| check(fates, false).is_err());
        break_rule(None);
        assert!(caught, "{rule:?}");
    }
}
