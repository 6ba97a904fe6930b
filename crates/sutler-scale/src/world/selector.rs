//! Selectors over labels and over nodes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::MalformedError;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// What one label must be like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// What is asked of it.
    pub test: Test,
}

/// What is asked of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// It is there and has one of these values.
    In(BTreeSet<String>),
    /// It is not there, or has none of these values.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// It is a whole number above this one.
    Gt(i64),
    /// It is a whole number below this one.
    Lt(i64),
    /// It was asked for in a way that the scheduler cannot read, and matches nothing.
    Never,
}

impl Requirement {
    /// Whether these labels are like that.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_value(labels.get(&self.key).map(String::as_str))
    }

    /// Whether a label of this value, or none, is like that.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Gt(bound) => {
                value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *bound)
            }
            Test::Lt(bound) => {
                value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *bound)
            }
            Test::Never => false,
        }
    }

    /// The label has exactly this value.
    pub fn equals(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), test: Test::In([value.to_owned()].into()) }
    }
}

/// A selector over labels: all requirements must hold, and none means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(pub Vec<Requirement>);

impl Selector {
    /// Whether these labels are meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// Reads a selector of Kubernetes. An absent one selects nothing, an empty one everything.
    pub fn read(
        field: &str,
        selector: Option<&meta::LabelSelector>,
    ) -> Result<Option<Self>, MalformedError> {
        let Some(selector) = selector else { return Ok(None) };
        let mut requirements: Vec<Requirement> = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Requirement::equals(key, value))
            .collect();
        for expression in selector.match_expressions.iter().flatten() {
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            let test = match (expression.operator.as_str(), values.is_empty()) {
                ("In", false) => Test::In(values),
                ("NotIn", false) => Test::NotIn(values),
                ("Exists", true) => Test::Exists,
                ("DoesNotExist", true) => Test::DoesNotExist,
                (operator, _) => {
                    return Err(MalformedError::new(
                        format!("{field}.matchExpressions[{}]", expression.key),
                        format!("operator {operator:?} with {} values is none", values.len()),
                    ));
                }
            };
            requirements.push(Requirement { key: expression.key.clone(), test });
        }
        requirements.sort();
        requirements.dedup();
        Ok(Some(Self(requirements)))
    }

    /// Adds that a label has this value.
    pub(crate) fn and(&mut self, requirement: Requirement) {
        if let Err(place) = self.0.binary_search(&requirement) {
            self.0.insert(place, requirement);
        }
    }
}

/// One of the alternatives of a selector over nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    /// What is asked of the node's labels.
    pub labels: Vec<Requirement>,
    /// What is asked of the node's name.
    pub name: Vec<Requirement>,
}

impl NodeTerm {
    /// Whether a node of this name and these labels is meant. A term that asks nothing means none.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        if self.labels.is_empty() && self.name.is_empty() {
            return false;
        }
        self.labels.iter().all(|requirement| requirement.matches(labels))
            && self.name.iter().all(|requirement| requirement.matches_value(Some(name)))
    }

    /// Reads a term of Kubernetes. What the scheduler cannot read matches nothing there, and
    /// nothing here.
    pub fn read(term: &core::NodeSelectorTerm) -> Self {
        let labels = term.match_expressions.iter().flatten().map(label).collect();
        let name = term.match_fields.iter().flatten().map(name_field).collect();
        Self { labels, name }
    }
}

fn label(requirement: &core::NodeSelectorRequirement) -> Requirement {
    let values: BTreeSet<String> = requirement.values.iter().flatten().cloned().collect();
    let bound = || match requirement.values.as_deref() {
        Some([value]) => value.parse::<i64>().ok(),
        _ => None,
    };
    let test = match (requirement.operator.as_str(), values.is_empty()) {
        ("In", false) => Test::In(values),
        ("NotIn", false) => Test::NotIn(values),
        ("Exists", true) => Test::Exists,
        ("DoesNotExist", true) => Test::DoesNotExist,
        ("Gt", _) => bound().map_or(Test::Never, Test::Gt),
        ("Lt", _) => bound().map_or(Test::Never, Test::Lt),
        _ => Test::Never,
    };
    Requirement { key: requirement.key.clone(), test }
}

