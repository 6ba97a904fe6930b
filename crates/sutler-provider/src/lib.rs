//! The contract between Sutler and a hypervisor or cloud.
//!
//! [`Provider`] is what a platform must be able to do; [`Capabilities`] says as data what it can do
//! beyond that. Nothing here knows of Kubernetes: requests and observations are plain domain types,
//! so that a provider can run in process, behind gRPC or at the far end of an agent's tunnel.
//!
//! Rules that every provider keeps, and that the guards and controllers build on:
//!
//! - Absence is `Ok(None)`, never an error; an error never means absence.
//! - A call that was accepted goes on when its caller is gone.
//! - A change carries the [`Owner`] that it is made for, and is refused with
//!   [`ErrorKind::Conflict`] when the machine is proven to be somebody else's.
//! - A change that is asked for twice ends as if it were asked for once.

pub mod capabilities;
pub mod check;
pub mod clock;
pub mod contract;
pub mod credentials;
pub mod error;
pub mod guard;
pub mod identity;
pub mod inventory;
pub mod machine;
pub mod raw;
pub mod request;

pub use capabilities::{Capabilities, Deadlines, UniqueBy};
pub use clock::{Clock, SystemClock};
pub use contract::{Console, EventStream, Provider};
pub use credentials::{Credentials, Secret};
pub use error::{Error, ErrorKind, Left, Result};
pub use guard::{
    Backoff, BreakerLimits, BreakerState, Call, CallClass, Gate, Jitter, Limits, RetryLimits, Terms,
};
pub use identity::{DiskKey, MachineId, Owner, Proof, SnapshotId, TaskId, Token, platform_name};
pub use inventory::{Inventory, Seen, View};
pub use machine::{
    DiskInfo, Event, Host, Interface, KeptDisk, Listing, Machine, Power, Snapshot, TaskState,
    Template,
};
pub use request::{
    Accepted, Class, CloneRequest, CreateRequest, DeleteRequest, Disk, DiskRef, ExportRequest,
    Exported, Firmware, GuestCommand, GuestOutput, HardwareUpgradeRequest, Image, ImportRequest,
    Imported, ManagedNode, MigrateRequest, Nic, Placement, PowerOp, PowerRequest, PrepareRequest,
    Prepared, ReconfigureRequest, SnapshotRequest, Snapshotted, Started,
};
