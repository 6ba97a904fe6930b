//! Disks that outlive their machines. A volume's name holds its key, so there is one for each key in a
//! pool; whether a machine has it is read from the machines.

use std::collections::{BTreeMap, BTreeSet};

use sutler_provider::{Disk, DiskKey, Error, KeptDisk, MachineId, Result, Started};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;
use virt::connect::Connect;

use crate::{
    create::{From, Part},
    fault::Done,
    find,
    host::Libvirt,
    names,
    storage::{self, Pool},
    volume::{GIB, NewVolume},
};

/// The disk of a key, for this machine: the one that is there, wherever that is, or one to be made.
pub(crate) fn take(
    connect: &Connect,
    disk: &Disk,
    key: &DiskKey,
    into: &Pool,
    machine: Uuid,
) -> Done<Part> {
    let name = names::kept(key)?;
    let mut pool = into.name.clone();
    let mut path = into.path_of(&name);
    let mut bytes = disk.size_gib * GIB;
    if let Some((found, volume)) = locate(connect, &name)? {
        // A disk does not shrink: what asks for less has more.
        bytes = bytes.max(volume.bytes);
        pool = found;
        path = volume.path;
    }
    let holder = holders(connect)?.remove(&path).filter(|holder| *holder != machine.to_string());
    if let Some(holder) = holder {
        return Err(Error::conflict(format!("disk {key} is machine {holder}'s")).into());
    }
    let format = "qcow2".to_owned();
    let volume = NewVolume { name, format, bytes, thick: false, backing: None };
    Ok(Part {
        name: disk.name.clone(),
        pool,
        path,
        volume,
        from: From::Nothing,
        kept: Some(key.clone()),
    })
}

/// The pool and the volume of this name.
fn locate(connect: &Connect, name: &str) -> Done<Option<(String, crate::volume::Volume)>> {
    let look = |pool: &Pool| match pool.volume(name)? {
        Some(volume) => Ok(Some((pool.name.clone(), storage::describe(&volume)?))),
        None => Ok(None),
    };
    Ok(Pool::ask_all(connect, look)?.into_iter().flatten().next())
}

/// Which machine has the volume at a path.
fn holders(connect: &Connect) -> Done<BTreeMap<String, String>> {
    let mut holders = BTreeMap::new();
    for (_, seen) in find::all(connect)? {
        for path in seen.disks.iter().filter_map(|disk| disk.path.clone()) {
            holders.insert(path, seen.uuid.clone());
        }
    }
    Ok(holders)
}

impl Libvirt {
    /// Waits for its turn at each kept disk of these: whoever looks whether a machine has one, and gives
    /// it to another, does so alone. Taken in one order, so that nobody waits for another in a circle.
    pub(crate) async fn turns(&self, disks: &[Disk]) -> Result<Vec<OwnedMutexGuard<()>>> {
        let names: Result<BTreeSet<String>> =
            disks.iter().filter_map(|disk| disk.kept.as_ref()).map(names::kept).collect();
        let mut turns = Vec::new();
        for name in names? {
            turns.push(self.0.locks.take(name).await);
        }
        Ok(turns)
    }

    /// All disks that have a key.
    pub(crate) async fn kept(&self) -> Result<Vec<KeptDisk>> {
        self.0
            .link
            .look(|connect| {
                let holders = holders(connect)?;
                let all = Pool::ask_all(connect, storage::describe_all)?;
                let kept = all.into_iter().flatten().filter_map(|volume| {
                    Some(KeptDisk {
                        key: names::key_of(&volume.name)?,
                        size_gib: volume.gib(),
                        machine: holders.get(&volume.path).cloned().map(MachineId),
                        id: Some(volume.path),
                    })
                });
                Ok(kept.collect())
            })
            .await
    }

    /// Destroys a disk by its key, unless a machine has it.
    pub(crate) async fn remove_kept(&self, key: &DiskKey) -> Result<Started> {
        let name = names::kept(key)?;
        let _turn = self.0.locks.take(name.clone()).await;
        let key = key.clone();
        self.0
            .link
            .change(move |connect| {
                let Some((pool, volume)) = locate(connect, &name)? else { return Ok(()) };
                if let Some(holder) = holders(connect)?.remove(&volume.path) {
                    let why = format!("disk {key} is machine {holder}'s");
                    return Err(Error::conflict(why).into());
                }
                Pool::find(connect, &pool, "spec.disks")?.remove(&name)
            })
            .await?;
        Ok(Started::default())
    }
}
