//! One table for each rule of the scheduler.

use std::collections::BTreeMap;

use sutler_scale::filters::{Guest, NodeFacts, Refusal, Site, check};
use sutler_scale::world::{
    Effect, HostPort, Labels, NodeTerm, Requirement, Resources, Selector, Shape, Spread, Taint,
    Term, Test, Toleration, VolumeNeed,
};

use crate::build::{app, labels, shape, term};

struct Host {
    name: &'static str,
    labels: Labels,
    taints: Vec<Taint>,
    unschedulable: bool,
    allocatable: Resources,
    guests: Vec<Shape>,
}

fn host(name: &'static str, zone: &str) -> Host {
    Host {
        name,
        labels: labels(&[("zone", zone), ("host", name)]),
        taints: Vec::new(),
        unschedulable: false,
        allocatable: Resources::new(1000, 1000),
        guests: Vec::new(),
    }
}

fn with(mut host: Host, guests: &[Shape]) -> Host {
    host.guests = guests.to_vec();
    host
}

fn ask(shape: &Shape, hosts: &[Host]) -> Result<(), Refusal> {
    ask_at(shape, 0, hosts)
}

fn ask_at(shape: &Shape, at: usize, hosts: &[Host]) -> Result<(), Refusal> {
    let sites: Vec<Site<'_>> = hosts
        .iter()
        .map(|host| Site {
            facts: NodeFacts {
                name: host.name,
                labels: &host.labels,
                taints: &host.taints,
                unschedulable: host.unschedulable,
            },
            allocatable: &host.allocatable,
            most_pods: 3,
            guests: host.guests.iter().map(|shape| Guest { shape, terminating: false }).collect(),
        })
        .collect();
    let namespaces: BTreeMap<String, Labels> =
        [("other".to_owned(), labels(&[("team", "t")]))].into();
    check(shape, at, &sites, &namespaces)
}

fn named(name: &str) -> Shape {
    Shape { labels: labels(&[("app", name)]), ..shape(0) }
}

#[test]
fn room_is_for_those_who_ask() {
    assert_eq!(ask(&shape(1000), &[host("n", "a")]), Ok(()));
    let refusal = ask(&shape(1001), &[host("n", "a")]).unwrap_err();
    assert_eq!(refusal.to_string(), "the node has 1000m of cpu left, and 1001m is asked for");
    let full = with(host("n", "a"), &[shape(1200)]);
    assert_eq!(ask(&shape(0), &[full]), Ok(()), "overcommitted, and nothing is asked for");
    let crowded = with(host("n", "a"), &[shape(0), shape(0), shape(0)]);
    assert_eq!(ask(&shape(0), &[crowded]), Err(Refusal::TooManyPods { most: 3 }));
}

#[test]
fn cordons_and_taints() {
    let mut node = host("n", "a");
    node.unschedulable = true;
    assert_eq!(ask(&shape(0), &[node]), Err(Refusal::Unschedulable));
    let mut tolerant = shape(0);
    tolerant.tolerations.push(Toleration::everything());
    let mut node = host("n", "a");
    (node.unschedulable, node.taints) = (true, vec![Taint::new("k", "v", Effect::NoExecute)]);
    assert_eq!(ask(&tolerant, &[node]), Ok(()));
    for (effect, allowed) in
        [(Effect::NoSchedule, false), (Effect::NoExecute, false), (Effect::PreferNoSchedule, true)]
    {
        let mut node = host("n", "a");
        node.taints.push(Taint::new("k", "v", effect));
        assert_eq!(ask(&shape(0), &[node]).is_ok(), allowed, "{effect:?}");
    }
}

#[test]
fn selectors_and_node_affinity_must_both_hold() {
    let mut wants = shape(0);
    wants.node_selector = labels(&[("zone", "a")]);
    assert_eq!(ask(&wants, &[host("n", "a")]), Ok(()));
    assert!(matches!(ask(&wants, &[host("n", "b")]), Err(Refusal::NodeSelector { .. })));
    let by_name = NodeTerm {
        labels: Vec::new(),
        name: vec![Requirement {
            key: "metadata.name".into(),
            test: Test::In(["m".into()].into()),
        }],
    };
    let by_zone = NodeTerm { labels: vec![Requirement::equals("zone", "b")], name: Vec::new() };
    wants.node_affinity = Some(vec![by_name, by_zone]);
    assert_eq!(ask(&wants, &[host("n", "a")]), Err(Refusal::NodeAffinity));
    assert_eq!(ask(&wants, &[host("m", "a")]), Ok(()), "one alternative is enough");
    wants.node_affinity = Some(Vec::new());
    assert_eq!(ask(&wants, &[host("m", "a")]), Err(Refusal::NodeAffinity), "none is none");
}

