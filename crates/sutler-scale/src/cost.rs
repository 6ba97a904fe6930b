//! What would cost less: nodes of another size, or fewer.
//!
//! These are proposals. One that needs nobody's approval may be carried out, one of a group at a
//! time, by asking for the new node, and removing the old ones once it is ready.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::grow::{GrowPlan, later};
use crate::shrink::{self, Budgets, ShrinkPlan};
use crate::stage::Stage;
use crate::world::{CostPolicy, CostStrategy, Key, Price, Resources, Size};

/// Nodes that are looked at together.
const TOGETHER: usize = 4;

/// A change that would cost less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The group.
    pub group: Key,
    /// Nodes that would go.
    pub nodes: Vec<String>,
    /// The size of the one that would come instead.
    pub size: String,
    /// Its place.
    pub place: String,
    /// What it would save an hour.
    pub saves: Price,
    /// Share of performance at peak times, in percent, that it would cost.
    pub impact: u32,
    /// Whether it may be carried out now, or why a person comes first.
    pub standing: Standing,
}

/// Whether a proposal may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Go,
    /// `requireApproval` is set, or the strategy is `manual`.
    NeedsApproval,
    /// `enableRebalancing` is false.
    RebalancingDisabled,
    /// Costs were seen to a while ago.
    Rests {
        /// Until when.
        until: Timestamp,
    },
    /// Another one of the group comes first.
    AfterOthers,
}

/// What could be changed, the largest saving of each group first. Groups that change in this round
/// and nodes that take pods in are left for the next.
pub(crate) fn propose(
    stage: &mut Stage<'_>,
    grow: &GrowPlan,
    shrink: &ShrinkPlan,
) -> Vec<Proposal> {
    let changes: BTreeSet<&Key> =
        grow.growths.iter().map(|growth| &growth.group).chain(shrink.desired.keys()).collect();
    let moves = shrink.removals.iter().flat_map(|removal| &removal.moves);
    let takes_in: BTreeSet<&str> = moves.map(|moved| moved.to.as_str()).collect();
    let mut budgets = Budgets::new(stage.world);
    let mut all = Vec::new();
    for number in 0..stage.groups.len() {
        let group = stage.groups[number].group;
        let Some(policy) = &group.cost else { continue };
        // Where nodes must not differ, one of another size would.
        if group.paused || group.stopped || !group.mixed || changes.contains(&group.key) {
            continue;
        }
        let movable: Vec<usize> = stage.groups[number]
            .members
            .iter()
            .copied()
            .filter(|site| {
                !takes_in.contains(stage.nodes[*site].node.name.as_str())
                    && !stage.nodes[*site].expected
                    && shrink::notes(stage, *site).is_empty()
                    && budgets.weigh(&stage.nodes[*site].pods).is_ok()
                    && shrink::price(stage, *site).is_some()
            })
            .collect();
        let mut found = Vec::new();
        for site in &movable {
            found.extend(cheapest(stage, number, policy, &[*site]));
        }
        let mut idlest = movable;
        idlest.sort_by_key(|site| (demand(stage, &[*site]).weight(), *site));
        for together in 2..=TOGETHER.min(idlest.len()) {
            let fewer = u32::try_from(together - 1).unwrap_or(0);
            if group.healthy().saturating_sub(fewer) >= group.min {
                found.extend(cheapest(stage, number, policy, &idlest[..together]));
            }
        }
        found.sort_by(|a, b| b.saves.cmp(&a.saves).then_with(|| a.nodes.cmp(&b.nodes)));
        for proposal in found.iter_mut().skip(1) {
            proposal.standing = Standing::AfterOthers;
        }
        all.extend(found);
    }
    all
}

