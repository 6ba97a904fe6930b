//! What a request becomes as a domain and its volumes. Nothing here talks to a host.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sutler_provider::{Class, CreateRequest, Disk, Error, Nic, Placement, Result, check};
use uuid::Uuid;

use crate::{
    domain::{Accel, Cpu, DiskDef, Domain, Firmware, NicDef, Source},
    mark::{DiskMark, Making, Mark},
    settings::Settings,
    tools,
};

/// What names a machine may have; libvirt makes file names of them.
pub(crate) const NAME_LIMIT: usize = 63;
/// Types of disks that are made.
pub(crate) const DISK_TYPES: [&str; 4] = ["thin", "thick", "eagerzeroedthick", "raw"];
/// The root disk's name.
pub(crate) const ROOT: &str = check::ROOT_DISK;
/// The name that stands for QEMU's own network.
const USER: &str = "user";
/// How many times the CPUs and the memory a machine has room for, where it asks to grow while it runs.
const ROOM: u32 = 4;
/// Settings of a class that are for libvirt alone, with the values that they may have; none where the
/// host alone knows them.
const EXTRAS: [(&str, &[&str]); 3] = [
    ("libvirt.bus", &["virtio", "scsi", "sata"]),
    ("libvirt.cache", &["default", "none", "writethrough", "writeback", "directsync", "unsafe"]),
    ("libvirt.machine", &[]),
];

/// What a host is like, as far as machines depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) cpu: u32,
    pub(crate) memory_mib: u64,
}

/// Refuses what can never work, whatever the host has.
pub(crate) fn admit(request: &CreateRequest) -> Result<()> {
    check::request(request, NAME_LIMIT)?;
    if request.managed_node.is_some() {
        return Err(Error::unsupported("libvirt has no managed groups of nodes"));
    }
    if let Some(class) = &request.class {
        profiles(class)?;
    }
    if request.ignition && request.meta_data.is_some() {
        let why = "Ignition reads no metadata: leave it out, or use cloud-init";
        return Err(Error::unsupported(why).at("spec.metaData"));
    }
    let Placement { cluster, storage_pod, folder, resource_pool, region, zone, .. } =
        &request.placement;
    for (place, name) in [
        (cluster, "cluster"),
        (storage_pod, "storagePod"),
        (folder, "folder"),
        (resource_pool, "resourcePool"),
        (region, "region"),
        (zone, "zone"),
    ] {
        if place.is_some() {
            let why = "a host of libvirt has nothing of the kind: leave it out";
            return Err(Error::unsupported(why).at(format!("spec.placement.{name}")));
        }
    }
    disks(&request.disks)?;
    cards(&request.nics)
}

/// Refuses what this host can never run.
pub(crate) fn fits(request: &CreateRequest, name: &str, limits: &Limits) -> Result<()> {
    if let Some(host) = request.placement.host.as_ref().filter(|host| *host != name) {
        let why = format!("this Provider has the host {name:?} alone, and not {host:?}");
        return Err(Error::invalid("spec.placement.host", why));
    }
    let Some(class) = &request.class else { return Ok(()) };
    if class.cpu > limits.cpu {
        let why = format!("{} CPUs are more than the host's {}", class.cpu, limits.cpu);
        return Err(Error::invalid("spec.resources.cpu", why));
    }
    if class.memory_mib > limits.memory_mib {
        let why =
            format!("{} MiB are more than the host's {}", class.memory_mib, limits.memory_mib);
        return Err(Error::invalid("spec.resources.memoryMiB", why));
    }
    Ok(())
}

/// Refuses hardware that is not given out here: what is asked for is there, or is refused.
fn profiles(class: &Class) -> Result<()> {
    if class.gpu.as_ref().is_some_and(|(count, ..)| *count > 0) {
        return Err(Error::unsupported("graphics cards are not handed to machines")
            .at("spec.resources.gpu"));
    }
    let asked = |profile: &str, field: &str| {
        let value = class.profiles.get(profile).and_then(|profile| profile.get(field));
        value.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    };
    for (profile, field) in [
        ("securityProfile", "tpmEnabled"),
        ("securityProfile", "vtdEnabled"),
        ("securityProfile", "encryptionPolicy"),
        ("performanceProfile", "virtualizationBasedSecurity"),
        ("performanceProfile", "latencySensitivity"),
        ("performanceProfile", "hyperThreadingPolicy"),
        ("resourceLimits", "cpuLimit"),
        ("resourceLimits", "cpuReservation"),
        ("resourceLimits", "cpuShares"),
        ("resourceLimits", "memoryLimit"),
        ("resourceLimits", "memoryReservation"),
    ] {
        // What stands for nothing in particular is no wish.
        let usual = [("latencySensitivity", "normal"), ("hyperThreadingPolicy", "auto")];
        let value = class.profiles.get(profile).and_then(|profile| profile.get(field)?.as_str());
        if asked(profile, field)
            && !usual.iter().any(|usual| (field, value) == (usual.0, Some(usual.1)))
        {
            let why = "this provider has nothing for it: take it out of the class";
            return Err(Error::unsupported(why).at(format!("spec.{profile}.{field}")));
        }
    }
    if secure(class) && class.firmware != sutler_provider::Firmware::Uefi {
        let why = "only UEFI boots what is signed alone: set spec.firmware to UEFI";
        return Err(Error::invalid("spec.securityProfile.secureBoot", why));
    }
    class.guest_tools.as_deref().map_or(Ok(()), |policy| tools::Policy::read(policy).map(drop))?;
    class.extra.iter().try_for_each(|(key, value)| extra(key, value))
}

