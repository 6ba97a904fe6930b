//! Images: what root disks are made from.

mod prepare;
mod source;

pub use prepare::*;
pub use source::*;

use crate::conditions;
use crate::duration::Duration;
use crate::quantity::Quantity;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where an image comes from and how it is prepared.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMImage",
    plural = "vmimages",
    namespaced,
    status = "VMImageStatus",
    derive = "PartialEq",
    doc = "An image that root disks are made from, with its source on each platform.",
    shortname = "vmimg",
    category = "sutler",
    printcolumn = r#"{"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Size", "type": "string", "jsonPath": ".status.size"}"#,
    printcolumn = r#"{"name": "Providers", "type": "string", "jsonPath": ".status.availableOn[*]"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Distribution", "type": "string", "jsonPath": ".spec.distribution.name", "description": "Operating system", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "What is happening", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMImageSpec {
    /// Where it is, per platform.
    pub source: ImageSource,
    /// How it is brought to a platform that lacks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<ImagePrepare>,
    /// The operating system in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ImageMetadata>,
}

/// The operating system in an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// Which one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<DistributionName>,
    /// Its family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<OsFamily>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub version: Option<String>,
    /// Its edition, such as server or minimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub variant: Option<String>,
    /// Its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
}

string_enum! {
    /// Operating systems.
    pub enum DistributionName {
        Ubuntu = "ubuntu",
        Centos = "centos",
        Rhel = "rhel",
        Fedora = "fedora",
        Debian = "debian",
        Suse = "suse",
        Windows = "windows",
        Freebsd = "freebsd",
        Coreos = "coreos",
        Other = "other",
    }
}

string_enum! {
    /// Families of operating systems.
    pub enum OsFamily {
        Linux = "linux",
        Windows = "windows",
        Bsd = "bsd",
        Other = "other",
    }
}

/// The kernel in an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kernel {
    /// Which one.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<KernelType>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

string_enum! {
    /// Kernels.
    pub enum KernelType {
        Linux = "linux",
        Windows = "windows",
        Freebsd = "freebsd",
        Other = "other",
    }
}

/// What people call an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageMetadata {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Its own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub version: Option<String>,
    /// The processor that it runs on.
    #[serde(default)]
    pub architecture: Architecture,
    /// Tags to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
    /// Notes for programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub annotations: BTreeMap<String, String>,
}

string_enum! {
    /// Processor architectures.
    pub enum Architecture {
        Amd64 = "amd64",
        Arm64 = "arm64",
        /// The same as amd64.
        X86_64 = "x86_64",
        /// The same as arm64.
        Aarch64 = "aarch64",
    }
    default Amd64
}

string_enum! {
    /// Formats of disk images.
    pub enum ImageFormat {
        Qcow2 = "qcow2",
        Raw = "raw",
        Vmdk = "vmdk",
        Vhd = "vhd",
        Vhdx = "vhdx",
        Iso = "iso",
        Ova = "ova",
        Ovf = "ovf",
    }
    default Qcow2
}

/// What is known of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMImageStatus {
    /// Whether it can be used somewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// How far its preparation has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ImagePhase>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Providers that have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_on: Vec<String>,
    /// What is known of it on each provider, by provider name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provider_status: BTreeMap<String, ImageOnProvider>,
    /// Its format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// Its checksum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How far the import has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_progress: Option<ImportProgress>,
    /// The platform's task for the preparation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare_task_ref: Option<String>,
    /// When it was last prepared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_prepare_time: Option<Time>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How far the preparation of an image has come.
    pub enum ImagePhase {
        Pending = "Pending",
        Downloading = "Downloading",
        Importing = "Importing",
        Converting = "Converting",
        Optimizing = "Optimizing",
        Ready = "Ready",
        Failed = "Failed",
    }
}

/// An image on one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOnProvider {
    /// Whether it can be used there.
    pub available: bool,
    /// Its ID there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its path there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its size there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// What is happening there, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}

/// How far an import has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportProgress {
    /// Share that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Bytes that have come over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transferred_bytes: Option<i64>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_rate: Option<i64>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// How long it will still take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<Duration>,
}
