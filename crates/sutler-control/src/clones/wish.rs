//! From a VMClone and its source to the record of the copy's machine; what cannot be carried out is
//! named.

use std::net::Ipv4Addr;

use sutler_api::{
    infra::{
        CloneFrom, CloneOptions, CloneSource, CloneTarget, CloneType, Customization, DiskSpec,
        GuestData, MetaData, NetworkCustomization, NetworkRef, Placement, PowerState, VMClone,
        VirtualMachineSpec,
    },
    refs::{LocalObjectRef, ObjectRef},
};

use crate::plan::Blocker;

/// What is copied, once it was found.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A machine, or a snapshot of it.
    Machine {
        /// The machine's name.
        name: String,
        /// Its record.
        spec: Box<VirtualMachineSpec>,
        /// The snapshot's name.
        snapshot: Option<String>,
    },
    /// An image.
    Image(ObjectRef),
}

/// The record that the copy's machine gets.
pub(crate) fn spec(clone: &VMClone, source: &Source) -> Result<VirtualMachineSpec, Blocker> {
    let options = clone.spec.options.clone().unwrap_or_default();
    refuse(clone, &options)?;
    let target = &clone.spec.target;
    let custom = clone.spec.customization.clone().unwrap_or_default();
    let mut spec = match source {
        Source::Machine { name, spec, snapshot } => {
            of_machine(target, &options, &custom, name, spec, snapshot.as_ref())?
        }
        Source::Image(image) => of_image(target, &options, &custom, image)?,
    };
    if let Some(placement) = &target.placement_ref {
        spec.placement_ref = Some(placement.clone());
    }
    if let Some(storage) = &options.storage {
        let placement = spec.placement.get_or_insert_default();
        if storage.datastore.is_some() {
            placement.datastore.clone_from(&storage.datastore);
        }
        if storage.folder.is_some() {
            placement.folder.clone_from(&storage.folder);
        }
    }
    if !target.networks.is_empty() {
        spec.networks.clone_from(&target.networks);
    }
    if !target.disks.is_empty() {
        spec.disks.clone_from(&target.disks);
    }
    for wanted in &custom.networks {
        address(&mut spec.networks, wanted)?;
    }
    if let Some(user_data) = &custom.user_data {
        spec.user_data = Some(user_data.clone());
    }
    if !custom.tags.is_empty() {
        spec.tags.clone_from(&custom.tags);
    }
    spec.power_state = Some(if options.power_on { PowerState::On } else { PowerState::Off });
    Ok(spec)
}

fn of_machine(
    target: &CloneTarget,
    options: &CloneOptions,
    custom: &Customization,
    name: &str,
    source: &VirtualMachineSpec,
    snapshot: Option<&String>,
) -> Result<VirtualMachineSpec, Blocker> {
    if source.managed_node.is_some() {
        return Err(Blocker::invalid("spec.source", "a node of a managed group cannot be copied"));
    }
    if let Some(provider) = &target.provider_ref
        && *provider != source.provider_ref
    {
        return Err(Blocker::invalid(
            "spec.target.providerRef",
            "a machine is copied on its own Provider: create a VMMigration to move it",
        ));
    }
    let class = target.class_ref.as_ref().map(|class| ObjectRef::local(&class.name));
    // A size that was given to the source goes with the source's class.
    let resources = if class.is_none() { source.resources.clone() } else { None };
    let cards = source.networks.iter().cloned().map(|card| NetworkRef {
        // Two machines with one address would disturb each other.
        ip_address: None,
        prefix: None,
        gateway: None,
        mac_address: None,
        ..card
    });
    Ok(VirtualMachineSpec {
        provider_ref: source.provider_ref.clone(),
        class_ref: class.or_else(|| source.class_ref.clone()),
        clone_from: Some(CloneFrom {
            vm_ref: LocalObjectRef::new(name),
            snapshot_ref: snapshot.map(LocalObjectRef::new),
            linked: options.type_ == CloneType::LinkedClone,
            hostname: custom.hostname.clone(),
            domain: custom.domain.clone(),
            time_zone: custom.time_zone.clone(),
        }),
        resources,
        // A disk that outlives the source stays the source's: the copy has a copy of it.
        disks: source
            .disks
            .iter()
            .cloned()
            .map(|disk| DiskSpec { disk_ref: None, ..disk })
            .collect(),
        networks: cards.collect(),
        placement: source.placement.clone().map(|placement| Placement { host: None, ..placement }),
        tags: source.tags.clone(),
        ..VirtualMachineSpec::default()
    })
}

