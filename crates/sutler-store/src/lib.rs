//! The embedded Kubernetes API server: a tower service over a versioned store, over HTTPS and in
//! process.
//!
//! A request goes through `dispatch`: who asks, whether they may, what they ask for. Reads go
//! to `read`, which passes stored bytes on without parsing them where it can; writes go to
//! `write`, where an object is decoded, shaped by its schema, given owners, prepared, validated
//! and committed with the version that it was computed from. Kinds differ in `strategy` and in
//! `write::guard` only.

mod accept;
mod admission;
pub mod admit;
pub mod auth;
pub mod body;
mod bootstrap;
mod codec;
pub mod controllers;
mod discovery;
mod dispatch;
mod documents;
pub mod jsonpath;
mod media;
pub mod metrics;
mod negotiate;
mod object;
mod openapi;
mod options;
mod policy;
mod read;
pub mod registry;
pub mod request;
mod respond;
mod reviews;
pub mod serve;
pub mod server;
pub mod status;
mod strategy;
mod subresource;
mod time;
pub mod tls;
mod write;

pub use body::Body;
pub use server::{ApiServer, Clock, Config, Ids, RandomIds, StartError, SystemClock, Trusted};
