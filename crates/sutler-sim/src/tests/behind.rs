//! What happens behind our back.

use super::*;
use crate::{Cause, Chances, Foreign, Happened, Ids, OutageChance, Tamper};

#[tokio::test(start_paused = true)]
async fn machines_change_without_us() {
    let sim = quick();
    let id = make(&sim, "web").await;
    for tamper in [
        Tamper::Power(Power::Off),
        Tamper::Cpu(7),
        Tamper::Memory(77),
        Tamper::Disk("data".to_owned(), 1),
        Tamper::Tags(vec!["red".to_owned()]),
        Tamper::Rename("gone".to_owned()),
        Tamper::Token(Some((Token::new("thief", 1), "there".to_owned()))),
    ] {
        sim.tamper(&id, tamper).unwrap();
    }
    let machine = shown(&sim, &id).await;
    assert_eq!((machine.power, machine.cpu, machine.memory_mib), (Power::Off, Some(7), Some(77)));
    assert_eq!((machine.name.as_str(), machine.tags[0].as_str()), ("gone", "red"));
    assert_eq!(machine.disks.unwrap()[1].size_gib, 1);
    assert_eq!(kind(delete(&sim, &id, "web").await), ErrorKind::Conflict);
    sim.tamper(&id, Tamper::Delete).unwrap();
    assert_eq!(sim.describe(&id).await.unwrap(), None);
    assert_eq!(kind(sim.tamper(&id, Tamper::Cpu(1))), ErrorKind::NotFound);
    let last = sim.history().pop().unwrap();
    assert_eq!((last.what, last.cause), (Happened::Gone, Cause::Outside));
    // Its name and its token are free again.
    make(&sim, "web").await;
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_machine_takes_a_dead_ones_id() {
    let sim = sim(Settings { ids: Ids::Reused, ..Settings::default() });
    let id = make(&sim, "web").await;
    sim.tamper(&id, Tamper::Delete).unwrap();
    assert_eq!(sim.appear(Foreign::named("web")).unwrap(), id);
    assert_eq!(shown(&sim, &id).await.token, None);
    assert_eq!(kind(delete(&sim, &id, "web").await), ErrorKind::Conflict);
    assert_eq!(kind(sim.create(request("web")).await), ErrorKind::Conflict);
    let there = Foreign {
        id: Some("vm-7".into()),
        token: Some((Token::new("web", 1), "there".to_owned())),
        ..Foreign::named("other")
    };
    assert_eq!(sim.appear(there.clone()).unwrap().0, "vm-7");
    assert_eq!(kind(sim.appear(there)), ErrorKind::Conflict);
    assert_eq!(kind(delete(&sim, &"vm-7".into(), "web").await), ErrorKind::Conflict);
    assert_eq!(sim.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn ids_that_came_from_outside_are_not_given_again() {
    let sim = quick();
    let foreign = Foreign { id: Some("vm-102".into()), ..Foreign::named("x") };
    let id = sim.appear(foreign).unwrap();
    sim.tamper(&id, Tamper::Delete).unwrap();
    let mut given = Vec::new();
    for name in ["a", "b", "c", "d"] {
        given.push(make(&sim, name).await);
    }
    assert!(!given.contains(&id), "{given:?}");
}

#[tokio::test(start_paused = true)]
async fn chance_brings_changes_foreigners_and_outages() {
    let chances = Chances {
        tamper: 0.2,
        vanish: 0.05,
        foreign: 0.1,
        outage: OutageChance { chance: 0.05, lasts: Duration::from_secs(5), hang: false },
        ..Chances::default()
    };
    let sim = sim(Settings { faults: chances, history: true, ..Settings::default() });
    let mut refused = 0;
    for index in 0..300 {
        refused += u32::from(sim.create(request(&format!("m{index}"))).await.is_err());
        pass(1.0).await;
    }
    let count = |what: Happened| {
        let outside = |c: &&crate::Change| c.cause == Cause::Outside && c.what == what;
        sim.history().iter().filter(outside).count()
    };
    assert!((30..90).contains(&count(Happened::Changed)), "{}", count(Happened::Changed));
    assert!((4..30).contains(&count(Happened::Gone)), "{}", count(Happened::Gone));
    assert!((10..60).contains(&count(Happened::Made)), "{}", count(Happened::Made));
    assert!((20..150).contains(&refused), "{refused}");
    let foreign: Vec<_> =
        sim.machines().into_iter().filter(|t| t.machine.name.starts_with("foreign-")).collect();
    assert!(foreign.iter().any(|t| t.machine.token.is_none()));
    assert!(foreign.iter().any(|t| t.machine.installation.as_deref() == Some("elsewhere")));
}

#[tokio::test(start_paused = true)]
async fn machines_can_be_seeded_and_all_taken_away() {
    let sim = quick();
    let mut given = Machine::new("vm-105", "old", Power::On);
    given.ips = vec!["192.0.2.7".to_owned()];
    given.token = Some(Token::new("old", 1));
    given.installation = Some("here".to_owned());
    given.cpu = Some(4);
    sim.seed([given.clone(), Machine::new("anything", "odd", Power::Off)]).unwrap();
    let machine = shown(&sim, &"vm-105".into()).await;
    assert_eq!((machine.ips.clone(), machine.cpu), (given.ips.clone(), Some(4)));
    assert_eq!(shown(&sim, &"anything".into()).await.ips, Vec::<String>::new());
    assert_eq!(kind(sim.seed([given])), ErrorKind::Conflict);
    assert_eq!(sim.create(request("old")).await.unwrap().id, Some("vm-105".into()));
    delete(&sim, &"vm-105".into(), "old").await.unwrap();
    make(&sim, "web").await;
    sim.reset().unwrap();
    assert!(sim.is_empty() && sim.history().is_empty() && sim.calls().is_empty());
    assert!(make(&sim, "web").await > MachineId::from("vm-106"), "IDs stay spent");
}

#[tokio::test(start_paused = true)]
async fn outlandish_numbers_are_borne() {
    let sim = quick();
    let huge = |id: &str| {
        let mut machine = Machine::new(id, id, Power::On);
        (machine.cpu, machine.memory_mib) = (Some(u32::MAX), Some(u64::MAX));
        machine
    };
    sim.seed([huge("vm-18446744073709551615"), huge("b"), huge("c")]).unwrap();
    let id = make(&sim, "web").await;
    sim.tamper(&id, Tamper::Memory(u64::MAX)).unwrap();
    sim.tamper(&id, Tamper::Disk("data".to_owned(), u64::MAX)).unwrap();
    sim.hosts().await.unwrap();
    sim.outage(crate::Outage { hang: false, lasts: Some(Duration::MAX) });
    assert_eq!(kind(sim.list().await), ErrorKind::Unavailable);
    sim.reset().unwrap();
    let mut settings = slow_settings();
    settings.work.boot = Duration::MAX;
    settings.jitter = 100;
    let sim = super::sim(settings.clone());
    make(&sim, "web").await;
    pass(100.0).await;
    settings.work.create = Duration::MAX;
    settings.tasks = false;
    let error = Sim::in_memory(settings, clock()).err().unwrap();
    assert_eq!(error.field(), Some("spec.options.work.create"));
}

#[tokio::test(start_paused = true)]
async fn what_fails_half_way_leaves_nothing() {
    let host = crate::HostSettings {
        name: "a".to_owned(),
        cpu: 2,
        memory_mib: 4096,
        ..crate::HostSettings::default()
    };
    let settings = Settings { ids: Ids::Reused, hosts: vec![host], ..Settings::default() };
    let sim = super::sim(settings);
    make(&sim, "web").await;
    let before = sim.0.lock().state.clone();
    assert_eq!(kind(sim.appear(Foreign::named("late"))), ErrorKind::Exhausted);
    let twice = [Machine::new("a", "a", Power::On), Machine::new("a", "b", Power::On)];
    assert_eq!(kind(sim.seed(twice)), ErrorKind::Conflict);
    let after = sim.0.lock().state.clone();
    assert_eq!(after, before);
}
