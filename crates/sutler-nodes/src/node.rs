//! The controller of VPSieNodes: fetch, plan, carry out one step, say so.

mod discoverer;
mod drainer;
mod execute;
mod joiner;
mod plan;
mod provisioner;
mod record;
mod status;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::controller::Action,
};
use serde_json::{Value, json};
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode, VPSieNodeStatus, removal},
    infra::VirtualMachine,
    names::{MANAGER, reasons},
};
use sutler_control::kit::{Key, Pace, lock, status_difference, version_of};

use execute::{Done, carry_out};

pub use drainer::{Pods, sort as sort_pods};
pub use joiner::{claim as claim_patch, node_of, wanted_labels};
pub use plan::{DRAINED, DRAINING, Drain, Inputs, Limits, Plan, Report, Step, plan};
pub use provisioner::{IMPLICIT_PROVIDER, machine_of};
pub use record::{Asked, Machine, MachineRecord, Record};

use crate::{
    cluster::{self, Cluster, Seen},
    context::{Context, key_of},
};

/// Why a reconcile did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused or failed.
    #[error("the API did not answer as needed")]
    Api(#[from] kube::Error),
}

/// The pause after which a record is looked at even if nothing happened to it.
const RESYNC: Duration = Duration::from_secs(1800);

/// The pause while something is waited for that may happen unseen, as upstream's users know it.
const WAITING: Duration = Duration::from_secs(10);

/// The pause until the groups are known.
const SOON: Duration = Duration::from_millis(500);

/// The pause after a step that is followed by another.
const AGAIN: Duration = Duration::from_millis(50);

/// The pause after a write that came too late, unless the watch is quicker.
const LATE: Duration = Duration::from_secs(1);

/// What this process knows of one record. Forgetting it is safe.
#[derive(Default)]
pub(crate) struct Memory {
    /// The record as our last write left it, until the cache has caught up.
    written: Option<Arc<VPSieNode>>,
    /// Whether the record is known to be off the books.
    gone: bool,
    /// How its drain goes.
    drain: Drain,
    /// Whether the node that it claimed is known not to be there any more, or to be another's.
    node_gone: bool,
    /// When its status was last written.
    said_at: Option<Timestamp>,
    /// How often it was, of late.
    pace: Pace,
    /// The addresses that it is known by.
    ips: Vec<String>,
}

/// The next try after an error of the API.
pub(crate) fn error_policy(node: Arc<VPSieNode>, error: &Error, _: Arc<Context>) -> Action {
    let Error::Api(source) = error;
    let (record, error) = (key_of(node.as_ref()), source as &dyn std::error::Error);
    tracing::debug!(%record, error, "a node's record is tried again");
    Action::requeue(Duration::from_secs(2))
}

/// What is known of one record and what hangs on it.
struct Known {
    node: Arc<VPSieNode>,
    record: Record,
    group: Option<Arc<NodeGroup>>,
    vm: Option<Arc<VirtualMachine>>,
    machine: MachineRecord,
    cluster: Option<Arc<Cluster>>,
    seen: Option<Seen>,
    labelled: bool,
    hints: Option<Vec<String>>,
    removing: bool,
}

/// Looks at one record.
pub(crate) async fn reconcile(
    cached: Arc<VPSieNode>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let uid = cached.uid().unwrap_or_default();
    if context.memory(&uid, |memory| memory.gone) {
        return Ok(Action::await_change());
    }
    // Of which cluster its node is, its group knows.
    if !context.knows_groups() {
        return Ok(Action::requeue(SOON));
    }
    let node = freshest(&context, &uid, cached);
    let known = know(&context, node).await?;
    remember(&context, &known);
    // Before the first look at the nodes of its cluster nothing can be said: that wakes it.
    if known.cluster.as_ref().is_some_and(|cluster| !cluster.in_sight()) {
        return Ok(Action::requeue(WAITING));
    }
    let config = context.config();
    let limits = Limits {
        provisioning: context.settings.provisioning_timeout,
        joining: context.settings.joining_timeout,
    };
    let patience =
        Duration::from_secs(u64::try_from(config.pod_eviction_timeout_seconds).unwrap_or(120));
    let now = context.clock.now();
    let drain = context.memory(&uid, |memory| {
        // What was given up is forgotten when nobody wants it any more.
        if !known.removing && !known.record.deleting {
            memory.drain = Drain::Unknown;
        }
        memory.drain.clone()
    });
    let inputs = Inputs {
        record: &known.record,
        machine: &known.machine,
        node: known.seen.as_ref(),
        in_sight: known.cluster.is_some(),
        node_gone: context.memory(&uid, |memory| memory.node_gone),
        labelled: known.labelled,
        removing: known.removing,
        drain: &drain,
        hints: known.hints.as_deref(),
        limits,
        now,
    };
    let next = plan(&inputs);
    let key = &known.record.key;
    tracing::debug!(%key, step = ?next.step, reason = next.report.reason, "a node's record");
    match carry_out(&context, &known, &next, patience).await? {
        Done::Nothing => {}
        Done::Again => return Ok(Action::requeue(AGAIN)),
        Done::Late => return Ok(Action::requeue(LATE)),
        Done::Blocked(message) => {
            let report = Report {
                reason: reasons::WAITING.to_owned(),
                message,
                error: true,
                ..next.report.clone()
            };
            publish(&context, &known, &inputs, &report).await?;
            return Ok(Action::requeue(WAITING));
        }
        Done::Gone => {
            forget(&context, &known);
            return Ok(Action::await_change());
        }
    }
    let said = publish(&context, &known, &inputs, &next.report).await?;
    let wake = match &next.step {
        Step::Wait(at) => Some(*at),
        _ => None,
    };
    let waits = matches!(known.machine.ours(), Some(machine) if machine.id.is_none());
    let most = if waits { WAITING } else { RESYNC };
    let at = [wake, said].into_iter().flatten().min();
    Ok(Action::requeue(match at {
        Some(at) => Duration::try_from(at.duration_since(now))
            .unwrap_or_default()
            .clamp(Duration::from_millis(1), most),
        None => most,
    }))
}

