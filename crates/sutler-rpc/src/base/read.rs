//! Reading the JSON payloads of `provider.v1`, whatever the case of their keys.

use serde_json::{Map, Value};
use sutler_provider::{Class, Disk, Firmware, Image, Nic, Placement};

use super::payload::{lower, recase};
use crate::{
    json::{self, Fields},
    malformed::Malformed,
};

/// The JSON payloads of a create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Payloads {
    pub(crate) class_json: String,
    pub(crate) image_json: String,
    pub(crate) networks_json: String,
    pub(crate) disks_json: String,
    pub(crate) placement_json: String,
}

/// What the payloads of a create say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Read {
    pub(crate) class: Option<Class>,
    pub(crate) image: Option<Image>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) placement: Placement,
    pub(crate) name: Option<String>,
    pub(crate) tags: Vec<String>,
}

/// Reads the payloads of a create.
pub(crate) fn read(payloads: &Payloads) -> Result<Read, Malformed> {
    let class_value = json::parse("class_json", &payloads.class_json)?;
    let image_value = json::parse("image_json", &payloads.image_json)?;
    let networks = json::parse("networks_json", &payloads.networks_json)?;
    let disks = json::parse("disks_json", &payloads.disks_json)?;
    let placement = json::parse("placement_json", &payloads.placement_json)?;
    Ok(Read {
        class: Fields::of("class_json", &class_value)?.map(|f| class(&f)).transpose()?,
        image: Fields::of("image_json", &image_value)?.map(|f| image(&f)).transpose()?,
        nics: each("networks_json", &networks, nic)?,
        disks: each("disks_json", &disks, disk)?,
        placement: place(Fields::of("placement_json", &placement)?.as_ref())?,
        name: None,
        tags: Vec::new(),
    })
}

impl Read {
    /// Reads the payload of a reconfiguration.
    pub(crate) fn desired(text: &str) -> Result<Self, Malformed> {
        let value = json::parse("desired_json", text)?;
        let fields = Fields::of("desired_json", &value)?
            .ok_or_else(|| Malformed::missing("desired_json"))?;
        let none = Value::Null;
        let list = |key: &str| fields.get(key).unwrap_or(&none);
        Ok(Self {
            class: fields.object("Class")?.map(|f| class(&f)).transpose()?,
            image: fields.object("Image")?.map(|f| image(&f)).transpose()?,
            nics: each(&fields.name("Networks"), list("Networks"), nic)?,
            disks: each(&fields.name("Disks"), list("Disks"), disk)?,
            placement: place(fields.object("Placement")?.as_ref())?,
            name: fields.text("Name")?,
            tags: fields.texts("Tags")?,
        })
    }
}

/// A class, in Go's form or in that of the kind VMClass.
pub(crate) fn class(fields: &Fields<'_>) -> Result<Class, Malformed> {
    let defaults = fields.object("DiskDefaults")?;
    let firmware = match fields.text("Firmware")?.as_deref() {
        None => Firmware::Bios,
        Some(text) if text.eq_ignore_ascii_case("bios") => Firmware::Bios,
        Some(text) if ["uefi", "efi"].contains(&text.to_ascii_lowercase().as_str()) => {
            Firmware::Uefi
        }
        Some(_) => return Err(fields.wrong("Firmware", "it is neither BIOS nor UEFI")),
    };
    let memory_mib = match fields.number("MemoryMiB")? {
        Some(mib) => mib,
        None => quantity(fields, "Memory")?.map_or(0, |bytes| bytes >> 20),
    };
    let (mut root_gib, mut disk_type) = (None, None);
    if let Some(defaults) = &defaults {
        let size = quantity(defaults, "Size")?.map(|bytes| bytes.div_ceil(1 << 30));
        root_gib = defaults.number("SizeGiB")?.or(size);
        disk_type = defaults.text("Type")?;
    }
    let mut profiles = Map::new();
    for name in ["performanceProfile", "securityProfile", "resourceLimits"] {
        if let Some(value) = fields.get(name) {
            profiles.insert(name.to_owned(), recase(value, lower));
        }
    }
    let extra = match fields.get("ExtraConfig") {
        None => Default::default(),
        Some(value) => serde_json::from_value(value.clone())
            .map_err(|_| fields.wrong("ExtraConfig", "it is no map of texts"))?,
    };
    Ok(Class {
        cpu: fields.small("CPU")?.unwrap_or_default(),
        memory_mib,
        gpu: None,
        firmware,
        root_gib,
        disk_type,
        storage: None,
        iops: None,
        guest_tools: fields.text("GuestToolsPolicy")?,
        profiles,
        extra,
    })
}

