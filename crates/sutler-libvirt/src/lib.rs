//! Virtual machines on libvirt, as a provider.
//!
//! [`Libvirt`] is a [`Provider`](sutler_provider::Provider) for one host, by libvirt's own library. What
//! it rests upon:
//!
//! - A machine is known by its domain's UUID, which is made from its ownership token, and by the token in
//!   the domain's metadata (`mark`); its name proves nothing. libvirt refuses a second domain of one UUID,
//!   so a request that is sent twice makes one machine.
//! - A domain is defined before any of its volumes is made, and undefined after the last one is gone: at
//!   every moment what there is of a machine can be found through its domain (`create`, `remove`). Names
//!   of volumes say whose they are (`names`).
//! - Calls block, so each runs on a thread and a connection of its own, a few at a time (`link`); what the
//!   host tells by itself comes through the one module with unsafe code (`raw`), and is told on (`watch`).
//! - Long work is a task that outlives its caller (`tasks`), and one thing at a time is done to a machine.

mod addresses;
mod console;
mod copies;
mod create;
mod domain;
mod download;
mod endpoint;
mod fault;
mod find;
mod guest;
mod host;
mod images;
mod kept;
mod link;
mod maker;
mod mark;
mod names;
mod ownership;
mod plan;
mod power;
mod probe;
mod provider;
mod qcow2;
mod raw;
mod reconfigure;
mod refusing;
mod remove;
mod seed;
mod settings;
mod show;
mod snapshots;
mod storage;
mod tasks;
mod tools;
mod transfer;
mod volume;
mod watch;
mod xml;

pub use host::Libvirt;
pub use refusing::Refusing;
pub use settings::{Accelerator, Settings};
