//! How long things take.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sutler_provider::{Deadlines, Error};

use super::{Appears, Settings, duration, options};
use crate::faults::Call;

macro_rules! times {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* #[serde(with = "duration")] pub $field: Duration,)*
        }
    };
}

times! {
    /// How long calls take to be answered.
    #[derive(Default)]
    Latency {
        /// Validate, capabilities, describe, task, disk information, templates, hosts.
        look,
        /// A list of everything, and of kept disks.
        list,
        /// Create.
        create,
        /// Delete, and the removal of a kept disk.
        delete,
        /// Power.
        power,
        /// Reconfigure, hardware upgrade, disown, adopt.
        reconfigure,
        /// Snapshots: create, delete, revert.
        snapshot,
        /// Clone.
        clone,
        /// Images: prepare, remove.
        image,
        /// Disks: export, import.
        transfer,
        /// Commands in a guest.
        guest,
    }
}

times! {
    /// How long the work behind calls takes; what takes no time is done when the call is answered.
    #[derive(Default)]
    WorkTimes {
        /// Making a machine from an image.
        create,
        /// Switching on.
        start,
        /// From switched on until the guest has its addresses.
        boot,
        /// Switching off, stopping in the middle, going on.
        stop,
        /// From the guest's being asked until it is off.
        shutdown,
        /// Destroying a machine, or a kept disk.
        delete,
        /// Changing CPU, memory, disks and cards.
        reconfigure,
        /// Taking, deleting and going back to a snapshot.
        snapshot,
        /// Copying a machine.
        clone,
        /// Bringing an image in, or removing it.
        image,
        /// Sending a disk out, or bringing one in.
        transfer,
    }
}

times! {
    /// How long calls may take, as the capabilities say.
    DeadlineSettings {
        /// Looks at one thing.
        look,
        /// A list of everything.
        list,
        /// Create, reconfigure, clone, image preparation, snapshot.
        make,
        /// Delete, power.
        change,
        /// Export and import of disks.
        transfer,
    }
}

impl Default for DeadlineSettings {
    fn default() -> Self {
        let Deadlines { look, list, make, change, transfer } = Deadlines::default();
        Self { look, list, make, change, transfer }
    }
}

impl From<DeadlineSettings> for Deadlines {
    fn from(settings: DeadlineSettings) -> Self {
        let DeadlineSettings { look, list, make, change, transfer } = settings;
        Self { look, list, make, change, transfer }
    }
}

impl Settings {
    /// How long a call of this kind takes to be answered.
    pub(crate) fn latency_of(&self, call: Call) -> Duration {
        let latency = &self.latency;
        match call {
            Call::Validate
            | Call::Capabilities
            | Call::Describe
            | Call::Task
            | Call::Events
            | Call::DiskInfo
            | Call::Templates
            | Call::Hosts => latency.look,
            Call::List | Call::KeptDisks => latency.list,
            Call::Create => latency.create,
            Call::Delete | Call::KeptDiskRemove => latency.delete,
            Call::Power => latency.power,
            Call::Reconfigure | Call::HardwareUpgrade | Call::Disown | Call::Adopt => {
                latency.reconfigure
            }
            Call::SnapshotCreate | Call::SnapshotDelete | Call::SnapshotRevert => latency.snapshot,
            Call::CloneMachine => latency.clone,
            Call::ImagePrepare | Call::ImageRemove => latency.image,
            Call::DiskExport | Call::DiskImport => latency.transfer,
            Call::GuestExec => latency.guest,
        }
    }

