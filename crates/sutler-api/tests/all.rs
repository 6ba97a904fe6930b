//! Tests of the kinds as a whole.

#[path = "all/deployed.rs"]
mod deployed;
