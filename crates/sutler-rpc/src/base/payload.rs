//! The JSON payloads of `provider.v1`. Their keys are the names of Go fields, nothing is left out, and
//! an empty list or map is `null`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use sutler_provider::{Class, CreateRequest, Disk, Error, Firmware, Image, Nic, Placement};

pub(crate) use super::read::{Payloads, Read, class, read};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ClassJson<'a> {
    #[serde(rename = "CPU")]
    cpu: u32,
    #[serde(rename = "MemoryMiB")]
    memory_mib: u64,
    firmware: &'a str,
    disk_defaults: Option<DiskDefaultsJson<'a>>,
    guest_tools_policy: &'a str,
    extra_config: Option<&'a BTreeMap<String, String>>,
    performance_profile: Value,
    security_profile: Value,
    resource_limits: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DiskDefaultsJson<'a> {
    r#type: &'a str,
    #[serde(rename = "SizeGiB")]
    size_gib: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ImageJson<'a> {
    template_name: &'a str,
    path: &'a str,
    #[serde(rename = "URL")]
    url: &'a str,
    format: &'a str,
    checksum: &'a str,
    checksum_type: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NicJson<'a> {
    name: &'a str,
    portgroup: &'a str,
    network_name: &'a str,
    bridge: &'a str,
    #[serde(rename = "VLAN")]
    vlan: u16,
    model: &'a str,
    mac_address: &'a str,
    #[serde(rename = "IPPolicy")]
    ip_policy: &'a str,
    #[serde(rename = "StaticIP")]
    static_ip: &'a str,
    prefix: u8,
    gateway: &'a str,
    #[serde(rename = "DNS")]
    dns: Option<&'a [String]>,
    #[serde(rename = "PCISlotNumber")]
    pci_slot_number: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DiskJson<'a> {
    #[serde(rename = "SizeGiB")]
    size_gib: u64,
    r#type: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PlacementJson<'a> {
    datastore: &'a str,
    storage_pod: &'a str,
    cluster: &'a str,
    folder: &'a str,
    host: &'a str,
}

/// The whole request; what the guest is given on its first boot plays no part in a change.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DesiredJson<'a> {
    name: &'a str,
    class: Option<ClassJson<'a>>,
    image: Option<ImageJson<'a>>,
    networks: Option<Vec<NicJson<'a>>>,
    disks: Option<Vec<DiskJson<'a>>>,
    user_data: Option<()>,
    meta_data: Option<()>,
    placement: Option<PlacementJson<'a>>,
    tags: Option<&'a [String]>,
}

/// The payloads of a create.
pub(crate) fn write(request: &CreateRequest) -> Payloads {
    let nics: Vec<NicJson<'_>> = request.nics.iter().map(nic_json).collect();
    let disks: Vec<DiskJson<'_>> = request.disks.iter().map(disk_json).collect();
    Payloads {
        class_json: request
            .class
            .as_ref()
            .map(|class| text(&class_json(class)))
            .unwrap_or_default(),
        image_json: request
            .image
            .as_ref()
            .map(|image| text(&image_json(image)))
            .unwrap_or_default(),
        networks_json: text(&filled(nics)),
        disks_json: text(&filled(disks)),
        placement_json: placement_json(&request.placement)
            .map(|placement| text(&placement))
            .unwrap_or_default(),
    }
}

/// The payload of a reconfiguration.
pub(crate) fn desired(request: &CreateRequest) -> String {
    text(&DesiredJson {
        name: &request.name,
        class: request.class.as_ref().map(class_json),
        image: request.image.as_ref().map(image_json),
        networks: filled(request.nics.iter().map(nic_json).collect()),
        disks: filled(request.disks.iter().map(disk_json).collect()),
        user_data: None,
        meta_data: None,
        placement: placement_json(&request.placement),
        tags: Some(request.tags.as_slice()).filter(|tags| !tags.is_empty()),
    })
}

/// Refuses what the wire form has no place for, rather than to drop it.
pub(crate) fn uncarried(request: &CreateRequest) -> Result<(), Error> {
    let class = request.class.as_ref();
    let disk = |wrong: fn(&Disk) -> bool| request.disks.iter().any(wrong);
    let missing = [
        ("spec.resources.gpu", class.is_some_and(|class| class.gpu.is_some())),
        ("VMClass spec.diskDefaults.iops", class.is_some_and(|class| class.iops.is_some())),
        ("VMClass spec.diskDefaults.storageClass", class.is_some_and(|c| c.storage.is_some())),
        ("spec.managedNode", request.managed_node.is_some()),
        ("spec.disks.storageClass", disk(|disk| disk.storage.is_some())),
        ("spec.disks.scsi", disk(|disk| !disk.scsi.is_empty())),
        ("spec.placement.resourcePool", request.placement.resource_pool.is_some()),
        ("the region", request.placement.region.is_some()),
        ("the zone", request.placement.zone.is_some()),
    ];
    let kept = request.disks.iter().position(|disk| disk.kept.is_some());
    let missing = missing.into_iter().find(|(_, present)| *present);
    match kept.map(kept_field).or(missing.map(|(field, _)| field.to_owned())) {
        None => Ok(()),
        Some(field) => Err(Error::unsupported(format!(
            "this provider speaks provider.v1 alone, which has no place for {field}"
        ))
        .at(field)),
    }
}

/// The field of a disk's key.
pub(crate) fn kept_field(index: usize) -> String {
    format!("disks[{index}].kept")
}

