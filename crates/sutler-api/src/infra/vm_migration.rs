//! Moves of machines between providers.

mod status;
mod storage;

pub use status::*;
pub use storage::*;

use crate::defaults;
use crate::duration::Duration;
use crate::infra::DiskSpec;
use crate::infra::Environment;
use crate::infra::NetworkRef;
use crate::infra::RetryPolicy;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What moves, to where, and how.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMMigration",
    plural = "vmmigrations",
    namespaced,
    status = "VMMigrationStatus",
    derive = "PartialEq",
    doc = "A move of a machine from one provider to another.",
    shortname = "vmmig",
    category = "sutler",
    printcolumn = r#"{"name": "Source", "type": "string", "jsonPath": ".spec.source.vmRef.name"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.target.name"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Progress", "type": "integer", "jsonPath": ".status.progress.percentage"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "From", "type": "string", "jsonPath": ".spec.source.providerRef.name", "description": "Provider that it leaves", "priority": 1}"#,
    printcolumn = r#"{"name": "To", "type": "string", "jsonPath": ".spec.target.providerRef.name", "description": "Provider that it goes to", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "What is happening", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMMigrationSpec {
    /// What moves.
    pub source: MigrationSource,
    /// What it becomes.
    pub target: MigrationTarget,
    /// How it moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<MigrationOptions>,
    /// Where its disks stay on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<MigrationStorage>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MigrationMetadata>,
}

/// The machine that moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationSource {
    /// The machine.
    pub vm_ref: LocalObjectRef,
    /// Its provider; that of its record when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// A snapshot that is moved, instead of a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<LocalObjectRef>,
    /// Take a snapshot and move that.
    #[serde(default = "defaults::yes")]
    pub create_snapshot: bool,
    /// Switch the machine off first.
    #[serde(default)]
    pub power_off_before_migration: bool,
    /// Destroy it when the new one is ready.
    #[serde(default)]
    pub delete_after_migration: bool,
}

/// The machine that it becomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationTarget {
    /// Its name.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(max = 253))]
    pub name: String,
    /// Its namespace; that of this object when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(max = 63))]
    pub namespace: Option<String>,
    /// Its provider.
    pub provider_ref: ObjectRef,
    /// Its size; that of the source when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<LocalObjectRef>,
    /// The image that its record names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<LocalObjectRef>,
    /// A VMPlacementPolicy that decides where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_ref: Option<LocalObjectRef>,
    /// Its network cards, instead of the source's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub networks: Vec<NetworkRef>,
    /// Its disks besides the moved ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub disks: Vec<DiskSpec>,
    /// Start it.
    #[serde(default)]
    pub power_on: bool,
    /// Labels that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub labels: BTreeMap<String, String>,
    /// Annotations that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub annotations: BTreeMap<String, String>,
}

/// How a machine moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationOptions {
    /// The format that disks get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_format: Option<MigrationDiskFormat>,
    /// Compress disks on the way.
    pub compress: bool,
    /// Compare what arrived with what was sent.
    pub verify_checksums: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// How a failed attempt is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// When what was left on the way is removed.
    pub cleanup_policy: CleanupPolicy,
    /// What must hold in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_checks: Option<ValidationChecks>,
}

impl Default for MigrationOptions {
    fn default() -> Self {
        Self {
            disk_format: None,
            compress: false,
            verify_checksums: true,
            timeout: Duration::from("4h"),
            retry_policy: None,
            cleanup_policy: CleanupPolicy::OnSuccess,
            validation_checks: None,
        }
    }
}

string_enum! {
    /// Formats that a disk can move in.
    pub enum MigrationDiskFormat {
        Qcow2 = "qcow2",
        Vmdk = "vmdk",
        Raw = "raw",
    }
}

string_enum! {
    /// When what was left on the way is removed.
    pub enum CleanupPolicy {
        Always = "Always",
        OnSuccess = "OnSuccess",
        Never = "Never",
    }
    default OnSuccess
}

/// What must hold in the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ValidationChecks {
    /// Disks are as large as before.
    pub check_disk_size: bool,
    /// Disks hold the same.
    pub check_checksum: bool,
    /// The new machine boots.
    pub check_boot: bool,
    /// The new machine answers.
    pub check_connectivity: bool,
}

impl Default for ValidationChecks {
    fn default() -> Self {
        Self {
            check_disk_size: true,
            check_checksum: true,
            check_boot: false,
            check_connectivity: false,
        }
    }
}

/// What a move is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationMetadata {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<MigrationPurpose>,
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
    /// Why a machine moves.
    pub enum MigrationPurpose {
        DisasterRecovery = "disaster-recovery",
        CloudMigration = "cloud-migration",
        ProviderChange = "provider-change",
        Testing = "testing",
        Maintenance = "maintenance",
    }
}
