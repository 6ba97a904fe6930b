//! Pieces of a machine that several kinds describe: its size, disks, network cards and first-boot
//! data.

use crate::duration::Duration;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the host a machine gets; a field that is set here overrides the class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineResources {
    /// Virtual CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub cpu: Option<i32>,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 128, max = 1048576))]
    pub memory_mib: Option<i64>,
    /// Graphics cards that are handed to the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuRequest>,
}

/// Graphics cards for one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuRequest {
    /// How many cards.
    #[schemars(range(min = 1, max = 8))]
    pub count: i32,
    /// Which model, in the provider's own naming.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::GPU_TYPE))]
    pub type_: Option<String>,
    /// Card memory in MiB that is needed at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 512))]
    pub memory: Option<i64>,
}

/// One disk besides the root disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskSpec {
    /// Name of the disk, unique within the machine.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(max = 63))]
    pub name: String,
    /// Size in GiB; it can grow later, never shrink.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 1, max = 65536))]
    pub size_gib: i32,
    /// How the disk is backed.
    #[serde(rename = "type", default)]
    pub type_: DiskType,
    /// Whether growing needs the machine to be off.
    #[serde(default)]
    pub expand_policy: ExpandPolicy,
    /// Storage class, datastore or pool that the disk is made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// The SCSI controller it hangs on, where the platform has a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scsi: Option<ScsiController>,
    /// The VMDisk that this is, in the same namespace: it outlives the machine. It is made with the
    /// first machine that names it, and one that is larger than `sizeGiB` stays as large as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_ref: Option<LocalObjectRef>,
}

string_enum! {
    /// How a disk is backed.
    pub enum DiskType {
        /// Grows as it is written.
        Thin = "thin",
        /// Space is reserved at once.
        Thick = "thick",
        /// Space is reserved and zeroed at once.
        EagerZeroedThick = "eagerzeroedthick",
        /// Any disk on solid-state storage.
        Ssd = "ssd",
        /// Any disk on rotating storage.
        Hdd = "hdd",
    }
    default Thin
}

string_enum! {
    /// When a disk may grow.
    pub enum ExpandPolicy {
        /// While the machine runs.
        Online = "Online",
        /// Only while it is off.
        Offline = "Offline",
    }
    default Offline
}

/// A SCSI controller and how its bus is shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScsiController {
    /// Bus number; the first free one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3))]
    pub controller: Option<i32>,
    /// Controller model.
    #[serde(default)]
    pub controller_type: ScsiControllerType,
    /// Who else may use the bus.
    #[serde(default)]
    pub shared_bus: ScsiBusSharing,
}

string_enum! {
    /// SCSI controller models.
    pub enum ScsiControllerType {
        LsiLogic = "lsilogic",
        BusLogic = "buslogic",
        LsiLogicSas = "lsilogic-sas",
        /// Paravirtual.
        Pvscsi = "pvscsi",
    }
    default Pvscsi
}

string_enum! {
    /// Sharing of a SCSI bus.
    pub enum ScsiBusSharing {
        /// One machine alone.
        NoSharing = "noSharing",
        /// Machines on the same host.
        VirtualSharing = "virtualSharing",
        /// Machines on any host.
        PhysicalSharing = "physicalSharing",
    }
    default NoSharing
}

/// One network card of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRef {
    /// Name of the card, unique within the machine.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(max = 63))]
    pub name: String,
    /// The VMNetworkAttachment it is plugged into; the template's own network when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_ref: Option<ObjectRef>,
    /// Static IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IPV4))]
    pub ip_address: Option<String>,
    /// Length of the network prefix that goes with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub prefix: Option<i32>,
    /// Default gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IPV4))]
    pub gateway: Option<String>,
    /// Name servers, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// Hardware address, if it must be a certain one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::MAC))]
    pub mac_address: Option<String>,
}

/// What the guest is given on its first boot: cloud-init or Ignition, never both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!(has(self.cloudInit) && has(self.ignition))",
        "message": "set either cloudInit or ignition: a guest reads only one of them",
        "reason": "FieldValueForbidden",
        "fieldPath": ".ignition",
    },
]))]
pub struct UserData {
    /// Data for cloud-init; inline data and a Secret are merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<GuestData>,
    /// Configuration for Ignition (Fedora CoreOS, Flatcar).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition: Option<GuestData>,
}

/// Metadata that cloud-init reads besides the user data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaData {
    /// Metadata document; inline data and a Secret are merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<GuestData>,
}

/// A document for the guest, written here or kept in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestData {
    /// The document itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// A Secret in the same namespace that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectRef>,
}

string_enum! {
    /// The stage of delivery that an object belongs to.
    pub enum Environment {
        Dev = "dev",
        Staging = "staging",
        Prod = "prod",
        Test = "test",
        Qa = "qa",
        Uat = "uat",
    }
}

string_enum! {
    /// Who keeps encryption keys.
    pub enum KeyProvider {
        /// The platform's own key provider.
        Standard = "standard",
        /// A hardware security module.
        Hardware = "hardware",
        /// An outside key management service.
        External = "external",
    }
}

/// How a failed attempt is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryPolicy {
    /// Attempts after the first one.
    #[schemars(range(min = 0, max = 10))]
    pub max_retries: i32,
    /// Pause before the first repetition.
    pub retry_delay: Duration,
    /// Factor by which the pause grows each time.
    #[schemars(range(min = 1, max = 10))]
    pub backoff_multiplier: i32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, retry_delay: Duration::from("5m"), backoff_multiplier: 2 }
    }
}

string_enum! {
    /// What becomes of the machine when its record is deleted.
    pub enum DeletionPolicy {
        /// The machine is destroyed and its absence observed.
        Delete = "Delete",
        /// The machine is left as it is and forgotten.
        Retain = "Retain",
    }
}
