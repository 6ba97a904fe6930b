//! Snapshots.

use sutler_provider::{
    DiskInfo, Error, MachineId, Power, Proof, Result, Snapshot, SnapshotId, SnapshotRequest,
    Snapshotted, Started,
};

use crate::{
    answer::Begun,
    hosts,
    lifecycle::{started, switch_off, switch_on},
    row::{Doing, Row, Saved},
    settings::Feature,
    txn::{Txn, task_id},
    work::{Step, exclusive},
};

/// Takes a snapshot; a second one of the same name is the first.
pub(crate) fn begin_take(
    txn: &mut Txn<'_>,
    request: &SnapshotRequest,
) -> Result<Begun<Snapshotted>> {
    if request.name.is_empty() {
        return Err(Error::invalid("spec.snapshotConfig.name", "a snapshot needs a name"));
    }
    if request.memory && !txn.settings.can(Feature::MemorySnapshots) {
        return Err(Error::unsupported("this provider cannot save memory"));
    }
    let mut row = txn.proven(&request.id, &request.proof)?;
    if let Some(saved) = row.saved.iter().find(|saved| saved.info.name == request.name) {
        let id = Some(saved.info.id.clone());
        return Ok(Begun::new(Snapshotted { id, task: None }, None));
    }
    let takes = txn.settings.work.snapshot;
    match exclusive(txn, &mut row, Doing::SnapshotCreate(request.clone()), takes)? {
        Step::Later(work) => {
            Ok(Begun::new(Snapshotted { id: None, task: Some(task_id(work)) }, Some(work)))
        }
        Step::Now => {
            let id = take(txn, &mut row, request);
            txn.put(row);
            Ok(Begun::new(Snapshotted { id: Some(id), task: None }, None))
        }
    }
}

/// Deletes a snapshot. One that is not there is no error.
pub(crate) fn begin_delete(
    txn: &mut Txn<'_>,
    id: &MachineId,
    proof: &Proof,
    snapshot: &SnapshotId,
) -> Result<Begun<Started>> {
    if !txn.state.machines.contains_key(id) {
        return Ok(started(None));
    }
    let mut row = txn.proven(id, proof)?;
    if row.saved.iter().all(|saved| saved.info.id != *snapshot) {
        return Ok(started(None));
    }
    let takes = txn.settings.work.snapshot;
    match exclusive(txn, &mut row, Doing::SnapshotDelete(snapshot.clone()), takes)? {
        Step::Later(work) => Ok(started(Some(work))),
        Step::Now => {
            delete(&mut row, snapshot);
            txn.put(row);
            Ok(started(None))
        }
    }
}

/// Puts a machine back to a snapshot.
pub(crate) fn begin_revert(
    txn: &mut Txn<'_>,
    id: &MachineId,
    proof: &Proof,
    snapshot: &SnapshotId,
) -> Result<Begun<Started>> {
    let mut row = txn.proven(id, proof)?;
    find(&row, snapshot)?;
    let takes = txn.settings.work.snapshot;
    match exclusive(txn, &mut row, Doing::SnapshotRevert(snapshot.clone()), takes)? {
        Step::Later(work) => Ok(started(Some(work))),
        Step::Now => {
            revert(txn, &mut row, snapshot)?;
            txn.put(row);
            Ok(started(None))
        }
    }
}

pub(crate) fn take(txn: &mut Txn<'_>, row: &mut Row, request: &SnapshotRequest) -> SnapshotId {
    let id = SnapshotId(format!("snap-{}", txn.number()));
    let memory = request.memory && row.machine.power != Power::Off;
    let disks = row.machine.disks.iter().flatten();
    let bytes = disks.filter_map(|disk| disk.actual_bytes).fold(0, u64::saturating_add);
    let memory_bytes = if memory { row.memory_mib() << 20 } else { 0 };
    row.saved.push(Saved {
        info: Snapshot {
            id: id.clone(),
            name: request.name.clone(),
            created_at: Some(txn.now),
            description: request.description.clone(),
            size_bytes: Some(bytes.saturating_add(memory_bytes)),
            memory,
        },
        cpu: row.machine.cpu,
        memory_mib: row.machine.memory_mib,
        disks: row.machine.disks.clone(),
        files: row.files.clone(),
        power: row.machine.power,
    });
    id
}

pub(crate) fn delete(row: &mut Row, snapshot: &SnapshotId) {
    row.saved.retain(|saved| saved.info.id != *snapshot);
}

/// Without memory, the machine is off afterwards.
pub(crate) fn revert(txn: &mut Txn<'_>, row: &mut Row, snapshot: &SnapshotId) -> Result<()> {
    let saved = find(row, snapshot)?.clone();
    let new = (saved.cpu.unwrap_or(0), saved.memory_mib.unwrap_or(0));
    hosts::resize(txn, row.machine.host.as_deref(), (row.cpu(), row.memory_mib()), new)?;
    switch_off(txn, row);
    row.machine.cpu = saved.cpu;
    row.machine.memory_mib = saved.memory_mib;
    row.machine.disks = Some(disks(row.machine.disks.take(), saved.disks));
    row.files = saved.files;
    if saved.info.memory {
        switch_on(txn, row);
        row.machine.power = saved.power;
    }
    Ok(())
}

/// The disks of a machine that goes back to a snapshot. Kept ones are those that it has now, for a
/// snapshot is no reason to take a disk from another machine, or to leave one behind.
fn disks(now: Option<Vec<DiskInfo>>, saved: Option<Vec<DiskInfo>>) -> Vec<DiskInfo> {
    let mut kept: Vec<DiskInfo> =
        now.into_iter().flatten().filter(|disk| disk.kept.is_some()).collect();
    let mut all = Vec::new();
    for disk in saved.into_iter().flatten() {
        match kept.iter().position(|kept| kept.name == disk.name) {
            Some(at) => all.push(kept.remove(at)),
            None if disk.kept.is_none() => all.push(disk),
            None => {}
        }
    }
    all.extend(kept);
    all
}

fn find<'a>(row: &'a Row, snapshot: &SnapshotId) -> Result<&'a Saved> {
    let found = row.saved.iter().find(|saved| saved.info.id == *snapshot);
    found.ok_or_else(|| Error::not_found(format!("there is no snapshot {snapshot}")))
}
