//! What holds for every decision on every world.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sutler_scale::decide;
use sutler_scale::filters::{self, Guest, NodeFacts, Site};
use sutler_scale::grow::GrowPlan;
use sutler_scale::shrink::Verdict;
use sutler_scale::world::{
    Budget, Effect, HostPort, Key, Labels, PodPlace, RegionStrategy, Regions, Shape, Spread, Taint,
    Toleration, World,
};

use crate::build::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

#[derive(Clone, Debug)]
struct Case {
    /// By group: most, least, sizes, zones, whether it is set apart.
    groups: Vec<(u32, u32, usize, usize, bool)>,
    /// By node: group, and how busy.
    nodes: Vec<(usize, u32)>,
    /// CPU, and a rule, by shape.
    shapes: Vec<(i64, u8)>,
    /// Shape and node, by running pod.
    running: Vec<(usize, usize)>,
    /// Shape, by waiting pod.
    waiting: Vec<usize>,
    budgets: Vec<i32>,
    max_workers: Option<u32>,
    max_growing: u32,
    max_shrinking: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let groups =
        prop::collection::vec((1..8u32, 0..3u32, 1..3usize, 1..3usize, any::<bool>()), 1..4);
    let nodes = prop::collection::vec((0..4usize, prop::sample::select(vec![10, 20, 70])), 0..7);
    let shapes =
        prop::collection::vec((prop::sample::select(vec![0, 300, 1000, 2500, 9000]), 0..8u8), 1..5);
    let running = prop::collection::vec((0..5usize, 0..7usize), 0..12);
    let waiting = prop::collection::vec(0..5usize, 0..14);
    let budgets = prop::collection::vec(0..3i32, 0..3);
    let limits = (prop::option::of(0..12u32), 1..4u32, 1..4u32);
    (groups, nodes, shapes, running, waiting, budgets, limits).prop_map(
        |(groups, nodes, shapes, running, waiting, budgets, limits)| Case {
            groups,
            nodes,
            shapes,
            running,
            waiting,
            budgets,
            max_workers: limits.0,
            max_growing: limits.1,
            max_shrinking: limits.2,
        },
    )
}

fn make_shape(number: usize, (cpu, rule): (i64, u8)) -> Shape {
    let name = format!("app{number}");
    let mut shape = shape(cpu);
    shape.labels = labels(&[("app", &name)]);
    match rule {
        1 => shape.anti_affinity.push(term(HOST, &name)),
        2 => shape.affinity.push(term(ZONE, &name)),
        3 => shape.spread.push(Spread {
            topology_key: ZONE.to_owned(),
            max_skew: 1,
            min_domains: 1,
            selector: app(&name),
            honour_affinity: true,
            honour_taints: false,
        }),
        4 => {
            shape.node_selector.insert(ZONE.to_owned(), "b".to_owned());
        }
        5 => shape.tolerations.push(Toleration::everything()),
        6 => shape.ports.push(HostPort {
            protocol: "TCP".to_owned(),
            ip: "0.0.0.0".to_owned(),
            port: 80,
        }),
        7 => shape.affinity.push(term(HOST, "app0")),
        _ => {}
    }
    shape
}