fn extra(key: &str, value: &str) -> Result<()> {
    let field = format!("spec.extraConfig[{key}]");
    let Some((_, values)) = EXTRAS.iter().find(|(known, _)| *known == key) else {
        let known: Vec<&str> = EXTRAS.iter().map(|(known, _)| *known).collect();
        return Err(Error::invalid(field, format!("there are {}", known.join(", "))));
    };
    if !values.is_empty() && !values.contains(&value) {
        return Err(Error::invalid(field, format!("{value:?} is none of {}", values.join(", "))));
    }
    Ok(())
}

fn disks(disks: &[Disk]) -> Result<()> {
    for disk in disks {
        if !disk.scsi.is_empty() {
            let why = "disks hang on a bus of their class (libvirt.bus), and not on a controller of theirs";
            let field = format!("spec.disks[{}].scsiController", disk.name);
            return Err(Error::unsupported(why).at(field));
        }
    }
    Ok(())
}

fn cards(nics: &[Nic]) -> Result<()> {
    for nic in nics {
        let field = |field: &str| format!("spec.networks[{}].{field}", nic.name);
        let bridge = |name: &str| nic.config.get("bridge").and_then(|bridge| bridge.get(name));
        let stp = bridge("stp").is_some_and(|stp| *stp == Value::Bool(true));
        for (asked, name) in [
            (nic.config.contains_key("driver"), "driver"),
            (nic.config.contains_key("filterRef"), "filterRef"),
            (stp, "bridge.stp"),
            (bridge("delay").is_some(), "bridge.delay"),
        ] {
            if asked {
                let why = "this provider has nothing for it: take it out of the network";
                return Err(Error::unsupported(why).at(field(&format!("networkRef: {name}"))));
            }
        }
        if let Some(gateway) = &nic.gateway
            && gateway.parse::<std::net::IpAddr>().is_err()
        {
            return Err(Error::invalid(field("gateway"), format!("{gateway:?} is no address")));
        }
        if let Some(mac) = &nic.mac
            && !is_mac(mac)
        {
            return Err(Error::invalid(field("macAddress"), format!("{mac:?} is no address")));
        }
    }
    Ok(())
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let byte = |part: &&str| part.len() == 2 && u8::from_str_radix(part, 16).is_ok();
    parts.len() == 6 && parts.iter().all(byte)
}

/// Where a disk is, or will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskPlan {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) format: String,
    pub(crate) kept: Option<sutler_provider::DiskKey>,
}

/// What decides about a domain besides the request itself.
pub(crate) struct Ground<'a> {
    pub(crate) uuid: Uuid,
    pub(crate) accel: Accel,
    pub(crate) arch: &'a str,
    pub(crate) settings: &'a Settings,
    pub(crate) limits: &'a Limits,
    /// All disks, the root disk first.
    pub(crate) disks: Vec<DiskPlan>,
    /// The paths of what the first boot is given.
    pub(crate) seed: Option<String>,
    pub(crate) ignition: Option<String>,
    pub(crate) making: Making,
}

