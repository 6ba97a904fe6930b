//! What a platform says of its machines, tasks and events.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    identity::{DiskKey, MachineId, SnapshotId, Token},
};

/// A machine as its platform shows it. What the platform does not tell is absent, which is not the
/// same as empty: last known facts stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its ID.
    pub id: MachineId,
    /// Its name on the platform.
    pub name: String,
    /// The ownership token that it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The control plane that gave it the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installation: Option<String>,
    /// Whether it is on.
    pub power: Power,
    /// Whether the platform is still at work on it: it is there, and not yet what was asked for.
    #[serde(default)]
    pub busy: bool,
    /// The name that the guest calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Addresses, the most useful first.
    #[serde(default)]
    pub ips: Vec<String>,
    /// Virtual CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Virtual CPUs that it can have without being switched off; none where the platform does not
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_cpu: Option<u32>,
    /// Memory in MiB that it can have without being switched off; none where the platform does not
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_memory_mib: Option<u64>,
    /// Its disks; none where the platform does not tell, and in a list that leaves them out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<DiskInfo>>,
    /// Its network cards; none where the platform does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Vec<Interface>>,
    /// Its snapshots; none where the platform does not tell, and in a list that leaves them out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Vec<Snapshot>>,
    /// Tags that it carries.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The host that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The managed group that it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Where its console can be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console_url: Option<String>,
    /// When the platform made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Details in the platform's own words.
    #[serde(default)]
    pub raw: BTreeMap<String, String>,
}

impl Machine {
    /// A machine of which only this is known.
    pub fn new(id: impl Into<MachineId>, name: impl Into<String>, power: Power) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            token: None,
            installation: None,
            power,
            busy: false,
            hostname: None,
            ips: Vec::new(),
            cpu: None,
            memory_mib: None,
            most_cpu: None,
            most_memory_mib: None,
            disks: None,
            interfaces: None,
            snapshots: None,
            tags: Vec::new(),
            host: None,
            group: None,
            console_url: None,
            created_at: None,
            raw: BTreeMap::new(),
        }
    }
}

/// Power of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Power {
    /// It runs.
    On,
    /// It does not.
    Off,
    /// It is stopped in the middle and keeps its memory.
    Paused,
    /// The platform does not say.
    Unknown,
}

/// A disk as the platform shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskInfo {
    /// The name that it was given in the request; `root` is the first one.
    pub name: String,
    /// Its ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its size in GiB.
    pub size_gib: u64,
    /// Its format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Bytes that it really takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_bytes: Option<u64>,
    /// The file that it is an overlay of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_file: Option<String>,
    /// Whether the machine boots from it.
    #[serde(default)]
    pub bootable: bool,
    /// Its key, where it outlives the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<DiskKey>,
}

/// A disk that outlives its machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptDisk {
    /// What it is asked for by.
    pub key: DiskKey,
    /// Its size in GiB.
    pub size_gib: u64,
    /// The machine that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineId>,
    /// Its ID or path on the platform, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A network card as the platform or the guest shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// The name that it was given in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its name in the guest or on the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Hardware address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The network that it is plugged into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Addresses on it.
    #[serde(default)]
    pub ips: Vec<String>,
}

/// A snapshot as the platform shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Its ID.
    pub id: SnapshotId,
    /// Its name.
    pub name: String,
    /// When it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Bytes that it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether memory was saved too.
    #[serde(default)]
    pub memory: bool,
}

/// A template that machines can be made from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Its ID on the platform.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The host that has it, where only one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Size of its disk in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u64>,
}

/// A host that machines run on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Whether it can take machines.
    pub online: bool,
    /// Virtual CPUs in all.
    pub cpu: u32,
    /// Virtual CPUs that are given out.
    pub cpu_used: u32,
    /// Memory in MiB in all.
    pub memory_mib: u64,
    /// Memory in MiB that is given out.
    pub memory_mib_used: u64,
    /// Disk space in GiB in all, where the platform tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_gib: Option<u64>,
    /// Disk space in GiB that is given out.
    #[serde(default)]
    pub disk_gib_used: u64,
    /// The compute cluster that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The zone that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The region that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Datastores that its machines can be on; none where the platform does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub datastores: Vec<String>,
    /// Labels that somebody gave it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What its hardware offers, such as `tpm`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// The answer to a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The machines.
    pub machines: Vec<Machine>,
    /// Whether these are all. A host that did not answer, or a page that is missing, makes it false,
    /// and then nothing counts as gone.
    pub complete: bool,
}

/// How far a task has come.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskState {
    /// Under way.
    Running {
        /// How much is done, where the platform tells.
        percent: Option<u8>,
        /// What is happening, for people.
        message: Option<String>,
    },
    /// Ended well; success is observed, not concluded from this.
    Done {
        /// The machine or thing that it made, where the platform tells.
        id: Option<String>,
    },
    /// Ended with an error.
    Failed(Error),
    /// The platform does not know it, or no longer.
    Unknown,
}

/// A change on the platform that it told of by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The machine is there, and this is what it is like now.
    Changed(Box<Machine>),
    /// The machine is gone.
    Gone(MachineId),
    /// Events were lost: only a list can tell what happened.
    Lost,
}
