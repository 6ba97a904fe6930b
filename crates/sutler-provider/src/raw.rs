//! Keys of [`Machine::raw`](crate::Machine::raw) that others than the provider itself read, where a platform
//! tells as much.

/// The number that a platform knows a machine by beside its ID.
pub const ID: &str = "id";
/// The UUID that it knows it by beside its ID.
pub const IDENTIFIER: &str = "identifier";
/// What it does, in the platform's word.
pub const STATUS: &str = "status";
/// The root disk in GiB.
pub const DISK_GIB: &str = "ssd";
/// Traffic in GB.
pub const TRAFFIC_GB: &str = "traffic";
