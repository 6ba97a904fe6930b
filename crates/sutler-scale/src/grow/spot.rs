//! How many of a group's machines the platform may take back.

use jiff::Timestamp;

use crate::world::{Group, Size};

/// How many of `new` nodes are ones that the platform may take back, for a group of `total` nodes
/// of which `spot` are.
pub fn split(group: &Group, size: &Size, total: u32, spot: u32, new: u32, now: Timestamp) -> u32 {
    let Some(policy) = &group.spot else { return 0 };
    if unavailable(group, size, now).is_some() {
        return 0;
    }
    let after = u64::from(total) + u64::from(new);
    let most = after * u64::from(policy.max_share) / 100;
    let more = most.saturating_sub(u64::from(spot));
    new.min(u32::try_from(more).unwrap_or(u32::MAX))
}

/// How many nodes a group may get in all before one of them would have to be one that cannot be
/// had: without a fallback, ordinary machines only fill their own share.
pub fn most_new(
    group: &Group,
    size: &Size,
    total: u32,
    spot: u32,
    wanted: u32,
    now: Timestamp,
) -> Result<u32, Option<Timestamp>> {
    let Some(policy) = &group.spot else { return Ok(wanted) };
    let Some(until) = unavailable(group, size, now) else { return Ok(wanted) };
    if policy.fallback {
        return Ok(wanted);
    }
    if policy.max_share == 0 {
        return Ok(wanted);
    }
    let ordinary = u64::from(total.saturating_sub(spot));
    let share = |after: u64| after - after * u64::from(policy.max_share) / 100;
    let fits = |new: &u32| {
        let new = u64::from(*new);
        ordinary + new <= share(u64::from(total) + new)
    };
    // The least is what the platform's lack leaves; it is small, since shares grow slowly.
    match (1..=wanted).take_while(fits).last() {
        Some(new) => Ok(new),
        None => Err(until),
    }
}

/// Until when no machine of this size is to be had that may be taken back; `None` when there are
/// some. The inner `None` is: it is not known when.
fn unavailable(group: &Group, size: &Size, now: Timestamp) -> Option<Option<Timestamp>> {
    let policy = group.spot.as_ref()?;
    if size.spot_price.is_none() || group.facts.interruptions > policy.max_interruptions {
        return Some(None);
    }
    size.spot_exhausted_until.filter(|until| *until > now).map(Some)
}
