//! Whose a node is.
//!
//! cluster-autoscaler hands over what it knows of a node: its provider ID, name, labels and
//! annotations. Labels lead to the record directly; a node that has none yet is looked for by the
//! others.

use std::sync::Arc;

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use sutler_api::{
    autoscaler::{
        NodeGroup, VPSieNode,
        removal::{from_provider_id, is_of},
    },
    names::labels,
};

use crate::{
    Cluster,
    cache::Caches,
    groups::{claims, is_driven, told_name},
    instances::node_id,
    pb::ExternalGrpcNode,
};

/// Whether the autoscaler made the node up, for an instance of which it sees no Node.
pub(crate) fn is_made_up(node: &ExternalGrpcNode) -> bool {
    !node.provider_id.is_empty() && node.name == node.provider_id
}

impl Caches {
    /// The group of a node, if it is driven from here.
    pub(crate) fn group_of(
        &self,
        node: &ExternalGrpcNode,
        cluster: &Cluster,
    ) -> Option<Arc<NodeGroup>> {
        let record = self.labelled_record(node).or_else(|| self.record_by_other_means(node));
        let group = match record {
            Some(record) => {
                self.group(&record.namespace().unwrap_or_default(), &record.spec.node_group_name)
            }
            // Its record is gone, or is not known yet.
            None => {
                let name = node.labels.get(labels::NODE_GROUP)?;
                let groups = self.all_groups();
                let mut named = groups
                    .into_iter()
                    .filter(|group| group.name_any() == *name && is_driven(group, cluster));
                // Of two groups of this name it could be either, and a guess would remove nodes.
                named.next().filter(|_| named.next().is_none())
            }
        };
        group.filter(|group| is_driven(group, cluster))
    }

    /// The name of the record of a node of this group. The record need not be there any more.
    pub(crate) fn record_name(&self, group: &NodeGroup, node: &ExternalGrpcNode) -> Option<String> {
        if let Some(labelled) = node.labels.get(labels::NODE_GROUP)
            && *labelled != group.name_any()
        {
            return None;
        }
        if let Some(name) = node.labels.get(labels::VPSIE_NODE) {
            // The same names may be used in another namespace, where another record has this node.
            let elsewhere = self.records.find(|record| {
                told_name(record) == Some(node.name.as_str()) && !is_of(record, group)
            });
            return elsewhere.is_none().then(|| name.clone());
        }
        if let Some((namespace, name)) = from_provider_id(&node.provider_id) {
            return (group.namespace().as_deref() == Some(namespace)).then(|| name.to_owned());
        }
        let record = self.record_by_other_means(node)?;
        is_of(&record, group).then(|| record.name_any())
    }

    fn labelled_record(&self, node: &ExternalGrpcNode) -> Option<Arc<VPSieNode>> {
        let group = node.labels.get(labels::NODE_GROUP)?;
        let name = node.labels.get(labels::VPSIE_NODE)?;
        let groups = self.all_groups();
        let namespaces = groups.iter().filter(|g| g.name_any() == *group);
        let mut records: Vec<Arc<VPSieNode>> = namespaces
            .filter_map(|group| {
                let key = ObjectRef::new(name).within(&group.namespace()?);
                self.records.get(&key).filter(|record| is_of(record, group))
            })
            .collect();
        if let Some(sure) =
            records.iter().find(|record| told_name(record) == Some(node.name.as_str()))
        {
            return Some(sure.clone());
        }
        records.retain(|record| told_name(record).is_none());
        if records.len() == 1 { records.pop() } else { None }
    }

    /// By provider ID or name: of a record, or of a Node that says whose it is.
    fn record_by_other_means(&self, node: &ExternalGrpcNode) -> Option<Arc<VPSieNode>> {
        if let Some((namespace, name)) = from_provider_id(&node.provider_id) {
            return self.records.get(&ObjectRef::new(name).within(namespace));
        }
        let seen = self.nodes.get(&ObjectRef::new(&node.name)).or_else(|| {
            let id = Some(node.provider_id.as_str()).filter(|id| !id.is_empty());
            id.and_then(|id| self.nodes.find(|seen| node_id(seen) == Some(id)))
        });
        let name = seen.as_ref().map_or(node.name.clone(), |seen| seen.name_any());
        let told = self.records.find(|record| told_name(record) == Some(name.as_str()));
        told.or_else(|| {
            let seen = seen?;
            let (record, group) = (claims(&seen)?, seen.labels().get(labels::NODE_GROUP)?);
            let mut named = self.records.state_filter(|other| {
                other.name_any() == record && other.spec.node_group_name == *group
            });
            if named.len() == 1 { named.pop() } else { None }
        })
    }
}
