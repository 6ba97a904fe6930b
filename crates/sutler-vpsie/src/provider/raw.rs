//! Keys of [`Machine::raw`](sutler_provider::Machine::raw): what VPSie says, in its own words.

/// The machine's number.
pub const ID: &str = "vpsie.id";
/// The machine's UUID.
pub const IDENTIFIER: &str = "vpsie.identifier";
/// What it does, in one word.
pub const STATUS: &str = "vpsie.status";
/// Whether it is on, as 1 or 0.
pub const POWER: &str = "vpsie.power";
/// Whether it is in use, as 1 or 0.
pub const ACTIVE: &str = "vpsie.is_active";
/// Whether it is suspended, as 1 or 0.
pub const SUSPENDED: &str = "vpsie.is_suspended";
/// Whether it is locked, as 1 or 0.
pub const LOCKED: &str = "vpsie.is_locked";
/// The root disk in GiB.
pub const DISK_GIB: &str = "vpsie.ssd";
/// Traffic in GB.
pub const TRAFFIC_GB: &str = "vpsie.traffic";
/// The number of its size.
pub const SIZE_ID: &str = "vpsie.boxsize_id";
/// Notes that somebody made.
pub const NOTES: &str = "vpsie.notes";
/// The UUID of the cluster that it is a node of.
pub const CLUSTER: &str = "vpsie.cluster";
/// The number of the group that it is a member of.
pub const GROUP_ID: &str = "vpsie.group.id";
/// The UUID of the group that it is a member of.
pub const GROUP_IDENTIFIER: &str = "vpsie.group.identifier";
