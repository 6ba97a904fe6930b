//! What keeps groups from growing.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::plan::{Cause, WhyNot};
use super::{sizes, spot};
use crate::stage::Stage;

/// What all groups together may still do.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Nodes that may still be added to all groups together.
    left: u32,
    /// Groups that grow, by number.
    growing: BTreeSet<usize>,
}

impl Limits {
    pub(crate) fn new(stage: &Stage<'_>) -> Self {
        let machines: u64 = stage.groups.iter().map(|it| u64::from(it.group.machines())).sum();
        let machines = u32::try_from(machines).unwrap_or(u32::MAX);
        let left =
            stage.world.settings.max_workers.map_or(u32::MAX, |max| max.saturating_sub(machines));
        let grows = |at: &usize| {
            let group = stage.groups[*at].group;
            !group.facts.upcoming.is_empty() || group.desired > group.healthy()
        };
        Self { left, growing: (0..stage.groups.len()).filter(grows).collect() }
    }

    /// Nodes are planned for a group.
    pub(crate) fn take(&mut self, group: usize, nodes: u32) {
        self.left = self.left.saturating_sub(nodes);
        self.growing.insert(group);
    }

    /// Nodes that may still be added to all groups together.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// How many groups grow.
    pub(crate) fn growing(&self) -> usize {
        self.growing.len()
    }

    /// Whether a group may grow for this cause, not looking at how far.
    pub(crate) fn may(&self, stage: &Stage<'_>, group: usize, cause: Cause) -> Result<(), WhyNot> {
        let settings = &stage.world.settings;
        let (number, group) = (group, stage.groups[group].group);
        if group.paused {
            return Err(WhyNot::Paused);
        }
        if group.stopped {
            return Err(WhyNot::Stopped);
        }
        if let Some(until) = group.facts.backoff_until.filter(|until| *until > stage.now) {
            return Err(WhyNot::Backoff { until });
        }
        // The minimum is kept whatever else is set.
        if matches!(cause, Cause::Minimum | Cause::PlaceMinimum) {
            return Ok(());
        }
        if !group.up.enabled {
            return Err(WhyNot::Disabled);
        }
        let until = group.last_up.map(|last| later(last, settings.up_cooldown));
        if let Some(until) = until.filter(|until| *until > stage.now) {
            return Err(WhyNot::Cooldown { until });
        }
        let others = self.growing.len() - usize::from(self.growing.contains(&number));
        if others >= settings.max_growing as usize {
            return Err(WhyNot::TooManyGrowing { max: settings.max_growing });
        }
        Ok(())
    }

    /// How many nodes of a size a group may get, which is at least one.
    pub(crate) fn most(&self, stage: &Stage<'_>, group: usize, size: usize) -> Result<u32, WhyNot> {
        let it = &stage.groups[group];
        let room = it.group.max.saturating_sub(it.size());
        if room == 0 {
            return Err(WhyNot::AtMaximum { max: it.group.max });
        }
        if self.left == 0 {
            let max = stage.world.settings.max_workers.unwrap_or(u32::MAX);
            return Err(WhyNot::ClusterFull { max });
        }
        if let Some(until) = places_back(stage, group) {
            return Err(WhyNot::Exhausted { until });
        }
        let size = &it.group.sizes[size];
        let most = room.min(self.left);
        spot::most_new(it.group, size, it.size(), it.spot, most, stage.now)
            .map_err(|until| WhyNot::NoSpot { until })
    }
}

/// Sizes of a group that can be used now, the first choice in front.
pub(crate) fn usable(stage: &Stage<'_>, group: usize) -> Result<Vec<usize>, WhyNot> {
    sizes::usable(&stage.groups[group], stage.now).map_err(|until| WhyNot::Exhausted { until })
}

/// When no place of a group has room: when the first has again.
fn places_back(stage: &Stage<'_>, group: usize) -> Option<Timestamp> {
    let places = &stage.groups[group].group.places;
    let until = places.iter().map(|place| place.exhausted_until.filter(|at| *at > stage.now));
    until.collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// So many seconds later.
pub(crate) fn later(from: Timestamp, seconds: i64) -> Timestamp {
    from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}
