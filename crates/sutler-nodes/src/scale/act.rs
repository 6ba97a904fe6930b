//! Carries out what was decided, and says what was not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    autoscaler::{
        NodeGroup, VPSieNode,
        next_nodes::{self, NextNode},
        removal::{self, REMOVING},
    },
    names::{MANAGER, annotations},
};
use sutler_control::kit::{Key, lock};
use sutler_scale::{Decision, cost::Standing, grow::Growth, shrink::Verdict};

use super::{Notes, Said};
use crate::{
    cluster::Id,
    context::Context,
    group::{free_names, plan, usual, wanted as wanted_of},
};

/// Nodes whose reasons for staying are told; the others' are mostly the same.
const TOLD: usize = 3;

/// Writes the sizes that were decided on, each over exactly the version that it was decided on.
pub(super) async fn carry_out(
    context: &Context,
    decision: &Decision,
    groups: &BTreeMap<Key, Arc<NodeGroup>>,
) -> Result<(), kube::Error> {
    for growth in &decision.grow.growths {
        let key = Key::new(&growth.group.namespace, &growth.group.name);
        let Some(group) = groups.get(&key) else { continue };
        let wanted = i32::try_from(growth.desired).unwrap_or(i32::MAX);
        if wanted <= removal::target_size(group) {
            continue;
        }
        let pods: usize = growth.nodes.iter().map(|node| node.node.pods.len()).sum();
        let more = growth.nodes.len();
        let mut body = json!({ "spec": { "desiredNodes": wanted } });
        if let Some(wishes) = wishes(context, group, &key, growth) {
            body["metadata"]["annotations"] = json!({ annotations::NEXT_NODES: wishes });
        }
        if write(context, group, body).await? {
            let message = format!("{more} more nodes, {wanted} in all, for {pods} pods");
            context.recorder.note(group.as_ref(), "ScaledUp", &message).await;
        }
    }
    for (key, names) in leaving(decision, &context.records.state()) {
        let Some(group) = groups.get(&key) else { continue };
        let wanted = decision
            .shrink
            .desired
            .get(&sutler_scale::world::Key::new(&key.namespace, &key.name))
            .and_then(|wanted| i32::try_from(*wanted).ok());
        let Some(wanted) = wanted.filter(|wanted| *wanted < removal::target_size(group)) else {
            continue;
        };
        let Ok(mut listed) = removal::removing(group) else { continue };
        listed.extend(names.iter().cloned());
        let list = json!(listed).to_string();
        let body = json!({
            "metadata": { "annotations": { REMOVING: list } },
            "spec": { "desiredNodes": wanted },
        });
        if write(context, group, body).await? {
            let names: Vec<String> = names.into_iter().collect();
            let message = format!("{} are idle and leave; {wanted} stay", names.join(", "));
            context.recorder.note(group.as_ref(), "ScaledDown", &message).await;
        }
    }
    Ok(())
}

/// What the new nodes are to be, by the names that their records will have; none where they are as the
/// group says.
fn wishes(
    context: &Context,
    group: &NodeGroup,
    key: &Key,
    growth: &Growth,
) -> Option<serde_json::Value> {
    let members = lock(&context.members).of_group(key);
    let listed = removal::removing(group).unwrap_or_default();
    // The first free names are for records that were wanted before.
    let before = plan(&wanted_of(group, listed), &members).make.len();
    let usual = usual(group);
    let mut wishes = next_nodes::next_nodes(group);
    let known = wishes.len();
    let name = group.name_any();
    for (name, new) in free_names(&name, &members).skip(before).zip(&growth.nodes) {
        let other = |text: &String, usual: &Option<String>| {
            (!text.is_empty() && Some(text) != usual.as_ref()).then(|| text.clone())
        };
        let wish = NextNode {
            size: other(&new.node.size, &usual.size),
            place: other(&new.node.place, &usual.place),
        };
        if wish != NextNode::default() {
            wishes.insert(name, wish);
        }
    }
    (wishes.len() > known).then(|| next_nodes::annotation(&wishes))
}

/// The records of the nodes that go, by group. A group is left out where one of them is not known: it
/// would be made smaller without naming it, and choose another for itself.
fn leaving(decision: &Decision, records: &[Arc<VPSieNode>]) -> BTreeMap<Key, BTreeSet<String>> {
    let mut leaving: BTreeMap<Key, Option<BTreeSet<String>>> = BTreeMap::new();
    for removal in &decision.shrink.removals {
        let key = Key::new(&removal.group.namespace, &removal.group.name);
        let record = record_of(records, &key, &removal.node);
        let names = leaving.entry(key).or_insert_with(|| Some(BTreeSet::new()));
        *names = names.take().zip(record).map(|(mut names, record)| {
            names.insert(record);
            names
        });
    }
    leaving.into_iter().filter_map(|(key, names)| Some((key, names?))).collect()
}

/// The record of a group that has a node. Other clusters may have nodes of the same name.
fn record_of(records: &[Arc<VPSieNode>], group: &Key, node: &str) -> Option<String> {
    let has = |record: &VPSieNode| {
        let status = record.status.as_ref();
        status.and_then(|status| status.node_name.as_deref()) == Some(node)
    };
    let mut records = records.iter();
    records
        .find(|record| has(record) && crate::node::owner_of(record) == *group)
        .map(|record| record.name_any())
}

