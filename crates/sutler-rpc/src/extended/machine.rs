//! What a platform says of its machines, tasks and events.

use jiff::Timestamp;
use sutler_provider::{
    DiskInfo, Event, Host, Interface, KeptDisk, Machine, Power, Snapshot, TaskState, Template,
};

use super::{narrow, required};
use crate::{
    malformed::Malformed,
    pb::extended::{self as pb, event, task_status_response as task},
    status::{error_in, failure_of},
};

impl From<DiskInfo> for pb::DiskInfo {
    fn from(disk: DiskInfo) -> Self {
        let DiskInfo {
            name,
            id,
            path,
            size_gib,
            format,
            actual_bytes,
            backing_file,
            bootable,
            kept,
        } = disk;
        let kept = kept.map(|key| key.0);
        Self { name, id, path, size_gib, format, actual_bytes, backing_file, bootable, kept }
    }
}

impl From<pb::DiskInfo> for DiskInfo {
    fn from(disk: pb::DiskInfo) -> Self {
        let pb::DiskInfo {
            name,
            id,
            path,
            size_gib,
            format,
            actual_bytes,
            backing_file,
            bootable,
            kept,
        } = disk;
        let kept = kept.map(Into::into);
        Self { name, id, path, size_gib, format, actual_bytes, backing_file, bootable, kept }
    }
}

impl From<KeptDisk> for pb::KeptDisk {
    fn from(KeptDisk { key, size_gib, machine, id }: KeptDisk) -> Self {
        Self { key: key.0, size_gib, machine: machine.map(|machine| machine.0), id }
    }
}

impl TryFrom<pb::KeptDisk> for KeptDisk {
    type Error = Malformed;

    fn try_from(disk: pb::KeptDisk) -> Result<Self, Malformed> {
        let pb::KeptDisk { key, size_gib, machine, id } = disk;
        if key.is_empty() {
            return Err(Malformed::missing("disks.key"));
        }
        Ok(Self { key: key.into(), size_gib, machine: machine.map(Into::into), id })
    }
}

impl From<Interface> for pb::Interface {
    fn from(Interface { name, device, mac, network, ips }: Interface) -> Self {
        Self { name, device, mac, network, ips }
    }
}

impl From<pb::Interface> for Interface {
    fn from(pb::Interface { name, device, mac, network, ips }: pb::Interface) -> Self {
        Self { name, device, mac, network, ips }
    }
}

impl From<Snapshot> for pb::Snapshot {
    fn from(snapshot: Snapshot) -> Self {
        let Snapshot { id, name, created_at, description, size_bytes, memory } = snapshot;
        let created_at = created_at.map(|at| at.to_string());
        Self { id: id.0, name, created_at, description, size_bytes, memory }
    }
}

impl TryFrom<pb::Snapshot> for Snapshot {
    type Error = Malformed;

    fn try_from(snapshot: pb::Snapshot) -> Result<Self, Malformed> {
        let pb::Snapshot { id, name, created_at, description, size_bytes, memory } = snapshot;
        let created_at = time("snapshots.created_at", created_at)?;
        Ok(Self { id: id.into(), name, created_at, description, size_bytes, memory })
    }
}

impl From<Machine> for pb::Machine {
    fn from(machine: Machine) -> Self {
        let Machine {
            id,
            name,
            token,
            installation,
            power,
            busy,
            hostname,
            ips,
            cpu,
            memory_mib,
            most_cpu,
            most_memory_mib,
            disks,
            interfaces,
            snapshots,
            tags,
            host,
            group,
            console_url,
            created_at,
            raw,
        } = machine;
        let power = match power {
            Power::On => pb::Power::On,
            Power::Off => pb::Power::Off,
            Power::Paused => pb::Power::Paused,
            Power::Unknown => pb::Power::Unknown,
        };
        Self {
            id: id.0,
            name,
            token: token.map(|token| token.to_string()),
            installation,
            power: power.into(),
            busy,
            hostname,
            ips,
            cpu,
            memory_mib,
            most_cpu,
            most_memory_mib,
            disks: disks
                .map(|all| pb::DiskInfos { items: all.into_iter().map(Into::into).collect() }),
            interfaces: interfaces
                .map(|all| pb::Interfaces { items: all.into_iter().map(Into::into).collect() }),
            snapshots: snapshots
                .map(|all| pb::Snapshots { items: all.into_iter().map(Into::into).collect() }),
            tags,
            host,
            group,
            console_url,
            created_at: created_at.map(|at| at.to_string()),
            raw,
        }
    }
}

impl TryFrom<pb::Machine> for Machine {
    type Error = Malformed;

