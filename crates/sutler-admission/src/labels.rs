//! Labels and taints that nodes are to get.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use sutler_api::names::labels;
use sutler_scale::world;

use crate::{ratchet::Problem, syntax};

/// Labels that Sutler gives nodes itself.
const OURS: [&str; 6] = [
    labels::MANAGED,
    labels::NODE_GROUP,
    labels::NODE_GROUP_NAMESPACE,
    labels::VPSIE_NODE,
    labels::DATACENTER,
    labels::OFFERING,
];

/// Labels of Kubernetes that a kubelet may be told to give its node.
const KUBELETS: [&str; 8] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Labels and taints that no node can have.
pub(crate) fn impossible(
    spec: &str,
    labels: &BTreeMap<String, String>,
    taints: &[Taint],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in labels {
        let field = format!("{spec}.labels[{key}]");
        if let Err(why) = syntax::key(key) {
            problems.push(problem(spec, "labels", &field, format!("the key {why}")));
        }
        if let Err(why) = syntax::value(value) {
            problems.push(problem(spec, "labels", &field, format!("the value {value:?} {why}")));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let field = format!("{spec}.taints[{index}]");
        if let Err(error) = world::Taint::read(&field, taint) {
            problems.push(problem(spec, "taints", &error.field, error.problem));
        }
        if let Err(why) = syntax::key(&taint.key) {
            let message = format!("{:?} {why}", taint.key);
            problems.push(problem(spec, "taints", &format!("{field}.key"), message));
        }
        let value = taint.value.as_deref().unwrap_or_default();
        if let Err(why) = syntax::value(value) {
            let message = format!("{value:?} {why}");
            problems.push(problem(spec, "taints", &format!("{field}.value"), message));
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            let message = format!(
                "is the second with key {:?} and effect {:?}, of which a node has one: remove it",
                taint.key, taint.effect
            );
            problems.push(problem(spec, "taints", &field, message));
        }
    }
    problems
}

/// Labels that are not a group's to give. `joins` tells whether nodes join by a kubelet that is told
/// its labels.
pub(crate) fn reserved(spec: &str, labels: &BTreeMap<String, String>, joins: bool) -> Vec<Problem> {
    let said = |key: &String, message: &str| {
        problem(spec, "labels", &format!("{spec}.labels[{key}]"), message.to_owned())
    };
    let look = |key: &String| {
        if OURS.contains(&key.as_str()) {
            return Some(said(key, "is a label that Sutler gives nodes itself: remove it"));
        }
        if key.starts_with("kubernetes.io/") || key.starts_with("k8s.io/") {
            return Some(said(
                key,
                "is a label that Kubernetes keeps for itself: choose another prefix",
            ));
        }
        if joins && is_kept_from_kubelets(key) {
            let message = "is a label with which a kubelet does not start: choose another prefix, or \
                 label the node once it has joined";
            return Some(said(key, message));
        }
        None
    };
    labels.keys().filter_map(look).collect()
}

/// Whether a kubelet ends at once when it is told to give its node this label.
fn is_kept_from_kubelets(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let within = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    let reserved = within("kubernetes.io") || within("k8s.io");
    let free = within("kubelet.kubernetes.io") || within("node.kubernetes.io");
    reserved && !free && !KUBELETS.contains(&key)
}

/// A problem that counts when the list changes, wherever that is.
fn problem(spec: &str, list: &str, field: &str, message: String) -> Problem {
    Problem::new(field, message).about(&[&format!("{spec}.{list}")])
}