/// The cheapest size that one node could have which takes all pods of these.
fn cheapest(
    stage: &mut Stage<'_>,
    number: usize,
    policy: &CostPolicy,
    sites: &[usize],
) -> Option<Proposal> {
    let group = stage.groups[number].group;
    let paid = sites.iter().filter_map(|site| shrink::price(stage, *site));
    let paid = Price(paid.map(|price| price.0).sum());
    let place = stage.nodes[sites[0]].node.place.clone().unwrap_or_default();
    let at = group.places.iter().position(|known| known.id == place).unwrap_or(0);
    let demand = demand(stage, sites);
    let (limit, max_impact, times) = match policy.strategy {
        CostStrategy::Conservative => (60, 0, 2),
        CostStrategy::Auto | CostStrategy::Manual => (85, policy.max_impact, 1),
        CostStrategy::Aggressive => (95, policy.max_impact, 1),
    };
    let mut sizes: Vec<usize> = (0..group.sizes.len()).collect();
    sizes.sort_by_key(|size| (group.sizes[*size].price, *size));
    for size in sizes {
        let offered = &group.sizes[size];
        let Some(price) = offered.price.filter(|price| *price < paid) else { continue };
        let saves = paid.less(price);
        let impact = impact(&demand, offered, limit);
        if saves.monthly() < policy.min_savings.saturating_mul(times)
            || impact > max_impact
            || offered.exhausted_until.is_some_and(|until| until > stage.now)
        {
            continue;
        }
        if takes_all(stage, number, size, at, sites) {
            return Some(Proposal {
                group: group.key.clone(),
                nodes: sites.iter().map(|site| stage.nodes[*site].node.name.clone()).collect(),
                size: offered.id.clone(),
                place: group.places[at].id.clone(),
                saves,
                impact,
                standing: standing(stage, number, policy),
            });
        }
    }
    None
}

fn standing(stage: &Stage<'_>, number: usize, policy: &CostPolicy) -> Standing {
    let last = stage.groups[number].group.facts.last_optimised;
    let until = last.map(|last| later(last, policy.interval)).filter(|until| *until > stage.now);
    if policy.approval || policy.strategy == CostStrategy::Manual {
        Standing::NeedsApproval
    } else if !stage.world.settings.rebalancing {
        Standing::RebalancingDisabled
    } else {
        until.map_or(Standing::Go, |until| Standing::Rests { until })
    }
}

/// What the pods of these nodes ask for or were seen to use, whichever is more.
fn demand(stage: &Stage<'_>, sites: &[usize]) -> Resources {
    let mut demand = Resources::default();
    for site in sites {
        let mut asked = Resources::default();
        for entry in &stage.nodes[*site].pods {
            asked.add(&entry.pod.shape.requests);
        }
        let node = stage.nodes[*site].node;
        if let Some(peak) = node.load.peak() {
            let used = |share: u32, whole: i64| {
                i64::try_from(i128::from(whole) * i128::from(share) / 1000).unwrap_or(i64::MAX)
            };
            let whole = node.whole();
            asked.cpu = asked.cpu.max(used(peak.cpu, whole.cpu));
            asked.memory = asked.memory.max(used(peak.memory, whole.memory));
        }
        demand.add(&asked);
    }
    demand
}

/// The share of the demand, in percent, that is above so many percent of a size.
fn impact(demand: &Resources, size: &Size, limit: i64) -> u32 {
    let over = |wanted: i64, has: i64| {
        let good = i128::from(has) * i128::from(limit) / 100;
        let over = (i128::from(wanted) - good).max(0) * 100;
        let share =
            if wanted > 0 { (over + i128::from(wanted) - 1) / i128::from(wanted) } else { 0 };
        u32::try_from(share).unwrap_or(u32::MAX)
    };
    over(demand.cpu, size.allocatable.cpu).max(over(demand.memory, size.allocatable.memory))
}

/// Whether one new node takes all pods of these; everything is taken back.
fn takes_all(
    stage: &mut Stage<'_>,
    group: usize,
    size: usize,
    place: usize,
    sites: &[usize],
) -> bool {
    let mark = stage.mark();
    let new = stage.open(group, size, place);
    let fits =
        sites.iter().all(|site| shrink::simulate::move_pods(stage, *site, &[new], 0).is_ok());
    stage.rollback(mark);
    fits
}
