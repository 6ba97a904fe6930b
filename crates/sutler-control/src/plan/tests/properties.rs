//! What holds for any input.

use proptest::prelude::*;

use super::{cases::case, *};

/// Says what is wrong with a plan.
type Law = fn(&Case, &Plan) -> Result<(), String>;

fn wrong<T>(what: &str) -> Result<T, String> {
    Err(what.to_owned())
}

/// Whether the platform is known completely after this time.
fn whole_after(case: &Case, since: Timestamp) -> bool {
    case.view().complete_as_of().is_some_and(|as_of| as_of > since)
}

/// Whether it is known that no machine of the record has this ID after this time.
fn gone_after(case: &Case, id: &MachineId, since: Timestamp) -> bool {
    let view = case.view();
    match view.get(id) {
        Some(other) => other.as_of > since,
        None => view.absent_as_of(id).is_some_and(|as_of| as_of > since),
    }
}

/// A create is sent for the first time, or when nothing of an earlier one is there or may come.
fn create_once(case: &Case, plan: &Plan) -> Result<(), String> {
    let Step::Create { incarnation } = plan.step else { return Ok(()) };
    let Case { record, capabilities, memory, .. } = case;
    if record.deleting || memory.in_flight.is_some() {
        return wrong("a create beside another call, or for a record that goes");
    }
    let Some(intent) = &record.intent else {
        return if incarnation == 1 { Ok(()) } else { wrong("the first is number one") };
    };
    let there = case.view().of_record(UID).any(|seen| {
        seen.machine.token.as_ref().is_some_and(|t| t.incarnation >= intent.token.incarnation)
    });
    if capabilities.token && there {
        return wrong("a create while its machine is there");
    }
    let settled = settled_at(intent.requested_at, capabilities);
    let (same, next) = (intent.token.incarnation, intent.token.incarnation + 1);
    let allowed = match (memory.attempt_of(intent.requested_at), &record.id) {
        (Some(Outcome::Accepted { task: Some(_), .. }), _) => false,
        // An answer ends a request.
        (Some(Outcome::Accepted { .. }), Some(id)) => {
            incarnation == next && gone_after(case, id, memory.id_since.unwrap_or(at(case.now)))
        }
        (_, Some(id)) => incarnation == next && gone_after(case, id, settled),
        (Some(Outcome::Refused(_)), None) => incarnation == same,
        (Some(Outcome::TaskFailed { at, .. }), None) => {
            incarnation == next && whole_after(case, *at)
        }
        (Some(Outcome::Accepted { id: Some(id), .. }), None) => {
            incarnation == next && gone_after(case, id, settled)
        }
        _ if !capabilities.returns_id => false,
        _ if !capabilities.list => incarnation == same && capabilities.unique_by == UniqueBy::Token,
        _ => incarnation == same && whole_after(case, settled),
    };
    if allowed { Ok(()) } else { wrong("a create while an earlier one may still be under way") }
}

/// The machine that a step works on.
fn worked_on(step: &Step) -> Option<&MachineId> {
    match step {
        Step::Power(id, _)
        | Step::Restart(id, _)
        | Step::Reconfigure(id, _)
        | Step::PostStart(id)
        | Step::PreStop(id)
        | Step::Delete(id, _)
        | Step::Disown(id) => Some(id),
        _ => None,
    }
}

/// Only what is proven ours is changed.
fn only_ours(case: &Case, plan: &Plan) -> Result<(), String> {
    let Some(id) = worked_on(&plan.step) else { return Ok(()) };
    let view = case.view();
    let Some(seen) = view.get(id) else { return wrong("a machine that nobody sees") };
    if case.capabilities.token {
        let uid = seen.machine.token.as_ref().map(|token| token.uid.as_str());
        return if uid == Some(UID) { Ok(()) } else { wrong("a machine without our token") };
    }
    let name = &seen.machine.name;
    let claimed = case.record.id.as_ref() == Some(id) && name.starts_with(NAME);
    let made = |record: Timestamp| seen.machine.created_at.is_none_or(|made| made == record);
    let claimed = claimed && case.record.created_at.is_none_or(made);
    let hashed = case.hashed && name == NAME && !case.rival;
    let unnamed = case.record.platform_name.is_none();
    let extra = matches!(plan.step, Step::Delete(_, DeleteWhy::Extra)) && hashed;
    if claimed || extra || unnamed { Ok(()) } else { wrong("a machine that was not claimed") }
}

