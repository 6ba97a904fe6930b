//! Single decisions.

use sutler_api::{infra::PowerState, names::reasons};
use sutler_provider::{Disk, DiskInfo, Error};

use super::*;

#[track_caller]
fn check(case: &Case, step: Step, reason: &str) {
    let plan = case.plan();
    let found = (plan.step, plan.report.reason.as_str());
    assert_eq!(found, (step, reason), "{}", plan.report.message);
}

fn look(since: i64) -> Step {
    Step::Look(at(since) + Duration::from_millis(1))
}

fn accepted(id: Option<&str>) -> Outcome {
    Outcome::Accepted { id: id.map(Into::into), task: None, at: at(2) }
}

#[test]
fn a_first_create_needs_no_look() {
    check(&Case::new(), Step::Create { incarnation: 1 }, reasons::PROVISIONING);
}

#[test]
fn a_create_whose_outcome_is_unknown_is_looked_for_first() {
    let create = Step::Create { incarnation: 1 };
    let lost = Case::new().asked().at(5);
    for (case, step, reason) in [
        // After a crash, and after a call that was never answered.
        (lost.clone(), look(SETTLED), reasons::OBSERVING),
        (lost.clone().outcome(Outcome::Unknown), look(SETTLED), reasons::OBSERVING),
        // What was seen too early proves nothing.
        (lost.clone().sees(Sight::Whole(vec![], 4)), look(SETTLED), reasons::OBSERVING),
        (lost.clone().sees(Sight::Whole(vec![], SETTLED)), look(SETTLED), reasons::OBSERVING),
        // Nor does a part, however late.
        (lost.clone().sees(Sight::Part(vec![], 900)).at(901), look(SETTLED), reasons::OBSERVING),
        (lost.sees(Sight::Whole(vec![], SETTLED + 1)), create, reasons::PROVISIONING),
    ] {
        check(&case, step, reason);
    }
}

#[test]
fn a_list_that_lags_speaks_of_the_past() {
    let lags = Case::new().asked().at(200).can(|can| can.list_lag = Duration::from_secs(10));
    let early = lags.clone().sees(Sight::Whole(vec![], SETTLED + 10));
    check(&early, look(SETTLED), reasons::OBSERVING);
    let late = lags.sees(Sight::Whole(vec![], SETTLED + 11));
    check(&late, Step::Create { incarnation: 1 }, reasons::PROVISIONING);
}

#[test]
fn a_refused_create_is_sent_again_after_its_pause() {
    let error = Error::new(ErrorKind::Exhausted, "full");
    let refused = Case::new()
        .asked()
        .outcome(Outcome::Refused(error.clone()))
        .memory(|memory| memory.fail("create", error, "d", at(0)));
    check(&refused.clone().at(29), Step::Wait(at(30)), "Exhausted");
    let again = Step::Create { incarnation: 1 };
    check(&refused.at(30), again, reasons::PROVISIONING);
}

#[test]
fn a_wish_that_can_never_work_waits_for_a_change() {
    let error = Error::invalid("spec.x", "no");
    let invalid = Case::new()
        .asked()
        .outcome(Outcome::Refused(error.clone()))
        .memory(|memory| memory.fail("create", error, "d", at(0)));
    check(&invalid, Step::Rest, "Invalid");
    assert_eq!(invalid.plan().report.waiting, Some(Waiting { next: None }));
    let changed = invalid.wants(|desired| desired.digest = "e".to_owned());
    check(&changed, Step::Create { incarnation: 1 }, reasons::PROVISIONING);
}

#[test]
fn what_a_failed_task_left_is_removed_before_another_is_made() {
    let error = Error::new(ErrorKind::Failed, "no");
    let failed = Case::new().asked().outcome(Outcome::TaskFailed { error, at: at(50) });
    check(&failed, look(50), reasons::OBSERVING);
    let clean = failed.clone().sees(Sight::Whole(vec![], 51));
    check(&clean, Step::Create { incarnation: 2 }, reasons::PROVISIONING);
    let half = Machine { busy: true, ..ours(1) };
    let left = failed.sees(Sight::Whole(vec![half], 51));
    check(&left, Step::Delete("1".into(), DeleteWhy::Extra), reasons::FAILED);
}

