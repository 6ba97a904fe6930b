//! Which nodes may go.
//!
//! A node of a group goes when it was idle for the whole window, nothing on record speaks against
//! it, and every pod on it was found another place, on nodes that are there and stay. There is one
//! verdict for every node, and who removes nodes removes those and no others.

mod evict;
mod hours;
mod plan;
pub(crate) mod simulate;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) use evict::Budgets;
pub use hours::Hours;
pub use plan::{Move, Reason, Removal, ShrinkPlan, Verdict};

use crate::grow::{GrowPlan, later, leave_order, min_each};
use crate::stage::Stage;
use crate::world::{Judgement, Key, Load, PodPlace, Price, Resources, World};

/// How full nodes may be that take pods in, and how busy a group may be afterwards, in percent.
pub const FULL: u32 = 85;

/// The share of each node that its pods have asked for: readings where nothing is measured.
pub fn requested_loads(world: &World) -> BTreeMap<&str, Load> {
    let mut used: HashMap<&str, Resources> = HashMap::new();
    for pod in world.pods() {
        if let PodPlace::On(node) = &pod.place {
            used.entry(node).or_default().add(&pod.shape.requests);
        }
    }
    let nodes = world.nodes().values().map(|node| {
        let used = used.remove(node.name.as_str()).unwrap_or_default();
        (node.name.as_str(), Load::of(&used, &node.allocatable))
    });
    nodes.collect()
}

/// Decides which nodes go.
pub(crate) fn plan(stage: &mut Stage<'_>, grow: &GrowPlan) -> ShrinkPlan {
    let mut shrinker = Shrinker::new(stage, grow);
    let mut plan = ShrinkPlan::default();
    let mut candidates = Vec::new();
    for site in 0..stage.nodes.len() {
        let Some(group) = stage.nodes[site].group else { continue };
        let reasons = shrinker.standing(stage, site, group);
        match reasons.is_empty() {
            true => candidates.push(site),
            false => {
                plan.verdicts.insert(stage.nodes[site].node.name.clone(), Verdict::Keep(reasons));
            }
        }
    }
    shrinker.sort(stage, &mut candidates);
    let targets = targets(stage, &candidates);
    for site in candidates {
        let Some(group) = stage.nodes[site].group else { continue };
        let name = stage.nodes[site].node.name.clone();
        let verdict = match shrinker.try_remove(stage, site, group, &targets) {
            Ok(moves) => {
                let it = &stage.groups[group];
                plan.desired.insert(it.group.key.clone(), shrinker.size(stage, group));
                plan.removals.push(Removal {
                    node: name.clone(),
                    group: it.group.key.clone(),
                    moves: moves.clone(),
                    forced: shrinker.was_forced,
                    evict_within: stage.world.settings.eviction_timeout,
                    saves: price(stage, site),
                });
                Verdict::Removable { moves }
            }
            Err(reasons) => Verdict::Keep(reasons),
        };
        plan.verdicts.insert(name, verdict);
    }
    plan
}

/// What a node costs: its own price, or that of its size.
pub(crate) fn price(stage: &Stage<'_>, site: usize) -> Option<Price> {
    let node = stage.nodes[site].node;
    node.price.or_else(|| {
        let size = stage.groups[stage.nodes[site].group?].group.size_of(node.size.as_deref()?)?;
        if node.spot { size.spot_price.or(size.price) } else { size.price }
    })
}

/// What is written on a node and its hours.
pub(crate) fn notes(stage: &Stage<'_>, site: usize) -> Vec<Reason> {
    let node = stage.nodes[site].node;
    let mut reasons = Vec::new();
    if node.deleting {
        reasons.push(Reason::Leaving);
    } else if !node.ready {
        reasons.push(Reason::NotReady);
    }
    if let Some(by) = &node.keep.forbidden_by {
        reasons.push(Reason::Forbidden { by: by.clone() });
    }
    if let Some(text) = &node.keep.hours {
        match Hours::read(text) {
            None => reasons.push(Reason::HoursMalformed { text: text.clone() }),
            Some(hours) => {
                reasons.extend(hours.next(stage.now).map(|until| Reason::Hours { until }));
            }
        }
    }
    reasons
}

