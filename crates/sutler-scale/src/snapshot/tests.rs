//! Holds the counts against the plain filters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::filters::{self, Guest};
use crate::world::{
    Effect, Key, NodeTerm, Owner, Pod, PodPlace, Requirement, Selector, Spread, Test, Toleration,
    World,
};

fn text(text: &str) -> String {
    text.to_owned()
}

fn labels() -> impl Strategy<Value = Labels> {
    let app = prop::option::of(prop::sample::select(vec!["a", "b"]));
    let tier = prop::option::of(prop::sample::select(vec!["x", "y"]));
    (app, tier).prop_map(|(app, tier)| {
        let app = app.map(|app| (text("app"), text(app)));
        app.into_iter().chain(tier.map(|tier| (text("tier"), text(tier)))).collect()
    })
}

fn selector() -> impl Strategy<Value = Option<Selector>> {
    let one = prop::sample::select(vec![
        Requirement::equals("app", "a"),
        Requirement::equals("app", "b"),
        Requirement::equals("tier", "x"),
        Requirement { key: text("tier"), test: Test::Exists },
        Requirement { key: text("app"), test: Test::NotIn([text("a")].into()) },
    ]);
    prop::option::weighted(0.9, prop::collection::vec(one, 0..2).prop_map(Selector))
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec![text("zone"), text("host"), text("none")])
}

fn term() -> impl Strategy<Value = Term> {
    let namespaces = prop::sample::subsequence(vec![text("n1"), text("n2")], 0..=2);
    let by_label = prop::option::weighted(
        0.3,
        prop::sample::select(vec![
            Selector::default(),
            Selector(vec![Requirement::equals("team", "t")]),
        ]),
    );
    (key(), selector(), namespaces, by_label).prop_map(
        |(topology_key, selector, namespaces, namespace_selector)| Term {
            topology_key,
            selector,
            namespaces: namespaces.into_iter().collect(),
            namespace_selector,
        },
    )
}

fn spread() -> impl Strategy<Value = Spread> {
    (key(), 1..3i32, 1..4i32, selector(), any::<bool>(), any::<bool>()).prop_map(
        |(topology_key, max_skew, min_domains, selector, honour_affinity, honour_taints)| Spread {
            topology_key,
            max_skew,
            min_domains,
            selector,
            honour_affinity,
            honour_taints,
        },
    )
}

fn shape() -> impl Strategy<Value = Shape> {
    let zone = prop::option::weighted(0.2, prop::sample::select(vec![text("z1"), text("z2")]));
    let port = prop::option::weighted(0.2, 1..3i32);
    let rules = (
        prop::collection::vec(term(), 0..2),
        prop::collection::vec(term(), 0..2),
        prop::collection::vec(spread(), 0..2),
    );
    let namespace = prop::sample::select(vec![text("n1"), text("n2")]);
    (namespace, labels(), 0..4i64, zone, port, any::<bool>(), rules).prop_map(
        |(namespace, labels, cpu, zone, port, tolerates, (affinity, anti_affinity, spread))| {
            Shape {
                namespace,
                labels,
                requests: Resources::new(cpu, cpu * 2),
                node_affinity: zone.map(|zone| {
                    vec![NodeTerm {
                        labels: vec![Requirement::equals("zone", &zone)],
                        name: vec![],
                    }]
                }),
                tolerations: tolerates.then(Toleration::everything).into_iter().collect(),
                affinity,
                anti_affinity,
                spread,
                ports: port
                    .map(|port| HostPort { protocol: text("TCP"), ip: text("0.0.0.0"), port })
                    .into_iter()
                    .collect(),
                unmodelled: BTreeSet::new(),
                ..Shape::default()
            }
        },
    )
}

#[derive(Clone, Debug)]
struct Case {
    shapes: Vec<Shape>,
    nodes: Vec<(Option<u8>, bool, bool)>,
    /// Shape, node, whether it is on its way out.
    pods: Vec<(usize, usize, bool)>,
    /// Shape and node that are tried out and taken back before asking.
    tried: Vec<(usize, usize)>,
}

