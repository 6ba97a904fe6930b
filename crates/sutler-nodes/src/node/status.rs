//! What a node's record says.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use sutler_api::{
    autoscaler::{NodeResources, VPSieNode, VPSieNodeStatus, VpsieNodePhase as Phase},
    infra::{PowerState, VirtualMachine},
    names::condition_types,
    refs::LocalObjectRef,
};
use sutler_provider::raw;

use super::plan::{Inputs, Report};
use crate::conditions;

/// The status that comes after `report`.
pub(super) fn next(
    node: &VPSieNode,
    inputs: &Inputs<'_>,
    vm: Option<&VirtualMachine>,
    report: &Report,
) -> VPSieNodeStatus {
    let now = inputs.now;
    let generation = node.metadata.generation;
    let mut status = node.status.clone().unwrap_or_default();
    status.phase = Some(report.phase.clone());
    status.reason = Some(report.reason.clone());
    status.observed_generation = generation;
    if let Some(vm) = vm.filter(|_| inputs.machine.ours().is_some()) {
        mirror(&mut status, vm);
    }
    if inputs.record.asked != super::record::Asked::No && status.created_at.is_none() {
        status.created_at = Some(Time(inputs.record.asked_at));
    }
    let machine = inputs.machine.ours();
    let runs = machine.is_some_and(|machine| machine.ready);
    if runs && status.provisioned_at.is_none() {
        status.provisioned_at = Some(Time(now));
    }
    let joined = inputs.node.filter(|_| inputs.labelled);
    if let Some(seen) = joined {
        status.node_name = Some(seen.name.clone());
        status.joined_at.get_or_insert(Time(now));
    }
    let ready = joined.is_some_and(|seen| seen.ready.is_ok());
    if ready {
        status.ready_at.get_or_insert(Time(now));
    }
    if matches!(report.phase, Phase::Terminating | Phase::Deleting) {
        status.terminating_at.get_or_insert(Time(now));
    } else {
        status.terminating_at = None;
    }
    status.last_error = report.error.then(|| cut(&report.message));
    let list = &mut status.conditions;
    let message = said(report);
    let mut set = |type_: &str, value: Option<bool>, reason: &str, message: &str| {
        conditions::set(list, type_, value, reason, message, generation, now);
    };
    let well = report.phase == Phase::Ready;
    set(condition_types::READY, Some(well), &report.reason, &message);
    let machine_says = match machine {
        Some(machine) if runs => ("Running", machine.message.clone()),
        Some(machine) => ("NotRunning", machine.message.clone()),
        None => ("NoMachine", "there is no machine".to_owned()),
    };
    set(condition_types::VPS_READY, Some(runs), machine_says.0, &cut(&machine_says.1));
    match joined {
        Some(seen) => {
            let message = format!("node {} carries this record's labels", seen.name);
            set(condition_types::NODE_JOINED, Some(true), "Joined", &message);
        }
        None => {
            set(condition_types::NODE_JOINED, Some(false), "NotJoined", "no node is claimed");
        }
    }
    // Since when it is not ready is the clock of a node that was.
    if joined.is_some() || inputs.record.node.is_some() {
        let (reason, message) = match joined.map(|seen| &seen.ready) {
            Some(Ok(())) => ("Ready", "the node takes pods".to_owned()),
            Some(Err(why)) => ("NotReady", why.clone()),
            None => ("NotFound", "the node is not in the cluster".to_owned()),
        };
        set(condition_types::NODE_READY, Some(ready), reason, &cut(&message));
    }
    if report.error {
        set(condition_types::ERROR, Some(true), &report.reason, &message);
    }
    let partly = not_taken(node);
    if let Some(why) = &partly {
        set(condition_types::PARTLY_SERVED, Some(true), "Decided", why);
    }
    if report.phase == Phase::Failed {
        set(condition_types::STALLED, Some(true), &report.reason, &message);
    }
    if partly.is_none() {
        conditions::clear(list, condition_types::PARTLY_SERVED);
    }
    if !report.error {
        conditions::clear(list, condition_types::ERROR);
    }
    if report.phase != Phase::Failed {
        conditions::clear(list, condition_types::STALLED);
    }
    status
}

/// What a record says and nobody can carry out. Of those that a group makes, the group tells it.
fn not_taken(node: &VPSieNode) -> Option<String> {
    if node.owner_references().iter().any(|owner| owner.kind == "NodeGroup") {
        return None;
    }
    let spec = &node.spec;
    let managed = spec.class_ref.is_none();
    let said = [
        ("spec.osImageID", spec.os_image_id.is_some()),
        ("spec.kubernetesVersion", spec.kubernetes_version.is_some()),
        ("spec.sshKeyIDs", !spec.ssh_key_ids.is_empty()),
        ("spec.project", spec.project.is_some()),
        ("spec.resourceIdentifier", !managed && spec.resource_identifier.is_some()),
    ];
    let why = match managed {
        true => "the platform decides this for the nodes of its own groups",
        false => "the VMClass and the VMImage say this of machines that have a class",
    };
    crate::group::status::changes_nothing(&said, why)
}