#[test]
fn success_is_observed() {
    let case = Case::new().asked().outcome(accepted(Some("1"))).at(10);
    check(&case, Step::Describe("1".into()), reasons::PROVISIONING);
    assert!(!case.plan().report.ready);
    let seen = case.sees(Sight::One(ours(1), 9));
    check(&seen, Step::Rest, reasons::READY);
    assert!(seen.plan().report.ready);
}

#[test]
fn a_task_is_asked_after_and_nothing_else_is_done() {
    let task = Outcome::Accepted { id: None, task: Some("t".into()), at: at(2) };
    let case = Case::new().asked().outcome(task).sees(Sight::Whole(vec![], 99));
    check(&case, Step::Task("t".into()), reasons::PROVISIONING);
    let polled = case.memory(|memory| memory.polled_at = Some(at(99)));
    check(&polled, Step::Wait(at(101)), reasons::PROVISIONING);
}

#[test]
fn one_call_at_a_time() {
    let busy = |case: Case| case.memory(|memory| memory.in_flight = Some("create"));
    check(&busy(Case::new()), Step::Rest, reasons::WAITING);
    check(&busy(Case::new().asked().deleting()), Step::Rest, reasons::DELETING);
}

#[test]
fn a_machine_that_is_gone_is_made_again_once_that_is_proven() {
    let case = Case::new().complete();
    check(&case, Step::Describe("1".into()), reasons::OBSERVING);
    let part = case.clone().sees(Sight::Part(vec![], SETTLED + 9));
    check(&part, Step::Describe("1".into()), reasons::OBSERVING);
    // A second effect of the same request may still come.
    let early = case.clone().sees(Sight::Gone("1".into(), SETTLED)).at(SETTLED);
    assert!(!matches!(early.plan().step, Step::Create { .. }));
    // Nor is it all that there is to be seen: its request may have been sent twice on its way.
    let gone = case.sees(Sight::Gone("1".into(), SETTLED + 1));
    check(&gone, look(SETTLED), reasons::OBSERVING);
    let again = Step::Create { incarnation: 2 };
    let alone = || gone.clone().sees(Sight::Whole(vec![], SETTLED + 1));
    check(&alone(), again.clone(), reasons::MACHINE_LOST);
    check(&gone.clone().can(|can| can.list = false), again, reasons::MACHINE_LOST);
    let second = alone().sees(Sight::One(Machine { id: "2".into(), ..ours(1) }, SETTLED + 1));
    assert!(!matches!(second.plan().step, Step::Create { .. }), "{:?}", second.plan().step);
}

#[test]
fn a_list_from_before_a_task_ended_does_not_prove_its_machine_gone() {
    // Its ID was told at once, and its task ended at second 60: a platform may list it only from then on.
    let made = || {
        let accepted = Outcome::Accepted { id: Some("1".into()), task: None, at: at(60) };
        let case = Case::new().asked().outcome(accepted).record(|record| {
            (record.id, record.provisioned) = (Some("1".into()), true);
        });
        case.memory(|memory| memory.id_since = Some(at(1)))
    };
    let early = || made().sees(Sight::Whole(vec![], 50));
    for case in [early(), early().record(|record| record.once = true)] {
        let step = case.plan().step;
        assert!(matches!(step, Step::Describe(_) | Step::Look(_)), "{step:?}");
    }
    let step = early().deleting().plan().step;
    assert!(!matches!(step, Step::Forget(_)), "{step:?}");
    let later = || made().sees(Sight::Whole(vec![], 61));
    assert_eq!(later().deleting().plan().step, Step::Forget(ForgetWhy::Gone));
    // Its request may have been sent twice, and be making a second one, for as long as it can have an effect.
    check(&later(), look(SETTLED), reasons::OBSERVING);
    let settled = made().sees(Sight::Whole(vec![], SETTLED + 1));
    assert!(matches!(settled.plan().step, Step::Create { incarnation: 2 }));
}

