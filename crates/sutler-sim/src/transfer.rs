//! Disks that are looked at, sent out and brought in.

use sutler_provider::{
    DiskInfo, DiskRef, Error, ErrorKind, ExportRequest, Exported, ImportRequest, Imported, Result,
};

use crate::{
    answer::Begun,
    row::{BlobRow, Doing},
    sim::Core,
    state::{Op, State},
    txn::{Txn, task_id},
};

const FORMATS_OUT: [&str; 2] = ["qcow2", "raw"];
const FORMATS_IN: [&str; 3] = ["qcow2", "raw", "vmdk"];

/// What a disk is like, or none where it is not there.
pub(crate) fn info(core: &Core, disk: &DiskRef) -> Option<DiskInfo> {
    find(&core.state, disk)
}

/// Sends a disk out. The same disk to the same place is one export.
pub(crate) fn export(txn: &mut Txn<'_>, request: &ExportRequest) -> Result<Begun<Exported>> {
    let format = format(request.format.as_deref(), &FORMATS_OUT)?;
    if request.destination.is_empty() {
        return Err(Error::invalid("spec.destination", "a disk has to go somewhere"));
    }
    let missing = || Error::not_found(format!("machine {} has no such disk", request.disk.machine));
    let disk = find(txn.state, &request.disk).ok_or_else(missing)?;
    let size_bytes = disk.actual_bytes.unwrap_or(disk.size_gib << 30);
    let checksum = checksum(&format!("{:?} {} {format}", disk.id, disk.size_gib));
    if let Some(sent) = txn.state.exports.get(&request.destination)
        && sent.checksum == checksum
    {
        return Ok(exported(sent));
    }
    let id = format!("export-{}", txn.number());
    let mut blob = BlobRow { id, size_bytes, checksum, format, ready: true, work: None };
    let to = request.destination.clone();
    let takes = txn.settings.work.transfer;
    if !txn.at_once(takes) {
        blob.ready = false;
        let doing = Doing::Export(to.clone(), blob.clone());
        blob.work = Some(txn.begin(Some(&request.disk.machine), doing, takes));
    }
    txn.apply(Op::Export(to, Some(blob.clone())));
    Ok(exported(&blob))
}

/// Brings a disk in; a second one of the same name is the first.
pub(crate) fn import(txn: &mut Txn<'_>, request: &ImportRequest) -> Result<Begun<Imported>> {
    const UNKNOWN_BYTES: u64 = 10 << 30;
    let target = &request.target;
    if target.is_empty() {
        return Err(Error::invalid("spec.target", "a disk needs a name"));
    }
    let format = format(request.format.as_deref(), &FORMATS_IN)?;
    if let Some(there) = txn.state.imports.get(target) {
        return Ok(imported(target, there));
    }
    let sent = txn.state.exports.get(&request.source).filter(|sent| sent.ready);
    let (size_bytes, checksum) = match (sent, &request.checksum) {
        (Some(sent), Some(wanted)) if *wanted != sent.checksum => {
            let why = format!("the checksum is {}, not {wanted}", sent.checksum);
            return Err(Error::new(ErrorKind::Failed, why));
        }
        (Some(sent), _) => (sent.size_bytes, sent.checksum.clone()),
        (None, Some(wanted)) => (UNKNOWN_BYTES, wanted.clone()),
        (None, None) => (UNKNOWN_BYTES, checksum(&request.source)),
    };
    let id = format!("disk-{}", txn.number());
    let mut blob = BlobRow { id, size_bytes, checksum, format, ready: true, work: None };
    let takes = txn.settings.work.transfer;
    if !txn.at_once(takes) {
        blob.ready = false;
        let doing = Doing::Import(target.clone(), blob.clone());
        blob.work = Some(txn.begin(None, doing, takes));
    }
    txn.apply(Op::Import(target.clone(), Some(blob.clone())));
    Ok(imported(target, &blob))
}

pub(crate) fn end_export(txn: &mut Txn<'_>, to: &str, fails: bool) {
    if let Some(blob) = txn.state.exports.get(to).cloned() {
        let blob = (!fails).then_some(BlobRow { ready: true, work: None, ..blob });
        txn.apply(Op::Export(to.to_owned(), blob));
    }
}

pub(crate) fn end_import(txn: &mut Txn<'_>, target: &str, fails: bool) {
    if let Some(blob) = txn.state.imports.get(target).cloned() {
        let blob = (!fails).then_some(BlobRow { ready: true, work: None, ..blob });
        txn.apply(Op::Import(target.to_owned(), blob));
    }
}

fn find(state: &State, disk: &DiskRef) -> Option<DiskInfo> {
    let row = state.machines.get(&disk.machine).filter(|row| !row.hidden)?;
    let disks = match &disk.snapshot {
        None => &row.machine.disks,
        Some(snapshot) => &row.saved.iter().find(|saved| saved.info.id == *snapshot)?.disks,
    };
    let wanted = disk.disk.as_deref().unwrap_or("root");
    let fits = |disk: &&DiskInfo| disk.name == wanted || disk.id.as_deref() == Some(wanted);
    disks.iter().flatten().find(fits).cloned()
}

fn format(wanted: Option<&str>, known: &[&str]) -> Result<String> {
    match wanted {
        None => Ok("qcow2".to_owned()),
        Some(format) if known.contains(&format) => Ok(format.to_owned()),
        Some(format) => {
            Err(Error::invalid("spec.format", format!("{format:?} is none of {known:?}")))
        }
    }
}

fn exported(blob: &BlobRow) -> Begun<Exported> {
    let answer = Exported {
        id: blob.id.clone(),
        task: blob.work.map(task_id),
        size_bytes: Some(blob.size_bytes),
        checksum: Some(blob.checksum.clone()),
    };
    Begun::new(answer, blob.work)
}

fn imported(target: &str, blob: &BlobRow) -> Begun<Imported> {
    let answer = Imported {
        id: blob.id.clone(),
        path: Some(format!("/sim/disks/{target}.{}", blob.format)),
        task: blob.work.map(task_id),
        size_bytes: Some(blob.size_bytes),
        checksum: Some(blob.checksum.clone()),
    };
    Begun::new(answer, blob.work)
}

/// There are no bytes: the same disk has the same checksum, and that is all (FNV-1a).
fn checksum(of: &str) -> String {
    let hash = of.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("fnv1a:{hash:016x}")
}
