//! What is known of a move.

use crate::conditions;
use crate::duration::Duration;
use crate::quantity::Quantity;
use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a move.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMMigrationStatus {
    /// How far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MigrationPhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far the current phase has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<MigrationProgress>,
    /// The new machine's record.
    #[serde(rename = "targetVMRef", skip_serializing_if = "Option::is_none")]
    pub target_vm_ref: Option<LocalObjectRef>,
    /// The new machine's ID on its platform.
    #[serde(rename = "targetVMID", skip_serializing_if = "Option::is_none")]
    pub target_vmid: Option<String>,
    /// The snapshot that is moved, on the platform.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// The VMSnapshot that is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<String>,
    /// The disk on both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_info: Option<MigrationDiskInfo>,
    /// The disk on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_info: Option<MigrationStorageInfo>,
    /// The claim that was made for it.
    #[serde(rename = "storagePVCName", skip_serializing_if = "Option::is_none")]
    pub storage_pvc_name: Option<String>,
    /// The export, on the platform.
    #[serde(rename = "exportID", skip_serializing_if = "Option::is_none")]
    pub export_id: Option<String>,
    /// The import, on the platform.
    #[serde(rename = "importID", skip_serializing_if = "Option::is_none")]
    pub import_id: Option<String>,
    /// The platform's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// What held in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_results: Option<MigrationValidation>,
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
    /// How far a move has come.
    pub enum MigrationPhase {
        Pending = "Pending",
        Validating = "Validating",
        Snapshotting = "Snapshotting",
        Exporting = "Exporting",
        Transferring = "Transferring",
        Converting = "Converting",
        Importing = "Importing",
        Creating = "Creating",
        ValidatingTarget = "Validating-Target",
        Ready = "Ready",
        Failed = "Failed",
    }
}

/// How far the current phase of a move has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationProgress {
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_phase: Option<MigrationPhase>,
    /// Share that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Bytes that have come over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transferred_bytes: Option<i64>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_rate: Option<i64>,
    /// When the phase began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_start_time: Option<Time>,
    /// How long it will still take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<Duration>,
}

/// A moving disk on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationDiskInfo {
    /// Its ID where it was.
    #[serde(rename = "sourceDiskID", skip_serializing_if = "Option::is_none")]
    pub source_disk_id: Option<String>,
    /// Its format where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_format: Option<String>,
    /// Its size where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_size: Option<Quantity>,
    /// Its checksum where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_checksum: Option<String>,
    /// Its ID where it goes.
    #[serde(rename = "targetDiskID", skip_serializing_if = "Option::is_none")]
    pub target_disk_id: Option<String>,
    /// Its format where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_format: Option<String>,
    /// Its path where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_path: Option<String>,
    /// Its size where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_size: Option<Quantity>,
    /// Its checksum where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_checksum: Option<String>,
    /// The checksum that both sides agreed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// A moving disk on the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationStorageInfo {
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its size there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// When it arrived there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploaded_at: Option<Time>,
    /// Whether it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaned_up: Option<bool>,
}

/// What held in the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationValidation {
    /// Disks were as large as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_size_match: Option<bool>,
    /// Disks held the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_match: Option<bool>,
    /// The new machine booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_success: Option<bool>,
    /// The new machine answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectivity_success: Option<bool>,
    /// What did not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation_errors: Vec<String>,
}
