//! What is known of a provider.

use crate::conditions;
use crate::infra::RuntimeMode;
use crate::refs::CoreLocalRef;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatus {
    /// Whether the last health checks succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Result of the last health check in more detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthState>,
    /// When it was last asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_health_check: Option<Time>,
    /// Version that the platform reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How the provider is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<ProviderRuntimeStatus>,
    /// What the platform can do, in broad terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<ProviderCapability>,
    /// What the provider says it can do, in detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_capabilities: Option<ReportedCapabilities>,
    /// When the capabilities were last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities_detected_at: Option<Time>,
    /// Features that are on: generally available in this version, or switched on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500), extend("x-kubernetes-list-type" = "set"))]
    pub enabled_features: Vec<String>,
    /// Whether the shared inventory is fresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_status: Option<CacheStatus>,
    /// State of the circuit breaker before the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerState>,
    /// Machines with a record here.
    #[serde(rename = "connectedVMs", skip_serializing_if = "Option::is_none")]
    pub connected_vms: Option<i32>,
    /// How full the platform is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_usage: Option<ResourceUsage>,
    /// How the last search for unmanaged machines went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoption: Option<AdoptionStatus>,
    /// Machines that carry our token but have no record; reported before anything is done to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub orphans: Vec<Orphan>,
    /// Machines that are not of this control plane; they are never touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub unmanaged: Vec<Unmanaged>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// Result of a health check.
    pub enum HealthState {
        /// Not asked yet.
        Unknown = "UNKNOWN",
        /// Reachable, and everything needed is there.
        Healthy = "HEALTHY",
        /// Reachable, but something needed is missing.
        Unhealthy = "UNHEALTHY",
        /// No answer.
        Unreachable = "UNREACHABLE",
    }
}

string_enum! {
    /// Whether an inventory is fresh.
    pub enum CacheStatus {
        /// Up to date.
        Fresh = "FRESH",
        /// The last data, while a new list is being read.
        Stale = "STALE",
        /// Being read for the first time or again; changes are refused meanwhile.
        Rebuilding = "REBUILDING",
    }
}

string_enum! {
    /// State of a circuit breaker.
    pub enum BreakerState {
        /// Calls go through.
        Closed = "Closed",
        /// Calls are refused without being sent.
        Open = "Open",
        /// One call is let through as a probe.
        HalfOpen = "HalfOpen",
    }
}

string_enum! {
    /// What a platform can do, in broad terms.
    pub enum ProviderCapability {
        VirtualMachines = "VirtualMachines",
        Snapshots = "Snapshots",
        Cloning = "Cloning",
        LiveMigration = "LiveMigration",
        ConsoleAccess = "ConsoleAccess",
        DiskManagement = "DiskManagement",
        NetworkManagement = "NetworkManagement",
        GpuPassthrough = "GPUPassthrough",
        HighAvailability = "HighAvailability",
        Backup = "Backup",
        Templates = "Templates",
    }
}

/// How a provider is running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRuntimeStatus {
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RuntimeMode>,
    /// How far its deployment has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RuntimePhase>,
    /// Address that is dialled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The Kubernetes Service in front of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<CoreLocalRef>,
    /// Copies that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Copies that have been ready long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

string_enum! {
    /// How far a provider's deployment has come.
    pub enum RuntimePhase {
        Pending = "Pending",
        Starting = "Starting",
        Running = "Running",
        Stopping = "Stopping",
        Failed = "Failed",
    }
}

/// What a provider says it can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedCapabilities {
    /// CPU and memory can change while a machine runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_reconfigure_online: Option<bool>,
    /// Disks can grow while a machine runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_disk_expansion_online: Option<bool>,
    /// Machines can be snapshotted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_snapshots: Option<bool>,
    /// Snapshots can include memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_memory_snapshots: Option<bool>,
    /// Clones can share their parent's disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_linked_clones: Option<bool>,
    /// Images can be brought in from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_image_import: Option<bool>,
    /// Disks can be sent out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_disk_export: Option<bool>,
    /// Disks can be brought in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_disk_import: Option<bool>,
    /// Disks can be compressed on the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_export_compression: Option<bool>,
    /// The whole inventory can be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_list: Option<bool>,
    /// Changes are streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_events: Option<bool>,
    /// Templates can be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_templates: Option<bool>,
    /// Commands can be run in a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_guest_commands: Option<bool>,
    /// A console can be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_console: Option<bool>,
    /// Machines can be paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_pause: Option<bool>,
    /// Machines can move between hosts while they run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_live_migration: Option<bool>,
    /// What the platform refuses to have twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_by: Option<UniqueBy>,
    /// Disk types that it makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_disk_types: Vec<String>,
    /// Network types that it makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_network_types: Vec<String>,
    /// Disk formats that it sends out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_export_formats: Vec<String>,
    /// Disk formats that it takes in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_import_formats: Vec<String>,
    /// Storage that it can export to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_export_backends: Vec<String>,
    /// Storage that it can import from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_import_backends: Vec<String>,
    /// Ways in which disks travel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_transfer_modes: Vec<String>,
}

string_enum! {
    /// What a platform refuses to have twice, and so how far "never two" reaches.
    pub enum UniqueBy {
        /// A second machine with the same ownership token.
        Token = "Token",
        /// A second machine of the same name.
        Name = "Name",
        /// Nothing: an extra may appear after a lost request, and is reaped.
        None = "None",
    }
}

/// How full a platform is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// Processor, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<UsageStats>,
    /// Memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<UsageStats>,
    /// Storage, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<UsageStats>,
    /// Traffic since the counters began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUsage>,
}

/// How much of one resource there is and is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageStats {
    /// What there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// What is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<i64>,
    /// What is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<i64>,
    /// Used as a share of the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_percent: Option<i32>,
}

/// Traffic counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkUsage {
    /// Bytes that came in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<i64>,
    /// Bytes that went out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<i64>,
    /// Packets that came in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_received: Option<i64>,
    /// Packets that went out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_sent: Option<i64>,
}

/// How the last search for unmanaged machines went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptionStatus {
    /// Machines found without a record.
    #[serde(rename = "discoveredVMs", skip_serializing_if = "Option::is_none")]
    pub discovered_vms: Option<i32>,
    /// Machines that were given one.
    #[serde(rename = "adoptedVMs", skip_serializing_if = "Option::is_none")]
    pub adopted_vms: Option<i32>,
    /// Machines that could not be given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_adoptions: Option<i32>,
    /// When the search ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_discovery_time: Option<Time>,
    /// What happened, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A machine that carries our token but has no record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// Its ID on the platform.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
    /// Its name on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// The host that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub host: Option<String>,
    /// When an inventory first showed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<Time>,
    /// When an inventory last showed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Time>,
    /// In how many fresh inventories it has been seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub sightings: Option<i32>,
    /// Why it counts as an orphan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// A machine that is not of this control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unmanaged {
    /// Its ID on the platform.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
    /// Its name on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// The host that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub host: Option<String>,
    /// The control plane that it is of, where it carries a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub installation: Option<String>,
}
