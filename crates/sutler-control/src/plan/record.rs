//! What the API says of a machine, without its wishes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sutler_api::{
    infra::{DeletionPolicy, PowerState, VirtualMachine},
    names::{annotations, finalizers, labels},
};
use sutler_provider::{MachineId, TaskId, Token};

/// What was persisted before the provider was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The token of the machine that is meant.
    pub token: Token,
    /// When the first create of this incarnation was about to be sent.
    pub first_requested_at: Timestamp,
    /// When the last one was.
    pub requested_at: Timestamp,
}

/// A record as the API shows it: identity, intent and last known facts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether somebody deleted it.
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// Whether changes are held back.
    pub paused: bool,
    /// Whether it is to be taken off the books whatever its machine does.
    pub forget: bool,
    /// Whether its machine outlives it.
    pub retain: bool,
    /// Whether its machine was there before it.
    pub adopted: bool,
    /// What was persisted before the provider was asked.
    pub intent: Option<Intent>,
    /// The machine's ID, if it is that of the intent's incarnation.
    pub id: Option<MachineId>,
    /// The machine's name on the platform, once it was decided.
    pub platform_name: Option<String>,
    /// The name that the machine had when it was taken on record, which its platform may have chosen.
    pub machine_name: Option<String>,
    /// The managed group that its machine is a member of.
    pub group: Option<String>,
    /// Addresses of Kubernetes nodes that nobody has and that its machine may be.
    pub addresses: Vec<String>,
    /// The ID that its machine is said to have.
    pub said_id: Option<String>,
    /// When somebody else asked for its machine: it is looked for, and never asked for.
    pub asked_at: Option<Timestamp>,
    /// Since when members of its group may be those that were asked for.
    pub members_since: Option<Timestamp>,
    /// Whether its machine is not made again once it was there.
    pub once: bool,
    /// When the platform made the machine.
    pub created_at: Option<Timestamp>,
    /// Its power as last written down.
    pub power: Option<PowerState>,
    /// Whether addresses are written down.
    pub has_address: bool,
    /// Whether it was once complete.
    pub provisioned: bool,
    /// Disks that were made for it.
    pub disks: Vec<String>,
    /// The disks that were last seen, with their sizes in GiB.
    pub seen_disks: Vec<(String, u64)>,
    /// Cards that were made for it.
    pub nics: Vec<String>,
    /// A restart that is asked for and was not met.
    pub restart: Option<String>,
    /// When the machine was last asked to go back to a snapshot.
    pub revert_requested_at: Option<Timestamp>,
    /// When the machine's removal was last asked for, where only its name and ID tell it from the next.
    pub delete_requested_at: Option<Timestamp>,
    /// The platform's task that was last written down.
    pub task: Option<TaskId>,
}

