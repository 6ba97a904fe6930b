//! A virtual machine, as wanted.

mod lifecycle;
mod status;

pub use lifecycle::*;
pub use status::*;

use crate::crd::PathRule;
use crate::infra::DeletionPolicy;
use crate::infra::DiskSpec;
use crate::infra::MachineResources;
use crate::infra::MetaData;
use crate::infra::NetworkRef;
use crate::infra::UserData;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine as it is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VirtualMachine",
    plural = "virtualmachines",
    namespaced,
    status = "VirtualMachineStatus",
    derive = "PartialEq",
    doc = "One virtual machine on one provider. Its scale subresource is its number of virtual CPUs.",
    shortname = "vm",
    category = "sutler",
    scale(
        spec_replicas_path = ".spec.resources.cpu",
        status_replicas_path = ".status.currentResources.cpu"
    ),
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Provider", "type": "string", "jsonPath": ".spec.providerRef.name"}"#,
    printcolumn = r#"{"name": "Class", "type": "string", "jsonPath": ".spec.classRef.name"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.imageRef.name"}"#,
    printcolumn = r#"{"name": "IPs", "type": "string", "jsonPath": ".status.ips[*]"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Power", "type": "string", "jsonPath": ".status.powerState", "description": "Whether it is on", "priority": 1}"#,
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".status.host", "description": "Where it runs", "priority": 1}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "description": "Summary of all conditions", "priority": 1}"#,
    printcolumn = r#"{"name": "ID", "type": "string", "jsonPath": ".status.id", "description": "ID on the platform", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.classRef) || has(self.managedNode) || has(self.templateRef)",
        "message": "classRef is required: name the VMClass that sizes the machine (only a managedNode or a machine from a templateRef goes without)",
        "reason": "FieldValueRequired",
        "fieldPath": ".classRef",
    },
    {
        "rule": "!(has(self.imageRef) && has(self.importedDisk))",
        "message": "set either imageRef or importedDisk: a machine boots from one of them",
        "reason": "FieldValueForbidden",
        "fieldPath": ".importedDisk",
    },
    {
        "rule": "has(self.imageRef) || has(self.importedDisk) || has(self.managedNode) || has(self.templateRef) || has(self.cloneFrom)",
        "message": "imageRef or importedDisk is required: say what the machine boots from (only a managedNode, a copy by cloneFrom or a machine from a templateRef goes without)",
        "reason": "FieldValueRequired",
        "fieldPath": ".imageRef",
    },
    {
        "rule": "!(has(self.managedNode) && has(self.importedDisk))",
        "message": "a managedNode is installed by its platform: remove importedDisk",
        "reason": "FieldValueForbidden",
        "fieldPath": ".importedDisk",
    },
    {
        "rule": "!has(self.cloneFrom) || !(has(self.imageRef) || has(self.importedDisk) || has(self.managedNode) || has(self.templateRef))",
        "message": "a copy has the disks of what it is copied from: remove imageRef, importedDisk, managedNode and templateRef, or cloneFrom",
        "reason": "FieldValueForbidden",
        "fieldPath": ".cloneFrom",
    },
]))]
pub struct VirtualMachineSpec {
    /// The Provider that the machine lives on; it cannot change.
    pub provider_ref: ObjectRef,
    /// The VMClass that gives CPU, memory and firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ObjectRef>,
    /// The VMImage that the root disk is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
    /// A disk on the platform that becomes the root disk, instead of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_disk: Option<ImportedDisk>,
    /// Another machine that this one is a copy of, instead of an image. It matters until the copy is
    /// made; a VMClone fills it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone_from: Option<CloneFrom>,
    /// The VMTemplate that fills in what is not said here: image, class, commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<ObjectRef>,
    /// The machine is a node of a managed Kubernetes group, which its platform sizes and installs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_node: Option<ManagedNode>,
    /// Overrides of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// Disks besides the root disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub disks: Vec<DiskSpec>,
    /// Network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub networks: Vec<NetworkRef>,
    /// What the guest is given on its first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserData>,
    /// Metadata for the guest's first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,
    /// Whether it should be on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// Where on the platform it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// A VMPlacementPolicy that decides where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_ref: Option<LocalObjectRef>,
    /// What to do with snapshots of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotOperation>,
    /// What to do after its start and before its stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// What becomes of the machine when this record is deleted; absent means Delete, and Retain for
    /// one that was adopted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Tags that it carries on the platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub tags: Vec<String>,
}

string_enum! {
    /// Power of a machine.
    pub enum PowerState {
        /// Running.
        On = "On",
        /// Switched off at once.
        Off = "Off",
        /// Shut down by its guest, then off.
        OffGraceful = "OffGraceful",
    }
}

/// What a machine is copied from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneFrom {
    /// The machine, on the same Provider.
    pub vm_ref: LocalObjectRef,
    /// A VMSnapshot of it; its present state when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<LocalObjectRef>,
    /// Whether the copy's disks hold only what differs from their source.
    #[serde(default)]
    pub linked: bool,
    /// What the guest is to call itself; the record's name when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::HOSTNAME), length(max = 255))]
    pub hostname: Option<String>,
    /// The domain behind the guest's host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub domain: Option<String>,
    /// The guest's time zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub time_zone: Option<String>,
}

/// A disk that is on the platform already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedDisk {
    /// Its ID there.
    #[serde(rename = "diskID")]
    #[schemars(length(min = 1, max = 253))]
    pub disk_id: String,
    /// Its path there; the provider finds it by ID when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its format.
    #[serde(default)]
    pub format: ImportedDiskFormat,
    /// Where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ImportedDiskSource>,
    /// The VMMigration that brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_ref: Option<LocalObjectRef>,
    /// The size that it should have.
    #[serde(rename = "sizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub size_gib: Option<i32>,
}

string_enum! {
    /// Formats of imported disks.
    pub enum ImportedDiskFormat {
        Qcow2 = "qcow2",
        Vmdk = "vmdk",
        Raw = "raw",
        Vdi = "vdi",
        Vhdx = "vhdx",
    }
    default Qcow2
}

string_enum! {
    /// Where an imported disk came from.
    pub enum ImportedDiskSource {
        Migration = "migration",
        Clone = "clone",
        Import = "import",
        Snapshot = "snapshot",
        /// Somebody put it there.
        Manual = "manual",
    }
}

/// A node of a managed Kubernetes group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNode {
    /// The cluster's ID on the platform.
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// The group's ID within the cluster.
    #[schemars(length(min = 1, max = 253))]
    pub group: String,
    /// The size's ID, where the group leaves a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub size: Option<String>,
}

/// Where on the platform a machine should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Compute cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Datastore or storage pool; it wins over storagePod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Datastore cluster that picks the datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_pod: Option<String>,
    /// Inventory folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Resource pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<String>,
    /// Region or data centre; the Provider's default where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// What to do with snapshots of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotOperation {
    /// The VMSnapshot that the machine goes back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revert_to_ref: Option<LocalObjectRef>,
}

/// Rules for a machine that exists; in a template of a set these things may change.
pub(crate) const UPDATE_RULES: &[PathRule] = &[
    PathRule {
        path: &["spec", "providerRef"],
        rule: "self == oldSelf",
        message: "providerRef cannot change: create a VMMigration to move the machine",
        reason: "FieldValueInvalid",
    },
    PathRule {
        path: &["spec", "disks", "[]", "sizeGiB"],
        rule: "self >= oldSelf",
        message: "a disk cannot shrink: give it at least the size that it has, or remove it and \
                  add another one",
        reason: "FieldValueInvalid",
    },
];
