//! What there is to choose from, and which of it needs no trying.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::estimate::{Choice, Score};
use super::{limits, price_per_weight, sizes};
use crate::grow::classes::Class;
use crate::stage::Stage;
use crate::world::{Resources, Shape, Size, Taint};

/// A choice, and what is known of it.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) choice: Choice,
    /// No packing costs less by what it helps.
    least: f64,
    /// Choices of equal looks help the same pods at the same price.
    pub(crate) looks: Option<Arc<Looks>>,
    /// How many nodes it could have when it was tried.
    most: u32,
    /// What came out.
    pub(crate) score: Option<Score<'a>>,
    pub(crate) tried: bool,
    fresh: bool,
}

/// All that tells nodes apart for the pods that wait.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Looks {
    price: u64,
    allocatable: Resources,
    pods: i64,
    taints: Vec<Taint>,
    labels: BTreeMap<String, String>,
    window: i64,
}

impl<'a> Candidate<'a> {
    /// It was tried, with so many nodes to be had.
    pub(crate) fn note(&mut self, score: Option<Score<'a>>, most: u32) {
        (self.score, self.most) = (score, most);
        (self.tried, self.fresh) = (true, true);
    }

    /// Pods of these classes were seen to by another choice, or by this one.
    pub(crate) fn commit_elsewhere(
        &mut self,
        choice: Choice,
        changed: &BTreeSet<usize>,
        waits_for_others: bool,
    ) {
        match &self.score {
            Some(score) => {
                if score.entangled
                    || choice.group == self.choice.group
                    || score.classes.iter().any(|class| changed.contains(class))
                {
                    self.fresh = false;
                }
            }
            // What helped nobody may help those who wait for others to come.
            None => self.tried &= !waits_for_others,
        }
    }

    /// Whether what was found when it was last tried is still so, with so many nodes to be had.
    pub(crate) fn holds(&self, most: u32) -> bool {
        self.fresh
            && match &self.score {
                // More nodes than it took change nothing, but for those that it could not have.
                Some(score) => {
                    score.nodes <= most && (score.nodes < self.most || most <= self.most)
                }
                None => true,
            }
    }

    /// Whether a score costs less than anything that could come of this.
    pub(crate) fn is_beaten_by(&self, score: &Score<'_>) -> bool {
        // Rounding must not make a bound of what is none.
        score.ratio() < self.least * 0.9999
    }
}

/// All choices, those that could be cheapest first, then by name.
pub(crate) fn gather<'a>(stage: &Stage<'a>, classes: &[Class<'_>]) -> Vec<Candidate<'a>> {
    let keys = relevant_keys(stage, classes);
    let per_weight = price_per_weight(stage);
    let mut all = Vec::new();
    for group in 0..stage.groups.len() {
        let it = stage.groups[group].group;
        for size in limits::usable(stage, group).unwrap_or_default() {
            let offered = &it.sizes[size];
            let price = sizes::reckoned_price(it, offered, per_weight);
            let alike = it.places.len() == 1 && it.preferred_size.is_none();
            let looks = alike.then(|| {
                let labels = it.labels_of(offered, &it.places[0], "");
                Arc::new(Looks {
                    price,
                    allocatable: offered.allocatable.clone(),
                    pods: offered.pods,
                    taints: it.taints.clone(),
                    labels: labels
                        .into_iter()
                        .filter(|(key, _)| keys.contains(key.as_str()))
                        .collect(),
                    window: it.up.window,
                })
            });
            all.push(Candidate {
                choice: Choice { group, size },
                least: least(stage, classes, price, offered),
                looks,
                most: 0,
                score: None,
                tried: false,
                fresh: false,
            });
        }
    }
    all.sort_by(|a, b| {
        let name = |it: &Candidate<'_>| {
            let group = stage.groups[it.choice.group].group;
            (&group.key, &group.sizes[it.choice.size].id)
        };
        a.least.total_cmp(&b.least).then_with(|| name(a).cmp(&name(b)))
    });
    all
}

/// A bound on the price by what is helped, whichever pods are packed onto nodes of a size: however
/// CPU, memory and numbers of pods are weighed against each other, a pod takes at least its share of
/// a node, and pods together take no less than the best of them does by its weight.
fn least(stage: &Stage<'_>, classes: &[Class<'_>], price: u64, size: &Size) -> f64 {
    const WEIGHINGS: [(f64, f64); 3] = [(0.98, 0.0), (0.0, 0.98), (0.49, 0.49)];
    let share = |wanted: i64, whole: i64| wanted.max(0) as f64 / whole.max(1) as f64;
    let slot = 0.02 / size.pods.max(1) as f64;
    let mut bounds = [f64::INFINITY; 3];
    for class in classes.iter().filter(|class| class.left() > 0) {
        let wants = &stage.snapshot.shape(class.shape).requests;
        let cpu = share(wants.cpu, size.allocatable.cpu);
        let memory = share(wants.memory, size.allocatable.memory);
        for (bound, (by_cpu, by_memory)) in bounds.iter_mut().zip(WEIGHINGS) {
            let taken = by_cpu * cpu + by_memory * memory + slot;
            *bound = bound.min(taken / class.weight as f64);
        }
    }
    price as f64 * bounds.into_iter().fold(0.0, f64::max)
}

/// Labels that a shape looks at on nodes. Names of hosts are left out: all new ones differ.
fn relevant_keys<'s>(stage: &'s Stage<'_>, classes: &[Class<'_>]) -> BTreeSet<&'s str> {
    let mut keys = BTreeSet::new();
    for class in classes {
        look(stage.snapshot.shape(class.shape), &mut keys);
    }
    for daemon in stage.world.daemons.values() {
        look(daemon, &mut keys);
    }
    // Pods that are there keep others away by these.
    keys.extend(stage.snapshot.away_keys());
    keys.remove("kubernetes.io/hostname");
    keys
}

fn look<'s>(shape: &'s Shape, keys: &mut BTreeSet<&'s str>) {
    keys.extend(shape.node_selector.keys().map(String::as_str));
    let terms = shape.node_affinity.iter().flatten();
    let terms = terms.chain(shape.node_preferences.iter().map(|(_, term)| term));
    keys.extend(terms.flat_map(|term| &term.labels).map(|requirement| requirement.key.as_str()));
    let near = shape.affinity.iter().chain(&shape.anti_affinity);
    keys.extend(near.map(|term| term.topology_key.as_str()));
    keys.extend(shape.spread.iter().map(|spread| spread.topology_key.as_str()));
    for volume in &shape.volumes {
        keys.extend(volume.keys());
    }
}
