//! A domain that is to be defined.

use uuid::Uuid;

use crate::{
    mark::Mark,
    xml::{Element, element},
};

/// A machine as libvirt is to have it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Domain {
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) accel: Accel,
    pub(crate) arch: String,
    /// The machine type, such as `q35`.
    pub(crate) machine: String,
    pub(crate) firmware: Firmware,
    pub(crate) cpu: Cpu,
    pub(crate) memory_mib: u64,
    /// Memory that it can have without being switched off.
    pub(crate) max_memory_mib: u64,
    pub(crate) disks: Vec<DiskDef>,
    pub(crate) nics: Vec<NicDef>,
    /// The volume with first-boot data.
    pub(crate) seed: Option<String>,
    /// The file with an Ignition config.
    pub(crate) ignition: Option<String>,
    pub(crate) mark: Mark,
}

/// Ports of a q35: its own devices take some, and the rest is for what is plugged in later.
const PORTS: usize = 16;

/// How a guest's instructions are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accel {
    /// By the host's processor.
    Kvm,
    /// By a program.
    Tcg,
    /// By nothing: libvirt's own driver for tests.
    Test,
}

impl Accel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "qemu",
            Self::Test => "test",
        }
    }
}

/// How it boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Firmware {
    Bios,
    Uefi {
        /// Whether only what is signed is started.
        secure: bool,
    },
}

/// Its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) count: u32,
    /// Processors that it can have without being switched off.
    pub(crate) most: u32,
    /// Whether guests can run guests of their own.
    pub(crate) nested: bool,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskDef {
    /// Its device in the guest, such as `vda`.
    pub(crate) device: String,
    pub(crate) bus: String,
    pub(crate) path: String,
    pub(crate) format: String,
    pub(crate) cache: Option<String>,
    pub(crate) iops: Option<u32>,
    /// What the guest can know it by.
    pub(crate) serial: String,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NicDef {
    pub(crate) mac: String,
    pub(crate) source: Source,
    pub(crate) model: String,
    pub(crate) vlan: Option<u16>,
    pub(crate) mtu: Option<u32>,
}

/// What a card is plugged into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A network of libvirt.
    Network(String),
    /// A bridge of the host.
    Bridge(String),
    /// QEMU's own network, for those who may use no other.
    User,
}

impl Domain {
    /// As libvirt takes it.
    pub(crate) fn write(&self) -> Element {
        let qemu = self.accel != Accel::Test;
        let mut domain = element("domain").with("type", self.accel.as_str());
        domain = domain
            .child(element("name").text(&self.name))
            .child(element("uuid").text(self.uuid))
            .child(element("metadata").child(self.mark.write()))
            .children(self.memory())
            .child(self.vcpus())
            .child(self.os())
            .children(self.ignition.as_ref().map(|path| ignition(path)));
        if qemu {
            domain = domain.child(self.features()).child(self.cpu());
        }
        domain
            .child(self.clock())
            .child(element("on_poweroff").text("destroy"))
            .child(element("on_reboot").text("restart"))
            .child(element("on_crash").text("restart"))
            .child(self.devices())
    }

    fn memory(&self) -> Vec<Element> {
        let mib = |name, mib: u64| element(name).with("unit", "MiB").text(mib);
        let most = self.max_memory_mib.max(self.memory_mib);
        vec![mib("memory", most), mib("currentMemory", self.memory_mib)]
    }

    fn vcpus(&self) -> Element {
        let Cpu { count, most, .. } = self.cpu;
        let vcpu = element("vcpu").with("placement", "static");
        match most > count {
            true => vcpu.with("current", count).text(most),
            false => vcpu.text(count),
        }
    }

    fn os(&self) -> Element {
        let mut os = element("os");
        if let Firmware::Uefi { secure } = self.firmware {
            os = os.with("firmware", "efi").child(
                element("firmware")
                    .child(
                        element("feature").with("enabled", yes(secure)).with("name", "secure-boot"),
                    )
                    .child(
                        element("feature")
                            .with("enabled", yes(secure))
                            .with("name", "enrolled-keys"),
                    ),
            );
        }
        // The test driver knows one type of guest.
        let kind = match self.accel {
            Accel::Test => element("type").text("hvm"),
            Accel::Kvm | Accel::Tcg => {
                element("type").with("arch", &self.arch).with("machine", &self.machine).text("hvm")
            }
        };
        os.child(kind).child(element("boot").with("dev", "hd"))
    }

    fn features(&self) -> Element {
        let features = element("features").child(element("acpi")).child(element("apic"));
        match self.firmware {
            // What checks signatures must be out of the guest's reach.
            Firmware::Uefi { secure: true } => features.child(element("smm").with("state", "on")),
            Firmware::Uefi { secure: false } | Firmware::Bios => features,
        }
    }

    fn cpu(&self) -> Element {
        match (self.accel, self.cpu.nested) {
            (Accel::Kvm, false) => element("cpu")
                .with("mode", "host-model")
                .child(element("feature").with("policy", "disable").with("name", "vmx"))
                .child(element("feature").with("policy", "disable").with("name", "svm")),
            (Accel::Kvm, true) => element("cpu").with("mode", "host-passthrough"),
            (Accel::Tcg | Accel::Test, _) => element("cpu").with("mode", "maximum"),
        }
    }

