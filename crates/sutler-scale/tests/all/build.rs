//! Worlds in a few words.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sutler_scale::world::{
    DownPolicy, Group, GroupFacts, Key, Labels, Load, Node, Owner, Place, Pod, PodPlace, Price,
    Requirement, Resources, Selector, Settings, Shape, Size, Term, UpPolicy, Window, World,
};

pub(crate) const GI: i64 = 1 << 30;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub(crate) fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn size(id: &str, cpu: i64, price: u64) -> Size {
    Size {
        id: id.to_owned(),
        allocatable: Resources::new(cpu * 1000, cpu * 4 * GI),
        pods: 20,
        price: Some(Price(price)),
        ..Size::default()
    }
}

pub(crate) fn place(zone: &str) -> Place {
    Place {
        id: zone.to_owned(),
        labels: labels(&[("topology.kubernetes.io/zone", zone)]),
        exhausted_until: None,
    }
}

/// A group of machines with 4 CPUs in zone a, that has no node yet.
pub(crate) fn group(name: &str) -> Group {
    Group {
        key: Key::new("default", name),
        min: 0,
        max: 10,
        desired: 0,
        current: 0,
        failed: 0,
        labels: Labels::new(),
        taints: Vec::new(),
        sizes: vec![size("medium", 4, 100_000)],
        preferred_size: None,
        mixed: true,
        places: vec![place("a")],
        regions: None,
        up: UpPolicy { enabled: true, window: 60, cpu: 80, memory: 80 },
        down: DownPolicy { enabled: true, window: 600, cpu: 50, memory: 50, cooldown: 600 },
        spot: None,
        cost: None,
        paused: false,
        stopped: false,
        facts: GroupFacts::default(),
        last_up: None,
        last_down: None,
    }
}

/// A world without limits but those of groups.
pub(crate) fn world(groups: impl IntoIterator<Item = Group>) -> World {
    let mut world = World::default();
    world.settings =
        Settings { max_workers: None, max_growing: 100, max_shrinking: 100, ..Settings::default() };
    for group in groups {
        world.groups.insert(group.key.clone(), group);
    }
    world
}

/// Readings of the last eleven minutes.
pub(crate) fn load(percent: u32) -> Window {
    let mut window = Window::new(600);
    for minute in (0..=11).rev() {
        window.push(ago(minute * 60), Load { cpu: percent * 10, memory: percent * 10 });
    }
    window
}

/// Adds an idle node of a group to the world, of the group's first size in its first place.
pub(crate) fn add_node(world: &mut World, group: &str, name: &str) {
    let group = world.groups.get_mut(&Key::new("default", group)).unwrap();
    group.current += 1;
    group.desired = group.desired.max(group.current);
    let (size, place) = (&group.sizes[0], &group.places[0]);
    let node = Node {
        name: name.to_owned(),
        labels: Arc::new(group.labels_of(size, place, name)),
        taints: group.taints.clone().into(),
        allocatable: size.allocatable.clone(),
        capacity: size.allocatable.clone(),
        pods: size.pods,
        ready: true,
        unschedulable: false,
        deleting: false,
        created: ago(100_000),
        group: Some(group.key.clone()),
        size: Some(size.id.clone()),
        place: Some(place.id.clone()),
        spot: false,
        price: None,
        keep: Default::default(),
        load: load(10),
        measured: false,
    };
    world.set_node(node);
}

/// A shape that asks for so many thousandths of a CPU.
pub(crate) fn shape(cpu: i64) -> Shape {
    Shape {
        namespace: "apps".to_owned(),
        labels: labels(&[("app", "web")]),
        requests: Resources::new(cpu, 0),
        ..Shape::default()
    }
}

pub(crate) fn pod(name: &str, shape: Shape, place: PodPlace) -> Pod {
    Pod {
        key: Key::new(&shape.namespace, name),
        shape: Arc::new(shape),
        place,
        owner: Owner::Controller,
        eviction: Default::default(),
        terminating: false,
        ready: true,
        started: true,
    }
}

/// Adds pods that have waited for five minutes.
pub(crate) fn add_waiting(world: &mut World, prefix: &str, number: usize, shape: &Shape) {
    for at in 0..number {
        let place = PodPlace::Unschedulable { since: ago(300) };
        world.set_pod(pod(&format!("{prefix}-{at}"), shape.clone(), place));
    }
}

/// Adds a pod on a node.
pub(crate) fn add_running(world: &mut World, name: &str, shape: &Shape, node: &str) {
    world.set_pod(pod(name, shape.clone(), PodPlace::On(node.to_owned())));
}

pub(crate) fn app(name: &str) -> Option<Selector> {
    Some(Selector(vec![Requirement::equals("app", name)]))
}

pub(crate) fn term(topology_key: &str, name: &str) -> Term {
    Term {
        topology_key: topology_key.to_owned(),
        selector: app(name),
        namespaces: ["apps".to_owned()].into(),
        namespace_selector: None,
    }
}
