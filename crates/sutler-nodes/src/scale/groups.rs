//! What is known of groups and their nodes beyond their objects.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode, VpsieNodePhase as Phase, removal},
    infra::VMClass,
    names::{annotations, condition_types, labels, reasons},
};
use sutler_control::kit::Key;
use sutler_scale::{
    shrink::requested_loads,
    world::{
        self, Group, GroupFacts, Load, Price, Resources, Settings, Size, Upcoming, Window, World,
    },
};

use super::Loads;
use crate::{cluster::Id, context::Context};

/// How long a platform that had no room is left alone.
const BACKOFF: Duration = Duration::from_secs(300);

/// Pods that a node takes where nothing else is known: the kubelet's own default.
const PODS: i64 = 110;

/// Memory that the node itself keeps, where nothing else is known.
const KEPT_MEMORY: i64 = 100 << 20;

/// Fills in groups and what their nodes are, and tells which groups do not take part and why.
pub(super) fn fill(
    context: &Context,
    id: &Id,
    world: &mut World,
    loads: &mut Loads,
    now: Timestamp,
) -> BTreeMap<Key, String> {
    let mut unfit = BTreeMap::new();
    world.settings = Settings::read(&context.config()).unwrap_or_default();
    read_loads(world, loads, now);
    world.groups.clear();
    let owners = owners(context, world);
    for group in context.groups.state() {
        let key = crate::context::key_of(group.as_ref());
        if !removal::is_managed(&group) || Id::of(&group) != *id {
            continue;
        }
        if group.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let facts = facts(context, &group, &key, world, &owners, loads);
        match Group::read(&group, facts) {
            Ok(mut read) => {
                // What is wanted may not be written down yet where nobody has decided.
                read.desired = u32::try_from(removal::target_size(&group)).unwrap_or_default();
                mark_nodes(&read, &owners, world, loads);
                world.groups.insert(world::Key::new(&key.namespace, &key.name), read);
            }
            Err(error) => {
                unfit.insert(key, error.to_string());
            }
        }
    }
    unfit
}

/// The records of nodes, by the node's name.
fn owners(context: &Context, world: &World) -> BTreeMap<String, std::sync::Arc<VPSieNode>> {
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

/// Takes a reading of every node.
fn read_loads(world: &mut World, loads: &mut Loads, now: Timestamp) {
    let read: Vec<(String, Load)> =
        requested_loads(world).into_iter().map(|(name, load)| (name.to_owned(), load)).collect();
    loads.nodes.retain(|name, _| world.nodes().contains_key(name));
    for (name, load) in read {
        let window = loads.nodes.entry(name.clone()).or_insert_with(|| Window::new(3600));
        window.push(now, load);
        if let Some(node) = world.node_mut(&name) {
            node.load = window.clone();
        }
    }
}

fn facts(
    context: &Context,
    group: &NodeGroup,
    key: &Key,
    world: &World,
    owners: &BTreeMap<String, std::sync::Arc<VPSieNode>>,
    loads: &mut Loads,
) -> GroupFacts {
    let listed = removal::removing(group).unwrap_or_default();
    let records: Vec<_> = context
        .records
        .state()
        .into_iter()
        .filter(|record| removal::is_of(record, group))
        .collect();
    let joined = |record: &VPSieNode| owners.values().any(|owner| owner.uid() == record.uid());
    let failed = |record: &VPSieNode| {
        record.status.as_ref().and_then(|status| status.phase.clone()) == Some(Phase::Failed)
    };
    let leaving = |record: &VPSieNode| removal::is_leaving(record, &listed);
    let upcoming = records
        .iter()
        .filter(|record| !joined(record) && !failed(record) && !leaving(record))
        .map(|record| Upcoming {
            size: record.spec.instance_type.clone().unwrap_or_default(),
            place: record.spec.datacenter_id.clone().unwrap_or_default(),
            ..Upcoming::default()
        })
        .collect();
    let exhausted = records.iter().filter_map(|record| {
        let status = record.status.as_ref()?;
        let reason = status.reason.as_deref() == Some(reasons::CAPACITY_LIMIT_REACHED);
        let error = crate::conditions::find(&status.conditions, condition_types::ERROR)?;
        error.last_transition_time.as_ref().map(|at| at.0).filter(|_| reason)
    });
    let backoff_until =
        exhausted.max().map(|at| at.saturating_add(BACKOFF).unwrap_or(Timestamp::MAX));
    let given_up = records.iter().filter_map(|record| {
        let status = record.status.as_ref()?;
        let ready = crate::conditions::find(&status.conditions, condition_types::READY)?;
        let failed = status.reason.as_deref() == Some(reasons::DRAIN_FAILED);
        ready.last_transition_time.as_ref().map(|at| at.0).filter(|_| failed)
    });
    let load = loads.groups.entry(key.clone()).or_insert_with(|| Window::new(3600)).clone();
    GroupFacts {
        sizes: sizes(context, group, key, world, owners),
        upcoming,
        leaving: u32::try_from(records.iter().filter(|record| leaving(record)).count())
            .unwrap_or(u32::MAX),
        backoff_until,
        last_down_failure: given_up.max(),
        load,
        ..GroupFacts::default()
    }
}

/// The sizes of a group's machines: as its nodes show them, and where there are none as its class says.
fn sizes(
    context: &Context,
    group: &NodeGroup,
    key: &Key,
    world: &World,
    owners: &BTreeMap<String, std::sync::Arc<VPSieNode>>,
) -> Vec<Size> {
    let mut sizes: BTreeMap<String, Size> = BTreeMap::new();
    if let Some(reference) = &group.spec.class_ref {
        let class = Key::new(reference.namespace_or(&key.namespace), &reference.name);
        if let Some(class) = Context::cached(&context.classes, &class) {
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

/// Fills in of which group a node is, and how busy the group was.
fn mark_nodes(
    group: &Group,
    owners: &BTreeMap<String, std::sync::Arc<VPSieNode>>,
    world: &mut World,
    loads: &mut Loads,
) {
    let _ = loads;
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
            node.deleting |= record.metadata.deletion_timestamp.is_some();
            let size = node.size.as_deref().and_then(|id| group.size_of(id));
            node.price = size.and_then(|size| size.price);
        }
    }
}
