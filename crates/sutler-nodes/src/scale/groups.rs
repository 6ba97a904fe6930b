//! What is known of groups and their nodes beyond their objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode, VpsieNodePhase as Phase, removal},
    infra::VMClass,
    names::{annotations, condition_types, labels, reasons},
};
use sutler_control::kit::Key;
use sutler_scale::world::{
    self, Group, GroupFacts, Price, Resources, Settings, Size, Upcoming, World,
};

use super::Notes;
use crate::{cluster::Id, context::Context};

/// How long a platform that had no room is left alone.
const BACKOFF: Duration = Duration::from_secs(300);

/// Pods that a node takes where nothing else is known: the kubelet's own default.
const PODS: i64 = 110;

/// Memory that the node itself keeps, where nothing else is known.
const KEPT_MEMORY: i64 = 100 << 20;

/// Fills in groups and what their nodes are, and tells which groups do not take part, or not with all that
/// they ask for, and why.
pub(super) fn fill(
    context: &Context,
    id: &Id,
    world: &mut World,
    going: &BTreeSet<String>,
) -> Notes {
    let mut notes = Notes::default();
    world.settings = Settings::read(&context.config()).unwrap_or_default();
    world.groups.clear();
    let names: Vec<String> = world.nodes().keys().cloned().collect();
    for name in names {
        if let Some(node) = world.node_mut(&name) {
            node.group = None;
            node.deleting = going.contains(&name);
        }
    }
    let owners = owners(context, world);
    let mut groups = context.groups.state();
    groups.sort_by_key(|group| crate::context::key_of(group.as_ref()));
    for group in groups {
        let key = crate::context::key_of(group.as_ref());
        if !removal::is_managed(&group) || Id::of(&group) != *id {
            continue;
        }
        if group.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let records = records(context, &group);
        let facts = facts(context, &group, &key, world, &owners, &records);
        let known: Vec<String> = facts.sizes.iter().map(|size| size.id.clone()).collect();
        match Group::read(&group, facts) {
            Ok(mut read) => {
                // What is wanted may not be written down yet where nobody has decided.
                read.desired = u32::try_from(removal::target_size(&group)).unwrap_or_default();
                count(&mut read, &group, &records);
                mark_nodes(&read, &group, &owners, world);
                let partly = not_served(&read).into_iter().chain(without_prices(&read, &group));
                let partly: Vec<String> = partly.collect();
                if !partly.is_empty() {
                    notes.partly.insert(key.clone(), partly.join("; "));
                }
                world.groups.insert(world::Key::new(&key.namespace, &key.name), read);
                notes.groups.insert(key, group);
            }
            Err(error) => {
                let unknown = unknown_sizes(&group, &known);
                notes.unfit.insert(key, unknown.unwrap_or_else(|| error.to_string()));
            }
        }
    }
    notes
}

/// The records of a group.
fn records(context: &Context, group: &NodeGroup) -> Vec<Arc<VPSieNode>> {
    let all = context.records.state().into_iter();
    all.filter(|record| removal::is_of(record, group)).collect()
}

/// Counts the records of a group. What its status says may be older than they are.
fn count(read: &mut Group, group: &NodeGroup, records: &[Arc<VPSieNode>]) {
    let listed = removal::removing(group).unwrap_or_default();
    let stay = || records.iter().filter(|record| !removal::is_leaving(record, &listed));
    read.current = u32::try_from(stay().count()).unwrap_or(u32::MAX);
    let failed = stay().filter(|record| has_failed(record)).count();
    read.failed = u32::try_from(failed).unwrap_or(u32::MAX);
}

fn has_failed(record: &VPSieNode) -> bool {
    let phase = record.status.as_ref().and_then(|status| status.phase.clone());
    phase == Some(Phase::Failed)
}

/// What a group asks for that its platform does not have.
fn not_served(group: &Group) -> Option<String> {
    let sold = group.sizes.iter().any(|size| size.spot_price.is_some());
    group.spot.as_ref().filter(|_| !sold).map(|spot| match spot.fallback {
        true => {
            "spotConfig: no machine that the platform may take back is offered, so ordinary ones \
                 are taken"
                .to_owned()
        }
        false => "spotConfig: no machine that the platform may take back is offered; set \
                  fallbackToOnDemand, or maxSpotPercentage to 0"
            .to_owned(),
    })
}

