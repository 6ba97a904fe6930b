//! Copies of machines.

mod customization;

pub use customization::*;

use crate::conditions;
use crate::duration::Duration;
use crate::infra::DiskSpec;
use crate::infra::Environment;
use crate::infra::NetworkRef;
use crate::infra::StorageType;
use crate::patterns;
use crate::progress::Waiting;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is copied, to where, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMClone",
    plural = "vmclones",
    namespaced,
    status = "VMCloneStatus",
    derive = "PartialEq",
    doc = "A copy of a machine, snapshot, template or image, as a new machine.",
    shortname = "vmclone",
    category = "sutler",
    printcolumn = r#"{"name": "Source", "type": "string", "jsonPath": ".spec.source.vmRef.name"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.target.name"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Clone Type", "type": "string", "jsonPath": ".status.actualCloneType"}"#,
    printcolumn = r#"{"name": "Progress", "type": "integer", "jsonPath": ".status.progress.overallPercentage"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Target ID", "type": "string", "jsonPath": ".status.targetVMID", "description": "ID of the copy on the platform", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "What is happening", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMCloneSpec {
    /// What is copied.
    pub source: CloneSource,
    /// What it becomes.
    pub target: CloneTarget,
    /// How it is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<CloneOptions>,
    /// What is changed in the copy's guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customization: Option<Customization>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<CloneMetadata>,
}

/// What is copied: exactly one thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(has(self.vmRef) ? 1 : 0) + (has(self.snapshotRef) ? 1 : 0) + (has(self.templateRef) ? 1 : 0) + (has(self.imageRef) ? 1 : 0) == 1",
        "message": "set exactly one of vmRef, snapshotRef, templateRef or imageRef",
        "reason": "FieldValueInvalid",
    },
]))]
pub struct CloneSource {
    /// A machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<LocalObjectRef>,
    /// A snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<LocalObjectRef>,
    /// A template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<ObjectRef>,
    /// An image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
}

/// The new machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneTarget {
    /// Its name.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(max = 253))]
    pub name: String,
    /// Its namespace; that of this object when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(max = 63))]
    pub namespace: Option<String>,
    /// Its provider; that of the source when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// Its size; that of the source when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<LocalObjectRef>,
    /// A VMPlacementPolicy that decides where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_ref: Option<LocalObjectRef>,
    /// Its network cards, instead of the source's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub networks: Vec<NetworkRef>,
    /// Its disks, instead of the source's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub disks: Vec<DiskSpec>,
    /// Labels that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub labels: BTreeMap<String, String>,
    /// Annotations that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub annotations: BTreeMap<String, String>,
}

/// How a machine is copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneOptions {
    /// How the copy's disks relate to the source's.
    #[serde(rename = "type")]
    pub type_: CloneType,
    /// Start the copy.
    pub power_on: bool,
    /// Copy the snapshots too.
    pub include_snapshots: bool,
    /// Copy disks at the same time.
    pub parallel: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// How a failed attempt is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<CloneRetryPolicy>,
    /// Where and how the copy is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<CloneStorage>,
    /// How hard the platform is driven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance: Option<ClonePerformance>,
}

impl Default for CloneOptions {
    fn default() -> Self {
        Self {
            type_: CloneType::FullClone,
            power_on: false,
            include_snapshots: false,
            parallel: false,
            timeout: Duration::from("30m"),
            retry_policy: None,
            storage: None,
            performance: None,
        }
    }
}

string_enum! {
    /// How a copy's disks relate to the source's.
    pub enum CloneType {
        /// They are independent.
        FullClone = "FullClone",
        /// They hold only what differs.
        LinkedClone = "LinkedClone",
        /// They hold only what differs, and memory is shared too.
        InstantClone = "InstantClone",
    }
    default FullClone
}

/// How a failed copy is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneRetryPolicy {
    /// Attempts after the first one.
    #[schemars(range(min = 0, max = 10))]
    pub max_retries: i32,
    /// Pause before the first repetition.
    pub retry_delay: Duration,
    /// Factor by which the pause grows each time.
    pub backoff_multiplier: i32,
}

impl Default for CloneRetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, retry_delay: Duration::from("5m"), backoff_multiplier: 2 }
    }
}

/// Where and how a copy is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneStorage {
    /// Datastore or storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub datastore: Option<String>,
    /// Inventory folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub folder: Option<String>,
    /// Storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// How its disks are backed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_format: Option<StorageType>,
    /// Thin disks where nothing else is said.
    pub prefer_thin_provisioning: bool,
    /// Compress on the way.
    pub enable_compression: bool,
}

impl Default for CloneStorage {
    fn default() -> Self {
        Self {
            datastore: None,
            folder: None,
            storage_class: None,
            disk_format: None,
            prefer_thin_provisioning: true,
            enable_compression: false,
        }
    }
}

/// How hard a platform is driven by a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClonePerformance {
    /// Priority against other work.
    pub priority: ClonePriority,
    /// Disks that are copied at the same time.
    #[schemars(range(min = 1, max = 10))]
    pub concurrent_disks: i32,
    /// Hold back I/O.
    pub io_throttling: bool,
    /// I/O operations per second at most.
    #[serde(rename = "maxIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 100000))]
    pub max_iops: Option<i32>,
}

impl Default for ClonePerformance {
    fn default() -> Self {
        Self {
            priority: ClonePriority::Normal,
            concurrent_disks: 2,
            io_throttling: false,
            max_iops: None,
        }
    }
}

string_enum! {
    /// Priority of a copy.
    pub enum ClonePriority {
        Low = "Low",
        Normal = "Normal",
        High = "High",
    }
    default Normal
}

/// What a copy is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneMetadata {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<ClonePurpose>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub created_by: Option<String>,
    /// The project that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub project: Option<String>,
    /// The stage of delivery that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Tags to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}

string_enum! {
    /// Why a copy was made.
    pub enum ClonePurpose {
        Backup = "backup",
        Testing = "testing",
        Migration = "migration",
        Development = "development",
        Production = "production",
        Staging = "staging",
    }
}

/// What is known of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMCloneStatus {
    /// How far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClonePhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The new machine's record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<LocalObjectRef>,
    /// The new machine's ID on the platform.
    #[serde(rename = "targetVMID", skip_serializing_if = "Option::is_none")]
    pub target_vmid: Option<String>,
    /// How it was copied in fact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual_clone_type: Option<CloneType>,
    /// How far copying has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<CloneProgress>,
    /// How far the changes in the guest have come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customization_status: Option<CustomizationStatus>,
    /// The platform's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Attempts after the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
    /// When the last of them began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_retry_time: Option<Time>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How far a copy has come.
    pub enum ClonePhase {
        Pending = "Pending",
        Preparing = "Preparing",
        Cloning = "Cloning",
        Customizing = "Customizing",
        PoweringOn = "Powering-On",
        Ready = "Ready",
        Failed = "Failed",
    }
}

/// How far copying has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneProgress {
    /// Share that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub overall_percentage: Option<i32>,
    /// Disks in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_disks: Option<i32>,
    /// Disks that are copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_disks: Option<i32>,
    /// The disk that is being copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_disk: Option<DiskProgress>,
    /// How long it will still take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<Duration>,
}

/// How far the copy of a disk has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskProgress {
    /// The disk.
    pub name: String,
    /// Share that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Bytes that are copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_bytes: Option<i64>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_rate: Option<i64>,
}

/// How far the changes in a guest have come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationStatus {
    /// Whether they have begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// Whether they are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// What is being changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step: Option<String>,
    /// What has been changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed_steps: Vec<String>,
    /// What could not be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_steps: Vec<String>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
