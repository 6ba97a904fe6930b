//! Whose machines are: tokens that are taken off and written on.

use sutler_provider::{Error, MachineId, Owner, Proof, Result};

use crate::{find, host::Libvirt, mark::DiskMark, plan::ROOT};

/// Takes the token off a machine that is kept without a record.
pub(crate) async fn disown(host: &Libvirt, id: &MachineId, proof: &Proof) -> Result<()> {
    let _turn = host.0.locks.take(id.0.clone()).await;
    let (id, proof) = (id.clone(), proof.clone());
    host.0
        .link
        .change(move |connect| {
            let (domain, mut seen) = find::proven(connect, &id, &proof)?;
            seen.mark.owner = None;
            find::note(&domain, &seen.mark)
        })
        .await
}

/// Writes a token onto a machine that has none. The disks that it has become its own, and go with it.
pub(crate) async fn adopt(host: &Libvirt, id: &MachineId, owner: &Owner) -> Result<()> {
    let _turn = host.0.locks.take(id.0.clone()).await;
    let (id, owner) = (id.clone(), owner.clone());
    host.0
        .link
        .change(move |connect| {
            let found = find::by_id(connect, &id)?;
            let (domain, mut seen) =
                found.ok_or_else(|| Error::not_found(format!("there is no machine {id}")))?;
            if seen.mark.belongs_to(&owner) {
                return Ok(());
            }
            if seen.mark.owner.is_some() {
                let proof = Proof { owner, name: None };
                return find::check(&id, &seen.mark, &proof);
            }
            for (index, disk) in seen.disks.iter().enumerate() {
                let name = if index == 0 { ROOT.to_owned() } else { disk.device.clone() };
                let mark = DiskMark { name, kept: None };
                seen.mark.disks.entry(disk.device.clone()).or_insert(mark);
            }
            seen.mark.owner = Some((owner.token, owner.installation));
            find::note(&domain, &seen.mark)
        })
        .await
}
