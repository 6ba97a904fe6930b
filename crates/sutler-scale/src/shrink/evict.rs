//! Which pods may be made to leave, and what disruption budgets are left.

use std::collections::{BTreeMap, HashMap};

use super::plan::Reason;
use crate::world::{Budget, Entry, Owner, Shape, World};

/// The namespace of the system's own pods.
const SYSTEM: &str = "kube-system";
/// Reasons that are listed for one node; more help nobody.
const LISTED: usize = 8;

/// What is left of all disruption budgets in this round.
#[derive(Debug)]
pub(crate) struct Budgets<'a> {
    all: Vec<(&'a Budget, i32)>,
    /// By shape: those that cover it.
    covers: HashMap<usize, Vec<usize>>,
}

/// What removing a node takes from each budget.
pub(crate) type Toll = BTreeMap<usize, i32>;

impl<'a> Budgets<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        let all = world.budgets.values().map(|budget| (budget, budget.allowed)).collect();
        Self { all, covers: HashMap::new() }
    }

    fn covering(&mut self, number: usize, shape: &Shape) -> &[usize] {
        let all = &self.all;
        self.covers.entry(number).or_insert_with(|| {
            (0..all.len()).filter(|budget| all[*budget].0.covers(shape)).collect()
        })
    }

    /// What speaks against moving these pods, or what it takes from the budgets.
    pub(crate) fn weigh(&mut self, pods: &[&Entry]) -> Result<Toll, Vec<Reason>> {
        let mut reasons = Vec::new();
        let mut toll = Toll::new();
        for entry in pods {
            if entry.pod.owner.goes_with_node() {
                continue;
            }
            reasons.extend(self.weigh_one(entry, &mut toll));
            if reasons.len() >= LISTED {
                break;
            }
        }
        if reasons.is_empty() { Ok(toll) } else { Err(reasons) }
    }

    fn weigh_one(&mut self, entry: &Entry, toll: &mut Toll) -> Option<Reason> {
        let pod = &entry.pod;
        let key = || pod.key.clone();
        let covering = self.covering(entry.shape, &pod.shape).to_vec();
        if let Some(by) = &pod.eviction.forbidden_by {
            return Some(Reason::PodForbids { pod: key(), by: by.clone() });
        }
        if !pod.eviction.allowed {
            if pod.owner == Owner::Nobody {
                return Some(Reason::NakedPod { pod: key() });
            }
            if !pod.eviction.local_volumes.is_empty() {
                let volumes = pod.eviction.local_volumes.clone();
                return Some(Reason::LocalStorage { pod: key(), volumes });
            }
            if pod.key.namespace == SYSTEM && covering.is_empty() {
                return Some(Reason::SystemPod { pod: key() });
            }
        }
        // A pod that has not started disrupts nobody, and the API lets it go.
        if !pod.started {
            return None;
        }
        match covering.as_slice() {
            [] => None,
            [one] => {
                let (budget, left) = self.all[*one];
                if !pod.ready && (budget.unhealthy_always || budget.healthy) {
                    return None;
                }
                let taken = toll.entry(*one).or_default();
                *taken += 1;
                (*taken > left).then(|| Reason::Budget { pod: key(), budget: budget.key.clone() })
            }
            several => Some(Reason::SeveralBudgets {
                pod: key(),
                budgets: several.iter().map(|at| self.all[*at].0.key.clone()).collect(),
            }),
        }
    }

    /// The pods of a node go.
    pub(crate) fn pay(&mut self, toll: &Toll) {
        for (budget, number) in toll {
            self.all[*budget].1 -= number;
        }
    }
}
