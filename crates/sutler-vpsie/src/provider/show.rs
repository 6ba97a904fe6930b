//! What VPSie tells of a machine, in the words of the contract.

use std::collections::BTreeMap;

use sutler_provider::{Machine, MachineId, Power};

use super::{group::Worker, id, raw};
use crate::{
    client::{NodeGroup, Vm},
    settings::{Dialect, is_plain},
};

/// A plain machine; none where it has no ID, without which it cannot be told from others.
pub(super) fn vm(dialect: Dialect, vm: &Vm) -> Option<Machine> {
    let id = vm_id(dialect, vm)?;
    let name = vm.name.as_ref().or(vm.hostname.as_ref())?;
    let status = vm.status.as_deref().map(str::to_lowercase);
    let mut machine = Machine::new(MachineId(id), name.clone(), power(vm));
    machine.busy = status.as_deref().is_some_and(is_busy);
    machine.hostname.clone_from(&vm.hostname);
    machine.ips =
        [&vm.default_ip, &vm.default_ipv6, &vm.private_ip].into_iter().flatten().cloned().collect();
    machine.cpu = vm.cpu.and_then(|cpu| u32::try_from(cpu).ok());
    machine.memory_mib = vm.ram.and_then(|ram| u64::try_from(ram).ok());
    machine.tags.clone_from(&vm.tags);
    machine.created_at = vm.created_on;
    machine.raw = details(vm);
    Some(machine)
}

/// The ID of a plain machine in its dialect.
pub(super) fn vm_id(dialect: Dialect, vm: &Vm) -> Option<String> {
    let id = match dialect {
        Dialect::Govpsie => vm.identifier.clone(),
        Dialect::V2 => vm.id.filter(|id| *id > 0).map(|id| id.to_string()),
    };
    id.filter(|id| is_plain(id))
}

/// What tells a worker from others in its dialect.
pub(super) fn node_key(dialect: Dialect, worker: &Worker) -> Option<String> {
    let key = match dialect {
        Dialect::Govpsie => worker.node.id.filter(|id| *id > 0).map(|id| id.to_string()),
        Dialect::V2 => worker.node.identifier.clone(),
    };
    key.filter(|key| is_plain(key))
}

/// A worker of a cluster; none where it has no ID.
pub(super) fn node(
    dialect: Dialect,
    cluster: &str,
    worker: &Worker,
    group: Option<&NodeGroup>,
) -> Option<Machine> {
    let key = node_key(dialect, worker)?;
    let Worker { node, vm } = worker;
    let vm = vm.clone().unwrap_or_default();
    let name = node.hostname.clone().or(vm.hostname.clone()).unwrap_or_else(|| key.clone());
    let status = node.status.clone().or(vm.status.clone());
    let of_status = status.as_deref().map(str::to_lowercase);
    let on = match of_status.as_deref() {
        Some(status) => of_word(status),
        None => flag(vm.power),
    };
    let mut machine = Machine::new(id::of_node(cluster, &key), name, on);
    machine.busy = of_status.as_deref().is_some_and(is_busy);
    machine.hostname = node.hostname.clone().or(vm.hostname.clone());
    for ip in [&node.default_ip, &vm.default_ip, &vm.default_ipv6, &node.private_ip, &vm.private_ip]
        .into_iter()
        .flatten()
    {
        if !machine.ips.contains(ip) {
            machine.ips.push(ip.clone());
        }
    }
    machine.cpu = node.cpu.or(vm.cpu).and_then(|cpu| u32::try_from(cpu).ok());
    machine.memory_mib = node.ram.or(vm.ram).and_then(|ram| u64::try_from(ram).ok());
    machine.created_at = node.created_on.or(vm.created_on);
    machine.group = group.map(|group| {
        let number = || group.id.map(|id| id.to_string()).unwrap_or_default();
        group.group_name.clone().unwrap_or_else(number)
    });
    machine.raw = details(&vm);
    let more = [
        (raw::ID, node.id.map(|id| id.to_string())),
        (raw::IDENTIFIER, node.identifier.clone()),
        (raw::STATUS, status),
        (raw::DISK_GIB, node.disk.map(|disk| disk.to_string())),
        (raw::SIZE_ID, node.boxsize_id.map(|size| size.to_string())),
        (raw::CLUSTER, Some(cluster.to_owned())),
        (raw::GROUP_ID, group.and_then(|group| group.id).map(|id| id.to_string())),
        (raw::GROUP_IDENTIFIER, group.and_then(|group| group.identifier.clone())),
    ];
    put(&mut machine.raw, more);
    Some(machine)
}

