//! A simulated hypervisor with the full provider contract.
//!
//! [`Sim`] is a [`Provider`](sutler_provider::Provider) that makes no machines and yet behaves as
//! platforms do: calls take time, work goes on when its caller is gone, hosts fill up, lists lag or
//! lack machines, IDs are given twice or never told, replies get lost. It is the provider that Sutler
//! embeds by default, and the one that simulations and tests run against.
//!
//! - [`Settings`] say what kind of platform it is: what is unique, what is told, how long things take.
//! - [`Planned`] faults happen by script, [`Chances`] by a seed; both see every call, in order.
//! - Time comes from a [`Clock`](sutler_provider::Clock) and from `tokio::time`, randomness from the
//!   seed: the same settings and the same calls give the same machines, byte for byte.
//! - State lives in memory ([`Sim::in_memory`]) or in a folder ([`Sim::open`]), where every change is
//!   written before it is answered, and work that was under way goes on after a restart.
//!
//! Inside, every change is one transaction on rows (`txn`): either all of it is written, published
//! and answered, or nothing has happened. Long work is a row too (`work`), so that it outlives the
//! process.

mod answer;
mod capabilities;
mod chaos;
mod create;
mod disk;
mod events;
mod faults;
mod guest;
mod guests;
mod history;
mod hosts;
mod images;
mod inventory;
mod kept;
mod lifecycle;
mod pipeline;
mod provider;
mod reconfigure;
mod row;
mod settings;
mod sim;
mod snapshots;
mod state;
mod transfer;
mod txn;
mod validate;
mod work;

pub use chaos::{Foreign, Outage, Tamper};
pub use faults::{Call, Fault, Leaves, Planned};
pub use guests::Guest;
pub use history::{Cause, Change, Happened};
pub use settings::{
    Appears, Chances, DeadlineSettings, Feature, HostSettings, Ids, Latency, OutageChance, Quota,
    Settings, TemplateSettings, WorkTimes,
};
pub use sim::{ImageTruth, KeptTruth, Sim, Truth};

#[cfg(test)]
mod tests;
