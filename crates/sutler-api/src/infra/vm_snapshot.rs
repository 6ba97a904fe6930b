//! Snapshots of machines.

use crate::conditions;
use crate::duration::Duration;
use crate::infra::Environment;
use crate::infra::KeyProvider;
use crate::patterns;
use crate::progress::Waiting;
use crate::quantity::Quantity;
use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is saved, how, and for how long.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMSnapshot",
    plural = "vmsnapshots",
    namespaced,
    status = "VMSnapshotStatus",
    derive = "PartialEq",
    doc = "A snapshot of a machine, or a schedule of snapshots.",
    shortname = "vmsnap",
    category = "sutler",
    printcolumn = r#"{"name": "VM", "type": "string", "jsonPath": ".spec.vmRef.name"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Size", "type": "string", "jsonPath": ".status.size"}"#,
    printcolumn = r#"{"name": "Created", "type": "date", "jsonPath": ".status.creationTime"}"#,
    printcolumn = r#"{"name": "Expires", "type": "date", "jsonPath": ".status.expiryTime"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "ID", "type": "string", "jsonPath": ".status.snapshotID", "description": "ID on the platform", "priority": 1}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Summary of all conditions", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMSnapshotSpec {
    /// The machine.
    pub vm_ref: LocalObjectRef,
    /// What is saved, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_config: Option<SnapshotConfig>,
    /// For how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<SnapshotRetention>,
    /// When it is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<SnapshotSchedule>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<SnapshotMetadata>,
}

/// What is saved, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotConfig {
    /// Its name on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::SNAPSHOT_NAME), length(max = 255))]
    pub name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Save memory too.
    pub include_memory: bool,
    /// Have the guest flush its file systems first.
    pub quiesce: bool,
    /// What kind of snapshot.
    #[serde(rename = "type")]
    pub type_: SnapshotType,
    /// How consistent it must be.
    pub consistency_level: ConsistencyLevel,
    /// Compress it.
    pub compression: bool,
    /// Encrypt it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<SnapshotEncryption>,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self {
            name: None,
            description: None,
            include_memory: false,
            quiesce: true,
            type_: SnapshotType::Standard,
            consistency_level: ConsistencyLevel::FilesystemConsistent,
            compression: false,
            encryption: None,
        }
    }
}

string_enum! {
    /// Kinds of snapshots.
    pub enum SnapshotType {
        Standard = "Standard",
        /// As if the power had failed.
        Crash = "Crash",
        /// With the applications' help.
        Application = "Application",
    }
    default Standard
}

string_enum! {
    /// How consistent a snapshot is.
    pub enum ConsistencyLevel {
        CrashConsistent = "CrashConsistent",
        FilesystemConsistent = "FilesystemConsistent",
        ApplicationConsistent = "ApplicationConsistent",
    }
    default FilesystemConsistent
}

/// Encryption of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotEncryption {
    /// Whether it is encrypted.
    #[serde(default)]
    pub enabled: bool,
    /// Who keeps the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_provider: Option<KeyProvider>,
    /// Secret with the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ref: Option<LocalObjectRef>,
}

/// For how long a snapshot is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotRetention {
    /// Age at which it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
    /// Snapshots of the machine that are kept; the oldest go first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_count: Option<i32>,
    /// Delete it with its machine.
    #[serde(rename = "deleteOnVMDelete")]
    pub delete_on_vm_delete: bool,
    /// Never delete pinned ones.
    pub preserve_pinned: bool,
    /// How long it is still kept after it expired.
    pub grace_period: Duration,
}

impl Default for SnapshotRetention {
    fn default() -> Self {
        Self {
            max_age: None,
            max_count: None,
            delete_on_vm_delete: true,
            preserve_pinned: true,
            grace_period: Duration::from("24h"),
        }
    }
}

/// When snapshots are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotSchedule {
    /// Whether they are.
    pub enabled: bool,
    /// When, as cron writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::CRON))]
    pub cron_spec: Option<String>,
    /// The time zone of cronSpec.
    pub timezone: String,
    /// Take none for now.
    pub suspend: bool,
    /// What to do when the last one is not finished.
    pub concurrency_policy: ConcurrencyPolicy,
    /// Finished ones that are kept.
    #[schemars(range(min = 0, max = 100))]
    pub successful_jobs_history_limit: i32,
    /// Failed ones that are kept.
    #[schemars(range(min = 0, max = 100))]
    pub failed_jobs_history_limit: i32,
}

impl Default for SnapshotSchedule {
    fn default() -> Self {
        Self {
            enabled: false,
            cron_spec: None,
            timezone: "UTC".to_owned(),
            suspend: false,
            concurrency_policy: ConcurrencyPolicy::Forbid,
            successful_jobs_history_limit: 3,
            failed_jobs_history_limit: 1,
        }
    }
}

string_enum! {
    /// What to do when the last run is not finished.
    pub enum ConcurrencyPolicy {
        /// Run beside it.
        Allow = "Allow",
        /// Skip this one.
        Forbid = "Forbid",
        /// Stop the last one.
        Replace = "Replace",
    }
    default Forbid
}

/// What a snapshot is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMetadata {
    /// The application that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub application: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<SnapshotPurpose>,
    /// The stage of delivery that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Never delete it automatically.
    #[serde(default)]
    pub pinned: bool,
    /// Tags to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}

string_enum! {
    /// Why a snapshot was taken.
    pub enum SnapshotPurpose {
        Backup = "backup",
        Testing = "testing",
        Migration = "migration",
        RestorePoint = "restore-point",
        Update = "update",
        Other = "other",
    }
}

/// What is known of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMSnapshotStatus {
    /// How far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SnapshotPhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its ID on the platform.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// When it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// When taking it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When its time is over; it is deleted after its grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry_time: Option<Time>,
    /// When the schedule last took one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When the schedule takes the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// Space that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// Size of what it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<Quantity>,
    /// The snapshot before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SnapshotLink>,
    /// The snapshots after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<SnapshotLink>,
    /// How far taking it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<SnapshotProgress>,
    /// What is known of it on each provider, by provider name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provider_status: BTreeMap<String, SnapshotOnProvider>,
    /// The platform's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The Operation that takes or deletes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_ref: Option<LocalObjectRef>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How far a snapshot has come.
    pub enum SnapshotPhase {
        Pending = "Pending",
        Creating = "Creating",
        Ready = "Ready",
        Deleting = "Deleting",
        Failed = "Failed",
        Expired = "Expired",
    }
}

/// Another snapshot of the same machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotLink {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// How far taking a snapshot has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotProgress {
    /// Share that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Bytes that are saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_bytes: Option<i64>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// How long it will still take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<Duration>,
}

/// A snapshot on one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotOnProvider {
    /// Whether it can be used.
    pub available: bool,
    /// Its ID there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its path there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its state in the platform's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What is happening there, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}
