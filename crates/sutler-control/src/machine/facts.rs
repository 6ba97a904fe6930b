//! What a status takes over from the machine that was seen.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sutler_api::infra::{
    CurrentResources, DiskStatus, InterfaceStatus, PowerState, SnapshotInfo, VirtualMachineStatus,
};
use sutler_provider::{Machine, Power, Seen};

use crate::plan::Desired;

/// A new incarnation is another machine: nothing that is known of the old one holds of it.
pub(super) fn forget_machine(status: &mut VirtualMachineStatus) {
    *status = VirtualMachineStatus {
        conditions: std::mem::take(&mut status.conditions),
        restart_handled: status.restart_handled.take(),
        reverted_to: status.reverted_to.take(),
        operation_ref: status.operation_ref.take(),
        ..VirtualMachineStatus::default()
    };
}

/// Takes over what the platform shows; what it does not tell stays as it was.
pub(super) fn facts(
    status: &mut VirtualMachineStatus,
    seen: &Seen,
    desired: Option<&Desired>,
    hold_power: bool,
    now: Timestamp,
) {
    let Machine {
        id,
        name,
        token: _,
        installation: _,
        power,
        busy: _,
        hostname,
        ips,
        cpu,
        memory_mib,
        most_cpu: _,
        most_memory_mib: _,
        disks,
        interfaces,
        snapshots,
        tags: _,
        host,
        group: _,
        console_url,
        created_at,
        raw,
    } = seen.machine.as_ref();
    let before = status.clone();
    status.id = Some(id.0.clone());
    if status.platform_name.is_none() {
        status.platform_name = Some(name.clone());
    }
    match power {
        Power::On if hold_power => {}
        Power::On => status.power_state = Some(PowerState::On),
        Power::Off | Power::Paused => status.power_state = Some(PowerState::Off),
        Power::Unknown => {}
    }
    if !ips.is_empty() {
        status.ips.clone_from(ips);
    }
    keep(&mut status.hostname, hostname);
    keep(&mut status.host, host);
    keep(&mut status.console_url, console_url);
    if cpu.is_some() || memory_mib.is_some() {
        let current = status.current_resources.get_or_insert_default();
        *current = CurrentResources {
            cpu: cpu.and_then(|cpu| i32::try_from(cpu).ok()).or(current.cpu),
            memory_mib: memory_mib.and_then(|mib| i64::try_from(mib).ok()).or(current.memory_mib),
            gpu: current.gpu.take(),
        };
    }
    if let Some(disks) = disks {
        status.disks = disks
            .iter()
            .map(|disk| DiskStatus {
                name: disk.name.clone(),
                id: disk.id.clone(),
                path: disk.path.clone(),
                size_gib: i32::try_from(disk.size_gib).ok(),
                managed: managed(
                    desired.is_some_and(|d| d.request.disks.iter().any(|w| w.name == disk.name)),
                    before.disks.iter().any(|d| d.name == disk.name && d.managed == Some(true)),
                ),
                key: disk.kept.as_ref().map(|key| key.0.clone()),
            })
            .collect();
    }
    if let Some(interfaces) = interfaces {
        status.interfaces = interfaces
            .iter()
            .map(|card| InterfaceStatus {
                name: card.name.clone(),
                device: card.device.clone(),
                mac_address: card.mac.clone(),
                network: card.network.clone(),
                ips: card.ips.clone(),
                managed: managed(
                    desired.is_some_and(|d| {
                        d.request.nics.iter().any(|w| Some(&w.name) == card.name.as_ref())
                    }),
                    before
                        .interfaces
                        .iter()
                        .any(|c| c.name == card.name && c.managed == Some(true)),
                ),
            })
            .collect();
    }
    if let Some(snapshots) = snapshots {
        status.snapshots = snapshots
            .iter()
            .map(|snapshot| SnapshotInfo {
                id: snapshot.id.0.clone(),
                name: snapshot.name.clone(),
                creation_time: Time(snapshot.created_at.unwrap_or(seen.first_seen)),
                description: snapshot.description.clone(),
                size_bytes: snapshot.size_bytes.and_then(|size| i64::try_from(size).ok()),
                has_memory: Some(snapshot.memory),
            })
            .collect();
    }
    if !raw.is_empty() {
        status.provider.clone_from(raw);
    }
    if status.created_at.is_none() {
        status.created_at = Some(Time(created_at.unwrap_or(seen.first_seen)));
    }
    // That it was looked at is worth no write of its own.
    if *status != before || status.last_observed_at.is_none() {
        status.last_observed_at = Some(Time(now));
    }
}

/// What the spec asks for, or once asked for, is ours.
fn managed(wanted: bool, before: bool) -> Option<bool> {
    (wanted || before).then_some(true)
}

fn keep(known: &mut Option<String>, told: &Option<String>) {
    if told.is_some() {
        known.clone_from(told);
    }
}
