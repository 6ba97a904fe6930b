//! How busy nodes and groups were: what nodes use where that is measured, and else the share of them that
//! pods have asked for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sutler_scale::{
    shrink::requested_loads,
    world::{Key, Load, Window, World},
};

use super::usage::{Source, Usage};

/// How busy nodes and groups were.
#[derive(Debug, Default)]
pub(super) struct Loads {
    nodes: BTreeMap<String, Window>,
    groups: BTreeMap<Key, Together>,
    /// Whether readings are what nodes use.
    measured: Option<bool>,
}

/// How busy the nodes of a group were together.
#[derive(Debug, Default)]
struct Together {
    nodes: BTreeSet<String>,
    load: Window,
}

/// What the nodes of a group have and use.
#[derive(Debug, Default)]
struct Sum {
    nodes: BTreeSet<String>,
    /// Nodes that take pods and of which nothing is known.
    unknown: bool,
    at: Option<Timestamp>,
    /// CPU and memory.
    used: [i128; 2],
    has: [i128; 2],
}

impl Loads {
    /// Takes a reading of every node that is of a group, and of every group, and fills in what is known
    /// now. A window is as long as the group's policy asks: in a longer one, readings are gathered into
    /// steps that are too coarse for it.
    pub(super) fn read(&mut self, world: &mut World, usage: &Usage, now: Timestamp) {
        let source = usage.source(now);
        let measured = source.as_ref().map(|source| *source == Source::Measured);
        if self.measured != measured {
            // Readings of two kinds tell nothing together.
            *self = Self { measured, ..Self::default() };
        }
        let loads: BTreeMap<String, (Timestamp, Load)> = match measured {
            None => BTreeMap::new(),
            Some(true) => usage.loads(world, now),
            Some(false) => {
                let all = requested_loads(world).into_iter();
                all.map(|(name, load)| (name.to_owned(), (now, load))).collect()
            }
        };
        self.nodes.retain(|name, _| world.nodes().contains_key(name));
        self.groups.retain(|key, _| world.groups.contains_key(key));
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        for (name, node) in world.nodes() {
            let Some(group) = node.group.as_ref().and_then(|key| world.groups.get(key)) else {
                continue;
            };
            let sum = sums.entry(group.key.clone()).or_default();
            sum.nodes.insert(name.clone());
            let Some((at, load)) = loads.get(name) else {
                sum.unknown |= node.ready;
                continue;
            };
            sum.at = sum.at.max(Some(*at));
            let whole = if measured == Some(true) { &node.capacity } else { &node.allocatable };
            let has = [whole.cpu, whole.memory];
            for (place, share) in [load.cpu, load.memory].into_iter().enumerate() {
                sum.used[place] += i128::from(share) * i128::from(has[place]);
                sum.has[place] += i128::from(has[place]);
            }
            let window = self.nodes.entry(name.clone()).or_default();
            fit(window, group.down.window).push(*at, *load);
        }
        for sum in sums.values() {
            for name in &sum.nodes {
                if let Some(node) = world.node_mut(name) {
                    node.load = self.nodes.get(name).cloned().unwrap_or_default();
                    node.measured = measured == Some(true);
                }
            }
        }
        for (key, group) in &mut world.groups {
            // A group without nodes is neither busy nor idle.
            let Some(sum) = sums.get(key) else { continue };
            let together = self.groups.entry(key.clone()).or_default();
            // With another node it is to be seen anew how busy it is, and that node counts from the start.
            if together.nodes != sum.nodes {
                *together = Together { nodes: sum.nodes.clone(), load: Window::default() };
            }
            let window = fit(&mut together.load, group.up.window);
            if let Some(at) = sum.at.filter(|_| !sum.unknown) {
                window.push(at, sum.load());
            }
            group.facts.load = window.clone();
        }
    }
}

impl Sum {
    fn load(&self) -> Load {
        let share = |place: usize| match self.has[place] {
            0 => 0,
            whole => u32::try_from(self.used[place] / whole).unwrap_or(u32::MAX),
        };
        Load { cpu: share(0), memory: share(1) }
    }
}

