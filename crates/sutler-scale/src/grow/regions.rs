//! In which place of a group the next node goes, and from which one leaves first.

use std::cmp::Ordering;

use jiff::Timestamp;

use crate::stage::GroupStage;
use crate::world::{Group, RegionStrategy};

/// The places of a group, the one that the next node goes to first. Places without room are left
/// out.
pub(crate) fn place_order(stage: &GroupStage<'_>, now: Timestamp) -> Vec<usize> {
    join_order(stage.group, &stage.by_place, now)
}

/// The places of a group in the order in which they should get the next node, given how many each
/// has. Places that have no room now are left out.
pub fn join_order(group: &Group, have: &[u32], now: Timestamp) -> Vec<usize> {
    let open = |at: &usize| group.places[*at].exhausted_until.is_none_or(|until| until <= now);
    let mut order: Vec<usize> = (0..group.places.len()).filter(open).collect();
    order.sort_by(|a, b| {
        let lacking = |at: usize| have[at] < min_each(group);
        lacking(*b)
            .cmp(&lacking(*a))
            .then_with(|| compare(group, have, *a, *b, 1))
            .then_with(|| a.cmp(b))
    });
    order
}

/// The places of a group in the order in which they should lose a node, given how many each has.
/// Places that are at their minimum are left out.
pub fn leave_order(group: &Group, have: &[u32]) -> Vec<usize> {
    let above = |at: &usize| have[*at] > min_each(group);
    let mut order: Vec<usize> = (0..group.places.len()).filter(above).collect();
    order.sort_by(|a, b| compare(group, have, *b, *a, 0).then_with(|| b.cmp(a)));
    order
}

/// Nodes that each place of a group has at least.
pub(crate) fn min_each(group: &Group) -> u32 {
    group.regions.as_ref().map_or(0, |regions| regions.min_each)
}

/// Which of two places is more in need of a node, `Less` being the one; `extra` nodes are added to
/// each before they are compared.
fn compare(group: &Group, have: &[u32], a: usize, b: usize, extra: u64) -> Ordering {
    let number = |at: usize| u64::from(have[at]) + extra;
    match group.regions.as_ref().map(|regions| &regions.strategy) {
        None => Ordering::Equal,
        Some(RegionStrategy::Balanced) => number(a).cmp(&number(b)),
        Some(RegionStrategy::Weighted(weights)) => {
            let weight =
                |at: usize| u64::from(weights.get(&group.places[at].id).copied().unwrap_or(0));
            // What weighs nothing comes last; else nodes by weight.
            (weight(a) == 0)
                .cmp(&(weight(b) == 0))
                .then_with(|| (number(a) * weight(b)).cmp(&(number(b) * weight(a))))
        }
        Some(RegionStrategy::PrimaryBackup(primary)) => {
            let backup = |at: usize| group.places[at].id != *primary;
            backup(a).cmp(&backup(b)).then_with(|| number(a).cmp(&number(b)))
        }
    }
}