#[test]
fn extras_go_and_the_record_catches_up() {
    let extra = Machine { id: "7".into(), ..ours(1) };
    let case = Case::new().asked_as(2).sees(Sight::Whole(vec![extra, ours(2)], 99));
    check(&case, Step::Delete("7".into(), DeleteWhy::Extra), reasons::EXTRA_MACHINE);
    let behind = Case::new().asked().sees(Sight::Whole(vec![ours(3)], 99));
    check(&behind, Step::Restore { incarnation: 3 }, reasons::OBSERVING);
}

#[test]
fn a_machine_without_its_token_is_left_alone() {
    let stripped = Machine { token: None, ..ours(1) };
    for case in [Case::new().complete(), Case::new().complete().deleting()] {
        let case = case.sees(Sight::Whole(vec![stripped.clone()], 99));
        check(&case, Step::Rest, reasons::OWNERSHIP_LOST);
        assert!(case.plan().report.stalled);
    }
    // One that was made later has only taken over its ID.
    let other = Machine { created_at: Some(at(50)), ..stripped };
    let reused = Case::new().complete().deleting().sees(Sight::Whole(vec![other], SETTLED + 1));
    check(&reused, Step::Forget(ForgetWhy::Gone), reasons::DELETING);
}

#[test]
fn machines_without_tokens_are_claimed_by_name_and_time() {
    let plain = Machine { token: None, ..ours(1) };
    let case = Case::new().asked().without_tokens().sees(Sight::Whole(vec![plain], 99));
    check(&case, Step::Claim("1".into()), reasons::READY);
    check(&case.clone().deleting(), Step::Claim("1".into()), reasons::DELETING);
    let mut taken = case.clone();
    taken.rival = true;
    assert!(!matches!(taken.plan().step, Step::Claim(_)));
    // It is there, whoever has its ID: its absence is not proven, and none is made beside it.
    let late = SETTLED + 1;
    for mut taken in [taken.clone(), taken.deleting()] {
        taken.now = late;
        taken = taken.sees(Sight::Whole(vec![Machine { token: None, ..ours(1) }], late));
        assert!(matches!(taken.plan().step, Step::Look(_)), "{:?}", taken.plan());
    }
    // Where names prove nothing, what was there before is another's.
    let mut exact = case.clone();
    exact.hashed = false;
    check(&exact, Step::Claim("1".into()), reasons::READY);
    let before = exact.record(|record| {
        if let Some(intent) = &mut record.intent {
            intent.first_requested_at = at(2);
        }
    });
    assert!(!matches!(before.plan().step, Step::Claim(_)));
    // One of its name that took over the ID of the dead one before it is claimed anew.
    let next = Machine { token: None, created_at: Some(at(50)), ..ours(1) };
    let reused = Case::new().complete().without_tokens().sees(Sight::Whole(vec![next], 99));
    check(&reused, Step::Claim("1".into()), reasons::READY);
}

#[test]
fn another_that_was_given_the_id_within_the_second_is_not_waited_for() {
    let next = Machine { token: None, name: "db-x1y2z".to_owned(), hostname: None, ..ours(1) };
    let mut case = Case::new().complete().deleting().without_tokens().at(SETTLED + 1);
    case = case.sees(Sight::Whole(vec![next], SETTLED + 1));
    // It may be the record's own, under another name.
    check(&case, Step::Rest, reasons::OWNERSHIP_LOST);
    // It is called as only that one's machine is.
    case.other = Some("db-x1y2z");
    check(&case, Step::Forget(ForgetWhy::Gone), reasons::DELETING);
    // The same where names have no hash, as long as that one was asked for before.
    case.hashed = false;
    check(&case, Step::Forget(ForgetWhy::Gone), reasons::DELETING);
    case.other = None;
    check(&case, Step::Rest, reasons::OWNERSHIP_LOST);
}

#[test]
fn a_machine_whose_id_another_had_from_a_dead_one_is_waited_for() {
    let machine = Machine { token: None, ..ours(1) };
    let mut case = Case::new().asked().deleting().without_tokens().at(SETTLED + 1);
    case.hashed = false;
    case = case.sees(Sight::Whole(vec![machine], SETTLED + 1));
    // Somebody else's of the same name.
    case.rival = true;
    check(&case, Step::Forget(ForgetWhy::Gone), reasons::DELETING);
    case.rival = false;
    case.astray = true;
    let plan = case.plan();
    assert!(matches!(plan.step, Step::Look(_)), "{plan:?}");
    assert_eq!(plan.report.reason, reasons::OBSERVING);
}

