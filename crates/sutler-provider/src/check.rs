//! What no hypervisor takes: checks that providers have in common. Each refuses with the field of the
//! record that has to change.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{
    error::{Error, Result},
    request::{Class, CreateRequest, Disk, Nic},
};

/// The name of a machine's first disk.
pub const ROOT_DISK: &str = "root";

/// Refuses requests that can never work, whatever the platform.
pub fn request(request: &CreateRequest, name_limit: usize) -> Result<()> {
    name(&request.name, name_limit)?;
    request.class.as_ref().map_or(Ok(()), size)?;
    disks(&request.disks)?;
    cards(&request.nics)
}

/// Refuses names that are no DNS names, or too long.
pub fn name(name: &str, limit: usize) -> Result<()> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > limit {
        let why = format!("{name:?} is longer than {limit} characters");
        return Err(Error::invalid("metadata.name", why));
    }
    if !name.split('.').all(label) {
        return Err(Error::invalid("metadata.name", format!("{name:?} is no DNS name")));
    }
    Ok(())
}

/// The field of a disk's size.
pub fn disk_size(name: &str) -> String {
    format!("spec.disks[{name}].sizeGiB")
}

/// The field of a disk's key.
pub fn disk_kept(index: usize) -> String {
    format!("disks[{index}].kept")
}

fn size(class: &Class) -> Result<()> {
    if class.cpu == 0 {
        return Err(Error::invalid("spec.resources.cpu", "a machine needs a CPU"));
    }
    if class.memory_mib == 0 {
        return Err(Error::invalid("spec.resources.memoryMiB", "a machine needs memory"));
    }
    if class.root_gib == Some(0) {
        return Err(Error::invalid(disk_size(ROOT_DISK), "a disk needs a size"));
    }
    Ok(())
}

fn disks(disks: &[Disk]) -> Result<()> {
    let mut names = BTreeSet::from([ROOT_DISK]);
    let mut keys = BTreeSet::new();
    for (index, disk) in disks.iter().enumerate() {
        if disk.name.is_empty() || !names.insert(&disk.name) {
            let why = format!("{:?} is empty, or given twice", disk.name);
            return Err(Error::invalid("spec.disks", why));
        }
        if disk.size_gib == 0 {
            return Err(Error::invalid(disk_size(&disk.name), "a disk needs a size"));
        }
        let Some(key) = &disk.kept else { continue };
        if key.0.is_empty() || !keys.insert(key) {
            let why = format!("{:?} is empty, or given twice", key.0);
            return Err(Error::invalid(disk_kept(index), why));
        }
    }
    Ok(())
}

fn cards(nics: &[Nic]) -> Result<()> {
    let mut names = BTreeSet::new();
    for nic in nics {
        if nic.name.is_empty() || !names.insert(&nic.name) {
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
    Ok(())
}
