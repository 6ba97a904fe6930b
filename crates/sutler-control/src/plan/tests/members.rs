//! Machines that their platform calls as it pleases: members of managed groups, and those that somebody
//! else asked for.

use sutler_api::names::reasons;
use sutler_provider::{Error, ErrorKind};

use super::*;

/// A record that waits for a member of its group, which it asked for at second 0.
fn waiting() -> Case {
    let case = Case::new().asked().without_tokens().can(|can| {
        can.returns_id = false;
        can.unique_by = UniqueBy::None;
    });
    let mut case = case.outcome(Outcome::Accepted { id: None, task: None, at: at(1) });
    case.hashed = false;
    case.record.group = Some("pool".to_owned());
    case.record.platform_name = Some("pool-0001".to_owned());
    case.desired.request.name = "pool-0001".to_owned();
    case
}

/// A member that was made at this second.
fn member(id: &str, made: i64) -> Machine {
    let mut machine = Machine::new(id, format!("worker-{id}"), Power::On);
    machine.group = Some("pool".to_owned());
    machine.created_at = Some(at(made));
    machine.ips = vec![format!("10.0.0.{id}")];
    machine
}

fn claims(case: &Case, id: &str) {
    assert_eq!(case.plan().step, Step::Claim(id.into()), "{:?}", case.plan().report);
}

fn keeps_looking(case: &Case) {
    let plan = case.plan();
    assert!(matches!(plan.step, Step::LookUntil(_, end) if end == at(300)), "{:?}", plan.step);
    assert_eq!(plan.report.reason, reasons::DISCOVERING);
}

#[test]
fn a_member_that_came_after_the_request_is_taken() {
    claims(&waiting().sees(Sight::Whole(vec![member("7", 20)], 50)), "7");
}

#[test]
fn one_that_was_there_before_is_somebody_elses() {
    keeps_looking(&waiting().sees(Sight::Whole(vec![member("7", -5)], 50)));
}

/// It may have been removed in the place of another that was to go.
#[test]
fn one_that_was_refused_because_of_a_conflict_is_looked_for_before_it_is_asked_for_again() {
    let refused = |kind| {
        let error = Error::new(kind, "no");
        let case = waiting().outcome(Outcome::Refused(error.clone())).at(90);
        case.memory(|memory| memory.fail("create", error, "d", at(30)))
    };
    let create = Step::Create { incarnation: 1 };
    let conflict = refused(ErrorKind::Conflict);
    let before = conflict.clone().sees(Sight::Whole(vec![], 30));
    assert_eq!(before.plan().step, Step::Look(at(30) + Duration::from_millis(1)));
    assert_eq!(conflict.clone().sees(Sight::Whole(vec![], 31)).plan().step, create);
    claims(&conflict.sees(Sight::Whole(vec![member("7", 20)], 31)), "7");
    let full = refused(ErrorKind::Exhausted).sees(Sight::Whole(vec![], 30));
    assert_eq!(full.plan().step, create);
}

#[test]
fn without_a_time_only_who_saw_everything_before_knows_what_is_new() {
    let untold = || Machine { created_at: None, ..member("7", 0) };
    // A process that began to look after the request cannot tell.
    keeps_looking(&waiting().sees(Sight::Whole(vec![untold()], 50)));
    let watched = waiting().sees(Sight::Whole(vec![], -10));
    claims(&watched.sees(Sight::Whole(vec![untold()], 50)), "7");
    let there = waiting().sees(Sight::Whole(vec![untold()], -10));
    keeps_looking(&there.sees(Sight::Whole(vec![untold()], 50)));
}

#[test]
fn what_was_last_seen_before_one_was_asked_for_may_be_gone() {
    let mut case = waiting();
    case.record.intent.as_mut().unwrap().requested_at = at(60);
    case.record.intent.as_mut().unwrap().first_requested_at = at(60);
    // Another has waited since then, and may have taken the one that came for this record.
    case.record.members_since = Some(at(0));
    let before = case.clone().sees(Sight::Whole(vec![member("7", 20)], 50));
    assert!(!matches!(before.plan().step, Step::Claim(_)), "{:?}", before.plan());
    claims(&case.clone().sees(Sight::Whole(vec![member("7", 20)], 70)), "7");
    // A list that lags is as of long ago, and what came since was there since.
    claims(&case.sees(Sight::Whole(vec![member("7", 65)], 50)), "7");
}

#[test]
fn those_who_wait_take_turns() {
    let mut second = waiting().sees(Sight::Whole(vec![member("7", 20), member("8", 30)], 50));
    second.ahead = vec![at(0)];
    claims(&second, "8");
    second.ahead = vec![at(0), at(0)];
    keeps_looking(&second);
}

