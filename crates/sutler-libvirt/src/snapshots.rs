//! Snapshots, which QEMU keeps inside the machine's own disks.
//!
//! QEMU cannot save the disks of a running guest without its memory in one place. A snapshot of the disks
//! alone is therefore taken with memory, which is thrown away when the machine goes back to it: the guest
//! then starts from the disks as they were.
//!
//! Of a machine that boots by UEFI QEMU keeps nothing while it runs, because its firmware's settings are in
//! no disk. While it is off its disks are kept, and those settings stay as they are when it goes back.

use sutler_provider::{
    Error, ErrorKind, MachineId, Power, Proof, Result, SnapshotId, SnapshotRequest, Snapshotted,
    Started,
};
use uuid::Uuid;
use virt::{connect::Connect, domain::Domain, domain_snapshot::DomainSnapshot};

use crate::{
    domain::Seen,
    fault::{Done, Fault, if_there, unless},
    find, guest,
    host::Libvirt,
    mark::Mark,
    remove,
    show::{self, DISKS_ALONE},
    xml::element,
};

/// Takes a snapshot; a second one of this name is the first.
pub(crate) async fn take(host: &Libvirt, request: SnapshotRequest) -> Result<Snapshotted> {
    if request.name.is_empty() || request.name.contains('/') || request.name.starts_with('.') {
        let why =
            format!("{:?} is no name: it has no / and does not begin with a dot", request.name);
        return Err(Error::invalid("name", why));
    }
    let id = SnapshotId(request.name.clone());
    let asked = request.clone();
    let look = host.0.link.look(move |connect| {
        let (domain, seen) = find::proven(connect, &asked.id, &asked.proof)?;
        if find_snapshot(&domain, &asked.name)?.is_some() {
            return Ok((seen.uuid, true));
        }
        possible(&domain, &seen, asked.memory)?;
        Ok((seen.uuid, false))
    });
    let (uuid, there) = look.await?;
    if there {
        return Ok(Snapshotted { id: Some(id), task: None });
    }
    let (taker, told) = (host.clone(), id.0.clone());
    let task =
        host.0.tasks.begin(&format!("snapshot/{uuid}/{}", id.0), move |progress| async move {
            let _turn = taker.0.locks.take(uuid).await;
            progress.say(None, "saving");
            taker.0.link.long(move |connect| save(connect, &request)).await?;
            Ok(Some(told))
        });
    Ok(Snapshotted { id: Some(id), task: Some(task) })
}

/// Refuses what QEMU cannot keep.
fn possible(domain: &Domain, seen: &Seen, memory: bool) -> Done {
    if let Some(disk) = seen.disks.iter().find(|disk| disk.format.as_deref() == Some("raw")) {
        let why = format!("disk {} is raw, and only qcow2 holds snapshots", seen.disk_name(disk));
        return Err(Error::unsupported(why).into());
    }
    if !seen.uefi || show::power(domain)? == Power::Off {
        return Ok(());
    }
    let why = "it boots by UEFI, and QEMU keeps nothing of such a machine while it runs";
    Err(match memory {
        true => Error::unsupported(why).at("spec.snapshotConfig.includeMemory"),
        false => Error::conflict(format!("{why}: switch it off first")),
    }
    .into())
}

fn find_snapshot(domain: &Domain, name: &str) -> Done<Option<DomainSnapshot>> {
    if_there(Domain::lookup_snapshot_by_name(domain, name, 0))
}

fn save(connect: &Connect, request: &SnapshotRequest) -> Done {
    let (domain, seen) = find::proven(connect, &request.id, &request.proof)?;
    if find_snapshot(&domain, &request.name)?.is_some() {
        return Ok(());
    }
    possible(&domain, &seen, request.memory)?;
    let on = show::power(&domain)? != Power::Off;
    let alone = if request.memory { "" } else { DISKS_ALONE };
    let description = format!("{alone}{}", request.description.as_deref().unwrap_or_default());
    let xml = element("domainsnapshot")
        .child(element("name").text(&request.name))
        .child(element("description").text(description));
    // With its memory saved a guest finds its files as it left them.
    let frozen = on && request.quiesce && !request.memory;
    if frozen {
        guest::freeze(&domain)?;
    }
    let taken = domain.create_snapshot_xml(&xml.to_string(), 0);
    if frozen {
        guest::thaw(&domain)?;
    }
    taken.map(drop).map_err(Fault::from)
}