fn make(case: &Case, backwards: bool) -> World {
    let mut world = world([]);
    world.settings.max_workers = case.max_workers;
    world.settings.max_growing = case.max_growing;
    world.settings.max_shrinking = case.max_shrinking;
    for (number, (max, min, sizes, zones, apart)) in case.groups.iter().enumerate() {
        let mut group = group(&format!("g{number}"));
        (group.min, group.max) = ((*min).min(*max), *max);
        group.sizes.truncate(1);
        if *sizes == 2 {
            group.sizes.push(size("large", 8, 190_000 + number as u64));
        }
        if *zones == 2 {
            group.places.push(place("b"));
            group.regions = Some(Regions { strategy: RegionStrategy::Balanced, min_each: 0 });
        }
        if *apart {
            group.taints.push(Taint::new("apart", "", Effect::NoSchedule));
        }
        world.groups.insert(group.key.clone(), group);
    }
    // Both zones are there, so that no new node makes a place.
    for zone in ["a", "b"] {
        let key = Key::new("default", "fixed");
        let mut fixed = group("fixed");
        (fixed.places, fixed.max, fixed.desired, fixed.current) = (vec![place(zone)], 0, 0, 0);
        world.groups.insert(key.clone(), fixed);
        add_node(&mut world, "fixed", &format!("fixed-{zone}"));
        world.groups.remove(&key);
        let node = world.node_mut(&format!("fixed-{zone}")).unwrap();
        (node.group, node.allocatable.cpu) = (None, 1000);
    }
    for (number, (group, busy)) in case.nodes.iter().enumerate() {
        let group = format!("g{}", group % case.groups.len());
        let key = Key::new("default", &group);
        if world.groups[&key].current < world.groups[&key].max {
            let name = format!("n{number}");
            add_node(&mut world, &group, &name);
            world.node_mut(&name).unwrap().load = load(*busy);
        }
    }
    let shapes: Vec<Shape> =
        case.shapes.iter().enumerate().map(|(at, shape)| make_shape(at, *shape)).collect();
    let names: Vec<String> = world.nodes().keys().cloned().collect();
    let mut pods = Vec::new();
    for (number, (shape, node)) in case.running.iter().enumerate() {
        let place = PodPlace::On(names[node % names.len()].clone());
        pods.push(pod(&format!("r{number}"), shapes[shape % shapes.len()].clone(), place));
    }
    for (number, shape) in case.waiting.iter().enumerate() {
        let place = PodPlace::Unschedulable { since: ago(300) };
        pods.push(pod(&format!("w{number}"), shapes[shape % shapes.len()].clone(), place));
    }
    if backwards {
        pods.reverse();
    }
    pods.into_iter().for_each(|pod| world.set_pod(pod));
    for (number, allowed) in case.budgets.iter().enumerate() {
        let key = Key::new("apps", &format!("b{number}"));
        let selector = app(&format!("app{number}"));
        let budget = Budget {
            key: key.clone(),
            selector,
            allowed: *allowed,
            healthy: true,
            unhealthy_always: false,
        };
        world.budgets.insert(key, budget);
    }
    world
}

/// The world as the plain filters see it: nodes by name with the pods on them.
struct Replay<'a> {
    world: &'a World,
    labels: BTreeMap<String, Labels>,
    nodes: BTreeMap<String, (Vec<Taint>, sutler_scale::world::Resources, i64)>,
    pods: BTreeMap<String, Vec<&'a Shape>>,
}

impl<'a> Replay<'a> {
    fn new(world: &'a World) -> Self {
        let mut replay =
            Self { world, labels: BTreeMap::new(), nodes: BTreeMap::new(), pods: BTreeMap::new() };
        for node in world.nodes().values() {
            replay.labels.insert(node.name.clone(), (*node.labels).clone());
            let facts = (node.taints.to_vec(), node.allocatable.clone(), node.pods);
            replay.nodes.insert(node.name.clone(), facts);
        }
        for pod in world.pods() {
            if let PodPlace::On(node) = &pod.place {
                replay.pods.entry(node.clone()).or_default().push(&pod.shape);
            }
        }
        replay
    }

    fn fits(&self, shape: &Shape, node: &str) -> bool {
        let sites: Vec<Site<'_>> = self
            .nodes
            .iter()
            .map(|(name, (taints, allocatable, most_pods))| Site {
                facts: NodeFacts { name, labels: &self.labels[name], taints, unschedulable: false },
                allocatable,
                most_pods: *most_pods,
                guests: self
                    .pods
                    .get(name)
                    .map_or(&[][..], Vec::as_slice)
                    .iter()
                    .map(|shape| Guest { shape, terminating: false })
                    .collect(),
            })
            .collect();
        let at = self.nodes.keys().position(|name| name == node).unwrap();
        filters::check(shape, at, &sites, &self.world.namespaces).is_ok()
    }

