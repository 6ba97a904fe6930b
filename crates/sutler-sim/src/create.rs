//! Making machines.

use std::sync::Arc;

use sutler_provider::{
    Accepted, CloneRequest, CreateRequest, Disk, DiskInfo, Error, Machine, Power, Result, UniqueBy,
};

use crate::{
    answer::Begun,
    hosts, kept, lifecycle,
    row::{Doing, Row},
    settings::{Appears, Feature},
    txn::{Txn, task_id},
    validate,
};

/// Size of a machine whose platform chooses it.
const MANAGED: (u32, u64) = (2, 4096);

/// Makes a machine, or finds the one that was asked for already.
pub(crate) fn create(txn: &mut Txn<'_>, request: &CreateRequest) -> Result<Begun<Accepted>> {
    validate::request(txn.settings, request)?;
    if let Some(existing) = existing(txn, request)? {
        return Ok(accepted(txn, &existing));
    }
    kept::free(txn.state, None, request)?;
    let (image, image_gib) = match &request.image {
        Some(image) => {
            let (name, size) = validate::image(txn, image)?;
            (Some(name), size)
        }
        None => (None, 10),
    };
    let (cpu, memory_mib) = size(request, MANAGED);
    let root_gib = request.class.as_ref().and_then(|class| class.root_gib).unwrap_or(0);
    let mut row = draft(txn, request, cpu, memory_mib)?;
    row.image = image;
    row.image_gib = image_gib;
    let mut disks = vec![disk(&row, "root", root_gib.max(image_gib))];
    disks.extend(request.disks.iter().map(|wanted| kept::wanted(txn.state, &row, wanted)));
    row.machine.disks = Some(disks);
    let takes = txn.settings.work.create;
    Ok(make(txn, row, takes))
}

/// Copies a machine, under the rules of making one.
pub(crate) fn clone(txn: &mut Txn<'_>, request: &CloneRequest) -> Result<Begun<Accepted>> {
    let target = &request.target;
    validate::request(txn.settings, target)?;
    if request.linked && !txn.settings.can(Feature::LinkedClones) {
        return Err(Error::unsupported("this provider cannot make linked clones"));
    }
    // The name comes with the target; what else a guest here has is files.
    let known = ["hostname", "domain", "timeZone"];
    if let Some(other) = request.customize.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(Error::unsupported(format!(
            "spec.customization.{other}: guests of the simulation have nothing of the kind"
        )));
    }
    if let Some(existing) = existing(txn, target)? {
        return Ok(accepted(txn, &existing));
    }
    kept::free(txn.state, None, target)?;
    let gone = |what: String| Error::not_found(format!("there is no {what}"));
    let source = txn.get(&request.source).filter(|row| !row.hidden);
    let source = source.ok_or_else(|| gone(format!("machine {}", request.source)))?;
    let mut from = source.machine.disks.clone().unwrap_or_default();
    if let Some(snapshot) = &request.snapshot {
        let saved = source.saved.iter().find(|saved| saved.info.id == *snapshot);
        let saved = saved.ok_or_else(|| gone(format!("snapshot {snapshot}")))?;
        from = saved.disks.clone().unwrap_or_default();
    }
    let (cpu, memory_mib) = size(target, (source.cpu(), source.memory_mib()));
    let mut row = draft(txn, target, cpu, memory_mib)?;
    row.image = source.image.clone();
    row.image_gib = source.image_gib;
    row.files = source.files.clone();
    if let Some(zone) = request.customize.get("timeZone").and_then(|zone| zone.as_str()) {
        row.files.insert("/etc/timezone".to_owned(), zone.to_owned());
    }
    let copy = |old: &DiskInfo| {
        // A kept disk that is asked for by its key is taken as it is; it is no copy.
        let by_key = |disk: &&Disk| disk.name == old.name && disk.kept.is_some();
        if let Some(wanted) = target.disks.iter().find(by_key) {
            return kept::wanted(txn.state, &row, wanted);
        }
        let wanted = match old.name.as_str() {
            "root" => target.class.as_ref().and_then(|class| class.root_gib),
            name => target.disks.iter().find(|disk| disk.name == name).map(|disk| disk.size_gib),
        };
        let mut new = disk(&row, &old.name, old.size_gib.max(wanted.unwrap_or(0)));
        // A kept disk goes on changing, with whatever machine has it: nothing can be built upon it.
        new.backing_file = old.path.clone().filter(|_| request.linked && old.kept.is_none());
        new
    };
    let mut disks: Vec<DiskInfo> = from.iter().map(copy).collect();
    let more = target.disks.iter().filter(|disk| from.iter().all(|old| old.name != disk.name));
    disks.extend(more.map(|wanted| kept::wanted(txn.state, &row, wanted)));
    row.machine.disks = Some(disks);
    let takes = txn.settings.work.clone;
    Ok(make(txn, row, takes))
}