fn of_image(
    target: &CloneTarget,
    options: &CloneOptions,
    custom: &Customization,
    image: &ObjectRef,
) -> Result<VirtualMachineSpec, Blocker> {
    let Some(provider) = target.provider_ref.clone() else {
        return Err(Blocker::invalid(
            "spec.target.providerRef",
            "an image is on no Provider: name one",
        ));
    };
    let Some(class) = &target.class_ref else {
        return Err(Blocker::invalid(
            "spec.target.classRef",
            "an image has no size: name a VMClass",
        ));
    };
    if options.type_ == CloneType::LinkedClone {
        return Err(Blocker::unsupported(
            "spec.options.type",
            "whether machines share an image's disk is said by the VMImage: use FullClone",
        ));
    }
    if custom.time_zone.is_some() {
        return Err(Blocker::unsupported(
            "spec.customization.timeZone",
            "a machine from an image gets it from userData",
        ));
    }
    let hostname = custom.hostname.as_ref().map(|name| match &custom.domain {
        Some(domain) => format!("{name}.{domain}"),
        None => name.clone(),
    });
    if hostname.is_none() && custom.domain.is_some() {
        return Err(Blocker::invalid(
            "spec.customization.domain",
            "it goes with a hostname: set that too",
        ));
    }
    let meta_data = hostname.map(|name| MetaData {
        cloud_init: Some(GuestData {
            inline: Some(format!("local-hostname: {name}\n")),
            ..GuestData::default()
        }),
    });
    Ok(VirtualMachineSpec {
        provider_ref: provider,
        class_ref: Some(ObjectRef::local(&class.name)),
        image_ref: Some(image.clone()),
        meta_data,
        ..VirtualMachineSpec::default()
    })
}

/// Gives a card what is said of it.
fn address(cards: &mut [NetworkRef], wanted: &NetworkCustomization) -> Result<(), Blocker> {
    let NetworkCustomization { name, dhcp, ip_address, subnet_mask, gateway, dns, mac_address } =
        wanted;
    let field = format!("spec.customization.networks[{name}]");
    let Some(card) = cards.iter_mut().find(|card| card.name == *name) else {
        return Err(Blocker::invalid(&field, "the copy has no card of that name"));
    };
    if *dhcp == Some(true) {
        if ip_address.is_some() {
            return Err(Blocker::invalid(&field, "it is either dhcp or an ipAddress"));
        }
        (card.ip_address, card.prefix, card.gateway) = (None, None, None);
    }
    if ip_address.is_some() {
        card.ip_address.clone_from(ip_address);
    }
    if let Some(mask) = subnet_mask {
        let bits = mask.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits).ok();
        let bits = bits.filter(|bits| bits.leading_ones() + bits.trailing_zeros() == 32);
        let Some(bits) = bits.filter(|bits| *bits != 0) else {
            return Err(Blocker::invalid(
                &format!("{field}.subnetMask"),
                "this is no mask of a network",
            ));
        };
        card.prefix = i32::try_from(bits.leading_ones()).ok();
    }
    if gateway.is_some() {
        card.gateway.clone_from(gateway);
    }
    if !dns.is_empty() {
        card.dns = Some(dns.join(","));
    }
    if mac_address.is_some() {
        card.mac_address.clone_from(mac_address);
    }
    Ok(())
}