fn name_field(requirement: &core::NodeSelectorRequirement) -> Requirement {
    let values: BTreeSet<String> = requirement.values.iter().flatten().cloned().collect();
    let known = requirement.key == "metadata.name" && values.len() == 1;
    let test = match requirement.operator.as_str() {
        "In" if known => Test::In(values),
        "NotIn" if known => Test::NotIn(values),
        _ => Test::Never,
    };
    Requirement { key: requirement.key.clone(), test }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn term(key: &str, operator: &str, values: &[&str]) -> NodeTerm {
        let requirement = core::NodeSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        NodeTerm::read(&core::NodeSelectorTerm {
            match_expressions: Some(vec![requirement]),
            match_fields: None,
        })
    }

    #[test]
    fn each_operator_on_nodes() {
        let node = labels(&[("disk", "ssd"), ("cores", "8"), ("odd", "x8")]);
        for (key, operator, values, expected) in [
            ("disk", "In", &["ssd", "hdd"][..], true),
            ("disk", "In", &["hdd"], false),
            ("none", "In", &["ssd"], false),
            ("disk", "NotIn", &["hdd"], true),
            ("disk", "NotIn", &["ssd"], false),
            ("none", "NotIn", &["ssd"], true),
            ("disk", "Exists", &[], true),
            ("none", "Exists", &[], false),
            ("disk", "DoesNotExist", &[], false),
            ("none", "DoesNotExist", &[], true),
            ("cores", "Gt", &["7"], true),
            ("cores", "Gt", &["8"], false),
            ("cores", "Lt", &["9"], true),
            ("cores", "Lt", &["8"], false),
            ("odd", "Gt", &["7"], false),
            ("none", "Gt", &["7"], false),
            ("cores", "Gt", &["x"], false),
            ("cores", "Gt", &["1", "2"], false),
            ("disk", "In", &[], false),
            ("disk", "Exists", &["ssd"], false),
            ("disk", "Like", &["ssd"], false),
        ] {
            let got = term(key, operator, values).matches("n", &node);
            assert_eq!(got, expected, "{key} {operator} {values:?}");
        }
        assert!(!NodeTerm::default().matches("n", &node), "an empty term matches nothing");
    }

    #[test]
    fn names_by_field() {
        let field = |key: &str, operator: &str, values: &[&str]| {
            NodeTerm::read(&core::NodeSelectorTerm {
                match_expressions: None,
                match_fields: Some(vec![core::NodeSelectorRequirement {
                    key: key.to_owned(),
                    operator: operator.to_owned(),
                    values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
                }]),
            })
            .matches("n-1", &Labels::new())
        };
        assert!(field("metadata.name", "In", &["n-1"]));
        assert!(!field("metadata.name", "In", &["n-10"]));
        assert!(field("metadata.name", "NotIn", &["n-10"]));
        assert!(!field("metadata.name", "In", &["n-1", "n-2"]), "one value only");
        assert!(!field("metadata.uid", "In", &["n-1"]), "no other field");
        assert!(!field("metadata.name", "Exists", &[]));
    }

    #[test]
    fn selectors_absent_empty_and_malformed() {
        assert_eq!(Selector::read("s", None).unwrap(), None);
        let all = Selector::read("s", Some(&meta::LabelSelector::default())).unwrap().unwrap();
        assert!(all.matches(&Labels::new()));
        let bad = meta::LabelSelector {
            match_expressions: Some(vec![meta::LabelSelectorRequirement {
                key: "a".to_owned(),
                operator: "In".to_owned(),
                values: None,
            }]),
            match_labels: None,
        };
        assert_eq!(Selector::read("s", Some(&bad)).unwrap_err().field, "s.matchExpressions[a]");
    }
}
