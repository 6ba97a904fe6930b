//! Rules for where machines go.

mod affinity;
mod status;

pub use affinity::*;
pub use status::*;

use crate::quantity::Quantity;
use crate::strings::string_enum;
use k8s_openapi::api::core::v1::Toleration;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rules for where machines go.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMPlacementPolicy",
    plural = "vmplacementpolicies",
    namespaced,
    status = "VMPlacementPolicyStatus",
    derive = "PartialEq",
    doc = "Rules for where machines go: what must hold, what should, and who keeps away from whom.",
    shortname = "vmpp",
    category = "sutler",
    printcolumn = r#"{"name": "Used By VMs", "type": "string", "jsonPath": ".status.usedByVMs[*].name"}"#,
    printcolumn = r#"{"name": "Priority", "type": "integer", "jsonPath": ".spec.priority"}"#,
    printcolumn = r#"{"name": "Successful", "type": "integer", "jsonPath": ".status.placementStats.successfulPlacements"}"#,
    printcolumn = r#"{"name": "Failed", "type": "integer", "jsonPath": ".status.placementStats.failedPlacements"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "description": "Weight against other policies", "priority": 1}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Summary of all conditions", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMPlacementPolicySpec {
    /// What must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<PlacementConstraints>,
    /// What should hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<PlacementConstraints>,
    /// Which machines should be near each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<AffinityRules>,
    /// Which machines should keep apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<AntiAffinityRules>,
    /// What a host must have left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_constraints: Option<ResourceConstraints>,
    /// What a host must offer for safety.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_constraints: Option<SecurityConstraints>,
    /// Which policy wins where two disagree; the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub priority: Option<i32>,
    /// How much soft rules count against those of other policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
}

/// Places that are allowed, and places that are not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConstraints {
    /// Clusters that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub clusters: Vec<String>,
    /// Datastores that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub datastores: Vec<String>,
    /// Hosts that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub hosts: Vec<String>,
    /// Folders that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub folders: Vec<String>,
    /// Resource pools that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub resource_pools: Vec<String>,
    /// Networks that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub networks: Vec<String>,
    /// Zones that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub zones: Vec<String>,
    /// Regions that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub regions: Vec<String>,
    /// Labels that a host must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of hosts that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub tolerations: Vec<Toleration>,
    /// Clusters that are not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub excluded_clusters: Vec<String>,
    /// Datastores that are not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub excluded_datastores: Vec<String>,
    /// Hosts that are not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub excluded_hosts: Vec<String>,
}

/// What a host must have left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceConstraints {
    /// Free CPUs.
    #[serde(rename = "minCPUPerHost", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_cpu_per_host: Option<i32>,
    /// Free memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_memory_per_host: Option<Quantity>,
    /// Free disk space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_disk_space_per_host: Option<Quantity>,
    /// Share of CPU in use at most.
    #[serde(rename = "maxCPUUtilization", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_cpu_utilization: Option<i32>,
    /// Share of memory in use at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_memory_utilization: Option<i32>,
    /// Share of disk space in use at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_disk_utilization: Option<i32>,
    /// Hardware features that a host must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub required_features: Vec<String>,
    /// Hardware features that a host should have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub preferred_features: Vec<String>,
}

/// What a host must offer for safety.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityConstraints {
    /// Secure boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_secure_boot: Option<bool>,
    /// A trusted platform module.
    #[serde(rename = "requireTPM", skip_serializing_if = "Option::is_none")]
    pub require_tpm: Option<bool>,
    /// Encrypted storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_encrypted_storage: Option<bool>,
    /// Memory that is tied to processors.
    #[serde(rename = "requireNUMATopology", skip_serializing_if = "Option::is_none")]
    pub require_numa_topology: Option<bool>,
    /// How strictly machines are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation_level: Option<IsolationLevel>,
    /// How far the host is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_level: Option<TrustLevel>,
    /// Security groups that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub allowed_security_groups: Vec<String>,
    /// Security groups that are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub denied_security_groups: Vec<String>,
}

string_enum! {
    /// How strictly machines are kept apart.
    pub enum IsolationLevel {
        None = "none",
        Basic = "basic",
        Strict = "strict",
        Maximum = "maximum",
    }
}

string_enum! {
    /// How far a host is trusted.
    pub enum TrustLevel {
        Untrusted = "untrusted",
        Basic = "basic",
        Trusted = "trusted",
        HighlyTrusted = "highly-trusted",
    }
}
