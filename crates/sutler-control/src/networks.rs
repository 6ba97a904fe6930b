//! The controller of VMNetworkAttachments: says whether a network makes sense, for which platforms
//! it is described, and who is plugged in.

use std::{net::Ipv4Addr, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{ResourceExt as _, runtime::controller::Action};
use sutler_api::{
    conditions,
    infra::{
        IpAllocationType, NetworkOnProvider, NetworkPhase, VMNetworkAttachment,
        VMNetworkAttachmentSpec, VMNetworkAttachmentStatus,
    },
    names::{condition_types, reasons},
};

use crate::{
    context::Context,
    fleet::{Key, lock},
    images::status_key,
    index::Reference,
    machine::Error,
    used::{self, Standing},
};

/// Looks at one network.
pub(crate) async fn reconcile(
    network: Arc<VMNetworkAttachment>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    context.counters.count_reconcile("VMNetworkAttachment");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let key = Key::new(network.namespace().unwrap_or_default(), network.name_any());
    let old = network.status.clone().unwrap_or_default();
    let (new, all_ready) = next_status(&context, &network, &key, &old);
    let counts_alone = new.conditions == old.conditions;
    used::publish(&context, network.as_ref(), &Standing { old, new, counts_alone, all_ready }).await
}

fn next_status(
    context: &Context,
    network: &VMNetworkAttachment,
    key: &Key,
    old: &VMNetworkAttachmentStatus,
) -> (VMNetworkAttachmentStatus, bool) {
    let mut new = old.clone();
    let (count, providers) = {
        let index = lock(&context.index);
        let reference = Reference::Network(key.clone());
        (index.count(&reference), index.providers(&reference))
    };
    let now = context.clock.now();
    let generation = network.metadata.generation;
    new.connected_vms = i32::try_from(count).ok();
    new.observed_generation = generation;
    let mut all_ready = true;
    new.provider_status.clear();
    for provider in &providers {
        let name = status_key(key, provider);
        let Some(connection) = context.fleet.get(provider) else {
            all_ready = false;
            // What was known stays so while nobody can be asked.
            if let Some(known) = old.provider_status.get(&name) {
                new.provider_status.insert(name, known.clone());
            }
            continue;
        };
        let type_ = connection.state().type_;
        let available = describes(&network.spec, &type_);
        let mut entry = NetworkOnProvider {
            available,
            message: (!available).then(|| missing(&type_)),
            ..NetworkOnProvider::default()
        };
        let known = old.provider_status.get(&name);
        let same = known.filter(|k| k.available == available && k.message == entry.message);
        let updated = same.and_then(|known| known.last_updated.clone());
        entry.last_updated = updated.or(Some(Time(now)));
        new.provider_status.insert(name, entry);
    }
    let there = new.provider_status.iter().filter(|(_, there)| there.available);
    new.available_on = there.map(|(name, _)| name.clone()).collect();
    let lacking = new.provider_status.iter().find(|(_, there)| !there.available);
    let lacking = lacking.map(|(name, there)| (name.clone(), there.message.clone()));
    let (reason, message) = match (validate(&network.spec), lacking) {
        (Err((reason, message)), _) => (reason, message),
        (Ok(()), Some((name, why))) => {
            (reasons::INVALID, format!("{name}: {}", why.unwrap_or_default()))
        }
        (Ok(()), None) => (reasons::READY, "machines can be plugged in".to_owned()),
    };
    let holds = reason == reasons::READY;
    new.ready = Some(holds);
    new.phase = Some(if holds { NetworkPhase::Ready } else { NetworkPhase::Failed });
    new.message = Some(message.clone());
    let list = &mut new.conditions;
    let type_ = condition_types::READY;
    conditions::set(list, type_, holds.into(), reason, &message, generation, now);
    let type_ = condition_types::SUPPORTED;
    match unserved(&network.spec) {
        Some(fields) => {
            let message = format!("not served by this release: {fields}");
            let reason = reasons::NOT_YET_SERVED;
            conditions::set(list, type_, false.into(), reason, &message, generation, now);
        }
        None => list.retain(|condition| condition.type_ != type_),
    }
    (new, all_ready)
}

/// Whether a network says anything for a platform of this type.
fn describes(spec: &VMNetworkAttachmentSpec, type_: &str) -> bool {
    let network = &spec.network;
    let (vsphere, libvirt) = (network.vsphere.is_some(), network.libvirt.is_some());
    let (proxmox, custom) = (network.proxmox.is_some(), network.custom.is_some());
    match type_ {
        "vsphere" => vsphere,
        "libvirt" => libvirt,
        "proxmox" => proxmox,
        "sim" => vsphere || libvirt || proxmox || custom,
        _ => custom,
    }
}

fn missing(type_: &str) -> String {
    let field = if matches!(type_, "vsphere" | "libvirt" | "proxmox") { type_ } else { "custom" };
    format!("it says nothing for a provider of type {type_}: add spec.network.{field}")
}

/// Whether a network makes sense: else a reason, and the field with what is wrong.
fn validate(spec: &VMNetworkAttachmentSpec) -> Result<(), (&'static str, String)> {
    let invalid =
        |field: &str, message: &str| Err((reasons::INVALID, format!("{field}: {message}")));
    let types = ["vsphere", "libvirt", "proxmox", "custom"];
    if !types.iter().any(|type_| describes(spec, type_)) {
        return invalid("spec.network", "describe it for at least one platform");
    }
    if !(68..=65535).contains(&spec.network.mtu) {
        return invalid("spec.network.mtu", "it is between 68 and 65535");
    }
    let Some(allocation) = &spec.ip_allocation else { return Ok(()) };
    match allocation.type_ {
        IpAllocationType::Dhcp | IpAllocationType::None => Ok(()),
        IpAllocationType::Pool => Err((
            reasons::NOT_YET_SERVED,
            "spec.ipAllocation.type: addresses from a pool are not served by this release: use \
             DHCP or Static, or give each card an ipAddress"
                .to_owned(),
        )),
        IpAllocationType::Static => {
            let Some(fixed) = &allocation.static_config else {
                return invalid("spec.ipAllocation.staticConfig", "type Static needs an address");
            };
            let (ip, prefix) = fixed.address.split_once('/').unwrap_or((&fixed.address, "24"));
            let prefix = prefix.parse::<u32>().ok().filter(|prefix| *prefix <= 32);
            let field = "spec.ipAllocation.staticConfig.address";
            let (Ok(ip), Some(prefix)) = (ip.parse::<Ipv4Addr>(), prefix) else {
                return invalid(field, "write an address with its prefix, such as 10.0.0.5/24");
            };
            let Some(gateway) = &fixed.gateway else { return Ok(()) };
            let field = "spec.ipAllocation.staticConfig.gateway";
            let Ok(gateway) = gateway.parse::<Ipv4Addr>() else {
                return invalid(field, "it is no address");
            };
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            match u32::from(ip) & mask == u32::from(gateway) & mask {
                true => Ok(()),
                false => invalid(field, "it is not in the network of the address"),
            }
        }
    }
}

/// Fields that nothing carries out yet.
fn unserved(spec: &VMNetworkAttachmentSpec) -> Option<String> {
    let mut fields = Vec::new();
    if spec.security.is_some() {
        fields.push("spec.security");
    }
    if spec.qos.is_some() {
        fields.push("spec.qos");
    }
    (!fields.is_empty()).then(|| fields.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(allocation: Value) -> Result<(), (&'static str, String)> {
        let spec = json!({
            "network": { "libvirt": { "networkName": "default" } }, "ipAllocation": allocation,
        });
        validate(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn addresses_have_to_fit() {
        let fixed = |address: &str, gateway: &str| {
            check(json!({
                "type": "Static", "staticConfig": { "address": address, "gateway": gateway },
            }))
        };
        assert_eq!(check(json!({ "type": "DHCP" })), Ok(()));
        assert_eq!(fixed("10.0.0.5/24", "10.0.0.1"), Ok(()));
        assert_eq!(fixed("10.0.0.5/0", "192.168.0.1"), Ok(()));
        assert!(fixed("10.0.0.5/24", "10.0.1.1").is_err());
        assert!(fixed("10.0.0.5/33", "10.0.0.1").is_err());
        assert!(check(json!({ "type": "Static" })).is_err());
        assert_eq!(check(json!({ "type": "Pool" })).unwrap_err().0, reasons::NOT_YET_SERVED);
    }

    #[test]
    fn a_network_is_for_the_platforms_that_it_describes() {
        let spec = json!({ "network": { "libvirt": { "networkName": "default" } } });
        let spec: VMNetworkAttachmentSpec = serde_json::from_value(spec).unwrap();
        for (type_, available) in
            [("libvirt", true), ("sim", true), ("vsphere", false), ("x", false)]
        {
            assert_eq!(describes(&spec, type_), available, "{type_}");
        }
        assert!(validate(&VMNetworkAttachmentSpec::default()).is_err());
    }
}