    /// How long a call of this kind may take at most.
    pub(crate) fn deadline_of(&self, call: Call) -> Duration {
        let deadlines = &self.deadlines;
        match call {
            Call::Validate
            | Call::Capabilities
            | Call::Describe
            | Call::Task
            | Call::Events
            | Call::DiskInfo
            | Call::Templates
            | Call::Hosts => deadlines.look,
            Call::List | Call::KeptDisks => deadlines.list,
            Call::Create
            | Call::CloneMachine
            | Call::Reconfigure
            | Call::HardwareUpgrade
            | Call::Disown
            | Call::Adopt
            | Call::SnapshotCreate
            | Call::SnapshotDelete
            | Call::SnapshotRevert
            | Call::ImagePrepare
            | Call::ImageRemove => deadlines.make,
            Call::Delete | Call::KeptDiskRemove | Call::Power | Call::GuestExec => deadlines.change,
            Call::DiskExport | Call::DiskImport => deadlines.transfer,
        }
    }

    /// The longest that work after a call's acceptance keeps its outcome from being seen, and the
    /// field that says so.
    fn work_of(&self, call: Call) -> (&'static str, Duration) {
        let work = &self.work;
        let (field, takes) = match call {
            Call::Create => ("work.create", work.create.saturating_add(work.start)),
            Call::CloneMachine => ("work.clone", work.clone.saturating_add(work.start)),
            Call::Delete | Call::KeptDiskRemove => ("work.delete", work.delete),
            Call::Power => ("work.shutdown", work.shutdown.max(work.start).max(work.stop)),
            Call::Reconfigure | Call::HardwareUpgrade => ("work.reconfigure", work.reconfigure),
            Call::SnapshotCreate | Call::SnapshotDelete | Call::SnapshotRevert => {
                ("work.snapshot", work.snapshot)
            }
            Call::ImagePrepare | Call::ImageRemove => ("work.image", work.image),
            Call::DiskExport | Call::DiskImport => ("work.transfer", work.transfer),
            _ => return ("", Duration::ZERO),
        };
        let made = matches!(call, Call::Create | Call::CloneMachine);
        let unseen = !self.tasks || (made && self.appears == Appears::Made);
        (field, if unseen { self.longest(takes) } else { Duration::ZERO })
    }

    /// How long a request may sit on the platform before it is applied, so that its outcome still
    /// shows in time.
    pub(crate) fn room(&self, call: Call) -> Duration {
        let latency = self.longest(self.latency_of(call));
        self.deadline_of(call).saturating_sub(latency).saturating_sub(self.work_of(call).1)
    }

    fn longest(&self, time: Duration) -> Duration {
        time.saturating_add(time.saturating_mul(u32::from(self.jitter)) / 100)
    }
}

/// Latencies keep the deadlines that the capabilities report.
pub(super) fn check(settings: &Settings) -> Result<(), Error> {
    for call in Call::ALL {
        let deadline = settings.deadline_of(call);
        let latency = settings.longest(settings.latency_of(call));
        let (work, takes) = settings.work_of(call);
        let field = if latency > deadline {
            latency_field(call)
        } else if latency.saturating_add(takes) > deadline {
            work
        } else {
            continue;
        };
        let why = format!("longer than the deadline of {}", call.as_str());
        return Err(options::wrong(field, &why));
    }
    Ok(())
}

fn latency_field(call: Call) -> &'static str {
    match call {
        Call::Validate
        | Call::Capabilities
        | Call::Describe
        | Call::Task
        | Call::Events
        | Call::DiskInfo
        | Call::Templates
        | Call::Hosts => "latency.look",
        Call::List | Call::KeptDisks => "latency.list",
        Call::Create => "latency.create",
        Call::Delete | Call::KeptDiskRemove => "latency.delete",
        Call::Power => "latency.power",
        Call::Reconfigure | Call::HardwareUpgrade | Call::Disown | Call::Adopt => {
            "latency.reconfigure"
        }
        Call::SnapshotCreate | Call::SnapshotDelete | Call::SnapshotRevert => "latency.snapshot",
        Call::CloneMachine => "latency.clone",
        Call::ImagePrepare | Call::ImageRemove => "latency.image",
        Call::DiskExport | Call::DiskImport => "latency.transfer",
        Call::GuestExec => "latency.guest",
    }
}