async fn write(
    context: &Context,
    group: &NodeGroup,
    mut body: serde_json::Value,
) -> Result<bool, kube::Error> {
    body["metadata"]["resourceVersion"] = json!(group.resource_version());
    body["metadata"]["uid"] = json!(group.uid());
    let api: Api<NodeGroup> =
        Api::namespaced(context.client.clone(), &group.namespace().unwrap_or_default());
    let params = PatchParams::apply(MANAGER);
    match api.patch(&group.name_any(), &params, &Patch::Merge(body)).await {
        Ok(_) => Ok(true),
        // Somebody else was first: it is decided anew.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Keeps what groups may say of what was not done, and wakes those whose words have changed.
pub(super) fn tell(context: &Context, id: &Id, decision: &Decision, notes: &Notes) {
    let mut said: BTreeMap<Key, Said> = BTreeMap::new();
    let own = |key: &sutler_scale::world::Key| Key::new(&key.namespace, &key.name);
    for held in &decision.grow.held {
        said.entry(own(&held.group)).or_default().grow = Some(held.why.to_string());
    }
    for unhelped in &decision.grow.unhelped {
        for (group, why) in &unhelped.groups {
            let first = unhelped.pods.first().map(ToString::to_string).unwrap_or_default();
            let others = unhelped.pods.len().saturating_sub(1);
            let entry = said.entry(own(group)).or_default();
            entry.grow.get_or_insert_with(|| match others {
                0 => format!("for pod {first}: {why}"),
                others => format!("for pod {first} and {others} like it: {why}"),
            });
        }
    }
    let mut staying: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    let mut records = context.records.state();
    records.sort_by_key(|record| crate::context::key_of(record.as_ref()));
    for record in records {
        let node = record.status.as_ref().and_then(|status| status.node_name.clone());
        let Some(node) = node else { continue };
        if let Some(Verdict::Keep(reasons)) = decision.shrink.verdicts.get(&node)
            && let Some(reason) = reasons.first()
        {
            let told = staying.entry(crate::node::owner_of(&record)).or_default();
            told.push(format!("{node} stays: {reason}"));
        }
    }
    for (key, mut told) in staying {
        let others = told.len().saturating_sub(TOLD);
        told.truncate(TOLD);
        if others > 0 {
            told.push(format!("and {others} more"));
        }
        said.entry(key).or_default().shrink = Some(told.join("; "));
    }
    for proposal in &decision.proposals {
        let waits = match proposal.standing {
            Standing::NeedsApproval => "it waits for a person",
            Standing::RebalancingDisabled => "globalSettings.enableRebalancing is false",
            Standing::Go | Standing::Rests { .. } | Standing::AfterOthers => continue,
        };
        let entry = said.entry(own(&proposal.group)).or_default();
        entry.proposal.get_or_insert_with(|| {
            format!("{} could be one {}: {waits}", proposal.nodes.join(", "), proposal.size)
        });
    }
    for (key, why) in &notes.unfit {
        said.entry(key.clone()).or_default().unfit = Some(why.clone());
    }
    for (key, why) in &notes.partly {
        said.entry(key.clone()).or_default().partly = Some(why.clone());
    }
    for (key, source) in &notes.load {
        said.entry(key.clone()).or_default().load = Some(source.clone());
    }
    let mut known = lock(&context.scaling);
    // What groups of other clusters have to say is told by those who look at them.
    let elsewhere = |key: &Key| {
        let group = Context::cached(&context.groups, key);
        group.is_some_and(|group| Id::of(&group) != *id)
    };
    said.retain(|key, _| !elsewhere(key));
    said.extend(
        known.iter().filter(|(key, _)| elsewhere(key)).map(|(k, v)| (k.clone(), v.clone())),
    );
    let changed: BTreeSet<Key> = known
        .keys()
        .chain(said.keys())
        .filter(|key| known.get(*key) != said.get(*key))
        .cloned()
        .collect();
    *known = said;
    drop(known);
    for key in changed {
        context.wake_group(&key);
    }
}

#[cfg(test)]
mod tests {
    use sutler_scale::{
        decide,
        shrink::{Removal, ShrinkPlan},
        world::World,
    };

    use super::*;

    fn record(group: &str, name: &str, node: Option<&str>) -> Arc<VPSieNode> {
        let record = json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
            "metadata": { "name": name, "namespace": "ns" },
            "spec": { "nodeGroupName": group }, "status": { "nodeName": node },
        });
        Arc::new(serde_json::from_value(record).unwrap())
    }

    /// These nodes of group `web` may go, and all others stay.
    fn decision(nodes: &[&str]) -> Decision {
        let removals = nodes.iter().map(|node| Removal {
            node: (*node).to_owned(),
            group: sutler_scale::world::Key::new("ns", "web"),
            moves: Vec::new(),
            forced: false,
            evict_within: 120,
            saves: None,
        });
        let shrink = ShrinkPlan { removals: removals.collect(), ..ShrinkPlan::default() };
        Decision { shrink, ..decide(&World::default(), None, jiff::Timestamp::UNIX_EPOCH) }
    }

    #[test]
    fn defect_01_only_the_records_of_nodes_that_may_go_are_named() {
        let web = Key::new("ns", "web");
        let records = [
            // A node of the same name, in another cluster.
            record("far", "far-0001", Some("a")),
            record("web", "web-0001", Some("a")),
            record("web", "web-0002", Some("b")),
            record("web", "web-0003", None),
        ];
        let named = |nodes: &[&str]| leaving(&decision(nodes), &records).remove(&web);
        assert_eq!(named(&["a"]), Some(BTreeSet::from(["web-0001".to_owned()])));
        assert_eq!(named(&[]), None);
        // Where one is not known, none goes: the group would choose one that was refused.
        assert_eq!(named(&["a", "c"]), None);
    }
}