fn case() -> impl Strategy<Value = Case> {
    let shapes = prop::collection::vec(shape(), 1..5);
    let nodes =
        prop::collection::vec((prop::option::of(0..3u8), any::<bool>(), any::<bool>()), 1..5);
    let pods = prop::collection::vec((0..5usize, 0..5usize, any::<bool>()), 0..10);
    let tried = prop::collection::vec((0..5usize, 0..5usize), 0..4);
    (shapes, nodes, pods, tried).prop_map(|(shapes, nodes, pods, tried)| Case {
        pods: pods.iter().map(|(s, n, t)| (s % shapes.len(), n % nodes.len(), *t)).collect(),
        tried: tried.iter().map(|(s, n)| (s % shapes.len(), n % nodes.len())).collect(),
        shapes,
        nodes,
    })
}

fn new_site(number: usize, (zone, tainted, named): (Option<u8>, bool, bool)) -> NewSite {
    let mut labels = Labels::new();
    labels.extend(zone.map(|zone| (text("zone"), format!("z{zone}"))));
    labels.extend(named.then(|| (text("host"), format!("h{number}"))));
    let taint = tainted.then(|| Taint::new("dedicated", "", Effect::NoSchedule));
    NewSite {
        name: format!("node{number}"),
        labels: Arc::new(labels),
        taints: taint.into_iter().collect(),
        unschedulable: false,
        allocatable: Resources::new(8, 16),
        pods: 5,
        template: None,
    }
}

fn check(case: &Case, prepare_first: bool) -> Result<(), TestCaseError> {
    let mut world = World::default();
    world.namespaces.insert(text("n2"), [(text("team"), text("t"))].into());
    let shapes: Vec<Arc<Shape>> = case.shapes.iter().cloned().map(Arc::new).collect();
    for (number, shape) in shapes.iter().enumerate() {
        world.set_pod(Pod {
            key: Key::new("n", &number.to_string()),
            shape: shape.clone(),
            place: PodPlace::Waiting,
            owner: Owner::Controller,
            eviction: Default::default(),
            terminating: false,
            ready: true,
            started: true,
        });
    }
    let numbers: Vec<usize> = world.entries().map(|entry| entry.shape).collect();
    let mut snapshot = Snapshot::new(world.shapes(), &world.namespaces, 0);
    let facts: Vec<NewSite> =
        case.nodes.iter().enumerate().map(|(number, node)| new_site(number, *node)).collect();
    for site in &facts {
        snapshot.push(Arc::new(site.clone()));
    }
    snapshot.keep_all();
    if prepare_first {
        numbers.iter().for_each(|shape| snapshot.prepare(*shape));
    }
    for (shape, site, terminating) in &case.pods {
        snapshot.put(numbers[*shape], *site, 1, *terminating);
    }
    let mark = snapshot.mark();
    snapshot.push(Arc::new(new_site(99, (Some(7), false, true))));
    for (shape, site) in &case.tried {
        snapshot.put(numbers[*shape], *site, 2, false);
        snapshot.put(numbers[*shape], case.nodes.len(), 1, false);
        snapshot.prepare(numbers[*shape]);
    }
    snapshot.rollback(mark);
    let mut sites: Vec<filters::Site<'_>> = facts
        .iter()
        .map(|site| filters::Site {
            facts: NodeFacts {
                name: &site.name,
                labels: &site.labels,
                taints: &site.taints,
                unschedulable: false,
            },
            allocatable: &site.allocatable,
            most_pods: site.pods,
            guests: Vec::new(),
        })
        .collect();
    for (shape, site, terminating) in &case.pods {
        sites[*site].guests.push(Guest { shape: &shapes[*shape], terminating: *terminating });
    }
    let namespaces: &BTreeMap<String, Labels> = &world.namespaces;
    for (number, shape) in shapes.iter().enumerate() {
        snapshot.prepare(numbers[number]);
        for site in 0..sites.len() {
            let plain = filters::check(shape, site, &sites, namespaces);
            let quick = snapshot.check(numbers[number], site, 0);
            prop_assert_eq!(plain.is_ok(), quick.is_ok(), "{:?} {:?} {:?}", plain, quick, shape);
            if let Err(no) = quick {
                // Every refusal has words, and those of what is counted agree with the plain ones.
                prop_assert!(
                    !snapshot.explain(numbers[number], site, no, 0).to_string().is_empty()
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn counts_answer_as_the_plain_filters_do(case in case(), prepare_first: bool) {
        check(&case, prepare_first)?;
    }
}
