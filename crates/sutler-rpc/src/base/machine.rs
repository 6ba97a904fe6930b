//! Machines, disks and tasks in the words of `provider.v1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sutler_provider::{DiskInfo, Error, ErrorKind, Machine, Power, Snapshot, TaskState};

use super::some;
use crate::{json::Fields, malformed::Malformed, pb::base as pb};

/// `On` or `Off`, which is all that callers take; nothing where it is not known. What is stopped in
/// the middle holds its memory and disks, so it counts as on.
fn power_to(power: Power) -> String {
    match power {
        Power::On | Power::Paused => "On",
        Power::Off => "Off",
        Power::Unknown => "",
    }
    .to_owned()
}

/// Power in whatever words a server has for it.
pub(crate) fn power_from(text: &str) -> Power {
    let word: String =
        text.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect();
    match word.as_str() {
        "on" | "poweredon" | "running" => Power::On,
        "off" | "poweredoff" | "stopped" | "shutoff" | "shutdown" => Power::Off,
        "paused" | "suspended" => Power::Paused,
        _ => Power::Unknown,
    }
}

/// A machine as the list shows it.
pub(crate) fn info_to(machine: Machine) -> pb::VmInfo {
    let mut raw = machine.raw.clone();
    for (key, value) in details(&machine) {
        raw.entry(key.to_owned()).or_insert(match value {
            Value::String(text) => text,
            other => other.to_string(),
        });
    }
    pb::VmInfo {
        power_state: power_to(machine.power),
        cpu: machine.cpu.map_or(0, |cpu| i32::try_from(cpu).unwrap_or(i32::MAX)),
        memory_mib: machine.memory_mib.map_or(0, long),
        disks: machine.disks.into_iter().flatten().map(disk_to).collect(),
        networks: machine
            .interfaces
            .into_iter()
            .flatten()
            .map(|card| pb::NetworkInfo {
                name: card.name.or(card.network).unwrap_or_default(),
                mac: card.mac.unwrap_or_default(),
                ip_address: card.ips.into_iter().next().unwrap_or_default(),
            })
            .collect(),
        id: machine.id.0,
        name: machine.name,
        ips: machine.ips,
        provider_raw: raw,
    }
}

/// Reads a machine of the list. Disks and cards have no names of ours there, so they are not told.
pub(crate) fn info_from(info: pb::VmInfo) -> Result<Machine, Malformed> {
    let pb::VmInfo { id, name, power_state, ips, cpu, memory_mib, provider_raw, .. } = info;
    if id.is_empty() {
        return Err(Malformed::missing("vms.id"));
    }
    let mut machine = Machine::new(id, name, power_from(&power_state));
    machine.ips = ips;
    machine.cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu > 0);
    machine.memory_mib = u64::try_from(memory_mib).ok().filter(|mib| *mib > 0);
    machine.raw = provider_raw;
    Ok(machine)
}

/// A machine as a description.
pub(crate) fn description_to(machine: Option<Machine>) -> pb::DescribeResponse {
    let Some(machine) = machine else { return pb::DescribeResponse::default() };
    let mut raw: Map<String, Value> =
        machine.raw.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
    for (key, value) in details(&machine) {
        raw.entry(key.to_owned()).or_insert(value);
    }
    pb::DescribeResponse {
        exists: true,
        power_state: power_to(machine.power),
        ips: machine.ips,
        console_url: machine.console_url.unwrap_or_default(),
        provider_raw_json: Value::Object(raw).to_string(),
    }
}

/// Reads a description, and says the name that stands in it, if one does.
pub(crate) fn description_from(
    id: &str,
    answer: pb::DescribeResponse,
) -> Option<(Machine, Option<String>)> {
    let pb::DescribeResponse { exists, power_state, ips, console_url, provider_raw_json } = answer;
    if !exists {
        return None;
    }
    let raw: Value = serde_json::from_str(&provider_raw_json).unwrap_or(Value::Null);
    let named = Fields::of("provider_raw_json", &raw).ok().flatten();
    let name = named.and_then(|fields| fields.text("name").ok().flatten());
    let mut machine = Machine::new(id, name.clone().unwrap_or_default(), power_from(&power_state));
    machine.ips = ips;
    machine.console_url = some(console_url);
    machine.raw = flat(&raw);
    Some((machine, name))
}

