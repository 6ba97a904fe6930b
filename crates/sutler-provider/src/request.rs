//! What is asked of a platform, and its answers.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    credentials::Credentials,
    identity::{DiskKey, MachineId, Owner, Proof, SnapshotId, TaskId},
};

/// The answer to a create: it was accepted. A platform that tells no ID is a normal case; the machine
/// is then found in the inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The machine's ID, where the platform tells it.
    pub id: Option<MachineId>,
    /// The task that makes it, where it is not made at once.
    pub task: Option<TaskId>,
}

/// The answer to another change: the task that carries it out, or none where it is done already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The task.
    pub task: Option<TaskId>,
}

/// A machine to be made, or to be made like this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateRequest {
    /// Whom it is made for.
    pub owner: Owner,
    /// Its name on the platform.
    pub name: String,
    /// The name that the guest should call itself.
    pub hostname: String,
    /// CPU, memory, firmware and what goes with them; none for a node that its platform sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// What the root disk is made from; none for a node that its platform installs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Network cards.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Disks besides the root disk.
    #[serde(default)]
    pub disks: Vec<Disk>,
    /// What the guest is given on its first boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<Vec<u8>>,
    /// Whether the user data is for Ignition rather than for cloud-init.
    #[serde(default)]
    pub ignition: bool,
    /// Metadata for the guest's first boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<Vec<u8>>,
    /// Where on the platform it should be.
    #[serde(default)]
    pub placement: Placement,
    /// Tags that it carries.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether it is switched on once it is made.
    pub power_on: bool,
    /// The managed group that it is to be a node of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_node: Option<ManagedNode>,
}

impl CreateRequest {
    /// A machine that is switched on, and of which no more is said than whose it is and its name.
    pub fn new(owner: Owner, name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            owner,
            hostname: name.clone(),
            name,
            class: None,
            image: None,
            nics: Vec::new(),
            disks: Vec::new(),
            user_data: None,
            ignition: false,
            meta_data: None,
            placement: Placement::default(),
            tags: Vec::new(),
            power_on: true,
            managed_node: None,
        }
    }
}

/// A machine's size and virtual hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Class {
    /// Virtual CPUs.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Graphics cards: how many, which model, how much memory in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<(u32, Option<String>, Option<u64>)>,
    /// How it boots.
    pub firmware: Firmware,
    /// Size of the root disk in GiB; the image's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_gib: Option<u64>,
    /// How the root disk is backed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_type: Option<String>,
    /// Storage of the root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// I/O operations per second that a disk is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u32>,
    /// What is done about the platform's tools in the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_tools: Option<String>,
    /// Performance, security and limits, in the form of the kind VMClass: a provider takes what it
    /// knows and refuses the rest.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub profiles: Map<String, Value>,
    /// Settings that are handed to the platform as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, String>,
}

impl Class {
    /// This much CPU and memory, and everything else as the platform has it.
    pub fn new(cpu: u32, memory_mib: u64) -> Self {
        Self {
            cpu,
            memory_mib,
            gpu: None,
            firmware: Firmware::default(),
            root_gib: None,
            disk_type: None,
            storage: None,
            iops: None,
            guest_tools: None,
            profiles: Map::new(),
            extra: BTreeMap::new(),
        }
    }
}

/// How a machine boots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Firmware {
    /// As a PC of old.
    #[default]
    Bios,
    /// By UEFI.
    Uefi,
}

/// What a root disk is made from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The image's name, for people.
    pub name: String,
    /// Its ID on the platform, once it was prepared there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A template's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// A path on the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it can be downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Its checksum and how that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<(String, String)>,
    /// Storage that it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// Whether machines share its disk rather than copy it.
    #[serde(default)]
    pub linked: bool,
    /// Whether it is a disk of the platform that becomes the root disk itself.
    #[serde(default)]
    pub take_over: bool,
    /// The source as it stands in the record, for what this provider alone knows.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub source: Map<String, Value>,
}

/// A network card to be made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nic {
    /// Its name, unique within the machine.
    pub name: String,
    /// The network, port group or bridge that it is plugged into; the template's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The bridge, where one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    /// VLAN tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Model of the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Hardware address, if it must be a certain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Static address; from DHCP when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Length of the prefix that goes with the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<u8>,
    /// Default gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Name servers.
    #[serde(default)]
    pub dns: Vec<String>,
    /// Maximum transmission unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The network as it stands in the record, for what this provider alone knows.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
}

/// A disk to be made besides the root disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Its name, unique within the machine.
    pub name: String,
    /// Its size in GiB.
    pub size_gib: u64,
    /// How it is backed.
    pub type_: String,
    /// Storage that it is made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// Whether it may grow while the machine runs.
    #[serde(default)]
    pub grow_online: bool,
    /// The SCSI controller it hangs on, in the form of the kind VirtualMachine.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub scsi: Map<String, Value>,
    /// Set on a disk that outlives the machine: the disk of this key is taken, with what is on it, or
    /// made where there is none. One that another machine has is a
    /// [`Conflict`](crate::ErrorKind::Conflict).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<DiskKey>,
}

/// Where on the platform something should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// Compute cluster.
    pub cluster: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Datastore or storage pool.
    pub datastore: Option<String>,
    /// Datastore cluster.
    pub storage_pod: Option<String>,
    /// Inventory folder.
    pub folder: Option<String>,
    /// Resource pool.
    pub resource_pool: Option<String>,
    /// Region of a cloud.
    pub region: Option<String>,
    /// Zone within the region.
    pub zone: Option<String>,
}

