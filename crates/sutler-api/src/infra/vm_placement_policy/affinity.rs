//! Which machines should be near each other, and which should keep apart.

use crate::strings::string_enum;
use k8s_openapi::api::core::v1::NodeAffinity;
use k8s_openapi::api::core::v1::PodAffinity;
use k8s_openapi::api::core::v1::PodAntiAffinity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which machines should be near each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AffinityRules {
    /// Machines that should be near.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_affinity: Option<VmAffinity>,
    /// Hosts that are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_affinity: Option<HostAffinity>,
    /// Clusters that are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Datastores that are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore_affinity: Option<DatastoreAffinity>,
    /// Zones that are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_affinity: Option<ZoneAffinity>,
    /// Machines of the same application should be near.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_affinity: Option<ApplicationAffinity>,
    /// Hosts by their labels, as Kubernetes writes it for nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// Machines by their labels, as Kubernetes writes it for pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    /// Machines to keep away from, as Kubernetes writes it for pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAntiAffinity>,
}

/// Which machines should keep apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AntiAffinityRules {
    /// Machines that should be far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_anti_affinity: Option<VmAffinity>,
    /// Not on the same host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_anti_affinity: Option<HostAntiAffinity>,
    /// Not in the same cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_anti_affinity: Option<ClusterAntiAffinity>,
    /// Not on the same datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore_anti_affinity: Option<DatastoreAntiAffinity>,
    /// Not in the same zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_anti_affinity: Option<ZoneAntiAffinity>,
    /// Machines of the same application should be far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_anti_affinity: Option<ApplicationAffinity>,
}

string_enum! {
    /// How strictly a rule holds.
    pub enum RuleScope {
        /// It must.
        Strict = "strict",
        /// It should.
        Preferred = "preferred",
    }
}

/// Hosts that are preferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// The hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub preferred_hosts: Vec<String>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Clusters that are preferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// The clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub preferred_clusters: Vec<String>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Datastores that are preferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatastoreAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// The datastores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub preferred_datastores: Vec<String>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Zones that are preferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// The zones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub preferred_zones: Vec<String>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Machines of the same application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// The label that names the application.
    #[serde(default = "default_application_label")]
    pub application_label: String,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Not on the same host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAntiAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// Machines that may share a host.
    #[serde(rename = "maxVMsPerHost", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_vms_per_host: Option<i32>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Not in the same cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAntiAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// Machines that may share a cluster.
    #[serde(rename = "maxVMsPerCluster", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_vms_per_cluster: Option<i32>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Not on the same datastore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatastoreAntiAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// Machines that may share a datastore.
    #[serde(rename = "maxVMsPerDatastore", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_vms_per_datastore: Option<i32>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Not in the same zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAntiAffinity {
    /// Whether the rule holds.
    pub enabled: bool,
    /// Machines that may share a zone.
    #[serde(rename = "maxVMsPerZone", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_vms_per_zone: Option<i32>,
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
}

/// Other machines that count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VmAffinity {
    /// What must hold when a machine is placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub required_during_scheduling: Vec<VmAffinityTerm>,
    /// What should hold when a machine is placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub preferred_during_scheduling: Vec<WeightedVmAffinityTerm>,
}

/// A rule that counts by its weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightedVmAffinityTerm {
    /// How much it counts.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
    /// The rule.
    pub vm_affinity_term: VmAffinityTerm,
}

/// Which machines count, and what near means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VmAffinityTerm {
    /// Machines by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Machines by expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub match_expressions: Vec<VmSelectorRequirement>,
    /// Namespaces that they are looked for in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub namespaces: Vec<String>,
    /// Namespaces by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub namespace_selector: Option<LabelSelector>,
    /// Label of hosts; hosts with the same value are near.
    #[schemars(length(max = 253))]
    pub topology_key: String,
}

/// An expression over labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VmSelectorRequirement {
    /// The label.
    #[schemars(length(max = 253))]
    pub key: String,
    /// How it is compared.
    pub operator: SelectorOperator,
    /// What it is compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub values: Vec<String>,
}

string_enum! {
    /// How a label is compared.
    pub enum SelectorOperator {
        In = "In",
        NotIn = "NotIn",
        Exists = "Exists",
        DoesNotExist = "DoesNotExist",
    }
}

fn default_application_label() -> String {
    "app".to_owned()
}
