//! Making plain machines. VPSie answers that it was taken, and no more.

use std::sync::Arc;

use sutler_provider::{
    Accepted, Class, CreateRequest, Error, Firmware, Image, Nic, Placement, Result, check,
};

use super::{Inner, capabilities::NAME_LIMIT, plans, proof};
use crate::client::NewVm;

impl Inner {
    pub(super) async fn create(self: &Arc<Self>, request: &CreateRequest) -> Result<Accepted> {
        if request.disks.iter().any(|disk| disk.kept.is_some()) {
            return Err(Error::unsupported("VPSie has no disks that outlive their machines"));
        }
        check::request(request, NAME_LIMIT)?;
        match &request.managed_node {
            Some(node) => self.add_node(request, node).await,
            None => self.create_vm(request).await,
        }
    }

    async fn create_vm(self: &Arc<Self>, request: &CreateRequest) -> Result<Accepted> {
        let vm = self.wish(request).await?;
        let name = &request.name;
        // One at a time for a name: what is being made shows only in a list of its own, under its name.
        let _turn = self.turns.at(format!("name {name}")).await?;
        let pending = self.api.list_pending().await?;
        if pending.iter().any(|pending| pending.hostname.as_ref() == Some(name)) {
            tracing::info!(name, "it is being made already");
            return Ok(Accepted::default());
        }
        match request.power_on {
            // Another of this name may have been meant to be off.
            true => self.off.forget(name),
            false => self.want_off(name),
        }
        let answer = self.api.create_vm(&vm).await;
        if let Err(error) = &answer
            && error.kind().left() == sutler_provider::Left::Nothing
        {
            self.off.forget(name);
        }
        answer.map(|()| Accepted::default())
    }

    /// What VPSie is asked for. What it has no place for is refused by name.
    async fn wish(&self, request: &CreateRequest) -> Result<NewVm> {
        let CreateRequest {
            owner,
            name,
            // VPSie has one name for a machine and its guest, and it must be the one that is looked for.
            hostname: _,
            class,
            image,
            nics,
            disks,
            user_data,
            ignition,
            meta_data,
            placement,
            tags,
            power_on: _,
            managed_node: _,
        } = request;
        let Some(class) = class else {
            return Err(Error::invalid("spec.classRef", "a machine on VPSie needs a class"));
        };
        let Some(image) = image else {
            return Err(Error::invalid("spec.imageRef", "a machine on VPSie needs an image"));
        };
        if let Some(disk) = disks.first() {
            let why = format!("VPSie's machines have one disk, and no room for {:?}", disk.name);
            return Err(Error::invalid("spec.disks", why));
        }
        if *ignition {
            return Err(Error::invalid("spec.userData.ignition", "VPSie takes cloud-init alone"));
        }
        if meta_data.is_some() {
            return Err(Error::invalid("spec.metaData", "VPSie has no place for it"));
        }
        plain_class(class)?;
        plain_cards(nics)?;
        let user_data = match user_data {
            None => None,
            Some(bytes) => Some(String::from_utf8(bytes.clone()).map_err(|_| {
                Error::invalid("spec.userData", "VPSie takes text, and this is none")
            })?),
        };
        let datacenter = self.datacenter(placement)?;
        Ok(NewVm {
            hostname: name.clone(),
            plan: self.plan(class, &datacenter).await?,
            image: image_id(image)?,
            datacenter,
            project: self.settings.project.clone(),
            ssh_keys: self.settings.ssh_keys.clone(),
            script: self.settings.script.clone(),
            user_data,
            tags: tags.clone(),
            notes: proof::notes(owner),
        })
    }

    fn datacenter(&self, placement: &Placement) -> Result<String> {
        let Placement {
            cluster,
            host,
            datastore,
            storage_pod,
            folder,
            resource_pool,
            region,
            zone,
        } = placement;
        let others = [
            ("cluster", cluster),
            ("host", host),
            ("datastore", datastore),
            ("storagePod", storage_pod),
            ("folder", folder),
            ("resourcePool", resource_pool),
            ("zone", zone),
        ];
        for (name, value) in others {
            if value.is_some() {
                let why = "VPSie has nothing of the kind: a region is a data centre's ID";
                return Err(Error::invalid(format!("spec.placement.{name}"), why));
            }
        }
        region.clone().or_else(|| self.settings.datacenter.clone()).ok_or_else(|| {
            let why = "no data centre is named, here or in the Provider's spec.options.datacenter";
            Error::invalid("spec.placement.region", why)
        })
    }
}