#[test]
fn nobody_takes_a_member_that_only_another_can_have() {
    // The one ahead was asked for after the first member came: only the second can be its own.
    let mut early = waiting().sees(Sight::Whole(vec![member("7", 20), member("8", 30)], 50));
    early.ahead = vec![at(25)];
    claims(&early, "7");
    claims(&early.clone().deleting(), "7");
    let mut alone = waiting().sees(Sight::Whole(vec![member("8", 30)], 50));
    alone.ahead = vec![at(25)];
    keeps_looking(&alone);
    // Who goes comes after those who stay, whenever they were asked for.
    let mut late = waiting().sees(Sight::Whole(vec![member("7", 20), member("8", 30)], 50));
    late.ahead = vec![at(25), at(10)];
    keeps_looking(&late);
}

/// Somebody ahead who was refused may go without one.
#[test]
fn who_goes_without_a_member_waits_until_those_ahead_have_theirs() {
    let members = vec![member("7", 20)];
    let mut last = waiting().deleting().sees(Sight::Whole(members, 400)).at(401);
    last.ahead = vec![at(0)];
    assert!(matches!(last.plan().step, Step::Look(_)), "{:?}", last.plan());
    // What came before it was asked for is not waited for.
    last.sights = vec![Sight::Whole(vec![member("7", -20)], 400)];
    last.ahead = vec![at(-30)];
    assert_eq!(last.plan().step, Step::Forget(ForgetWhy::Gone));
    last.sights = vec![Sight::Whole(vec![], 400)];
    assert_eq!(last.plan().step, Step::Forget(ForgetWhy::Gone));
}

#[test]
fn a_member_that_another_has_or_that_is_off_or_of_another_group_is_left_alone() {
    let mut taken = waiting().sees(Sight::Whole(vec![member("7", 20)], 50));
    taken.rival = true;
    keeps_looking(&taken);
    let off = Machine { power: Power::Off, ..member("7", 20) };
    keeps_looking(&waiting().sees(Sight::Whole(vec![off], 50)));
    let other = Machine { group: Some("pool-2".to_owned()), ..member("7", 20) };
    keeps_looking(&waiting().sees(Sight::Whole(vec![other], 50)));
}

#[test]
fn a_name_comes_before_an_address_and_an_address_before_any_member() {
    let named = Machine { name: "pool-0001-k8s".to_owned(), ..member("9", 30) };
    let all = vec![member("7", 20), member("8", 30), named];
    let mut case = waiting().sees(Sight::Whole(all, 50));
    case.record.addresses = vec!["10.0.0.8".to_owned()];
    claims(&case, "9");
    let all = vec![member("7", 20), member("8", 30), member("9", 30)];
    let mut case = waiting().sees(Sight::Whole(all, 50));
    case.record.addresses = vec!["10.0.0.9".to_owned()];
    case.ahead = vec![at(0)];
    claims(&case, "9");
    // One that nobody else who waits may take is not passed over: it would be nobody's.
    case.ahead = vec![];
    claims(&case, "7");
    case.ahead = vec![at(30)];
    claims(&case, "7");
    // What has the address but was there before is somebody else's.
    let mut case = waiting().sees(Sight::Whole(vec![member("8", -30)], 50));
    case.record.addresses = vec!["10.0.0.8".to_owned()];
    keeps_looking(&case);
}

#[test]
fn a_member_keeps_its_own_name_and_stays_ours() {
    let mut case = waiting().sees(Sight::Whole(vec![member("7", 20)], 50));
    case.record.id = Some("7".into());
    case.record.machine_name = Some("worker-7".to_owned());
    case.record.created_at = Some(at(20));
    case.record.provisioned = true;
    let plan = case.plan();
    assert!(plan.report.ready, "{:?}", plan.report);
    // Another that was given its ID is not.
    case.sights = vec![Sight::Whole(vec![member("7", 90)], 95)];
    assert!(!case.plan().report.ready);
}

#[test]
fn one_that_comes_after_its_record_was_deleted_is_claimed_and_removed() {
    let case = waiting().deleting().sees(Sight::Whole(vec![member("7", 20)], 50));
    claims(&case, "7");
    let mut known = case;
    known.record.id = Some("7".into());
    known.record.machine_name = Some("worker-7".to_owned());
    known.record.created_at = Some(at(20));
    assert_eq!(known.plan().step, Step::Delete("7".into(), DeleteWhy::Goal));
    // Nothing came: it is waited for until its time is over.
    let none = waiting().deleting().sees(Sight::Whole(vec![], 50));
    assert!(matches!(none.plan().step, Step::Look(_)));
    let over = waiting().deleting().sees(Sight::Whole(vec![], 301)).at(302);
    assert_eq!(over.plan().step, Step::Forget(ForgetWhy::Gone));
}

