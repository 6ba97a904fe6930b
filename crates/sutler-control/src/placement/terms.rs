//! Which machines a rule means, and which hosts are near each other.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::{Expression, Selector, SelectorExt as _};
use sutler_api::infra::{SelectorOperator, VmAffinityTerm, VmSelectorRequirement};
use sutler_provider::Host;

/// Another machine on the same platform.
#[derive(Debug, Clone, Default)]
pub(crate) struct Neighbour {
    /// Its record's namespace.
    pub(crate) namespace: String,
    /// Its record's name.
    pub(crate) name: String,
    /// Its record's labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Where it is, or may be; empty where it was asked for and nobody knows.
    pub(crate) hosts: BTreeSet<String>,
    /// The datastore that was chosen for it.
    pub(crate) datastore: Option<String>,
    /// Whether the same policy places it.
    pub(crate) same_policy: bool,
    /// Machines that its own policy keeps away from it, and the name of that rule.
    pub(crate) keeps_away: Vec<(String, Term)>,
}

/// Machines that a rule means, and what it calls near.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    selector: Option<Selector>,
    /// None is any.
    namespaces: Option<Vec<String>>,
    /// A label of hosts; those with the same value are near each other.
    pub(crate) key: String,
}

/// Why a term cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It makes no sense.
    Invalid(String),
    /// It is not served, and this is the field.
    Unserved(&'static str),
}

impl Term {
    pub(crate) fn of_machines(term: &VmAffinityTerm, own: &str) -> Result<Self, Wrong> {
        let mut selector = term.label_selector.clone().map(read_selector).transpose()?;
        if !term.match_expressions.is_empty() {
            let more: Selector = term.match_expressions.iter().map(expression).collect();
            selector.get_or_insert_with(Selector::default).extend(more);
        }
        let namespaces = namespaces(&term.namespaces, term.namespace_selector.as_ref(), own)?;
        Ok(Self { selector, namespaces, key: term.topology_key.clone() })
    }

    pub(crate) fn of_pods(term: &PodAffinityTerm, own: &str) -> Result<Self, Wrong> {
        let PodAffinityTerm {
            label_selector,
            match_label_keys,
            mismatch_label_keys,
            namespace_selector,
            namespaces: names,
            topology_key,
        } = term;
        if match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
            return Err(Wrong::Unserved("matchLabelKeys"));
        }
        if mismatch_label_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
            return Err(Wrong::Unserved("mismatchLabelKeys"));
        }
        let names = names.clone().unwrap_or_default();
        Ok(Self {
            selector: label_selector.clone().map(read_selector).transpose()?,
            namespaces: namespaces(&names, namespace_selector.as_ref(), own)?,
            key: topology_key.clone(),
        })
    }

    /// Machines of the same application, on the same host.
    pub(crate) fn of_application(label: &str, value: &str, own: &str) -> Self {
        let same = Expression::Equal(label.to_owned(), value.to_owned());
        Self {
            selector: Some([same].into_iter().collect()),
            namespaces: Some(vec![own.to_owned()]),
            key: HOST.to_owned(),
        }
    }

    /// Whether a machine is meant.
    pub(crate) fn means(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let here = self.namespaces.as_ref().is_none_or(|all| all.iter().any(|n| n == namespace));
        // As in Kubernetes, a rule without a selector means nobody.
        here && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

fn read_selector(selector: LabelSelector) -> Result<Selector, Wrong> {
    selector.try_into().map_err(|error| Wrong::Invalid(format!("the selector: {error}")))
}

fn expression(requirement: &VmSelectorRequirement) -> Expression {
    let VmSelectorRequirement { key, operator, values } = requirement;
    let (key, values) = (key.clone(), values.iter().cloned().collect());
    match operator {
        SelectorOperator::In => Expression::In(key, values),
        SelectorOperator::NotIn => Expression::NotIn(key, values),
        SelectorOperator::Exists => Expression::Exists(key),
        SelectorOperator::DoesNotExist => Expression::DoesNotExist(key),
    }
}

fn namespaces(
    names: &[String],
    selector: Option<&LabelSelector>,
    own: &str,
) -> Result<Option<Vec<String>>, Wrong> {
    match selector {
        Some(selector) if *selector == LabelSelector::default() => Ok(None),
        Some(_) => Err(Wrong::Unserved("namespaceSelector")),
        None if names.is_empty() => Ok(Some(vec![own.to_owned()])),
        None => Ok(Some(names.to_vec())),
    }
}

/// The label of hosts that is their name.
pub(crate) const HOST: &str = "kubernetes.io/hostname";

/// A host's labels: its own, and those that say where it is, as Kubernetes and people call them.
pub(crate) fn labels_of(host: &Host) -> BTreeMap<String, String> {
    let mut labels = host.labels.clone();
    let mut add = |keys: &[&str], value: Option<&String>| {
        for key in keys {
            if let Some(value) = value {
                labels.entry((*key).to_owned()).or_insert_with(|| value.clone());
            }
        }
    };
    add(&[HOST, "host"], Some(&host.name));
    add(&["topology.kubernetes.io/zone", "zone"], host.zone.as_ref());
    add(&["topology.kubernetes.io/region", "region"], host.region.as_ref());
    add(&["cluster"], host.cluster.as_ref());
    labels
}

/// Whether a host is one of those that a term of Kubernetes selects.
pub(crate) fn selects(term: &NodeSelectorTerm, host: &Host) -> bool {
    let labels = labels_of(host);
    let name = BTreeMap::from([("metadata.name".to_owned(), host.name.clone())]);
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|requirement| meets(requirement, &labels))
        && fields.iter().all(|requirement| meets(requirement, &name))
}

fn meets(requirement: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &String| text.parse::<i64>().ok();
    let compared = value.and_then(number).zip(values.first().and_then(number));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared.is_some_and(|(value, bound)| value > bound),
        "Lt" => compared.is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}
