//! What is known of a placement policy.

use crate::conditions;
use crate::duration::Duration;
use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of a placement policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMPlacementPolicyStatus {
    /// Machines that it places.
    #[serde(rename = "usedByVMs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub used_by_vms: Vec<LocalObjectRef>,
    /// How placing went so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_stats: Option<PlacementStats>,
    /// What each provider says of it, by provider name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub validation_results: BTreeMap<String, PolicyValidation>,
    /// Policies that disagree with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub conflicting_policies: Vec<PolicyConflict>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How placing went so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStats {
    /// Attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_placements: Option<i32>,
    /// Attempts that found a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successful_placements: Option<i32>,
    /// Attempts that found none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_placements: Option<i32>,
    /// Soft rules that could not be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint_violations: Option<i32>,
    /// How long an attempt took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_placement_time: Option<Duration>,
    /// When the last one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_placement_time: Option<Time>,
    /// Machines by place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub placement_distribution: BTreeMap<String, i32>,
}

/// What a provider says of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyValidation {
    /// Whether it can keep it.
    pub valid: bool,
    /// Why, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it will do differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub warnings: Vec<String>,
    /// What it cannot do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub errors: Vec<String>,
    /// Rules that it can keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub supported_features: Vec<String>,
    /// Rules that it cannot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub unsupported_features: Vec<String>,
    /// When it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_validated: Option<Time>,
}

/// A policy that disagrees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyConflict {
    /// The policy.
    pub policy_name: String,
    /// What they disagree about.
    pub conflict_type: ConflictType,
    /// How bad it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The disagreement, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it could be resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution_suggestion: Option<String>,
}

string_enum! {
    /// What two policies disagree about.
    pub enum ConflictType {
        Hard = "hard",
        Soft = "soft",
        Resource = "resource",
        Security = "security",
        Affinity = "affinity",
    }
}

string_enum! {
    /// How bad something is.
    pub enum Severity {
        Low = "low",
        Medium = "medium",
        High = "high",
        Critical = "critical",
    }
}
