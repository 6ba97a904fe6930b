//! All integration tests of the crate, as one binary.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "all/defective.rs"]
mod defective;
#[path = "all/defects.rs"]
mod defects;
#[path = "all/sim.rs"]
mod sim;