#[test]
fn ports_of_the_node() {
    let port = |ip: &str, protocol: &str, port: i32| {
        let mut shape = shape(0);
        let (ip, protocol) = (ip.to_owned(), protocol.to_owned());
        shape.ports.push(HostPort { protocol, ip, port });
        shape
    };
    let taken = [
        (port("0.0.0.0", "TCP", 80), false),
        (port("10.0.0.1", "TCP", 80), false),
        (port("0.0.0.0", "UDP", 80), true),
        (port("0.0.0.0", "TCP", 81), true),
    ];
    for (wants, fits) in taken {
        let node = with(host("n", "a"), &[port("0.0.0.0", "TCP", 80)]);
        assert_eq!(ask(&wants, &[node]).is_ok(), fits, "{wants:?}");
    }
    let node = with(host("n", "a"), &[port("10.0.0.1", "TCP", 80)]);
    assert_eq!(ask(&port("10.0.0.2", "TCP", 80), &[node]), Ok(()));
}

#[test]
fn volumes_are_where_they_are() {
    let mut wants = shape(0);
    wants.volumes.push(VolumeNeed::Bound {
        places: BTreeMap::new(),
        affinity: Some(vec![NodeTerm {
            labels: vec![Requirement::equals("zone", "b")],
            name: Vec::new(),
        }]),
    });
    assert!(matches!(ask(&wants, &[host("n", "a")]), Err(Refusal::Volume { why: None })));
    assert_eq!(ask(&wants, &[host("n", "b")]), Ok(()));
    wants.volumes = vec![VolumeNeed::Unmet { why: "claim c is not there".into() }];
    assert_eq!(ask(&wants, &[host("n", "a")]).unwrap_err().to_string(), "claim c is not there");
}

#[test]
fn anti_affinity_both_ways() {
    let mut lonely = named("web");
    lonely.anti_affinity.push(term("zone", "web"));
    let near = [host("n", "a"), with(host("m", "a"), &[named("web")])];
    assert_eq!(ask(&lonely, &near), Err(Refusal::AntiAffinity { key: "zone".into() }));
    let far = [host("n", "a"), with(host("m", "b"), &[named("web")])];
    assert_eq!(ask(&lonely, &far), Ok(()));
    // One that is there keeps away who comes.
    let there = [host("n", "a"), with(host("m", "a"), &[lonely.clone()])];
    assert_eq!(ask(&named("web"), &there), Err(Refusal::KeptAway { key: "zone".into() }));
    assert_eq!(ask(&named("db"), &there), Ok(()));
    // A node without the label is near nobody.
    let mut nowhere = host("n", "a");
    nowhere.labels.clear();
    let hosts = [nowhere, with(host("m", "a"), &[lonely.clone()])];
    assert_eq!(ask(&lonely, &hosts), Ok(()));
}

#[test]
fn namespaces_of_terms() {
    let elsewhere = Shape { namespace: "other".into(), ..named("web") };
    let by_label = |value: &str| Term {
        namespaces: Default::default(),
        namespace_selector: Some(Selector(vec![Requirement::equals("team", value)])),
        ..term("zone", "web")
    };
    for (term, meant) in [
        (term("zone", "web"), false),
        (Term { namespaces: ["other".to_owned()].into(), ..term("zone", "web") }, true),
        (by_label("t"), true),
        (by_label("u"), false),
        (Term { namespace_selector: Some(Selector::default()), ..term("zone", "web") }, true),
        (Term { selector: None, ..by_label("t") }, false),
    ] {
        let mut wants = named("db");
        wants.anti_affinity.push(term.clone());
        let hosts = [with(host("n", "a"), std::slice::from_ref(&elsewhere))];
        assert_eq!(ask(&wants, &hosts).is_err(), meant, "{term:?}");
    }
}