/// Why costs play no part in what is decided about a group that asks for it.
fn without_prices(group: &Group, object: &NodeGroup) -> Option<String> {
    let asked = object.spec.cost_optimization.as_ref().is_some_and(|cost| cost.enabled);
    let priced = group.sizes.iter().any(|size| size.price.is_some());
    (asked && !priced).then(|| {
        let names: Vec<&str> = group.sizes.iter().map(|size| size.id.as_str()).collect();
        format!(
            "costOptimization: nobody tells what {} costs: annotate the VMClass of that name with \
             {}, or make one",
            names.join(", "),
            annotations::PRICE_PER_HOUR
        )
    })
}

/// What is to be done about a group of whose sizes nothing is known: no node of it shows what it has.
fn unknown_sizes(group: &NodeGroup, known: &[String]) -> Option<String> {
    let named = group.spec.offering_ids.iter().chain(&group.spec.preferred_instance_type);
    let missing: Vec<&str> =
        named.filter(|name| !known.contains(name)).map(String::as_str).collect();
    (group.spec.class_ref.is_none() && known.is_empty() && !missing.is_empty()).then(|| {
        format!(
            "what {} is like is not known before the group has a node: set spec.desiredNodes, or make a \
             VMClass of that name in the group's namespace, with its CPUs, memory and price",
            missing.join(", ")
        )
    })
}

/// The records of nodes, by the node's name.
fn owners(context: &Context, world: &World) -> BTreeMap<String, Arc<VPSieNode>> {
    world
        .nodes()
        .values()
        .filter_map(|node| {
            let name = node.labels.get(labels::VPSIE_NODE)?;
            let space = node.labels.get(labels::NODE_GROUP_NAMESPACE)?;
            let record = Context::cached(&context.records, &Key::new(space, name))?;
            Some((node.name.clone(), record))
        })
        .collect()
}

fn facts(
    context: &Context,
    group: &NodeGroup,
    key: &Key,
    world: &World,
    owners: &BTreeMap<String, Arc<VPSieNode>>,
    records: &[Arc<VPSieNode>],
) -> GroupFacts {
    let listed = removal::removing(group).unwrap_or_default();
    let joined = |record: &VPSieNode| owners.values().any(|owner| owner.uid() == record.uid());
    let leaving = |record: &VPSieNode| removal::is_leaving(record, &listed);
    // A node that the platform has no room for is not on its way: its pods are for other groups.
    let coming = |record: &VPSieNode| {
        !joined(record) && !has_failed(record) && !leaving(record) && !lacks_room(record)
    };
    let upcoming = records
        .iter()
        .filter(|record| coming(record))
        .map(|record| Upcoming {
            size: record.spec.instance_type.clone().unwrap_or_default(),
            place: record.spec.datacenter_id.clone().unwrap_or_default(),
            ..Upcoming::default()
        })
        .collect();
    let exhausted = records.iter().filter_map(|record| {
        let status = record.status.as_ref()?;
        let error = crate::conditions::find(&status.conditions, condition_types::ERROR)?;
        error.last_transition_time.as_ref().map(|at| at.0).filter(|_| lacks_room(record))
    });
    let backoff_until =
        exhausted.max().map(|at| at.saturating_add(BACKOFF).unwrap_or(Timestamp::MAX));
    let given_up = records.iter().filter_map(|record| {
        let status = record.status.as_ref()?;
        let ready = crate::conditions::find(&status.conditions, condition_types::READY)?;
        let failed = status.reason.as_deref() == Some(reasons::DRAIN_FAILED);
        ready.last_transition_time.as_ref().map(|at| at.0).filter(|_| failed)
    });
    GroupFacts {
        sizes: sizes(context, group, key, world, owners),
        upcoming,
        leaving: u32::try_from(records.iter().filter(|record| leaving(record)).count())
            .unwrap_or(u32::MAX),
        backoff_until,
        last_down_failure: given_up.max(),
        ..GroupFacts::default()
    }
}

/// Whether the platform had no room for a record's machine.
fn lacks_room(record: &VPSieNode) -> bool {
    let reason = record.status.as_ref().and_then(|status| status.reason.as_deref());
    reason == Some(reasons::CAPACITY_LIMIT_REACHED)
}