/// Nodes that take pods in: those that may not go themselves first, so that as many as can be stay
/// free to go.
fn targets(stage: &Stage<'_>, candidates: &[usize]) -> Vec<usize> {
    let may_go: BTreeSet<usize> = candidates.iter().copied().collect();
    let takes = |site: &usize| {
        let node = &stage.nodes[*site];
        node.node.ready && !node.node.deleting && !node.node.unschedulable
    };
    let mut targets: Vec<usize> = (0..stage.nodes.len()).filter(takes).collect();
    targets.sort_by_key(|site| (may_go.contains(site), *site));
    targets
}

struct Shrinker<'a> {
    budgets: Budgets<'a>,
    /// Groups that grow, by number.
    growing: Vec<bool>,
    /// By group: how many nodes go in this round, and how many more must, in use or not.
    going: Vec<u32>,
    excess: Vec<u32>,
    leaving: u32,
    receives: BTreeSet<usize>,
    removed: BTreeSet<usize>,
    was_forced: bool,
}

impl<'a> Shrinker<'a> {
    fn new(stage: &Stage<'a>, grow: &GrowPlan) -> Self {
        let grown: BTreeSet<&Key> = grow.growths.iter().map(|growth| &growth.group).collect();
        let growing = stage.groups.iter().map(|it| {
            let group = it.group;
            grown.contains(&group.key)
                || !group.facts.upcoming.is_empty()
                || group.desired > group.healthy() && !group.stopped
        });
        let excess = stage.groups.iter().map(|it| {
            let group = it.group;
            group.facts.excess.max(group.healthy().saturating_sub(group.max))
        });
        Self {
            budgets: Budgets::new(stage.world),
            growing: growing.collect(),
            going: vec![0; stage.groups.len()],
            excess: excess.collect(),
            leaving: stage.groups.iter().map(|it| it.group.facts.leaving).sum(),
            receives: BTreeSet::new(),
            removed: BTreeSet::new(),
            was_forced: false,
        }
    }

    /// How large a group is without what goes.
    fn size(&self, stage: &Stage<'_>, group: usize) -> u32 {
        stage.groups[group].group.healthy().saturating_sub(self.going[group])
    }

    /// What speaks against a node without looking at its pods.
    fn standing(&self, stage: &Stage<'_>, site: usize, number: usize) -> Vec<Reason> {
        let mut reasons = notes(stage, site);
        let group = stage.groups[number].group;
        let node = stage.nodes[site].node;
        let now = stage.now;
        if group.paused {
            reasons.push(Reason::Paused);
        }
        if group.healthy() <= group.min {
            reasons.push(Reason::GroupMinimum { min: group.min });
        }
        if stage.nodes[site].expected {
            reasons.push(Reason::ReceivesPods);
        }
        // A group that is too large gives up nodes that are in use.
        if self.excess[number] > 0 {
            return reasons;
        }
        if !group.down.enabled {
            reasons.push(Reason::Disabled);
        }
        if self.growing[number] {
            reasons.push(Reason::GroupGrows);
        }
        let pause = |from: Option<jiff::Timestamp>, seconds: i64| {
            from.map(|from| later(from, seconds)).filter(|until| *until > now)
        };
        let rest = stage.world.settings.down_cooldown;
        let grew = pause(group.last_up, group.down.cooldown);
        reasons.extend(grew.map(|until| Reason::GrewRecently { until }));
        let shrank = pause(group.last_down, rest);
        reasons.extend(shrank.map(|until| Reason::ShrankRecently { until }));
        let failed = pause(group.facts.last_down_failure, rest);
        reasons.extend(failed.map(|until| Reason::FailedRecently { until }));
        let down = &group.down;
        match node.load.below(down.cpu, down.memory, down.window, now) {
            Judgement::Held => {}
            Judgement::TooFew => reasons.push(Reason::TooFewReadings),
            Judgement::TooShort { until } => reasons.push(Reason::WatchedTooShort { until }),
            Judgement::Gap { from } => reasons.push(Reason::NoReadings { from }),
            Judgement::Broken { share } => reasons.push(Reason::Busy { idle: share }),
        }
        reasons
    }

