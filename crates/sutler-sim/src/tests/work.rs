//! Work that takes time.

use std::collections::BTreeSet;

use super::*;
use crate::{Appears, Call, Fault, Leaves, Planned};

#[tokio::test(start_paused = true)]
async fn a_create_is_a_task_with_progress_and_then_a_boot() {
    let sim = sim(slow_settings());
    let begun = Instant::now();
    let accepted = sim.create(request("web")).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    let (id, task) = (accepted.id.unwrap(), accepted.task.unwrap());
    let machine = shown(&sim, &id).await;
    assert_eq!((machine.busy, machine.power, machine.ips.len()), (true, Power::Off, 0));
    // Making takes ten seconds and starting ten more; two have passed with the look and this one.
    pass(3.0).await;
    match sim.task(&task).await.unwrap() {
        TaskState::Running { percent, message } => {
            assert_eq!(percent, Some(25));
            assert_eq!(message.as_deref(), Some("make the machine"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(ended(&sim, &task).await, TaskState::Done { id: Some(id.0.clone()) });
    let machine = shown(&sim, &id).await;
    assert_eq!((machine.busy, machine.power, machine.ips.len()), (false, Power::On, 0));
    pass(10.0).await;
    let machine = shown(&sim, &id).await;
    assert_eq!((machine.ips.len(), machine.hostname.as_deref()), (1, Some("web")));
    assert_eq!(sim.pending(), 0);
    assert!(sim.0.lock().timers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_tasks_a_call_waits_for_its_work() {
    let sim = sim(Settings { tasks: false, ..slow_settings() });
    let begun = Instant::now();
    let accepted = sim.create(request("web")).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(21));
    assert_eq!(accepted.task, None);
    let id = accepted.id.unwrap();
    assert_eq!(shown(&sim, &id).await.power, Power::On);
    let begun = Instant::now();
    assert_eq!(delete(&sim, &id, "web").await, Ok(None));
    assert_eq!(begun.elapsed(), Duration::from_secs(11));
    assert!(sim.is_empty());

    sim.plan(Planned::on(Call::Create, Fault::TaskFails(Leaves::Nothing)));
    assert_eq!(kind(sim.create(request("db")).await), ErrorKind::Failed);
    assert!(sim.is_empty());
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_when_its_caller_is_gone() {
    for tasks in [true, false] {
        let sim = sim(Settings { tasks, ..slow_settings() });
        abandon(sim.create(request("web"))).await;
        assert!(sim.is_empty(), "the request is still on its way");
        pass(40.0).await;
        let truth = sim.machines().remove(0);
        assert_eq!((truth.machine.power, truth.machine.ips.len()), (Power::On, 1));
        abandon(delete(&sim, &truth.machine.id, "web")).await;
        pass(40.0).await;
        assert!(sim.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_may_be_unseen_until_it_is_made_and_is_not_made_twice_meanwhile() {
    let sim = sim(Settings { appears: Appears::Made, ..slow_settings() });
    let first = sim.create(request("web")).await.unwrap();
    let id = first.id.clone().unwrap();
    assert_eq!(sim.describe(&id).await.unwrap(), None);
    assert!(listed(&sim).await.is_empty());
    assert!(sim.machines()[0].hidden);
    assert_eq!(sim.create(request("web")).await.unwrap(), first);
    pass(20.0).await;
    assert_eq!(listed(&sim).await, ["web"]);
    assert_eq!(sim.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_change_twice_is_one_and_another_one_meets_a_busy_machine() {
    let sim = sim(slow_settings());
    let id = make(&sim, "web").await;
    assert_eq!(kind(power(&sim, &id, "web", PowerOp::Off).await), ErrorKind::Conflict);
    pass(40.0).await;
    let shutdown = PowerOp::Shutdown { timeout: Duration::from_secs(60) };
    let first = power(&sim, &id, "web", shutdown).await.unwrap();
    assert_eq!(power(&sim, &id, "web", shutdown).await.unwrap(), first);
    assert_eq!(kind(power(&sim, &id, "web", PowerOp::Reboot).await), ErrorKind::Conflict);
    // Switching off does not wait for a guest that takes its time.
    let off = power(&sim, &id, "web", PowerOp::Off).await.unwrap();
    assert_ne!(off, first);
    assert!(matches!(ended(&sim, &first.unwrap()).await, TaskState::Failed(_)));
    assert_eq!(ended(&sim, &off.unwrap()).await, TaskState::Done { id: None });
    assert_eq!(shown(&sim, &id).await.power, Power::Off);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_shut_down_is_switched_off_in_time() {
    let mut settings = slow_settings();
    settings.work.shutdown = Duration::from_secs(100);
    let sim = sim(settings);
    let id = make(&sim, "web").await;
    pass(40.0).await;
    let shutdown = PowerOp::Shutdown { timeout: Duration::from_secs(5) };
    let task = power(&sim, &id, "web", shutdown).await.unwrap().unwrap();
    let begun = Instant::now();
    ended(&sim, &task).await;
    assert!(begun.elapsed() <= Duration::from_secs(7), "{:?}", begun.elapsed());
    assert_eq!(shown(&sim, &id).await.power, Power::Off);
}

#[tokio::test(start_paused = true)]
async fn deleting_ends_all_other_work_and_a_deletion_is_not_overtaken() {
    let sim = sim(slow_settings());
    let accepted = sim.create(request("web")).await.unwrap();
    let (id, make) = (accepted.id.unwrap(), accepted.task.unwrap());
    let task = delete(&sim, &id, "web").await.unwrap().unwrap();
    assert_eq!(delete(&sim, &id, "web").await.unwrap(), Some(task.clone()));
    assert_eq!(kind(sim.create(request("web")).await), ErrorKind::Conflict);
    assert_eq!(kind(power(&sim, &id, "web", PowerOp::Off).await), ErrorKind::Conflict);
    assert!(matches!(ended(&sim, &make).await, TaskState::Failed(_)));
    assert_eq!(ended(&sim, &task).await, TaskState::Done { id: None });
    pass(60.0).await;
    assert!(sim.is_empty() && sim.pending() == 0);
    assert_eq!(sim.create(request("web")).await.unwrap().id.unwrap().0, "vm-101");
}

#[tokio::test(start_paused = true)]
async fn old_tasks_are_forgotten() {
    let sim = sim(Settings { task_history: 2, ..slow_settings() });
    let mut tasks = Vec::new();
    for name in ["a", "b", "c"] {
        let task = sim.create(request(name)).await.unwrap().task.unwrap();
        ended(&sim, &task).await;
        tasks.push(task);
    }
    assert_eq!(sim.task(&tasks[0]).await.unwrap(), TaskState::Unknown);
    assert!(matches!(sim.task(&tasks[1]).await.unwrap(), TaskState::Done { .. }));
    assert_eq!(sim.task(&"job-1".into()).await.unwrap(), TaskState::Unknown);
}

#[tokio::test(start_paused = true)]
async fn times_vary_by_the_seed() {
    let mut seen = BTreeSet::new();
    for seed in [1, 1, 2] {
        let sim = sim(Settings { seed, jitter: 50, ..slow_settings() });
        let begun = Instant::now();
        let task = sim.create(request("web")).await.unwrap().task.unwrap();
        let called = begun.elapsed();
        assert!((500..=1500).contains(&called.as_millis()), "{called:?}");
        while sim.pending() > 0 {
            pass(0.01).await;
        }
        ended(&sim, &task).await;
        seen.insert(called);
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_boot_that_was_cut_short_brings_nothing_up() {
    let mut settings = Settings { ids: crate::Ids::Reused, ..Settings::default() };
    settings.work.boot = Duration::from_secs(10);
    let sim = sim(settings);
    let up = |sim: &Sim| !sim.machines()[0].machine.ips.is_empty();
    let id = make(&sim, "web").await;
    pass(5.0).await;
    power(&sim, &id, "web", PowerOp::Off).await.unwrap();
    power(&sim, &id, "web", PowerOp::On).await.unwrap();
    pass(6.0).await;
    assert!(!up(&sim));
    // Nor the next machine that has its ID.
    delete(&sim, &id, "web").await.unwrap();
    assert_eq!(sim.pending(), 0);
    assert_eq!(make(&sim, "db").await, id);
    pass(6.0).await;
    assert!(!up(&sim));
    pass(5.0).await;
    assert!(up(&sim));
}
