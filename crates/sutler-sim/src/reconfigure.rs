//! Changing a machine until it is as desired.

use sutler_provider::{DiskInfo, Error, Power, ReconfigureRequest, Result, Started, check};

use crate::{
    answer::Begun,
    hosts, kept,
    lifecycle::started,
    row::{Doing, Row},
    settings::Feature,
    state::State,
    txn::Txn,
    validate,
    work::{Step, exclusive},
};

/// Changes a machine; what is as desired already takes no work.
pub(crate) fn begin(txn: &mut Txn<'_>, request: &ReconfigureRequest) -> Result<Begun<Started>> {
    let mut row = txn.proven(&request.id, &request.proof)?;
    validate::request(txn.settings, &request.desired)?;
    let mut desired = row.clone();
    let changed = apply(txn, &mut desired, request)?;
    if !changed && row.work.is_none() && !row.broken {
        return Ok(started(None));
    }
    let takes = txn.settings.work.reconfigure;
    match exclusive(txn, &mut row, Doing::Reconfigure(Box::new(request.clone())), takes)? {
        Step::Later(work) => Ok(started(Some(work))),
        Step::Now => {
            desired.work = row.work;
            txn.put(desired);
            Ok(started(None))
        }
    }
}

/// Makes the row as desired, and says whether it was not.
pub(crate) fn apply(
    txn: &mut Txn<'_>,
    row: &mut Row,
    request: &ReconfigureRequest,
) -> Result<bool> {
    let before = row.clone();
    kept::free(txn.state, Some(row), &request.desired)?;
    resize(txn, row, request)?;
    let grown = disks(txn.state, row, request)?;
    if grown && row.machine.power != Power::Off && !txn.settings.can(Feature::DiskGrowthOnline) {
        return Err(off_first(row, "its disks"));
    }
    let desired = &request.desired;
    row.cards.retain(|card| !request.remove_nics.contains(&card.name));
    for nic in &desired.nics {
        match row.cards.iter_mut().find(|card| card.name == nic.name) {
            None => {
                let card = validate::card(txn, nic);
                row.cards.push(card);
            }
            Some(card) => {
                if let Some(network) = nic.network.as_ref().or(nic.bridge.as_ref()) {
                    card.network = Some(network.clone());
                }
                if let Some(mac) = &nic.mac {
                    card.mac = mac.clone();
                }
                if let Some(ip) = &nic.ip {
                    card.ips = vec![ip.clone()];
                }
            }
        }
    }
    row.machine.tags = desired.tags.clone();
    Ok(*row != before)
}

fn resize(txn: &Txn<'_>, row: &mut Row, request: &ReconfigureRequest) -> Result<()> {
    let Some(class) = &request.desired.class else { return Ok(()) };
    let old = (row.cpu(), row.memory_mib());
    let new = (class.cpu, class.memory_mib);
    if old == new {
        return Ok(());
    }
    if row.machine.power != Power::Off && !txn.settings.can(Feature::ReconfigureOnline) {
        return Err(off_first(row, "CPU and memory"));
    }
    hosts::resize(txn, row.machine.host.as_deref(), old, new)?;
    row.machine.cpu = Some(class.cpu);
    row.machine.memory_mib = Some(class.memory_mib);
    Ok(())
}

/// Grows, adds and removes disks; says whether one grew. A kept disk that is removed is only detached,
/// and one that is larger than it has to be stays so.
fn disks(state: &State, row: &mut Row, request: &ReconfigureRequest) -> Result<bool> {
    let desired = &request.desired;
    let mut disks = row.machine.disks.clone().unwrap_or_default();
    disks.retain(|disk| disk.name == "root" || !request.remove_disks.contains(&disk.name));
    let mut grown = false;
    let mut grow = |disk: &mut DiskInfo, size_gib: u64| {
        if size_gib < disk.size_gib {
            if disk.kept.is_some() {
                return Ok(());
            }
            let why = format!("the disk has {} GiB, and disks do not shrink", disk.size_gib);
            return Err(Error::invalid(check::disk_size(&disk.name), why));
        }
        grown |= size_gib > disk.size_gib;
        disk.size_gib = size_gib;
        Ok(())
    };
    if let Some(size_gib) = desired.class.as_ref().and_then(|class| class.root_gib)
        && let Some(root) = disks.iter_mut().find(|disk| disk.name == "root")
    {
        grow(root, size_gib.max(row.image_gib))?;
    }
    for (index, wanted) in desired.disks.iter().enumerate() {
        // A key and a name go together: neither another disk of the name, nor the disk by another one.
        let other = |disk: &&DiskInfo| {
            wanted.kept.is_some() && (disk.name == wanted.name) != (disk.kept == wanted.kept)
        };
        if let Some(other) = disks.iter().find(other) {
            let why =
                format!("its disk {:?} is in the way, and has to be removed first", other.name);
            return Err(Error::conflict(why).at(check::disk_kept(index)));
        }
        match disks.iter_mut().find(|disk| disk.name == wanted.name) {
            Some(found) => grow(found, wanted.size_gib)?,
            None => disks.push(kept::wanted(state, row, wanted)),
        }
    }
    row.machine.disks = Some(disks);
    Ok(grown)
}

fn off_first(row: &Row, what: &str) -> Error {
    Error::conflict(format!("machine {} must be off to change {what}", row.id()))
}
