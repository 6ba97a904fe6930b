//! The planner in a loop with a platform on which requests come late or get lost, lists lack
//! machines, and the process forgets everything now and then.

use proptest::{collection::vec, prelude::*};
use sutler_api::infra::PowerState;
use sutler_provider::Error;

use super::*;

/// What happens, byte by byte; when all are used up, nothing goes wrong any more.
pub(super) fn fate() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..120)
}

/// A platform as it is, beside what the planner knows of it.
struct World {
    case: Case,
    machines: Vec<Machine>,
    /// Creates that have not had their effect yet: when they will, and for which incarnation.
    coming: Vec<(i64, u32)>,
    fate: std::vec::IntoIter<u8>,
    made: u32,
    deletes_left: u32,
}

/// Lives through a fate and the calm that follows: one machine or none, at every moment.
pub(super) fn live(fate: Vec<u8>) -> Result<(), String> {
    let mut world = World {
        case: Case::new().at(0),
        machines: Vec::new(),
        coming: Vec::new(),
        fate: fate.into_iter(),
        made: 0,
        deletes_left: 1,
    };
    // What is asked for twice must show: nothing is refused for being there.
    world.case.capabilities.unique_by = UniqueBy::None;
    for _ in 0..400 {
        if world.step()? {
            return Ok(());
        }
    }
    let plan = world.case.plan();
    match plan.report.ready && world.machines.len() == 1 {
        true => Ok(()),
        false => Err(format!("it never settled: {plan:#?}")),
    }
}

impl World {
    /// One of this many ways; the first once everything is calm.
    fn way(&mut self, ways: u8) -> u8 {
        self.fate.next().map_or(0, |byte| byte % ways)
    }

    /// One plan, carried out. True says that the record is gone.
    fn step(&mut self) -> Result<bool, String> {
        self.happen();
        let plan = self.case.plan();
        super::properties::obeyed(&self.case)?;
        self.note(&plan);
        match plan.step {
            // Lists go on meanwhile.
            Step::Rest => {
                self.case.now += 30;
                self.case.sights.push(Sight::Whole(self.machines.clone(), self.case.now));
            }
            Step::Wait(until) => self.case.now = seconds(until).max(self.case.now + 1),
            Step::Look(since) | Step::LookUntil(since, _) => self.look(seconds(since)),
            Step::Create { incarnation } => self.create(incarnation)?,
            Step::Describe(id) => self.describe(&id),
            Step::Power(id, _) => {
                let machine = self.machines.iter_mut().find(|machine| machine.id == id);
                let sight = match machine {
                    Some(machine) => {
                        machine.power = Power::On;
                        Sight::One(machine.clone(), self.case.now)
                    }
                    // The call is refused, and the machine looked at.
                    None => Sight::Gone(id, self.case.now),
                };
                self.case.sights.push(sight);
            }
            Step::Delete(id, _) => self.delete(&id),
            Step::Forget(ForgetWhy::Gone | ForgetWhy::NeverAsked) => {
                return match (self.machines.is_empty(), self.coming.is_empty()) {
                    (true, true) => Ok(true),
                    left => Err(format!("off the books too early: {left:?}")),
                };
            }
            other => return Err(format!("nobody expects {other:?} here")),
        }
        Ok(false)
    }

    /// What happens besides.
    fn happen(&mut self) {
        self.case.now += 1;
        // A whole list says all that an older one said; what is seen again and again is not kept.
        let whole = |sight: &Sight| matches!(sight, Sight::Whole(..));
        let mut wholes = self.case.sights.iter().enumerate().rev().filter(|(_, s)| whole(s));
        if let Some((older, _)) = wholes.nth(1) {
            self.case.sights.drain(..older);
        }
        match self.way(20) {
            1 => self.case.memory = Memory::default(),
            2 if self.deletes_left > 0 && self.case.record.intent.is_some() => {
                self.deletes_left -= 1;
                self.case.record.deleting = true;
            }
            3 => self.machines.clear(),
            _ => {}
        }
        let (now, mut due) = (self.case.now, std::mem::take(&mut self.coming));
        due.retain(|(when, incarnation)| {
            let here = *when <= now;
            if here {
                self.make(*incarnation);
            }
            !here
        });
        self.coming = due;
        if self.case.record.id.is_some() && self.case.memory.id_since.is_none() {
            self.case.memory.id_since = Some(at(now));
        }
    }

