//! Agents: programs on hypervisor hosts that serve a provider from the inside.

use crate::conditions;
use crate::duration::Duration;
use crate::patterns;
use crate::refs::ObjectRef;
use crate::refs::SecretKeyRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who may dial in as this agent.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sutler.dev",
    version = "v1alpha1",
    kind = "Agent",
    plural = "agents",
    namespaced,
    status = "AgentStatus",
    derive = "PartialEq",
    doc = "A program on a hypervisor host that dials in and serves its provider through that connection.",
    shortname = "agent",
    category = "sutler",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".status.hostname"}"#,
    printcolumn = r#"{"name": "Provider", "type": "string", "jsonPath": ".status.providerType"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".status.version"}"#,
    printcolumn = r#"{"name": "Last Seen", "type": "date", "jsonPath": ".status.lastSeenAt"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Address", "type": "string", "jsonPath": ".status.remoteAddress", "description": "Where it dials from", "priority": 1}"#,
    printcolumn = r#"{"name": "In Flight", "type": "integer", "jsonPath": ".status.commandsInFlight", "description": "Commands under way", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "What is happening", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSpec {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Secret with the token that it must show; one is made when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_token_secret_ref: Option<SecretKeyRef>,
    /// Refuse its connection and end the one that it has.
    pub disabled: bool,
    /// How often it must be heard from.
    #[schemars(regex(pattern = patterns::DURATION), length(max = 63))]
    pub heartbeat_interval: Duration,
    /// Silence after which it counts as gone.
    #[schemars(regex(pattern = patterns::DURATION), length(max = 63))]
    pub disconnected_after: Duration,
    /// Labels by which agents are chosen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub labels: BTreeMap<String, String>,
}

impl Default for AgentSpec {
    fn default() -> Self {
        Self {
            display_name: None,
            description: None,
            join_token_secret_ref: None,
            disabled: false,
            heartbeat_interval: Duration::from("15s"),
            disconnected_after: Duration::from("60s"),
            labels: BTreeMap::new(),
        }
    }
}

/// What is known of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// In one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<AgentPhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The host that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,
    /// That host's operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub os: Option<String>,
    /// That host's processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub architecture: Option<String>,
    /// Its own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// The version of the tunnel that it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub protocol_version: Option<i32>,
    /// The provider that it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub provider_type: Option<String>,
    /// Version of the platform behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub provider_version: Option<String>,
    /// What it can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200), inner(length(max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub capabilities: Vec<String>,
    /// Whether its own configuration lets commands run on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allows_host_commands: Option<bool>,
    /// Where it dials from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub remote_address: Option<String>,
    /// Its connection.
    #[serde(rename = "sessionID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub session_id: Option<String>,
    /// When that began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<Time>,
    /// When the last one ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected_at: Option<Time>,
    /// When it was last heard from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Time>,
    /// Connections after the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub reconnects: Option<i32>,
    /// Commands that it is carrying out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub commands_in_flight: Option<i32>,
    /// The Provider that is reached through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// Templates on its hypervisor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub templates: Vec<AgentTemplate>,
    /// When they were last listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templates_observed_at: Option<Time>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How an agent is in one word.
    pub enum AgentPhase {
        /// It never dialled in.
        Pending = "Pending",
        /// It is there.
        Connected = "Connected",
        /// It was there.
        Disconnected = "Disconnected",
        /// It is refused.
        Disabled = "Disabled",
    }
}

/// A template on an agent's hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplate {
    /// Its ID there.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
    /// Its name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// The host that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// Virtual CPUs that it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cpu: Option<i32>,
    /// Memory that it gives, in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_mib: Option<i64>,
    /// Root disk that it gives, in GiB.
    #[serde(rename = "diskGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub disk_gib: Option<i32>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}