fn class_json(class: &Class) -> ClassJson<'_> {
    let profile =
        |name: &str| class.profiles.get(name).map_or(Value::Null, |value| recase(value, upper));
    ClassJson {
        cpu: class.cpu,
        memory_mib: class.memory_mib,
        firmware: match class.firmware {
            Firmware::Bios => "BIOS",
            Firmware::Uefi => "UEFI",
        },
        disk_defaults: (class.disk_type.is_some() || class.root_gib.is_some()).then(|| {
            DiskDefaultsJson {
                r#type: class.disk_type.as_deref().unwrap_or_default(),
                size_gib: class.root_gib.unwrap_or_default(),
            }
        }),
        guest_tools_policy: class.guest_tools.as_deref().unwrap_or_default(),
        extra_config: Some(&class.extra).filter(|extra| !extra.is_empty()),
        performance_profile: profile("performanceProfile"),
        security_profile: profile("securityProfile"),
        resource_limits: profile("resourceLimits"),
    }
}

fn image_json(image: &Image) -> ImageJson<'_> {
    let text = |text: &'_ Option<String>| text.is_some();
    let prepared = text(&image.id) || text(&image.path);
    let template = image.template.as_deref().or(image.id.as_deref()).unwrap_or_default();
    let format = match (image.format.as_deref(), template) {
        (Some(format), _) => format,
        (None, "") => "",
        (None, _) => "template",
    };
    let checksum = image.checksum.as_ref();
    ImageJson {
        template_name: template,
        path: image.path.as_deref().unwrap_or_default(),
        // What was brought there is not downloaded again.
        url: image.url.as_deref().filter(|_| !prepared).unwrap_or_default(),
        format,
        checksum: checksum.map(|(value, _)| value.as_str()).unwrap_or_default(),
        checksum_type: checksum.map(|(_, how)| how.as_str()).unwrap_or_default(),
    }
}

fn nic_json(nic: &Nic) -> NicJson<'_> {
    let own = |key: &str| nic.config.get(key).and_then(Value::as_str);
    // A bridge that is the network itself is no network of that name.
    let network = nic.network.as_deref().filter(|name| nic.bridge.as_deref() != Some(name));
    NicJson {
        name: &nic.name,
        portgroup: own("portgroup").or(network).unwrap_or_default(),
        network_name: own("networkName").or(network).unwrap_or_default(),
        bridge: nic.bridge.as_deref().unwrap_or_default(),
        vlan: nic.vlan.unwrap_or_default(),
        model: nic.model.as_deref().unwrap_or_default(),
        mac_address: nic.mac.as_deref().unwrap_or_default(),
        ip_policy: if nic.ip.is_some() { "static" } else { "dhcp" },
        static_ip: nic.ip.as_deref().unwrap_or_default(),
        prefix: nic.prefix.unwrap_or_default(),
        gateway: nic.gateway.as_deref().unwrap_or_default(),
        dns: Some(nic.dns.as_slice()).filter(|dns| !dns.is_empty()),
        pci_slot_number: nic.config.get("pciSlotNumber"),
    }
}

fn disk_json(disk: &Disk) -> DiskJson<'_> {
    DiskJson { size_gib: disk.size_gib, r#type: &disk.type_, name: &disk.name }
}

fn placement_json(placement: &Placement) -> Option<PlacementJson<'_>> {
    let text = |text: &'_ Option<String>| text.is_some();
    let Placement { cluster, host, datastore, storage_pod, folder, .. } = placement;
    let any = [cluster, host, datastore, storage_pod, folder].into_iter().any(text);
    any.then(|| PlacementJson {
        datastore: datastore.as_deref().unwrap_or_default(),
        storage_pod: storage_pod.as_deref().unwrap_or_default(),
        cluster: cluster.as_deref().unwrap_or_default(),
        folder: folder.as_deref().unwrap_or_default(),
        host: host.as_deref().unwrap_or_default(),
    })
}

fn filled<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("invariant: these structures have no keys but texts")
}

/// A value whose keys are written otherwise, all the way down.
pub(super) fn recase(value: &Value, how: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| (how(key), recase(value, how)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        Value::Array(list) => Value::Array(list.iter().map(|value| recase(value, how)).collect()),
        other => other.clone(),
    }
}

/// `cpuHotAdd` as `CpuHotAdd`: Go reads it as `CPUHotAdd` too.
fn upper(key: &str) -> String {
    let mut chars = key.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// `CPUHotAdd` and `CpuHotAdd` as `cpuHotAdd`.
pub(super) fn lower(key: &str) -> String {
    let chars: Vec<char> = key.chars().collect();
    let run = chars.iter().take_while(|c| c.is_uppercase()).count();
    // The last capital of a run begins the next word, unless the key ends with it.
    let down = if run > 1 && run < chars.len() { run - 1 } else { run };
    let fold = |(index, c): (usize, &char)| match index < down {
        true => c.to_ascii_lowercase(),
        false => *c,
    };
    chars.iter().enumerate().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_to_go_and_come_back() {
        for (ours, theirs) in [
            ("cpuHotAddEnabled", "CPUHotAddEnabled"),
            ("latencySensitivity", "LatencySensitivity"),
            ("vtdEnabled", "VTDEnabled"),
            ("gpu", "GPU"),
        ] {
            assert_eq!(lower(theirs), ours);
            assert!(upper(ours).eq_ignore_ascii_case(theirs));
            assert_eq!(lower(&upper(ours)), ours);
        }
    }
}
