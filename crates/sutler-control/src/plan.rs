//! The planner: what is to be done next for one machine, as a pure function of what is wanted, what
//! is known and what time it is.
//!
//! [`plan`] decides on at most one step. The caller carries it out, takes the outcome into
//! [`Memory`], and asks again. Everything that must survive a crash is in the [`Record`]; memory
//! only makes things quicker, and forgetting it is always safe.

mod absent;
mod blocker;
mod change;
mod create;
mod find;
mod memory;
mod present;
mod record;
mod report;
mod retry;
mod row;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use std::time::Duration;
use sutler_provider::{Capabilities, CreateRequest, Error, MachineId, SnapshotId, TaskId, View};

pub use blocker::Blocker;
pub use change::Difference;
pub use find::{Claims, Group, Nobody, Search};
pub(crate) use find::{Whose, is_free, is_name_of, whose_is};
pub use memory::{Accepted, Attempt, Failure, Memory, Outcome, Removal};
pub use record::{Intent, Record};
pub use report::{Progress, Report, Waiting};
pub use retry::{Retry, retry};
pub use row::{Row, Waiter};

/// How long after its intent was written a create may still be sent. An intent that is older is
/// written anew first, so that the time of the last possible request is always on record.
pub const SEND_WINDOW: Duration = Duration::from_secs(30);

/// What a machine should be like.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// The request that makes it so; its owner's token is filled in when it is sent.
    pub request: CreateRequest,
    /// Whether it should be on; none leaves it as it is once it was made.
    pub power: Option<WantedPower>,
    /// How long its guest may take to shut down.
    pub shutdown_timeout: Duration,
    /// Whether something is to be done after its start.
    pub post_start: bool,
    /// Whether something is to be done before its stop.
    pub pre_stop: bool,
    /// The machine that it is a copy of.
    pub copy: Option<Copy>,
    /// The snapshot that it is to go back to, and has not.
    pub revert: Option<Revert>,
    /// Where a placement policy puts it, as it is written down with the intent.
    pub placed: Option<String>,
    /// A word that changes when anything here does.
    pub digest: String,
}

/// What a machine is copied from.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// The machine.
    pub source: MachineId,
    /// A snapshot of it; its present state when absent.
    pub snapshot: Option<SnapshotId>,
    /// Whether the copy shares its disks.
    pub linked: bool,
    /// What is changed in the guest.
    pub customize: serde_json::Map<String, serde_json::Value>,
}

/// A snapshot to go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revert {
    /// The VMSnapshot.
    pub name: String,
    /// Its ID on the platform.
    pub snapshot: SnapshotId,
}

/// The power that a machine should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedPower {
    /// On.
    On,
    /// Off, at once.
    Off,
    /// Off, by the guest if it can.
    OffGraceful,
}

/// What is known of the platform.
#[derive(Clone, Copy)]
pub struct Platform<'a> {
    /// What it can do.
    pub capabilities: &'a Capabilities,
    /// What is on it.
    pub view: &'a View,
    /// Why the last look at all of it failed, where it did.
    pub list_error: Option<&'a Error>,
    /// How long a machine may take to show up whose ID was not told.
    pub discovery_timeout: Duration,
    /// Whether the machine's name on the platform proves whose it is.
    pub hashed: bool,
    /// The control plane that we are.
    pub installation: &'a str,
}

/// Everything that a plan is made from.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The record.
    pub record: &'a Record,
    /// What it asks for, or why that is not known. A record that is on its way out needs none.
    pub desired: Result<&'a Desired, &'a Blocker>,
    /// The platform, or why it is not known.
    pub platform: Result<Platform<'a>, &'a Blocker>,
    /// What this process remembers.
    pub memory: &'a Memory,
    /// What other records claim.
    pub claims: &'a dyn Claims,
    /// The time.
    pub now: Timestamp,
}

/// What to do, and what to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What to do.
    pub step: Step,
    /// What to say.
    pub report: Report,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing until something changes.
    Rest,
    /// Nothing until then, or until something changes.
    Wait(Timestamp),
    /// Have a complete inventory whose state is not older than this.
    Look(Timestamp),
    /// The same, and look again at the second time whatever happens.
    LookUntil(Timestamp, Timestamp),
    /// Write down that this incarnation was asked for, without asking for anything.
    Restore {
        /// Which machine of the record.
        incarnation: u32,
    },
    /// Write down that somebody else asked for the machine, without asking for anything.
    TakeOver {
        /// When it was asked for.
        asked_at: Timestamp,
    },
    /// Write the intent for this incarnation, with the finalizer, and then send a create.
    Create {
        /// Which machine of the record.
        incarnation: u32,
    },
    /// Write down that this machine is the record's, before anything is done to it.
    Claim(MachineId),
    /// Look at one machine.
    Describe(MachineId),
    /// Ask how a task is doing.
    Task(TaskId),
    /// Change a machine's power.
    Power(MachineId, PowerStep),
    /// Write down which request for a restart is being met, and then restart.
    Restart(MachineId, String),
    /// Put a machine back to a snapshot.
    Revert(MachineId, Revert),
    /// Write down that the machine went back to this VMSnapshot.
    Reverted(String),
    /// Change a machine's size, disks or cards.
    Reconfigure(MachineId, Difference),
    /// Do what the record asks for after a start.
    PostStart(MachineId),
    /// Do what the record asks for before a stop.
    PreStop(MachineId),
    /// Destroy a machine that is proven ours.
    Delete(MachineId, DeleteWhy),
    /// Take our token off a machine that is kept.
    Disown(MachineId),
    /// Take the record off the books.
    Forget(ForgetWhy),
}

/// A change of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerStep {
    /// Switch it on.
    On,
    /// Switch it off at once.
    Off,
    /// Ask the guest first.
    Shutdown,
}

/// Why a machine is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteWhy {
    /// Its record is being deleted.
    Goal,
    /// The record has another one.
    Extra,
}

/// Why a record is taken off the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetWhy {
    /// No machine was ever asked for.
    NeverAsked,
    /// Its machine was observed to be gone.
    Gone,
    /// Its machine is kept.
    Retained,
    /// A person said so.
    Forced,
    /// The platform cannot be asked, and the time in which it could have shown up is over.
    WindowEnded,
}

/// Decides on the next step.
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    match inputs.record.deleting {
        true => absent::plan(inputs),
        false => present::plan(inputs),
    }
}

/// The end of the time in which what was asked for at `requested_at` can still appear.
pub fn settled_at(requested_at: Timestamp, capabilities: &Capabilities) -> Timestamp {
    let window = SEND_WINDOW + capabilities.deadlines.make;
    requested_at.saturating_add(window).unwrap_or(Timestamp::MAX)
}
