//! What a new node of a group would be like, for cluster-autoscaler to try pods on.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{ResourceExt as _, api::ObjectMeta};
use sutler_api::{
    autoscaler::{NodeGroup, NodeResources},
    infra::VMClass,
    names::labels,
};

/// Pods that a kubelet takes unless it is told otherwise.
const PODS: u32 = 110;

/// Memory that a kubelet keeps free unless it is told otherwise.
const KEPT_FREE: u64 = 100 << 20;

const HOSTNAME: &str = "kubernetes.io/hostname";
const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";

/// Labels of one node that are not those of the next.
const OF_ONE_NODE: [&str; 4] = [
    HOSTNAME,
    labels::VPSIE_NODE,
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "beta.kubernetes.io/hostname",
];

/// What taints begin with that come and go with a node's state.
const PASSING: [&str; 5] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "autoscaler.vpsie.com/",
];

/// How large a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    cpu: u64,
    memory: u64,
    disk: Option<u64>,
}

impl Size {
    /// What a class gives; nothing where its quantities cannot be read.
    pub(crate) fn of_class(class: &VMClass) -> Option<Self> {
        let disk = class.spec.disk_defaults.as_ref().and_then(|disk| disk.size.to_u64().ok());
        Self::new(u64::try_from(class.spec.cpu).ok()?, class.spec.memory.to_u64().ok()?, disk)
    }

    /// What another node of the group has.
    pub(crate) fn of_resources(resources: &NodeResources) -> Option<Self> {
        let mega = |value: i64| u64::try_from(value).ok()?.checked_mul(1 << 20);
        let giga = |value: i64| u64::try_from(value).ok()?.checked_mul(1 << 30);
        Self::new(
            u64::try_from(resources.cpu).ok()?,
            mega(resources.memory_mb)?,
            giga(resources.disk_gb).filter(|disk| *disk > 0),
        )
    }

    fn new(cpu: u64, memory: u64, disk: Option<u64>) -> Option<Self> {
        (cpu > 0 && memory > 0).then_some(Self { cpu, memory, disk })
    }

    fn quantities(&self, memory: u64) -> BTreeMap<String, Quantity> {
        let mut all = BTreeMap::from([
            ("cpu".to_owned(), Quantity(self.cpu.to_string())),
            ("memory".to_owned(), Quantity(memory.to_string())),
            ("pods".to_owned(), Quantity(PODS.to_string())),
        ]);
        if let Some(disk) = self.disk {
            all.insert("ephemeral-storage".to_owned(), Quantity(disk.to_string()));
        }
        all
    }
}

/// A new node like one that is there.
pub(crate) fn from_node(group: &NodeGroup, node: &Node) -> Node {
    let status = node.status.clone().unwrap_or_default();
    let mut of_node = node.labels().clone();
    of_node.retain(|key, _| !OF_ONE_NODE.contains(&key.as_str()));
    let spec = node.spec.clone().unwrap_or_default();
    let mut taints = spec.taints.unwrap_or_default();
    taints.retain(|taint| !PASSING.iter().any(|passing| taint.key.starts_with(passing)));
    build(group, of_node, taints, status.capacity, status.allocatable)
}

/// A new node of this size.
pub(crate) fn from_size(group: &NodeGroup, size: &Size) -> Node {
    let capacity = size.quantities(size.memory);
    let allocatable = size.quantities(size.memory.saturating_sub(KEPT_FREE));
    let own = [(labels::MANAGED, "true"), (labels::NODE_GROUP, &group.name_any())]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    build(group, own.into(), Vec::new(), Some(capacity), Some(allocatable))
}

