//! What goes wrong with a call: by script, or by seed.

use std::time::Duration;

use rand::{Rng as _, rngs::StdRng};
use serde::{Deserialize, Serialize};
use sutler_provider::ErrorKind;

use crate::settings::Chances;

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum Call {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Call {
            /// All of them.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// Its name in the contract.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

calls! {
    Validate = "validate",
    Capabilities = "capabilities",
    Create = "create",
    Delete = "delete",
    Power = "power",
    Reconfigure = "reconfigure",
    Describe = "describe",
    Task = "task",
    List = "list",
    Events = "events",
    Disown = "disown",
    Adopt = "adopt",
    SnapshotCreate = "snapshot_create",
    SnapshotDelete = "snapshot_delete",
    SnapshotRevert = "snapshot_revert",
    CloneMachine = "clone_machine",
    ImagePrepare = "image_prepare",
    ImageRemove = "image_remove",
    DiskInfo = "disk_info",
    KeptDisks = "kept_disks",
    KeptDiskRemove = "kept_disk_remove",
    DiskExport = "disk_export",
    DiskImport = "disk_import",
    HardwareUpgrade = "hardware_upgrade",
    GuestExec = "guest_exec",
    Templates = "templates",
    Hosts = "hosts",
}

impl Call {
    /// Whether it changes nothing.
    pub const fn is_look(self) -> bool {
        matches!(
            self,
            Self::Validate
                | Self::Capabilities
                | Self::Describe
                | Self::Task
                | Self::List
                | Self::Events
                | Self::DiskInfo
                | Self::KeptDisks
                | Self::Templates
                | Self::Hosts
        )
    }

    const fn makes_machine(self) -> bool {
        matches!(self, Self::Create | Self::CloneMachine)
    }
}

/// What goes wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this kind of error, and nothing is applied.
    Refuse(ErrorKind),
    /// It is applied, and answered with [`ErrorKind::Indeterminate`].
    ErrorAfter,
    /// It is applied, and its caller never hears of it.
    LostReply,
    /// It sits on the platform for this long before it is applied, or for as long as its deadline
    /// allows where that is less. Its caller hears at once that the connection broke, or nothing.
    Late {
        /// How long it sits there.
        by: Duration,
        /// Whether the caller is left waiting.
        hang: bool,
    },
    /// It is executed again this much later, or as late as its deadline allows.
    Duplicate {
        /// How much later.
        after: Duration,
    },
    /// A create tells neither the machine's ID nor a task.
    NoId,
    /// The work that it begins fails at 90 %.
    TaskFails(Leaves),
    /// A list shows what was this long ago, or as long ago as the capabilities allow.
    Lag(Duration),
    /// A list lacks about this many percent of the machines, and says that it is not complete.
    Partial(u8),
}

/// What work that fails leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaves {
    /// Nothing: as if it had never begun, but for the kept disks that were made for a machine.
    Nothing,
    /// A machine that is neither as before nor as wanted, and stays busy until it is deleted.
    Broken,
}

/// A fault that is to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    fault: Fault,
    call: Option<Call>,
    about: Option<String>,
    skip: u32,
    times: u32,
}

impl Planned {
    /// To the next call of any kind.
    pub fn any(fault: Fault) -> Self {
        Self { fault, call: None, about: None, skip: 0, times: 1 }
    }

    /// To the next call of this kind.
    pub fn on(call: Call, fault: Fault) -> Self {
        Self { call: Some(call), ..Self::any(fault) }
    }

    /// Only to calls about this machine, image or disk, by name or by ID.
    pub fn about(mut self, name: impl Into<String>) -> Self {
        self.about = Some(name.into());
        self
    }

    /// Not to the first `calls` that it could happen to.
    pub fn after(mut self, calls: u32) -> Self {
        self.skip = calls;
        self
    }

    /// To this many calls rather than to one.
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }
}

/// Faults that are planned, in order.
#[derive(Debug, Default)]
pub(crate) struct Script(Vec<Planned>);

