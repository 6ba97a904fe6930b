//! Settings of the autoscaler as a whole.

use crate::autoscaler::CostOptimization;
use crate::autoscaler::ScaleDownPolicy;
use crate::autoscaler::ScaleUpPolicy;
use crate::autoscaler::SpotConfig;
use crate::conditions;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of the autoscaler as a whole.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "AutoscalerConfig",
    plural = "autoscalerconfigs",
    status = "AutoscalerConfigStatus",
    derive = "PartialEq",
    doc = "Settings of the autoscaler as a whole; the object called default counts.",
    shortname = "asc",
    category = "sutler",
    printcolumn = r#"{"name": "MaxWorkers", "type": "integer", "jsonPath": ".spec.globalSettings.maxClusterWorkers"}"#,
    printcolumn = r#"{"name": "MinNodes", "type": "integer", "jsonPath": ".spec.nodeGroupDefaults.minNodes"}"#,
    printcolumn = r#"{"name": "MaxNodes", "type": "integer", "jsonPath": ".spec.nodeGroupDefaults.maxNodes"}"#,
    printcolumn = r#"{"name": "DynamicCreation", "type": "boolean", "jsonPath": ".spec.globalSettings.enableDynamicNodeGroupCreation"}"#,
    printcolumn = r#"{"name": "Active", "type": "boolean", "jsonPath": ".status.active"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "What is happening", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerConfigSpec {
    /// Limits for the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_settings: Option<GlobalSettings>,
    /// What groups are like that the autoscaler makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_defaults: Option<NodeGroupDefaults>,
}

/// Limits for the whole cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalSettings {
    /// Nodes in all groups together; 0 means no limit.
    #[schemars(range(min = 0))]
    pub max_cluster_workers: i32,
    /// Groups that may grow at the same time.
    #[schemars(range(min = 1))]
    pub max_concurrent_scale_ups: i32,
    /// Groups that may shrink at the same time.
    #[schemars(range(min = 1))]
    pub max_concurrent_scale_downs: i32,
    /// Pause after a group grew.
    #[schemars(range(min = 0))]
    pub scale_up_cooldown_seconds: i32,
    /// Pause after a group shrank.
    #[schemars(range(min = 0))]
    pub scale_down_cooldown_seconds: i32,
    /// How long a pod must wait before a group grows for it.
    #[schemars(range(min = 0))]
    pub unschedulable_pod_grace_period_seconds: i32,
    /// How long a node may take to become ready.
    #[schemars(range(min = 60))]
    pub node_ready_timeout_seconds: i32,
    /// How long a pod may take to leave a node.
    #[schemars(range(min = 0))]
    pub pod_eviction_timeout_seconds: i32,
    /// Whether groups are made for pods that fit none.
    pub enable_dynamic_node_group_creation: bool,
    /// Whether pods are moved to empty nodes.
    pub enable_rebalancing: bool,
}

impl Default for GlobalSettings {
    fn default() -> Self {
        Self {
            max_cluster_workers: 10,
            max_concurrent_scale_ups: 1,
            max_concurrent_scale_downs: 1,
            scale_up_cooldown_seconds: 60,
            scale_down_cooldown_seconds: 300,
            unschedulable_pod_grace_period_seconds: 30,
            node_ready_timeout_seconds: 600,
            pod_eviction_timeout_seconds: 120,
            enable_dynamic_node_group_creation: true,
            enable_rebalancing: false,
        }
    }
}

/// What groups are like that the autoscaler makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.minNodes <= self.maxNodes",
        "message": "minNodes must not be above maxNodes",
        "reason": "FieldValueInvalid",
        "fieldPath": ".minNodes",
    },
]))]
pub struct NodeGroupDefaults {
    /// Namespace that they are made in.
    pub namespace: String,
    /// Fewest nodes.
    #[schemars(range(min = 0))]
    pub min_nodes: i32,
    /// Most nodes.
    #[schemars(range(min = 1))]
    pub max_nodes: i32,
    /// VPSie data centre.
    #[serde(rename = "datacenterID", skip_serializing_if = "Option::is_none")]
    pub datacenter_id: Option<String>,
    /// VPSie's ID of the Kubernetes cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_identifier: Option<String>,
    /// VPSie project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// VPSie sizes that may be used.
    #[serde(rename = "offeringIDs", default, skip_serializing_if = "Vec::is_empty")]
    pub offering_ids: Vec<String>,
    /// VPSie's ID of the node size.
    #[serde(rename = "kubeSizeID", skip_serializing_if = "Option::is_none")]
    pub kube_size_id: Option<i64>,
    /// VPSie image.
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    pub os_image_id: Option<String>,
    /// Version of Kubernetes on the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// VPSie SSH keys that may log in.
    #[serde(rename = "sshKeyIDs", default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_key_ids: Vec<String>,
    /// Labels that nodes get.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints that nodes get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Tags that machines get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Notes that machines get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// When they grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up_policy: Option<ScaleUpPolicy>,
    /// When they shrink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_policy: Option<ScaleDownPolicy>,
    /// Machines that the platform may take back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_config: Option<SpotConfig>,
    /// How costs are kept down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_optimization: Option<CostOptimization>,
}

impl Default for NodeGroupDefaults {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            min_nodes: 1,
            max_nodes: 10,
            datacenter_id: None,
            resource_identifier: None,
            project: None,
            offering_ids: Vec::new(),
            kube_size_id: None,
            os_image_id: None,
            kubernetes_version: None,
            ssh_key_ids: Vec::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            tags: Vec::new(),
            notes: None,
            scale_up_policy: None,
            scale_down_policy: None,
            spot_config: None,
            cost_optimization: None,
        }
    }
}

/// What is known of the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerConfigStatus {
    /// Whether they are in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When they were last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
