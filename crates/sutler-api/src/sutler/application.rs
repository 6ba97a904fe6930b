//! Applications: designs of several machines, not all of them made yet.

use crate::conditions;
use crate::infra::DeletionPolicy;
use crate::infra::DiskSpec;
use crate::infra::MachineResources;
use crate::infra::NetworkRef;
use crate::infra::PowerState;
use crate::infra::UserData;
use crate::infra::VirtualMachinePhase;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The machines of a design and how they are connected.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sutler.dev",
    version = "v1alpha1",
    kind = "Application",
    plural = "applications",
    namespaced,
    status = "ApplicationStatus",
    derive = "PartialEq",
    doc = "A design of several machines that belong together; not all of them need to exist yet.",
    shortname = "app",
    category = "sutler",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "integer", "jsonPath": ".status.totalNodes"}"#,
    printcolumn = r#"{"name": "Provisioned", "type": "integer", "jsonPath": ".status.provisionedNodes"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyNodes"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Name", "type": "string", "jsonPath": ".spec.displayName", "description": "Name for people", "priority": 1}"#,
    printcolumn = r#"{"name": "Owner", "type": "string", "jsonPath": ".spec.owner", "description": "Who is responsible", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.connections) || (has(self.nodes) && self.connections.all(c, self.nodes.exists(n, n.name == c.from) && self.nodes.exists(n, n.name == c.to)))",
        "message": "a connection must run between nodes of this application: correct its from or to, or add the node",
        "reason": "FieldValueInvalid",
        "fieldPath": ".connections",
    },
]))]
pub struct ApplicationSpec {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Who is responsible for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub owner: Option<String>,
    /// Its machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<ApplicationNode>,
    /// Who talks to whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub connections: Vec<Connection>,
    /// What becomes of the machines when this object is deleted; absent means Delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// One machine of a design.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.templateRef) || has(self.vmRef) || (has(self.classRef) && has(self.imageRef))",
        "message": "a node needs templateRef, vmRef, or classRef and imageRef: say what it is made from",
        "reason": "FieldValueRequired",
        "fieldPath": ".templateRef",
    },
    {
        "rule": "!self.provision || has(self.providerRef) || has(self.vmRef)",
        "message": "a node that is provisioned needs providerRef: say where",
        "reason": "FieldValueRequired",
        "fieldPath": ".providerRef",
    },
]))]
pub struct ApplicationNode {
    /// Its name, unique within the application.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63))]
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What it does, such as web or database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub role: Option<String>,
    /// Whether its machine should exist; false keeps it a plan.
    #[serde(default)]
    pub provision: bool,
    /// The Provider that its machine is made on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// The VMTemplate that it is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<ObjectRef>,
    /// The VMClass, instead of the template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ObjectRef>,
    /// The VMImage, instead of the template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
    /// A VirtualMachine that exists already and plays this part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<LocalObjectRef>,
    /// CPU and memory, instead of the class's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// Network cards, instead of the template's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub networks: Vec<NetworkRef>,
    /// Disks, instead of the template's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub disks: Vec<DiskSpec>,
    /// First-boot data, instead of the template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserData>,
    /// Whether it should be on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// Labels that its record gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub labels: BTreeMap<String, String>,
    /// Tags that it carries on the platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 255)))]
    pub tags: Vec<String>,
    /// Where the console draws it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

/// A place on the canvas of the console.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// Distance from the left edge.
    #[schemars(range(min = -1000000, max = 1000000))]
    pub left: i32,
    /// Distance from the top edge.
    #[schemars(range(min = -1000000, max = 1000000))]
    pub top: i32,
}

/// A connection between two machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// The node that opens it.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63))]
    pub from: String,
    /// The node that takes it.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63))]
    pub to: String,
    /// The port that it is taken on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The protocol, such as tcp or https.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub protocol: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub label: Option<String>,
}

/// What is known of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    /// How it is in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ApplicationPhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// Machines in the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub total_nodes: Option<i32>,
    /// Machines that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub provisioned_nodes: Option<i32>,
    /// Machines that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ready_nodes: Option<i32>,
    /// What is known of each machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<ApplicationNodeStatus>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How an application is in one word.
    pub enum ApplicationPhase {
        /// No machine is wanted yet.
        Draft = "Draft",
        /// Machines are being made.
        Provisioning = "Provisioning",
        /// All wanted machines are ready.
        Running = "Running",
        /// Some are not.
        Degraded = "Degraded",
        /// All are off, as wanted.
        Stopped = "Stopped",
        /// Waiting for a person.
        Failed = "Failed",
        /// Machines are being destroyed.
        Deleting = "Deleting",
    }
}

/// What is known of a machine of a design.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationNodeStatus {
    /// Its name in the application.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Whether its machine exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
    /// Its VirtualMachine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<LocalObjectRef>,
    /// Where the machine is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VirtualMachinePhase>,
    /// Whether it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// The provider that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub provider: Option<String>,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub ip_address: Option<String>,
    /// The Operation that is changing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_ref: Option<LocalObjectRef>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}