/// The domain of a request.
pub(crate) fn domain(request: &CreateRequest, ground: Ground<'_>) -> Domain {
    let class = request.class.clone().unwrap_or_else(|| Class::new(1, 1024));
    let extra = |name: &str| class.extra.get(name).cloned();
    let (bus, cache) = (bus(&class), extra("libvirt.cache"));
    let mut marks = BTreeMap::new();
    let mut disks = Vec::new();
    for (index, disk) in ground.disks.into_iter().enumerate() {
        // First-boot data is in a drive that has the first letter of those that are not virtio.
        let device = device(&bus, if bus == "virtio" { index } else { index + 1 });
        marks.insert(device.clone(), DiskMark { name: disk.name.clone(), kept: disk.kept });
        disks.push(DiskDef {
            device,
            bus: bus.clone(),
            path: disk.path,
            format: disk.format,
            cache: cache.clone(),
            iops: class.iops,
            serial: serial(&disk.name),
        });
    }
    let nics: Vec<NicDef> =
        cards_of(request).iter().map(|nic| card(ground.uuid, nic, ground.settings)).collect();
    let names = cards_of(request).into_iter().map(|nic| nic.name);
    let grows = |field: &str| flag(&class, "performanceProfile", field);
    let room = |grows: bool, now: u64, most: u64| match grows {
        true => (now * u64::from(ROOM)).min(most).max(now),
        false => now,
    };
    let most = room(grows("cpuHotAddEnabled"), class.cpu.into(), ground.limits.cpu.into());
    let max_memory_mib =
        room(grows("memoryHotAddEnabled"), class.memory_mib, ground.limits.memory_mib);
    Domain {
        uuid: ground.uuid,
        name: request.name.clone(),
        accel: ground.accel,
        arch: ground.arch.to_owned(),
        machine: extra("libvirt.machine").unwrap_or_else(|| ground.settings.machine.clone()),
        firmware: match class.firmware {
            sutler_provider::Firmware::Bios => Firmware::Bios,
            sutler_provider::Firmware::Uefi => Firmware::Uefi { secure: secure(&class) },
        },
        cpu: Cpu {
            count: class.cpu,
            most: u32::try_from(most).unwrap_or(class.cpu),
            nested: grows("nestedVirtualization"),
        },
        memory_mib: class.memory_mib,
        max_memory_mib,
        mark: Mark {
            owner: Some((request.owner.token.clone(), request.owner.installation.clone())),
            made_at: None,
            making: Some(ground.making),
            disks: marks,
            nics: nics.iter().map(|nic| nic.mac.clone()).zip(names).collect(),
            tags: request.tags.clone(),
            hostname: Some(request.hostname.clone()),
            room: max_memory_mib > class.memory_mib,
        },
        disks,
        nics,
        seed: ground.seed,
        ignition: ground.ignition,
    }
}

/// The bus of a class's disks.
pub(crate) fn bus(class: &Class) -> String {
    class.extra.get("libvirt.bus").cloned().unwrap_or_else(|| "virtio".to_owned())
}

/// The n-th device on a bus, from 0.
pub(crate) fn device(bus: &str, index: usize) -> String {
    let prefix = if bus == "virtio" { "vd" } else { "sd" };
    let mut letters = String::new();
    let mut rest = index;
    loop {
        letters.insert(0, char::from(b'a' + u8::try_from(rest % 26).unwrap_or_default()));
        if rest < 26 {
            return format!("{prefix}{letters}");
        }
        rest = rest / 26 - 1;
    }
}

/// What a guest can know a disk by; there is room for 20 characters.
pub(crate) fn serial(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).take(20).collect()
}

/// The cards of a request: one in the default network where it names none.
pub(crate) fn cards_of(request: &CreateRequest) -> Vec<Nic> {
    match request.nics.is_empty() {
        true => vec![Nic { name: "eth0".to_owned(), ..Nic::default() }],
        false => request.nics.clone(),
    }
}

/// A card of a machine.
pub(crate) fn card(machine: Uuid, nic: &Nic, settings: &Settings) -> NicDef {
    let network = nic.network.as_ref().unwrap_or(&settings.network);
    let source = match &nic.bridge {
        // A card on a bridge has that for its network, unless it names another.
        Some(bridge) if nic.network.as_ref().is_none_or(|network| network == bridge) => {
            Source::Bridge(bridge.clone())
        }
        // Those who may use no other have QEMU's own.
        _ if network == USER => Source::User,
        _ => Source::Network(network.clone()),
    };
    NicDef {
        mac: nic.mac.as_ref().map_or_else(|| mac(machine, &nic.name), |mac| mac.to_lowercase()),
        source,
        model: nic.model.clone().unwrap_or_else(|| "virtio".to_owned()),
        vlan: nic.vlan,
        mtu: nic.mtu,
    }
}

/// The address of a card that asks for none: the same whenever it is asked for.
pub(crate) fn mac(machine: Uuid, name: &str) -> String {
    let digest = Sha256::digest(format!("{machine}/{name}").as_bytes());
    // The first byte says that nobody gave it out, and that it is one card's.
    let bytes: Vec<String> = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("52:{}", bytes.join(":"))
}

/// Whether only what is signed is to be started.
fn secure(class: &Class) -> bool {
    flag(class, "securityProfile", "secureBoot")
}

