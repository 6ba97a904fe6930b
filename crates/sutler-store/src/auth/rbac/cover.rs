//! Whether a set of rules holds everything that another set grants.

use super::Rule;
use super::rule::{has, has_or_all, url_covers};

/// How many atoms of the granted rules are looked at. A small request body can spell out lists
/// whose product is astronomical; what lies beyond counts as not held.
const MAX_ATOMS: usize = 50_000;

/// The least that a rule can grant: one verb on one resource (perhaps one name of it) or path.
#[derive(Clone, Copy)]
enum Atom<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str>, verb: &'a str },
    Path { url: &'a str, verb: &'a str },
}

/// The atoms of `granted` that no rule of `held` covers, in the order of `granted`.
pub(super) fn uncovered(held: &[&Rule], granted: &[Rule]) -> Vec<Rule> {
    let mut missing = Vec::new();
    let mut budget = MAX_ATOMS;
    for rule in granted {
        // The usual case of an administrator: one wide rule covers this one whole.
        if held.iter().any(|owner| covers_whole(owner, rule)) {
            continue;
        }
        for atom in atoms(rule) {
            let Some(left) = budget.checked_sub(1) else {
                missing.push(to_rule(atom));
                return missing;
            };
            budget = left;
            if !held.iter().any(|owner| covers(owner, atom)) {
                missing.push(to_rule(atom));
            }
        }
    }
    missing
}

/// Merges atoms that differ only by verb; the rest stays as it is.
pub(super) fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    type Key = (String, String, Option<String>);
    let mut merged: Vec<Rule> = Vec::new();
    let mut at: std::collections::HashMap<Key, usize> = std::collections::HashMap::new();
    for rule in rules {
        let ([group], [resource], []) =
            (&rule.api_groups[..], &rule.resources[..], &rule.non_resource_urls[..])
        else {
            merged.push(rule);
            continue;
        };
        let key = (group.clone(), resource.clone(), rule.resource_names.first().cloned());
        match at.get(&key) {
            Some(place) => merged[*place].verbs.extend(rule.verbs),
            None => {
                at.insert(key, merged.len());
                merged.push(rule);
            }
        }
    }
    merged
}

/// Resources come before paths; the verb varies faster than group and resource.
fn atoms(rule: &Rule) -> impl Iterator<Item = Atom<'_>> {
    let names: Vec<Option<&str>> = match rule.resource_names.as_slice() {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let resources = rule.api_groups.iter().flat_map(move |group| {
        let names = names.clone();
        rule.resources.iter().flat_map(move |resource| {
            let names = names.clone();
            rule.verbs.iter().flat_map(move |verb| {
                let atom = move |name| Atom::Resource { group, resource, name, verb };
                names.clone().into_iter().map(atom)
            })
        })
    });
    let paths = rule
        .non_resource_urls
        .iter()
        .flat_map(|url| rule.verbs.iter().map(move |verb| Atom::Path { url, verb }));
    resources.chain(paths)
}

fn covers(owner: &Rule, atom: Atom<'_>) -> bool {
    match atom {
        Atom::Resource { group, resource, name, verb } => {
            has_or_all(&owner.verbs, verb)
                && has_or_all(&owner.api_groups, group)
                && resource_covers(owner, resource)
                && (owner.resource_names.is_empty()
                    || name.is_some_and(|name| has(&owner.resource_names, name)))
        }
        Atom::Path { url, verb } => {
            has_or_all(&owner.verbs, verb)
                && owner.resource_names.is_empty()
                && owner.non_resource_urls.iter().any(|owned| url_covers(owned, url))
        }
    }
}

fn covers_whole(owner: &Rule, rule: &Rule) -> bool {
    let names_covered = owner.resource_names.is_empty()
        || (!rule.resource_names.is_empty()
            && rule.non_resource_urls.is_empty()
            && rule.resource_names.iter().all(|name| has(&owner.resource_names, name)));
    names_covered
        && rule.verbs.iter().all(|verb| has_or_all(&owner.verbs, verb))
        && rule.api_groups.iter().all(|group| has_or_all(&owner.api_groups, group))
        && rule.resources.iter().all(|resource| resource_covers(owner, resource))
        && rule
            .non_resource_urls
            .iter()
            .all(|url| owner.non_resource_urls.iter().any(|owned| url_covers(owned, url)))
}

fn resource_covers(owner: &Rule, resource: &str) -> bool {
    let any_of = resource.split_once('/').map(|(_, subresource)| subresource);
    owner.resources.iter().any(|owned| {
        owned == "*"
            || owned == resource
            || any_of.is_some_and(|subresource| owned.strip_prefix("*/") == Some(subresource))
    })
}

fn to_rule(atom: Atom<'_>) -> Rule {
    let one = |text: &str| vec![text.to_owned()];
    match atom {
        Atom::Resource { group, resource, name, verb } => Rule {
            api_groups: one(group),
            resources: one(resource),
            resource_names: name.map(one).unwrap_or_default(),
            verbs: one(verb),
            ..Rule::default()
        },
        Atom::Path { url, verb } => {
            Rule { non_resource_urls: one(url), verbs: one(verb), ..Rule::default() }
        }
    }
}
