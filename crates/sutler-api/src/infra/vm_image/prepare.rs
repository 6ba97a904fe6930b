//! How an image is brought to a platform that lacks it.

use crate::duration::Duration;
use crate::infra::ImageFormat;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an image is brought to a platform that lacks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImagePrepare {
    /// What to do when the platform lacks it.
    pub on_missing: OnMissing,
    /// Check what was downloaded.
    pub validate_checksum: bool,
    /// Bring it again even if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// How long it may take.
    pub timeout: Duration,
    /// Attempts after the first one.
    #[schemars(range(min = 0, max = 10))]
    pub retries: i32,
    /// Where and how it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<PrepareStorage>,
    /// What is done to it on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimization: Option<Optimization>,
}

impl Default for ImagePrepare {
    fn default() -> Self {
        Self {
            on_missing: OnMissing::Import,
            validate_checksum: true,
            force: None,
            timeout: Duration::from("30m"),
            retries: 3,
            storage: None,
            optimization: None,
        }
    }
}

string_enum! {
    /// What to do when a platform lacks an image.
    pub enum OnMissing {
        /// Bring it there.
        Import = "Import",
        /// Say so and stop.
        Fail = "Fail",
        /// Wait until somebody puts it there.
        Wait = "Wait",
    }
    default Import
}

/// Where and how an image is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrepareStorage {
    /// The format that it should have there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_format: Option<ImageFormat>,
    /// Store it compressed.
    #[serde(default)]
    pub compression: bool,
    /// Details for libvirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtStorage>,
    /// Details for vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VsphereStorage>,
}

/// How libvirt stores an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LibvirtStorage {
    /// Storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage_pool: Option<String>,
    /// When space is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_policy: Option<AllocationPolicy>,
    /// What is written ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preallocation: Option<Preallocation>,
}

string_enum! {
    /// When space is taken.
    pub enum AllocationPolicy {
        Eager = "eager",
        Lazy = "lazy",
    }
}

string_enum! {
    /// What is written ahead.
    pub enum Preallocation {
        Off = "off",
        Metadata = "metadata",
        Falloc = "falloc",
        Full = "full",
    }
}

/// How vSphere stores an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VsphereStorage {
    /// Datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub datastore: Option<String>,
    /// Inventory folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub folder: Option<String>,
    /// How its disks are backed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_type: Option<VsphereDiskType>,
    /// Thin disks, as diskType says it more exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thin_provisioned: Option<bool>,
}

string_enum! {
    /// How vSphere backs a disk.
    pub enum VsphereDiskType {
        Thin = "thin",
        Thick = "thick",
        EagerZeroedThick = "eagerzeroedthick",
    }
}

/// What is done to an image on the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Optimization {
    /// Convert it to this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convert_format: Option<ImageFormat>,
    /// Compress it.
    #[serde(default)]
    pub enable_compression: bool,
    /// Leave out what no file uses.
    #[serde(default)]
    pub remove_unused_space: bool,
    /// Send only what differs from the last version.
    #[serde(default)]
    pub enable_delta_sync: bool,
}