fn details(vm: &Vm) -> BTreeMap<String, String> {
    let number = |number: Option<i64>| number.map(|number| number.to_string());
    let flag = |flag: Option<bool>| flag.map(|flag| u8::from(flag).to_string());
    let mut all = BTreeMap::new();
    put(
        &mut all,
        [
            (raw::ID, number(vm.id)),
            (raw::IDENTIFIER, vm.identifier.clone()),
            (raw::STATUS, vm.status.clone()),
            (raw::POWER, flag(vm.power)),
            (raw::ACTIVE, flag(vm.is_active)),
            (raw::SUSPENDED, flag(vm.is_suspended)),
            (raw::LOCKED, flag(vm.is_locked)),
            (raw::DISK_GIB, number(vm.ssd)),
            (raw::TRAFFIC_GB, number(vm.traffic)),
            (raw::SIZE_ID, number(vm.boxsize_id)),
            (raw::NOTES, vm.notes.clone()),
        ],
    );
    all
}

fn put<const N: usize>(
    all: &mut BTreeMap<String, String>,
    pairs: [(&'static str, Option<String>); N],
) {
    let told = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    all.extend(told);
}

/// Whether a machine is on: by its word, or else by its flag.
fn power(vm: &Vm) -> Power {
    if vm.is_suspended == Some(true) {
        return Power::Off;
    }
    match vm.status.as_deref() {
        Some(status) => match of_word(&status.to_lowercase()) {
            Power::Unknown => flag(vm.power),
            known => known,
        },
        None => flag(vm.power),
    }
}

fn flag(power: Option<bool>) -> Power {
    match power {
        Some(true) => Power::On,
        Some(false) => Power::Off,
        None => Power::Unknown,
    }
}

fn of_word(status: &str) -> Power {
    match status {
        "running" | "active" | "ready" | "online" | "on" => Power::On,
        "stopped" | "off" | "offline" | "shutoff" | "suspended" | "poweredoff" => Power::Off,
        _ => Power::Unknown,
    }
}

fn is_busy(status: &str) -> bool {
    matches!(
        status,
        "pending"
            | "creating"
            | "provisioning"
            | "building"
            | "installing"
            | "starting"
            | "stopping"
            | "restarting"
            | "deleting"
            | "resizing"
            | "rebuilding"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_read_in_both_dialects() {
        for (status, flag, suspended, want) in [
            (Some("Running"), None, None, Power::On),
            (Some("stopped"), None, None, Power::Off),
            (Some("odd"), Some(true), None, Power::On),
            (None, Some(true), None, Power::On),
            (None, Some(false), None, Power::Off),
            (None, Some(true), Some(true), Power::Off),
            (None, None, None, Power::Unknown),
            (Some("odd"), None, None, Power::Unknown),
        ] {
            let status = status.map(str::to_owned);
            let vm = Vm { status, power: flag, is_suspended: suspended, ..Vm::default() };
            assert_eq!(power(&vm), want, "{vm:?}");
        }
    }

    #[test]
    fn what_has_no_id_is_no_machine() {
        let hostname = Some("web".to_owned());
        let with = |id, identifier: Option<&str>| {
            let identifier = identifier.map(str::to_owned);
            Vm { id, identifier, hostname: hostname.clone(), ..Vm::default() }
        };
        assert!(vm(Dialect::Govpsie, &with(Some(1), None)).is_none());
        assert!(vm(Dialect::V2, &with(None, Some("u"))).is_none());
        assert!(vm(Dialect::V2, &with(Some(0), Some("u"))).is_none());
        assert_eq!(vm(Dialect::Govpsie, &with(Some(1), Some("u"))).unwrap().id.0, "u");
        let shown = vm(Dialect::V2, &with(Some(1), Some("u"))).unwrap();
        assert_eq!((shown.id.0.as_str(), shown.raw[raw::IDENTIFIER].as_str()), ("1", "u"));
    }
}
