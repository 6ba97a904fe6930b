//! Keys of [`Machine::raw`](sutler_provider::Machine::raw): what VPSie says, in its own words.

pub use sutler_provider::raw::{DISK_GIB, ID, IDENTIFIER, STATUS, TRAFFIC_GB};

/// Whether it is on, as 1 or 0.
pub const POWER: &str = "power";
/// Whether it is in use, as 1 or 0.
pub const ACTIVE: &str = "is_active";
/// Whether it is suspended, as 1 or 0.
pub const SUSPENDED: &str = "is_suspended";
/// Whether it is locked, as 1 or 0.
pub const LOCKED: &str = "is_locked";
/// The number of its size.
pub const SIZE_ID: &str = "boxsize_id";
/// Notes that somebody made.
pub const NOTES: &str = "notes";
/// The UUID of the cluster that it is a node of.
pub const CLUSTER: &str = "cluster";
/// The number of the group that it is a member of.
pub const GROUP_ID: &str = "group.id";
/// The UUID of the group that it is a member of.
pub const GROUP_IDENTIFIER: &str = "group.identifier";