#[test]
fn a_machine_that_was_left_in_place_is_nobodys() {
    let next = Machine { token: None, name: "web-2".to_owned(), hostname: None, ..ours(1) };
    let mut case = Case::new().asked().without_tokens().at(SETTLED + 1);
    (case.hashed, case.capabilities.returns_id) = (false, false);
    case = case.sees(Sight::Whole(vec![next], SETTLED + 1));
    case = case.record(|record| record.platform_name = Some("web".to_owned()));
    check(&case, Step::Claim("1".into()), reasons::READY);
    // The record's own is looked for.
    case.kept = true;
    assert!(matches!(case.plan().step, Step::LookUntil(..)), "{:?}", case.plan());
    // One whose whole name has this record's hash in it has only that one's ID.
    let mut own = Case::new().asked().without_tokens();
    own = own.sees(Sight::Whole(vec![Machine { token: None, ..ours(1) }], 99));
    own.kept = true;
    check(&own, Step::Claim("1".into()), reasons::READY);
}

#[test]
fn a_namesake_takes_the_place_of_a_machine_that_is_gone() {
    let other = Machine { id: "9".into(), token: None, created_at: None, ..ours(1) };
    let late = SETTLED + 1;
    for case in [Case::new().complete(), Case::new().complete().deleting()] {
        let mut case = case.without_tokens();
        case.now = late;
        let proven = case.clone().sees(Sight::Whole(vec![other.clone()], late));
        assert_eq!(proven.plan().step, Step::Claim("9".into()), "{:?}", proven.plan());
        // The record's own machine may only not have been listed yet.
        let early = case.clone().sees(Sight::Whole(vec![other.clone()], 3));
        let step = early.plan().step;
        assert!(
            !matches!(step, Step::Claim(_) | Step::Create { .. } | Step::Forget(_)),
            "{step:?}"
        );
        // Where names prove nothing, it is somebody else's.
        case.hashed = false;
        let plain = case.sees(Sight::Whole(vec![other.clone()], late));
        assert!(!matches!(plain.plan().step, Step::Claim(_)), "{:?}", plain.plan());
    }
}

#[test]
fn a_machine_that_another_record_meant_is_not_destroyed_for_the_dead_one_that_had_its_id() {
    let other = Machine { token: None, name: format!("{NAME}-2"), ..ours(1) };
    let case = Case::new().complete().deleting().without_tokens();
    let mut case = case.record(|record| record.machine_name = Some(NAME.to_owned()));
    case.hashed = false;
    case = case.sees(Sight::Whole(vec![other], 99));
    // A platform may call a machine a little otherwise than it was asked to.
    check(&case, Step::Delete("1".into(), DeleteWhy::Goal), reasons::DELETING);
    case.other = Some("web-abcde-2");
    let step = case.plan().step;
    assert!(!matches!(step, Step::Delete(..)), "{step:?}");
}

#[test]
fn a_machine_that_is_only_called_like_a_record_is_not_destroyed_for_it() {
    let other = Machine { token: None, name: format!("{NAME}-2"), ..ours(1) };
    let case = Case::new().asked().without_tokens().can(|can| can.returns_id = false);
    let mut case = case.sees(Sight::Whole(vec![other], 99));
    check(&case.clone().deleting(), Step::Claim("1".into()), reasons::DELETING);
    case.hashed = false;
    check(&case, Step::Claim("1".into()), reasons::READY);
    assert!(!matches!(case.deleting().plan().step, Step::Claim(_)));
}

#[test]
fn a_machine_whose_id_is_never_told_is_looked_for_and_not_asked_for_twice() {
    let case = Case::new().asked().without_tokens().can(|can| can.returns_id = false);
    let empty = case.sees(Sight::Whole(vec![], 299)).outcome(accepted(None));
    let looks = |since| Step::LookUntil(at(since) + create::LOOK_AGAIN, at(300));
    check(&empty.clone().at(299), looks(299), reasons::DISCOVERING);
    check(&empty.clone().at(300), look(300), reasons::DISCOVERY_TIMEOUT);
    assert!(empty.at(300).plan().report.stalled);
}

