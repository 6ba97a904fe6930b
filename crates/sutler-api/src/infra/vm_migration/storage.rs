//! Where the disks of a moving machine stay on the way.

use crate::patterns;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where disks stay on the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type != 'nfs' || has(self.nfs)",
        "message": "type nfs needs nfs: say which server and export",
        "reason": "FieldValueRequired",
        "fieldPath": ".nfs",
    },
    {
        "rule": "self.type != 's3' || has(self.s3)",
        "message": "type s3 needs s3: say which bucket and credentials",
        "reason": "FieldValueRequired",
        "fieldPath": ".s3",
    },
]))]
pub struct MigrationStorage {
    /// What kind of storage.
    #[serde(rename = "type", default)]
    pub type_: StorageKind,
    /// Which way the data takes.
    #[serde(default)]
    pub transfer_mode: TransferMode,
    /// A volume of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PvcStorage>,
    /// An NFS export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nfs: Option<NfsStorage>,
    /// A bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Storage>,
}

string_enum! {
    /// Kinds of storage on the way.
    pub enum StorageKind {
        Pvc = "pvc",
        Nfs = "nfs",
        S3 = "s3",
    }
    default Pvc
}

string_enum! {
    /// Which way the data takes.
    pub enum TransferMode {
        /// Whichever works.
        Auto = "auto",
        /// Through the storage.
        Relay = "relay",
        /// From provider to provider.
        Direct = "direct",
    }
    default Auto
}

/// A volume of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PvcStorage {
    /// Claim that is used; one is made when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Size of the claim that is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::STORAGE_SIZE))]
    pub size: Option<String>,
    /// Its storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// How it may be mounted.
    pub access_mode: AccessMode,
    /// Where providers mount it.
    pub mount_path: String,
}

impl Default for PvcStorage {
    fn default() -> Self {
        Self {
            name: None,
            size: None,
            storage_class_name: None,
            access_mode: AccessMode::ReadWriteMany,
            mount_path: "/mnt/migration-storage".to_owned(),
        }
    }
}

string_enum! {
    /// How a volume may be mounted.
    pub enum AccessMode {
        ReadWriteOnce = "ReadWriteOnce",
        ReadWriteMany = "ReadWriteMany",
        ReadOnlyMany = "ReadOnlyMany",
    }
    default ReadWriteMany
}

/// An NFS export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NfsStorage {
    /// The server.
    #[schemars(length(max = 253))]
    pub server: String,
    /// The export.
    #[schemars(length(max = 4096))]
    pub export: String,
    /// Folder in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
    /// User ID that files get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4294967295_i64))]
    pub uid: Option<i64>,
    /// Group ID that files get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4294967295_i64))]
    pub gid: Option<i64>,
    /// Mount it for reading only.
    #[serde(default)]
    pub read_only: bool,
}

/// A bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Storage {
    /// The bucket.
    pub bucket: String,
    /// Secret with accessKeyID and secretAccessKey.
    pub credentials_secret_ref: ObjectRef,
    /// Server, where it is not Amazon's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 263))]
    pub endpoint: Option<String>,
    /// Region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Folder in the bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Put the bucket into the path, not the host name.
    #[serde(default)]
    pub use_path_style: bool,
}
