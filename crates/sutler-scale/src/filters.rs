//! The scheduler's filters, one pod and one node at a time.
//!
//! This is the plain form: it looks at every pod on every node where a rule asks for it, and is
//! easy to compare with the scheduler's own. Decisions use the same rules over counts that are
//! kept up to date (`snapshot.rs`); a test holds both against each other.

mod fixed;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};

pub use fixed::{NodeFacts, fixed};
pub(crate) use fixed::{selected, untolerated};
pub use refusal::Refusal;

use crate::world::{Labels, Node, Resources, Shape, Spread, Term};

/// A node with the pods on it.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// What never changes of it.
    pub facts: NodeFacts<'a>,
    /// What pods may have of it.
    pub allocatable: &'a Resources,
    /// How many pods it takes.
    pub most_pods: i64,
    /// The pods on it.
    pub guests: Vec<Guest<'a>>,
}

impl<'a> Site<'a> {
    /// A node without pods.
    pub fn empty(node: &'a Node) -> Self {
        Self {
            facts: NodeFacts {
                name: &node.name,
                labels: &node.labels,
                taints: &node.taints,
                unschedulable: node.unschedulable,
            },
            allocatable: &node.allocatable,
            most_pods: node.pods,
            guests: Vec::new(),
        }
    }
}

/// A pod on a node.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// What the scheduler sees of it.
    pub shape: &'a Shape,
    /// Whether it is on its way out.
    pub terminating: bool,
}

/// Whether a pod of this shape can be on the node with this number.
pub fn check(
    shape: &Shape,
    at: usize,
    sites: &[Site<'_>],
    namespaces: &BTreeMap<String, Labels>,
) -> Result<(), Refusal> {
    let site = &sites[at];
    fixed(shape, site.facts)?;
    ports(shape, site)?;
    room(shape, site)?;
    for spread in &shape.spread {
        check_spread(shape, spread, site, sites)?;
    }
    kept_away(shape, site, sites, namespaces)?;
    anti_affinity(shape, site, sites, namespaces)?;
    affinity(shape, site, sites, namespaces)
}

fn ports(shape: &Shape, site: &Site<'_>) -> Result<(), Refusal> {
    for port in &shape.ports {
        let mut taken = site.guests.iter().flat_map(|guest| &guest.shape.ports);
        if taken.any(|taken| taken.clashes(port)) {
            return Err(Refusal::Port(port.clone()));
        }
    }
    Ok(())
}

fn room(shape: &Shape, site: &Site<'_>) -> Result<(), Refusal> {
    if i64::try_from(site.guests.len()).unwrap_or(i64::MAX) >= site.most_pods {
        return Err(Refusal::TooManyPods { most: site.most_pods });
    }
    let mut free = site.allocatable.clone();
    for guest in &site.guests {
        free.add_times(&guest.shape.requests, -1);
    }
    free.lacking(&shape.requests).map_or(Ok(()), |lack| Err(Refusal::Lacks(lack)))
}

fn check_spread(
    shape: &Shape,
    spread: &Spread,
    site: &Site<'_>,
    sites: &[Site<'_>],
) -> Result<(), Refusal> {
    let key = &spread.topology_key;
    let Some(own) = site.facts.labels.get(key) else {
        return Err(Refusal::SpreadLabel { key: key.clone() });
    };
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for other in sites {
        let Some(value) = other.facts.labels.get(key) else { continue };
        if !spread_counts_node(shape, spread, other.facts) {
            continue;
        }
        let pods = other.guests.iter().filter(|guest| {
            !guest.terminating
                && guest.shape.namespace == shape.namespace
                && spread.counts(&guest.shape.labels)
        });
        *counts.entry(value).or_default() += i64::try_from(pods.count()).unwrap_or(i64::MAX);
    }
    let here = counts.get(own.as_str()).copied().unwrap_or(0);
    let domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
    let least = if domains < i64::from(spread.min_domains) {
        0
    } else {
        counts.values().min().copied().unwrap_or(i64::from(i32::MAX))
    };
    let skew = here + i64::from(spread.counts(&shape.labels)) - least;
    if skew > i64::from(spread.max_skew) {
        return Err(Refusal::Spread { key: key.clone(), skew, most: spread.max_skew });
    }
    Ok(())
}

/// Whether a node counts as part of a place: it has the labels of all the pod's rules, and the
/// pod's node affinity and taints are honoured as the rule says.
pub(crate) fn spread_counts_node(shape: &Shape, spread: &Spread, node: NodeFacts<'_>) -> bool {
    shape.spread.iter().all(|other| node.labels.contains_key(&other.topology_key))
        && (!spread.honour_affinity || selected(shape, node.name, node.labels))
        && (!spread.honour_taints || untolerated(shape, node.taints).is_none())
}

fn matches(term: &Term, shape: &Shape, namespaces: &BTreeMap<String, Labels>) -> bool {
    term.matches(&shape.namespace, &shape.labels, namespaces)
}

fn near(site: &Site<'_>, other: &Site<'_>, key: &str) -> bool {
    let own = site.facts.labels.get(key);
    own.is_some() && own == other.facts.labels.get(key)
}

fn kept_away(
    shape: &Shape,
    site: &Site<'_>,
    sites: &[Site<'_>],
    namespaces: &BTreeMap<String, Labels>,
) -> Result<(), Refusal> {
    let mut keys = BTreeSet::new();
    for other in sites {
        for guest in &other.guests {
            for term in &guest.shape.anti_affinity {
                if near(site, other, &term.topology_key) && matches(term, shape, namespaces) {
                    keys.insert(&term.topology_key);
                }
            }
        }
    }
    match keys.first() {
        Some(key) => Err(Refusal::KeptAway { key: (*key).clone() }),
        None => Ok(()),
    }
}

fn anti_affinity(
    shape: &Shape,
    site: &Site<'_>,
    sites: &[Site<'_>],
    namespaces: &BTreeMap<String, Labels>,
) -> Result<(), Refusal> {
    for term in &shape.anti_affinity {
        let close = sites.iter().filter(|other| near(site, other, &term.topology_key));
        let mut guests = close.flat_map(|other| &other.guests);
        if guests.any(|guest| matches(term, guest.shape, namespaces)) {
            return Err(Refusal::AntiAffinity { key: term.topology_key.clone() });
        }
    }
    Ok(())
}

/// All terms must be met, each by a pod that all of them mean. The first pod of a series that means
/// itself may go anywhere.
fn affinity(
    shape: &Shape,
    site: &Site<'_>,
    sites: &[Site<'_>],
    namespaces: &BTreeMap<String, Labels>,
) -> Result<(), Refusal> {
    let terms = &shape.affinity;
    let meant = |other: &Shape| terms.iter().all(|term| matches(term, other, namespaces));
    let mut missing = None;
    for term in terms {
        if !site.facts.labels.contains_key(&term.topology_key) {
            return Err(Refusal::Affinity { key: term.topology_key.clone() });
        }
        let close = sites.iter().filter(|other| near(site, other, &term.topology_key));
        let mut guests = close.flat_map(|other| &other.guests);
        if !guests.any(|guest| meant(guest.shape)) {
            missing = missing.or(Some(&term.topology_key));
        }
    }
    let Some(key) = missing else { return Ok(()) };
    let anywhere = sites.iter().any(|other| {
        terms.iter().any(|term| other.facts.labels.contains_key(&term.topology_key))
            && other.guests.iter().any(|guest| meant(guest.shape))
    });
    if !anywhere && meant(shape) {
        return Ok(());
    }
    Err(Refusal::Affinity { key: key.clone() })
}