/// Whether a node takes pods.
pub(crate) fn is_ready(node: &Node) -> bool {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    !cordoned
        && node.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn build(
    group: &NodeGroup,
    mut labels: BTreeMap<String, String>,
    mut taints: Vec<Taint>,
    capacity: Option<BTreeMap<String, Quantity>>,
    allocatable: Option<BTreeMap<String, Quantity>>,
) -> Node {
    let name = format!("template-{}", group.name_any());
    for (key, value) in [(OS, "linux"), (ARCH, "amd64")] {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    // The group may have changed since the node was made: the next one will be as it is now.
    labels.extend(group.spec.labels.clone());
    labels.insert(HOSTNAME.to_owned(), name.clone());
    for taint in &group.spec.taints {
        taints.retain(|other| (&other.key, &other.effect) != (&taint.key, &taint.effect));
        taints.push(Taint { time_added: None, ..taint.clone() });
    }
    let ready = NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        ..NodeCondition::default()
    };
    Node {
        metadata: ObjectMeta { name: Some(name), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(NodeSpec {
            taints: (!taints.is_empty()).then_some(taints),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity,
            allocatable,
            conditions: Some(vec![ready]),
            ..NodeStatus::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sutler_api::infra::VMClassSpec;

    fn group() -> NodeGroup {
        let spec = json!({
            "minNodes": 0, "maxNodes": 3, "labels": { "tier": "web", "kubernetes.io/arch": "arm64" },
            "taints": [{ "key": "web", "value": "new", "effect": "NoSchedule" }],
        });
        NodeGroup::new("g", serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_class_gives_its_size() {
        let spec: VMClassSpec =
            serde_json::from_value(json!({ "cpu": 4, "memory": "8Gi", "diskDefaults": {} }))
                .unwrap();
        let size = Size::of_class(&VMClass::new("c", spec)).unwrap();
        let node = from_size(&group(), &size);
        let status = node.status.as_ref().unwrap();
        let capacity = status.capacity.as_ref().unwrap();
        assert_eq!(capacity["cpu"].0, "4");
        assert_eq!(capacity["memory"].0, (8u64 << 30).to_string());
        assert_eq!(capacity["pods"].0, "110");
        assert_eq!(capacity["ephemeral-storage"].0, (40u64 << 30).to_string());
        let allocatable = status.allocatable.as_ref().unwrap();
        assert_eq!(allocatable["memory"].0, ((8u64 << 30) - (100 << 20)).to_string());
        let labels = node.labels();
        assert_eq!(labels[OS], "linux");
        assert_eq!(labels[ARCH], "arm64");
        assert_eq!(labels[HOSTNAME], "template-g");
        assert_eq!(labels["tier"], "web");
        assert_eq!(labels[labels::NODE_GROUP], "g");
    }

    #[test]
    fn sizes_that_are_not_known_are_not_made_up() {
        assert_eq!(Size::of_resources(&NodeResources::default()), None);
        let class = |memory: &str| {
            let spec = json!({ "cpu": 1, "memory": memory });
            VMClass::new("c", serde_json::from_value(spec).unwrap())
        };
        assert_eq!(Size::of_class(&class("much")), None);
        assert_eq!(Size::of_class(&class("0")), None);
        let known = NodeResources { cpu: 2, memory_mb: 4096, disk_gb: 0, bandwidth_gb: None };
        assert_eq!(Size::of_resources(&known), Some(Size { cpu: 2, memory: 4 << 30, disk: None }));
    }

    #[test]
    fn a_node_that_is_there_is_stripped_of_what_is_its_own() {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": "n", "labels": {
                "kubernetes.io/hostname": "n", "kubernetes.io/arch": "amd64", "zone": "z",
                "autoscaler.vpsie.com/vpsienode": "r", "tier": "old",
            } },
            "spec": { "providerID": "sutler://ns/r", "taints": [
                { "key": "web", "value": "old", "effect": "NoSchedule" },
                { "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" },
                { "key": "kept", "effect": "NoSchedule" },
            ] },
            "status": { "capacity": { "cpu": "2" }, "allocatable": { "cpu": "1900m" } },
        }))
        .unwrap();
        let made = from_node(&group(), &node);
        assert_eq!(made.labels()["zone"], "z");
        assert_eq!(made.labels()["tier"], "web");
        assert_eq!(made.labels()[HOSTNAME], "template-g");
        assert_eq!(made.labels().get(labels::VPSIE_NODE), None);
        let spec = made.spec.unwrap();
        assert_eq!(spec.provider_id, None);
        let taints: Vec<_> = spec.taints.unwrap().into_iter().map(|t| (t.key, t.value)).collect();
        assert_eq!(taints, [("kept".to_owned(), None), ("web".to_owned(), Some("new".to_owned()))]);
        assert_eq!(made.status.unwrap().allocatable.unwrap()["cpu"].0, "1900m");
    }
}
