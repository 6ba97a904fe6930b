//! The claim to one Kubernetes node and its machine.

use crate::autoscaler::NodeCondition;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::open_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine that is claimed and the group that claims it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "VPSieNode",
    plural = "vpsienodes",
    namespaced,
    status = "VPSieNodeStatus",
    derive = "PartialEq",
    doc = "The claim to one Kubernetes node: its machine, its join, its drain.",
    shortname = "vn",
    shortname = "vns",
    category = "sutler",
    printcolumn = r#"{"name": "VPS ID", "type": "integer", "jsonPath": ".spec.vpsieInstanceID", "description": "VPSie's ID of the machine"}"#,
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".status.nodeName", "description": "Name in Kubernetes"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "Where it is in its life"}"#,
    printcolumn = r#"{"name": "Instance Type", "type": "string", "jsonPath": ".spec.instanceType", "description": "Size"}"#,
    printcolumn = r#"{"name": "NodeGroup", "type": "string", "jsonPath": ".spec.nodeGroupName", "description": "Group"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Instance", "type": "string", "jsonPath": ".status.instanceID", "description": "ID on any platform", "priority": 1}"#,
    printcolumn = r#"{"name": "IP", "type": "string", "jsonPath": ".spec.ipAddress", "description": "Address", "priority": 1}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.reason", "description": "Why it is where it is", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.providerRef) || has(self.vpsieInstanceID)",
        "message": "vpsieInstanceID is required unless providerRef is set (0 while it is not known)",
        "reason": "FieldValueRequired",
        "fieldPath": ".vpsieInstanceID",
    },
    {
        "rule": "has(self.providerRef) || has(self.instanceType)",
        "message": "instanceType is required unless providerRef is set",
        "reason": "FieldValueRequired",
        "fieldPath": ".instanceType",
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
        "rule": "has(self.providerRef) || has(self.kubernetesVersion)",
        "message": "kubernetesVersion is required unless providerRef is set",
        "reason": "FieldValueRequired",
        "fieldPath": ".kubernetesVersion",
    },
]))]
pub struct VPSieNodeSpec {
    /// The group.
    pub node_group_name: String,
    /// The Provider that the machine is made on; absent means VPSie's managed Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// The VMClass of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ObjectRef>,
    /// The VMImage of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
    /// VPSie's ID of the machine, 0 while it is not known.
    #[serde(rename = "vpsieInstanceID", skip_serializing_if = "Option::is_none")]
    pub vpsie_instance_id: Option<i64>,
    /// VPSie's ID of the group.
    #[serde(rename = "vpsieGroupID", skip_serializing_if = "Option::is_none")]
    pub vpsie_group_id: Option<i64>,
    /// VPSie's UUID of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpsie_node_identifier: Option<String>,
    /// Size of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// VPSie data centre.
    #[serde(rename = "datacenterID", skip_serializing_if = "Option::is_none")]
    pub datacenter_id: Option<String>,
    /// VPSie's ID of the Kubernetes cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_identifier: Option<String>,
    /// VPSie project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// VPSie image.
    #[serde(rename = "osImageID", skip_serializing_if = "Option::is_none")]
    pub os_image_id: Option<String>,
    /// Version of Kubernetes on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::KUBERNETES_VERSION))]
    pub kubernetes_version: Option<String>,
    /// VPSie SSH keys that may log in.
    #[serde(rename = "sshKeyIDs", default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_key_ids: Vec<String>,
    /// The name that the node should have in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Address of the machine, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// IPv6 address of the machine, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_address: Option<String>,
}

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VPSieNodeStatus {
    /// Where it is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VpsieNodePhase>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Its name in Kubernetes, once it has joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The name that the machine calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// State of the machine in the platform's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpsie_status: Option<String>,
    /// ID of the machine on its platform, whatever its form.
    #[serde(rename = "instanceID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub instance_id: Option<String>,
    /// The VirtualMachine that it claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<LocalObjectRef>,
    /// What the machine has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<NodeResources>,
    /// When the machine was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When the machine ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned_at: Option<Time>,
    /// When the node joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined_at: Option<Time>,
    /// When the node became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
    /// When its removal began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_at: Option<Time>,
    /// When the machine was gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Time>,
    /// The last error, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Ready, VPSReady, NodeJoined, NodeReady, Error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<NodeCondition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

open_enum! {
    /// Where a node is in its life.
    pub enum VpsieNodePhase {
        /// Nothing has been done yet.
        Pending = "Pending",
        /// The machine is being made.
        Provisioning = "Provisioning",
        /// The machine runs.
        Provisioned = "Provisioned",
        /// The node is expected in the cluster.
        Joining = "Joining",
        /// The node takes pods.
        Ready = "Ready",
        /// The node is drained.
        Terminating = "Terminating",
        /// The machine is being destroyed.
        Deleting = "Deleting",
        /// Waiting for a person.
        Failed = "Failed",
    }
    default Pending
}

/// What a node's machine has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeResources {
    /// Processor cores.
    #[serde(default)]
    pub cpu: i64,
    /// Memory in MB.
    #[serde(rename = "memoryMB", default)]
    pub memory_mb: i64,
    /// Disk space in GB.
    #[serde(rename = "diskGB", default)]
    pub disk_gb: i64,
    /// Traffic per month in GB.
    #[serde(rename = "bandwidthGB", skip_serializing_if = "Option::is_none")]
    pub bandwidth_gb: Option<i64>,
}
