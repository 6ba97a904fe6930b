//! Whether a pod fits on a node of a snapshot, and why not.

use super::{Known, Prepared, Snapshot};
use crate::filters::{Refusal, fixed};
use crate::world::Lack;

/// Why not, as numbers; [`Snapshot::explain`] puts it into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum No {
    Closed,
    Fixed,
    Pods,
    Cpu,
    Memory,
    Ephemeral,
    Other,
    Port(usize),
    Spread(usize),
    KeptAway(usize),
    Anti(usize),
    Near(usize),
}

impl No {
    /// One number for each kind.
    pub(crate) fn kind(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Fixed => 1,
            Self::Pods => 2,
            Self::Cpu => 3,
            Self::Memory => 4,
            Self::Ephemeral => 5,
            Self::Other => 6,
            Self::Port(_) => 7,
            Self::Spread(_) => 8,
            Self::KeptAway(_) => 9,
            Self::Anti(_) => 10,
            Self::Near(_) => 11,
        }
    }
}

impl Snapshot<'_> {
    /// Whether only room and what never changes matters to a shape: if one pod does not fit a
    /// node, no later one will, and several can be put there at once.
    pub(crate) fn is_plain(&self, shape: usize) -> bool {
        self.known[shape].prepared.as_ref().is_some_and(|prepared| prepared.plain)
    }

    /// Whether a node that refuses the shape once refuses it as long as pods only come.
    pub(crate) fn only_gets_harder(&self, shape: usize) -> bool {
        let shape = &self.known[shape].shape;
        shape.affinity.is_empty() && shape.spread.is_empty()
    }

    /// How many pods of a plain shape fit on a node, at most so many, with so many percent of it
    /// left over.
    pub(crate) fn room(&self, shape: usize, site: usize, most: i64, spare: i64) -> i64 {
        if self.sites[site].closed {
            return 0;
        }
        let wants = &self.known[shape].shape.requests;
        let allocatable = &self.sites[site].facts.allocatable;
        let mut most = most.min(self.slots[site]);
        let mut limit = |wanted: i64, free: i64| {
            if wanted > 0 {
                most = most.min(free.max(0) / wanted);
            }
        };
        limit(wants.cpu, self.cpu[site] - share(allocatable.cpu, spare));
        limit(wants.memory, self.memory[site] - share(allocatable.memory, spare));
        limit(wants.ephemeral, self.ephemeral[site]);
        for (name, wanted) in &wants.other {
            limit(*wanted, self.sites[site].other.get(name).copied().unwrap_or(0));
        }
        if most > 0 && self.admits(shape, site) { most } else { 0 }
    }

    /// Whether one pod of a prepared shape fits on a node, with so many percent of CPU and memory
    /// left over.
    pub(crate) fn check(&self, shape: usize, site: usize, spare: i64) -> Result<(), No> {
        let place = &self.sites[site];
        if place.closed {
            return Err(No::Closed);
        }
        let known = &self.known[shape];
        let wants = &known.shape.requests;
        if self.slots[site] <= 0 {
            return Err(No::Pods);
        }
        let allocatable = &place.facts.allocatable;
        let lacks = |wanted: i64, free: i64| wanted > 0 && wanted > free;
        if lacks(wants.cpu, self.cpu[site] - share(allocatable.cpu, spare)) {
            return Err(No::Cpu);
        }
        if lacks(wants.memory, self.memory[site] - share(allocatable.memory, spare)) {
            return Err(No::Memory);
        }
        if lacks(wants.ephemeral, self.ephemeral[site]) {
            return Err(No::Ephemeral);
        }
        for (name, wanted) in &wants.other {
            if lacks(*wanted, place.other.get(name).copied().unwrap_or(0)) {
                return Err(No::Other);
            }
        }
        if !self.admits(shape, site) {
            return Err(No::Fixed);
        }
        match &known.prepared {
            Some(prepared) if prepared.plain => Ok(()),
            Some(prepared) => self.check_neighbours(known, prepared, site),
            None => Ok(()),
        }
    }

    fn check_neighbours(&self, known: &Known, prepared: &Prepared, site: usize) -> Result<(), No> {
        let taken = &self.sites[site].ports;
        for (at, port) in known.shape.ports.iter().enumerate() {
            if taken.iter().any(|taken| taken.clashes(port)) {
                return Err(No::Port(at));
            }
        }
        for (rule, (spread, itself)) in prepared.spread.iter().enumerate() {
            let spread = &self.spreads[*spread];
            let constraint = &known.shape.spread[rule];
            let skew = self
                .topology
                .value(spread.key, site)
                .map(|value| spread.at(value) + itself - spread.least(constraint.min_domains));
            if skew.is_none_or(|skew| skew > i64::from(constraint.max_skew)) {
                return Err(No::Spread(rule));
            }
        }
        for away in &prepared.kept_away {
            let owners = &self.aways[*away].owners;
            let value = self.topology.value(owners.key, site);
            if value.is_some_and(|value| owners.at(value) > 0) {
                return Err(No::KeptAway(*away));
            }
        }
        for (at, anti) in prepared.anti.iter().enumerate() {
            let counts = &self.counts[*anti];
            let value = self.topology.value(counts.key, site);
            if value.is_some_and(|value| counts.at(value) > 0) {
                return Err(No::Anti(at));
            }
        }
        let mut missing = None;
        for (at, near) in prepared.near.iter().enumerate() {
            let counts = &self.counts[*near];
            match self.topology.value(counts.key, site) {
                None => return Err(No::Near(at)),
                Some(value) if counts.at(value) <= 0 => missing = missing.or(Some(at)),
                Some(_) => {}
            }
        }
        match missing {
            None => Ok(()),
            Some(at) => {
                let first = prepared.near.iter().all(|near| self.counts[*near].total() == 0);
                if first && prepared.means_itself { Ok(()) } else { Err(No::Near(at)) }
            }
        }
    }

    /// Puts a refusal into words. What never changes is named first.
    pub(crate) fn explain(&self, shape: usize, site: usize, no: No, spare: i64) -> Refusal {
        let known = &self.known[shape];
        let own = &known.shape;
        if let Err(refusal) = fixed(own, self.facts(site)) {
            return refusal;
        }
        let place = &self.sites[site];
        let lack = |name: &str, wanted: i64, free: i64| match wanted > free {
            true => Refusal::Lacks(Lack { name: name.to_owned(), wanted, free }),
            false => Refusal::TooFull { limit: u32::try_from(100 - spare).unwrap_or(0) },
        };
        match no {
            No::Closed => Refusal::NotReady,
            No::Fixed => Refusal::NodeAffinity,
            No::Pods => Refusal::TooManyPods { most: place.facts.pods },
            No::Cpu => lack("cpu", own.requests.cpu, self.cpu[site]),
            No::Memory => lack("memory", own.requests.memory, self.memory[site]),
            No::Ephemeral => {
                lack("ephemeral-storage", own.requests.ephemeral, self.ephemeral[site])
            }
            No::Other => {
                Refusal::Lacks(self.free(site).lacking(&own.requests).unwrap_or_else(|| Lack {
                    name: "other".to_owned(),
                    wanted: 0,
                    free: 0,
                }))
            }
            No::Port(at) => Refusal::Port(own.ports[at].clone()),
            No::Spread(rule) => {
                let constraint = &own.spread[rule];
                let key = constraint.topology_key.clone();
                let spread = known.prepared.as_ref().map(|prepared| prepared.spread[rule]);
                let skew = spread.and_then(|(spread, itself)| {
                    let spread = &self.spreads[spread];
                    let value = self.topology.value(spread.key, site)?;
                    Some(spread.at(value) + itself - spread.least(constraint.min_domains))
                });
                match skew {
                    None => Refusal::SpreadLabel { key },
                    Some(skew) => Refusal::Spread { key, skew, most: constraint.max_skew },
                }
            }
            No::KeptAway(away) => {
                let key = self.topology.name(self.aways[away].owners.key).to_owned();
                Refusal::KeptAway { key }
            }
            No::Anti(at) => {
                Refusal::AntiAffinity { key: own.anti_affinity[at].topology_key.clone() }
            }
            No::Near(at) => Refusal::Affinity { key: own.affinity[at].topology_key.clone() },
        }
    }
}

fn share(whole: i64, percent: i64) -> i64 {
    if percent == 0 { 0 } else { whole.saturating_mul(percent) / 100 }
}
