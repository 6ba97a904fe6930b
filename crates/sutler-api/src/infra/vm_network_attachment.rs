//! Networks that machines are plugged into.

mod addresses;
mod network;
mod security;

pub use addresses::*;
pub use network::*;
pub use security::*;

use crate::conditions;
use crate::infra::Environment;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A network and how its addresses, rules and priorities work.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMNetworkAttachment",
    plural = "vmnetworkattachments",
    namespaced,
    status = "VMNetworkAttachmentStatus",
    derive = "PartialEq",
    doc = "A network that machines can be plugged into, described for each platform.",
    shortname = "vmnet",
    category = "sutler",
    printcolumn = r#"{"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"}"#,
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.network.type"}"#,
    printcolumn = r#"{"name": "Connected VMs", "type": "integer", "jsonPath": ".status.connectedVMs"}"#,
    printcolumn = r#"{"name": "Providers", "type": "string", "jsonPath": ".status.availableOn[*]"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "How far it has come", "priority": 1}"#,
    printcolumn = r#"{"name": "Allocation", "type": "string", "jsonPath": ".spec.ipAllocation.type", "description": "How addresses are given out", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMNetworkAttachmentSpec {
    /// The network on each platform.
    pub network: NetworkConfig,
    /// How addresses are given out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_allocation: Option<IpAllocation>,
    /// Who may talk to whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<NetworkSecurity>,
    /// How traffic is limited and marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<NetworkQos>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<NetworkMetadata>,
}

/// How traffic is limited and marked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQos {
    /// Bits per second that come in at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub ingress_limit: Option<i64>,
    /// Bits per second that go out at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub egress_limit: Option<i64>,
    /// Priority in the VLAN tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 7))]
    pub priority: Option<i32>,
    /// Code point in the IP header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: Option<i32>,
}

/// What people call a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkMetadata {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// The stage of delivery that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Tags to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}

/// What is known of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMNetworkAttachmentStatus {
    /// Whether machines can be plugged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// How far it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<NetworkPhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Providers that have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_on: Vec<String>,
    /// Machines that are plugged in.
    #[serde(rename = "connectedVMs", skip_serializing_if = "Option::is_none")]
    pub connected_vms: Option<i32>,
    /// Addresses that are given out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_allocations: Vec<IpAllocationRecord>,
    /// What is known of it on each provider, by provider name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provider_status: BTreeMap<String, NetworkOnProvider>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How far a network has come.
    pub enum NetworkPhase {
        Pending = "Pending",
        Configuring = "Configuring",
        Ready = "Ready",
        Failed = "Failed",
    }
}

/// An address that is given out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAllocationRecord {
    /// The address.
    pub ip: String,
    /// The machine that has it.
    pub vm: String,
    /// The hardware address of its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// When it was given out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_at: Option<Time>,
    /// When it comes back unless it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_expiry: Option<Time>,
}

/// A network on one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkOnProvider {
    /// Whether machines can be plugged in there.
    pub available: bool,
    /// Its ID there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its state in the platform's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What is happening there, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}