    /// Who goes first: nodes of groups that are too large, then empty ones, then the idlest, then
    /// the dearest, then where the group has most, then the oldest, then by name.
    fn sort(&self, stage: &Stage<'_>, candidates: &mut [usize]) {
        candidates.sort_by_cached_key(|site| {
            let node = &stage.nodes[*site];
            let group = node.group.unwrap_or_default();
            let moving = node.pods.iter().filter(|entry| !entry.pod.owner.goes_with_node());
            let load = node.node.load.latest(stage.now);
            let it = &stage.groups[group];
            let order = leave_order(it.group, &it.by_place);
            let place = order
                .iter()
                .position(|at| Some(&it.group.places[*at].id) == node.node.place.as_ref());
            (
                self.excess[group] == 0,
                moving.count() > 0,
                load.map(|load| load.cpu.max(load.memory)),
                std::cmp::Reverse(price(stage, *site)),
                place.unwrap_or(usize::MAX),
                node.node.created,
                *site,
            )
        });
    }

    fn try_remove(
        &mut self,
        stage: &mut Stage<'_>,
        site: usize,
        number: usize,
        targets: &[usize],
    ) -> Result<Vec<Move>, Vec<Reason>> {
        let group = stage.groups[number].group;
        let max = stage.world.settings.max_shrinking;
        if self.leaving >= max {
            return Err(vec![Reason::TooManyLeaving { max }]);
        }
        if self.receives.contains(&site) {
            return Err(vec![Reason::ReceivesPods]);
        }
        if self.size(stage, number) <= group.min {
            return Err(vec![Reason::GroupMinimum { min: group.min }]);
        }
        let forced = self.excess[number] > 0;
        let place = place_of(stage, site, number);
        let least = min_each(group);
        if let Some(at) = place
            && stage.groups[number].by_place[at] <= least
        {
            let place = group.places[at].id.clone();
            return Err(vec![Reason::PlaceMinimum { place, min: least }]);
        }
        if !forced {
            // The group was too large when candidates were gathered, and no longer is.
            let reasons = self.standing(stage, site, number);
            if !reasons.is_empty() {
                return Err(reasons);
            }
            self.busy_after(stage, site, number)?;
        }
        let toll = self.budgets.weigh(&stage.nodes[site].pods)?;
        let mark = stage.mark();
        let spare = if forced { 0 } else { i64::from(100 - FULL) };
        match simulate::move_pods(stage, site, targets, spare) {
            Err(reason) => {
                stage.rollback(mark);
                Err(vec![reason])
            }
            Ok(moves) => {
                self.budgets.pay(&toll);
                self.going[number] += 1;
                self.leaving += 1;
                self.excess[number] = self.excess[number].saturating_sub(1);
                self.was_forced = forced;
                self.removed.insert(site);
                if let Some(at) = place {
                    stage.groups[number].by_place[at] -= 1;
                }
                self.receives.extend(moves.iter().map(|(_, to)| *to));
                Ok(moves.into_iter().map(|(moved, _)| moved).collect())
            }
        }
    }

    /// How busy the rest of the group would be, as far as it is measured: below what makes it grow
    /// again.
    fn busy_after(&self, stage: &Stage<'_>, site: usize, number: usize) -> Result<(), Vec<Reason>> {
        let group = stage.groups[number].group;
        let (mut used, mut rest) = ([0i128; 2], [0i128; 2]);
        for member in &stage.groups[number].members {
            let node = stage.nodes[*member].node;
            let Some(load) = node.load.latest(stage.now) else { continue };
            let has = [node.whole().cpu, node.whole().memory];
            for (at, share) in [load.cpu, load.memory].into_iter().enumerate() {
                used[at] += i128::from(has[at]) * i128::from(share);
                if *member != site && !self.removed.contains(member) {
                    rest[at] += i128::from(has[at]);
                }
            }
        }
        let limits = match group.up.enabled {
            true => [FULL.min(group.up.cpu), FULL.min(group.up.memory)],
            false => [FULL; 2],
        };
        for at in 0..2 {
            // Where it is the group's last, its pods go to other groups.
            if rest[at] > 0 {
                let share = u32::try_from(used[at] / rest[at] / 10).unwrap_or(u32::MAX);
                if share > limits[at] {
                    return Err(vec![Reason::TooBusyAfter { share, limit: limits[at] }]);
                }
            }
        }
        Ok(())
    }
}

fn place_of(stage: &Stage<'_>, site: usize, group: usize) -> Option<usize> {
    let places = &stage.groups[group].group.places;
    let own = stage.nodes[site].node.place.as_deref().unwrap_or_default();
    let at = places.iter().position(|place| place.id == own);
    at.or(if places.len() == 1 { Some(0) } else { None })
}