/// What would make another machine than was asked for.
fn refuse(clone: &VMClone, options: &CloneOptions) -> Result<(), Blocker> {
    let CloneSource { template_ref, .. } = &clone.spec.source;
    if template_ref.is_some() {
        return Err(Blocker::unserved("spec.source.templateRef"));
    }
    if options.type_ == CloneType::InstantClone {
        return Err(Blocker::unserved("spec.options.type: InstantClone"));
    }
    if options.include_snapshots {
        return Err(Blocker::unserved("spec.options.includeSnapshots"));
    }
    if let Some(storage) = &options.storage {
        let give = "the VMClass of the copy says that in diskDefaults";
        if storage.storage_class.is_some() {
            return Err(Blocker::unsupported("spec.options.storage.storageClass", give));
        }
        if storage.disk_format.is_some() {
            return Err(Blocker::unsupported("spec.options.storage.diskFormat", give));
        }
    }
    if let Some(custom) = &clone.spec.customization {
        if custom.sysprep.as_ref().is_some_and(|sysprep| sysprep.enabled) {
            return Err(Blocker::unserved("spec.customization.sysprep"));
        }
        if !custom.guest_commands.is_empty() {
            return Err(Blocker::unserved("spec.customization.guestCommands"));
        }
        if !custom.certificates.is_empty() {
            return Err(Blocker::unserved("spec.customization.certificates"));
        }
    }
    let own = clone.metadata.namespace.as_ref();
    if clone.spec.target.namespace.is_some() && clone.spec.target.namespace.as_ref() != own {
        return Err(Blocker::unsupported(
            "spec.target.namespace",
            "a copy is made in the namespace of its VMClone, where who may make one is decided",
        ));
    }
    let reserved =
        |key: &&String| key.starts_with("sutler.dev/") || key.starts_with("virtrigaud.io/");
    let keys = clone.spec.target.annotations.keys().chain(clone.spec.target.labels.keys());
    if let Some(key) = { keys }.find(reserved) {
        return Err(Blocker::invalid(
            "spec.target",
            &format!("the label or annotation {key} is not for people to set on a copy"),
        ));
    }
    for (field, duration) in durations(options) {
        duration.to_std().map_err(|error| Blocker::invalid(field, &error.to_string()))?;
    }
    Ok(())
}

fn durations(options: &CloneOptions) -> Vec<(&'static str, &sutler_api::duration::Duration)> {
    let mut all = vec![("spec.options.timeout", &options.timeout)];
    if let Some(retry) = &options.retry_policy {
        all.push(("spec.options.retryPolicy.retryDelay", &retry.retry_delay));
    }
    all
}

