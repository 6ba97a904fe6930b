//! Lists that lag or lack machines, and events.

use futures::{FutureExt as _, StreamExt as _};
use sutler_provider::Event;

use super::*;
use crate::{Call, Fault, Feature, HostSettings, Outage, Planned, Tamper};

fn lagging(seconds: u64) -> Sim {
    let list_lag = Duration::from_secs(seconds);
    sim(Settings { list_lag, ..Settings::default() })
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_what_was() {
    let sim = lagging(10);
    assert_eq!(sim.capabilities().await.unwrap().list_lag, Duration::from_secs(10));
    let id = make(&sim, "web").await;
    pass(4.0).await;
    let off = Tamper::Power(Power::Off);
    sim.tamper(&id, off).unwrap();
    pass(5.0).await;
    assert!(listed(&sim).await.is_empty(), "nothing was there ten seconds ago");
    assert_eq!(shown(&sim, &id).await.power, Power::Off);
    pass(1.5).await;
    assert_eq!(sim.list().await.unwrap().machines[0].power, Power::On);
    pass(5.0).await;
    assert_eq!(sim.list().await.unwrap().machines[0].power, Power::Off);
    delete(&sim, &id, "web").await.unwrap();
    pass(9.0).await;
    assert_eq!(listed(&sim).await, ["web"]);
    pass(1.5).await;
    let listing = sim.list().await.unwrap();
    assert!(listing.machines.is_empty() && listing.complete);
}

#[tokio::test(start_paused = true)]
async fn a_list_never_lags_more_than_it_may() {
    let sim = lagging(10);
    make(&sim, "web").await;
    pass(5.0).await;
    sim.plan(Planned::on(Call::List, Fault::Lag(Duration::from_secs(2))));
    assert_eq!(listed(&sim).await, ["web"]);
    pass(6.0).await;
    sim.plan(Planned::on(Call::List, Fault::Lag(Duration::from_secs(60))));
    assert_eq!(listed(&sim).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_as_of_its_beginning() {
    let mut settings = slow_settings();
    settings.latency.list = Duration::from_secs(2);
    let sim = sim(settings);
    let (listing, _) = tokio::join!(listed(&sim), sim.create(request("web")));
    assert!(listing.is_empty());
    assert_eq!(listed(&sim).await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_lacks_machines_says_so() {
    let sim = quick();
    for index in 0..40 {
        make(&sim, &format!("m{index}")).await;
    }
    sim.plan(Planned::on(Call::List, Fault::Partial(50)));
    let listing = sim.list().await.unwrap();
    assert!(!listing.complete);
    assert!((5..35).contains(&listing.machines.len()), "{}", listing.machines.len());
    let listing = sim.list().await.unwrap();
    assert!(listing.complete && listing.machines.len() == 40);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_hides_its_machines() {
    let host = |name: &str| HostSettings {
        name: name.to_owned(),
        cpu: 64,
        memory_mib: 1 << 20,
        ..crate::HostSettings::default()
    };
    let sim = sim(Settings { hosts: vec![host("a"), host("b")], ..Settings::default() });
    let (first, second) = (make(&sim, "m1").await, make(&sim, "m2").await);
    sim.set_host_online("a", false);
    let listing = sim.list().await.unwrap();
    assert_eq!((listing.complete, listing.machines.len()), (false, 1));
    assert_eq!(kind(sim.describe(&first).await), ErrorKind::Unavailable);
    assert_eq!(shown(&sim, &second).await.name, "m2");
    let online: Vec<_> = sim.hosts().await.unwrap().iter().map(|host| host.online).collect();
    assert_eq!(online, [false, true]);
    for name in ["m3", "m4"] {
        let id = make(&sim, name).await;
        assert_eq!(shown(&sim, &id).await.host.as_deref(), Some("b"));
    }
    sim.set_host_online("a", true);
    assert!(sim.list().await.unwrap().complete);
}

#[tokio::test(start_paused = true)]
async fn events_follow_one_machine_from_birth_to_death() {
    let sim = sim(slow_settings());
    let mut events = sim.events().await.unwrap();
    let id = make(&sim, "web").await;
    pass(60.0).await;
    delete(&sim, &id, "web").await.unwrap();
    pass(60.0).await;
    let mut told = Vec::new();
    while let Some(Some(event)) = events.next().now_or_never() {
        told.push(match event {
            Event::Changed(machine) => (machine.power, machine.busy, machine.ips.len()),
            Event::Gone(gone) => {
                assert_eq!(gone, id);
                (Power::Unknown, false, 0)
            }
            Event::Lost => panic!("nothing was lost"),
        });
    }
    assert_eq!(
        told,
        [
            (Power::Off, true, 0),
            (Power::On, false, 0),
            (Power::On, false, 1),
            (Power::On, true, 1),
            (Power::Unknown, false, 0),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_listener_is_told_that_events_were_lost() {
    let sim = sim(Settings { event_buffer: 4, ..Settings::default() });
    let mut events = sim.events().await.unwrap();
    for index in 0..9 {
        make(&sim, &format!("m{index}")).await;
    }
    assert_eq!(events.next().await, Some(Event::Lost));
    match events.next().await {
        Some(Event::Changed(machine)) => assert_eq!(machine.name, "m5"),
        other => panic!("{other:?}"),
    }
    sim.lose_events();
    assert_eq!(events.by_ref().skip(3).next().await, Some(Event::Lost));
    sim.outage(Outage { hang: false, lasts: None });
    assert_eq!(events.next().await, None, "the stream ends with the platform");
}

#[tokio::test(start_paused = true)]
async fn events_can_be_lacking() {
    let sim = sim(Settings { without: [Feature::Events].into(), ..Settings::default() });
    assert!(matches!(sim.events().await, Err(error) if error.kind() == ErrorKind::Unsupported));
    assert!(!sim.capabilities().await.unwrap().events);
}

/// Not a benchmark: with twenty-five thousand machines a test that takes a scan per call would take
/// minutes.
#[tokio::test(start_paused = true)]
async fn twenty_five_thousand_machines_are_no_burden() {
    let sim = sim(Settings { list_lag: Duration::from_secs(5), ..Settings::default() });
    let mut last = None;
    for index in 0..25_000 {
        last = Some(make(&sim, &format!("m{index}")).await);
    }
    let last = last.unwrap();
    for _ in 0..25_000 {
        assert_eq!(shown(&sim, &last).await.name, "m24999");
    }
    pass(6.0).await;
    for _ in 0..5 {
        assert_eq!(sim.list().await.unwrap().machines.len(), 25_000);
    }
}