fn flag(class: &Class, profile: &str, field: &str) -> bool {
    let value = class.profiles.get(profile).and_then(|profile| profile.get(field));
    value.and_then(Value::as_bool).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sutler_provider::{Owner, Token};

    use super::*;

    fn request() -> CreateRequest {
        let owner = Owner {
            token: Token::new("u", 1),
            installation: "i".to_owned(),
            namespace: "ns".to_owned(),
            name: "web".to_owned(),
        };
        CreateRequest { class: Some(Class::new(1, 512)), ..CreateRequest::new(owner, "web-abcde") }
    }

    fn class(edit: impl FnOnce(&mut Class)) -> CreateRequest {
        let mut class = Class::new(1, 512);
        edit(&mut class);
        CreateRequest { class: Some(class), ..request() }
    }

    fn nic(edit: impl FnOnce(&mut Nic)) -> CreateRequest {
        let mut nic = Nic { name: "lan".to_owned(), ..Nic::default() };
        edit(&mut nic);
        CreateRequest { nics: vec![nic], ..request() }
    }

    fn profile(name: &'static str, value: Value) -> CreateRequest {
        class(|class| drop(class.profiles.insert(name.to_owned(), value)))
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        admit(&request()).unwrap();
        admit(&profile("performanceProfile", json!({"latencySensitivity": "normal"}))).unwrap();
        let zone = Placement { zone: Some("a".to_owned()), ..Placement::default() };
        let scsi = json!({"controllerType": "pvscsi"}).as_object().cloned().unwrap();
        let disk = Disk { name: "data".to_owned(), size_gib: 1, scsi, ..Disk::default() };
        for (request, field) in [
            (
                profile("securityProfile", json!({"tpmEnabled": true})),
                "spec.securityProfile.tpmEnabled",
            ),
            (
                profile("performanceProfile", json!({"latencySensitivity": "high"})),
                "spec.performanceProfile.latencySensitivity",
            ),
            (
                profile("securityProfile", json!({"secureBoot": true})),
                "spec.securityProfile.secureBoot",
            ),
            (class(|class| class.gpu = Some((1, None, None))), "spec.resources.gpu"),
            (
                class(|class| drop(class.extra.insert("libvirt.buss".to_owned(), "x".to_owned()))),
                "spec.extraConfig[libvirt.buss]",
            ),
            (
                class(|class| drop(class.extra.insert("libvirt.bus".to_owned(), "ide".to_owned()))),
                "spec.extraConfig[libvirt.bus]",
            ),
            (
                class(|class| class.guest_tools = Some("uninstall".to_owned())),
                "spec.guestToolsPolicy",
            ),
            (CreateRequest { placement: zone, ..request() }, "spec.placement.zone"),
            (CreateRequest { disks: vec![disk], ..request() }, "spec.disks[data].scsiController"),
            (
                nic(|nic| drop(nic.config.insert("filterRef".to_owned(), json!({"filter": "x"})))),
                "spec.networks[lan].networkRef: filterRef",
            ),
            (nic(|nic| nic.mac = Some("52:54".to_owned())), "spec.networks[lan].macAddress"),
        ] {
            let error = admit(&request).unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
        }
    }

    #[test]
    fn what_the_host_has_not_is_refused() {
        let limits = Limits { cpu: 2, memory_mib: 1024 };
        fits(&request(), "kvm7", &limits).unwrap();
        let elsewhere = Placement { host: Some("kvm8".to_owned()), ..Placement::default() };
        for (request, field) in [
            (class(|class| class.cpu = 3), "spec.resources.cpu"),
            (class(|class| class.memory_mib = 1025), "spec.resources.memoryMiB"),
            (CreateRequest { placement: elsewhere, ..request() }, "spec.placement.host"),
        ] {
            assert_eq!(fits(&request, "kvm7", &limits).unwrap_err().field(), Some(field));
        }
    }

    #[test]
    fn cards_are_plugged_into_what_they_name() {
        let settings = Settings::default();
        let source = |network: Option<&str>, bridge: Option<&str>| {
            let nic = Nic {
                network: network.map(str::to_owned),
                bridge: bridge.map(str::to_owned),
                ..Nic::default()
            };
            card(Uuid::nil(), &nic, &settings).source
        };
        assert_eq!(source(None, None), Source::Network("default".to_owned()));
        assert_eq!(source(Some("lan"), None), Source::Network("lan".to_owned()));
        assert_eq!(source(Some("br0"), Some("br0")), Source::Bridge("br0".to_owned()));
        assert_eq!(source(Some("lan"), Some("br0")), Source::Network("lan".to_owned()));
        assert_eq!(source(Some("user"), None), Source::User);
        assert_eq!(mac(Uuid::nil(), "lan"), mac(Uuid::nil(), "lan"));
        assert_ne!(mac(Uuid::nil(), "lan"), mac(Uuid::nil(), "wan"));
    }

    #[test]
    fn devices_have_letters() {
        let letters = |index| device("virtio", index);
        assert_eq!(
            (letters(0), letters(25), letters(26)),
            ("vda".into(), "vdz".into(), "vdaa".into())
        );
        assert_eq!(device("scsi", 1), "sdb");
    }
}