/// What is known of the machine, in the fields that users of nodes read.
fn mirror(status: &mut VPSieNodeStatus, vm: &VirtualMachine) {
    status.vm_ref = Some(LocalObjectRef::new(vm.name_any()));
    let Some(known) = &vm.status else { return };
    let keep = |own: &mut Option<String>, told: &Option<String>| {
        if told.is_some() {
            own.clone_from(told);
        }
    };
    keep(&mut status.hostname, &known.hostname);
    keep(&mut status.instance_id, &known.id);
    let power = match known.power_state {
        Some(PowerState::On) => Some("running".to_owned()),
        Some(PowerState::Off | PowerState::OffGraceful) => Some("stopped".to_owned()),
        None => None,
    };
    keep(&mut status.vpsie_status, &known.provider.get(raw::STATUS).cloned().or(power));
    if let Some(resources) = &known.current_resources {
        let disk: i64 = known.disks.iter().filter_map(|disk| disk.size_gib).map(i64::from).sum();
        let told = |name: &str| known.provider.get(name).and_then(|text| text.parse().ok());
        status.resources = Some(NodeResources {
            cpu: resources.cpu.map(i64::from).unwrap_or_default(),
            memory_mb: resources.memory_mib.unwrap_or_default(),
            disk_gb: told(raw::DISK_GIB).unwrap_or(disk),
            bandwidth_gb: told(raw::TRAFFIC_GB),
        });
    }
}

/// What of the machine stands in the spec of its node's record, as upstream's users read it; none where
/// it is right.
pub(super) fn spec(node: &VPSieNode, vm: &VirtualMachine) -> Option<Value> {
    let known = vm.status.as_ref()?;
    let mut patch = Map::new();
    let number = known.provider.get(raw::ID).or(known.id.as_ref());
    let number: Option<i64> = number.and_then(|id| id.parse().ok());
    if let Some(id) = number.filter(|id| node.spec.vpsie_instance_id != Some(*id)) {
        patch.insert("vpsieInstanceID".to_owned(), json!(id));
    }
    let first = |six: bool| known.ips.iter().find(|ip| ip.contains(':') == six);
    if let Some(ip) = first(false).filter(|ip| node.spec.ip_address.as_ref() != Some(ip)) {
        patch.insert("ipAddress".to_owned(), json!(ip));
    }
    if let Some(ip) = first(true).filter(|ip| node.spec.ipv6_address.as_ref() != Some(ip)) {
        patch.insert("ipv6Address".to_owned(), json!(ip));
    }
    let identifier = known.provider.get(raw::IDENTIFIER);
    let identifier = identifier.filter(|id| node.spec.vpsie_node_identifier.as_ref() != Some(id));
    if let Some(identifier) = identifier {
        patch.insert("vpsieNodeIdentifier".to_owned(), json!(identifier));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// What is said, with when it is tried next or given up.
fn said(report: &Report) -> String {
    match report.next {
        Some(next) => cut(&format!("{} (until {next})", report.message)),
        None => cut(&report.message),
    }
}

/// A text as long as a status takes.
fn cut(text: &str) -> String {
    text.chars().take(1024).collect()
}

/// Whether a change of a status is worth a write at once.
pub(super) fn matters(old: &VPSieNodeStatus, new: &VPSieNodeStatus) -> bool {
    let words = |status: &VPSieNodeStatus| {
        (
            status.phase.clone(),
            status.reason.clone(),
            status.node_name.clone(),
            status.instance_id.clone(),
            status.vm_ref.clone(),
        )
    };
    words(old) != words(new)
}

/// When the status would be written at the latest.
pub(super) const PROGRESS: std::time::Duration = std::time::Duration::from_secs(5);

/// The time of a status' last write, for those that only tell of progress.
pub(super) fn due(last: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let next = last?.saturating_add(PROGRESS).ok()?;
    (next > now).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_carry_out_is_named_on_records_that_people_make() {
        let said = |spec: Value, owner: Option<&str>| {
            let mut spec = spec;
            spec["nodeGroupName"] = json!("g");
            let owners = owner.map(|kind| {
                json!([{ "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": kind, "name": "g",
                    "uid": "u" }])
            });
            let node = json!({ "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
                "metadata": { "name": "n", "ownerReferences": owners }, "spec": spec });
            not_taken(&serde_json::from_value(node).unwrap())
        };
        let spec = json!({ "osImageID": "ubuntu", "sshKeyIDs": ["k"], "resourceIdentifier": "c" });
        let managed = said(spec.clone(), None).unwrap();
        assert!(managed.starts_with("spec.osImageID, spec.sshKeyIDs changes nothing"), "{managed}");
        assert_eq!(said(spec.clone(), Some("NodeGroup")), None);
        let mut class = spec;
        class["classRef"] = json!({ "name": "small" });
        assert!(said(class, None).unwrap().contains("spec.resourceIdentifier changes nothing"));
        assert_eq!(said(json!({ "resourceIdentifier": "c" }), None), None);
    }
}