#[test]
fn nothing_is_done_while_paused() {
    let pause = |case: Case| case.record(|record| record.paused = true);
    let seen = Sight::Whole(vec![Machine { power: Power::Off, ..ours(1) }], 99);
    check(&pause(Case::new()), Step::Rest, reasons::PAUSED);
    check(&pause(Case::new().complete().sees(seen.clone())), Step::Rest, reasons::PAUSED);
    check(&pause(Case::new().complete().deleting().sees(seen)), Step::Rest, reasons::DELETING);
    // A record without a machine has nothing to hold back.
    let never = Case::new().deleting().record(|record| record.finalizer = true);
    check(&pause(never), Step::Forget(ForgetWhy::NeverAsked), reasons::DELETING);
}

#[test]
fn a_record_is_its_own_tombstone() {
    let case = Case::new().asked().deleting().at(5);
    check(&case, look(SETTLED), reasons::DELETING);
    check(&case.clone().sees(Sight::Whole(vec![], SETTLED)), look(SETTLED), reasons::DELETING);
    check(&case.clone().sees(Sight::Part(vec![], 900)), look(SETTLED), reasons::DELETING);
    let gone = Step::Forget(ForgetWhy::Gone);
    let later = case.clone().sees(Sight::Whole(vec![], SETTLED + 1));
    check(&later, gone.clone(), reasons::DELETING);
    // A create that certainly did nothing leaves nothing to wait for.
    let refused = Outcome::Refused(Error::unavailable("no"));
    let refused = case.clone().outcome(refused).sees(Sight::Whole(vec![], 1));
    check(&refused, gone.clone(), reasons::DELETING);
    // One that was refused because of a conflict may still be on its way out.
    let error = Error::new(ErrorKind::Conflict, "overtaken");
    let conflict = case.clone().outcome(Outcome::Refused(error.clone()));
    let conflict = conflict.memory(|memory| memory.fail("create", error, "d", at(3)));
    let before = conflict.clone().sees(Sight::Whole(vec![], 1));
    check(&before, look(3), reasons::DELETING);
    check(&conflict.sees(Sight::Whole(vec![], 4)), gone, reasons::DELETING);
    let blind = case.can(|can| can.list = false);
    check(&blind, Step::Wait(at(SETTLED)), reasons::DELETING);
    let over = Step::Forget(ForgetWhy::WindowEnded);
    check(&blind.at(SETTLED), over, reasons::DELETING);
}

#[test]
fn a_removal_that_nobody_answered_is_waited_out() {
    let removed = |at_: i64| {
        let case = Case::new().complete().deleting().without_tokens().at(210);
        case.record(|record| record.delete_requested_at = Some(at(at_)))
            .sees(Sight::Whole(vec![], 209))
    };
    let gone = Step::Forget(ForgetWhy::Gone);
    let over = 205
        + i64::try_from((SEND_WINDOW + removed(205).capabilities.deadlines.change).as_secs())
            .unwrap();
    // After a crash nobody knows what became of it: the next machine of this name may be given its ID.
    check(&removed(205), look(over), reasons::DELETING);
    let late = removed(205).at(over + 2).sees(Sight::Whole(vec![], over + 1));
    check(&late, gone.clone(), reasons::DELETING);
    // Who asked knows that it was answered, or that an earlier one was not.
    let mut removal = Removal::default();
    removal.ask(at(205));
    let asked = |open| removed(205).memory(|memory| memory.removal = Removal { open, ..removal });
    check(&asked(None), gone, reasons::DELETING);
    check(&asked(Some(at(203))), look(over - 2), reasons::DELETING);
    // Another process asked again meanwhile.
    check(
        &removed(207).memory(|memory| memory.removal = removal),
        look(over + 2),
        reasons::DELETING,
    );
}