/// Gathers what is known of a record.
async fn know(context: &Arc<Context>, node: Arc<VPSieNode>) -> Result<Known, Error> {
    let record = Record::read(&node);
    let key = &record.key;
    let group_key = Key::new(&key.namespace, &node.spec.node_group_name);
    let group = Context::cached(&context.groups, &group_key);
    let cached = Context::cached(&context.machines, key);
    // Only what carries our labels is cached; a record that goes looks at the API itself.
    let vm = match cached {
        Some(vm) => Some(vm),
        None if record.deleting || record.made => {
            let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &key.namespace);
            api.get_opt(&key.name).await?.map(Arc::new)
        }
        None => None,
    };
    let machine = MachineRecord::read(vm.as_deref(), &record.uid);
    let cluster = match &group {
        Some(group) => cluster::of_group(context, group).await.ok(),
        None => cluster::of(context, cluster::Id::Own).await.ok(),
    };
    let name = &node.spec.node_group_name;
    let managed = node.spec.class_ref.is_none();
    let (seen, hints) = match &cluster {
        None => (None, None),
        Some(cluster) => cluster.read(|index| {
            let seen = node_of(&record, name, machine.ours(), index).cloned();
            let hints = machine
                .ours()
                .and_then(|ours| discoverer::addresses(&record, name, managed, ours, index));
            (seen, hints)
        }),
    };
    let labelled = match (&cluster, &seen) {
        (Some(cluster), Some(seen)) => {
            let object = Context::cached(&cluster.nodes, &Key::new("", &seen.name));
            object.is_some_and(|object| claim(&node, group.as_deref(), &object).is_none())
        }
        _ => false,
    };
    let listed = group.as_ref().and_then(|group| removal::removing(group).ok()).unwrap_or_default();
    let removing = listed.contains(&key.name);
    Ok(Known { record, group, vm, machine, cluster, seen, labelled, hints, removing, node })
}

/// What a node lacks of what it should carry.
fn claim(node: &VPSieNode, group: Option<&NodeGroup>, object: &Node) -> Option<Value> {
    let taints = group.map(|group| group.spec.taints.as_slice()).unwrap_or_default();
    claim_patch(object, &wanted_labels(node, group), taints)
}

/// Keeps the indexes by which events find this record.
fn remember(context: &Context, known: &Known) {
    let key = &known.record.key;
    let ips = known.machine.ours().map(|machine| machine.ips.clone()).unwrap_or_default();
    let before =
        context.memory(&known.record.uid, |memory| std::mem::replace(&mut memory.ips, ips.clone()));
    if before != ips {
        let mut addresses = lock(&context.addresses);
        for ip in &before {
            if let Some(keys) = addresses.get_mut(ip) {
                keys.remove(key);
                if keys.is_empty() {
                    addresses.remove(ip);
                }
            }
        }
        for ip in ips {
            addresses.entry(ip).or_default().insert(key.clone());
        }
    }
    let id = known.group.as_ref().map_or(cluster::Id::Own, |group| cluster::Id::of(group));
    let mut waiting = lock(&context.waiting);
    match known.seen.is_none() && !known.record.deleting {
        true => {
            waiting.entry(id).or_default().insert(key.clone());
        }
        false => {
            if let Some(keys) = waiting.get_mut(&id) {
                keys.remove(key);
            }
        }
    }
}

