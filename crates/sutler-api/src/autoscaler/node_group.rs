//! Groups of Kubernetes nodes that are alike.

use crate::autoscaler::CostOptimization;
use crate::autoscaler::MultiRegion;
use crate::autoscaler::NodeCondition;
use crate::autoscaler::ScaleDownPolicy;
use crate::autoscaler::ScaleUpPolicy;
use crate::autoscaler::SpotConfig;
use crate::defaults;
use crate::patterns;
use crate::refs::ObjectRef;
use crate::refs::SecretKeyRef;
use crate::strings::string_enum;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How large a group may be and what its nodes are like.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "NodeGroup",
    plural = "nodegroups",
    namespaced,
    status = "NodeGroupStatus",
    derive = "PartialEq",
    doc = "A group of Kubernetes nodes that are alike, grown and shrunk as pods need it.",
    shortname = "ng",
    shortname = "ngs",
    category = "sutler",
    scale(
        spec_replicas_path = ".spec.desiredNodes",
        status_replicas_path = ".status.currentNodes",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Min", "type": "integer", "jsonPath": ".spec.minNodes", "description": "Fewest nodes"}"#,
    printcolumn = r#"{"name": "Max", "type": "integer", "jsonPath": ".spec.maxNodes", "description": "Most nodes"}"#,
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".status.desiredNodes", "description": "Wanted nodes"}"#,
    printcolumn = r#"{"name": "Current", "type": "integer", "jsonPath": ".status.currentNodes", "description": "Nodes with a record"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyNodes", "description": "Nodes that take pods"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Failed", "type": "integer", "jsonPath": ".status.failedNodes", "description": "Nodes that wait for a person", "priority": 1}"#,
    printcolumn = r#"{"name": "Provider", "type": "string", "jsonPath": ".spec.providerRef.name", "description": "Provider of the machines", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.minNodes <= self.maxNodes",
        "message": "minNodes must not be above maxNodes",
        "reason": "FieldValueInvalid",
        "fieldPath": ".minNodes",
    },
    {
        "rule": "has(self.providerRef) || has(self.datacenterID)",
        "message": "datacenterID is required unless providerRef is set",
        "reason": "FieldValueRequired",
        "fieldPath": ".datacenterID",
    },
    {
        "rule": "has(self.providerRef) || has(self.resourceIdentifier)",
        "message": "resourceIdentifier is required unless providerRef is set",
        "reason": "FieldValueRequired",
        "fieldPath": ".resourceIdentifier",
    },
    {
        "rule": "has(self.providerRef) || has(self.project)",
        "message": "project is required unless providerRef is set",
        "reason": "FieldValueRequired",
        "fieldPath": ".project",
    },
    {
        "rule": "has(self.providerRef) || has(self.offeringIDs)",
        "message": "offeringIDs is required unless providerRef is set",
        "reason": "FieldValueRequired",
        "fieldPath": ".offeringIDs",
    },
    {
        "rule": "has(self.providerRef) || has(self.kubernetesVersion)",
        "message": "kubernetesVersion is required unless providerRef is set",
        "reason": "FieldValueRequired",
        "fieldPath": ".kubernetesVersion",
    },
    {
        "rule": "!has(self.providerRef) || has(self.resourceIdentifier) || (has(self.classRef) && has(self.imageRef))",
        "message": "a group on a providerRef needs classRef and imageRef, or resourceIdentifier where the provider manages the cluster",
        "reason": "FieldValueRequired",
        "fieldPath": ".classRef",
    },
    {
        "rule": "!has(self.bootstrap) || has(self.providerRef)",
        "message": "bootstrap needs providerRef: managed Kubernetes installs its own nodes",
        "reason": "FieldValueForbidden",
        "fieldPath": ".bootstrap",
    },
]))]
pub struct NodeGroupSpec {
    /// Fewest nodes.
    #[schemars(range(min = 0))]
    pub min_nodes: i32,
    /// Most nodes.
    #[schemars(range(min = 1))]
    pub max_nodes: i32,
    /// Wanted nodes, kept between minNodes and maxNodes; the scale subresource writes it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub desired_nodes: i32,
    /// The Provider that the nodes' machines are made on; absent means VPSie's managed Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// The VMClass of the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ObjectRef>,
    /// The VMImage of the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
    /// The Kubernetes cluster that the nodes join; the one that this object is in when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterRef>,
    /// How a machine becomes a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
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
    #[schemars(length(min = 1))]
    pub offering_ids: Vec<String>,
    /// The size that is tried first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_instance_type: Option<String>,
    /// Whether nodes may differ in size.
    #[serde(default = "defaults::yes")]
    pub allow_mixed_instances: bool,
    /// VPSie's ID of the node size.
    #[serde(rename = "kubeSizeID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub kube_size_id: Option<i64>,
    /// VPSie image.
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    pub os_image_id: Option<String>,
    /// Version of Kubernetes on the nodes, such as v1.34.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::KUBERNETES_VERSION))]
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
    /// When it grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up_policy: Option<ScaleUpPolicy>,
    /// When it shrinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_policy: Option<ScaleDownPolicy>,
    /// Machines that the platform may take back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_config: Option<SpotConfig>,
    /// Spreading over data centres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_region: Option<MultiRegion>,
    /// How costs are kept down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_optimization: Option<CostOptimization>,
}

