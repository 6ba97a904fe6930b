//! Rules about other machines: who should be near, who must keep apart, and how many may share.

use std::collections::BTreeSet;

use sutler_api::infra::{RuleScope, VMPlacementPolicySpec, VmAffinity};
use sutler_provider::Host;

use super::{Rules, WEIGHT, weight};
use crate::{
    placement::{
        decide::{Subject, Surroundings, Unmet},
        terms::{Neighbour, Term, Wrong, labels_of, selects},
    },
    rules::{Rule, broken},
};

/// How many machines may share a place where a rule names no number.
const ALONE: i32 = 1;

fn unmet(name: &str) -> impl Fn(Wrong) -> Unmet + '_ {
    move |wrong| match wrong {
        Wrong::Invalid(why) => Unmet::Invalid(name.to_owned(), why),
        Wrong::Unserved(field) => Unmet::Unserved(format!("{name}.{field}")),
    }
}

/// Where machines that a term means are, and whether that is known of all of them.
struct Occupied<'a> {
    places: BTreeSet<String>,
    /// One that was asked for and may be anywhere.
    unknown: Option<&'a Neighbour>,
    anybody: bool,
}

fn occupied<'a>(term: &Term, around: &'a Surroundings) -> Occupied<'a> {
    let meant = |n: &&Neighbour| term.means(&n.namespace, &n.labels);
    let meant: Vec<&Neighbour> = around.neighbours.iter().filter(meant).collect();
    let hosts: BTreeSet<&String> = meant.iter().flat_map(|neighbour| &neighbour.hosts).collect();
    let there = around.hosts.iter().filter(|host| hosts.contains(&host.name));
    Occupied {
        places: there.filter_map(|host| labels_of(host).remove(&term.key)).collect(),
        unknown: meant.iter().find(|neighbour| neighbour.hosts.is_empty()).copied(),
        anybody: !meant.is_empty(),
    }
}

fn near<'a>(
    rules: &mut Rules<'a>,
    name: String,
    weight: Option<i64>,
    term: Term,
    subject: &'a Subject,
    around: &'a Surroundings,
) {
    let occupied = occupied(&term, around);
    // The first of those that should be together may be anywhere.
    if !occupied.anybody && term.means(&subject.namespace, &subject.labels) {
        return;
    }
    rules.add(name, weight, move |host| {
        let place = labels_of(host).remove(&term.key);
        let is_near = place.is_some_and(|place| occupied.places.contains(&place));
        (!is_near).then(|| format!("no machine that it should be near shares its {}", term.key))
    });
}

fn apart<'a>(
    rules: &mut Rules<'a>,
    name: String,
    weight: Option<i64>,
    term: Term,
    around: &'a Surroundings,
) {
    if broken(Rule::AntiAffinityHolds) {
        return;
    }
    let occupied = occupied(&term, around);
    rules.add(name, weight, move |host| {
        if let Some(unknown) = occupied.unknown {
            return Some(format!(
                "where {}/{} is is not known yet",
                unknown.namespace, unknown.name
            ));
        }
        let place = labels_of(host).remove(&term.key)?;
        let taken = occupied.places.contains(&place);
        taken.then(|| format!("a machine that it keeps away from has the {} {place}", term.key))
    });
}

/// At most this many machines of the policy share a place.
fn limited<'a>(
    rules: &mut Rules<'a>,
    name: String,
    weight: Option<i64>,
    most: Option<i32>,
    around: &'a Surroundings,
    place: fn(&Host) -> Option<&String>,
) {
    if broken(Rule::AntiAffinityHolds) {
        return;
    }
    let most = usize::try_from(most.unwrap_or(ALONE)).unwrap_or(0);
    rules.add(name, weight, move |host| {
        let here = place(host)?;
        let alike = around.neighbours.iter().filter(|neighbour| neighbour.same_policy);
        // One that may be anywhere counts everywhere.
        let shares = |neighbour: &&Neighbour| {
            neighbour.hosts.is_empty()
                || around.hosts.iter().any(|other| {
                    neighbour.hosts.contains(&other.name) && place(other) == Some(here)
                })
        };
        let count = alike.filter(shares).count();
        (count >= most).then(|| format!("{here} has {count} of at most {most} machines"))
    });
}

