//! A domain as libvirt tells of it.

use std::collections::BTreeMap;

use roxmltree::Node;
use sutler_provider::Error;

use crate::{
    mark::{Mark, NAMESPACE},
    xml::{self, Element, child, element, text},
};

/// A domain that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) uuid: String,
    /// Whether it runs.
    pub(crate) runs: bool,
    pub(crate) cpu: Option<u32>,
    pub(crate) max_cpu: Option<u32>,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) max_memory_mib: Option<u64>,
    pub(crate) disks: Vec<SeenDisk>,
    pub(crate) cards: Vec<Card>,
    /// Whether its guest's agent is there to be asked.
    pub(crate) agent: bool,
    /// Where the first-boot data is.
    pub(crate) seed: Option<String>,
    /// Whether it boots by UEFI.
    pub(crate) uefi: bool,
    /// Where its screen can be seen.
    pub(crate) vnc: Option<String>,
    pub(crate) mark: Mark,
}

/// A disk of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SeenDisk {
    pub(crate) device: String,
    pub(crate) bus: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) format: Option<String>,
    /// What it is an overlay of.
    pub(crate) backing: Option<String>,
}

/// A network card of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) mac: String,
    /// The network or bridge that it is plugged into.
    pub(crate) network: Option<String>,
    /// Whether that is a network of libvirt.
    pub(crate) managed: bool,
    /// Its end on the host.
    pub(crate) device: Option<String>,
}

impl Card {
    /// As much of it as tells libvirt which card is meant.
    pub(crate) fn write(&self) -> Element {
        let kind = match (self.managed, &self.network) {
            (true, _) => "network",
            (false, Some(_)) => "bridge",
            (false, None) => "user",
        };
        element("interface")
            .with("type", kind)
            .child(element("mac").with("address", &self.mac))
            .children(self.network.as_ref().map(|name| element("source").with(kind, name)))
    }
}

impl Seen {
    /// Reads what `virDomainGetXMLDesc` tells.
    pub(crate) fn read(xml: &str) -> Result<Self, Error> {
        let document = xml::parse(xml)?;
        let domain = document.root_element();
        let mark = child(domain, "metadata")
            .and_then(|metadata| {
                metadata.children().find(|node| node.has_tag_name((NAMESPACE, "machine")))
            })
            .map(Mark::read)
            .unwrap_or_default();
        let vcpu = child(domain, "vcpu");
        let max_cpu = vcpu.and_then(|vcpu| vcpu.text()?.trim().parse().ok());
        let cpu = vcpu.and_then(|vcpu| vcpu.attribute("current")?.parse().ok()).or(max_cpu);
        let devices = child(domain, "devices");
        let all = |name: &'static str| {
            let devices = devices.into_iter().flat_map(|devices| devices.children());
            devices.filter(move |node| node.has_tag_name(name))
        };
        let is = |node: &Node<'_, '_>, kind| node.attribute("device").unwrap_or("disk") == kind;
        Ok(Self {
            name: text(domain, "name").unwrap_or_default(),
            uuid: text(domain, "uuid").unwrap_or_default(),
            runs: domain.attribute("id").is_some(),
            cpu,
            max_cpu,
            memory_mib: child(domain, "currentMemory").or(child(domain, "memory")).and_then(mib),
            max_memory_mib: child(domain, "memory").and_then(mib),
            disks: all("disk").filter(|node| is(node, "disk")).map(disk).collect(),
            seed: all("disk").find(|node| is(node, "cdrom")).and_then(|node| disk(node).path),
            cards: all("interface").map(card).collect(),
            agent: all("channel").any(is_agent),
            uefi: child(domain, "os").is_some_and(is_uefi),
            vnc: all("graphics").find_map(vnc),
            mark,
        })
    }

    /// The name that a disk has in its record, or its device where nothing is noted.
    pub(crate) fn disk_name<'a>(&'a self, disk: &'a SeenDisk) -> &'a str {
        self.mark.disks.get(&disk.device).map_or(disk.device.as_str(), |mark| mark.name.as_str())
    }

    /// The networks of libvirt that its cards are plugged into.
    pub(crate) fn networks(&self) -> impl Iterator<Item = String> {
        let managed = self.cards.iter().filter(|card| card.managed);
        managed.filter_map(|card| card.network.clone())
    }

    /// Disks by the names that they have in the record.
    pub(crate) fn disks_by_name(&self) -> BTreeMap<&str, &SeenDisk> {
        self.disks.iter().map(|disk| (self.disk_name(disk), disk)).collect()
    }
}

