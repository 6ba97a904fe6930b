//! The scheduler's part: which node a pod goes to, or why there is none.

use std::collections::BTreeMap;

use sutler_scale::{
    filters::{self, Guest, Refusal, Site},
    world::{Labels, Load, Node, Pod, Resources},
};

/// Finds nodes for the pods that wait, one after the other: a node's name, or the words of the scheduler
/// where none has room. `bound` are pods with the number of the node that they are on.
pub(crate) fn schedule(
    nodes: &[Node],
    bound: &[(usize, Pod)],
    waiting: &[Pod],
    namespaces: &BTreeMap<String, Labels>,
) -> Vec<Result<String, String>> {
    let mut sites: Vec<Site<'_>> = nodes.iter().map(Site::empty).collect();
    for (at, pod) in bound {
        sites[*at].guests.push(Guest { shape: &pod.shape, terminating: pod.terminating });
    }
    let place = |pod| {
        let mut refused: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(u32, usize)> = None;
        for (at, node) in nodes.iter().enumerate() {
            match look(pod, at, node, &sites, namespaces) {
                Ok(share) if best.is_none_or(|(least, _)| share < least) => {
                    best = Some((share, at))
                }
                Ok(_) => {}
                Err(refusal) => *refused.entry(words(&refusal)).or_default() += 1,
            }
        }
        let Some((_, at)) = best else { return Err(message(nodes.len(), &refused)) };
        sites[at].guests.push(Guest { shape: &pod.shape, terminating: false });
        Ok(nodes[at].name.clone())
    };
    waiting.iter().map(place).collect()
}

/// How full a node is that a pod may go to: the emptiest is taken.
fn look(
    pod: &Pod,
    at: usize,
    node: &Node,
    sites: &[Site<'_>],
    namespaces: &BTreeMap<String, Labels>,
) -> Result<u32, Refusal> {
    if !node.ready || node.deleting {
        return Err(Refusal::NotReady);
    }
    filters::check(&pod.shape, at, sites, namespaces)?;
    let mut used = Resources::default();
    for guest in &sites[at].guests {
        used.add(&guest.shape.requests);
    }
    let load = Load::of(&used, &node.allocatable);
    Ok(load.cpu.saturating_add(load.memory))
}

fn message(nodes: usize, refused: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let why: Vec<String> =
        refused.iter().map(|(words, number)| format!("{number} {words}")).collect();
    format!("0/{nodes} nodes are available: {}.", why.join(", "))
}

/// A refusal in the words of Kubernetes' own scheduler, which people and programs know.
fn words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NotReady => "node(s) were not ready".to_owned(),
        Refusal::Unschedulable => "node(s) were unschedulable".to_owned(),
        Refusal::Taint(taint) => {
            format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value)
        }
        Refusal::NodeSelector { .. } | Refusal::NodeAffinity => {
            "node(s) didn't match Pod's node affinity/selector".to_owned()
        }
        Refusal::Port(_) => "node(s) didn't have free ports for the requested pod ports".to_owned(),
        Refusal::Lacks(lack) => format!("Insufficient {}", lack.name),
        Refusal::TooManyPods { .. } => "Too many pods".to_owned(),
        Refusal::Volume { .. } => "node(s) had volume node affinity conflict".to_owned(),
        Refusal::SpreadLabel { .. } => {
            "node(s) didn't match pod topology spread constraints (missing required label)"
                .to_owned()
        }
        Refusal::Spread { .. } => "node(s) didn't match pod topology spread constraints".to_owned(),
        Refusal::Affinity { .. } => "node(s) didn't match pod affinity rules".to_owned(),
        Refusal::AntiAffinity { .. } => "node(s) didn't match pod anti-affinity rules".to_owned(),
        Refusal::KeptAway { .. } => {
            "node(s) didn't satisfy existing pods anti-affinity rules".to_owned()
        }
        Refusal::Unmodelled(_) | Refusal::TooFull { .. } => format!("node(s) refused: {refusal}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sutler_scale::world::Claims;

    use super::*;

    fn node(name: &str, cpu: u32, spec: Value) -> Node {
        let node = json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name}}, "spec": spec,
            "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "4Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        Node::read(&serde_json::from_value(node).unwrap()).unwrap()
    }

    fn pod(name: &str, cpu: &str) -> Pod {
        let pod = json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        Pod::read(&serde_json::from_value(pod).unwrap(), &Claims::new()).unwrap().unwrap()
    }

    #[test]
    fn the_emptiest_node_with_room_is_taken_and_each_pod_takes_its_room() {
        let nodes = [node("a", 2, json!({})), node("b", 2, json!({}))];
        let bound = [(0, pod("old", "500m"))];
        let waiting = [pod("x", "1"), pod("y", "1"), pod("z", "1"), pod("late", "1")];
        let placed = schedule(&nodes, &bound, &waiting, &BTreeMap::new());
        assert_eq!(placed[0].as_deref(), Ok("b"));
        assert_eq!(placed[1].as_deref(), Ok("a"));
        assert_eq!(placed[2].as_deref(), Ok("b"));
        let why = "0/2 nodes are available: 2 Insufficient cpu.";
        assert_eq!(placed[3], Err(why.to_owned()));
    }

    #[test]
    fn a_pod_without_a_node_says_why_as_the_scheduler_does() {
        let tainted =
            json!({"taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]});
        let mut nodes = [
            node("a", 1, json!({})),
            node("b", 1, tainted),
            node("c", 1, json!({"unschedulable": true})),
            node("d", 1, json!({})),
        ];
        nodes[3].ready = false;
        let bound = [(0, pod("old", "1"))];
        let placed = schedule(&nodes, &bound, &[pod("x", "1")], &BTreeMap::new());
        assert_eq!(
            placed[0],
            Err("0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint \
                 {dedicated: web}, 1 node(s) were not ready, 1 node(s) were unschedulable."
                .to_owned())
        );
        let placed = schedule(&[], &[], &[pod("x", "1")], &BTreeMap::new());
        assert_eq!(placed[0], Err("no nodes available to schedule pods".to_owned()));
    }
}
