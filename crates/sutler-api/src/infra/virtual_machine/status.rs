//! A virtual machine, as observed.

use crate::conditions;
use crate::infra::GpuRequest;
use crate::infra::PowerState;
use crate::progress::Stage;
use crate::progress::Waiting;
use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A machine as it was last observed; facts stay while nobody can be asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// Where it is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VirtualMachinePhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its ID on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Which machine of this record the ID is, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub incarnation: Option<i32>,
    /// Its name on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub platform_name: Option<String>,
    /// Whether it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// Addresses, the most useful first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Network cards as the platform or the guest reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub interfaces: Vec<InterfaceStatus>,
    /// Disks as the platform reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub disks: Vec<DiskStatus>,
    /// The host that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub host: Option<String>,
    /// The name that the guest calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,
    /// Where its console can be opened.
    #[serde(rename = "consoleURL", skip_serializing_if = "Option::is_none")]
    pub console_url: Option<String>,
    /// What it has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_resources: Option<CurrentResources>,
    /// Details in the platform's own words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provider: BTreeMap<String, String>,
    /// Steps of the change in progress, or of the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<Stage>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The Operation that is changing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_ref: Option<LocalObjectRef>,
    /// The platform's task for the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_task_ref: Option<String>,
    /// The platform's task for the last reconfiguration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconfigure_task_ref: Option<String>,
    /// When it was last reconfigured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconfigure_time: Option<Time>,
    /// The request for a restart that was met last, as it stands in the annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub restart_handled: Option<String>,
    /// The VMSnapshot of `spec.snapshot.revertToRef` that it went back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub reverted_to: Option<String>,
    /// Snapshots that the platform has of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotInfo>,
    /// When it was first seen on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When the platform last told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_observed_at: Option<Time>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// Where a machine is in its life.
    pub enum VirtualMachinePhase {
        /// Accepted; nothing has been done yet.
        Pending = "Pending",
        /// Being made.
        Provisioning = "Provisioning",
        /// Made, and on.
        Running = "Running",
        /// Made, and off.
        Stopped = "Stopped",
        /// Being changed.
        Reconfiguring = "Reconfiguring",
        /// Being destroyed.
        Deleting = "Deleting",
        /// Waiting for a person.
        Failed = "Failed",
    }
}

/// What a machine has. A platform may tell of less or more than may be asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentResources {
    /// Virtual CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i32>,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<i64>,
    /// Graphics cards that are handed to the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuRequest>,
}

/// A network card as observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatus {
    /// Name in the spec, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// Name in the guest or on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub device: Option<String>,
    /// Hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub mac_address: Option<String>,
    /// Network that it is plugged into.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub network: Option<String>,
    /// Addresses on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub ips: Vec<String>,
    /// Whether it was made because the spec asked for it; only then it is removed when the spec no
    /// longer does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,
}

/// A disk as observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskStatus {
    /// Name in the spec, or the platform's where it has none there.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its ID on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub id: Option<String>,
    /// Its path on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
    /// Its size in GiB.
    #[serde(rename = "sizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size_gib: Option<i32>,
    /// Whether it was made because the spec asked for it; only then it is removed when the spec no
    /// longer does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,
    /// What the platform knows it by, where it is a VMDisk and outlives the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub key: Option<String>,
}

/// A snapshot that the platform has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotInfo {
    /// Its ID on the platform.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was taken.
    pub creation_time: Time,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How much space it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// Whether memory was saved too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_memory: Option<bool>,
}
