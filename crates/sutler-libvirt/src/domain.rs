//! Domains as XML: written for machines that are to be made, read from those that are there.

mod read;
mod write;

pub(crate) use read::{Card, Seen, SeenDisk};
pub(crate) use write::{Accel, Cpu, DiskDef, Domain, Firmware, NicDef, Source};
