//! Faults that strike calls.

use futures::FutureExt as _;
use proptest::prelude::*;
use sutler_provider::UniqueBy;

use super::*;
use crate::{Call, Cause, Chances, Fault, Happened, Leaves, Outage, Planned};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_applies_nothing() {
    let sim = quick();
    sim.plan(Planned::on(Call::Create, Fault::Refuse(ErrorKind::Unavailable)).about("web"));
    make(&sim, "db").await;
    assert_eq!(kind(sim.create(request("web")).await), ErrorKind::Unavailable);
    assert_eq!(sim.len(), 1);
    make(&sim, "web").await;
}

#[tokio::test(start_paused = true)]
async fn faults_are_planned_by_a_machines_name_or_id() {
    let sim = quick();
    let id = make(&sim, "web").await;
    sim.plan(Planned::on(Call::Describe, Fault::Refuse(ErrorKind::Denied)).about("web"));
    assert_eq!(kind(sim.describe(&id).await), ErrorKind::Denied);
    sim.plan(Planned::any(Fault::Refuse(ErrorKind::Denied)).about(&*id.0));
    assert_eq!(kind(delete(&sim, &id, "web").await), ErrorKind::Denied);
    assert_eq!(sim.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_can_come_after_the_fact() {
    let sim = quick();
    sim.plan(Planned::on(Call::Create, Fault::ErrorAfter));
    assert_eq!(kind(sim.create(request("web")).await), ErrorKind::Indeterminate);
    assert_eq!(listed(&sim).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_can_be_lost() {
    let sim = quick();
    sim.plan(Planned::on(Call::Create, Fault::LostReply));
    let patience = tokio::time::timeout(secs(300), sim.create(request("web")));
    assert!(patience.await.is_err());
    assert_eq!(listed(&sim).await, ["web"]);
    sim.plan(Planned::on(Call::List, Fault::LostReply));
    assert!(tokio::time::timeout(secs(300), sim.list()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_can_be_applied_late_but_within_its_deadline() {
    let mut settings = slow_settings();
    settings.deadlines.make = secs(100);
    for hang in [false, true] {
        let sim = sim(settings.clone());
        sim.plan(Planned::on(Call::Create, Fault::Late { by: secs(1000), hang }));
        let call = tokio::time::timeout(secs(50), sim.create(request("web"))).await;
        match hang {
            true => assert!(call.is_err()),
            false => {
                assert_eq!(kind(call.unwrap()), ErrorKind::Indeterminate);
                pass(50.0).await;
            }
        }
        pass(49.0).await;
        assert!(sim.is_empty());
        pass(1.5).await;
        assert_eq!(sim.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_can_be_executed_twice() {
    for (unique_by, machines) in [(UniqueBy::None, 2), (UniqueBy::Token, 1), (UniqueBy::Name, 1)] {
        let sim = sim(Settings { unique_by, history: true, ..Settings::default() });
        sim.plan(Planned::on(Call::Create, Fault::Duplicate { after: secs(9) }));
        let id = make(&sim, "web").await;
        assert_eq!(sim.len(), 1);
        pass(10.0).await;
        assert_eq!(sim.len(), machines, "{unique_by:?}");
        sim.plan(Planned::on(Call::Delete, Fault::Duplicate { after: secs(9) }));
        delete(&sim, &id, "web").await.unwrap();
        pass(10.0).await;
        assert_eq!(sim.len(), machines - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_delete_does_not_hit_the_id_s_next_holder() {
    let sim = sim(Settings { ids: crate::Ids::Reused, ..Settings::default() });
    let id = make(&sim, "web").await;
    sim.plan(Planned::on(Call::Delete, Fault::Duplicate { after: secs(9) }));
    delete(&sim, &id, "web").await.unwrap();
    assert_eq!(make(&sim, "db").await, id);
    pass(10.0).await;
    assert_eq!(listed(&sim).await, ["db"]);
}

#[tokio::test(start_paused = true)]
async fn an_id_can_be_kept_back() {
    let sim = sim(slow_settings());
    sim.plan(Planned::on(Call::Create, Fault::NoId));
    let accepted = sim.create(request("web")).await.unwrap();
    assert_eq!((accepted.id, accepted.task), (None, None));
    assert_eq!(listed(&sim).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_can_fail_and_leave_nothing_or_something_half_made() {
    for leaves in [Leaves::Nothing, Leaves::Broken] {
        let sim = sim(slow_settings());
        sim.plan(Planned::on(Call::Create, Fault::TaskFails(leaves)));
        let accepted = sim.create(request("web")).await.unwrap();
        let (id, task) = (accepted.id.unwrap(), accepted.task.unwrap());
        pass(16.5).await;
        match sim.task(&task).await.unwrap() {
            TaskState::Running { percent: Some(percent), .. } => {
                assert!((80..90).contains(&percent), "{percent}");
            }
            other => panic!("{other:?}"),
        }
        match ended(&sim, &task).await {
            TaskState::Failed(error) => assert_eq!(error.kind(), ErrorKind::Failed),
            other => panic!("{other:?}"),
        }
        pass(600.0).await;
        if leaves == Leaves::Nothing {
            assert!(sim.is_empty());
            continue;
        }
        let machine = shown(&sim, &id).await;
        assert_eq!((machine.busy, machine.power), (true, Power::Off));
        assert!(sim.machines()[0].broken);
        assert_eq!(sim.create(request("web")).await.unwrap().id, Some(id.clone()));
        assert_eq!(kind(power(&sim, &id, "web", PowerOp::On).await), ErrorKind::Conflict);
        let task = delete(&sim, &id, "web").await.unwrap().unwrap();
        ended(&sim, &task).await;
        assert!(sim.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn other_work_can_fail_too_even_where_it_takes_no_time() {
    let sim = quick();
    let id = make(&sim, "web").await;
    sim.plan(Planned::on(Call::Power, Fault::TaskFails(Leaves::Nothing)));
    let task = power(&sim, &id, "web", PowerOp::Off).await.unwrap().unwrap();
    assert!(matches!(ended(&sim, &task).await, TaskState::Failed(_)));
    let machine = shown(&sim, &id).await;
    assert_eq!((machine.power, machine.busy), (Power::On, false));
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_nothing_is_answered_and_work_goes_on() {
    let sim = sim(slow_settings());
    let id = make(&sim, "web").await;
    sim.outage(Outage { hang: false, lasts: None });
    assert_eq!(kind(sim.validate().await), ErrorKind::Unavailable);
    assert_eq!(kind(sim.list().await), ErrorKind::Unavailable);
    assert_eq!(kind(delete(&sim, &id, "web").await), ErrorKind::Unavailable);
    pass(40.0).await;
    sim.end_outage();
    assert_eq!(shown(&sim, &id).await.power, Power::On);
    sim.outage(Outage { hang: true, lasts: Some(secs(30)) });
    assert!(tokio::time::timeout(secs(20), delete(&sim, &id, "web")).await.is_err());
    pass(10.0).await;
    assert_eq!(listed(&sim).await, ["web"]);
    assert!(sim.describe(&id).now_or_never().is_none(), "calls take time again");
}

#[tokio::test(start_paused = true)]
async fn calm_ends_all_faults() {
    let sim = quick();
    sim.plan(Planned::any(Fault::LostReply).times(99));
    sim.set_chances(Chances { refuse: 1.0, ..Chances::default() });
    sim.outage(Outage { hang: true, lasts: None });
    sim.set_host_online("sim-1", false);
    sim.calm();
    make(&sim, "web").await;
    assert!(sim.list().await.unwrap().complete);
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted() {
    let sim = quick();
    let id = make(&sim, "web").await;
    for _ in 0..3 {
        sim.list().await.unwrap();
    }
    sim.plan(Planned::on(Call::Describe, Fault::Refuse(ErrorKind::Unavailable)));
    assert!(sim.describe(&id).await.is_err());
    assert_eq!(
        sim.calls().into_iter().collect::<Vec<_>>(),
        [(Call::Create, 1), (Call::Describe, 1), (Call::List, 3)]
    );
}

fn storm(seed: u64) -> Settings {
    let mut settings = slow_settings();
    settings.seed = seed;
    settings.list_lag = secs(5);
    settings.jitter = 30;
    settings.faults = Chances {
        refuse: 0.1,
        error_after: 0.1,
        lost_reply: 0.1,
        late: 0.2,
        duplicate: 0.2,
        no_id: 0.1,
        task_fails: 0.05,
        task_breaks: 0.05,
        lag: 0.5,
        partial: 0.2,
        ..Chances::default()
    };
    settings
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The rule that "look before create" stands on.
    #[test]
    fn what_a_create_did_shows_within_its_deadline(
        seed in any::<u64>(),
        appears in prop::sample::select(vec![crate::Appears::Accepted, crate::Appears::Made]),
        unique_by in prop::sample::select(vec![UniqueBy::Token, UniqueBy::Name, UniqueBy::None]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let sim = sim(Settings { appears, unique_by, ..storm(seed) });
            let can = sim.capabilities();
            let can = tokio::time::timeout(secs(60), can).await.ok().and_then(Result::ok);
            let can = can.unwrap_or_else(|| crate::capabilities::of(sim.settings()));
            for index in 0..20 {
                abandon(sim.create(request(&format!("m{index}")))).await;
            }
            let sent = Instant::now();
            tokio::time::sleep_until(sent + can.deadlines.make + can.list_lag).await;
            sim.calm();
            let seen = listed(&sim).await;
            let made = sim.history().iter().filter(|change| change.what == Happened::Made).count();
            tokio::time::sleep(secs(3600)).await;
            let later = sim.history();
            prop_assert_eq!(later.iter().filter(|c| c.what == Happened::Made).count(), made);
            prop_assert!(later.iter().any(|c| c.cause == Cause::Call(Call::Create)));
            for truth in sim.machines() {
                prop_assert!(seen.contains(&truth.machine.name));
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_unique_token_never_has_two_machines(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let sim = sim(storm(seed));
            for index in 0..60 {
                abandon(sim.create(request(&format!("m{}", index % 5)))).await;
                pass(1.0).await;
            }
            pass(600.0).await;
            let mut alive = std::collections::BTreeMap::new();
            for change in sim.history() {
                let count: &mut i32 = alive.entry(change.token).or_default();
                match change.what {
                    Happened::Made => *count += 1,
                    Happened::Gone => *count -= 1,
                    Happened::Changed => {}
                }
                prop_assert!((0..=1).contains(count));
            }
            Ok(())
        })?;
    }
}
