//! How many nodes of which groups the waiting pods need.
//!
//! Each pod is counted once. Pods that fit on what is there or on its way need nothing; the others
//! are packed onto new nodes of the group that helps them at the lowest price, then what is left
//! onto those of the next. What is not done says why, and when it is tried again.

mod classes;
mod dynamic;
mod estimate;
mod limits;
mod options;
mod plan;
mod regions;
mod sizes;
mod spot;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use dynamic::{GroupDefaults, Offers};
pub use plan::{Cause, GrowPlan, Growth, Held, NewGroup, NewNode, Unhelped, WhyNot};
pub use regions::{join_order, leave_order};
pub use spot::{most_new as most_new_with_spot, split as spot_split};

use classes::Class;
use estimate::Choice;
use limits::Limits;
pub(crate) use limits::later;
use options::{Candidate, Looks};
pub(crate) use regions::{min_each, place_order};
pub(crate) use sizes::usual_size;

use crate::filters::Refusal;
use crate::stage::Stage;
use crate::world::{Judgement, Key, Upcoming};

/// Decides on growth, and leaves the pods that it found room for on the stage.
pub(crate) fn plan(stage: &mut Stage<'_>, offers: Option<&Offers>) -> GrowPlan {
    let mut classes = classes::gather(stage);
    let mut grower =
        Grower { limits: Limits::new(stage), nodes: BTreeMap::new(), held: Vec::new() };
    grower.keep_minimums(stage);
    let mut placed = Vec::new();
    for (site, pods) in classes::place_on_what_is_there(stage, &mut classes) {
        if let Some(pods) = grower.promise(site, pods) {
            let name = stage.snapshot.name(site);
            placed.extend(pods.into_iter().map(|pod| (pod, name.to_owned())));
        }
    }
    placed.sort();
    let windows = grower.help_pods(stage, &mut classes);
    grower.add_headroom(stage);
    let unhelped = grower.explain(stage, &classes, &windows);
    let (mut plan, limits) = grower.finish(stage);
    (plan.unhelped, plan.placed) = (unhelped, placed);
    dynamic::add(stage, offers, &mut classes, &limits, &mut plan);
    plan
}

/// A node that is planned.
#[derive(Debug)]
struct Planned {
    site: usize,
    size: usize,
    place: usize,
    spot: bool,
    cause: Cause,
    pods: Vec<Key>,
}

#[derive(Debug)]
struct Grower {
    limits: Limits,
    /// By group.
    nodes: BTreeMap<usize, Vec<Planned>>,
    held: Vec<Held>,
}

impl Grower {
    /// Brings groups and their places up to their minimum.
    fn keep_minimums(&mut self, stage: &mut Stage<'_>) {
        for group in 0..stage.groups.len() {
            loop {
                let it = &stage.groups[group];
                let below = it.by_place.iter().any(|have| *have < min_each(it.group));
                let cause = if it.size() < it.group.min {
                    Cause::Minimum
                } else if below && it.size() < it.group.max {
                    Cause::PlaceMinimum
                } else {
                    break;
                };
                // A place without room cannot be brought up to anything.
                let order = place_order(it, stage.now);
                let lacking = order.iter().any(|at| it.by_place[*at] < min_each(it.group));
                if cause == Cause::PlaceMinimum && !lacking {
                    break;
                }
                if let Err(why) = self.add_one(stage, group, cause) {
                    self.held.push(Held {
                        group: stage.groups[group].group.key.clone(),
                        cause,
                        why,
                    });
                    break;
                }
            }
        }
    }

    /// Adds one node for itself.
    fn add_one(&mut self, stage: &mut Stage<'_>, group: usize, cause: Cause) -> Result<(), WhyNot> {
        self.limits.may(stage, group, cause)?;
        let size = limits::usable(stage, group)?.first().copied().ok_or(WhyNot::NotChosen)?;
        self.limits.most(stage, group, size)?;
        let place = place_order(&stage.groups[group], stage.now);
        let place = place.first().copied().ok_or(WhyNot::NotChosen)?;
        let site = stage.open(group, size, place);
        stage.groups[group].by_place[place] += 1;
        let node = Planned { site, size, place, spot: false, cause, pods: Vec::new() };
        self.take(stage, group, vec![node]);
        Ok(())
    }

