//! The pure decisions of node scaling: how many nodes of which groups, and which of them may go.
//!
//! Nothing here does I/O, waits or reads a clock: `now` is a parameter, and the same input gives
//! the same answer.

pub mod filters;
pub mod grow;
mod snapshot;
mod stage;
pub mod world;

use jiff::Timestamp;

use grow::{GrowPlan, Offers};
use world::World;

/// Everything that is decided at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Which groups grow.
    pub grow: GrowPlan,
}

/// Decides. New groups are made of `offers`, where there are any.
pub fn decide(world: &World, offers: Option<&Offers>, now: Timestamp) -> Decision {
    let mut stage = stage::Stage::new(world, now);
    let grow = grow::plan(&mut stage, offers);
    Decision { grow }
}