impl Record {
    /// Reads a record. An intent that cannot be read is an error: it must never be taken for none.
    pub fn read(vm: &VirtualMachine) -> Result<Self, String> {
        let notes = vm.annotations();
        let flag = |key: &str| notes.get(key).is_some_and(|value| value == "true");
        let status = vm.status.as_ref();
        let intent = read_intent(vm)?;
        let adopted = vm.labels().get(labels::ADOPTED).is_some_and(|value| value == "true");
        let incarnation = status.and_then(|status| status.incarnation).unwrap_or(1);
        let current = intent
            .as_ref()
            .is_none_or(|intent| i64::from(intent.token.incarnation) == i64::from(incarnation));
        let of_machine = status.filter(|_| current);
        let restart = notes.get(annotations::RESTART_REQUESTED_AT).cloned();
        let met = status.and_then(|status| status.restart_handled.clone());
        Ok(Self {
            uid: vm.uid().unwrap_or_default(),
            namespace: vm.namespace().unwrap_or_default(),
            name: vm.name_any(),
            deleting: vm.metadata.deletion_timestamp.is_some(),
            finalizer: vm.finalizers().iter().any(|f| f == finalizers::VIRTUAL_MACHINE),
            paused: flag(annotations::PAUSED),
            forget: flag(annotations::FORGET) || flag(annotations::FORCE_DELETE),
            retain: match vm.spec.deletion_policy {
                Some(policy) => policy == DeletionPolicy::Retain,
                None => adopted,
            },
            adopted,
            id: of_machine.and_then(|status| status.id.clone()).map(MachineId),
            machine_name: of_machine.and_then(|status| status.platform_name.clone()),
            group: vm.spec.managed_node.as_ref().map(|node| node.group.clone()),
            addresses: notes
                .get(annotations::NODE_ADDRESSES)
                .map(|list| list.split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
            said_id: notes.get(annotations::SAID_ID).cloned(),
            asked_at: read_time(vm, annotations::ASKED_AT)?,
            members_since: read_time(vm, annotations::MEMBERS_SINCE)?,
            once: flag(annotations::MADE_ONCE),
            created_at: of_machine
                .and_then(|status| status.created_at.as_ref())
                .map(|Time(at)| *at),
            power: of_machine.and_then(|status| status.power_state),
            has_address: of_machine.is_some_and(|status| !status.ips.is_empty()),
            provisioned: of_machine.is_some_and(|status| {
                status
                    .stages
                    .last()
                    .is_some_and(|stage| stage.state == sutler_api::progress::StageState::Completed)
            }),
            disks: of_machine
                .into_iter()
                .flat_map(|status| &status.disks)
                .filter(|disk| disk.managed == Some(true))
                .map(|disk| disk.name.clone())
                .collect(),
            seen_disks: of_machine
                .into_iter()
                .flat_map(|status| &status.disks)
                .filter_map(|disk| {
                    let size = disk.size_gib.and_then(|size| u64::try_from(size).ok())?;
                    Some((disk.name.clone(), size))
                })
                .collect(),
            nics: of_machine
                .into_iter()
                .flat_map(|status| &status.interfaces)
                .filter(|card| card.managed == Some(true))
                .filter_map(|card| card.name.clone())
                .collect(),
            platform_name: notes
                .get(annotations::PLATFORM_NAME)
                .cloned()
                .or_else(|| status.and_then(|status| status.platform_name.clone())),
            task: of_machine.and_then(|status| status.last_task_ref.clone()).map(TaskId),
            restart: restart.filter(|wanted| Some(wanted) != met.as_ref()),
            revert_requested_at: read_time(vm, annotations::REVERT_REQUESTED_AT)?,
            delete_requested_at: read_time(vm, annotations::DELETE_REQUESTED_AT)?,
            intent,
        })
    }

    /// The token that the record's machine carries, once one was asked for.
    pub fn token(&self) -> Option<&Token> {
        self.intent.as_ref().map(|intent| &intent.token)
    }

    /// Whether its machine's whole name was thought up for this record, and for nothing else: other names
    /// than those with a hash in them are chosen by people or by the platform, and chosen again.
    pub fn has_name_of_its_own(&self, hashed: bool) -> bool {
        hashed && !self.adopted && self.group.is_none()
    }
}

fn read_intent(vm: &VirtualMachine) -> Result<Option<Intent>, String> {
    let notes = vm.annotations();
    let Some(token) = notes.get(annotations::TOKEN) else { return Ok(None) };
    let token: Token =
        token.parse().map_err(|error| format!("annotation {}: {error}", annotations::TOKEN))?;
    // A manifest that was copied with its annotations brings another record's intent along.
    if Some(&token.uid) != vm.uid().as_ref() {
        return Ok(None);
    }
    let Some(requested_at) = read_time(vm, annotations::CREATE_REQUESTED_AT)? else {
        return Err(format!("annotation {} is missing", annotations::CREATE_REQUESTED_AT));
    };
    let first = read_time(vm, annotations::FIRST_REQUESTED_AT)?;
    Ok(Some(Intent { token, first_requested_at: first.unwrap_or(requested_at), requested_at }))
}

fn read_time(vm: &VirtualMachine, key: &str) -> Result<Option<Timestamp>, String> {
    match vm.annotations().get(key) {
        None => Ok(None),
        Some(text) => {
            text.parse().map(Some).map_err(|_| format!("annotation {key}: {text:?} is no time"))
        }
    }
}