fn attribute(node: Node<'_, '_>, name: &str, attribute: &str) -> Option<String> {
    child(node, name)?.attribute(attribute).map(str::to_owned)
}

/// An amount of memory in whole MiB; libvirt counts in KiB where it does not say.
fn mib(node: Node<'_, '_>) -> Option<u64> {
    let amount: u64 = node.text()?.trim().parse().ok()?;
    let bytes = match node.attribute("unit").unwrap_or("KiB") {
        "b" | "bytes" => amount,
        "KB" => amount.checked_mul(1_000)?,
        "k" | "KiB" => amount.checked_mul(1 << 10)?,
        "MB" => amount.checked_mul(1_000_000)?,
        "M" | "MiB" => amount.checked_mul(1 << 20)?,
        "GB" => amount.checked_mul(1_000_000_000)?,
        "G" | "GiB" => amount.checked_mul(1 << 30)?,
        "TB" => amount.checked_mul(1_000_000_000_000)?,
        "T" | "TiB" => amount.checked_mul(1 << 40)?,
        _ => return None,
    };
    Some(bytes >> 20)
}

fn disk(node: Node<'_, '_>) -> SeenDisk {
    let source = child(node, "source");
    let path = source.and_then(|source| {
        ["file", "dev", "name", "volume"].iter().find_map(|name| source.attribute(*name))
    });
    let backing = child(node, "backingStore");
    SeenDisk {
        device: attribute(node, "target", "dev").unwrap_or_default(),
        bus: attribute(node, "target", "bus"),
        path: path.map(str::to_owned),
        format: attribute(node, "driver", "type"),
        backing: backing.and_then(|backing| attribute(backing, "source", "file")),
    }
}

fn card(node: Node<'_, '_>) -> Card {
    let source = child(node, "source");
    let network = source.and_then(|source| {
        ["network", "bridge", "dev"].iter().find_map(|name| source.attribute(*name))
    });
    Card {
        mac: attribute(node, "mac", "address").unwrap_or_default().to_lowercase(),
        network: network.map(str::to_owned),
        managed: node.attribute("type") == Some("network"),
        device: attribute(node, "target", "dev"),
    }
}

fn is_uefi(os: Node<'_, '_>) -> bool {
    let loader = child(os, "loader").and_then(|loader| loader.attribute("type"));
    os.attribute("firmware") == Some("efi") || loader == Some("pflash")
}

fn is_agent(channel: Node<'_, '_>) -> bool {
    child(channel, "target").is_some_and(|target| {
        target.attribute("name") == Some("org.qemu.guest_agent.0")
            && target.attribute("state") == Some("connected")
    })
}

