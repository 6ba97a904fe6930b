//! What the API says of a node's record and of its machine.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};
use sutler_api::{
    autoscaler::{VPSieNode, VpsieNodePhase as Phase},
    conditions,
    infra::{VirtualMachine, VirtualMachinePhase},
    names::{annotations, condition_types, finalizers},
};
use sutler_control::kit::Key;

use crate::context::key_of;

/// A record as the API shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its namespace and name.
    pub key: Key,
    /// Its UID.
    pub uid: String,
    /// Whether somebody deleted it.
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// Whether it is to go whatever its pods and its machine do.
    pub forced: bool,
    /// Whether it is written down that its machine is asked for, and by whom.
    pub asked: Asked,
    /// When it was.
    pub asked_at: Timestamp,
    /// Whether its machine's record was made.
    pub made: bool,
    /// Where it is in its life.
    pub phase: Option<Phase>,
    /// The node that it claims, whether or not that was labelled yet.
    pub claimed: Option<String>,
    /// The name that its node should have.
    pub wanted_node: Option<String>,
    /// The name of its node, once it has joined.
    pub node: Option<String>,
    /// When its machine ran.
    pub provisioned_at: Option<Timestamp>,
    /// When its node joined.
    pub joined_at: Option<Timestamp>,
    /// When its node was ready.
    pub ready_at: Option<Timestamp>,
    /// Since when its node is not ready.
    pub unready_since: Option<Timestamp>,
}

/// Who asked for a record's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nobody yet.
    No,
    /// We did, or are about to.
    Here,
    /// Somebody else did, before the record came to us: with the ID that is known, 0 where none is.
    Elsewhere(i64),
}

impl Record {
    /// Reads a record.
    pub fn read(node: &VPSieNode) -> Self {
        let notes = node.annotations();
        let flag = |key: &str| notes.get(key).is_some_and(|value| value == "true");
        let status = node.status.as_ref();
        let time = |at: Option<&Time>| at.map(|at| at.0);
        let created = status.and_then(|status| time(status.created_at.as_ref()));
        let since = created.or_else(|| node.creation_timestamp().map(|at| at.0));
        let written: Option<Timestamp> =
            notes.get(annotations::CREATION_REQUESTED_AT).and_then(|at| at.parse().ok());
        let id = node.spec.vpsie_instance_id.unwrap_or_default();
        let made = status.is_some_and(|status| status.vm_ref.is_some());
        let asked = match (written, flag(annotations::CREATION_REQUESTED)) {
            (Some(_), _) => Asked::Here,
            (None, true) => Asked::Elsewhere(id),
            (None, false) if id != 0 && !made => Asked::Elsewhere(id),
            (None, false) => Asked::No,
        };
        let list = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let unready = crate::conditions::find(list, condition_types::NODE_READY)
            .filter(|ready| ready.status != "True")
            .and_then(|ready| time(ready.last_transition_time.as_ref()));
        Self {
            key: key_of(node),
            uid: node.uid().unwrap_or_default(),
            deleting: node.metadata.deletion_timestamp.is_some(),
            finalizer: node.finalizers().iter().any(|name| name == finalizers::VPSIE_NODE),
            forced: flag(annotations::FORCE_REMOVAL),
            asked,
            asked_at: written.or(since).unwrap_or(Timestamp::UNIX_EPOCH),
            made,
            phase: status.and_then(|status| status.phase.clone()),
            claimed: notes.get(annotations::CLAIMED_NODE).cloned(),
            wanted_node: node.spec.node_name.clone(),
            node: status.and_then(|status| status.node_name.clone()),
            provisioned_at: status.and_then(|status| time(status.provisioned_at.as_ref())),
            joined_at: status.and_then(|status| time(status.joined_at.as_ref())),
            ready_at: status.and_then(|status| time(status.ready_at.as_ref())),
            unready_since: unready,
        }
    }
}

/// What is known of the record of a node's machine.
#[derive(Debug, Clone, PartialEq)]
pub enum MachineRecord {
    /// There is none.
    Absent,
    /// One of that name is somebody else's.
    Foreign,
    /// It is there.
    Ours(Box<Machine>),
}

/// A node's machine, as its record shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// The UID of its record.
    pub uid: String,
    /// Whether its record is being deleted.
    pub deleting: bool,
    /// Whether it is as wanted: it runs, and has an address where its platform tells of any.
    pub ready: bool,
    /// Whether it waits for a person.
    pub failed: bool,
    /// Why it is as it is, in a word and for people.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Its ID.
    pub id: Option<String>,
    /// The name that it calls itself.
    pub hostname: Option<String>,
    /// Its addresses.
    pub ips: Vec<String>,
    /// Addresses of nodes that it may be, as they were written onto its record.
    pub hints: Vec<String>,
}

impl MachineRecord {
    /// Reads the record of a machine, where there is one, for the record with this UID.
    pub fn read(vm: Option<&VirtualMachine>, uid: &str) -> Self {
        let Some(vm) = vm else { return Self::Absent };
        let owned = vm.owner_references().iter().any(|owner| {
            owner.uid == uid && owner.kind == VPSieNode::kind(&()) && owner.controller == Some(true)
        });
        if !owned {
            return Self::Foreign;
        }
        let status = vm.status.clone().unwrap_or_default();
        let ready = conditions::find(&status.conditions, condition_types::READY);
        let hints = vm.annotations().get(annotations::NODE_ADDRESSES);
        Self::Ours(Box::new(Machine {
            uid: vm.uid().unwrap_or_default(),
            deleting: vm.metadata.deletion_timestamp.is_some(),
            ready: ready.is_some_and(|ready| ready.status == "True"),
            failed: status.phase == Some(VirtualMachinePhase::Failed),
            reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
            id: status.id,
            hostname: status.hostname,
            ips: status.ips,
            hints: hints.map(|h| h.split(',').map(str::to_owned).collect()).unwrap_or_default(),
        }))
    }

    /// The machine, where there is one of ours.
    pub fn ours(&self) -> Option<&Machine> {
        match self {
            Self::Ours(machine) => Some(machine),
            Self::Absent | Self::Foreign => None,
        }
    }
}
