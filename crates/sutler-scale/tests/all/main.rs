//! Tests of decisions from the outside.

mod build;
mod convert;
mod filters;
mod grow;
mod properties;
mod shrink;
