//! Disks that outlive their machines.

use crate::conditions;
use crate::crd::PathRule;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the disk is.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sutler.dev",
    version = "v1alpha1",
    kind = "VMDisk",
    plural = "vmdisks",
    namespaced,
    status = "VMDiskStatus",
    derive = "PartialEq",
    doc = "A disk that outlives its machines. It is made with the first machine that names it in disks[].diskRef, stays with what is on it when that machine goes, and is removed with this record.",
    shortname = "vmd",
    category = "sutler",
    printcolumn = r#"{"name": "Provider", "type": "string", "jsonPath": ".spec.providerRef.name"}"#,
    printcolumn = r#"{"name": "Machine", "type": "string", "jsonPath": ".status.vmRef.name"}"#,
    printcolumn = r#"{"name": "GiB", "type": "integer", "jsonPath": ".status.sizeGiB"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Key", "type": "string", "jsonPath": ".status.key", "description": "What the platform knows it by", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMDiskSpec {
    /// The Provider that has it, which is that of its machines.
    pub provider_ref: ObjectRef,
}

/// How the disk stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMDiskStatus {
    /// In one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DiskPhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The machine that it is given to. No other can have it until that one has let go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<DiskUser>,
    /// What the platform knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub key: Option<String>,
    /// Its size in GiB, once it was made.
    #[serde(rename = "sizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size_gib: Option<i32>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A machine's record, and exactly that one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskUser {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its UID.
    #[schemars(length(max = 128))]
    pub uid: String,
}

string_enum! {
    /// How a disk stands.
    pub enum DiskPhase {
        /// No machine had it yet.
        Pending = "Pending",
        /// A machine has it.
        Attached = "Attached",
        /// It is there, and no machine has it.
        Detached = "Detached",
        /// It is being removed.
        Deleting = "Deleting",
    }
}

/// A disk does not move between platforms.
pub(crate) const UPDATE_RULES: &[PathRule] = &[PathRule {
    path: &["spec", "providerRef"],
    rule: "self == oldSelf",
    message: "providerRef cannot change: a disk stays on its platform",
    reason: "FieldValueInvalid",
}];
