//! The kubelet's part in Nodes: they join, tell how they are, and fall silent with their machines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};
use kube::{ResourceExt as _, api::ObjectMeta};
use sutler_api::names::annotations;
use sutler_scale::world::Resources;
use sutler_sim::Guest;

use crate::join::Join;

/// Memory that the node itself keeps.
const KEPT_MIB: u64 = 100;

/// Pods that a node takes: the kubelet's own default.
const PODS: &str = "110";

/// Taints of nodes that are not ready, and of those that do not answer.
const UNWELL: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// A Node that should be there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Played {
    pub(crate) name: String,
    /// The machine, as PLATFORM/ID.
    pub(crate) on: String,
    guest: Guest,
    join: Join,
}

impl Played {
    /// The node of a guest that was told to join.
    pub(crate) fn new(platform: &str, guest: Guest, join: Join) -> Self {
        let name = join.name.clone().unwrap_or_else(|| guest.hostname.to_lowercase());
        Self { name, on: format!("{platform}/{}", guest.id), guest, join }
    }

    /// What a kubelet that starts registers.
    pub(crate) fn object(&self) -> Node {
        let mut labels: BTreeMap<String, String> = [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        labels.extend(self.join.labels.clone());
        let taints: Vec<Taint> = self.join.taints.clone();
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                annotations: Some([(annotations::PLAYED_ON.to_owned(), self.on.clone())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                provider_id: self.join.provider_id.clone(),
                taints: (!taints.is_empty()).then_some(taints),
                ..NodeSpec::default()
            }),
            status: None,
        }
    }

