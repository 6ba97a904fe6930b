//! Making machines: at once, what is refused, and what is unique.

use sutler_provider::{Nic, UniqueBy};

use super::*;
use crate::{Call, Feature, HostSettings, Ids, Quota};

#[tokio::test(start_paused = true)]
async fn without_latency_a_machine_is_on_and_has_its_address_at_once() {
    let sim = quick();
    let begun = Instant::now();
    let accepted = sim.create(request("web")).await.unwrap();
    assert_eq!(accepted.task, None);
    let machine = shown(&sim, &accepted.id.unwrap()).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!((machine.power, machine.busy), (Power::On, false));
    assert_eq!(machine.token, Some(Token::new("web", 1)));
    assert_eq!(machine.installation.as_deref(), Some("here"));
    assert_eq!(machine.hostname.as_deref(), Some("web"));
    assert_eq!((machine.cpu, machine.memory_mib), (Some(2), Some(2048)));
    assert_eq!(machine.ips.len(), 1);
    assert!(machine.ips[0].starts_with("10."), "{:?}", machine.ips);
    assert_eq!(machine.tags, ["blue"]);
    assert_eq!(machine.created_at.unwrap().as_second(), 1_800_000_000);
    assert_eq!(machine.console_url.as_deref(), Some("sim://console/vm-100"));
    let sizes: Vec<_> =
        machine.disks.unwrap().iter().map(|disk| (disk.name.clone(), disk.size_gib)).collect();
    assert_eq!(sizes, [("root".to_owned(), 20), ("data".to_owned(), 5)]);
}

#[tokio::test(start_paused = true)]
async fn each_machine_has_addresses_of_its_own() {
    let sim = sim(Settings { ipv6: true, ..Settings::default() });
    let mut both = request("two");
    let nic = |name: &str, ip: Option<&str>| Nic {
        name: name.to_owned(),
        network: Some("lan".to_owned()),
        ip: ip.map(str::to_owned),
        ..Nic::default()
    };
    both.nics = vec![nic("a", None), nic("b", Some("192.168.7.7"))];
    make(&sim, "one").await;
    let two = sim.create(both).await.unwrap().id.unwrap();
    let machines = sim.machines();
    let mut all: Vec<_> = machines.iter().flat_map(|truth| truth.machine.ips.clone()).collect();
    assert_eq!(all.len(), 5, "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5, "{all:?}");
    let cards = shown(&sim, &two).await.interfaces.unwrap();
    assert_eq!(cards[1].ips, ["192.168.7.7"]);
    assert_ne!(cards[0].mac, cards[1].mac);
    assert_eq!(cards[0].network.as_deref(), Some("lan"));
}

#[tokio::test(start_paused = true)]
async fn what_no_hypervisor_takes_is_refused_by_field() {
    let hosts = vec![
        HostSettings {
            name: "a".to_owned(),
            cpu: 8,
            memory_mib: 4096,
            ..crate::HostSettings::default()
        },
        HostSettings {
            name: "b".to_owned(),
            cpu: 4,
            memory_mib: 8192,
            ..crate::HostSettings::default()
        },
    ];
    let sim = sim(Settings { hosts, name_limit: 10, ..Settings::default() });
    type Spoil = fn(&mut CreateRequest);
    let cases: [(&str, Spoil); 19] = [
        ("spec.resources.cpu", |r| r.class.as_mut().unwrap().cpu = 0),
        ("spec.resources.cpu", |r| r.class.as_mut().unwrap().cpu = 9),
        ("spec.resources.memoryMiB", |r| r.class.as_mut().unwrap().memory_mib = 0),
        ("spec.resources.memoryMiB", |r| r.class.as_mut().unwrap().memory_mib = 9000),
        ("spec.resources.memoryMiB", |r| r.class = Some(class(8, 8000))),
        ("spec.guestToolsPolicy", |r| {
            r.class.as_mut().unwrap().guest_tools = Some("uninstall".to_owned());
        }),
        ("metadata.name", |r| r.name = String::new()),
        ("metadata.name", |r| r.name = "Web".to_owned()),
        ("metadata.name", |r| r.name = "-web".to_owned()),
        ("metadata.name", |r| r.name = "web..x".to_owned()),
        ("metadata.name", |r| r.name = "webwebwebwe".to_owned()),
        ("spec.placement.host", |r| r.placement.host = Some("nowhere".to_owned())),
        ("spec.placement.zone", |r| r.placement.zone = Some("nowhere".to_owned())),
        ("spec.placement.cluster", |r| r.placement.cluster = Some("nowhere".to_owned())),
        ("spec.placement.datastore", |r| r.placement.datastore = Some("nowhere".to_owned())),
        ("spec.disks[data].sizeGiB", |r| r.disks[0].size_gib = 0),
        ("spec.disks", |r| r.disks[0].name = "root".to_owned()),
        ("spec.networks", |r| r.nics = vec![Nic::default()]),
        ("spec.networks[a].ipAddress", |r| {
            r.nics =
                vec![Nic { name: "a".to_owned(), ip: Some("here".to_owned()), ..Nic::default() }];
        }),
    ];
    for (field, spoil) in cases {
        let mut request = request("web");
        spoil(&mut request);
        let error = sim.create(request).await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some(field)), "{error}");
    }
    assert!(sim.is_empty());
    make(&sim, "web").await;
}