/// A disk as it is shown.
pub(crate) fn disk(row: &Row, name: &str, size_gib: u64) -> DiskInfo {
    let id = row.id();
    DiskInfo {
        name: name.to_owned(),
        id: Some(format!("{id}/{name}")),
        path: Some(format!("/sim/{id}/{name}.qcow2")),
        size_gib,
        format: Some("qcow2".to_owned()),
        // A tenth of a thin disk is filled.
        actual_bytes: Some(size_gib.saturating_mul((1 << 30) / 10)),
        backing_file: None,
        bootable: name == "root",
        kept: None,
    }
}

/// The machine that the request asks for a second time, or an error where somebody else is in its
/// place.
fn existing(txn: &Txn<'_>, request: &CreateRequest) -> Result<Option<Arc<Row>>> {
    let settings = txn.settings;
    let owner = &request.owner;
    let ours = |row: &Row| {
        row.machine.token.as_ref() == Some(&owner.token)
            && row.machine.installation.as_ref() == Some(&owner.installation)
    };
    let found = match settings.unique_by {
        UniqueBy::None => return Ok(None),
        UniqueBy::Token => txn.state.owned(&owner.token).find(|row| ours(row)),
        UniqueBy::Name if settings.token => txn.state.named(&request.name).find(|row| ours(row)),
        UniqueBy::Name => None,
    };
    if let Some(row) = found {
        let doing = row.work.and_then(|work| txn.state.works.get(&work));
        if doing.is_some_and(|work| work.doing == Doing::Delete) {
            return Err(Error::conflict(format!("machine {} is being deleted", row.id())));
        }
        return Ok(Some(row.clone()));
    }
    if settings.unique_by == UniqueBy::Token && !settings.unique_names {
        return Ok(None);
    }
    match txn.state.named(&request.name).next() {
        Some(other) => Err(Error::conflict(format!(
            "machine {} is called {:?} already and is not ours",
            other.id(),
            request.name
        ))),
        None => Ok(None),
    }
}

fn size(request: &CreateRequest, otherwise: (u32, u64)) -> (u32, u64) {
    request.class.as_ref().map_or(otherwise, |class| (class.cpu, class.memory_mib))
}

/// A machine with all but its disks.
fn draft(txn: &mut Txn<'_>, request: &CreateRequest, cpu: u32, memory_mib: u64) -> Result<Row> {
    let host = hosts::place(txn, &request.placement, cpu, memory_mib)?;
    let id = txn.new_id();
    let number = txn.number();
    let mut machine = Machine::new(id, request.name.clone(), Power::Off);
    machine.token = Some(request.owner.token.clone());
    machine.installation = Some(request.owner.installation.clone());
    machine.cpu = Some(cpu);
    machine.memory_mib = Some(memory_mib);
    machine.host = Some(host);
    machine.tags = request.tags.clone();
    machine.group = request.managed_node.as_ref().map(|node| node.group.clone());
    machine.created_at = Some(txn.now);
    if request.managed_node.is_some() {
        // Such platforms know a node by a number as well.
        machine.raw.insert(sutler_provider::raw::ID.to_owned(), (number + 1).to_string());
        if txn.settings.own_names {
            machine.name = format!("worker-{}", number + 1);
        }
    }
    let named = machine.name.clone();
    let cards = validate::cards(txn, request);
    let mut row = Row::of(machine, number);
    row.cards = cards;
    row.power_on = request.power_on;
    let hostname = match txn.settings.own_names && request.managed_node.is_some() {
        true => &named,
        false => &request.hostname,
    };
    row.hostname = format!("{hostname}{}", txn.settings.hostname_suffix);
    row.user_data = request.user_data.clone();
    row.meta_data = request.meta_data.clone();
    Ok(row)
}

fn make(txn: &mut Txn<'_>, mut row: Row, mut takes: std::time::Duration) -> Begun<Accepted> {
    if row.power_on {
        takes = takes.saturating_add(txn.settings.work.start);
    }
    if txn.at_once(takes) {
        lifecycle::made(txn, &mut row);
    } else {
        row.hidden = txn.settings.appears == Appears::Made;
        row.work = Some(txn.begin(Some(&row.machine.id), Doing::Make, takes));
    }
    txn.put(row.clone());
    accepted(txn, &row)
}

fn accepted(txn: &Txn<'_>, row: &Row) -> Begun<Accepted> {
    let is_make =
        |work: &u64| txn.state.works.get(work).is_some_and(|work| work.doing == Doing::Make);
    let work = row.work.filter(is_make);
    let id = txn.settings.returns_id.then(|| row.id().clone());
    Begun::new(Accepted { id, task: work.map(task_id) }, work)
}