/// The address of a screen; a port of -1 is none yet.
fn vnc(node: Node<'_, '_>) -> Option<String> {
    let port = node.attribute("port").filter(|port| *port != "-1")?;
    let listen = node.attribute("listen").unwrap_or("127.0.0.1");
    Some(format!("{}://{listen}:{port}", node.attribute("type").unwrap_or("vnc")))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        domain::{Accel, Cpu, DiskDef, Domain, Firmware, NicDef, Source},
        mark::DiskMark,
    };

    fn domain() -> Domain {
        Domain {
            uuid: Uuid::from_u128(7),
            name: "web-1a2b3".to_owned(),
            accel: Accel::Tcg,
            arch: "x86_64".to_owned(),
            machine: "q35".to_owned(),
            firmware: Firmware::Bios,
            cpu: Cpu { count: 2, most: 4, nested: false },
            memory_mib: 1024,
            max_memory_mib: 2048,
            disks: vec![DiskDef {
                device: "vda".to_owned(),
                bus: "virtio".to_owned(),
                path: "/pool/web.qcow2".to_owned(),
                format: "qcow2".to_owned(),
                cache: None,
                iops: Some(500),
                serial: "root".to_owned(),
            }],
            nics: vec![NicDef {
                mac: "52:54:00:00:00:01".to_owned(),
                source: Source::Network("default".to_owned()),
                model: "virtio".to_owned(),
                vlan: Some(12),
                mtu: None,
            }],
            seed: Some("/pool/web.iso".to_owned()),
            ignition: None,
            mark: Mark {
                disks: BTreeMap::from([(
                    "vda".to_owned(),
                    DiskMark { name: "root".to_owned(), kept: None },
                )]),
                ..Mark::default()
            },
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let seen = Seen::read(&domain().write().to_string()).unwrap();
        assert_eq!((seen.name.as_str(), seen.cpu, seen.max_cpu), ("web-1a2b3", Some(2), Some(4)));
        assert_eq!((seen.memory_mib, seen.max_memory_mib), (Some(1024), Some(2048)));
        assert_eq!(seen.uuid, Uuid::from_u128(7).to_string());
        assert_eq!(seen.seed.as_deref(), Some("/pool/web.iso"));
        assert_eq!(seen.disks_by_name()["root"].path.as_deref(), Some("/pool/web.qcow2"));
        assert_eq!(seen.cards[0].network.as_deref(), Some("default"));
        assert_eq!(seen.mark, domain().mark);
        assert_eq!(seen.vnc, None);
        let uefi = Domain { firmware: Firmware::Uefi { secure: false }, ..domain() };
        let seen_uefi = Seen::read(&uefi.write().to_string()).unwrap();
        assert!(seen_uefi.uefi && !seen.uefi);
    }

    #[test]
    fn scsi_disks_are_targets_of_one_controller() {
        let target = |device: &str, bus: &str| {
            let disk = DiskDef {
                device: device.to_owned(),
                bus: bus.to_owned(),
                ..domain().disks[0].clone()
            };
            let text = disk.write().to_string();
            let document = xml::parse(&text).unwrap();
            let address = child(document.root_element(), "address");
            address.map(|address| address.attribute("target").unwrap().to_owned())
        };
        assert_eq!(target("sdb", "scsi").as_deref(), Some("1"));
        assert_eq!(target("sdh", "scsi").as_deref(), Some("7"));
        assert_eq!(target("sdaa", "scsi").as_deref(), Some("26"));
        assert_eq!((target("sdb", "sata"), target("vdb", "virtio")), (None, None));
    }

    #[test]
    fn what_others_wrote_can_be_read() {
        let seen = Seen::read(
            "<domain type='kvm' id='3'><name>old</name><uuid>u</uuid>
               <memory unit='KiB'>1048576</memory><vcpu>1</vcpu>
               <devices>
                 <disk type='block'><source dev='/dev/vg/old'/><target dev='sda'/></disk>
                 <interface type='bridge'><mac address='52:54:00:AA:00:01'/><source bridge='br0'/></interface>
                 <graphics type='spice' port='5901' listen='0.0.0.0'/>
               </devices></domain>",
        )
        .unwrap();
        assert_eq!((seen.memory_mib, seen.cpu), (Some(1024), Some(1)));
        assert!(seen.runs);
        assert_eq!(seen.disk_name(&seen.disks[0]), "sda");
        assert_eq!(seen.cards[0].mac, "52:54:00:aa:00:01");
        assert_eq!(seen.vnc.as_deref(), Some("spice://0.0.0.0:5901"));
        assert_eq!(seen.mark, Mark::default());
        assert!(Seen::read("<domain>").is_err());
    }
}