/// What is known beyond the fields of the message.
fn details(machine: &Machine) -> Vec<(&'static str, Value)> {
    let mut all = vec![("name", Value::from(machine.name.as_str()))];
    let texts = [("hostname", &machine.hostname), ("host", &machine.host)];
    all.extend(texts.into_iter().filter_map(|(k, v)| Some((k, Value::from(v.as_deref()?)))));
    all.extend(machine.cpu.map(|cpu| ("cpu", cpu.into())));
    all.extend(machine.memory_mib.map(|mib| ("memory_mib", mib.into())));
    if machine.power == Power::Paused {
        all.push(("power", "Paused".into()));
    }
    if machine.busy {
        all.push(("busy", true.into()));
    }
    all
}

fn flat(raw: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    raw.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), text(v))).collect()
}

fn disk_to(disk: DiskInfo) -> pb::DiskInfo {
    pb::DiskInfo {
        id: disk.id.unwrap_or(disk.name),
        path: disk.path.unwrap_or_default(),
        size_gib: i32::try_from(disk.size_gib).unwrap_or(i32::MAX),
        format: disk.format.unwrap_or_default(),
    }
}

/// A disk's description; the machine's snapshots go with it.
pub(crate) fn disk_info_to(disk: DiskInfo, snapshots: &[Snapshot]) -> pb::GetDiskInfoResponse {
    pb::GetDiskInfoResponse {
        disk_id: disk.id.unwrap_or_else(|| disk.name.clone()),
        format: disk.format.unwrap_or_default(),
        virtual_size_bytes: long(disk.size_gib.saturating_mul(1 << 30)),
        actual_size_bytes: disk.actual_bytes.map_or(0, long),
        path: disk.path.unwrap_or_default(),
        is_bootable: disk.bootable,
        snapshots: snapshots.iter().map(|snapshot| snapshot.id.0.clone()).collect(),
        backing_file: disk.backing_file.unwrap_or_default(),
        metadata: BTreeMap::from([("name".to_owned(), disk.name)]),
    }
}

/// Reads a disk's description.
pub(crate) fn disk_info_from(answer: pb::GetDiskInfoResponse) -> DiskInfo {
    let pb::GetDiskInfoResponse {
        disk_id,
        format,
        virtual_size_bytes,
        actual_size_bytes,
        path,
        is_bootable,
        snapshots: _,
        backing_file,
        mut metadata,
    } = answer;
    DiskInfo {
        name: metadata.remove("name").unwrap_or_else(|| disk_id.clone()),
        id: some(disk_id),
        path: some(path),
        size_gib: u64::try_from(virtual_size_bytes).unwrap_or(0).div_ceil(1 << 30),
        format: some(format),
        actual_bytes: size(actual_size_bytes),
        backing_file: some(backing_file),
        bootable: is_bootable,
        kept: None,
    }
}

/// How far a task has come. One that is not known is an error on this wire: `done` would be a lie.
pub(crate) fn task_to(id: &str, state: TaskState) -> Result<pb::TaskStatusResponse, Error> {
    match state {
        TaskState::Running { .. } => Ok(pb::TaskStatusResponse::default()),
        TaskState::Done { .. } => Ok(pb::TaskStatusResponse { done: true, error: String::new() }),
        TaskState::Failed(error) => {
            let message = match error.message() {
                "" => error.kind().as_str().to_owned(),
                message => message.to_owned(),
            };
            Ok(pb::TaskStatusResponse { done: true, error: message })
        }
        TaskState::Unknown => Err(Error::not_found(format!("there is no task {id}"))),
    }
}

/// Reads how far a task has come: an error is its end, whatever `done` says.
pub(crate) fn task_from(answer: pb::TaskStatusResponse) -> TaskState {
    let pb::TaskStatusResponse { done, error } = answer;
    match (done, error.as_str()) {
        (false, "") => TaskState::Running { percent: None, message: None },
        (true, "") => TaskState::Done { id: None },
        _ => TaskState::Failed(Error::new(ErrorKind::Failed, error)),
    }
}

/// A number of bytes on this wire.
pub(crate) fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of bytes; 0 is not told.
pub(crate) fn size(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|number| *number > 0)
}