    /// Plans nodes of one size for a group, and says which of them the platform may take back.
    fn take(&mut self, stage: &mut Stage<'_>, group: usize, mut nodes: Vec<Planned>) {
        let number = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let it = &mut stage.groups[group];
        if let Some(first) = nodes.first() {
            let size = &it.group.sizes[first.size];
            if !it.group.mixed {
                it.only_size = Some(first.size);
            }
            let spot = spot::split(it.group, size, it.size(), it.spot, number, stage.now);
            it.spot += spot;
            nodes.iter_mut().take(spot as usize).for_each(|node| node.spot = true);
        }
        it.planned += number;
        self.limits.take(group, number);
        self.nodes.entry(group).or_default().extend(nodes);
    }

    /// Pods were placed on a node; if it is a planned one, it is for them too. Else gives them back.
    fn promise(&mut self, site: usize, pods: Vec<Key>) -> Option<Vec<Key>> {
        let mut planned = self.nodes.values_mut().flatten();
        match planned.find(|node| node.site == site) {
            Some(node) => {
                node.pods.extend(pods);
                None
            }
            None => Some(pods),
        }
    }

    /// Grows groups for pods, the best first. Says until when groups wait for a need to last.
    fn help_pods<'a>(
        &mut self,
        stage: &mut Stage<'a>,
        classes: &mut [Class<'a>],
    ) -> BTreeMap<usize, jiff::Timestamp> {
        let per_weight = price_per_weight(stage);
        let mut windows = BTreeMap::new();
        let mut candidates = options::gather(stage, classes);
        loop {
            let Some(best) = self.best(stage, classes, &mut candidates, per_weight, &mut windows)
            else {
                return windows;
            };
            let choice = candidates[best].choice;
            let most = self.may_add(stage, choice);
            if !candidates[best].holds(most) {
                // Pods that it would have helped have been seen to since: try again.
                let skip = skipped(stage, classes, choice);
                let score = estimate::estimate(stage, classes, choice, most, &skip, per_weight);
                candidates[best].note(score, most);
                continue;
            }
            let skip = skipped(stage, classes, choice);
            let packed = estimate::pack(stage, classes, choice, most, &skip);
            if packed.nodes.is_empty() {
                return windows;
            }
            let changed: BTreeSet<usize> = packed.classes.iter().copied().collect();
            self.commit(stage, classes, choice, packed);
            let waits_for_others = classes.iter().any(|class| {
                class.left() > 0 && !stage.snapshot.shape(class.shape).affinity.is_empty()
            });
            for other in &mut candidates {
                other.commit_elsewhere(choice, &changed, waits_for_others);
            }
        }
    }