#[test]
fn a_machine_is_deleted_and_its_absence_observed() {
    let case = Case::new().complete().deleting().at(200);
    let seen = case.clone().sees(Sight::Whole(vec![ours(1)], 199));
    check(&seen, Step::Delete("1".into(), DeleteWhy::Goal), reasons::DELETING);
    let accepted = Accepted { at: at(200), task: None, digest: "1".to_owned() };
    let sent = seen.memory(|memory| {
        memory.accepted.insert("delete", accepted);
    });
    check(&sent.clone().at(201), Step::Describe("1".into()), reasons::DELETING);
    // What was looked at before the delete was accepted is not its effect.
    let before = case.memory(|memory| memory.accepted.clone_from(&sent.memory.accepted));
    let before = before.sees(Sight::Gone("1".into(), 200)).at(201);
    check(&before, Step::Describe("1".into()), reasons::DELETING);
    let gone = sent.sees(Sight::Gone("1".into(), 201)).at(202);
    check(&gone, Step::Forget(ForgetWhy::Gone), reasons::DELETING);
}

#[test]
fn a_machine_that_is_kept_is_let_go() {
    let keep = |case: Case| case.deleting().record(|record| record.retain = true);
    let seen = keep(Case::new().complete()).sees(Sight::Whole(vec![ours(1)], 99));
    check(&seen, Step::Disown("1".into()), reasons::DELETING);
    let free = Machine { token: None, ..ours(1) };
    let retained = Step::Forget(ForgetWhy::Retained);
    let let_go = keep(Case::new().complete()).sees(Sight::Whole(vec![free.clone()], 99));
    check(&let_go, retained.clone(), reasons::DELETING);
    let nameless = keep(Case::new().complete().without_tokens());
    check(&nameless.sees(Sight::Whole(vec![free], 99)), retained, reasons::DELETING);
}

#[test]
fn a_person_may_have_a_record_forgotten() {
    let case = Case::new().complete().deleting().record(|record| record.forget = true);
    let seen = case.sees(Sight::Whole(vec![ours(1)], 99));
    check(&seen, Step::Forget(ForgetWhy::Forced), reasons::DELETING);
    let bare = Case::new().complete().deleting().record(|record| record.finalizer = false);
    check(&bare, Step::Rest, reasons::DELETING);
}

#[test]
fn a_restart_is_done_once() {
    let case = Case::new().complete().sees(Sight::Whole(vec![ours(1)], 99));
    let asked = case.clone().record(|record| record.restart = Some("r".to_owned()));
    check(&asked, Step::Restart("1".into(), "r".to_owned()), reasons::POWERING);
    check(&case, Step::Rest, reasons::READY);
    // It is for machines that run, and have been complete before.
    let new = asked.clone().record(|record| record.provisioned = false);
    check(&new, Step::Rest, reasons::READY);
    let off = asked.sees(Sight::One(Machine { power: Power::Off, ..ours(1) }, 100));
    check(&off, Step::Rest, "Stopped");
}

#[test]
fn power_follows_the_wish_and_the_guest_has_its_time() {
    let on = Case::new().complete().sees(Sight::Whole(vec![ours(1)], 99));
    let off = Machine { power: Power::Off, ..ours(1) };
    let off = Case::new().complete().sees(Sight::Whole(vec![off], 99));
    let wants = |case: &Case, power| case.clone().wants(|desired| desired.power = Some(power));
    let step = |step| Step::Power("1".into(), step);
    check(&wants(&off, WantedPower::On), step(PowerStep::On), reasons::POWERING);
    check(&wants(&on, WantedPower::Off), step(PowerStep::Off), reasons::POWERING);
    let graceful = wants(&on, WantedPower::OffGraceful);
    check(&graceful, step(PowerStep::Shutdown), reasons::POWERING);
    let asked = graceful.clone().memory(|memory| memory.shutdown_since = Some(at(40)));
    check(&asked.at(100), step(PowerStep::Off), reasons::POWERING);
    let blunt = graceful.clone().can(|can| can.graceful_shutdown = false);
    check(&blunt, step(PowerStep::Off), reasons::POWERING);
    let hook = graceful.wants(|desired| desired.pre_stop = true);
    check(&hook, Step::PreStop("1".into()), reasons::RUNNING_HOOK);
    check(&hook.memory(|m| m.pre_stopped = true), step(PowerStep::Shutdown), reasons::POWERING);
}