/// A Secret with the kubeconfig of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRef {
    /// The Secret, in the same namespace.
    #[schemars(regex(pattern = patterns::DNS_SUBDOMAIN), length(min = 1, max = 253))]
    pub name: String,
    /// Key of the kubeconfig in it.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// How a machine becomes a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.kind == 'custom' || (has(self.endpoint) && has(self.tokenSecretRef))",
        "message": "kubeadm and k3s need endpoint and tokenSecretRef to join",
        "reason": "FieldValueRequired",
        "fieldPath": ".endpoint",
    },
    {
        "rule": "self.kind != 'custom' || has(self.extra)",
        "message": "kind custom needs extra: the user data that joins the node",
        "reason": "FieldValueRequired",
        "fieldPath": ".extra",
    },
]))]
pub struct Bootstrap {
    /// By what it joins.
    pub kind: BootstrapKind,
    /// API server or k3s server that it joins, as host:port or URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: Option<String>,
    /// Secret with the join token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<SecretKeyRef>,
    /// Hash of the cluster's CA certificate, as kubeadm prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::CA_HASH))]
    pub ca_cert_hash: Option<String>,
    /// Cloud-init user data that is added; all of it for kind custom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub extra: Option<String>,
}

string_enum! {
    /// By what a machine joins a cluster.
    pub enum BootstrapKind {
        Kubeadm = "kubeadm",
        K3s = "k3s",
        /// By its own user data.
        Custom = "custom",
    }
}

/// What is known of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupStatus {
    /// Records that are not being deleted, failed ones included.
    #[serde(default)]
    pub current_nodes: i32,
    /// Nodes that are wanted.
    #[serde(default)]
    pub desired_nodes: i32,
    /// Nodes that take pods.
    #[serde(default)]
    pub ready_nodes: i32,
    /// Records that failed and wait for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_nodes: Option<i32>,
    /// The selector of its VPSieNodes as text, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// VPSie's ID of the group.
    #[serde(rename = "vpsieGroupID", skip_serializing_if = "Option::is_none")]
    pub vpsie_group_id: Option<i64>,
    /// Its nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeInfo>,
    /// When its size last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// When it last grew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_up_time: Option<Time>,
    /// When it last shrank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_down_time: Option<Time>,
    /// Ready, Scaling, Error, AtMinCapacity, AtMaxCapacity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<NodeCondition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A node of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Its name in Kubernetes; empty until it has joined.
    pub node_name: String,
    /// VPSie's ID of the machine.
    #[serde(rename = "vpsID", skip_serializing_if = "Option::is_none")]
    pub vps_id: Option<i64>,
    /// The machine's ID on any other platform.
    #[serde(rename = "instanceID", skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Its size.
    pub instance_type: String,
    /// Where it is in its life.
    pub status: String,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// When its machine was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When it became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
}

fn default_key() -> String {
    "kubeconfig".to_owned()
}
