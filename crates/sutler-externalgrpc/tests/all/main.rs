//! All integration tests of the crate, as one binary.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails the test")]

mod calls;
mod frozen;
mod generated;
mod sequences;
mod sizes;
mod support;
mod tls;