/// Deletes a snapshot. One that is not there is no error.
pub(crate) async fn delete(
    host: &Libvirt,
    id: &MachineId,
    proof: &Proof,
    snapshot: &SnapshotId,
) -> Result<Started> {
    let _turn = host.0.locks.take(id.0.clone()).await;
    let (id, proof, name) = (id.clone(), proof.clone(), snapshot.0.clone());
    host.0
        .link
        .long(move |connect| {
            // What a machine had went with it.
            let Some((domain, seen)) = find::by_id(connect, &id)? else { return Ok(()) };
            find::check(&id, &seen.mark, &proof)?;
            match find_snapshot(&domain, &name)? {
                Some(snapshot) => unless(snapshot.delete(0), &[ErrorKind::NotFound]),
                None => Ok(()),
            }
        })
        .await?;
    Ok(Started::default())
}

/// Puts a machine back to a snapshot.
pub(crate) async fn revert(
    host: &Libvirt,
    id: &MachineId,
    proof: &Proof,
    snapshot: &SnapshotId,
) -> Result<Started> {
    let (machine, given, name) = (id.clone(), proof.clone(), snapshot.0.clone());
    let look = host.0.link.look(move |connect| {
        let (domain, seen) = find::proven(connect, &machine, &given)?;
        match find_snapshot(&domain, &name)? {
            Some(_) => Ok(seen.uuid),
            None => Err(Error::not_found(format!("there is no snapshot {name:?}")).into()),
        }
    });
    let uuid = look.await?;
    let (host_, id, proof, name) = (host.clone(), id.clone(), proof.clone(), snapshot.0.clone());
    let task = host.0.tasks.begin(&format!("revert/{uuid}/{name}"), move |progress| async move {
        let _turn = host_.0.locks.take(uuid).await;
        progress.say(None, "going back");
        host_.0.link.long(move |connect| go_back(connect, &id, &proof, &name)).await?;
        Ok(None)
    });
    Ok(Started { task: Some(task) })
}

fn go_back(connect: &Connect, id: &MachineId, proof: &Proof, name: &str) -> Done {
    let (domain, before) = find::proven(connect, id, proof)?;
    let snapshot = find_snapshot(&domain, name)?
        .ok_or_else(|| Error::not_found(format!("there is no snapshot {name:?}")))?;
    let saved = show::snapshots(&domain)?.into_iter().find(|saved| saved.name == name);
    let memory = saved.is_some_and(|saved| saved.memory);
    let on = show::power(&domain)? != Power::Off;
    match memory {
        true => snapshot.revert(virt_sys::VIR_DOMAIN_SNAPSHOT_REVERT_FORCE)?,
        false => {
            // The guest must not run on from a memory that nobody asked to keep.
            let flags = virt_sys::VIR_DOMAIN_SNAPSHOT_REVERT_PAUSED
                | virt_sys::VIR_DOMAIN_SNAPSHOT_REVERT_FORCE;
            let paused = match snapshot.revert(flags).map_err(Fault::from) {
                // A snapshot of a machine that was off has nothing to pause.
                Err(fault) if !fault.connection => {
                    snapshot.revert(virt_sys::VIR_DOMAIN_SNAPSHOT_REVERT_FORCE).map_err(Fault::from)
                }
                done => done,
            };
            paused?;
            remove::stop(&domain)?;
            if on {
                unless(domain.create(), &[ErrorKind::Conflict])?;
            }
        }
    }
    // What is noted went back too. Whose the machine is did not.
    let uuid = Uuid::parse_str(&before.uuid).unwrap_or_default();
    let (domain, after) = find::by_uuid(connect, uuid)?.ok_or_else(|| remove::gone(uuid))?;
    let mark =
        Mark { owner: before.mark.owner, making: None, tags: before.mark.tags, ..after.mark };
    find::note(&domain, &mark)
}
