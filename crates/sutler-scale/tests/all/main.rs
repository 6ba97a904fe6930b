//! Tests of decisions from the outside.

#![expect(clippy::unwrap_used, reason = "a test that fails says so by it")]

mod build;
mod convert;
mod filters;
mod grow;
mod properties;
mod shrink;