pub(super) fn affinity<'a>(
    rules: &mut Rules<'a>,
    policy: &'a VMPlacementPolicySpec,
    subject: &'a Subject,
    around: &'a Surroundings,
) -> Result<(), Unmet> {
    let Some(affinity) = &policy.affinity else { return Ok(()) };
    let root = "spec.affinity";
    let soft = RuleScope::Preferred;
    if let Some(rule) = affinity.host_affinity.as_ref().filter(|rule| rule.enabled) {
        let name = format!("{root}.hostAffinity");
        rules.among(name, weight(rule.scope, soft), &rule.preferred_hosts, |h| Some(&h.name));
    }
    if let Some(rule) = affinity.cluster_affinity.as_ref().filter(|rule| rule.enabled) {
        let (name, weight) = (format!("{root}.clusterAffinity"), weight(rule.scope, soft));
        rules.among(name, weight, &rule.preferred_clusters, |host| host.cluster.as_ref());
    }
    if let Some(rule) = affinity.zone_affinity.as_ref().filter(|rule| rule.enabled) {
        let (name, weight) = (format!("{root}.zoneAffinity"), weight(rule.scope, soft));
        rules.among(name, weight, &rule.preferred_zones, |host| host.zone.as_ref());
    }
    if let Some(rule) = affinity.datastore_affinity.as_ref().filter(|rule| rule.enabled) {
        let preferred = &rule.preferred_datastores;
        rules.add(format!("{root}.datastoreAffinity"), weight(rule.scope, soft), move |host| {
            let has = match &subject.wishes.datastore {
                Some(wish) => preferred.contains(wish),
                None => host.datastores.iter().any(|store| preferred.contains(store)),
            };
            (!has).then(|| format!("the host has none of {}", preferred.join(", ")))
        });
    }
    if let Some(rule) = affinity.application_affinity.as_ref().filter(|rule| rule.enabled)
        && let Some(value) = subject.labels.get(&rule.application_label)
    {
        let term = Term::of_application(&rule.application_label, value, &subject.namespace);
        let name = format!("{root}.applicationAffinity");
        near(rules, name, weight(rule.scope, soft), term, subject, around);
    }
    for (name, weight, term) in
        vm_terms(affinity.vm_affinity.as_ref(), root, "vmAffinity", subject)?
    {
        near(rules, name, weight, term, subject, around);
    }
    if let Some(node) = &affinity.node_affinity {
        let name = format!("{root}.nodeAffinity");
        if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
            rules.add(name.clone(), None, |host| {
                let met = required.node_selector_terms.iter().any(|term| selects(term, host));
                (!met).then(|| "the host has not the labels that are asked for".to_owned())
            });
        }
        for term in node.preferred_during_scheduling_ignored_during_execution.iter().flatten() {
            rules.add(name.clone(), Some(i64::from(term.weight)), |host| {
                let met = selects(&term.preference, host);
                (!met).then(|| "the host has not the labels that are preferred".to_owned())
            });
        }
    }
    pod_rules(rules, policy, subject, around)
}

/// What Kubernetes writes for pods, meant of machines.
fn pod_rules<'a>(
    rules: &mut Rules<'a>,
    policy: &'a VMPlacementPolicySpec,
    subject: &'a Subject,
    around: &'a Surroundings,
) -> Result<(), Unmet> {
    let Some(affinity) = &policy.affinity else { return Ok(()) };
    let own = &subject.namespace;
    if let Some(pods) = &affinity.pod_affinity {
        let name = "spec.affinity.podAffinity";
        for term in pods.required_during_scheduling_ignored_during_execution.iter().flatten() {
            let term = Term::of_pods(term, own).map_err(unmet(name))?;
            near(rules, name.to_owned(), None, term, subject, around);
        }
        for weighted in pods.preferred_during_scheduling_ignored_during_execution.iter().flatten() {
            let term = Term::of_pods(&weighted.pod_affinity_term, own).map_err(unmet(name))?;
            let weight = Some(i64::from(weighted.weight));
            near(rules, name.to_owned(), weight, term, subject, around);
        }
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let name = "spec.affinity.podAntiAffinity";
        for term in pods.required_during_scheduling_ignored_during_execution.iter().flatten() {
            let term = Term::of_pods(term, own).map_err(unmet(name))?;
            apart(rules, name.to_owned(), None, term, around);
        }
        for weighted in pods.preferred_during_scheduling_ignored_during_execution.iter().flatten() {
            let term = Term::of_pods(&weighted.pod_affinity_term, own).map_err(unmet(name))?;
            apart(rules, name.to_owned(), Some(i64::from(weighted.weight)), term, around);
        }
    }
    Ok(())
}