fn image(fields: &Fields<'_>) -> Result<Image, Malformed> {
    let template = fields.text("TemplateName")?;
    let (path, url) = (fields.text("Path")?, fields.text("URL")?);
    let checksum = fields.text("Checksum")?;
    let how = fields.text("ChecksumType")?.unwrap_or_else(|| "sha256".to_owned());
    let name = [&template, &path, &url].into_iter().flatten().next().cloned();
    Ok(Image {
        name: name.unwrap_or_default(),
        // This word stands for a template's own format.
        format: fields.text("Format")?.filter(|format| format != "template"),
        checksum: checksum.map(|checksum| (checksum, how)),
        template,
        path,
        url,
        ..Image::default()
    })
}

fn nic(fields: &Fields<'_>) -> Result<Nic, Malformed> {
    let bridge = fields.text("Bridge")?;
    let network = fields.text("NetworkName")?;
    let portgroup = fields.text("Portgroup")?;
    Ok(Nic {
        name: fields.text("Name")?.unwrap_or_default(),
        network: network.or(portgroup).or_else(|| bridge.clone()),
        bridge,
        vlan: fields.small("VLAN")?,
        model: fields.text("Model")?,
        mac: fields.text("MacAddress")?,
        ip: fields.text("StaticIP")?,
        prefix: fields.small("Prefix")?,
        gateway: fields.text("Gateway")?,
        dns: fields.texts("DNS")?,
        mtu: None,
        config: match fields.number("PCISlotNumber")? {
            Some(slot) => Map::from_iter([("pciSlotNumber".to_owned(), Value::from(slot))]),
            None => Map::new(),
        },
    })
}

fn disk(fields: &Fields<'_>) -> Result<Disk, Malformed> {
    Ok(Disk {
        name: fields.text("Name")?.unwrap_or_default(),
        size_gib: fields.number("SizeGiB")?.unwrap_or_default(),
        type_: fields.text("Type")?.unwrap_or_default(),
        ..Disk::default()
    })
}

fn place(fields: Option<&Fields<'_>>) -> Result<Placement, Malformed> {
    let Some(fields) = fields else { return Ok(Placement::default()) };
    Ok(Placement {
        cluster: fields.text("Cluster")?,
        host: fields.text("Host")?,
        datastore: fields.text("Datastore")?,
        storage_pod: fields.text("StoragePod")?,
        folder: fields.text("Folder")?,
        resource_pool: fields.text("ResourcePool")?,
        region: None,
        zone: None,
    })
}

fn each<T>(
    field: &str,
    value: &Value,
    read: fn(&Fields<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let list = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => return Err(Malformed::new(field, "it is no list")),
    };
    let one = |(index, value): (usize, &Value)| {
        let name = format!("{field}[{index}]");
        let fields = Fields::of(&name, value)?.ok_or_else(|| Malformed::missing(&name))?;
        read(&fields)
    };
    list.iter().enumerate().map(one).collect()
}

/// Bytes, as a number or as Kubernetes writes them: `8Gi`, `512Mi`, `2G`.
fn quantity(fields: &Fields<'_>, key: &str) -> Result<Option<u64>, Malformed> {
    let wrong = || fields.wrong(key, "it is no quantity: write it as 8Gi");
    let text = match fields.get(key) {
        None => return Ok(None),
        Some(Value::String(text)) => text.trim(),
        Some(number) => return number.as_u64().map(Some).ok_or_else(wrong),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).map(Some).ok_or_else(wrong)
}
