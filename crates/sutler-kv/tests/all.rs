//! Tests that need a process of their own.

#[path = "all/child.rs"]
mod child;
#[path = "all/disk_error.rs"]
mod disk_error;
#[path = "all/kill.rs"]
mod kill;
#[path = "all/sync.rs"]
mod sync;
#[path = "all/trace.rs"]
mod trace;
