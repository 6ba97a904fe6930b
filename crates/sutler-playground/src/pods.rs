//! The kubelet's part in pods: what is on a node runs, and ends when it is asked to.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStatus, Node, Pod, PodCondition, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::nodes::{is_ready, played_on};

/// What becomes of a pod that is on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its containers start.
    Start,
    /// They have ended, and nothing of it is left.
    Remove,
    /// Nothing.
    Rest,
}

/// What becomes of a pod; `node` is the one that it is on, where that is there. A pod whose node is gone is
/// removed, as a cluster does it. A machine that is off ends nothing.
pub(crate) fn step(pod: &Pod, node: Option<&Node>) -> Step {
    let Some(node) = node else { return Step::Remove };
    if played_on(node).is_none() || !is_ready(node) {
        return Step::Rest;
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match phase {
        _ if pod.metadata.deletion_timestamp.is_some() => Step::Remove,
        None | Some("" | "Pending") => Step::Start,
        _ => Step::Rest,
    }
}

/// The node that a pod is on.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Whether a pod takes no room any more.
pub(crate) fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a pod serves.
pub(crate) fn serves(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The status of a pod whose containers run.
pub(crate) fn running(pod: &Pod, now: Timestamp) -> PodStatus {
    let condition = |type_: &str| PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let running = ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(Time(now)) }),
        ..ContainerState::default()
    };
    let containers = containers.map(|container| ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        ready: true,
        started: Some(true),
        state: Some(running.clone()),
        ..ContainerStatus::default()
    });
    let conditions = ["Initialized", "ContainersReady", "Ready"].map(condition);
    PodStatus {
        phase: Some("Running".to_owned()),
        start_time: Some(Time(now)),
        container_statuses: Some(containers.collect()),
        conditions: Some(conditions.into()),
        ..PodStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(more: Value, phase: &str) -> Pod {
        let containers = json!([{"name": "c", "image": "i"}]);
        serde_json::from_value(json!({"metadata": more,
            "spec": {"nodeName": "n", "containers": containers}, "status": {"phase": phase}}))
        .unwrap()
    }

    fn node(ready: &str, played: bool) -> Node {
        let annotations = match played {
            true => json!({"sutler.dev/played-on": "lab/1"}),
            false => json!({}),
        };
        serde_json::from_value(json!({"metadata": {"name": "n", "annotations": annotations},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    #[test]
    fn pods_start_and_end_on_nodes_that_are_played_and_well() {
        let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let well = node("True", true);
        assert_eq!(step(&pod(json!({}), "Pending"), Some(&well)), Step::Start);
        assert_eq!(step(&pod(json!({}), "Running"), Some(&well)), Step::Rest);
        assert_eq!(step(&pod(leaving.clone(), "Running"), Some(&well)), Step::Remove);
        for other in [node("Unknown", true), node("True", false)] {
            assert_eq!(step(&pod(leaving.clone(), "Running"), Some(&other)), Step::Rest);
        }
        assert_eq!(step(&pod(json!({}), "Running"), None), Step::Remove);
        let now = Timestamp::UNIX_EPOCH;
        let mut started = pod(json!({}), "Pending");
        started.status = Some(running(&started, now));
        assert!(serves(&started) && !is_over(&started));
        assert_eq!(started.status.unwrap().container_statuses.unwrap()[0].name, "c");
    }
}
