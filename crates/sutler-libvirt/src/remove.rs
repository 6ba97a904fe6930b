//! Destroying machines: first what they are made of, then what says whose that was.

use std::collections::BTreeSet;

use sutler_provider::{DeleteRequest, Error, ErrorKind, Result, Started};
use uuid::Uuid;
use virt::{connect::Connect, domain::Domain};

use crate::{
    domain::Seen,
    fault::{Done, unless},
    find,
    host::Libvirt,
    names, storage,
};

/// Destroys a machine, if it is proven to be the owner's. One that is not there is no error.
pub(crate) async fn delete(host: &Libvirt, request: DeleteRequest) -> Result<Started> {
    let DeleteRequest { id, proof } = request;
    let (machine, given) = (id.clone(), proof.clone());
    let look = host.0.link.look(move |connect| {
        let Some((_, seen)) = find::by_id(connect, &machine)? else { return Ok(None) };
        find::check(&machine, &seen.mark, &given)?;
        Ok(Uuid::parse_str(&seen.uuid).ok())
    });
    let Some(uuid) = look.await? else { return Ok(Started::default()) };
    let remover = host.clone();
    let task = host.0.tasks.begin(&format!("delete/{uuid}"), move |progress| async move {
        progress.say(None, "waiting for what is being done to it");
        let _turn = remover.0.locks.take(uuid.to_string()).await;
        progress.say(Some(10), "removing it");
        let (machine, given) = (id.clone(), proof.clone());
        let look = remover.0.link.look(move |connect| {
            let Some((_, seen)) = find::by_id(connect, &machine)? else { return Ok(false) };
            find::check(&machine, &seen.mark, &given)?;
            Ok(true)
        });
        if look.await? {
            all(&remover, uuid).await?;
        }
        Ok(None)
    });
    Ok(Started { task: Some(task) })
}

/// Removes a machine of ours with all that was made for it. The caller has its turn at it.
pub(crate) async fn all(host: &Libvirt, uuid: Uuid) -> Result<()> {
    host.0.link.change_in_task(move |connect| remove(connect, uuid)).await?;
    host.0.addresses.forget(uuid);
    Ok(())
}

fn remove(connect: &Connect, uuid: Uuid) -> Done {
    let Some((domain, seen)) = find::by_uuid(connect, uuid)? else {
        return storage::remove_all(connect, &names::of_machine(uuid));
    };
    stop(&domain)?;
    for path in own_disks(&seen) {
        if let Some(volume) = storage::at_path_or_new(connect, &path)? {
            unless(volume.delete(0), &[ErrorKind::NotFound])?;
        } else if let Some(pool) = storage::pool_at(&storage::stopped(connect)?, &path) {
            // What cannot be seen may still be there, and would be nobody's.
            let why = format!("storage pool {pool:?}, which has its disk, is not started");
            return Err(Error::unavailable(why).into());
        }
    }
    storage::remove_all(connect, &names::of_machine(uuid))?;
    undefine(&domain)
}

/// Switches a domain off at once.
pub(crate) fn stop(domain: &Domain) -> Done {
    match domain.is_active()? {
        // It may end by itself in between.
        true => unless(domain.destroy(), &[ErrorKind::Conflict, ErrorKind::NotFound]),
        false => Ok(()),
    }
}

/// The paths of disks that go with a machine: those that are noted in it, and do not outlive it. What
/// somebody plugged in by hand is theirs.
fn own_disks(seen: &Seen) -> BTreeSet<String> {
    seen.disks
        .iter()
        .filter(|disk| seen.mark.disks.get(&disk.device).is_some_and(|mark| mark.kept.is_none()))
        .filter_map(|disk| disk.path.clone())
        .collect()
}

fn undefine(domain: &Domain) -> Done {
    let flags = virt_sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | virt_sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | virt_sys::VIR_DOMAIN_UNDEFINE_NVRAM;
    match unless(domain.undefine_flags(flags), &[ErrorKind::NotFound]) {
        // The driver for tests knows none of these.
        Err(fault) if fault.error.kind() == ErrorKind::Unsupported => {
            unless(domain.undefine(), &[ErrorKind::NotFound])
        }
        Err(fault) if fault.error.kind() == ErrorKind::Invalid => {
            let flags = virt_sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
                | virt_sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA;
            unless(domain.undefine_flags(flags), &[ErrorKind::NotFound])
        }
        done => done,
    }
}

/// What is said of a machine that was removed while something was done to it.
pub(crate) fn gone(uuid: Uuid) -> Error {
    Error::not_found(format!("machine {uuid} was removed in the meantime"))
}
