//! A versioned key-value log with watch: memory and SQLite engines.
//!
//! [`engine`] is the contract, [`memory`] and [`sqlite`] keep it, [`crypto`] seals chosen values
//! at rest, [`retention`] decides how much history is kept, and [`stats`] is what a store counts.

pub mod crypto;
pub mod engine;
pub mod memory;
pub mod retention;
pub mod sqlite;
pub mod stats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod range;
mod remaining;
mod topics;
