//! Sizes: how much CPU, memory and disk a machine gets, and how it is built.

use crate::conditions;
use crate::infra::KeyProvider;
use crate::quantity::Quantity;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a size gives its machines.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMClass",
    plural = "vmclasses",
    namespaced,
    status = "VMClassStatus",
    derive = "PartialEq",
    doc = "A size that machines can have: CPU, memory, firmware and what goes with them.",
    shortname = "vmclass",
    category = "sutler",
    printcolumn = r#"{"name": "CPU", "type": "integer", "jsonPath": ".spec.cpu"}"#,
    printcolumn = r#"{"name": "Memory", "type": "string", "jsonPath": ".spec.memory"}"#,
    printcolumn = r#"{"name": "Firmware", "type": "string", "jsonPath": ".spec.firmware"}"#,
    printcolumn = r#"{"name": "Used By", "type": "integer", "jsonPath": ".status.usedByVMs"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Summary of all conditions", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMClassSpec {
    /// Virtual CPUs.
    #[schemars(range(min = 1, max = 128))]
    pub cpu: i32,
    /// Memory, such as 8Gi.
    pub memory: Quantity,
    /// How the machine boots.
    #[serde(default)]
    pub firmware: Firmware,
    /// The root disk, and disks that say nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_defaults: Option<DiskDefaults>,
    /// What is done about the platform's tools in the guest.
    #[serde(default)]
    pub guest_tools_policy: GuestToolsPolicy,
    /// Limits and guarantees on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<ResourceLimits>,
    /// Trade-offs of speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_profile: Option<PerformanceProfile>,
    /// Hardening of the virtual hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,
    /// Settings that are handed to the platform as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub extra_config: BTreeMap<String, String>,
}

string_enum! {
    /// How a machine boots.
    pub enum Firmware {
        Bios = "BIOS",
        Uefi = "UEFI",
        /// The same as UEFI.
        Efi = "EFI",
    }
    default Bios
}

/// The root disk, and disks that say nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskDefaults {
    /// How disks are backed.
    #[serde(rename = "type")]
    pub type_: StorageType,
    /// Size of the root disk.
    pub size: Quantity,
    /// I/O operations per second that a disk is limited to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 100000))]
    pub iops: Option<i32>,
    /// Storage class, datastore or pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
}

impl Default for DiskDefaults {
    fn default() -> Self {
        Self {
            type_: StorageType::Thin,
            size: Quantity::from("40Gi"),
            iops: None,
            storage_class: None,
        }
    }
}

string_enum! {
    /// How disks of a class are backed.
    pub enum StorageType {
        Thin = "thin",
        Thick = "thick",
        EagerZeroedThick = "eagerzeroedthick",
        Ssd = "ssd",
        Hdd = "hdd",
        Nvme = "nvme",
    }
    default Thin
}

string_enum! {
    /// What is done about the platform's tools in the guest.
    pub enum GuestToolsPolicy {
        Install = "install",
        Skip = "skip",
        Upgrade = "upgrade",
        Uninstall = "uninstall",
    }
    default Install
}

/// Limits and guarantees on the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// Most CPU that it may use, in MHz or percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 100000))]
    pub cpu_limit: Option<i32>,
    /// CPU that it is guaranteed, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100000))]
    pub cpu_reservation: Option<i32>,
    /// Weight against its neighbours when CPU is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000000))]
    pub cpu_shares: Option<i32>,
    /// Most memory that it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Quantity>,
    /// Memory that it is guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reservation: Option<Quantity>,
}

/// Trade-offs of speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerformanceProfile {
    /// How much it minds being late.
    #[serde(default)]
    pub latency_sensitivity: LatencySensitivity,
    /// How it shares cores with its neighbours.
    #[serde(default)]
    pub hyper_threading_policy: HyperThreadingPolicy,
    /// Whether CPUs can be added while it runs.
    #[serde(default)]
    pub cpu_hot_add_enabled: bool,
    /// Whether memory can be added while it runs.
    #[serde(default)]
    pub memory_hot_add_enabled: bool,
    /// Whether it can run machines of its own.
    #[serde(default)]
    pub nested_virtualization: bool,
    /// Whether Windows can protect itself with virtualisation.
    #[serde(default)]
    pub virtualization_based_security: bool,
}

string_enum! {
    /// How much a machine minds being late.
    pub enum LatencySensitivity {
        Low = "low",
        Normal = "normal",
        High = "high",
    }
    default Normal
}

string_enum! {
    /// How a machine shares cores with its neighbours.
    pub enum HyperThreadingPolicy {
        Auto = "auto",
        Prefer = "prefer",
        Avoid = "avoid",
        Require = "require",
    }
    default Auto
}

/// Hardening of the virtual hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityProfile {
    /// Boot only what is signed.
    #[serde(default)]
    pub secure_boot: bool,
    /// Add a trusted platform module.
    #[serde(default)]
    pub tpm_enabled: bool,
    /// Which version of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm_version: Option<TpmVersion>,
    /// Add an I/O memory management unit.
    #[serde(default)]
    pub vtd_enabled: bool,
    /// Encryption of the machine's files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_policy: Option<EncryptionPolicy>,
}

string_enum! {
    /// Versions of the trusted platform module.
    pub enum TpmVersion {
        V1_2 = "1.2",
        V2 = "2",
        /// The same as 2.
        V2_0 = "2.0",
    }
}

/// Encryption of a machine's files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EncryptionPolicy {
    /// Encrypt where the platform can.
    #[serde(default)]
    pub enabled: bool,
    /// Refuse to create the machine where it cannot.
    #[serde(default)]
    pub require_encryption: bool,
    /// Who keeps the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_provider: Option<KeyProvider>,
}

/// What is known of a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMClassStatus {
    /// Machines that have it.
    #[serde(rename = "usedByVMs", skip_serializing_if = "Option::is_none")]
    pub used_by_vms: Option<i32>,
    /// Providers that can give it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_providers: Vec<String>,
    /// What each provider says of it, by provider name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub validation_results: BTreeMap<String, ClassValidation>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What a provider says of a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassValidation {
    /// Whether it can give it.
    pub valid: bool,
    /// Why, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it will do differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// When it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_validated: Option<Time>,
}