    /// What its kubelet has to say that `known` does not; none where that is up to date.
    pub(crate) fn report(&self, known: &Node, now: Timestamp) -> Option<NodeStatus> {
        let old = known.status.clone().unwrap_or_default();
        let capacity = amounts(self.guest.cpu, self.guest.memory_mib);
        let left = self.guest.memory_mib.saturating_sub(KEPT_MIB);
        let mut addresses = vec![NodeAddress {
            type_: "Hostname".to_owned(),
            address: self.guest.hostname.to_lowercase(),
        }];
        addresses.extend(
            self.guest
                .ips
                .iter()
                .map(|ip| NodeAddress { type_: "InternalIP".to_owned(), address: ip.clone() }),
        );
        let new = NodeStatus {
            capacity: Some(capacity),
            allocatable: Some(amounts(self.guest.cpu, left)),
            addresses: Some(addresses),
            node_info: Some(NodeSystemInfo {
                architecture: "amd64".to_owned(),
                container_runtime_version: "played".to_owned(),
                kernel_version: "played".to_owned(),
                kube_proxy_version: String::new(),
                kubelet_version: "played".to_owned(),
                machine_id: self.on.clone(),
                operating_system: "linux".to_owned(),
                os_image: "played".to_owned(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        };
        let same = equal(old.capacity.as_ref(), new.capacity.as_ref())
            && equal(old.allocatable.as_ref(), new.allocatable.as_ref())
            && old.addresses == new.addresses
            && old.node_info.as_ref().map(|info| &info.machine_id) == Some(&self.on);
        if same && is_ready(known) {
            return None;
        }
        let ready = ready("True", "KubeletReady", "the kubelet is played", now);
        Some(NodeStatus { conditions: Some(vec![ready]), ..new })
    }
}

/// What is said of a node whose kubelet no longer says anything; none where that was said.
pub(crate) fn silent(known: &Node, now: Timestamp) -> Option<NodeStatus> {
    let message = "Kubelet stopped posting node status.";
    is_ready(known).then(|| NodeStatus {
        conditions: Some(vec![ready("Unknown", "NodeStatusUnknown", message, now)]),
        ..NodeStatus::default()
    })
}

/// The taints that a node should have and has not, as a cluster keeps pods off nodes that do not answer.
pub(crate) fn taints(node: &Node) -> Option<Vec<Taint>> {
    let known = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut wanted: Vec<Taint> =
        known.iter().filter(|taint| !UNWELL.contains(&taint.key.as_str())).cloned().collect();
    if !is_ready(node) {
        wanted.push(Taint {
            key: UNWELL[usize::from(is_unknown(node))].to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    let keys = |taints: &[Taint]| {
        taints.iter().map(|taint| (taint.key.clone(), taint.effect.clone())).collect::<Vec<_>>()
    };
    (keys(&known) != keys(&wanted)).then_some(wanted)
}

/// Whether nobody knows how a node is.
fn is_unknown(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}

/// Whether amounts are the same, however they are written.
fn equal(
    old: Option<&BTreeMap<String, Quantity>>,
    new: Option<&BTreeMap<String, Quantity>>,
) -> bool {
    let read = |amounts: Option<&BTreeMap<String, Quantity>>| {
        amounts.and_then(|amounts| Resources::read("status", amounts).ok())
    };
    old.is_some() && read(old) == read(new)
}

/// The machine that a node is played on; none where it is somebody else's.
pub(crate) fn played_on(node: &Node) -> Option<&String> {
    node.annotations().get(annotations::PLAYED_ON)
}

/// Whether a node takes pods.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn ready(status: &str, reason: &str, message: &str, now: Timestamp) -> NodeCondition {
    NodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

fn amounts(cpu: u32, memory_mib: u64) -> BTreeMap<String, Quantity> {
    [("cpu", cpu.to_string()), ("memory", format!("{memory_mib}Mi")), ("pods", PODS.to_owned())]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
        .into()
}

#[cfg(test)]
mod tests {
    use sutler_provider::MachineId;

    use super::*;

    fn guest() -> Guest {
        Guest {
            id: MachineId::from("7"),
            hostname: "Web-0001".to_owned(),
            ips: vec!["10.0.0.2".to_owned()],
            cpu: 2,
            memory_mib: 4096,
            user_data: None,
        }
    }

    #[test]
    fn a_kubelet_tells_what_is_new_and_no_more() {
        let labels = [("pool".to_owned(), "web".to_owned())].into();
        let played = Played::new("lab", guest(), Join { labels, ..Join::default() });
        let mut node = played.object();
        assert_eq!((played.name.as_str(), played.on.as_str()), ("web-0001", "lab/7"));
        assert_eq!(node.labels()["kubernetes.io/hostname"], "web-0001");
        assert_eq!(node.labels()["pool"], "web");
        assert_eq!(played_on(&node), Some(&"lab/7".to_owned()));
        let now = Timestamp::UNIX_EPOCH;
        assert!(silent(&node, now).is_none(), "it never was ready");
        node.status = played.report(&node, now);
        let status = node.status.clone().unwrap();
        assert_eq!(status.allocatable.unwrap()["memory"].0, "3996Mi");
        assert!(is_ready(&node));
        assert!(played.report(&node, now).is_none());
        // The API may write the same amount in another way.
        let capacity = node.status.as_mut().unwrap().capacity.as_mut().unwrap();
        assert_eq!(
            capacity.insert("memory".to_owned(), Quantity("4Gi".to_owned())).unwrap().0,
            "4096Mi"
        );
        assert!(played.report(&node, now).is_none());
        node.status = silent(&node, now);
        assert!(!is_ready(&node) && silent(&node, now).is_none());
        assert!(played.report(&node, now).is_some(), "it is back");
    }

    #[test]
    fn taints_follow_how_a_node_is() {
        let with = |ready: &str, key: &str| -> Node {
            serde_json::from_value(serde_json::json!({"metadata": {"name": "n"},
                "spec": {"taints": [{"key": "own", "effect": "NoSchedule"},
                    {"key": key, "effect": "NoSchedule"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap()
        };
        let keys = |node: &Node| {
            taints(node).map(|all| all.into_iter().map(|taint| taint.key).collect::<Vec<_>>())
        };
        assert_eq!(keys(&with("True", UNWELL[0])).unwrap(), ["own"]);
        assert_eq!(keys(&with("False", UNWELL[0])), None);
        assert_eq!(keys(&with("Unknown", UNWELL[0])).unwrap(), ["own", UNWELL[1]]);
    }
}