/// A node of a managed Kubernetes group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedNode {
    /// The cluster's ID on the platform.
    pub cluster: String,
    /// The group's ID within it.
    pub group: String,
    /// The size's ID, where the group leaves a choice.
    pub size: Option<String>,
}

/// A machine to be destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteRequest {
    /// Which one.
    pub id: MachineId,
    /// What must hold of it.
    pub proof: Proof,
}

/// A machine whose power is to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerRequest {
    /// Which one.
    pub id: MachineId,
    /// What must hold of it.
    pub proof: Proof,
    /// What is done.
    pub op: PowerOp,
}

/// What is done to a machine's power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerOp {
    /// Switch it on.
    On,
    /// Switch it off at once.
    Off,
    /// Switch it off and on at once.
    Reboot,
    /// Ask the guest to shut down; after this long the platform may switch it off.
    Shutdown {
        /// How long the guest may take.
        timeout: Duration,
    },
    /// Stop it in the middle.
    Pause,
    /// Let it go on.
    Resume,
}

/// A machine to be changed until it is like this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReconfigureRequest {
    /// Which one.
    pub id: MachineId,
    /// What must hold of it.
    pub proof: Proof,
    /// What it should be like; first-boot data plays no part.
    pub desired: CreateRequest,
    /// Disks that were ours and are no longer wanted.
    pub remove_disks: Vec<String>,
    /// Network cards that were ours and are no longer wanted.
    pub remove_nics: Vec<String>,
}

/// A machine whose virtual hardware is to get a newer version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareUpgradeRequest {
    /// Which one.
    pub id: MachineId,
    /// What must hold of it.
    pub proof: Proof,
    /// The version.
    pub version: u32,
}

/// A machine to be moved to another host while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrateRequest {
    /// Which one.
    pub id: MachineId,
    /// What must hold of it.
    pub proof: Proof,
    /// The host that it goes to.
    pub host: String,
}

/// A snapshot to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRequest {
    /// Of which machine.
    pub id: MachineId,
    /// What must hold of it.
    pub proof: Proof,
    /// Its name; a second one of this name is the first.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether memory is saved too.
    pub memory: bool,
    /// Whether the guest brings its files in order first.
    pub quiesce: bool,
}

/// The answer to a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshotted {
    /// Its ID, where the platform tells it at once.
    pub id: Option<SnapshotId>,
    /// The task that takes it.
    pub task: Option<TaskId>,
}

/// A machine to be copied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloneRequest {
    /// From which machine.
    pub source: MachineId,
    /// From which snapshot of it; its present state when absent.
    pub snapshot: Option<SnapshotId>,
    /// What the copy should be like, and whose it is.
    pub target: CreateRequest,
    /// Whether the copy shares its parent's disks.
    pub linked: bool,
    /// Changes inside the guest, in the form of the kind VMClone.
    #[serde(default)]
    pub customize: Map<String, Value>,
}

/// An image to be brought to the platform.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrepareRequest {
    /// The image.
    pub image: Image,
    /// The name that it gets there; a second one of this name is the first.
    pub target: String,
    /// Whether it is brought again even if it is there.
    pub force: bool,
    /// Whether what was downloaded is checked.
    pub verify: bool,
    /// Storage and conversions, in the form of the kind VMImage.
    pub options: Map<String, Value>,
    /// How to log in where it is downloaded.
    pub credentials: Credentials,
}

/// The answer to a preparation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Its ID there.
    pub id: Option<String>,
    /// Its path there.
    pub path: Option<String>,
    /// The task that brings it; none once it is there.
    pub task: Option<TaskId>,
    /// Its size in bytes.
    pub size_bytes: Option<u64>,
}

/// One disk of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRef {
    /// Of which machine.
    pub machine: MachineId,
    /// Which disk; the root disk when absent.
    pub disk: Option<String>,
    /// As it was at this snapshot.
    pub snapshot: Option<SnapshotId>,
}

/// A disk to be sent out.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportRequest {
    /// Which one.
    pub disk: DiskRef,
    /// Where to.
    pub destination: String,
    /// In which format.
    pub format: Option<String>,
    /// Whether it is compressed.
    pub compress: bool,
    /// How to log in there.
    pub credentials: Credentials,
    /// Details of the storage in between.
    pub storage: Map<String, Value>,
}

/// The answer to an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    /// The export's ID.
    pub id: String,
    /// The task that sends it.
    pub task: Option<TaskId>,
    /// Bytes that it will be.
    pub size_bytes: Option<u64>,
    /// Its checksum.
    pub checksum: Option<String>,
}

/// A disk to be brought in.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportRequest {
    /// Where from.
    pub source: String,
    /// The name that it gets; a second one of this name is the first.
    pub target: String,
    /// In which format it comes.
    pub format: Option<String>,
    /// Storage that it goes to.
    pub storage_hint: Option<String>,
    /// Its checksum, which must be right.
    pub checksum: Option<String>,
    /// How to log in there.
    pub credentials: Credentials,
    /// Details of the storage in between.
    pub storage: Map<String, Value>,
}

/// The answer to an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The disk's ID.
    pub id: String,
    /// Its path.
    pub path: Option<String>,
    /// The task that brings it.
    pub task: Option<TaskId>,
    /// Its size in bytes.
    pub size_bytes: Option<u64>,
    /// Its checksum.
    pub checksum: Option<String>,
}

/// A command to be run in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestCommand {
    /// In which machine.
    pub id: MachineId,
    /// What must hold of it.
    pub proof: Proof,
    /// Program and arguments.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// What a command in a guest said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestOutput {
    /// Its exit code.
    pub exit_code: i32,
    /// Its standard output, cut where it is long.
    pub stdout: String,
    /// Its standard error, cut where it is long.
    pub stderr: String,
}