pub(super) fn anti_affinity<'a>(
    rules: &mut Rules<'a>,
    policy: &'a VMPlacementPolicySpec,
    subject: &'a Subject,
    around: &'a Surroundings,
) -> Result<(), Unmet> {
    // What others keep away from holds whatever this machine's own policy says.
    for neighbour in &around.neighbours {
        for (rule, term) in &neighbour.keeps_away {
            if term.means(&subject.namespace, &subject.labels) {
                let only = Neighbour { keeps_away: Vec::new(), ..neighbour.clone() };
                kept_away(rules, rule, term.clone(), only, around);
            }
        }
    }
    let Some(anti) = &policy.anti_affinity else { return Ok(()) };
    let root = "spec.antiAffinity";
    // A limit that need not be kept would be none: it must hold unless it says otherwise.
    let hard = RuleScope::Strict;
    if let Some(rule) = anti.host_anti_affinity.as_ref().filter(|rule| rule.enabled) {
        let (name, weight) = (format!("{root}.hostAntiAffinity"), weight(rule.scope, hard));
        limited(rules, name, weight, rule.max_vms_per_host, around, |h| Some(&h.name));
    }
    if let Some(rule) = anti.cluster_anti_affinity.as_ref().filter(|rule| rule.enabled) {
        let (name, weight) = (format!("{root}.clusterAntiAffinity"), weight(rule.scope, hard));
        limited(rules, name, weight, rule.max_vms_per_cluster, around, |h| h.cluster.as_ref());
    }
    if let Some(rule) = anti.zone_anti_affinity.as_ref().filter(|rule| rule.enabled) {
        let (name, weight) = (format!("{root}.zoneAntiAffinity"), weight(rule.scope, hard));
        limited(rules, name, weight, rule.max_vms_per_zone, around, |h| h.zone.as_ref());
    }
    if let Some(rule) = anti.datastore_anti_affinity.as_ref().filter(|rule| rule.enabled) {
        let (name, weight) = (format!("{root}.datastoreAntiAffinity"), weight(rule.scope, hard));
        rules.add(name, weight, move |host| {
            let left = match &subject.wishes.datastore {
                Some(wish) => has_room(policy, around, wish),
                None => allowed(policy, host).any(|store| has_room(policy, around, store)),
            };
            (!left).then(|| "its datastores have as many machines as they may".to_owned())
        });
    }
    if let Some(rule) = anti.application_anti_affinity.as_ref().filter(|rule| rule.enabled)
        && let Some(value) = subject.labels.get(&rule.application_label)
    {
        let term = Term::of_application(&rule.application_label, value, &subject.namespace);
        let name = format!("{root}.applicationAntiAffinity");
        apart(rules, name, weight(rule.scope, hard), term, around);
    }
    let terms = vm_terms(anti.vm_anti_affinity.as_ref(), root, "vmAntiAffinity", subject)?;
    for (name, weight, term) in terms {
        apart(rules, name, weight, term, around);
    }
    Ok(())
}

/// Keeps a machine away from one whose policy asks for that.
fn kept_away<'a>(
    rules: &mut Rules<'a>,
    rule: &str,
    term: Term,
    neighbour: Neighbour,
    around: &'a Surroundings,
) {
    if broken(Rule::AntiAffinityHolds) {
        return;
    }
    let name = format!("{rule} of {}/{}", neighbour.namespace, neighbour.name);
    let hosts = around.hosts.iter().filter(|host| neighbour.hosts.contains(&host.name));
    let places: BTreeSet<String> =
        hosts.filter_map(|host| labels_of(host).remove(&term.key)).collect();
    let unknown = neighbour.hosts.is_empty();
    rules.add(name, None, move |host| {
        let place = labels_of(host).remove(&term.key)?;
        (unknown || places.contains(&place))
            .then(|| format!("it keeps machines like this one away from the {} {place}", term.key))
    });
}