    /// Places all of these where they should go, in whatever order works; those that do not fit.
    fn place(&mut self, mut wanted: Vec<(Key, String)>) -> Vec<(Key, String)> {
        loop {
            let before = wanted.len();
            wanted.retain(|(key, node)| {
                let shape: &'a Shape = &self.world.pod(key).unwrap().shape;
                let fits = self.fits(shape, node);
                if fits {
                    self.pods.entry(node.clone()).or_default().push(shape);
                }
                !fits
            });
            if wanted.len() == before {
                return wanted;
            }
        }
    }

    /// Adds the nodes of a plan, and says which pods should go where.
    fn grow(&mut self, plan: &GrowPlan) -> Vec<(Key, String)> {
        let mut wanted = plan.placed.clone();
        for growth in &plan.growths {
            let group = &self.world.groups[&growth.group];
            for (number, new) in growth.nodes.iter().enumerate() {
                let name = format!("new-{}-{number}", growth.group.name);
                let size = group.size_of(&new.node.size).unwrap();
                let place = group.places.iter().find(|place| place.id == new.node.place).unwrap();
                self.labels.insert(name.clone(), group.labels_of(size, place, &name));
                let facts = (group.taints.clone(), size.allocatable.clone(), size.pods);
                self.nodes.insert(name.clone(), facts);
                wanted.extend(new.node.pods.iter().map(|pod| (pod.clone(), name.clone())));
            }
        }
        wanted
    }
}

