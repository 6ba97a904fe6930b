//! What no hypervisor takes.

use std::{collections::BTreeSet, net::IpAddr};

use sutler_provider::{CreateRequest, Error, Image, Result};

use crate::{
    row::{Card, addresses, mac},
    settings::{Feature, Settings},
    txn::Txn,
};

/// Refuses requests that can never work.
pub(crate) fn check(settings: &Settings, request: &CreateRequest) -> Result<()> {
    name(settings, &request.name)?;
    if let Some(class) = &request.class {
        if class.cpu == 0 {
            return Err(Error::invalid("spec.resources.cpu", "a machine needs a CPU"));
        }
        if class.memory_mib == 0 {
            return Err(Error::invalid("spec.resources.memoryMiB", "a machine needs memory"));
        }
        if class.root_gib == Some(0) {
            return Err(Error::invalid("spec.disks[root].sizeGiB", "a disk needs a size"));
        }
    }
    let mut seen = BTreeSet::from(["root"]);
    let mut keys = BTreeSet::new();
    for (index, disk) in request.disks.iter().enumerate() {
        if disk.name.is_empty() || !seen.insert(&disk.name) {
            let why = format!("{:?} is empty, or given twice", disk.name);
            return Err(Error::invalid("spec.disks", why));
        }
        if disk.size_gib == 0 {
            return Err(Error::invalid(disk_size(&disk.name), "a disk needs a size"));
        }
        let Some(key) = &disk.kept else { continue };
        if !settings.can(Feature::KeptDisks) {
            let why = "this provider has no disks that outlive their machines";
            return Err(Error::unsupported(why).at(disk_kept(index)));
        }
        if key.0.is_empty() || !keys.insert(key) {
            let why = format!("{:?} is empty, or given twice", key.0);
            return Err(Error::invalid(disk_kept(index), why));
        }
    }
    let mut seen = BTreeSet::new();
    for nic in &request.nics {
        if nic.name.is_empty() || !seen.insert(&nic.name) {
            let why = format!("{:?} is empty, or given twice", nic.name);
            return Err(Error::invalid("spec.networks", why));
        }
        if let Some(ip) = &nic.ip
            && ip.parse::<IpAddr>().is_err()
        {
            let field = format!("spec.networks[{}].ipAddress", nic.name);
            return Err(Error::invalid(field, format!("{ip:?} is no address")));
        }
    }
    if request.managed_node.is_some() && !settings.can(Feature::ManagedNodes) {
        return Err(Error::unsupported("this provider cannot make nodes of managed groups"));
    }
    Ok(())
}

/// Refuses names that are no DNS names, or too long.
pub(crate) fn name(settings: &Settings, name: &str) -> Result<()> {
    let label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > settings.name_limit {
        let why = format!("{name:?} is longer than {} characters", settings.name_limit);
        return Err(Error::invalid("metadata.name", why));
    }
    if !name.split('.').all(label) {
        return Err(Error::invalid("metadata.name", format!("{name:?} is no DNS name")));
    }
    Ok(())
}

/// The field of a disk's size.
pub(crate) fn disk_size(name: &str) -> String {
    format!("spec.disks[{name}].sizeGiB")
}

/// The field of a disk's key.
pub(crate) fn disk_kept(index: usize) -> String {
    format!("disks[{index}].kept")
}

/// What an image is called on the platform, and how large it is; strict platforms know which exist.
pub(crate) fn image(txn: &Txn<'_>, image: &Image) -> Result<(String, u64)> {
    const DEFAULT_GIB: u64 = 10;
    let named = [&image.id, &image.template, &image.path, &image.url];
    let wanted = named.into_iter().flatten().next().unwrap_or(&image.name);
    let settings = txn.settings;
    if let Some(template) = settings.templates.iter().find(|template| template.name == *wanted) {
        return Ok((wanted.clone(), template.size_gib));
    }
    let prepared = txn
        .state
        .images
        .iter()
        .find(|(target, row)| row.ready && (*target == wanted || row.path == *wanted));
    if let Some((target, row)) = prepared {
        return Ok((target.clone(), row.size_gib));
    }
    if let Some(disk) = txn.state.imports.get(wanted).filter(|disk| disk.ready) {
        return Ok((wanted.clone(), disk.size_bytes.div_ceil(1 << 30)));
    }
    if settings.strict_templates {
        return Err(Error::not_found(format!("there is no template or image {wanted:?}")));
    }
    Ok((wanted.clone(), DEFAULT_GIB))
}

/// The network cards of a request, each with an address of its own.
pub(crate) fn cards(txn: &mut Txn<'_>, request: &CreateRequest) -> Vec<Card> {
    if request.nics.is_empty() {
        let number = txn.number();
        let ips = addresses(number, txn.settings.ipv6);
        return vec![Card { name: "eth0".to_owned(), mac: mac(number), network: None, ips }];
    }
    request.nics.iter().map(|nic| card(txn, nic)).collect()
}

/// One network card, with an address of its own.
pub(crate) fn card(txn: &mut Txn<'_>, nic: &sutler_provider::Nic) -> Card {
    let number = txn.number();
    let ips = match &nic.ip {
        Some(ip) => vec![ip.clone()],
        None => addresses(number, txn.settings.ipv6),
    };
    Card {
        name: nic.name.clone(),
        mac: nic.mac.clone().unwrap_or_else(|| mac(number)),
        network: nic.network.clone().or_else(|| nic.bridge.clone()),
        ips,
    }
}