/// Forgets a record that is off the books.
fn forget(context: &Context, known: &Known) {
    let key = &known.record.key;
    let ips = context.memory(&known.record.uid, |memory| {
        *memory = Memory { gone: true, ..Memory::default() };
        known.machine.ours().map(|machine| machine.ips.clone()).unwrap_or_default()
    });
    let mut addresses = lock(&context.addresses);
    for ip in ips {
        if let Some(keys) = addresses.get_mut(&ip) {
            keys.remove(key);
        }
    }
    for keys in lock(&context.waiting).values_mut() {
        keys.remove(key);
    }
}

/// Writes what is other in the status, and what upstream's users read in the spec.
async fn publish(
    context: &Arc<Context>,
    known: &Known,
    inputs: &Inputs<'_>,
    report: &Report,
) -> Result<Option<Timestamp>, Error> {
    let node = &known.node;
    if let Some(vm) = known.vm.as_deref().filter(|_| known.machine.ours().is_some())
        && let Some(spec) = status::spec(node, vm)
    {
        let body = json!({
            "metadata": { "resourceVersion": node.resource_version(), "uid": node.uid() },
            "spec": spec,
        });
        // The status follows from what this leaves.
        let pause = match write(context, known, body).await? {
            Done::Late => LATE,
            _ => Duration::ZERO,
        };
        return Ok(Some(inputs.now.saturating_add(pause).unwrap_or(inputs.now)));
    }
    let old = node.status.clone().unwrap_or_default();
    let new = status::next(node, inputs, known.vm.as_deref(), report);
    let Some(patch) = status_difference(&old, &new) else { return Ok(None) };
    let last = context.memory(&known.record.uid, |memory| memory.said_at);
    if !status::matters(&old, &new)
        && let Some(due) = status::due(last, inputs.now)
    {
        return Ok(Some(due));
    }
    if let Err(wait) = context.memory(&known.record.uid, |memory| memory.pace.take(inputs.now)) {
        return Ok(Some(inputs.now.saturating_add(wait).unwrap_or(inputs.now)));
    }
    let body = json!({
        "metadata": { "resourceVersion": node.resource_version(), "uid": node.uid() },
        "status": patch,
    });
    let api: Api<VPSieNode> = Api::namespaced(context.client.clone(), &known.record.key.namespace);
    let params = PatchParams::apply(MANAGER);
    let result = api.patch_status(&node.name_any(), &params, &Patch::Merge(body)).await;
    context.memory(&known.record.uid, |memory| memory.said_at = Some(inputs.now));
    match result {
        Ok(fresh) => {
            wrote(context, &known.record.uid, fresh);
            tell(context, node, &old, &new, report).await;
            Ok(None)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            Ok(Some(inputs.now.saturating_add(LATE).unwrap_or(inputs.now)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells people about turning points.
async fn tell(
    context: &Context,
    node: &VPSieNode,
    old: &VPSieNodeStatus,
    new: &VPSieNodeStatus,
    report: &Report,
) {
    if (&old.phase, &old.reason) == (&new.phase, &new.reason) {
        return;
    }
    match report.error {
        true => context.recorder.warn(node, &report.reason, &report.message).await,
        false => context.recorder.note(node, &report.reason, &report.message).await,
    }
}

/// Writes the record over the version that was looked at.
async fn write(context: &Arc<Context>, known: &Known, body: Value) -> Result<Done, Error> {
    let api: Api<VPSieNode> = Api::namespaced(context.client.clone(), &known.record.key.namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch(&known.record.key.name, &params, &Patch::Merge(body)).await {
        Ok(fresh) => {
            wrote(context, &known.record.uid, fresh);
            Ok(Done::Again)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Done::Late),
        Err(error) => Err(error.into()),
    }
}

fn wrote(context: &Context, uid: &str, mut fresh: VPSieNode) {
    fresh.metadata.managed_fields = None;
    // The watch will bring no news of this any more: its group is woken here.
    let group = lock(&context.members).put(&fresh);
    if let Some(group) = group {
        context.wake_group(&group);
    }
    context.memory(uid, |memory| memory.written = Some(Arc::new(fresh)));
}

/// The newer of the cached record and the one that our last write left.
fn freshest(context: &Context, uid: &str, cached: Arc<VPSieNode>) -> Arc<VPSieNode> {
    context.memory(uid, |memory| match &memory.written {
        Some(written) if version_of(&**written) > version_of(&*cached) => written.clone(),
        _ => {
            memory.written = None;
            cached
        }
    })
}

/// The keys of records by group, for whoever removes them.
pub(crate) fn owner_of(node: &VPSieNode) -> Key {
    let key = key_of(node);
    Key::new(&key.namespace, &node.spec.node_group_name)
}
