//! Groups as the wire has them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use sutler_api::{
    autoscaler::{
        NodeGroup, VPSieNode,
        removal::{group_id, is_managed, is_of, target_size},
    },
    names::labels,
};

use crate::{Cluster, Error, cache::Caches, pb};

/// Whether a group is driven from here.
pub(crate) fn is_driven(group: &NodeGroup, cluster: &Cluster) -> bool {
    is_managed(group) && group.metadata.deletion_timestamp.is_none() && cluster.has(group)
}

/// A group as the wire has it. One that is not to grow by itself has no room above its size.
pub(crate) fn on_wire(group: &NodeGroup) -> pb::NodeGroup {
    let size = target_size(group);
    let may_grow = may_grow(group);
    pb::NodeGroup {
        id: group_id(group),
        min_size: group.spec.min_nodes,
        max_size: if may_grow { group.spec.max_nodes } else { size },
        debug: format!(
            "{} ({} to {} nodes, {size} wanted{})",
            group_id(group),
            group.spec.min_nodes,
            group.spec.max_nodes,
            if may_grow { "" } else { ", scaleUpPolicy.enabled is false" },
        ),
    }
}

/// Whether the group may grow by itself.
pub(crate) fn may_grow(group: &NodeGroup) -> bool {
    group.spec.scale_up_policy.as_ref().is_none_or(|policy| policy.enabled)
}

/// Namespace and name of a group's ID.
pub(crate) fn split(id: &str) -> Result<(&str, &str), Error> {
    id.split_once('/').ok_or_else(|| Error::NoGroup(id.to_owned()))
}

/// What is known of groups and of what belongs to them.
impl Caches {
    /// The group of this ID, if it is driven from here.
    pub(crate) fn driven(&self, id: &str, cluster: &Cluster) -> Result<Arc<NodeGroup>, Error> {
        let (namespace, name) = split(id)?;
        self.group(namespace, name)
            .filter(|group| is_driven(group, cluster))
            .ok_or_else(|| Error::NoGroup(id.to_owned()))
    }

    /// The records of a group, by name.
    pub(crate) fn records_of(&self, group: &NodeGroup) -> Vec<Arc<VPSieNode>> {
        let mut records = self.records.state_filter(|record| is_of(record, group));
        records.sort_by_cached_key(|record| record.name_any());
        records
    }

    /// The Nodes that say which record claims them, by group and record. Names of groups of two
    /// namespaces may be the same, so it takes the record's word as well.
    pub(crate) fn claimed_nodes(&self) -> Claimed {
        let nodes = self.nodes.state();
        let claims = nodes.into_iter().filter_map(|node| {
            let labels = node.labels();
            let group = labels.get(labels::NODE_GROUP)?.clone();
            let record = labels.get(labels::VPSIE_NODE)?.clone();
            Some(((group, record), node))
        });
        Claimed(claims.collect())
    }

    /// The Node of a record.
    pub(crate) fn node_of(&self, record: &VPSieNode, claimed: &Claimed) -> Option<Arc<Node>> {
        let told = record.status.as_ref().and_then(|status| status.node_name.as_deref());
        match told {
            Some(name) => self
                .nodes
                .get(&ObjectRef::new(name))
                .filter(|node| claims(node).is_none_or(|claim| claim == record.name_any())),
            // It has joined, and its record does not say so yet.
            None => claimed.get(record).filter(|node| {
                !self.records.state().iter().any(|other| {
                    other.namespace() != record.namespace()
                        && other.name_any() == record.name_any()
                        && told_name(other) == Some(node.name_any().as_str())
                })
            }),
        }
    }
}

/// Nodes by the group and the record that they are labelled with.
pub(crate) struct Claimed(BTreeMap<(String, String), Arc<Node>>);

impl Claimed {
    fn get(&self, record: &VPSieNode) -> Option<Arc<Node>> {
        self.0.get(&(record.spec.node_group_name.clone(), record.name_any())).cloned()
    }
}

/// The record that a Node says it is claimed by.
pub(crate) fn claims(node: &Node) -> Option<&str> {
    node.labels().get(labels::VPSIE_NODE).map(String::as_str)
}

/// The Node that a record says it has become.
pub(crate) fn told_name(record: &VPSieNode) -> Option<&str> {
    record.status.as_ref()?.node_name.as_deref()
}
