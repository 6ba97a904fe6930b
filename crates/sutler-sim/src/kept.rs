//! Disks that outlive their machines.
//!
//! Which machine has one is said by that machine's disks and nowhere else: whatever ends a machine
//! sets its kept disks free.

use sutler_provider::{
    CreateRequest, Disk, DiskInfo, DiskKey, Error, KeptDisk, Result, Started, check,
};

use crate::{
    answer::Begun,
    create::disk,
    lifecycle::started,
    row::{Doing, KeptRow, Row},
    state::{Op, State},
    txn::Txn,
};

/// Refuses kept disks that cannot be given to a machine: those that another one has, and those that
/// are going away.
pub(crate) fn free(state: &State, taker: Option<&Row>, request: &CreateRequest) -> Result<()> {
    for (index, disk) in request.disks.iter().enumerate() {
        let Some(key) = &disk.kept else { continue };
        let holder = state.holder(key).filter(|holder| taker.map(Row::id) != Some(holder));
        let why = if let Some(holder) = holder {
            format!("machine {holder} has the disk {key}")
        } else if state.kept.get(key).is_some_and(|kept| kept.work.is_some()) {
            format!("the disk {key} is being removed")
        } else {
            continue;
        };
        return Err(Error::conflict(why).at(check::disk_kept(index)));
    }
    Ok(())
}

/// A disk of a request as a machine will have it. A kept one is never smaller than it is already.
pub(crate) fn wanted(state: &State, row: &Row, wanted: &Disk) -> DiskInfo {
    let Some(key) = &wanted.kept else { return disk(row, &wanted.name, wanted.size_gib) };
    let there = state.kept.get(key);
    let size_gib = there.map_or(0, |kept| kept.size_gib).max(wanted.size_gib);
    let mut info = disk(row, &wanted.name, size_gib);
    info.kept = Some(key.clone());
    if let Some(kept) = there {
        show(&mut info, kept);
    }
    info
}

/// Brings the kept disks in line with a machine that has them. Those that are not there are made
/// here, so that work which is only planned makes none.
pub(crate) fn keep(txn: &mut Txn<'_>, row: &mut Row) {
    for info in row.machine.disks.iter_mut().flatten() {
        let Some(key) = &info.kept else { continue };
        let old = txn.state.kept.get(key).cloned();
        let new = match &old {
            Some(old) => KeptRow { size_gib: info.size_gib, ..old.clone() },
            None => KeptRow { number: txn.number(), size_gib: info.size_gib, work: None },
        };
        if old.as_ref() != Some(&new) {
            txn.apply(Op::Kept(key.clone(), Some(new.clone())));
        }
        show(info, &new);
    }
}

/// All kept disks.
pub(crate) fn list(state: &State) -> Vec<KeptDisk> {
    let show = |(key, kept): (&DiskKey, &KeptRow)| KeptDisk {
        key: key.clone(),
        size_gib: kept.size_gib,
        machine: state.holder(key).cloned(),
        id: Some(id(kept)),
    };
    state.kept.iter().map(show).collect()
}

/// Destroys a kept disk that no machine has. One that is not there is no error.
pub(crate) fn remove(txn: &mut Txn<'_>, key: &DiskKey) -> Result<Begun<Started>> {
    let Some(mut kept) = txn.state.kept.get(key).cloned() else { return Ok(started(None)) };
    if let Some(holder) = txn.state.holder(key) {
        return Err(Error::conflict(format!("machine {holder} has the disk {key}")));
    }
    if kept.work.is_some() {
        return Ok(started(kept.work));
    }
    let takes = txn.settings.work.delete;
    if txn.at_once(takes) {
        txn.apply(Op::Kept(key.clone(), None));
        return Ok(started(None));
    }
    let work = txn.begin(None, Doing::KeptRemove(key.clone()), takes);
    kept.work = Some(work);
    txn.apply(Op::Kept(key.clone(), Some(kept)));
    Ok(started(Some(work)))
}

pub(crate) fn end_remove(txn: &mut Txn<'_>, key: &DiskKey, fails: bool) {
    let Some(kept) = txn.state.kept.get(key).cloned() else { return };
    // Somebody may have put a machine onto the platform meanwhile that has it.
    let stays = fails || txn.state.holder(key).is_some();
    txn.apply(Op::Kept(key.clone(), stays.then_some(KeptRow { work: None, ..kept })));
}

/// A kept disk is called by its number alone, so that it can be seen to be the same one.
fn show(info: &mut DiskInfo, kept: &KeptRow) {
    info.id = Some(id(kept));
    info.path = Some(format!("/sim/kept/{}.qcow2", kept.number));
}

fn id(kept: &KeptRow) -> String {
    format!("kept-{}", kept.number)
}
