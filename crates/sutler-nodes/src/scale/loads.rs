//! How busy nodes and groups were: the share of them that pods have asked for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sutler_scale::{
    shrink::requested_loads,
    world::{Key, Load, Window, World},
};

/// How busy nodes and groups were.
#[derive(Debug, Default)]
pub(super) struct Loads {
    nodes: BTreeMap<String, Window>,
    groups: BTreeMap<Key, Window>,
}

impl Loads {
    /// Takes a reading of every node that is of a group, and of every group, and fills in what is known
    /// now. A window is as long as the group's policy asks: in a longer one, readings are gathered into
    /// steps that are too coarse for it.
    pub(super) fn read(&mut self, world: &mut World, now: Timestamp) {
        let loads: BTreeMap<String, Load> = requested_loads(world)
            .into_iter()
            .map(|(name, load)| (name.to_owned(), load))
            .collect();
        let mut totals: BTreeMap<Key, [i128; 4]> = BTreeMap::new();
        let mut read = Vec::new();
        for (name, load) in loads {
            let Some(node) = world.nodes().get(&name) else { continue };
            let Some(group) = node.group.as_ref().and_then(|key| world.groups.get(key)) else {
                continue;
            };
            let total = totals.entry(group.key.clone()).or_default();
            let has = [node.allocatable.cpu, node.allocatable.memory];
            for (at, share) in [load.cpu, load.memory].into_iter().enumerate() {
                total[at] += i128::from(share) * i128::from(has[at]);
                total[at + 2] += i128::from(has[at]);
            }
            read.push((name, group.down.window, load));
        }
        self.nodes.retain(|name, _| world.nodes().contains_key(name));
        for (name, seconds, load) in read {
            let window = window(&mut self.nodes, &name, seconds);
            window.push(now, load);
            if let Some(node) = world.node_mut(&name) {
                node.load = window.clone();
            }
        }
        self.groups.retain(|key, _| world.groups.contains_key(key));
        for (key, group) in &mut world.groups {
            // A group without nodes is neither busy nor idle.
            let Some(total) = totals.get(key) else { continue };
            let share = |at: usize| match total[at + 2] {
                0 => 0,
                whole => u32::try_from(total[at] / whole).unwrap_or(u32::MAX),
            };
            let window = window(&mut self.groups, key, group.up.window);
            window.push(now, Load { cpu: share(0), memory: share(1) });
            group.facts.load = window.clone();
        }
    }
}

/// The window of a thing, begun anew where it is to be of another length.
fn window<'a, K: Ord + Clone>(
    windows: &'a mut BTreeMap<K, Window>,
    key: &K,
    seconds: i64,
) -> &'a mut Window {
    let window = windows.entry(key.clone()).or_insert_with(|| Window::new(seconds));
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
            loads.read(&mut world, at(second));
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
        loads.read(&mut world, at(0));
        world.remove_pod(&busy.key);
        for second in [2, 4, 6] {
            loads.read(&mut world, at(second));
        }
        assert_eq!(world.nodes()["a"].load.below(50, 50, 4, at(6)), Judgement::Held);
        // Another policy is another window: it is watched anew.
        for group in world.groups.values_mut() {
            group.down.window = 8;
        }
        loads.read(&mut world, at(7));
        let judged = world.nodes()["a"].load.below(50, 50, 8, at(7));
        assert_eq!(judged, Judgement::TooShort { until: at(15) });
    }
}
