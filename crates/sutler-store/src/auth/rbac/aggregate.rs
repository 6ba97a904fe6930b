//! ClusterRoles that collect the rules of others by label.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::Rule;
use super::scope::{Rules, name_of, text};

/// The ClusterRoles whose stored `rules` are not what their selectors collect, with the rules
/// they should have. Writing them back is what Kubernetes' aggregation controller does, as the
/// field manager `clusterrole-aggregation-controller`.
pub fn outdated<'v>(
    cluster_roles: impl IntoIterator<Item = &'v Value>,
) -> Vec<(String, Vec<Value>)> {
    let parsed: Vec<Parsed<'_>> = cluster_roles.into_iter().map(Parsed::new).collect();
    let effective = settle(&parsed);
    let mut out: Vec<(String, Vec<Value>)> = parsed
        .iter()
        .filter(|role| role.selectors.is_some())
        .filter(|role| effective[role.name] != role.stored)
        .map(|role| {
            let rules = effective[role.name].iter().map(Rule::to_value).collect();
            (role.name.to_owned(), rules)
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// The rules of all ClusterRoles, those that aggregate with what they collect.
pub(super) fn resolve<'v>(
    cluster_roles: impl IntoIterator<Item = &'v Value>,
) -> HashMap<String, Rules> {
    let parsed: Vec<Parsed<'_>> = cluster_roles.into_iter().map(Parsed::new).collect();
    let effective = settle(&parsed);
    effective.into_iter().map(|(name, rules)| (name.to_owned(), rules.into())).collect()
}

struct Parsed<'v> {
    name: &'v str,
    labels: Option<&'v serde_json::Map<String, Value>>,
    stored: Vec<Rule>,
    /// `None` when the role does not aggregate, or when a selector cannot be read: then the
    /// stored rules stay in force, as the controller leaves such a role alone.
    selectors: Option<Vec<Selector<'v>>>,
}

impl<'v> Parsed<'v> {
    fn new(role: &'v Value) -> Self {
        let selectors = role.get("aggregationRule").filter(|rule| rule.is_object()).map(|rule| {
            let selectors = rule.get("clusterRoleSelectors").and_then(Value::as_array);
            selectors.into_iter().flatten().map(Selector::parse).collect::<Option<Vec<_>>>()
        });
        Self {
            name: name_of(role),
            labels: role.pointer("/metadata/labels").and_then(Value::as_object),
            stored: Rule::list_of(role),
            selectors: selectors.flatten(),
        }
    }

    fn label(&self, key: &str) -> Option<&'v str> {
        self.labels.and_then(|labels| labels.get(key)).and_then(Value::as_str)
    }
}

/// Aggregates until nothing changes, since a role may collect one that itself collects. The sets
/// only grow, so this ends; the number of rounds is the depth of nesting plus one.
fn settle<'v>(parsed: &[Parsed<'v>]) -> BTreeMap<&'v str, Vec<Rule>> {
    let mut effective: BTreeMap<&str, Vec<Rule>> = BTreeMap::new();
    let mut sources: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut by_name: Vec<&Parsed<'_>> = parsed.iter().collect();
    by_name.sort_by_key(|role| role.name);
    for role in &by_name {
        match &role.selectors {
            None => {
                effective.insert(role.name, role.stored.clone());
            }
            Some(selectors) => {
                let others = || by_name.iter().filter(|other| other.name != role.name);
                let collected = selectors.iter().flat_map(|selector| {
                    others().filter(|other| selector.matches(other)).map(|other| other.name)
                });
                sources.push((role.name, collected.collect()));
                effective.insert(role.name, Vec::new());
            }
        }
    }
    loop {
        let mut changed = false;
        for (name, from) in &sources {
            let mut seen: HashSet<&Rule> = HashSet::new();
            let rules = from.iter().flat_map(|source| &effective[source]);
            let rules: Vec<Rule> = rules.filter(|rule| seen.insert(rule)).cloned().collect();
            if effective[name].len() != rules.len() {
                changed = true;
            }
            effective.insert(name, rules);
        }
        if !changed {
            return effective;
        }
    }
}

/// A label selector over ClusterRoles.
struct Selector<'v> {
    equal: Vec<(&'v str, &'v str)>,
    expressions: Vec<Expression<'v>>,
}

enum Expression<'v> {
    In(&'v str, Vec<&'v str>),
    NotIn(&'v str, Vec<&'v str>),
    Exists(&'v str),
    DoesNotExist(&'v str),
}

impl<'v> Selector<'v> {
    fn parse(value: &'v Value) -> Option<Self> {
        let labels = value.get("matchLabels").and_then(Value::as_object);
        let equal = labels.into_iter().flatten();
        let expressions = value.get("matchExpressions").and_then(Value::as_array);
        let expressions = expressions.into_iter().flatten().map(|expression| {
            let key = text(expression, "key");
            let values = expression.get("values").and_then(Value::as_array);
            let values: Vec<&str> =
                values.into_iter().flatten().filter_map(Value::as_str).collect();
            match (text(expression, "operator"), values.is_empty()) {
                ("In", false) => Some(Expression::In(key, values)),
                ("NotIn", false) => Some(Expression::NotIn(key, values)),
                ("Exists", true) => Some(Expression::Exists(key)),
                ("DoesNotExist", true) => Some(Expression::DoesNotExist(key)),
                _ => None,
            }
        });
        Some(Self {
            equal: equal.map(|(key, v)| (key.as_str(), v.as_str().unwrap_or_default())).collect(),
            expressions: expressions.collect::<Option<Vec<_>>>()?,
        })
    }

    fn matches(&self, role: &Parsed<'_>) -> bool {
        self.equal.iter().all(|(key, value)| role.label(key) == Some(value))
            && self.expressions.iter().all(|expression| match expression {
                Expression::In(key, values) => role.label(key).is_some_and(|v| values.contains(&v)),
                Expression::NotIn(key, values) => {
                    role.label(key).is_none_or(|v| !values.contains(&v))
                }
                Expression::Exists(key) => role.label(key).is_some(),
                Expression::DoesNotExist(key) => role.label(key).is_none(),
            })
    }
}
