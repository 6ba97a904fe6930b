//! Records as the machines that cluster-autoscaler looks for.
//!
//! It knows an instance's node by `spec.providerID` alone. An instance whose ID no Node has counts as
//! not registered, and is deleted after a while: so a state that would make it wait for a node is only
//! told where the ID is or will be that of the node.

use k8s_openapi::api::core::v1::Node;
use sutler_api::{
    autoscaler::{VPSieNode, VpsieNodePhase, removal::provider_id},
    names::reasons,
};

use crate::pb::{Instance, InstanceErrorInfo, InstanceStatus, instance_status::InstanceState};

/// cluster-autoscaler's class of errors that another group may not have.
const OUT_OF_RESOURCES: i32 = 1;
/// Its class of all others.
const OTHER: i32 = 99;

/// The machine of a record, and of its Node where there is one.
pub(crate) fn instance(record: &VPSieNode, node: Option<&Node>, leaving: bool) -> Instance {
    let status = record.status.as_ref();
    let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
    let failed = phase == VpsieNodePhase::Failed;
    let joined = status.is_some_and(|status| status.node_name.is_some());
    let known = node.and_then(node_id);
    let state = match phase {
        _ if leaving => InstanceState::InstanceDeleting,
        VpsieNodePhase::Terminating | VpsieNodePhase::Deleting => InstanceState::InstanceDeleting,
        // Its node is there and has no ID to be known by. A state would have it deleted.
        _ if node.is_some() && known.is_none() => InstanceState::Unspecified,
        // With a node it is not being made any more. Saying so would have it deleted undrained.
        _ if node.is_some() => InstanceState::InstanceRunning,
        VpsieNodePhase::Failed => InstanceState::InstanceCreating,
        VpsieNodePhase::Ready => InstanceState::InstanceRunning,
        _ if joined => InstanceState::InstanceRunning,
        _ => InstanceState::InstanceCreating,
    };
    let error_info = (failed && !leaving).then(|| error(record));
    Instance {
        id: known.map_or_else(|| provider_id(record), str::to_owned),
        status: Some(InstanceStatus { instance_state: state.into(), error_info }),
    }
}

/// What a Node is known by.
pub(crate) fn node_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

fn error(record: &VPSieNode) -> InstanceErrorInfo {
    let status = record.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref()).filter(|r| !r.is_empty());
    // Without a code there would be no error.
    let reason = reason.unwrap_or(reasons::FAILED);
    let class = match reason {
        reasons::CAPACITY_LIMIT_REACHED | reasons::EXHAUSTED => OUT_OF_RESOURCES,
        _ => OTHER,
    };
    InstanceErrorInfo {
        error_code: reason.to_owned(),
        error_message: status.and_then(|status| status.last_error.clone()).unwrap_or_default(),
        instance_error_class: class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::NodeSpec;
    use sutler_api::autoscaler::{VPSieNodeSpec, VPSieNodeStatus};

    fn record(phase: VpsieNodePhase) -> VPSieNode {
        let mut record = VPSieNode::new("n", VPSieNodeSpec::default());
        record.metadata.namespace = Some("ns".to_owned());
        record.status = Some(VPSieNodeStatus { phase: Some(phase), ..VPSieNodeStatus::default() });
        record
    }

    fn node(id: Option<&str>) -> Node {
        let spec = NodeSpec { provider_id: id.map(str::to_owned), ..NodeSpec::default() };
        Node { spec: Some(spec), ..Node::default() }
    }

    fn told(record: &VPSieNode, node: Option<&Node>, leaving: bool) -> (String, InstanceState) {
        let instance = instance(record, node, leaving);
        let state = instance.status.unwrap().instance_state();
        (instance.id, state)
    }

    #[test]
    fn states_follow_the_record_and_its_node() {
        let ours = "sutler://ns/n".to_owned();
        let mut absent = record(VpsieNodePhase::Pending);
        absent.status = None;
        assert_eq!(told(&absent, None, false), (ours.clone(), InstanceState::InstanceCreating));
        for (phase, state) in [
            (VpsieNodePhase::Provisioned, InstanceState::InstanceCreating),
            (VpsieNodePhase::Joining, InstanceState::InstanceCreating),
            (VpsieNodePhase::Ready, InstanceState::InstanceRunning),
            (VpsieNodePhase::Failed, InstanceState::InstanceCreating),
            (VpsieNodePhase::Terminating, InstanceState::InstanceDeleting),
            (VpsieNodePhase::Deleting, InstanceState::InstanceDeleting),
        ] {
            assert_eq!(told(&record(phase.clone()), None, false), (ours.clone(), state), "{phase}");
            let leaving = (ours.clone(), InstanceState::InstanceDeleting);
            assert_eq!(told(&record(phase), None, true), leaving);
        }
    }

    #[test]
    fn an_instance_is_known_by_its_nodes_own_id() {
        let joining = record(VpsieNodePhase::Joining);
        let node = node(Some("cloud://7"));
        let expected = ("cloud://7".to_owned(), InstanceState::InstanceRunning);
        assert_eq!(told(&joining, Some(&node), false), expected);
        // A failed record with a node is not one that is being made.
        let failed = instance(&record(VpsieNodePhase::Failed), Some(&node), false);
        assert_eq!(failed.status.unwrap().instance_state(), InstanceState::InstanceRunning);
    }

    #[test]
    fn nobody_waits_for_a_node_that_cannot_be_known() {
        for id in [None, Some("")] {
            let expected = ("sutler://ns/n".to_owned(), InstanceState::Unspecified);
            assert_eq!(told(&record(VpsieNodePhase::Ready), Some(&node(id)), false), expected);
        }
    }

    #[test]
    fn failures_carry_their_reason() {
        for (reason, class) in [
            (Some("CapacityLimitReached"), 1),
            (Some("Exhausted"), 1),
            (Some("DiscoveryTimeout"), 99),
            (None, 99),
        ] {
            let mut record = record(VpsieNodePhase::Failed);
            let status = record.status.as_mut().unwrap();
            status.reason = reason.map(str::to_owned);
            status.last_error = Some("no room".to_owned());
            let error = instance(&record, None, false).status.unwrap().error_info.unwrap();
            assert_eq!(error.error_code, reason.unwrap_or("Failed"));
            assert_eq!(error.error_message, "no room");
            assert_eq!(error.instance_error_class, class);
            assert_eq!(instance(&record, None, true).status.unwrap().error_info, None);
        }
        let ready = instance(&record(VpsieNodePhase::Ready), None, false);
        assert_eq!(ready.status.unwrap().error_info, None);
    }
}
