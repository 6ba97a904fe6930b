//! Filters whose answer does not depend on who else is on the nodes.

use super::Refusal;
use crate::world::{Effect, Labels, Shape, Taint, VolumeNeed};

/// The taint that a cordoned node counts as having.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What these filters look at.
#[derive(Clone, Copy, Debug)]
pub struct NodeFacts<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a Labels,
    /// Its taints.
    pub taints: &'a [Taint],
    /// Whether it is cordoned.
    pub unschedulable: bool,
}

/// Cordons, taints, selectors, node affinity and volumes.
pub fn fixed(shape: &Shape, node: NodeFacts<'_>) -> Result<(), Refusal> {
    if let Some(what) = shape.unmodelled.first() {
        return Err(Refusal::Unmodelled(*what));
    }
    if node.unschedulable {
        let cordon = Taint::new(UNSCHEDULABLE, "", Effect::NoSchedule);
        if !tolerated(shape, &cordon) {
            return Err(Refusal::Unschedulable);
        }
    }
    if let Some(taint) = untolerated(shape, node.taints) {
        return Err(Refusal::Taint(taint.clone()));
    }
    for (key, value) in &shape.node_selector {
        if node.labels.get(key) != Some(value) {
            return Err(Refusal::NodeSelector { key: key.clone(), value: value.clone() });
        }
    }
    if !affine(shape, node.name, node.labels) {
        return Err(Refusal::NodeAffinity);
    }
    for volume in &shape.volumes {
        if !volume.admits(node.name, node.labels) {
            let why = match volume {
                VolumeNeed::Unmet { why } => Some(why.clone()),
                _ => None,
            };
            return Err(Refusal::Volume { why });
        }
    }
    Ok(())
}

/// Whether node selector and node affinity allow a node.
pub(crate) fn selected(shape: &Shape, name: &str, labels: &Labels) -> bool {
    shape.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && affine(shape, name, labels)
}

fn affine(shape: &Shape, name: &str, labels: &Labels) -> bool {
    let terms = shape.node_affinity.as_ref();
    terms.is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
}

/// The first taint that keeps the pod away.
pub(crate) fn untolerated<'a>(shape: &Shape, taints: &'a [Taint]) -> Option<&'a Taint> {
    taints.iter().find(|taint| taint.keeps_away() && !tolerated(shape, taint))
}

fn tolerated(shape: &Shape, taint: &Taint) -> bool {
    shape.tolerations.iter().any(|toleration| toleration.tolerates(taint))
}
