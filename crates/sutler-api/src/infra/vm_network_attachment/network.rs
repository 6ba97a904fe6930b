//! A network as each platform describes it.

use crate::free_form::FreeForm;
use crate::patterns;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A network as each platform describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkConfig {
    /// How it is connected to the world.
    #[serde(rename = "type")]
    pub type_: NetworkType,
    /// Largest packet in bytes.
    #[schemars(range(min = 68, max = 9000))]
    pub mtu: i32,
    /// The network in vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VsphereNetwork>,
    /// The network in libvirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtNetwork>,
    /// The network in Proxmox VE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxNetwork>,
    /// The network in the words of a provider that is not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<FreeForm>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            type_: NetworkType::Bridged,
            mtu: 1500,
            vsphere: None,
            libvirt: None,
            proxmox: None,
            custom: None,
        }
    }
}

string_enum! {
    /// How a network is connected to the world.
    pub enum NetworkType {
        /// Part of the host's own network.
        Bridged = "bridged",
        /// Behind the host's address.
        Nat = "nat",
        /// Not at all.
        Isolated = "isolated",
        /// With the host alone.
        HostOnly = "host-only",
        /// By means outside the platform.
        External = "external",
    }
    default Bridged
}

/// A network in vSphere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VsphereNetwork {
    /// Port group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub portgroup: Option<String>,
    /// Model of the network card.
    #[serde(default)]
    pub adapter_type: VsphereAdapter,
    /// PCI slot of the card, so that the guest names it the same everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 32, max = 1024))]
    pub pci_slot_number: Option<i32>,
    /// The distributed switch of the port group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed_switch: Option<DistributedSwitch>,
    /// VLAN of the port group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// What the port group lets through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<PortgroupSecurity>,
    /// How traffic is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_shaping: Option<TrafficShaping>,
}

string_enum! {
    /// Network cards of vSphere.
    pub enum VsphereAdapter {
        Vmxnet3 = "vmxnet3",
        E1000 = "e1000",
        E1000e = "e1000e",
    }
    default Vmxnet3
}

/// A distributed switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributedSwitch {
    /// Its name.
    #[schemars(length(max = 255))]
    pub name: String,
    /// Its UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// How its ports are bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portgroup_type: Option<PortgroupType>,
}

string_enum! {
    /// How the ports of a port group are bound.
    pub enum PortgroupType {
        Ephemeral = "ephemeral",
        Distributed = "distributed",
    }
}

/// A VLAN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vlan {
    /// How frames are tagged.
    #[serde(rename = "type", default)]
    pub type_: VlanType,
    /// The tag, for type vlan.
    #[serde(rename = "vlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan_id: Option<i32>,
    /// The tags that pass, for type trunk.
    #[serde(rename = "trunkVlanIDs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub trunk_vlan_ids: Vec<i32>,
    /// The primary tag, for type pvlan.
    #[serde(rename = "primaryVlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub primary_vlan_id: Option<i32>,
    /// The secondary tag, for type pvlan.
    #[serde(rename = "secondaryVlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub secondary_vlan_id: Option<i32>,
}

string_enum! {
    /// How frames are tagged.
    pub enum VlanType {
        None = "none",
        Vlan = "vlan",
        Pvlan = "pvlan",
        Trunk = "trunk",
    }
    default None
}

/// What a port group lets through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortgroupSecurity {
    /// Cards may listen to everything.
    pub allow_promiscuous: bool,
    /// Guests may change their hardware address.
    #[serde(rename = "allowMACChanges")]
    pub allow_mac_changes: bool,
    /// Guests may send from another hardware address.
    pub allow_forged_transmits: bool,
}

impl Default for PortgroupSecurity {
    fn default() -> Self {
        Self { allow_promiscuous: false, allow_mac_changes: true, allow_forged_transmits: true }
    }
}

/// How traffic is shaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficShaping {
    /// Whether it is.
    #[serde(default)]
    pub enabled: bool,
    /// Bits per second in the long run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub average_bandwidth: Option<i64>,
    /// Bits per second for a short time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub peak_bandwidth: Option<i64>,
    /// Bytes that may go at the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024))]
    pub burst_size: Option<i64>,
}

/// A network in libvirt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LibvirtNetwork {
    /// Name of a libvirt network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub network_name: Option<String>,
    /// A bridge on the host, instead of a libvirt network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge: Option<Bridge>,
    /// Model of the network card.
    #[serde(default)]
    pub model: LibvirtNetModel,
    /// How the host moves packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<NetworkDriver>,
    /// A filter before the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_ref: Option<NetworkFilter>,
}

string_enum! {
    /// Network cards of QEMU.
    pub enum LibvirtNetModel {
        Virtio = "virtio",
        E1000 = "e1000",
        E1000e = "e1000e",
        Rtl8139 = "rtl8139",
        Pcnet = "pcnet",
        Ne2kPci = "ne2k_pci",
    }
    default Virtio
}

/// A bridge on the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bridge {
    /// Its name.
    #[schemars(length(max = 15))]
    pub name: String,
    /// Whether it runs the spanning tree protocol.
    #[serde(default)]
    pub stp: bool,
    /// Its forwarding delay in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 30))]
    pub delay: Option<i32>,
}

/// How the host moves packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkDriver {
    /// Which driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<DriverName>,
    /// Queues of the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub queues: Option<i32>,
    /// Who sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_mode: Option<TxMode>,
    /// Whether the guest's notifications are handled outside the emulator's main loop.
    #[serde(rename = "ioEventFD", skip_serializing_if = "Option::is_none")]
    pub io_event_fd: Option<bool>,
    /// Whether notifications are suppressed while the queue is busy.
    #[serde(rename = "eventIDX", skip_serializing_if = "Option::is_none")]
    pub event_idx: Option<bool>,
}

string_enum! {
    /// Drivers that move packets.
    pub enum DriverName {
        Kvm = "kvm",
        Vfio = "vfio",
        Uio = "uio",
    }
}

string_enum! {
    /// Who sends packets.
    pub enum TxMode {
        Iothread = "iothread",
        Timer = "timer",
    }
}

/// A filter of libvirt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFilter {
    /// Its name.
    #[schemars(length(max = 255))]
    pub filter: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub parameters: BTreeMap<String, String>,
}

/// A network in Proxmox VE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxmoxNetwork {
    /// Bridge, such as vmbr0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::PROXMOX_BRIDGE), length(max = 15))]
    pub bridge: Option<String>,
    /// Model of the network card.
    #[serde(default)]
    pub model: ProxmoxNetModel,
    /// VLAN tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan_tag: Option<i32>,
    /// Whether Proxmox VE's firewall is before the card.
    #[serde(default)]
    pub firewall: bool,
    /// Megabytes per second at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rate_limit: Option<i32>,
    /// Largest packet in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65520))]
    pub mtu: Option<i32>,
}

string_enum! {
    /// Network cards of Proxmox VE.
    pub enum ProxmoxNetModel {
        Virtio = "virtio",
        E1000 = "e1000",
        Rtl8139 = "rtl8139",
        Vmxnet3 = "vmxnet3",
    }
    default Virtio
}