#[test]
fn hooks_come_after_a_start_and_before_the_end() {
    let case = Case::new().complete().sees(Sight::Whole(vec![ours(1)], 99));
    let started = case.clone().wants(|desired| desired.post_start = true);
    check(&started, Step::Rest, reasons::READY);
    let started = started.record(|record| record.power = None);
    check(&started, Step::PostStart("1".into()), reasons::RUNNING_HOOK);
    check(&started.memory(|memory| memory.post_started = true), Step::Rest, reasons::READY);
    let ending = case.deleting().wants(|desired| desired.pre_stop = true);
    check(&ending, Step::PreStop("1".into()), reasons::DELETING);
    let done = ending.clone().memory(|memory| memory.pre_stopped = true);
    let delete = Step::Delete("1".into(), DeleteWhy::Goal);
    check(&done, delete.clone(), reasons::DELETING);
    // What is known of it may be from before its start, which another process saw.
    let off = Machine { power: Power::Off, ..ours(1) };
    let off = ending.sees(Sight::Whole(vec![off], 99));
    check(
        &off.clone().record(|record| record.power = Some(PowerState::Off)),
        delete.clone(),
        reasons::DELETING,
    );
    let unclear = off.record(|record| record.power = Some(PowerState::On));
    check(&unclear, Step::Describe("1".into()), reasons::DELETING);
    let looked = unclear.memory(|memory| memory.described_at = Some(at(100)));
    check(&looked.clone().at(101), delete, reasons::DELETING);
    check(&looked.at(110), Step::Describe("1".into()), reasons::DELETING);
}

#[test]
fn changes_that_cannot_be_made_are_said_beside_a_machine_that_is_well() {
    let small = Machine { cpu: Some(1), ..ours(1) };
    let case = Case::new().complete().sees(Sight::Whole(vec![small], 99));
    let held = case.plan().report;
    assert!(held.ready, "{held:?}");
    assert_eq!(held.held_change.map(|(reason, _)| reason), Some(reasons::NEEDS_POWER_OFF));
    let online = case.clone().can(|can| can.reconfigure_online = true);
    assert!(matches!(online.plan().step, Step::Reconfigure(..)));
    check(&case.can(|can| can.reconfigure = false), Step::Rest, reasons::UNSUPPORTED);
}

#[test]
fn a_disk_never_shrinks() {
    let info = |size_gib| DiskInfo { name: "data".to_owned(), size_gib, ..DiskInfo::default() };
    let large = Machine { disks: Some(vec![info(9)]), ..ours(1) };
    let disk = |size_gib| Disk { name: "data".to_owned(), size_gib, ..Disk::default() };
    let case = Case::new().complete().sees(Sight::Whole(vec![large], 99));
    let wants = |size| case.clone().wants(|desired| desired.request.disks = vec![disk(size)]);
    check(&wants(8), Step::Rest, reasons::INVALID);
    check(&wants(9), Step::Rest, reasons::READY);
    let held = wants(10).plan().report.held_change;
    assert_eq!(held.map(|(reason, _)| reason), Some(reasons::NEEDS_POWER_OFF));
}