/// The sizes of a group's machines: as its nodes show them, and where there are none as classes say: the
/// group's own, and those that its offerings name.
fn sizes(
    context: &Context,
    group: &NodeGroup,
    key: &Key,
    world: &World,
    owners: &BTreeMap<String, Arc<VPSieNode>>,
) -> Vec<Size> {
    let mut sizes: BTreeMap<String, Size> = BTreeMap::new();
    // Of a platform's own sizes a class of the same name tells what nobody else does.
    let reference = group.spec.class_ref.as_ref();
    let space =
        reference.map_or(key.namespace.as_str(), |class| class.namespace_or(&key.namespace));
    let preferred = group.spec.preferred_instance_type.iter();
    let named = group.spec.offering_ids.iter().chain(preferred);
    for name in named.chain(reference.map(|class| &class.name)) {
        if let Some(class) = Context::cached(&context.classes, &Key::new(space, name)) {
            sizes.insert(class.name_any(), size_of(&class));
        }
    }
    for (name, record) in owners {
        let (Some(node), Some(id)) = (world.nodes().get(name), &record.spec.instance_type) else {
            continue;
        };
        if !removal::is_of(record, group) || node.pods == 0 {
            continue;
        }
        let size =
            sizes.entry(id.clone()).or_insert_with(|| Size { id: id.clone(), ..Size::default() });
        size.allocatable = node.allocatable.clone();
        size.pods = node.pods;
    }
    sizes.into_values().collect()
}

fn size_of(class: &VMClass) -> Size {
    let memory = class.spec.memory.to_u64().unwrap_or_default();
    let memory = i64::try_from(memory).unwrap_or(i64::MAX).saturating_sub(KEPT_MEMORY).max(0);
    let amounts = BTreeMap::from([
        ("cpu".to_owned(), Quantity(class.spec.cpu.to_string())),
        ("memory".to_owned(), Quantity(memory.to_string())),
    ]);
    let price = class.annotations().get(annotations::PRICE_PER_HOUR);
    Size {
        id: class.name_any(),
        allocatable: Resources::read("spec", &amounts).unwrap_or_default(),
        pods: PODS,
        price: price.and_then(|text| text.parse().ok()).and_then(Price::per_hour),
        ..Size::default()
    }
}

/// Fills in of which group a node is, and what it is there.
fn mark_nodes(
    group: &Group,
    object: &NodeGroup,
    owners: &BTreeMap<String, Arc<VPSieNode>>,
    world: &mut World,
) {
    let listed = removal::removing(object).unwrap_or_default();
    for (name, record) in owners {
        let own = record.namespace().as_deref() == Some(group.key.namespace.as_str())
            && record.spec.node_group_name == group.key.name;
        if !own {
            continue;
        }
        if let Some(node) = world.node_mut(name) {
            node.group = Some(group.key.clone());
            node.size = record.spec.instance_type.clone();
            node.place = record.spec.datacenter_id.clone();
            node.deleting |= removal::is_leaving(record, &listed);
            let size = node.size.as_deref().and_then(|id| group.size_of(id));
            node.price = size.and_then(|size| size.price);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(spec: serde_json::Value) -> NodeGroup {
        let mut whole = json!({ "minNodes": 0, "maxNodes": 9 });
        if let (Some(whole), serde_json::Value::Object(more)) = (whole.as_object_mut(), spec) {
            whole.extend(more);
        }
        NodeGroup::new("g", serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn sizes_that_nobody_has_told_of_say_what_to_do() {
        let managed = object(json!({ "offeringIDs": ["small", "large"] }));
        let why = unknown_sizes(&managed, &[]).unwrap();
        assert!(why.contains("small, large") && why.contains("VMClass"), "{why}");
        // Something else is wrong with these.
        assert_eq!(unknown_sizes(&managed, &["small".to_owned()]), None);
        let class = json!({ "classRef": { "name": "c" }, "offeringIDs": ["small"] });
        assert_eq!(unknown_sizes(&object(class), &[]), None);
    }

    #[test]
    fn costs_that_nobody_knows_are_said_where_somebody_asks_for_them() {
        let size = |price| Size { id: "small".to_owned(), price, ..Size::default() };
        let said = |spec: serde_json::Value, price| {
            let object = object(spec);
            let facts = GroupFacts { sizes: vec![size(price)], ..GroupFacts::default() };
            without_prices(&Group::read(&object, facts).unwrap(), &object)
        };
        let asked = json!({ "costOptimization": { "enabled": true } });
        let why = said(asked.clone(), None).unwrap();
        assert!(why.contains("small") && why.contains("sutler.dev/price-per-hour"), "{why}");
        assert_eq!(said(asked, Price::per_hour(0.5)), None);
        assert_eq!(said(json!({}), None), None);
        assert_eq!(said(json!({ "costOptimization": { "enabled": false } }), None), None);
    }
}
