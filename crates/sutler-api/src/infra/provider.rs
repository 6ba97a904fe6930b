//! A connection to one hypervisor or cloud.

mod runtime;
mod status;

pub use runtime::*;
pub use status::*;

use crate::duration::Duration;
use crate::free_form::FreeForm;
use crate::patterns;
use crate::refs::ObjectRef;
use crate::strings::open_enum;
use crate::strings::string_enum;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the platform is, how to log in, and how hard it may be driven.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "Provider",
    plural = "providers",
    namespaced,
    status = "ProviderStatus",
    derive = "PartialEq",
    doc = "A connection to one hypervisor or cloud, and how Sutler reaches it.",
    shortname = "prov",
    category = "sutler",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.type"}"#,
    printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".spec.endpoint"}"#,
    printcolumn = r#"{"name": "Healthy", "type": "boolean", "jsonPath": ".status.healthy"}"#,
    printcolumn = r#"{"name": "Connected VMs", "type": "integer", "jsonPath": ".status.connectedVMs"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Health", "type": "string", "jsonPath": ".status.health", "description": "Result of the last health check", "priority": 1}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Summary of all conditions", "priority": 1}"#,
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".status.runtime.mode", "description": "How the provider is reached", "priority": 1}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".status.version", "description": "Version of the platform", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpec {
    /// Which provider serves this platform: libvirt, proxmox, kubevirt, vsphere, vpsie, sim, or the
    /// name of any other that is served remotely.
    #[serde(rename = "type")]
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63))]
    pub type_: ProviderType,
    /// Address of the platform as its provider writes it, for example https://host:8006,
    /// qemu:///system or sim://lab.
    #[schemars(regex(pattern = patterns::ENDPOINT), length(min = 1, max = 2048))]
    pub endpoint: String,
    /// Secret with the credentials; not needed where the platform asks for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_secret_ref: Option<ObjectRef>,
    /// Do not check the platform's certificate.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// Placement for machines that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<ProviderDefaults>,
    /// How many calls the platform is sent at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// How the provider runs; absent means inside the control plane's own process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<ProviderRuntime>,
    /// How often the platform is asked whether it is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// How connections to the platform are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_pooling: Option<ConnectionPooling>,
    /// How machines are called on the platform.
    #[serde(default)]
    pub naming: Naming,
    /// How machines are looked for whose ID the platform did not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// Hardware that an administrator vouches for, such as gpu or sriov; templates can ask for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 100))]
    pub hardware_capabilities: BTreeMap<String, bool>,
    /// Settings of this provider alone; the provider checks them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<FreeForm>,
}

open_enum! {
    /// Kinds of platform; any other name is a provider served remotely.
    pub enum ProviderType {
        Vsphere = "vsphere",
        Libvirt = "libvirt",
        Proxmox = "proxmox",
        Kubevirt = "kubevirt",
        Vpsie = "vpsie",
        /// The simulated hypervisor.
        Sim = "sim",
        Firecracker = "firecracker",
        Qemu = "qemu",
    }
    default Sim
}

/// Placement for machines that name none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderDefaults {
    /// Compute cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub cluster: Option<String>,
    /// Datastore or storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub datastore: Option<String>,
    /// Datastore cluster that picks the datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage_pod: Option<String>,
    /// Inventory folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub folder: Option<String>,
    /// Resource pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub resource_pool: Option<String>,
    /// Network for cards that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub network: Option<String>,
    /// Region of a cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub region: Option<String>,
    /// Availability zone within the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub zone: Option<String>,
}

/// A token bucket before the platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimit {
    /// Calls per second in the long run.
    #[schemars(range(min = 1))]
    pub qps: i64,
    /// Calls that may come at once.
    #[schemars(range(min = 1))]
    pub burst: i64,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { qps: 10, burst: 20 }
    }
}

/// How often the platform is asked whether it is well, and how answers are counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheck {
    /// Whether it is asked at all.
    pub enabled: bool,
    /// Pause between two questions.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Failures in a row until it counts as unwell.
    #[schemars(range(min = 1, max = 10))]
    pub failure_threshold: i32,
    /// Successes in a row until it counts as well again.
    #[schemars(range(min = 1, max = 10))]
    pub success_threshold: i32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from("30s"),
            timeout: Duration::from("10s"),
            failure_threshold: 3,
            success_threshold: 1,
        }
    }
}

/// How connections to the platform are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionPooling {
    /// Connections at the same time.
    #[schemars(range(min = 1, max = 100))]
    pub max_connections: i32,
    /// Connections kept open while unused.
    #[schemars(range(min = 1))]
    pub max_idle_connections: i32,
    /// How long opening one may take.
    pub connection_timeout: Duration,
    /// When an unused one is closed.
    pub idle_timeout: Duration,
}

impl Default for ConnectionPooling {
    fn default() -> Self {
        Self {
            max_connections: 10,
            max_idle_connections: 5,
            connection_timeout: Duration::from("30s"),
            idle_timeout: Duration::from("5m"),
        }
    }
}

string_enum! {
    /// How a machine is called on the platform.
    pub enum Naming {
        /// Its name, a dash and five characters of its UID's hash: names never clash and prove
        /// ownership.
        Hashed = "Hashed",
        /// Its name alone; a second machine of that name is refused.
        Exact = "Exact",
    }
    default Hashed
}

/// How machines are looked for whose ID the platform did not tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Discovery {
    /// Pause between two looks at the shared inventory.
    pub interval: Duration,
    /// When a machine that has not shown up counts as failed.
    pub timeout: Duration,
}

impl Default for Discovery {
    fn default() -> Self {
        Self { interval: Duration::from("10s"), timeout: Duration::from("15m") }
    }
}