/// Refuses what VPSie's sizes have no place for.
fn plain_class(class: &Class) -> Result<()> {
    let Class {
        cpu: _,
        memory_mib: _,
        gpu,
        firmware,
        root_gib: _,
        disk_type,
        storage,
        iops,
        // What is in the guest is the image's.
        guest_tools: _,
        profiles,
        extra,
    } = class;
    let refused =
        |field: &str, why: &str| Err(Error::invalid(format!("spec.classRef: {field}"), why));
    if gpu.is_some() {
        return refused("gpu", "VPSie has no graphics cards");
    }
    if *firmware != Firmware::Bios {
        return refused("firmware", "VPSie does not say how machines boot: leave it at BIOS");
    }
    if disk_type.as_deref().is_some_and(|type_| !type_.eq_ignore_ascii_case("thin")) {
        return refused("diskDefaults.type", "VPSie has one type of disk: leave it at thin");
    }
    if storage.is_some() || iops.is_some() {
        return refused("diskDefaults", "VPSie has neither storage classes nor limits of I/O");
    }
    if let Some(name) = profiles.keys().next() {
        return refused(name, "VPSie has no such settings");
    }
    if let Some(name) = extra.keys().find(|name| *name != plans::EXTRA) {
        let why = format!("{name:?} is not known: there is {}", plans::EXTRA);
        return refused("extraConfig", &why);
    }
    Ok(())
}

/// A machine has one card, in VPSie's network, about which nothing can be said.
fn plain_cards(nics: &[Nic]) -> Result<()> {
    for (index, nic) in nics.iter().enumerate() {
        let field = format!("spec.networks[{}]", nic.name);
        if index > 0 {
            return Err(Error::invalid(field, "VPSie's machines have one card"));
        }
        let plain = Nic { name: nic.name.clone(), ..Nic::default() };
        if *nic != plain {
            let why = "VPSie gives a card its network and address: name the card alone, or none";
            return Err(Error::invalid(field, why));
        }
    }
    Ok(())
}

/// The ID of an operating system.
fn image_id(image: &Image) -> Result<String> {
    let Image {
        name: _,
        id,
        template,
        path,
        url,
        format,
        checksum,
        storage,
        linked,
        take_over,
        source: _,
    } = image;
    let foreign = path.is_some()
        || url.is_some()
        || format.is_some()
        || checksum.is_some()
        || storage.is_some()
        || *linked
        || *take_over;
    let named = id.as_ref().or(template.as_ref()).filter(|id| !id.is_empty());
    match named {
        Some(id) if !foreign => Ok(id.clone()),
        _ => Err(Error::invalid(
            "spec.imageRef",
            "VPSie makes machines of its own operating systems alone: give the image the source \
             custom: {template: ID}, and no more",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_class_cannot_have_is_refused_by_name() {
        let class = || Class::new(1, 512);
        assert!(plain_class(&class()).is_ok());
        let thin = Class { disk_type: Some("Thin".to_owned()), ..class() };
        assert!(plain_class(&thin).is_ok());
        let extra = |key: &str| [(key.to_owned(), "x".to_owned())].into();
        assert!(plain_class(&Class { extra: extra(plans::EXTRA), ..class() }).is_ok());
        for (class, word) in [
            (Class { gpu: Some((1, None, None)), ..class() }, "gpu"),
            (Class { firmware: Firmware::Uefi, ..class() }, "firmware"),
            (Class { disk_type: Some("thick".to_owned()), ..class() }, "diskDefaults.type"),
            (Class { storage: Some("fast".to_owned()), ..class() }, "diskDefaults"),
            (Class { iops: Some(5), ..class() }, "diskDefaults"),
            (Class { extra: extra("libvirt.bus"), ..class() }, "extraConfig"),
        ] {
            let error = plain_class(&class).unwrap_err();
            assert!(error.field().unwrap().contains(word), "{error:?}");
        }
    }

    #[test]
    fn images_are_named_by_their_ids() {
        let image =
            |template: &str| Image { template: Some(template.to_owned()), ..Image::default() };
        assert_eq!(image_id(&image("os-1")).unwrap(), "os-1");
        for wrong in [
            Image::default(),
            image(""),
            Image { url: Some("https://x".to_owned()), ..image("os-1") },
            Image { linked: true, ..image("os-1") },
            Image { take_over: true, ..image("os-1") },
        ] {
            assert_eq!(image_id(&wrong).unwrap_err().field(), Some("spec.imageRef"));
        }
    }

    #[test]
    fn a_card_has_a_name_and_no_more() {
        let nic = |name: &str| Nic { name: name.to_owned(), ..Nic::default() };
        assert!(plain_cards(&[]).is_ok() && plain_cards(&[nic("eth0")]).is_ok());
        assert!(plain_cards(&[nic("eth0"), nic("eth1")]).is_err());
        assert!(plain_cards(&[Nic { vlan: Some(3), ..nic("eth0") }]).is_err());
    }
}