    fn clock(&self) -> Element {
        element("clock")
            .with("offset", "utc")
            .child(element("timer").with("name", "rtc").with("tickpolicy", "catchup"))
            .child(element("timer").with("name", "pit").with("tickpolicy", "delay"))
            .child(element("timer").with("name", "hpet").with("present", "no"))
    }

    /// Ports for devices that are plugged in while it runs: a q35 has one to spare.
    fn ports(&self) -> Vec<Element> {
        let controller =
            |model: &str| element("controller").with("type", "pci").with("model", model);
        match self.machine.contains("q35") {
            false => Vec::new(),
            true => std::iter::once(controller("pcie-root").with("index", 0))
                .chain((0..PORTS).map(|_| controller("pcie-root-port")))
                .collect(),
        }
    }

    fn devices(&self) -> Element {
        let devices = element("devices")
            .children(self.disks.iter().map(DiskDef::write))
            .children(self.seed.as_ref().map(|path| seed(path)))
            .children(self.nics.iter().map(NicDef::write));
        if self.accel == Accel::Test {
            return devices;
        }
        let scsi = self.disks.iter().any(|disk| disk.bus == "scsi") || self.seed.is_some();
        let scsi = scsi.then(|| {
            element("controller").with("type", "scsi").with("index", 0).with("model", "virtio-scsi")
        });
        let port = element("target").with("port", 0);
        let agent = element("target").with("type", "virtio").with("name", "org.qemu.guest_agent.0");
        let random = element("backend").with("model", "random").text("/dev/urandom");
        devices
            .children(scsi)
            .children(self.ports())
            .child(element("serial").with("type", "pty").child(port.clone()))
            .child(element("console").with("type", "pty").child(port.with("type", "serial")))
            .child(element("channel").with("type", "unix").child(agent))
            .child(element("rng").with("model", "virtio").child(random))
            .child(element("memballoon").with("model", "virtio"))
            .child(
                element("graphics")
                    .with("type", "vnc")
                    .with("port", -1)
                    .with("autoport", "yes")
                    .child(element("listen").with("type", "address").with("address", "127.0.0.1")),
            )
            .child(element("video").child(element("model").with("type", "vga")))
    }
}

impl DiskDef {
    /// As it stands in a domain, or is plugged into one that runs.
    pub(crate) fn write(&self) -> Element {
        let limits =
            self.iops.map(|iops| element("iotune").child(element("total_iops_sec").text(iops)));
        element("disk")
            .with("type", "file")
            .with("device", "disk")
            .child(
                element("driver")
                    .with("name", "qemu")
                    .with("type", &self.format)
                    .with_some("cache", self.cache.as_ref())
                    .with("discard", "unmap"),
            )
            .child(element("source").with("file", &self.path))
            .child(element("target").with("dev", &self.device).with("bus", &self.bus))
            .children(limits)
            .child(element("serial").text(&self.serial))
            .children(self.address())
    }
}

impl DiskDef {
    /// Where a SCSI disk hangs: each is a target of the one controller. By itself libvirt would put the
    /// eighth on a second controller, of a model that cloud kernels have no driver for.
    fn address(&self) -> Option<Element> {
        let letters = self.device.strip_prefix("sd").filter(|_| self.bus == "scsi")?;
        let digit = |letter: u8| usize::from(letter.saturating_sub(b'a')) + 1;
        let number = letters.bytes().fold(0, |number, letter| number * 26 + digit(letter));
        Some(
            element("address")
                .with("type", "drive")
                .with("controller", 0)
                .with("bus", 0)
                .with("target", number.saturating_sub(1))
                .with("unit", 0),
        )
    }
}

impl NicDef {
    /// As it stands in a domain, or is plugged into one that runs.
    pub(crate) fn write(&self) -> Element {
        let (kind, source) = match &self.source {
            Source::Network(name) => ("network", Some(element("source").with("network", name))),
            Source::Bridge(name) => ("bridge", Some(element("source").with("bridge", name))),
            Source::User => ("user", None),
        };
        element("interface")
            .with("type", kind)
            .child(element("mac").with("address", &self.mac))
            .children(source)
            .children(self.vlan.map(|tag| element("vlan").child(element("tag").with("id", tag))))
            .child(element("model").with("type", &self.model))
            .children(self.mtu.map(|size| element("mtu").with("size", size)))
    }
}

/// First-boot data on a drive that stock cloud kernels can read: they have no driver for SATA.
fn seed(path: &str) -> Element {
    element("disk")
        .with("type", "file")
        .with("device", "cdrom")
        .child(element("driver").with("name", "qemu").with("type", "raw"))
        .child(element("source").with("file", path))
        .child(element("target").with("dev", "sda").with("bus", "scsi"))
        .child(element("readonly"))
}

/// An Ignition config, where its guests look for it.
fn ignition(path: &str) -> Element {
    element("sysinfo")
        .with("type", "fwcfg")
        .child(element("entry").with("name", "opt/com.coreos/config").with("file", path))
}

fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}
