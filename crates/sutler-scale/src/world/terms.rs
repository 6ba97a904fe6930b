//! What pods ask of other pods: (anti-)affinity and even spreading.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;

use super::{Labels, MalformedError, Requirement, Selector};

/// Pods that are meant by a term of (anti-)affinity, and what counts as near them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// Nodes with equal values of this label are one place.
    pub topology_key: String,
    /// Which pods; none when absent.
    pub selector: Option<Selector>,
    /// Namespaces that they are in.
    pub namespaces: BTreeSet<String>,
    /// Namespaces that they are in, by label.
    pub namespace_selector: Option<Selector>,
}

impl Term {
    /// Reads one of a pod with these labels in this namespace.
    pub fn read(
        field: &str,
        term: &core::PodAffinityTerm,
        namespace: &str,
        labels: &Labels,
    ) -> Result<Self, MalformedError> {
        let mut selector =
            Selector::read(&format!("{field}.labelSelector"), term.label_selector.as_ref())?;
        // The API server merges these keys into the selector; doing it twice changes nothing.
        if let Some(selector) = &mut selector {
            for key in term.match_label_keys.iter().flatten() {
                if let Some(value) = labels.get(key) {
                    selector.and(Requirement::equals(key, value));
                }
            }
            for key in term.mismatch_label_keys.iter().flatten() {
                if let Some(value) = labels.get(key) {
                    selector.and(Requirement {
                        key: key.clone(),
                        test: super::Test::NotIn([value.clone()].into()),
                    });
                }
            }
        }
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let namespace_selector = Selector::read(
            &format!("{field}.namespaceSelector"),
            term.namespace_selector.as_ref(),
        )?;
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        Ok(Self {
            topology_key: term.topology_key.clone(),
            selector,
            namespaces,
            namespace_selector,
        })
    }

    /// Whether a pod of this namespace with these labels is meant. A namespace that nobody told
    /// of has no labels.
    pub fn matches(
        &self,
        namespace: &str,
        labels: &Labels,
        namespaces: &BTreeMap<String, Labels>,
    ) -> bool {
        let Some(selector) = &self.selector else { return false };
        let here = self.namespaces.contains(namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                namespaces.get(namespace).map_or_else(
                    || selector.matches(&Labels::new()),
                    |labels| selector.matches(labels),
                )
            });
        here && selector.matches(labels)
    }
}

/// A rule that pods are spread evenly, which must be kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    /// Nodes with equal values of this label are one place.
    pub topology_key: String,
    /// How many more pods a place may have than the emptiest.
    pub max_skew: i32,
    /// With fewer places than this, the emptiest counts as having no pods.
    pub min_domains: i32,
    /// Which pods of the same namespace are counted; none when absent.
    pub selector: Option<Selector>,
    /// Whether only nodes count that the pod's node affinity allows.
    pub honour_affinity: bool,
    /// Whether only nodes count whose taints the pod tolerates.
    pub honour_taints: bool,
}

impl Spread {
    /// Reads one of a pod with these labels; those that are only wishes are left out.
    pub fn read(
        field: &str,
        spread: &core::TopologySpreadConstraint,
        labels: &Labels,
    ) -> Result<Option<Self>, MalformedError> {
        if spread.when_unsatisfiable != "DoNotSchedule" {
            return Ok(None);
        }
        let policy = |name: &str, policy: Option<&str>, default: bool| match policy {
            None | Some("") => Ok(default),
            Some("Honor") => Ok(true),
            Some("Ignore") => Ok(false),
            Some(other) => Err(MalformedError::new(
                format!("{field}.{name}"),
                format!("{other:?} is neither Honor nor Ignore"),
            )),
        };
        let mut selector =
            Selector::read(&format!("{field}.labelSelector"), spread.label_selector.as_ref())?;
        for key in spread.match_label_keys.iter().flatten() {
            // Without a selector nothing is counted, and a key does not change that.
            if let (Some(selector), Some(value)) = (&mut selector, labels.get(key)) {
                selector.and(Requirement::equals(key, value));
            }
        }
        Ok(Some(Self {
            topology_key: spread.topology_key.clone(),
            max_skew: spread.max_skew,
            min_domains: spread.min_domains.unwrap_or(1),
            selector,
            honour_affinity: policy(
                "nodeAffinityPolicy",
                spread.node_affinity_policy.as_deref(),
                true,
            )?,
            honour_taints: policy("nodeTaintsPolicy", spread.node_taints_policy.as_deref(), false)?,
        }))
    }

    /// Whether a pod of the same namespace with these labels is counted.
    pub fn counts(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}