/// Carries a plan out: the nodes are asked for, and have not joined.
fn apply_growth(world: &mut World, plan: &GrowPlan) {
    for growth in &plan.growths {
        let group = world.groups.get_mut(&growth.group).unwrap();
        group.desired = growth.desired;
        group.current += u32::try_from(growth.nodes.len()).unwrap();
        group.facts.upcoming.extend(growth.nodes.iter().map(|node| node.node.clone()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_same_world_gives_the_same_decision(case in case()) {
        let decision = decide(&make(&case, false), None, now());
        prop_assert_eq!(&decision, &decide(&make(&case, false), None, now()));
        prop_assert_eq!(&decision, &decide(&make(&case, true), None, now()));
    }

    #[test]
    fn no_limit_is_passed(case in case()) {
        let world = make(&case, false);
        let decision = decide(&world, None, now());
        let before: u32 = world.groups.values().map(|group| group.machines()).sum();
        let mut asked = 0;
        let mut growing = 0;
        for growth in &decision.grow.growths {
            let group = &world.groups[&growth.group];
            let number = u32::try_from(growth.nodes.len()).unwrap();
            prop_assert!(number > 0);
            prop_assert_eq!(growth.desired, group.size() + number);
            prop_assert!(growth.desired <= group.max);
            asked += number;
            let minimum = growth.nodes.iter().all(|it| it.cause != sutler_scale::grow::Cause::Pods);
            growing += u32::from(!minimum);
        }
        if let Some(max) = case.max_workers {
            prop_assert!(asked == 0 || before + asked <= max);
        }
        prop_assert!(growing <= case.max_growing);
        prop_assert!(decision.shrink.removals.len() <= case.max_shrinking as usize);
        for (key, group) in &world.groups {
            let gone = decision.shrink.removals.iter().filter(|it| it.group == *key).count();
            prop_assert!(gone == 0 || group.current - u32::try_from(gone).unwrap() >= group.min);
            if gone > 0 {
                prop_assert_eq!(decision.shrink.desired[key], group.current - gone as u32);
            }
        }
    }

    #[test]
    fn each_waiting_pod_is_counted_once(case in case()) {
        let world = make(&case, false);
        let plan = decide(&world, None, now()).grow;
        let mut seen = BTreeSet::new();
        let asked = plan.growths.iter().flat_map(|it| &it.nodes).flat_map(|it| &it.node.pods);
        let fitting = plan.placed.iter().map(|(pod, _)| pod);
        for pod in asked.chain(fitting).chain(plan.unhelped.iter().flat_map(|it| &it.pods)) {
            prop_assert!(seen.insert(pod.clone()), "{} twice", pod);
        }
        let waiting = world.pods().filter(|pod| !matches!(pod.place, PodPlace::On(_)));
        let waiting: BTreeSet<Key> = waiting.map(|pod| pod.key.clone()).collect();
        prop_assert_eq!(seen, waiting, "every waiting pod has an answer");
        for unhelped in &plan.unhelped {
            prop_assert_eq!(unhelped.groups.len(), world.groups.len(), "a reason for every group");
        }
    }

    #[test]
    fn pods_fit_where_the_plan_says(case in case()) {
        let world = make(&case, false);
        let decision = decide(&world, None, now());
        let mut replay = Replay::new(&world);
        let wanted = replay.grow(&decision.grow);
        let stuck = replay.place(wanted);
        prop_assert!(stuck.is_empty(), "{:?}", stuck);
        // Then nodes go, one after the other; they stay in the cluster until they are empty.
        for removal in &decision.shrink.removals {
            for moved in &removal.moves {
                let shape: &Shape = &world.pod(&moved.pod).unwrap().shape;
                let guests = replay.pods.get_mut(&removal.node).unwrap();
                let at = guests.iter().position(|guest| *guest == shape).unwrap();
                guests.remove(at);
            }
            let wanted = removal.moves.iter().map(|it| (it.pod.clone(), it.to.clone())).collect();
            let stuck = replay.place(wanted);
            prop_assert!(stuck.is_empty(), "{} leaves {:?}", removal.node, stuck);
        }
    }

    #[test]
    fn removals_respect_budgets_and_each_other(case in case()) {
        let world = make(&case, false);
        let shrink = decide(&world, None, now()).shrink;
        let gone: BTreeSet<&str> = shrink.removals.iter().map(|it| it.node.as_str()).collect();
        for removal in &shrink.removals {
            let stay = world.pods().filter(|pod| pod.place == PodPlace::On(removal.node.clone()));
            prop_assert_eq!(stay.count(), removal.moves.len(), "every pod has another place");
            for moved in &removal.moves {
                prop_assert!(!gone.contains(moved.to.as_str()));
            }
        }
        let moves = || shrink.removals.iter().flat_map(|removal| &removal.moves);
        for budget in world.budgets.values() {
            let covered = moves().filter(|it| budget.covers(&world.pod(&it.pod).unwrap().shape));
            prop_assert!(covered.count() <= budget.allowed.unsigned_abs() as usize);
        }
        let ours = world.nodes().values().filter(|node| node.group.is_some());
        for node in ours {
            match &shrink.verdicts[&node.name] {
                Verdict::Removable { .. } => prop_assert!(gone.contains(node.name.as_str())),
                Verdict::Keep(reasons) => {
                    prop_assert!(!reasons.is_empty());
                    prop_assert!(!gone.contains(node.name.as_str()));
                }
            }
        }
    }

    #[test]
    fn what_was_asked_for_is_not_asked_for_again(case in case()) {
        let mut world = make(&case, false);
        world.settings.max_growing = 100;
        let first = decide(&world, None, now()).grow;
        apply_growth(&mut world, &first);
        let second = decide(&world, None, now()).grow;
        prop_assert!(second.is_empty(), "{:?} then {:?}", first, second);
    }

    #[test]
    fn shrinking_ends(case in case()) {
        let mut world = make(&case, false);
        for _ in 0..10 {
            let decision = decide(&world, None, now());
            for removal in &decision.shrink.removals {
                for moved in &removal.moves {
                    let mut pod = world.remove_pod(&moved.pod).unwrap();
                    pod.place = PodPlace::On(moved.to.clone());
                    world.set_pod(pod);
                }
                world.remove_node(&removal.node);
                let group = world.groups.get_mut(&removal.group).unwrap();
                group.current -= 1;
                group.desired = decision.shrink.desired[&removal.group];
            }
            if decision.shrink.removals.is_empty() {
                return Ok(());
            }
        }
        prop_assert!(false, "there is always one more to remove");
    }
}