impl Script {
    pub(crate) fn add(&mut self, planned: Planned) {
        self.0.push(planned);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault for this call, if one was planned. Those that still skip calls count this one.
    pub(crate) fn take(&mut self, call: Call, about: &[&str]) -> Option<Fault> {
        let mut found = None;
        for (index, planned) in self.0.iter_mut().enumerate() {
            let fits = planned.call.is_none_or(|wanted| wanted == call)
                && planned.about.as_deref().is_none_or(|wanted| about.contains(&wanted))
                && applies(&planned.fault, call);
            if !fits || planned.times == 0 {
                continue;
            }
            if planned.skip > 0 {
                planned.skip -= 1;
                continue;
            }
            planned.times -= 1;
            found = Some((index, planned.fault.clone()));
            break;
        }
        self.0.retain(|planned| planned.times > 0);
        found.map(|(_, fault)| fault)
    }
}

/// Whether a fault can happen to this kind of call.
fn applies(fault: &Fault, call: Call) -> bool {
    match fault {
        Fault::Refuse(_) | Fault::LostReply => true,
        Fault::Lag(_) | Fault::Partial(_) => call == Call::List,
        Fault::NoId => call.makes_machine(),
        Fault::ErrorAfter | Fault::Late { .. } | Fault::Duplicate { .. } | Fault::TaskFails(_) => {
            !call.is_look()
        }
    }
}

/// Throws the dice for one call. Each call takes the same number of throws, whatever they say, so
/// that a chance can be changed without changing all that follows.
pub(crate) fn throw(
    rng: &mut StdRng,
    chances: &Chances,
    call: Call,
    room: Duration,
    lag: Duration,
) -> Option<Fault> {
    let which: f64 = rng.random();
    let how: f64 = rng.random();
    let faults = [
        (chances.refuse, Fault::Refuse(ErrorKind::Unavailable)),
        (chances.error_after, Fault::ErrorAfter),
        (chances.lost_reply, Fault::LostReply),
        (chances.late, Fault::Late { by: room.mul_f64(how), hang: how < 0.5 }),
        (chances.duplicate, Fault::Duplicate { after: room.mul_f64(how * how) }),
        (chances.no_id, Fault::NoId),
        (chances.task_fails, Fault::TaskFails(Leaves::Nothing)),
        (chances.task_breaks, Fault::TaskFails(Leaves::Broken)),
        (chances.lag, Fault::Lag(lag.mul_f64(how))),
        (chances.partial, Fault::Partial((how * 100.0) as u8)),
    ];
    let mut below = 0.0;
    faults.into_iter().filter(|(_, fault)| applies(fault, call)).find_map(|(chance, fault)| {
        below += chance;
        (which < below).then_some(fault)
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn the_script_goes_by_call_name_and_count() {
        let mut script = Script::default();
        let refuse = Fault::Refuse(ErrorKind::Denied);
        script.add(Planned::on(Call::Create, Fault::LostReply).about("web").after(1).times(2));
        script.add(Planned::any(refuse.clone()).after(3));
        assert_eq!(script.take(Call::Delete, &["web"]), None);
        assert_eq!(script.take(Call::Create, &["db"]), None);
        assert_eq!(script.take(Call::Create, &["vm-1", "web"]), None);
        assert_eq!(script.take(Call::Create, &["web"]), Some(Fault::LostReply));
        assert_eq!(script.take(Call::Create, &["web"]), Some(Fault::LostReply));
        assert_eq!(script.take(Call::Create, &["web"]), Some(refuse));
        assert_eq!(script.take(Call::Create, &["web"]), None);
    }

    #[test]
    fn looks_are_never_applied_twice_and_lists_alone_lag() {
        let mut script = Script::default();
        script.add(Planned::any(Fault::ErrorAfter));
        script.add(Planned::any(Fault::Lag(Duration::ZERO)));
        assert_eq!(script.take(Call::Describe, &[]), None);
        assert_eq!(script.take(Call::List, &[]), Some(Fault::Lag(Duration::ZERO)));
        assert_eq!(script.take(Call::Power, &[]), Some(Fault::ErrorAfter));
    }

    #[test]
    fn dice_follow_the_seed_and_the_chances() {
        let throws = |chances: Chances| {
            let mut rng = StdRng::seed_from_u64(7);
            let room = Duration::from_secs(100);
            (0..2000)
                .map(|_| throw(&mut rng, &chances, Call::Create, room, Duration::ZERO))
                .collect::<Vec<_>>()
        };
        let some = Chances { refuse: 0.1, late: 0.2, partial: 0.5, ..Chances::default() };
        let faults = throws(some);
        assert_eq!(faults, throws(some));
        let count = |f: fn(&Fault) -> bool| faults.iter().flatten().filter(|x| f(x)).count();
        assert!((120..280).contains(&count(|f| matches!(f, Fault::Refuse(_)))));
        assert!((300..500).contains(&count(|f| matches!(f, Fault::Late { .. }))));
        assert_eq!(count(|f| matches!(f, Fault::Partial(_))), 0);
        assert!(throws(Chances::default()).iter().all(Option::is_none));
    }
}
