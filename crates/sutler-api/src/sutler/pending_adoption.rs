//! Machines that were found without a record, and what an administrator decides about them.

use crate::conditions;
use crate::crd::PathRule;
use crate::free_form::FreeForm;
use crate::infra::DeletionPolicy;
use crate::infra::PowerState;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was found, and what is decided about it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sutler.dev",
    version = "v1alpha1",
    kind = "PendingAdoption",
    plural = "pendingadoptions",
    namespaced,
    status = "PendingAdoptionStatus",
    derive = "PartialEq",
    doc = "A machine that was found without a record. An administrator adopts or ignores it; neither touches the machine.",
    shortname = "padopt",
    category = "sutler",
    printcolumn = r#"{"name": "Provider", "type": "string", "jsonPath": ".spec.providerRef.name"}"#,
    printcolumn = r#"{"name": "Machine", "type": "string", "jsonPath": ".spec.machineName"}"#,
    printcolumn = r#"{"name": "System", "type": "string", "jsonPath": ".spec.system"}"#,
    printcolumn = r#"{"name": "Service", "type": "string", "jsonPath": ".spec.service"}"#,
    printcolumn = r#"{"name": "State", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.cluster", "description": "Cluster that it was found in", "priority": 1}"#,
    printcolumn = r#"{"name": "Source Namespace", "type": "string", "jsonPath": ".spec.sourceNamespace", "description": "Namespace that it was found in", "priority": 1}"#,
    printcolumn = r#"{"name": "ID", "type": "string", "jsonPath": ".spec.machineID", "description": "ID on the platform", "priority": 1}"#,
    printcolumn = r#"{"name": "UID", "type": "string", "jsonPath": ".spec.uid", "description": "UID on the platform", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.decision != 'Adopt' || (has(self.target) && has(self.target.name)) || has(self.machineName)",
        "message": "to adopt a machine without a name, set target.name: the name of its record",
        "reason": "FieldValueRequired",
        "fieldPath": ".target",
    },
]))]
pub struct PendingAdoptionSpec {
    /// The Provider that has it.
    pub provider_ref: ObjectRef,
    /// Its ID on the platform.
    #[serde(rename = "machineID")]
    #[schemars(length(min = 1, max = 253))]
    pub machine_id: String,
    /// Its name on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub machine_name: Option<String>,
    /// The cluster that it was found in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub cluster: Option<String>,
    /// The namespace that it was found in, where the platform has such.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub source_namespace: Option<String>,
    /// The system that its labels name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub system: Option<String>,
    /// The service that its labels name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service: Option<String>,
    /// The instance that its labels name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub instance: Option<String>,
    /// Its UID on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub uid: Option<String>,
    /// Its labels or tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 200))]
    pub labels: BTreeMap<String, String>,
    /// What it was like when it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_snapshot: Option<ResourceSnapshot>,
    /// What an administrator decides; it can be taken back.
    #[serde(default)]
    pub decision: AdoptionDecision,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub decided_by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub comment: Option<String>,
    /// What its record will be like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<AdoptionTarget>,
}

string_enum! {
    /// What is decided about a found machine.
    pub enum AdoptionDecision {
        /// Nothing yet.
        Pending = "Pending",
        /// Give it a record.
        Adopt = "Adopt",
        /// Leave it alone and do not report it again.
        Ignore = "Ignore",
    }
    default Pending
}

/// What the record of an adopted machine will be like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdoptionTarget {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Its VMClass; one is made from what it has when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ObjectRef>,
    /// The VMImage that it is said to come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
    /// What becomes of the machine when the record is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Labels that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub labels: BTreeMap<String, String>,
}

impl Default for AdoptionTarget {
    fn default() -> Self {
        Self {
            name: None,
            class_ref: None,
            image_ref: None,
            deletion_policy: DeletionPolicy::Retain,
            labels: BTreeMap::new(),
        }
    }
}

/// What a machine was like when it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshot {
    /// Virtual CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cpu: Option<i32>,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_mib: Option<i64>,
    /// Whether it was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// The host that it ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub host: Option<String>,
    /// The name that its guest called itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,
    /// The operating system in it.
    #[serde(rename = "guestOS", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub guest_os: Option<String>,
    /// Its disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub disks: Vec<FoundDisk>,
    /// Its network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub networks: Vec<FoundNetwork>,
    /// Everything else, in the platform's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<FreeForm>,
}

/// A disk of a found machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundDisk {
    /// Its name on the platform.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its size in GiB.
    #[serde(rename = "sizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size_gib: Option<i32>,
    /// Its path on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
}

/// A network card of a found machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundNetwork {
    /// Its name on the platform.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The network that it is plugged into.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub network: Option<String>,
    /// Its hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub mac_address: Option<String>,
    /// Addresses on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 63)))]
    pub ips: Vec<String>,
}

/// How the adoption stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingAdoptionStatus {
    /// In one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<AdoptionState>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The record that it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<LocalObjectRef>,
    /// When it was first found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovered_at: Option<Time>,
    /// When it was last found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Time>,
    /// In how many inventories it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub sightings: Option<i32>,
    /// When the decision was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How an adoption stands.
    pub enum AdoptionState {
        /// Nobody has decided yet.
        Pending = "PENDING",
        /// It has a record.
        Adopted = "ADOPTED",
        /// It is left alone.
        Ignored = "IGNORED",
    }
}

/// What was found does not change: another machine is another object.
pub(crate) const UPDATE_RULES: &[PathRule] = &[
    PathRule {
        path: &["spec", "providerRef"],
        rule: "self == oldSelf",
        message: "providerRef cannot change: another machine is another PendingAdoption",
        reason: "FieldValueInvalid",
    },
    PathRule {
        path: &["spec", "machineID"],
        rule: "self == oldSelf",
        message: "machineID cannot change: another machine is another PendingAdoption",
        reason: "FieldValueInvalid",
    },
];