/// The machines that a policy keeps away whoever places them: the terms that must hold.
pub(crate) fn keeps_away(policy: &VMPlacementPolicySpec, own: &str) -> Vec<(String, Term)> {
    let vms = policy.anti_affinity.iter().filter_map(|anti| anti.vm_anti_affinity.as_ref());
    let vms = vms.flat_map(|terms| &terms.required_during_scheduling);
    let vms = vms.filter_map(|term| Term::of_machines(term, own).ok());
    let vms = vms.map(|term| ("spec.antiAffinity.vmAntiAffinity".to_owned(), term));
    let pods = policy.affinity.iter().filter_map(|affinity| affinity.pod_anti_affinity.as_ref());
    let pods = pods.flat_map(|p| p.required_during_scheduling_ignored_during_execution.iter());
    let pods = pods.flatten().filter_map(|term| Term::of_pods(term, own).ok());
    vms.chain(pods.map(|term| ("spec.affinity.podAntiAffinity".to_owned(), term))).collect()
}

type Named = (String, Option<i64>, Term);

fn vm_terms(
    terms: Option<&VmAffinity>,
    root: &str,
    field: &str,
    subject: &Subject,
) -> Result<Vec<Named>, Unmet> {
    let Some(terms) = terms else { return Ok(Vec::new()) };
    let name = format!("{root}.{field}");
    let required = terms.required_during_scheduling.iter().map(|term| (None, term));
    let preferred = terms
        .preferred_during_scheduling
        .iter()
        .map(|weighted| (Some(i64::from(weighted.weight)), &weighted.vm_affinity_term));
    required
        .chain(preferred)
        .map(|(weight, term)| {
            let term = Term::of_machines(term, &subject.namespace).map_err(unmet(&name))?;
            Ok((name.clone(), weight, term))
        })
        .collect()
}

/// The datastores of a host that must not be avoided.
fn allowed<'a>(
    policy: &'a VMPlacementPolicySpec,
    host: &'a Host,
) -> impl Iterator<Item = &'a String> {
    host.datastores.iter().filter(move |store| {
        policy.hard.as_ref().is_none_or(|hard| {
            (hard.datastores.is_empty() || hard.datastores.contains(store))
                && !hard.excluded_datastores.contains(store)
        })
    })
}

/// Whether one more machine of the policy may be on a datastore.
fn has_room(policy: &VMPlacementPolicySpec, around: &Surroundings, store: &str) -> bool {
    let anti = policy.anti_affinity.as_ref().and_then(|anti| anti.datastore_anti_affinity.as_ref());
    let Some(anti) = anti.filter(|anti| anti.enabled && !broken(Rule::AntiAffinityHolds)) else {
        return true;
    };
    let alike = around.neighbours.iter().filter(|neighbour| neighbour.same_policy);
    let count = alike.filter(|n| n.datastore.as_deref().is_none_or(|other| other == store)).count();
    count < usize::try_from(anti.max_vms_per_datastore.unwrap_or(ALONE)).unwrap_or(0)
}

/// The datastore that keeps most of a policy's rules; none where it says nothing of datastores.
pub(super) fn best_datastore(
    policy: &VMPlacementPolicySpec,
    around: &Surroundings,
    host: &Host,
    before: Option<&String>,
) -> Option<String> {
    let affinity = policy.affinity.as_ref().and_then(|a| a.datastore_affinity.as_ref());
    let affinity = affinity.filter(|affinity| affinity.enabled);
    let named = |c: &sutler_api::infra::PlacementConstraints| {
        !c.datastores.is_empty() || !c.excluded_datastores.is_empty()
    };
    let limited = policy
        .anti_affinity
        .as_ref()
        .is_some_and(|anti| anti.datastore_anti_affinity.as_ref().is_some_and(|a| a.enabled));
    let asked = policy.hard.as_ref().is_some_and(named)
        || policy.soft.as_ref().is_some_and(named)
        || affinity.is_some()
        || limited;
    if !asked {
        return None;
    }
    let rank = |store: &&String| {
        let preferred = affinity.is_some_and(|a| a.preferred_datastores.contains(store));
        let soft = policy.soft.as_ref().map_or(0, |soft| {
            i64::from(soft.datastores.contains(store))
                - i64::from(soft.excluded_datastores.contains(store))
        });
        let strict = affinity.is_some_and(|a| a.scope == Some(RuleScope::Strict));
        let liked = i64::from(preferred) * if strict { 2 * WEIGHT } else { WEIGHT };
        let stays = before == Some(*store);
        (has_room(policy, around, store), liked + soft * WEIGHT, stays)
    };
    let mut stores: Vec<&String> = allowed(policy, host).collect();
    stores.sort_by_key(|store| (std::cmp::Reverse(rank(store)), *store));
    stores.first().map(|store| (*store).clone())
}