#[test]
fn one_that_goes_takes_the_same_after_a_list_that_is_not_complete() {
    let both = vec![member("7", 20), member("8", 21)];
    let case = waiting().deleting().sees(Sight::Whole(both, 50));
    claims(&case, "7");
    claims(&case.clone().sees(Sight::Part(vec![member("7", 20)], 60)), "7");
    // What only such a list has shown is left alone.
    let new = waiting().deleting().sees(Sight::Whole(vec![], 50));
    let new = new.sees(Sight::Part(vec![member("7", 20)], 60));
    assert!(!matches!(new.plan().step, Step::Claim(_)), "{:?}", new.plan());
}

#[test]
fn what_came_after_its_time_is_taken_all_the_same() {
    let late = waiting().at(1000).sees(Sight::Whole(vec![], 990));
    assert_eq!(late.plan().report.reason, reasons::DISCOVERY_TIMEOUT);
    assert_eq!(late.plan().report.phase, sutler_api::infra::VirtualMachinePhase::Failed);
    claims(&late.sees(Sight::Whole(vec![member("7", 980)], 999)), "7");
}

#[test]
fn d7_a_list_that_hangs_is_told_of_and_does_not_hold_up_the_clock_of_discovery() {
    let mut case = waiting();
    case.list_error = Some(Error::unavailable("list was not answered in time"));
    keeps_looking(&case);
    let message = case.plan().report.message;
    assert!(message.contains("list was not answered in time"), "{message}");
    let late = case.at(300).plan().report;
    assert_eq!((late.reason.as_str(), late.stalled), (reasons::DISCOVERY_TIMEOUT, true));
    assert!(late.message.contains("list was not answered in time"), "{}", late.message);
}

#[test]
fn no_discoverer_set_waits_until_the_time_is_over() {
    let blind = waiting().can(|can| can.list = false);
    let plan = blind.plan();
    assert_eq!((plan.step, plan.report.reason.as_str()), (Step::Wait(at(300)), "Discovering"));
    assert!(plan.report.message.contains("cannot list"), "{}", plan.report.message);
    assert_eq!(blind.at(300).plan().report.reason, reasons::DISCOVERY_TIMEOUT);
}

#[test]
fn of_several_that_are_called_alike_the_newest_that_runs_is_taken() {
    let named = |id: &str, made, power| {
        let name = format!("pool-0001-{id}");
        Machine { name, power, group: None, ..member(id, made) }
    };
    let machines = vec![
        named("7", 20, Power::On),
        named("8", 40, Power::On),
        named("9", 60, Power::Off),
        named("6", 30, Power::On),
    ];
    claims(&waiting().sees(Sight::Whole(machines, 70)), "8");
}

#[test]
fn a_task_that_goes_on_does_not_hold_up_the_clock_of_discovery() {
    let task = Some(TaskId("t".to_owned()));
    let case = || waiting().outcome(Outcome::Accepted { id: None, task: task.clone(), at: at(1) });
    assert_eq!(case().plan().step, Step::Task(TaskId("t".to_owned())));
    let late = case().at(1000).sees(Sight::Whole(vec![], 990)).plan();
    assert_eq!(late.report.reason, reasons::DISCOVERY_TIMEOUT);
}

#[test]
fn a_machine_that_is_made_once_is_not_made_again() {
    let mut gone = Case::new().complete().sees(Sight::Whole(vec![], 95));
    assert!(matches!(gone.plan().step, Step::Create { incarnation: 2 }));
    gone.record.once = true;
    let plan = gone.plan();
    assert_eq!(plan.step, Step::Rest);
    assert_eq!(plan.report.reason, reasons::MACHINE_LOST);
    assert!(plan.report.stalled);
}

#[test]
fn what_somebody_else_asked_for_is_looked_for_and_never_asked_for() {
    let mut case = waiting();
    case.record.asked_at = Some(at(-100));
    case.record.intent = None;
    case.memory = Memory::default();
    assert_eq!(case.plan().step, Step::TakeOver { asked_at: at(-100) });
    case.record.intent = Some(Intent {
        token: Token::new(UID, 1),
        first_requested_at: at(-100),
        requested_at: at(-100),
    });
    for now in [100, 1000, 100_000] {
        for returns_id in [false, true] {
            let case = case.clone().at(now).sees(Sight::Whole(vec![], now - 1));
            let plan = case.can(|can| can.returns_id = returns_id).plan();
            let looks = matches!(plan.step, Step::Look(_) | Step::LookUntil(..));
            assert!(looks, "{now} {:?}", plan.step);
        }
    }
    let said = case.record(|record| record.said_id = Some("4711".to_owned()));
    let mut machine = Machine::new("uuid", "whatever", Power::On);
    machine.raw.insert("id".to_owned(), "4711".to_owned());
    claims(&said.sees(Sight::Whole(vec![machine], 50)), "uuid");
}
