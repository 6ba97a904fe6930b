//! The provider on a stand-in for VPSie's API.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod client;
mod conformance;
mod defects;
mod lab;
mod managed;
mod plain;
mod tls;