#[test]
fn a_list_that_tells_nothing_of_disks_does_not_make_them_right() {
    let name = || "data".to_owned();
    let disk = Disk { name: name(), size_gib: 9, grow_online: true, ..Disk::default() };
    let info = |size_gib| DiskInfo { name: name(), size_gib, ..DiskInfo::default() };
    let has = |size| Machine { disks: Some(vec![info(size)]), ..ours(1) };
    let describe = Step::Describe("1".into());
    let case = Case::new().complete().can(|can| can.disk_growth_online = true);
    let case = case.wants(|desired| desired.request.disks = vec![disk]);
    let listed = case.clone().sees(Sight::Whole(vec![ours(1)], 99));
    // Nobody has told of them yet: the machine itself is looked at, and not without a pause.
    check(&listed, describe.clone(), reasons::OBSERVING);
    let just = listed.clone().memory(|memory| memory.described_at = Some(at(99)));
    assert!(matches!(just.plan().step, Step::Wait(_)), "{:?}", just.plan().step);
    // A platform that does not tell even then is not asked for ever.
    check(&listed.clone().sees(Sight::One(ours(1), 100)), Step::Rest, reasons::READY);
    // What a look told stays when a list comes after it, and what was on record when we were started.
    let list = Sight::Whole(vec![ours(1)], 100);
    let seen = |size| case.clone().sees(Sight::One(has(size), 99));
    let later = |size| seen(size).sees(list.clone());
    check(&later(9), Step::Rest, reasons::READY);
    let known = |size| {
        let disks = vec![("data".to_owned(), size)];
        listed.clone().record(|record| record.seen_disks = disks)
    };
    check(&known(9), Step::Rest, reasons::READY);
    // But nothing is done, and nothing refused, on what was told before.
    for size in [8, 10] {
        check(&later(size), describe.clone(), reasons::OBSERVING);
        check(&known(size), describe.clone(), reasons::OBSERVING);
    }
    check(&seen(10), Step::Rest, reasons::INVALID);
    let plan = seen(8).plan();
    let Step::Reconfigure(_, difference) = plan.step else { panic!("{:?}", plan.step) };
    // Once the change is accepted, the machine says whether it was made, unless a task does.
    let accepted = |task: Option<&str>| Accepted {
        digest: difference.text(),
        at: at(98),
        task: task.map(Into::into),
    };
    let asked = |task: Option<&'static str>| {
        let accepted = accepted(task);
        later(8).memory(|memory| drop(memory.accepted.insert("reconfigure", accepted)))
    };
    check(&asked(None), describe, reasons::OBSERVING);
    check(&asked(Some("t")), Step::Task("t".into()), reasons::RECONFIGURING);
}

#[test]
fn what_is_not_known_is_said_and_looked_at_again() {
    let blocker = Blocker {
        reason: "Why".to_owned(),
        message: "because".to_owned(),
        retry: Some(Duration::from_secs(60)),
        failed: false,
    };
    let mut case = Case::new();
    case.unresolved = Some(blocker.clone());
    check(&case, Step::Wait(at(160)), "Why");
    let mut case = Case::new().complete().deleting();
    case.unreachable = Some(Blocker { retry: None, ..blocker });
    check(&case, Step::Rest, "Why");
}

#[test]
fn who_has_not_looked_since_does_not_take_the_machine_of_the_incarnation_before() {
    let old = || Machine { token: None, created_at: Some(at(-50)), ..ours(1) };
    let case = |sight| {
        let case = Case::new().asked_as(2).without_tokens().sees(sight);
        case.record(|record| record.machine_name = None)
    };
    // Its own view is from before the intent of the second incarnation, at second 0.
    let stale = case(Sight::Whole(vec![old()], -5)).plan();
    assert!(!matches!(stale.step, Step::Claim(_)), "{:?}", stale.step);
    // One that was seen since, or made since, is there.
    let seen = case(Sight::Whole(vec![old()], 5)).plan();
    assert_eq!(seen.step, Step::Claim("1".into()));
    let made = Machine { created_at: Some(at(3)), ..old() };
    assert_eq!(case(Sight::One(made, 5)).plan().step, Step::Claim("1".into()));
}

#[test]
fn a_machine_that_another_process_put_on_record_does_not_hide_our_own() {
    let case = Case::new()
        .asked_as(2)
        .without_tokens()
        .record(|record| record.id = Some("1".into()))
        .memory(|memory| memory.id_since = Some(at(5)))
        .outcome(Outcome::Accepted { id: Some("7".into()), task: None, at: at(2) })
        .sees(Sight::Gone("1".into(), 95));
    let plan = case.plan();
    assert!(!matches!(plan.step, Step::Create { .. }), "{:?}", plan.step);
    let both = case.sees(Sight::Gone("7".into(), 95)).sees(Sight::Whole(vec![], 95)).plan();
    assert!(matches!(both.step, Step::Create { incarnation: 3 }), "{:?}", both.step);
}