#[tokio::test(start_paused = true)]
async fn machines_go_to_the_emptiest_host_or_the_named_one_until_all_are_full() {
    let host = |name: &str, cpu| HostSettings {
        name: name.to_owned(),
        cpu,
        memory_mib: 1 << 20,
        ..crate::HostSettings::default()
    };
    let sim = sim(Settings { hosts: vec![host("a", 4), host("b", 8)], ..Settings::default() });
    let mut there = request("m0");
    there.placement.host = Some("b".to_owned());
    let id = sim.create(there).await.unwrap().id.unwrap();
    assert_eq!(shown(&sim, &id).await.host.as_deref(), Some("b"));
    for name in ["m1", "m2", "m3", "m4", "m5"] {
        make(&sim, name).await;
    }
    let used: Vec<_> = sim.hosts().await.unwrap().iter().map(|host| host.cpu_used).collect();
    assert_eq!(used, [4, 8]);
    assert_eq!(kind(sim.create(request("m6")).await), ErrorKind::Exhausted);
    let mut full = request("m6");
    full.placement.host = Some("a".to_owned());
    assert_eq!(kind(sim.create(full.clone()).await), ErrorKind::Exhausted);
    let on_a = sim.machines().into_iter().find(|m| m.machine.host.as_deref() == Some("a")).unwrap();
    delete(&sim, &on_a.machine.id, &on_a.machine.name).await.unwrap();
    sim.create(full).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn machines_go_where_they_are_to_be() {
    let host = |name: &str, zone: &str, store: &str| HostSettings {
        name: name.to_owned(),
        zone: Some(zone.to_owned()),
        cluster: Some(format!("cluster-{zone}")),
        datastores: vec![store.to_owned()],
        ..HostSettings::default()
    };
    let hosts = vec![host("a1", "a", "x"), host("b1", "b", "x"), host("b2", "b", "y")];
    let sim = sim(Settings { hosts, ..Settings::default() });
    type Wish = fn(&mut sutler_provider::Placement);
    let cases: [(&str, Wish, &str); 3] = [
        ("m1", |p| p.zone = Some("b".to_owned()), "b1"),
        ("m2", |p| p.cluster = Some("cluster-b".to_owned()), "b2"),
        ("m3", |p| p.datastore = Some("y".to_owned()), "b2"),
    ];
    for (name, wish, place) in cases {
        let mut there = request(name);
        wish(&mut there.placement);
        let id = sim.create(there).await.unwrap().id.unwrap();
        assert_eq!(shown(&sim, &id).await.host.as_deref(), Some(place), "{name}");
    }
    let mut torn = request("m4");
    torn.placement.zone = Some("a".to_owned());
    torn.placement.host = Some("b1".to_owned());
    assert_eq!(kind(sim.create(torn).await), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn the_quota_is_kept() {
    let quota = Quota { machines: Some(2), cpu: Some(5), memory_mib: None };
    let sim = sim(Settings { quota, ..Settings::default() });
    make(&sim, "a").await;
    let mut large = request("b");
    large.class = Some(class(4, 100));
    assert_eq!(kind(sim.create(large).await), ErrorKind::Exhausted);
    make(&sim, "b").await;
    let mut small = request("c");
    small.class = Some(class(1, 100));
    assert_eq!(kind(sim.create(small).await), ErrorKind::Exhausted);
    assert_eq!(sim.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn strict_platforms_know_their_templates() {
    let mut unknown = request("web");
    unknown.image.as_mut().unwrap().template = Some("windows-3.1".to_owned());
    let lenient = quick();
    lenient.create(unknown.clone()).await.unwrap();
    let strict = sim(Settings { strict_templates: true, ..Settings::default() });
    assert_eq!(kind(strict.create(unknown).await), ErrorKind::NotFound);
    make(&strict, "web").await;
    let templates = strict.templates().await.unwrap();
    assert_eq!(templates[0].name, "debian-13");
}

#[tokio::test(start_paused = true)]
async fn a_token_has_one_machine() {
    let sim = quick();
    let first = make(&sim, "web").await;
    assert_eq!(make(&sim, "web").await, first);
    let mut renamed = request("web");
    renamed.name = "other".to_owned();
    assert_eq!(sim.create(renamed).await.unwrap().id, Some(first.clone()));
    let mut stranger = request("web");
    stranger.owner = owner("somebody");
    assert_eq!(kind(sim.create(stranger.clone()).await), ErrorKind::Conflict);
    assert_eq!(sim.len(), 1);
    let loose = super::sim(Settings { unique_names: false, ..Settings::default() });
    make(&loose, "web").await;
    loose.create(stranger).await.unwrap();
    assert_eq!(loose.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_has_one_machine() {
    let sim = sim(Settings { unique_by: UniqueBy::Name, ..Settings::default() });
    let first = make(&sim, "web").await;
    assert_eq!(make(&sim, "web").await, first);
    let mut stranger = request("web");
    stranger.owner = owner("somebody");
    assert_eq!(kind(sim.create(stranger).await), ErrorKind::Conflict);
    let mut renamed = request("web");
    renamed.name = "other".to_owned();
    assert_ne!(sim.create(renamed).await.unwrap().id, Some(first));

    let bare =
        super::sim(Settings { unique_by: UniqueBy::Name, token: false, ..Settings::default() });
    make(&bare, "web").await;
    assert_eq!(kind(bare.create(request("web")).await), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_unique_a_second_request_makes_a_second_machine() {
    let sim = sim(Settings { unique_by: UniqueBy::None, ..Settings::default() });
    assert_ne!(make(&sim, "web").await, make(&sim, "web").await);
    assert_eq!(sim.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn ids_are_given_once_or_again() {
    for (ids, again) in [(Ids::Increasing, false), (Ids::Reused, true)] {
        let sim = sim(Settings { ids, ..Settings::default() });
        assert_eq!(sim.capabilities().await.unwrap().reuses_ids, again);
        let first = make(&sim, "a").await;
        make(&sim, "b").await;
        delete(&sim, &first, "a").await.unwrap();
        let third = make(&sim, "c").await;
        assert_eq!(third == first, again);
        // Whoever holds the old ID proves nothing with it.
        assert_eq!(delete(&sim, &first, "a").await.is_err(), again);
        assert_eq!(sim.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_platform_may_never_tell_ids() {
    let mut settings = slow_settings();
    settings.returns_id = false;
    let sim = sim(settings);
    let accepted = sim.create(request("web")).await.unwrap();
    assert_eq!(accepted.id, None);
    assert_eq!(ended(&sim, &accepted.task.unwrap()).await, TaskState::Done { id: None });
    assert_eq!(listed(&sim).await, ["web"]);
    assert!(!sim.capabilities().await.unwrap().returns_id);
}

#[tokio::test(start_paused = true)]
async fn what_is_lacking_is_unsupported_and_reported() {
    let without = [Feature::List, Feature::Snapshots, Feature::Pause, Feature::Addresses].into();
    let sim = sim(Settings { without, ..Settings::default() });
    let can = sim.capabilities().await.unwrap();
    assert!(!can.list && !can.snapshots && !can.memory_snapshots && !can.pause && can.clones);
    assert_eq!(kind(sim.list().await), ErrorKind::Unsupported);
    assert_eq!(sim.calls_of(Call::List), 0);
    let id = make(&sim, "web").await;
    assert_eq!(kind(power(&sim, &id, "web", PowerOp::Pause).await), ErrorKind::Unsupported);
    assert!(shown(&sim, &id).await.ips.is_empty());
}
