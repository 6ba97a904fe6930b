//! Where a pod's volumes let it run.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;

use super::{Labels, NodeTerm};

/// Labels of a volume that say where it is.
const TOPOLOGY: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// What one volume asks of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeNeed {
    /// The node is where the volume is.
    Bound {
        /// Zones and regions by their label, and the values that will do.
        places: BTreeMap<String, BTreeSet<String>>,
        /// Alternatives that the volume's node affinity leaves; absent means all nodes.
        affinity: Option<Vec<NodeTerm>>,
    },
    /// The volume is made where the pod goes, in one of these places; none means anywhere.
    Unbound {
        /// Alternatives that the storage class allows.
        allowed: Vec<NodeTerm>,
    },
    /// No node helps: the claim has to be seen to first.
    Unmet {
        /// What is wrong with it.
        why: String,
    },
}

impl VolumeNeed {
    /// What a volume asks that a claim is bound to.
    pub fn bound(volume: &core::PersistentVolume) -> Self {
        let mut places = BTreeMap::new();
        for (key, value) in volume.metadata.labels.iter().flatten() {
            if TOPOLOGY.contains(&key.as_str()) {
                let values = value.split("__").map(str::to_owned).collect();
                places.insert(key.clone(), values);
            }
        }
        let affinity = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.node_affinity.as_ref())
            .and_then(|affinity| affinity.required.as_ref())
            .map(|required| required.node_selector_terms.iter().map(NodeTerm::read).collect());
        Self::Bound { places, affinity }
    }

    /// What a claim asks that is bound once its pod has a node.
    pub fn unbound(class: &storage::StorageClass) -> Self {
        if class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") {
            let why = "is not bound yet, and its storage class does not wait for a pod".to_owned();
            return Self::Unmet { why };
        }
        let allowed = class.allowed_topologies.iter().flatten().map(|term| NodeTerm {
            labels: term
                .match_label_expressions
                .iter()
                .flatten()
                .map(|expression| super::Requirement {
                    key: expression.key.clone(),
                    test: super::Test::In(expression.values.iter().cloned().collect()),
                })
                .collect(),
            name: Vec::new(),
        });
        Self::Unbound { allowed: allowed.collect() }
    }

    /// Labels of nodes that it looks at.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let terms = match self {
            Self::Bound { places: _, affinity } => affinity.as_deref().unwrap_or_default(),
            Self::Unbound { allowed } => allowed,
            Self::Unmet { .. } => &[],
        };
        let keys = terms.iter().flat_map(|term| &term.labels).map(|it| it.key.as_str());
        match self {
            Self::Bound { places, .. } if !places.is_empty() => keys.chain(TOPOLOGY).collect(),
            _ => keys.collect(),
        }
    }

    /// Whether a node of this name and these labels will do.
    pub fn admits(&self, name: &str, labels: &Labels) -> bool {
        match self {
            Self::Unmet { .. } => false,
            Self::Unbound { allowed } => {
                allowed.is_empty() || allowed.iter().any(|term| term.matches(name, labels))
            }
            Self::Bound { places, affinity } => {
                let near = places.is_empty()
                    || !TOPOLOGY.iter().any(|key| labels.contains_key(*key))
                    || places.iter().all(|(key, values)| {
                        let own = labels.get(key).or_else(|| labels.get(successor(key)));
                        own.is_some_and(|value| values.contains(value))
                    });
                near && affinity
                    .as_ref()
                    .is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
            }
        }
    }
}

/// Today's label for one from before.
fn successor(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        key => key,
    }
}

/// What is known of the claims that pods refer to: `(namespace, claim)` to what it asks. A claim
/// that is not here cannot be seen to by more nodes.
pub type Claims = BTreeMap<(String, String), VolumeNeed>;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn volumes_stay_in_their_zone() {
        let mut volume = core::PersistentVolume::default();
        volume.metadata.labels =
            Some(labels(&[("failure-domain.beta.kubernetes.io/zone", "a__b"), ("x", "y")]));
        let need = VolumeNeed::bound(&volume);
        assert!(need.admits("n", &labels(&[("topology.kubernetes.io/zone", "b")])));
        assert!(need.admits("n", &labels(&[("failure-domain.beta.kubernetes.io/zone", "a")])));
        assert!(!need.admits("n", &labels(&[("topology.kubernetes.io/zone", "c")])));
        assert!(need.admits("n", &Labels::new()), "a node without any place takes all volumes");
        assert!(!need.admits("n", &labels(&[("topology.kubernetes.io/region", "r")])));
    }

    #[test]
    fn claims_that_wait_for_a_pod() {
        let mut class = storage::StorageClass::default();
        assert!(matches!(VolumeNeed::unbound(&class), VolumeNeed::Unmet { .. }));
        class.volume_binding_mode = Some("WaitForFirstConsumer".to_owned());
        assert!(VolumeNeed::unbound(&class).admits("n", &Labels::new()));
        class.allowed_topologies = Some(vec![core::TopologySelectorTerm {
            match_label_expressions: Some(vec![core::TopologySelectorLabelRequirement {
                key: "zone".to_owned(),
                values: vec!["a".to_owned()],
            }]),
        }]);
        assert!(VolumeNeed::unbound(&class).admits("n", &labels(&[("zone", "a")])));
        assert!(!VolumeNeed::unbound(&class).admits("n", &labels(&[("zone", "b")])));
    }
}
