//! How one step of a node's plan is carried out.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use sutler_api::{
    autoscaler::VPSieNode,
    infra::VirtualMachine,
    names::{MANAGER, annotations, finalizers},
};

use super::{Asked, Error, Known, MachineRecord, Plan, Step, claim, drainer, machine_of, write};
use crate::{bootstrap, cluster::Seen, context::Context};

/// What a step did.
pub(super) enum Done {
    Nothing,
    /// Things have changed by it, or are not as the plan supposed.
    Again,
    /// What was looked at is out of date: the watch will bring what is.
    Late,
    /// Something that a person has to put right.
    Blocked(String),
    /// The record is off the books.
    Gone,
}

/// Carries one step out.
pub(super) async fn carry_out(
    context: &Arc<Context>,
    known: &Known,
    next: &Plan,
    patience: Duration,
) -> Result<Done, Error> {
    match &next.step {
        Step::Rest | Step::Wait(_) => Ok(Done::Nothing),
        Step::Ask => ask(context, known).await,
        Step::MakeMachine => make(context, known).await,
        Step::Hint(addresses) => hint(context, known, addresses).await,
        Step::Intend(name) => intend(context, known, name).await,
        Step::Claim(name) => label(context, known, name).await,
        Step::Drain(name) => {
            let Some(cluster) = &known.cluster else { return Ok(Done::Nothing) };
            let now = context.clock.now();
            let drain = drainer::drain(&cluster.client, name, patience, now).await?;
            context.memory(&known.record.uid, |memory| memory.drain = drain);
            Ok(Done::Again)
        }
        Step::Uncordon(name) => {
            let Some(cluster) = &known.cluster else { return Ok(Done::Nothing) };
            drainer::uncordon(cluster, name).await?;
            Ok(Done::Nothing)
        }
        Step::DeleteMachine => delete_machine(context, known).await,
        Step::DeleteNode(name) => delete_node(context, known, name).await,
        Step::Forget => take_off(context, known).await,
    }
}

/// Writes down that a machine is asked for, with the finalizer, over exactly what was looked at.
async fn ask(context: &Arc<Context>, known: &Known) -> Result<Done, Error> {
    let node = &known.node;
    let mut names: Vec<String> = node.finalizers().to_vec();
    if !known.record.finalizer {
        names.push(finalizers::VPSIE_NODE.to_owned());
    }
    let mut body = json!({ "metadata": {
        "finalizers": names,
        "resourceVersion": node.resource_version(),
        "uid": node.uid(),
    }});
    if known.record.asked == Asked::No {
        body["metadata"]["annotations"] = json!({
            annotations::CREATION_REQUESTED: "true",
            annotations::CREATION_REQUESTED_AT: context.clock.now().to_string(),
        });
    }
    write(context, known, body).await
}

