//! Which size the next node of a group has.

use jiff::Timestamp;

use crate::stage::GroupStage;
use crate::world::{Group, Price, Size};

/// Sizes that a group may use now, the one that is tried first in front; empty with the time at
/// which one comes back.
pub(crate) fn usable(stage: &GroupStage<'_>, now: Timestamp) -> Result<Vec<usize>, Timestamp> {
    let group = stage.group;
    let mut sizes: Vec<usize> = match stage.only_size {
        Some(only) => vec![only],
        None => (0..group.sizes.len()).collect(),
    };
    let exhausted = |at: usize| group.sizes[at].exhausted_until.filter(|until| *until > now);
    let back = sizes.iter().filter_map(|at| exhausted(*at)).min();
    sizes.retain(|at| exhausted(*at).is_none());
    if let (true, Some(back)) = (sizes.is_empty(), back) {
        return Err(back);
    }
    let preferred = group.preferred_size.as_deref();
    sizes.sort_by_key(|at| {
        let size = &group.sizes[*at];
        (preferred != Some(size.id.as_str()), size.price.unwrap_or(Price(u64::MAX)), *at)
    });
    Ok(sizes)
}

/// The size of a node that is wanted for itself and not for pods: the preferred one, or else the
/// cheapest.
pub(crate) fn usual_size(stage: &GroupStage<'_>, now: Timestamp) -> Option<usize> {
    usable(stage, now).ok()?.first().copied()
}

/// What a node of this size is reckoned to cost: with the share of those that the platform may
/// take back. Without a price it is reckoned by what it has, at the average price of a unit.
pub(crate) fn reckoned_price(group: &Group, size: &Size, per_weight: (u128, u128)) -> u64 {
    let weight = u128::from(size.allocatable.weight());
    let reckoned = || u64::try_from(weight * per_weight.0 / per_weight.1).unwrap_or(u64::MAX);
    let ordinary = size.price.map_or_else(reckoned, |price| price.0);
    match (&group.spot, size.spot_price) {
        (Some(policy), Some(spot)) => {
            let share = u128::from(policy.max_share);
            let mixed = u128::from(ordinary) * (100 - share) + u128::from(spot.0) * share;
            u64::try_from(mixed / 100).unwrap_or(u64::MAX)
        }
        _ => ordinary,
    }
}