/// A window, begun anew where it is to be of another length.
fn fit(window: &mut Window, seconds: i64) -> &mut Window {
    if window.seconds() != seconds.max(0) {
        *window = Window::new(seconds);
    }
    window
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sutler_scale::world::{Claims, Group, GroupFacts, Judgement, Node, Pod, Resources, Size};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn world(seconds: i32) -> World {
        let mut world = World::default();
        let group = json!({"metadata": {"name": "g", "namespace": "ns"}, "spec": {
            "minNodes": 0, "maxNodes": 9,
            "scaleUpPolicy": {"stabilizationWindowSeconds": seconds, "cpuThreshold": 60},
            "scaleDownPolicy": {"stabilizationWindowSeconds": seconds}}});
        let mut group: sutler_api::autoscaler::NodeGroup = {
            let mut whole = group;
            whole["apiVersion"] = json!("autoscaler.vpsie.com/v1alpha1");
            whole["kind"] = json!("NodeGroup");
            serde_json::from_value(whole).unwrap()
        };
        group.status = None;
        let size =
            Size { id: "s".to_owned(), allocatable: Resources::default(), ..Size::default() };
        let facts = GroupFacts { sizes: vec![size], ..GroupFacts::default() };
        let group = Group::read(&group, facts).unwrap();
        for name in ["a", "b"] {
            let node = json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}]}});
            let mut node = Node::read(&serde_json::from_value(node).unwrap()).unwrap();
            node.group = Some(group.key.clone());
            world.set_node(node);
        }
        world.groups.insert(group.key.clone(), group);
        world
    }

    fn pod(name: &str, cpu: &str) -> Pod {
        let pod = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": "a",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        Pod::read(&serde_json::from_value(pod).unwrap(), &Claims::new()).unwrap().unwrap()
    }

    #[test]
    fn groups_are_as_busy_as_their_nodes_together() {
        let (mut world, mut loads) = (world(60), Loads::default());
        world.set_pod(pod("p", "1"));
        for second in 0..=60 {
            loads.read(&mut world, &Usage::not_served(), at(second));
        }
        let group = world.groups.values().next().unwrap();
        assert_eq!(group.facts.load.latest(at(60)), Some(Load { cpu: 250, memory: 0 }));
        assert_eq!(group.facts.load.above(20, 90, 60, at(60)), Judgement::Held);
        let node = &world.nodes()["a"];
        assert_eq!(node.load.latest(at(60)), Some(Load { cpu: 500, memory: 0 }));
    }

    #[test]
    fn a_short_window_is_not_held_up_by_what_was_before_it() {
        let (mut world, mut loads) = (world(4), Loads::default());
        let busy = pod("p", "2");
        world.set_pod(busy.clone());
        loads.read(&mut world, &Usage::not_served(), at(0));
        world.remove_pod(&busy.key);
        for second in [2, 4, 6] {
            loads.read(&mut world, &Usage::not_served(), at(second));
        }
        assert_eq!(world.nodes()["a"].load.below(50, 50, 4, at(6)), Judgement::Held);
        // Another policy is another window: it is watched anew.
        for group in world.groups.values_mut() {
            group.down.window = 8;
        }
        loads.read(&mut world, &Usage::not_served(), at(7));
        let judged = world.nodes()["a"].load.below(50, 50, 8, at(7));
        assert_eq!(judged, Judgement::TooShort { until: at(15) });
    }

    #[test]
    fn what_is_measured_counts_instead_of_what_pods_ask_for() {
        let (mut world, mut loads) = (world(60), Loads::default());
        world.set_pod(pod("p", "2"));
        for second in 0..=60 {
            loads.read(&mut world, &Usage::not_served(), at(second));
        }
        assert!(matches!(
            world.nodes()["a"].load.below(50, 50, 60, at(60)),
            Judgement::Broken { .. }
        ));
        // From now on it is measured: pods ask for everything and use little. What was read before says
        // nothing, and neither does one sample, however often it is read.
        let mut judged = Vec::new();
        for second in 61..=151 {
            let sample = at(60 + (second - 60) / 15 * 15);
            let usage = Usage::listed(&[("a", sample, 200), ("b", sample, 0)], at(second));
            loads.read(&mut world, &usage, at(second));
            judged.push(world.nodes()["a"].load.below(50, 50, 60, at(second)));
        }
        assert_eq!(judged[0], Judgement::TooShort { until: at(120) });
        assert_eq!(judged[58], Judgement::TooShort { until: at(120) });
        assert_eq!(judged[59], Judgement::Held);
        let group = world.groups.values().next().unwrap();
        assert_eq!(group.facts.load.latest(at(151)), Some(Load { cpu: 50, memory: 0 }));
        // Four of five have to agree: two of the last five do not.
        for (second, cpu) in [(165, 1900), (180, 1900)] {
            let usage = Usage::listed(&[("a", at(second), cpu), ("b", at(second), 0)], at(second));
            loads.read(&mut world, &usage, at(second));
        }
        let judged = world.nodes()["a"].load.below(50, 50, 60, at(180));
        assert_eq!(judged, Judgement::Broken { share: 60 });
    }

    #[test]
    fn a_group_is_not_judged_while_one_of_its_nodes_is_not_measured_yet() {
        let (mut world, mut loads) = (world(20), Loads::default());
        let young = world.remove_node("b").unwrap();
        let busy = |world: &World, second| {
            let group = world.groups.values().next().unwrap();
            group.facts.load.above(60, 90, 20, at(second))
        };
        let mut read = |world: &mut World, nodes: &[(&str, i64)], second| {
            let list: Vec<_> = nodes.iter().map(|(name, cpu)| (*name, at(second), *cpu)).collect();
            loads.read(world, &Usage::listed(&list, at(second)), at(second));
        };
        for second in [0, 10, 20] {
            read(&mut world, &[("a", 1800)], second);
        }
        assert_eq!(busy(&world, 20), Judgement::Held);
        // It grew: whether it is still busy shows once the new node is measured too.
        world.set_node(young);
        for second in [30, 40, 50, 60] {
            read(&mut world, &[("a", 1800)], second);
            assert_eq!(busy(&world, second), Judgement::TooFew);
        }
        assert_eq!(world.nodes()["b"].load.below(50, 50, 20, at(60)), Judgement::TooFew);
        for second in [70, 80, 90] {
            read(&mut world, &[("a", 900), ("b", 900)], second);
        }
        assert_eq!(busy(&world, 90), Judgement::Broken { share: 0 });
    }
}
