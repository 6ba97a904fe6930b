//! The pure decisions of node scaling: how many nodes of which groups, and which of them may go.
//!
//! [`World`] is what is known, kept up to date object by object; [`decide`] makes a [`Decision`] of
//! it that a controller can carry out. Nothing here does I/O, waits or reads a clock: `now` is a
//! parameter, and the same input gives the same answer.

pub mod cost;
pub mod filters;
pub mod grow;
pub mod shrink;
mod snapshot;
mod stage;
pub mod world;

use jiff::Timestamp;

use cost::Proposal;
use grow::{GrowPlan, Offers};
use shrink::ShrinkPlan;
use world::World;

/// Everything that is decided at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which groups grow.
    pub grow: GrowPlan,
    /// Which nodes go.
    pub shrink: ShrinkPlan,
    /// What would cost less.
    pub proposals: Vec<Proposal>,
}

impl Decision {
    /// The earliest time at which time alone may change it.
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.grow.retry_at().into_iter().chain(self.shrink.retry_at()).min()
    }
}

/// Decides. New groups are made of `offers`, where there are any.
///
/// Growing comes first: waiting pods take the room that there is before nodes are looked at that
/// may go.
pub fn decide(world: &World, offers: Option<&Offers>, now: Timestamp) -> Decision {
    let mut stage = stage::Stage::new(world, now);
    let grow = grow::plan(&mut stage, offers);
    let shrink = shrink::plan(&mut stage, &grow);
    let proposals = cost::propose(&mut stage, &grow, &shrink);
    Decision { grow, shrink, proposals }
}
