//! The pure decisions of node scaling: how many nodes of which groups, and which of them may go.
//!
//! Nothing here does I/O, waits or reads a clock: `now` is a parameter, and the same input gives
//! the same answer.

pub mod filters;
pub mod world;