#[test]
fn affinity_needs_one_pod_that_all_terms_mean() {
    let mut wants = named("db");
    wants.affinity.push(term("zone", "web"));
    assert_eq!(ask(&wants, &[host("n", "a")]), Err(Refusal::Affinity { key: "zone".into() }));
    let near = [host("n", "a"), with(host("m", "a"), &[named("web")])];
    assert_eq!(ask(&wants, &near), Ok(()));
    // Two pods that meet one term each are not one that meets both.
    let mut both = wants.clone();
    both.affinity[0].selector = Some(Selector(vec![Requirement::equals("tier", "x")]));
    both.affinity.push(term("zone", "web"));
    let tier = Shape { labels: labels(&[("tier", "x")]), ..shape(0) };
    assert!(ask(&both, &[with(host("n", "a"), &[named("web"), tier])]).is_err());
    let one = Shape { labels: labels(&[("tier", "x"), ("app", "web")]), ..shape(0) };
    assert_eq!(ask(&both, &[with(host("n", "a"), &[one])]), Ok(()));
}

#[test]
fn the_first_of_a_series_may_go_anywhere() {
    let mut series = named("web");
    series.affinity.push(term("zone", "web"));
    assert_eq!(ask(&series, &[host("n", "a"), host("m", "b")]), Ok(()));
    let begun = [host("n", "a"), with(host("m", "b"), &[named("web")])];
    assert!(ask(&series, &begun).is_err(), "the second may not");
    let mut nowhere = host("n", "a");
    nowhere.labels.clear();
    assert!(ask(&series, &[nowhere]).is_err(), "and the place must have a name");
}

fn spread(max_skew: i32) -> Spread {
    Spread {
        topology_key: "zone".into(),
        max_skew,
        min_domains: 1,
        selector: app("web"),
        honour_affinity: true,
        honour_taints: false,
    }
}

#[test]
fn pods_are_spread_by_skew() {
    let mut wants = named("web");
    wants.spread.push(spread(1));
    let hosts = [with(host("n", "a"), &[named("web")]), host("m", "b")];
    let refusal = Refusal::Spread { key: "zone".into(), skew: 2, most: 1 };
    assert_eq!(ask(&wants, &hosts), Err(refusal));
    assert_eq!(ask_at(&wants, 1, &hosts), Ok(()));
    wants.spread[0].max_skew = 2;
    assert_eq!(ask(&wants, &hosts), Ok(()));
    // One that is not counted itself adds nothing.
    let other = Shape { labels: labels(&[("app", "db")]), spread: vec![spread(1)], ..shape(0) };
    assert_eq!(ask(&other, &hosts), Ok(()));
    let mut nowhere = host("n", "a");
    nowhere.labels.clear();
    assert_eq!(ask(&wants, &[nowhere]), Err(Refusal::SpreadLabel { key: "zone".into() }));
}

#[test]
fn few_places_count_as_having_an_empty_one() {
    let mut wants = named("web");
    wants.spread.push(Spread { min_domains: 3, ..spread(1) });
    let hosts = || [with(host("n", "a"), &[named("web")]), with(host("m", "b"), &[named("web")])];
    assert!(ask(&wants, &hosts()).is_err());
    wants.spread[0].min_domains = 2;
    assert_eq!(ask(&wants, &hosts()), Ok(()));
}

#[test]
fn which_nodes_count_for_spreading() {
    let mut wants = named("web");
    wants.spread.push(spread(1));
    let mut hosts = [with(host("n", "a"), &[named("web")]), host("m", "b")];
    hosts[1].taints.push(Taint::new("k", "", Effect::NoSchedule));
    assert!(ask(&wants, &hosts).is_err(), "taints are not looked at unless it says so");
    wants.spread[0].honour_taints = true;
    assert_eq!(ask(&wants, &hosts), Ok(()));
    wants.spread[0].honour_taints = false;
    wants.node_selector = labels(&[("zone", "a")]);
    assert_eq!(ask(&wants, &hosts), Ok(()), "what cannot be chosen does not count");
    wants.spread[0].honour_affinity = false;
    assert!(ask(&wants, &hosts).is_err());
}