    /// The best choice by what is known: a score from before the last commit is taken for as good
    /// as it was, which it hardly ever is, and is looked at again when it comes out best.
    fn best<'a>(
        &self,
        stage: &mut Stage<'a>,
        classes: &[Class<'a>],
        candidates: &mut [Candidate<'a>],
        per_weight: (u128, u128),
        windows: &mut BTreeMap<usize, jiff::Timestamp>,
    ) -> Option<usize> {
        let mut best: Option<usize> = None;
        // Looks that were tried, and how many nodes that took.
        let mut tried: BTreeMap<Arc<Looks>, u32> = BTreeMap::new();
        for at in 0..candidates.len() {
            let score = best.and_then(|best| candidates[best].score.as_ref());
            if score.is_some_and(|score| candidates[at].is_beaten_by(score)) {
                // So are all that follow.
                break;
            }
            let choice = candidates[at].choice;
            let most = self.may_add(stage, choice);
            let looks = candidates[at].looks.clone();
            let same = looks.as_ref().and_then(|looks| tried.get(looks));
            if most == 0 || same.is_some_and(|nodes| *nodes <= most) {
                continue;
            }
            if !candidates[at].tried {
                let skip = skipped(stage, classes, choice);
                let score = estimate::estimate(stage, classes, choice, most, &skip, per_weight);
                candidates[at].note(score, most);
            }
            if let Some(looks) = looks {
                let nodes = candidates[at].score.as_ref().map_or(0, |score| score.nodes);
                tried.insert(looks, nodes);
            }
            let Some(score) = &candidates[at].score else { continue };
            let window = stage.groups[choice.group].group.up.window;
            let until = score.since.map(|since| later(since, window));
            if let Some(until) = until.filter(|until| *until > stage.now) {
                windows.insert(choice.group, until);
                continue;
            }
            let better = best.and_then(|best| candidates[best].score.as_ref());
            if better.is_none_or(|better| score.better_than(better)) {
                best = Some(at);
            }
        }
        best
    }

    /// How many nodes a choice may add; none when it may not.
    fn may_add(&self, stage: &Stage<'_>, choice: Choice) -> u32 {
        let may = self.limits.may(stage, choice.group, Cause::Pods);
        let held = stage.groups[choice.group].only_size.is_some_and(|only| only != choice.size);
        match may {
            Ok(()) if !held => self.limits.most(stage, choice.group, choice.size).unwrap_or(0),
            _ => 0,
        }
    }

    fn commit(
        &mut self,
        stage: &mut Stage<'_>,
        classes: &mut [Class<'_>],
        choice: Choice,
        packed: estimate::Packed,
    ) {
        let mut nodes = Vec::new();
        for node in packed.nodes {
            let mut pods = Vec::new();
            for (class, number) in node.pods {
                let class = &mut classes[class];
                let end = class.done + usize::try_from(number).unwrap_or(0);
                pods.extend(class.pods[class.done..end].iter().map(|(_, key)| (*key).clone()));
                class.done = end;
            }
            nodes.push(Planned {
                site: node.site,
                size: choice.size,
                place: node.place,
                spot: false,
                cause: Cause::Pods,
                pods,
            });
        }
        self.take(stage, choice.group, nodes);
    }

    /// Adds a node to groups that were busier than they should be for as long as they say.
    fn add_headroom(&mut self, stage: &mut Stage<'_>) {
        for group in 0..stage.groups.len() {
            let it = &stage.groups[group];
            let up = &it.group.up;
            let busy = it.group.facts.load.above(up.cpu, up.memory, up.window, stage.now);
            let grows = it.planned > 0
                || !it.group.facts.upcoming.is_empty()
                || it.group.desired > it.group.healthy();
            if busy != Judgement::Held || grows || !up.enabled {
                continue;
            }
            if let Err(why) = self.add_one(stage, group, Cause::Headroom) {
                let group = stage.groups[group].group.key.clone();
                self.held.push(Held { group, cause: Cause::Headroom, why });
            }
        }
    }

    /// Why nothing is done for the pods that are left.
    fn explain(
        &self,
        stage: &mut Stage<'_>,
        classes: &[Class<'_>],
        windows: &BTreeMap<usize, jiff::Timestamp>,
    ) -> Vec<Unhelped> {
        let mut unhelped = Vec::new();
        for class in classes {
            let young = &class.young[class.young_done..];
            if let Some((since, _)) = young.first() {
                let until = later(*since, stage.world.settings.pod_grace);
                unhelped.push(Unhelped {
                    pods: young.iter().map(|(_, key)| (*key).clone()).collect(),
                    groups: Vec::new(),
                    why: Some(WhyNot::Grace { until }),
                    retry_at: Some(until),
                });
            }
            if class.left() == 0 {
                continue;
            }
            let groups: Vec<(Key, WhyNot)> = (0..stage.groups.len())
                .map(|group| {
                    let why = self.why_not(stage, class, group, windows);
                    (stage.groups[group].group.key.clone(), why)
                })
                .collect();
            unhelped.push(Unhelped {
                pods: class.pods[class.done..].iter().map(|(_, key)| (*key).clone()).collect(),
                retry_at: groups.iter().filter_map(|(_, why)| why.retry_at()).min(),
                groups,
                why: None,
            });
        }
        unhelped.sort_by(|a, b| a.pods.cmp(&b.pods));
        unhelped
    }

    fn why_not(
        &self,
        stage: &mut Stage<'_>,
        class: &Class<'_>,
        group: usize,
        windows: &BTreeMap<usize, jiff::Timestamp>,
    ) -> WhyNot {
        if let Err(refusal) = fits_empty(stage, class.shape, group) {
            return WhyNot::Refused(refusal);
        }
        let sizes = match limits::usable(stage, group) {
            Ok(sizes) => sizes,
            Err(why) => return why,
        };
        if let Err(why) = self.limits.may(stage, group, Cause::Pods) {
            return why;
        }
        if let Some(Err(why)) = sizes.first().map(|size| self.limits.most(stage, group, *size)) {
            return why;
        }
        match windows.get(&group) {
            Some(until) => WhyNot::Window { until: *until },
            None => WhyNot::NotChosen,
        }
    }

    fn finish(self, stage: &Stage<'_>) -> (GrowPlan, Limits) {
        let mut growths = Vec::new();
        for (group, nodes) in self.nodes {
            let it = &stage.groups[group];
            let group = it.group;
            let nodes = nodes.into_iter().map(|node| NewNode {
                node: Upcoming {
                    size: group.sizes[node.size].id.clone(),
                    place: group.places[node.place].id.clone(),
                    spot: node.spot,
                    pods: node.pods,
                },
                cause: node.cause,
            });
            let nodes = nodes.collect();
            growths.push(Growth { group: group.key.clone(), desired: it.size(), nodes });
        }
        let plan = GrowPlan { growths, held: self.held, ..GrowPlan::default() };
        (plan, self.limits)
    }
}

/// Classes that a choice is not for: they fit the size that the group tries first, and this is
/// another one.
fn skipped(stage: &mut Stage<'_>, classes: &[Class<'_>], choice: Choice) -> Vec<bool> {
    let mut skip = vec![false; classes.len()];
    let group = stage.groups[choice.group].group;
    let first = limits::usable(stage, choice.group).ok().and_then(|sizes| sizes.first().copied());
    let Some(first) = first.filter(|first| {
        *first != choice.size && group.preferred_size.as_ref() == Some(&group.sizes[*first].id)
    }) else {
        return skip;
    };
    for (at, class) in classes.iter().enumerate() {
        skip[at] = class.left() > 0 && fits_size(stage, class.shape, choice.group, first).is_ok();
    }
    skip
}

/// Whether a pod fits on an empty node of some size of a group in some place.
fn fits_empty(stage: &mut Stage<'_>, shape: usize, group: usize) -> Result<(), Refusal> {
    let sizes = match stage.groups[group].only_size {
        Some(only) => only..only + 1,
        None => 0..stage.groups[group].group.sizes.len(),
    };
    let mut refusal = None;
    for size in sizes {
        match fits_size(stage, shape, group, size) {
            Ok(()) => return Ok(()),
            Err(other) => refusal = refusal.max(Some(other)),
        }
    }
    refusal.map_or(Ok(()), Err)
}

fn fits_size(
    stage: &mut Stage<'_>,
    shape: usize,
    group: usize,
    size: usize,
) -> Result<(), Refusal> {
    let mut refusal = None;
    for place in 0..stage.groups[group].group.places.len() {
        let mark = stage.mark();
        let site = stage.open(group, size, place);
        let checked = stage.snapshot.check(shape, site, 0);
        let explained = checked.map_err(|no| stage.snapshot.explain(shape, site, no, 0));
        stage.rollback(mark);
        match explained {
            Ok(()) => return Ok(()),
            Err(other) => refusal = refusal.max(Some(other)),
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// What a unit of weight costs on average over all sizes with a price, as a fraction.
fn price_per_weight(stage: &Stage<'_>) -> (u128, u128) {
    let sizes = stage.groups.iter().flat_map(|it| &it.group.sizes);
    let priced = sizes.filter_map(|size| Some((size.price?, size.allocatable.weight())));
    let (price, weight) = priced.fold((0u128, 0u128), |(price, weight), (own, has)| {
        (price + u128::from(own.0), weight + u128::from(has))
    });
    if weight == 0 { (10, 1) } else { (price, weight) }
}