    fn make(&mut self, incarnation: u32) -> MachineId {
        self.made += 1;
        let id = MachineId(format!("m-{}", self.made));
        let created_at = Some(at(self.case.now));
        self.machines.push(Machine {
            id: id.clone(),
            created_at,
            power: Power::Off,
            ..ours(incarnation)
        });
        id
    }

    fn create(&mut self, incarnation: u32) -> Result<(), String> {
        if !self.machines.is_empty() || !self.coming.is_empty() {
            let there: Vec<_> = self.machines.iter().map(|machine| &machine.id).collect();
            return Err(format!("a second create: there {there:?}, coming {:?}", self.coming));
        }
        let now = self.case.now;
        let token = Token::new(UID, incarnation);
        let record = &mut self.case.record;
        let first = record.intent.as_ref().filter(|intent| intent.token == token);
        let first_requested_at = first.map_or(at(now), |intent| intent.first_requested_at);
        if first.is_none() {
            record.id = None;
            record.provisioned = false;
        }
        record.intent = Some(Intent { token, first_requested_at, requested_at: at(now) });
        record.finalizer = true;
        record.platform_name = Some(NAME.to_owned());
        let memory = &mut self.case.memory;
        *memory = Memory { failures: std::mem::take(&mut memory.failures), ..Memory::default() };
        let outcome = match self.way(7) {
            0 => {
                let id = Some(self.make(incarnation));
                self.case.memory.succeed("create");
                self.case.memory.id_since = Some(at(now));
                Outcome::Accepted { id, task: None, at: at(now) }
            }
            1 => {
                self.make(incarnation);
                Outcome::Unknown
            }
            // It waits to be sent, and takes its time.
            2 => {
                let late = i64::from(self.way(u8::try_from(SETTLED).unwrap_or(u8::MAX)));
                self.coming.push((now + late, incarnation));
                Outcome::Unknown
            }
            3 => Outcome::Unknown,
            4 => {
                let error = Error::unavailable("away");
                self.case.memory.fail("create", error.clone(), "d", at(now));
                Outcome::Refused(error)
            }
            5 => {
                let error = Error::new(ErrorKind::Failed, "broken");
                Outcome::TaskFailed { error, at: at(now) }
            }
            _ => {
                self.case.memory = Memory::default();
                return Ok(());
            }
        };
        let attempt = Attempt { requested_at: at(now), outcome };
        self.case.memory.attempt = Some(attempt);
        Ok(())
    }

    fn look(&mut self, since: i64) {
        match self.way(4) {
            0 => {
                self.case.now = self.case.now.max(since + 1);
                self.happen();
                let sight = Sight::Whole(self.machines.clone(), self.case.now);
                self.case.sights.push(sight);
            }
            1 => self.case.sights.push(Sight::Whole(self.machines.clone(), self.case.now)),
            2 => self.case.sights.push(Sight::Part(Vec::new(), self.case.now)),
            _ => {}
        }
        self.case.now += 1;
    }

    fn describe(&mut self, id: &MachineId) {
        let now = self.case.now;
        if self.way(4) == 1 {
            self.case.memory.fail("describe", Error::unavailable("away"), id.as_ref(), at(now));
            return;
        }
        self.case.memory.succeed("describe");
        self.case.memory.described_at = Some(at(now));
        let sight = match self.machines.iter().find(|machine| machine.id == *id) {
            Some(machine) => Sight::One(machine.clone(), now),
            None => Sight::Gone(id.clone(), now),
        };
        self.case.sights.push(sight);
    }

    fn delete(&mut self, id: &MachineId) {
        let (now, way) = (self.case.now, self.way(3));
        if way != 2 {
            self.machines.retain(|machine| machine.id != *id);
        }
        match way {
            1 => {
                let error = Error::indeterminate("no answer");
                self.case.memory.fail("delete", error, id.as_ref(), at(now));
            }
            _ => {
                let accepted = Accepted { at: at(now), task: None, digest: id.0.clone() };
                self.case.memory.accepted.insert("delete", accepted);
            }
        }
    }

    /// What is written down of what was seen.
    fn note(&mut self, plan: &Plan) {
        let Some(seen) = &plan.report.machine else { return };
        let record = &mut self.case.record;
        record.id = Some(seen.machine.id.clone());
        record.created_at = seen.machine.created_at;
        record.has_address = true;
        record.power = Some(PowerState::On);
        record.provisioned |= plan.report.ready;
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.as_second() - 1_000_000
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]
    #[test]
    fn one_machine_or_none_whatever_happens(fate in fate()) {
        prop_assert_eq!(live(fate), Ok(()));
    }
}