/// Makes the machine's record. Its name is fixed, so that it cannot be made twice.
async fn make(context: &Arc<Context>, known: &Known) -> Result<Done, Error> {
    let (node, group) = (&known.node, known.group.as_deref());
    let wanted = group.and_then(|group| Some((group, group.spec.bootstrap.as_ref()?)));
    let secret = match wanted {
        None => None,
        Some((group, wanted)) => match bootstrap::secret_of(context, node, group, wanted).await {
            Ok(name) => Some(name),
            Err(bootstrap::Error::Missing(message)) => return Ok(Done::Blocked(message)),
            Err(bootstrap::Error::Api(error)) => return Err(error.into()),
        },
    };
    let vm = machine_of(node, &known.record, group, secret);
    let api: Api<VirtualMachine> =
        Api::namespaced(context.client.clone(), &known.record.key.namespace);
    match api.create(&PostParams::default(), &vm).await {
        Ok(_) => Ok(Done::Nothing),
        // It is there: the cache will show it.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = api.get_opt(&vm.name_any()).await?;
            match MachineRecord::read(found.as_ref(), &known.record.uid) {
                MachineRecord::Foreign => Ok(Done::Blocked(format!(
                    "a VirtualMachine called {} is there and not of this record: rename or delete it",
                    known.record.key.name
                ))),
                MachineRecord::Absent | MachineRecord::Ours(_) => Ok(Done::Nothing),
            }
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            Ok(Done::Blocked(status.message.clone()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes addresses of nodes that the machine may be onto its record.
async fn hint(context: &Arc<Context>, known: &Known, ips: &[String]) -> Result<Done, Error> {
    let Some(vm) = &known.vm else { return Ok(Done::Nothing) };
    let list = if ips.is_empty() { Value::Null } else { json!(ips.join(",")) };
    let body = json!({ "metadata": {
        "uid": vm.uid(), "annotations": { annotations::NODE_ADDRESSES: list },
    }});
    let api: Api<VirtualMachine> =
        Api::namespaced(context.client.clone(), &known.record.key.namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch(&vm.name_any(), &params, &Patch::Merge(body)).await {
        Ok(_) => Ok(Done::Nothing),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Done::Late),
        Err(error) => Err(error.into()),
    }
}

/// Writes down which node is claimed, over exactly what was looked at: a record that somebody takes off
/// the books meanwhile claims none.
async fn intend(context: &Arc<Context>, known: &Known, name: &str) -> Result<Done, Error> {
    let node = &known.node;
    let body = json!({ "metadata": {
        "annotations": { annotations::CLAIMED_NODE: name },
        "resourceVersion": node.resource_version(),
        "uid": node.uid(),
    }});
    write(context, known, body).await
}

/// Claims a node: what is written is computed from the version that it replaces, so that of two who want
/// the same node one is refused.
async fn label(context: &Arc<Context>, known: &Known, name: &str) -> Result<Done, Error> {
    let Some(cluster) = &known.cluster else { return Ok(Done::Nothing) };
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let Some(object) = nodes.get_opt(name).await? else { return Ok(Done::Late) };
    let seen = Seen::read(&object);
    let theirs = seen.claim.is_some() && !seen.is_claimed_by(&known.record.key);
    if theirs || seen.control_plane {
        return Ok(Done::Late);
    }
    let Some(body) = claim(&known.node, known.group.as_deref(), &object) else {
        return Ok(Done::Nothing);
    };
    match nodes.patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(body)).await {
        Ok(_) => {
            let message = format!("node {name} was claimed and labelled");
            context.recorder.note(known.node.as_ref(), "Joined", &message).await;
            Ok(Done::Nothing)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Done::Late),
        Err(error) => Err(error.into()),
    }
}

async fn delete_machine(context: &Arc<Context>, known: &Known) -> Result<Done, Error> {
    let Some(machine) = known.machine.ours() else { return Ok(Done::Again) };
    let api: Api<VirtualMachine> =
        Api::namespaced(context.client.clone(), &known.record.key.namespace);
    let exactly = Preconditions { uid: Some(machine.uid.clone()), resource_version: None };
    let params = DeleteParams::background().preconditions(exactly);
    match api.delete(&known.record.key.name, &params).await {
        Ok(_) => Ok(Done::Nothing),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Done::Late),
        Err(error) => Err(error.into()),
    }
}

/// Deletes the object of a node whose machine is gone, if it is ours or nobody's: a claim that is under
/// way elsewhere is then too late.
async fn delete_node(context: &Context, known: &Known, name: &str) -> Result<Done, Error> {
    let Some(cluster) = &known.cluster else { return Ok(Done::Again) };
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let object = nodes.get_opt(name).await?.filter(|object| {
        let seen = Seen::read(object);
        // One that was not labelled yet is known by the address that its machine had.
        let address = known.node.spec.ip_address.as_ref().or(known.node.spec.ipv6_address.as_ref());
        let intended =
            known.record.claimed.as_deref() == Some(name) && address.is_some_and(|ip| seen.has(ip));
        seen.is_claimed_by(&known.record.key) || (intended && seen.is_free())
    });
    let Some(object) = object else {
        context.memory(&known.record.uid, |memory| memory.node_gone = true);
        return Ok(Done::Again);
    };
    let exactly = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
    match nodes.delete(name, &DeleteParams::default().preconditions(exactly)).await {
        Ok(_) => Ok(Done::Again),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Done::Late),
        Err(error) => Err(error.into()),
    }
}

/// Takes the finalizer off, once the API itself says that the machine's record is gone.
async fn take_off(context: &Arc<Context>, known: &Known) -> Result<Done, Error> {
    let key = &known.record.key;
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &key.namespace);
    let found = api.get_opt(&key.name).await?;
    if MachineRecord::read(found.as_ref(), &known.record.uid).ours().is_some() {
        return Ok(Done::Late);
    }
    let node = &known.node;
    let names: Vec<&String> =
        node.finalizers().iter().filter(|name| *name != finalizers::VPSIE_NODE).collect();
    let body = json!({ "metadata": {
        "finalizers": names,
        "resourceVersion": node.resource_version(),
        "uid": node.uid(),
    }});
    let api: Api<VPSieNode> = Api::namespaced(context.client.clone(), &key.namespace);
    match api.patch(&key.name, &PatchParams::apply(MANAGER), &Patch::Merge(body)).await {
        Ok(_) => Ok(Done::Gone),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Done::Gone),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Done::Late),
        Err(error) => Err(error.into()),
    }
}
