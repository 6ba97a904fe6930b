//! From a record and what it refers to, to what its machine should be like.

use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use sutler_api::{
    infra::{
        Firmware as ApiFirmware, PowerState, VMClass, VMNetworkAttachment, VirtualMachine,
        VirtualMachineSpec,
    },
    names::reasons,
    refs::ObjectRef,
};
use sutler_provider::{
    Capabilities, Class, CreateRequest, Firmware, ManagedNode, Nic, Owner, Placement, Token,
    platform_name,
};

use super::{copy, disk, guest_data, image};
use crate::{
    context::Context,
    fleet::{Key, State},
    placement::Wish,
    plan::{Blocker, Copy, Desired, Record, WantedPower},
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What the record's machine should be like.
pub(crate) async fn resolve(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    record: &Record,
    provider: &State,
    capabilities: &Capabilities,
) -> Result<Desired, Blocker> {
    unserved(&vm.spec)?;
    let own = &record.namespace;
    let class = match &vm.spec.class_ref {
        Some(reference) => Some(class_of(context, own, reference, &vm.spec)?),
        None => None,
    };
    let managed_node = vm.spec.managed_node.as_ref().map(|node| ManagedNode {
        cluster: node.cluster.clone(),
        group: node.group.clone(),
        size: node.size.clone(),
    });
    if managed_node.is_some() && !capabilities.managed_nodes {
        return Err(Blocker::invalid(
            "spec.managedNode",
            "this provider has no managed Kubernetes groups",
        ));
    }
    let image = image::of(context, vm, record, provider, capabilities)?;
    let mut nics = Vec::with_capacity(vm.spec.networks.len());
    for card in &vm.spec.networks {
        nics.push(nic(context, own, card, provider)?);
    }
    // A managed platform makes a name of its own of the one that it is given.
    let hashed = provider.hashed && record.group.is_none();
    let name = match (&record.platform_name, hashed) {
        (Some(decided), _) => decided.clone(),
        (None, true) => platform_name(&record.name, &record.uid, capabilities.name_limit),
        (None, false) => record.name.clone(),
    };
    if name.chars().count() > capabilities.name_limit {
        return Err(Blocker::invalid(
            "metadata.name",
            &format!("the platform takes names of at most {} characters", capabilities.name_limit),
        ));
    }
    // First-boot data matters until the machine is there, and may be gone afterwards.
    let guest = match record.id {
        None => guest_data::of(context, own, &vm.spec).await?,
        Some(_) => guest_data::Guest::default(),
    };
    let lifecycle = vm.spec.lifecycle.clone().unwrap_or_default();
    let shutdown_timeout = lifecycle.graceful_shutdown_timeout.to_std().map_err(|error| {
        Blocker::invalid("spec.lifecycle.gracefulShutdownTimeout", &error.to_string())
    })?;
    let copy = match (&vm.spec.clone_from, &record.id) {
        (Some(from), None) => Some(copy::of(context, vm, record, from, capabilities)?),
        _ => None,
    };
    let revert = copy::revert(context, vm, record)?;
    let hostname = copy::hostname(vm);
    let disks = disk::all(context, vm, record, capabilities)?;
    let wish = Wish {
        base: placement(&vm.spec, provider),
        class: class.as_ref(),
        disks: &disks,
        nics: &nics,
    };
    let (placement, placed) = crate::placement::of(context, vm, record, capabilities, wish)?;
    let request = CreateRequest {
        owner: Owner {
            token: record.token().cloned().unwrap_or_else(|| Token::new(&record.uid, 1)),
            installation: context.installation.clone(),
            namespace: record.namespace.clone(),
            name: record.name.clone(),
        },
        name,
        hostname,
        class,
        image,
        nics,
        disks,
        user_data: guest.user_data,
        ignition: guest.ignition,
        meta_data: guest.meta_data,
        placement,
        tags: vm.spec.tags.clone(),
        power_on: !matches!(vm.spec.power_state, Some(PowerState::Off | PowerState::OffGraceful)),
        managed_node,
    };
    let digest = digest(&request, copy.as_ref());
    Ok(Desired {
        request,
        power: vm.spec.power_state.map(|power| match power {
            PowerState::On => WantedPower::On,
            PowerState::Off => WantedPower::Off,
            PowerState::OffGraceful => WantedPower::OffGraceful,
        }),
        shutdown_timeout,
        post_start: lifecycle.post_start.is_some(),
        pre_stop: lifecycle.pre_stop.is_some(),
        copy,
        revert,
        placed: placed.and_then(|placed| serde_json::to_string(&placed).ok()),
        digest,
    })
}

/// Fields whose controllers are not there yet: nothing is accepted and ignored.
fn unserved(spec: &VirtualMachineSpec) -> Result<(), Blocker> {
    match spec.template_ref.is_some() {
        true => Err(Blocker::unserved("spec.templateRef")),
        false => Ok(()),
    }
}

fn class_of(
    context: &Context,
    own: &str,
    reference: &ObjectRef,
    spec: &VirtualMachineSpec,
) -> Result<Class, Blocker> {
    let key = Key::new(reference.namespace_or(own), &reference.name);
    let class = Context::cached(&context.classes, &key)
        .ok_or_else(|| Blocker::missing("VMClass", "spec.classRef", &key))?;
    convert_class(&class, spec)
}

fn convert_class(class: &Arc<VMClass>, spec: &VirtualMachineSpec) -> Result<Class, Blocker> {
    let VMClass { spec: class, .. } = class.as_ref();
    let of_class = |error: &dyn std::fmt::Display, field: &str| {
        Blocker::invalid("spec.classRef", &format!("the class's {field}: {error}"))
    };
    let memory = class.memory.to_u64().map_err(|error| of_class(&error, "memory"))?;
    let resources = spec.resources.as_ref();
    let memory_mib = match resources.and_then(|resources| resources.memory_mib) {
        Some(mib) => u64::try_from(mib)
            .map_err(|_| Blocker::invalid("spec.resources.memoryMiB", "it is below zero"))?,
        None => memory / MIB,
    };
    if memory_mib == 0 {
        return Err(Blocker::invalid(
            "spec.classRef",
            "the class's memory is less than 1 MiB: give it more",
        ));
    }
    let cpu = resources.and_then(|resources| resources.cpu).unwrap_or(class.cpu);
    let cpu = u32::try_from(cpu)
        .map_err(|_| Blocker::invalid("spec.resources.cpu", "it is below zero"))?;
    let disk = class.disk_defaults.as_ref();
    let root = disk.map(|disk| disk.size.to_u64()).transpose();
    let root = root.map_err(|error| of_class(&error, "diskDefaults.size"))?;
    let gpu = resources.and_then(|resources| resources.gpu.as_ref()).map(|gpu| {
        (
            u32::try_from(gpu.count).unwrap_or(1),
            gpu.type_.clone(),
            gpu.memory.and_then(|memory| u64::try_from(memory).ok()),
        )
    });
    let mut profiles = Map::new();
    for (name, value) in [
        ("resourceLimits", to_value(&class.resource_limits)),
        ("performanceProfile", to_value(&class.performance_profile)),
        ("securityProfile", to_value(&class.security_profile)),
    ] {
        if !value.is_null() {
            profiles.insert(name.to_owned(), value);
        }
    }
    Ok(Class {
        cpu,
        memory_mib,
        gpu,
        firmware: match class.firmware {
            ApiFirmware::Bios => Firmware::Bios,
            ApiFirmware::Uefi | ApiFirmware::Efi => Firmware::Uefi,
        },
        root_gib: root.map(|bytes| bytes.div_ceil(GIB)),
        disk_type: disk.map(|disk| disk.type_.as_str().to_owned()),
        storage: disk.and_then(|disk| disk.storage_class.clone()),
        iops: disk.and_then(|disk| disk.iops).and_then(|iops| u32::try_from(iops).ok()),
        guest_tools: Some(class.guest_tools_policy.as_str().to_owned()),
        profiles,
        extra: class.extra_config.clone(),
    })
}

fn nic(
    context: &Context,
    own: &str,
    card: &sutler_api::infra::NetworkRef,
    provider: &State,
) -> Result<Nic, Blocker> {
    let mut nic = Nic {
        name: card.name.clone(),
        network: provider.defaults.network.clone(),
        mac: card.mac_address.clone(),
        ip: card.ip_address.clone(),
        prefix: card.prefix.and_then(|prefix| u8::try_from(prefix).ok()),
        gateway: card.gateway.clone(),
        dns: card
            .dns
            .iter()
            .flat_map(|servers| servers.split(','))
            .map(|server| server.trim().to_owned())
            .filter(|server| !server.is_empty())
            .collect(),
        ..Nic::default()
    };
    let Some(reference) = &card.network_ref else { return Ok(nic) };
    let key = Key::new(reference.namespace_or(own), &reference.name);
    let field = format!("spec.networks[{}].networkRef", card.name);
    let network = Context::cached(&context.networks, &key)
        .ok_or_else(|| Blocker::missing("VMNetworkAttachment", &field, &key))?;
    plug(&mut nic, &network, &provider.type_, &field)?;
    Ok(nic)
}

/// Plugs a card into a network, in the words of the provider.
fn plug(
    nic: &mut Nic,
    network: &VMNetworkAttachment,
    provider: &str,
    field: &str,
) -> Result<(), Blocker> {
    use sutler_api::infra::IpAllocationType;
    let config = to_map(&network.spec.network);
    nic.mtu = u32::try_from(network.spec.network.mtu).ok();
    // A platform that is not among those that the kind knows takes the free form, or whatever there
    // is.
    let known = ["vsphere", "libvirt", "proxmox"];
    let own = match known.contains(&provider) {
        true => config.get(provider).cloned(),
        false => config.get("custom").cloned(),
    };
    let any = || known.iter().find_map(|name| config.get(*name)).cloned();
    let own = if provider == "sim" { own.or_else(any) } else { own };
    let Some(Value::Object(own)) = own else {
        return Err(Blocker::invalid(
            field,
            &format!(
                "the network says nothing for a provider of type {provider}: add spec.network.{}",
                if known.contains(&provider) { provider } else { "custom" }
            ),
        ));
    };
    let text = |names: &[&str]| {
        names.iter().find_map(|name| own.get(*name)).and_then(Value::as_str).map(str::to_owned)
    };
    // libvirt's bridges have settings beside their name.
    let bridge =
        text(&["bridge"]).or_else(|| own.get("bridge")?.get("name")?.as_str().map(str::to_owned));
    nic.network = text(&["portgroup", "networkName", "network", "name"])
        .or_else(|| bridge.clone())
        .or_else(|| nic.network.take());
    nic.bridge = bridge;
    nic.model = text(&["model", "adapterType"]);
    nic.vlan = own
        .get("vlanTag")
        .or_else(|| own.get("vlan"))
        .and_then(|vlan| vlan.as_u64().or_else(|| vlan.get("vlanID")?.as_u64()))
        .and_then(|tag| u16::try_from(tag).ok());
    nic.config = own;
    if let Some(allocation) = &network.spec.ip_allocation {
        match allocation.type_ {
            IpAllocationType::Dhcp | IpAllocationType::None => {}
            IpAllocationType::Static => {
                if let (Some(fixed), None) = (&allocation.static_config, &nic.ip) {
                    let (ip, prefix) =
                        fixed.address.split_once('/').unwrap_or((&fixed.address, "24"));
                    nic.ip = Some(ip.to_owned());
                    nic.prefix = prefix.parse().ok();
                    nic.gateway = nic.gateway.take().or_else(|| fixed.gateway.clone());
                }
            }
            IpAllocationType::Pool if nic.ip.is_some() => {}
            IpAllocationType::Pool => {
                let message = format!(
                    "{field}: addresses from a pool are not served by this release: give the card \
                     an ipAddress"
                );
                return Err(Blocker::stops(reasons::NOT_YET_SERVED, message));
            }
        }
    }
    Ok(())
}

fn placement(spec: &VirtualMachineSpec, provider: &State) -> Placement {
    let own = spec.placement.clone().unwrap_or_default();
    let defaults = &provider.defaults;
    Placement {
        cluster: own.cluster.or_else(|| defaults.cluster.clone()),
        host: own.host,
        datastore: own.datastore.or_else(|| defaults.datastore.clone()),
        storage_pod: own.storage_pod.or_else(|| defaults.storage_pod.clone()),
        folder: own.folder.or_else(|| defaults.folder.clone()),
        resource_pool: own.resource_pool.or_else(|| defaults.resource_pool.clone()),
        region: own.region.or_else(|| defaults.region.clone()),
        zone: defaults.zone.clone(),
    }
}

pub(super) fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

pub(super) fn to_map(value: &impl serde::Serialize) -> Map<String, Value> {
    match to_value(value) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A word that changes when anything of the request does, apart from the token.
fn digest(request: &CreateRequest, copy: Option<&Copy>) -> String {
    let mut value = to_value(request);
    if let Some(copy) = copy {
        let Copy { source, snapshot, linked, customize } = copy;
        value["copy"] = to_value(&(source, snapshot, linked, customize));
    }
    if let Some(owner) = value.get_mut("owner") {
        *owner = Value::Null;
    }
    let hash = Sha256::digest(value.to_string().as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
