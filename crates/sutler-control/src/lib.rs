//! The pure planner, and the controllers that carry its decisions out.
//!
//! [`plan`] decides on one step for one machine from what is wanted, what is known and what time it
//! is. [`run()`] keeps caches of the API, hands each record to the planner when something happened to
//! it, writes down what has to be on record, and asks the provider in a task of its own: a reconcile
//! never waits for a hypervisor. Everything that must outlive a crash is in the API.

mod claims;
mod classes;
mod clones;
mod context;
mod disks;
mod events;
pub mod fleet;
mod fresh;
mod images;
pub mod index;
pub mod kit;
mod leader;
mod links;
pub mod machine;
pub mod metrics;
mod networks;
mod operations;
pub mod orphans;
mod pace;
mod placement;
pub mod plan;
mod providers;
#[cfg(test)]
mod races;
mod recent;
mod removal;
pub mod rules;
mod run;
mod sets;
mod snapshots;
mod unmanaged;
mod unserved;
mod used;

pub use context::{Context, Outside, Settings};
pub use leader::lead;
pub use run::{Start, run};

/// What is shared between threads is made of these; `races.rs` puts others in their place.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}
