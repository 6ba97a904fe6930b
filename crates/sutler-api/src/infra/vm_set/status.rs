//! What is known of a set of machines.

use crate::conditions;
use crate::infra::VirtualMachinePhase;
use crate::progress::Waiting;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMSetStatus {
    /// Machines that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Machines that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Machines that have been ready long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Machines of the current revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// Machines of the new revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The selector as text, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The revision before the change in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// The revision of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// How often the hash of a revision was taken already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// How far the replacement has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_status: Option<UpdateStatus>,
    /// What is known of each machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub vm_status: Vec<SetMember>,
    /// Machines that are being replaced: written before any of them is removed, and kept until the
    /// one in its place is available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub replacing: Vec<ReplacedMember>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A machine that is being replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedMember {
    /// The machine.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The UID of the record that goes.
    #[schemars(length(max = 128))]
    pub uid: String,
}

/// How far the replacement of machines has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// In one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<UpdatePhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Machines that wait for it.
    #[serde(rename = "pendingVMs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub pending_vms: Vec<String>,
    /// Machines that are replaced.
    #[serde(rename = "updatedVMs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub updated_vms: Vec<String>,
    /// Machines that could not be replaced.
    #[serde(rename = "failedVMs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub failed_vms: Vec<FailedMember>,
}

string_enum! {
    /// How far a replacement has come.
    pub enum UpdatePhase {
        Pending = "Pending",
        InProgress = "InProgress",
        Paused = "Paused",
        Completed = "Completed",
        Failed = "Failed",
    }
}

/// A machine that could not be replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedMember {
    /// The machine.
    pub name: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Attempts after the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
    /// When it was last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,
}

/// A machine of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetMember {
    /// The machine.
    pub name: String,
    /// Where it is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VirtualMachinePhase>,
    /// Whether it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The revision that it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When its record was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// When it last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}