/// What makes no difference here: it is said rather than refused.
pub(crate) fn without_effect(clone: &VMClone) -> Vec<&'static str> {
    let Some(options) = &clone.spec.options else { return Vec::new() };
    let mut fields = Vec::new();
    if options.parallel {
        fields.push("spec.options.parallel");
    }
    if options.performance.is_some() {
        fields.push("spec.options.performance");
    }
    if let Some(storage) = &options.storage {
        if storage.enable_compression {
            fields.push("spec.options.storage.enableCompression");
        }
        if !storage.prefer_thin_provisioning {
            fields.push("spec.options.storage.preferThinProvisioning");
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn clone(spec: Value) -> VMClone {
        let mut whole = json!({
            "source": { "vmRef": { "name": "web" } }, "target": { "name": "copy" },
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMClone",
            "metadata": { "name": "c", "namespace": "ns", "uid": "u" }, "spec": whole,
        }))
        .unwrap()
    }

    fn machine() -> Source {
        let spec = json!({
            "providerRef": { "name": "sim" }, "classRef": { "name": "small" },
            "imageRef": { "name": "debian" }, "resources": { "cpu": 2 },
            "networks": [{ "name": "lan", "ipAddress": "192.0.2.1", "prefix": 24,
                "macAddress": "52:54:00:00:00:01" }],
            "disks": [{ "name": "data", "sizeGiB": 5 }],
        });
        let spec = Box::new(serde_json::from_value(spec).unwrap());
        Source::Machine { name: "web".to_owned(), spec, snapshot: None }
    }

    #[test]
    fn a_copy_has_its_sources_shape_and_not_its_addresses() {
        let copy = spec(&clone(json!({})), &machine()).unwrap();
        assert_eq!(copy.image_ref, None);
        assert_eq!(copy.clone_from.unwrap().vm_ref.name, "web");
        assert_eq!(copy.disks.len(), 1);
        assert_eq!((&copy.networks[0].ip_address, &copy.networks[0].mac_address), (&None, &None));
        assert_eq!(copy.power_state, Some(PowerState::Off));
        assert!(copy.resources.is_some());
        let other = json!({ "target": { "name": "copy", "classRef": { "name": "large" } } });
        assert_eq!(spec(&clone(other), &machine()).unwrap().resources, None);
    }

    #[test]
    fn customisation_reaches_the_record() {
        let copy = clone(json!({
            "options": { "type": "LinkedClone", "powerOn": true },
            "customization": {
                "hostname": "two", "domain": "example.org", "tags": ["blue"],
                "networks": [{ "name": "lan", "ipAddress": "192.0.2.7",
                    "subnetMask": "255.255.255.128", "dns": ["192.0.2.53", "192.0.2.54"] }],
                "userData": { "cloudInit": { "inline": "#cloud-config\n" } },
            },
        }));
        let copy = spec(&copy, &machine()).unwrap();
        let from = copy.clone_from.unwrap();
        assert!(from.linked);
        assert_eq!(
            (from.hostname.as_deref(), from.domain.as_deref()),
            (Some("two"), Some("example.org"))
        );
        let card = &copy.networks[0];
        assert_eq!((card.ip_address.as_deref(), card.prefix), (Some("192.0.2.7"), Some(25)));
        assert_eq!(card.dns.as_deref(), Some("192.0.2.53,192.0.2.54"));
        assert!(copy.user_data.is_some() && copy.tags == ["blue"]);
    }

    #[test]
    fn an_image_becomes_a_machine_like_any_other() {
        let image = Source::Image(ObjectRef::local("debian"));
        let of = |target: Value, custom: Value| {
            spec(&clone(json!({ "target": target, "customization": custom })), &image)
        };
        let target = json!({ "name": "copy", "providerRef": { "name": "sim" },
            "classRef": { "name": "small" } });
        let made = of(target.clone(), json!({ "hostname": "two" })).unwrap();
        assert_eq!(made.clone_from, None);
        let data = made.meta_data.unwrap().cloud_init.unwrap().inline.unwrap();
        assert_eq!(data, "local-hostname: two\n");
        assert!(
            of(json!({ "name": "copy" }), json!({})).unwrap_err().message.contains("providerRef")
        );
        let zone = of(target, json!({ "timeZone": "UTC" })).unwrap_err();
        assert!(zone.message.contains("timeZone"));
    }

    #[test]
    fn what_cannot_be_carried_out_is_named() {
        for (part, field) in [
            (json!({ "options": { "type": "InstantClone" } }), "spec.options.type"),
            (json!({ "options": { "includeSnapshots": true } }), "includeSnapshots"),
            (json!({ "options": { "storage": { "storageClass": "x" } } }), "storageClass"),
            (json!({ "options": { "storage": { "diskFormat": "thin" } } }), "diskFormat"),
            (json!({ "options": { "timeout": "soon" } }), "spec.options.timeout"),
            (json!({ "customization": { "sysprep": { "enabled": true } } }), "sysprep"),
            (
                json!({ "customization": { "guestCommands": [{ "command": "x" }] } }),
                "guestCommands",
            ),
            (json!({ "customization": { "certificates": [{ "name": "x" }] } }), "certificates"),
            (json!({ "customization": { "networks": [{ "name": "wan" }] } }), "networks[wan]"),
            (json!({ "target": { "name": "c", "namespace": "other" } }), "spec.target.namespace"),
            (
                json!({ "target": { "name": "c", "labels": { "sutler.dev/x": "y" } } }),
                "sutler.dev/x",
            ),
            (json!({ "target": { "name": "c", "providerRef": { "name": "o" } } }), "providerRef"),
            (json!({ "source": { "templateRef": { "name": "t" } } }), "templateRef"),
        ] {
            let blocker = spec(&clone(part.clone()), &machine()).unwrap_err();
            assert!(blocker.failed && blocker.message.contains(field), "{part}: {blocker:?}");
        }
        let idle = clone(json!({ "options": { "parallel": true, "performance": {} } }));
        assert_eq!(without_effect(&idle).len(), 2);
    }
}