/// The finalizer comes off when nothing of the record is there or may come.
fn forgotten_when_gone(case: &Case, plan: &Plan) -> Result<(), String> {
    let Step::Forget(why) = plan.step else { return Ok(()) };
    let Case { record, capabilities, memory, .. } = case;
    if !record.deleting || !record.finalizer {
        return wrong("a record that is not on its way out");
    }
    let allowed = match why {
        ForgetWhy::Forced => record.forget,
        ForgetWhy::NeverAsked => record.intent.is_none() && record.id.is_none(),
        ForgetWhy::Retained => record.retain || record.intent.is_none(),
        ForgetWhy::WindowEnded => {
            !capabilities.list
                && record.intent.as_ref().is_some_and(|intent| {
                    matches!(memory.attempt_of(intent.requested_at), Some(outcome)
                        if !matches!(outcome, Outcome::Unknown))
                        || settled_at(intent.requested_at, capabilities) <= at(case.now)
                })
        }
        ForgetWhy::Gone => {
            let Some(intent) = &record.intent else { return wrong("nothing was ever asked for") };
            if capabilities.token && case.view().of_record(UID).next().is_some() {
                return wrong("its machine is there");
            }
            // The outcome is known, or its time was over when the platform was looked at.
            let settled = settled_at(intent.requested_at, capabilities);
            // A machine with our token that was complete is all that the request was for.
            let complete = capabilities.token && record.provisioned && record.id.is_some();
            let since = match memory.attempt_of(intent.requested_at) {
                _ if complete => intent.requested_at,
                Some(Outcome::Unknown) | None => settled,
                Some(Outcome::Accepted { task: Some(_), .. }) if !record.provisioned => settled,
                _ => intent.requested_at,
            };
            let deleted = memory.accepted.get("delete").map(|accepted| accepted.at);
            // A removal that nobody answered has had its effect, or never will.
            let open = memory.removal.open(record.delete_requested_at);
            let over = open.map(|at| at + SEND_WINDOW + capabilities.deadlines.change);
            match &record.id {
                Some(id) => gone_after(
                    case,
                    id,
                    since.max(deleted.unwrap_or(since)).max(over.unwrap_or(since)),
                ),
                None => whole_after(case, since),
            }
        }
    };
    if allowed { Ok(()) } else { Err(format!("off the books without proof: {why:?}")) }
}

/// Whoever waits says why, and until when or for what.
fn waiting_is_told(case: &Case, plan: &Plan) -> Result<(), String> {
    let report = &plan.report;
    if report.reason.is_empty() || report.message.is_empty() {
        return wrong("without a word");
    }
    let next = report.waiting.as_ref().map(|waiting| waiting.next);
    match plan.step {
        Step::Wait(until) if until <= at(case.now) => wrong("a wait that is over"),
        Step::Wait(until) if next != Some(Some(until)) => wrong("a wait whose end is not told"),
        Step::LookUntil(_, until) if next != Some(Some(until)) => wrong("an end is not told"),
        Step::Rest => {
            let answer_comes = case.memory.in_flight.is_some();
            let others = case.record.deleting && !case.record.finalizer;
            let told = report.ready || answer_comes || others || next.is_some();
            if told { Ok(()) } else { wrong("a rest without end that says it waits for nothing") }
        }
        _ => Ok(()),
    }
}

/// Nothing is done for a record that is held back, save what a person asks for besides.
fn paused_rests(case: &Case, plan: &Plan) -> Result<(), String> {
    let asked = matches!(plan.step, Step::Forget(ForgetWhy::Forced | ForgetWhy::NeverAsked));
    match case.record.paused && plan.step != Step::Rest && !asked {
        true => wrong("a step while paused"),
        false => Ok(()),
    }
}

