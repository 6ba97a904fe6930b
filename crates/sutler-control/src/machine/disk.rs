//! The disks that a record's machine should have, and the VMDisks among them.

use std::time::Duration;

use sutler_api::{
    infra::{DiskSpec, ExpandPolicy, VirtualMachine},
    names::reasons,
    refs::LocalObjectRef,
};
use sutler_provider::{Capabilities, Disk, DiskKey};

use kube::ResourceExt as _;

use super::resolve::to_map;
use crate::{
    context::Context,
    disks,
    fleet::Key,
    plan::{Blocker, Record},
};

/// The pause after which a disk that another machine has is looked at again, should no event tell of
/// it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The disks of a record's machine. A VMDisk among them has been given to the record.
pub(super) fn all(
    context: &Context,
    vm: &VirtualMachine,
    record: &Record,
    capabilities: &Capabilities,
) -> Result<Vec<Disk>, Blocker> {
    let mut all = Vec::with_capacity(vm.spec.disks.len());
    for wanted in &vm.spec.disks {
        let mut disk = plain(wanted);
        if let Some(reference) = &wanted.disk_ref {
            let field = format!("spec.disks[{}].diskRef", wanted.name);
            let key = given(context, vm, record, capabilities, reference, &field)?;
            if all.iter().any(|other: &Disk| other.kept.as_ref() == Some(&key)) {
                return Err(Blocker::invalid(&field, "the same VMDisk stands here twice"));
            }
            disk.kept = Some(key);
        }
        all.push(disk);
    }
    Ok(all)
}

fn plain(disk: &DiskSpec) -> Disk {
    Disk {
        name: disk.name.clone(),
        size_gib: u64::try_from(disk.size_gib).unwrap_or(1),
        type_: disk.type_.as_str().to_owned(),
        storage: disk.storage_class.clone(),
        grow_online: disk.expand_policy == ExpandPolicy::Online,
        scsi: disk.scsi.as_ref().map(to_map).unwrap_or_default(),
        kept: None,
    }
}

/// The key of a VMDisk that was given to this record.
fn given(
    context: &Context,
    vm: &VirtualMachine,
    record: &Record,
    capabilities: &Capabilities,
    reference: &LocalObjectRef,
    field: &str,
) -> Result<DiskKey, Blocker> {
    if !capabilities.kept_disks {
        let message = "disks of this provider cannot outlive their machines";
        return Err(Blocker::unsupported(field, message));
    }
    let key = Key::new(&record.namespace, &reference.name);
    let disk = Context::cached(&context.disks, &key)
        .ok_or_else(|| Blocker::missing("VMDisk", field, &key))?;
    let on = |reference: &sutler_api::refs::ObjectRef| {
        Key::new(reference.namespace_or(&record.namespace), &reference.name)
    };
    if on(&disk.spec.provider_ref) != on(&vm.spec.provider_ref) {
        return Err(Blocker::invalid(field, "the VMDisk is on another Provider"));
    }
    let user = disk.status.as_ref().and_then(|status| status.vm_ref.as_ref());
    let waits = match user {
        Some(user) if user.uid == record.uid => {
            return Ok(disks::key_of(&disk.uid().unwrap_or_default()));
        }
        Some(user) => format!("VirtualMachine {} has VMDisk {}", user.name, reference.name),
        None if disk.metadata.deletion_timestamp.is_some() => {
            format!("VMDisk {} is being deleted", reference.name)
        }
        None => format!("VMDisk {} was not given to this machine yet", reference.name),
    };
    Err(Blocker::waits(reasons::WAITING, format!("{field}: {waits}"), LOOK_AGAIN))
}
