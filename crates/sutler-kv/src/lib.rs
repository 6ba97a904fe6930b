//! A versioned key-value log with watch: memory and SQLite engines.
//!
//! [`engine`] is the contract, [`memory`] and [`sqlite`] keep it, [`crypto`] seals chosen values
//! at rest, and [`retention`] decides how much history is kept.

pub mod crypto;
pub mod engine;
pub mod memory;
pub mod retention;
pub mod sqlite;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod range;
mod remaining;
mod topics;