/// What is kept is not destroyed; what is not on its way out is not touched as if it were.
fn policies(case: &Case, plan: &Plan) -> Result<(), String> {
    let goal = matches!(plan.step, Step::Delete(_, DeleteWhy::Goal));
    let ending = goal || matches!(plan.step, Step::Disown(_) | Step::Forget(_));
    match case.record.deleting {
        false if ending => wrong("the end of a record that is wanted"),
        true if case.record.retain && goal => wrong("a machine that is to be kept is destroyed"),
        true if !case.record.retain && matches!(plan.step, Step::Disown(_)) => {
            wrong("a machine that is to be destroyed is let go")
        }
        _ => Ok(()),
    }
}

/// A restart is done for a request that was not met, on a machine that runs.
fn restart_once(case: &Case, plan: &Plan) -> Result<(), String> {
    let Step::Restart(id, request) = &plan.step else { return Ok(()) };
    let on = case.view().get(id).is_some_and(|seen| seen.machine.power == Power::On);
    let asked = case.record.restart.as_ref() == Some(request) && case.record.provisioned;
    if on && asked { Ok(()) } else { wrong("a restart that nobody asked for") }
}

/// A list that lacks something, and one that is older than what is known, decide nothing.
fn parts_prove_nothing(case: &Case, plan: &Plan) -> Result<(), String> {
    let mut more = case.clone();
    more.sights.push(Sight::Part(Vec::new(), case.now));
    let known = case.view().complete_as_of().map_or(0, |at| at.as_second() - 1_000_000);
    more.sights.push(Sight::Whole(Vec::new(), known - 1));
    if more.plan() == *plan { Ok(()) } else { wrong("absence out of nothing") }
}

const LAWS: [(&str, Law); 8] = [
    ("create_once", create_once),
    ("only_ours", only_ours),
    ("forgotten_when_gone", forgotten_when_gone),
    ("waiting_is_told", waiting_is_told),
    ("paused_rests", paused_rests),
    ("policies", policies),
    ("restart_once", restart_once),
    ("parts_prove_nothing", parts_prove_nothing),
];

/// Every law on one case.
pub(super) fn obeyed(case: &Case) -> Result<(), String> {
    let plan = case.plan();
    for (name, law) in LAWS {
        law(case, &plan).map_err(|what| format!("{name}: {what}: {plan:#?}"))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]
    #[test]
    fn every_plan_obeys_every_law(case in case()) {
        prop_assert_eq!(obeyed(&case), Ok(()));
    }
}

/// Cases in which each kind of step comes up: laws about steps that never occur would hold idly.
#[test]
fn every_kind_of_step_comes_up() {
    use proptest::{strategy::ValueTree as _, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..60_000 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let step = format!("{:?}", case.plan().step);
        let word = step.split(['(', ' ']).next().unwrap_or_default().to_owned();
        *kinds.entry(word).or_default() += 1;
    }
    let wanted = [
        "Rest",
        "Wait",
        "Look",
        "Restore",
        "Create",
        "Claim",
        "Describe",
        "Task",
        "Power",
        "Restart",
        "Reconfigure",
        "PostStart",
        "PreStop",
        "Delete",
        "Disown",
        "Forget",
    ];
    for kind in wanted {
        assert!(kinds.get(kind).is_some_and(|count| *count >= 10), "{kind}: {kinds:?}");
    }
}

/// The laws and the rounds notice each rule of the planner that is broken.
#[cfg(feature = "mutations")]
#[test]
fn broken_rules_are_noticed() {
    use crate::rules::{Rule, break_rule};
    use proptest::{strategy::ValueTree as _, test_runner::TestRunner};
    for rule in [
        Rule::LookBeforeCreate,
        Rule::SettleWindow,
        Rule::DeleteOnlyOurs,
        Rule::FinalizerAfterAbsence,
        Rule::Tombstone,
    ] {
        break_rule(Some(rule));
        let mut runner = TestRunner::deterministic();
        let noticed = (0..20_000).any(|_| {
            let case = case().new_tree(&mut runner).unwrap().current();
            obeyed(&case).is_err()
        });
        assert!(noticed, "no law noticed that {rule:?} was broken");
        if rule != Rule::DeleteOnlyOurs {
            let noticed = (0..5_000).any(|_| {
                let fate = super::round::fate().new_tree(&mut runner).unwrap().current();
                super::round::live(fate).is_err()
            });
            assert!(noticed, "no round noticed that {rule:?} was broken");
        }
        break_rule(None);
    }
}
