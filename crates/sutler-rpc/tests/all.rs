//! All integration tests of the crate, as one binary.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails the test")]

#[path = "all/base_wire.rs"]
mod base_wire;
#[path = "all/broken_line.rs"]
mod broken_line;
#[path = "all/certificates.rs"]
mod certificates;
#[path = "all/errors.rs"]
mod errors;
#[path = "all/frozen.rs"]
mod frozen;
#[path = "all/generated.rs"]
mod generated;
#[path = "all/golden.rs"]
mod golden;
#[path = "all/health.rs"]
mod health;
#[path = "all/interop.rs"]
mod interop;
#[path = "all/roundtrip.rs"]
mod roundtrip;
#[path = "all/support.rs"]
mod support;