    fn try_from(machine: pb::Machine) -> Result<Self, Malformed> {
        let pb::Machine {
            id,
            name,
            token,
            installation,
            power,
            busy,
            hostname,
            ips,
            cpu,
            memory_mib,
            most_cpu,
            most_memory_mib,
            disks,
            interfaces,
            snapshots,
            tags,
            host,
            group,
            console_url,
            created_at,
            raw,
        } = machine;
        if id.is_empty() {
            return Err(Malformed::missing("machine.id"));
        }
        let token = token.map(|token| {
            let wrong = |error: sutler_provider::identity::TokenError| {
                Malformed::new("machine.token", error.to_string())
            };
            token.parse().map_err(wrong)
        });
        Ok(Self {
            id: id.into(),
            name,
            token: token.transpose()?,
            installation,
            // A power of later versions is one that we do not know.
            power: match pb::Power::try_from(power) {
                Ok(pb::Power::On) => Power::On,
                Ok(pb::Power::Off) => Power::Off,
                Ok(pb::Power::Paused) => Power::Paused,
                Ok(pb::Power::Unknown) | Err(_) => Power::Unknown,
            },
            busy,
            hostname,
            ips,
            cpu,
            memory_mib,
            most_cpu,
            most_memory_mib,
            disks: disks.map(|all| all.items.into_iter().map(Into::into).collect()),
            interfaces: interfaces.map(|all| all.items.into_iter().map(Into::into).collect()),
            snapshots: snapshots
                .map(|all| all.items.into_iter().map(TryInto::try_into).collect())
                .transpose()?,
            tags,
            host,
            group,
            console_url,
            created_at: time("machine.created_at", created_at)?,
            raw,
        })
    }
}

impl From<TaskState> for pb::TaskStatusResponse {
    fn from(state: TaskState) -> Self {
        let state = match state {
            TaskState::Running { percent, message } => {
                let percent = percent.map(u32::from);
                Some(task::State::Running(task::Running { percent, message }))
            }
            TaskState::Done { id } => Some(task::State::Done(task::Done { id })),
            TaskState::Failed(error) => Some(task::State::Failed(failure_of(&error))),
            TaskState::Unknown => None,
        };
        Self { state }
    }
}

impl TryFrom<pb::TaskStatusResponse> for TaskState {
    type Error = Malformed;

    fn try_from(response: pb::TaskStatusResponse) -> Result<Self, Malformed> {
        Ok(match response.state {
            Some(task::State::Running(task::Running { percent, message })) => {
                Self::Running { percent: narrow("running.percent", percent)?, message }
            }
            Some(task::State::Done(task::Done { id })) => Self::Done { id },
            Some(task::State::Failed(failure)) => Self::Failed(error_in(failure)),
            None => Self::Unknown,
        })
    }
}

impl From<Event> for pb::Event {
    fn from(event: Event) -> Self {
        let event = match event {
            Event::Changed(machine) => event::Event::Changed((*machine).into()),
            Event::Gone(id) => event::Event::Gone(id.0),
            Event::Lost => event::Event::Lost(true),
        };
        Self { event: Some(event) }
    }
}

impl TryFrom<pb::Event> for Event {
    type Error = Malformed;

    fn try_from(event: pb::Event) -> Result<Self, Malformed> {
        Ok(match required("event", event.event)? {
            event::Event::Changed(machine) => Self::Changed(Box::new(machine.try_into()?)),
            event::Event::Gone(id) => Self::Gone(id.into()),
            event::Event::Lost(_) => Self::Lost,
            event::Event::Started(_) => {
                return Err(Malformed::new("event.started", "it comes once, and first"));
            }
        })
    }
}

impl From<Template> for pb::Template {
    fn from(Template { id, name, host, description, size_gib }: Template) -> Self {
        Self { id, name, host, description, size_gib }
    }
}

impl From<pb::Template> for Template {
    fn from(template: pb::Template) -> Self {
        let pb::Template { id, name, host, description, size_gib } = template;
        Self { id, name, host, description, size_gib }
    }
}

impl From<Host> for pb::Host {
    fn from(host: Host) -> Self {
        let Host {
            name,
            online,
            cpu,
            cpu_used,
            memory_mib,
            memory_mib_used,
            disk_gib,
            disk_gib_used,
            cluster,
            zone,
            region,
            datastores,
            labels,
            features,
        } = host;
        Self {
            name,
            online,
            cpu,
            cpu_used,
            memory_mib,
            memory_mib_used,
            disk_gib,
            disk_gib_used,
            cluster,
            zone,
            region,
            datastores,
            labels,
            features,
        }
    }
}

impl From<pb::Host> for Host {
    fn from(host: pb::Host) -> Self {
        let pb::Host {
            name,
            online,
            cpu,
            cpu_used,
            memory_mib,
            memory_mib_used,
            disk_gib,
            disk_gib_used,
            cluster,
            zone,
            region,
            datastores,
            labels,
            features,
        } = host;
        Self {
            name,
            online,
            cpu,
            cpu_used,
            memory_mib,
            memory_mib_used,
            disk_gib,
            disk_gib_used,
            cluster,
            zone,
            region,
            datastores,
            labels,
            features,
        }
    }
}

fn time(field: &str, text: Option<String>) -> Result<Option<Timestamp>, Malformed> {
    text.map(|text| text.parse().map_err(|_| Malformed::new(field, "it is no time"))).transpose()
}
