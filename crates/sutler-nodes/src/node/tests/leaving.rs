//! How a node leaves: its pods, its machine, its object.

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, client::Body};
use sutler_api::names::reasons;

use super::*;

fn waiting(blocked: Option<&str>) -> Drain {
    Drain::Waiting { left: 2, blocked: blocked.map(str::to_owned), at: at(99) }
}

#[test]
fn pods_leave_before_the_machine_and_the_machine_before_the_node() {
    let deleting = || Case::ready().change(|case| case.record.deleting = true);
    assert_eq!(deleting().plan().step, Step::Drain("k-1".to_owned()));
    let draining = deleting().change(|case| case.drain = waiting(None));
    assert_eq!(draining.plan().step, Step::Wait(at(104)));
    assert_eq!(draining.plan().report.phase, Phase::Terminating);
    let drained = deleting().change(|case| case.drain = Drain::Done);
    assert_eq!(drained.plan().step, Step::DeleteMachine);
    assert_eq!(drained.plan().report.phase, Phase::Deleting);
    let going = deleting().machine(|machine| machine.deleting = true);
    assert_eq!(going.plan().step, Step::Rest);
    let gone = deleting().change(|case| case.machine = MachineRecord::Absent);
    assert_eq!(gone.plan().step, Step::DeleteNode("k-1".to_owned()));
    let unseen = gone.change(|case| {
        case.node = None;
        case.labelled = false;
    });
    // What was written down may have been carried out since the nodes were looked at.
    assert_eq!(unseen.plan().step, Step::DeleteNode("k-1".to_owned()));
    let all = unseen.change(|case| case.node_gone = true);
    assert_eq!(all.plan().step, Step::Forget);
}

#[test]
fn a_node_that_joined_while_its_record_goes_is_written_down_and_goes_as_well() {
    let late = Case::ready().change(|case| {
        (case.record.deleting, case.record.claimed, case.record.node) = (true, None, None);
        let seen = case.node.as_mut().unwrap();
        (case.labelled, seen.claim) = (false, None);
    });
    assert_eq!(late.plan().step, Step::Intend("k-1".to_owned()));
    let late = late.machine(|machine| machine.deleting = true);
    assert_eq!(late.plan().step, Step::Intend("k-1".to_owned()));
    let known = late.change(|case| case.record.claimed = Some("k-1".to_owned()));
    assert_eq!(known.plan().step, Step::Rest);
    let gone = known.change(|case| case.machine = MachineRecord::Absent);
    assert_eq!(gone.plan().step, Step::DeleteNode("k-1".to_owned()));
}

#[test]
fn a_node_that_cannot_be_looked_at_may_have_pods_and_is_not_taken_for_absent() {
    let unseen = |case: &mut Case| {
        case.record.deleting = true;
        (case.in_sight, case.node, case.labelled) = (false, None, false);
    };
    for machine in [MachineRecord::Absent, MachineRecord::Ours(Box::new(machine()))] {
        let case = Case::ready().change(unseen).change(|case| case.machine = machine.clone());
        let plan = case.plan();
        assert_eq!(plan.step, Step::Rest, "{:?}", plan.report);
        assert!(plan.report.message.contains("force-removal=true"), "{}", plan.report.message);
        let forced = case.change(|case| case.record.forced = true).plan().step;
        assert!(matches!(forced, Step::DeleteMachine | Step::Forget), "{forced:?}");
    }
    // One that never claimed a node has none.
    let fresh = Case::joining().change(unseen);
    assert_eq!(fresh.plan().step, Step::DeleteMachine);
}

#[test]
fn what_was_known_of_a_node_stays_while_its_cluster_is_out_of_sight() {
    let case = Case::ready().change(|case| {
        (case.in_sight, case.node, case.labelled) = (false, None, false);
    });
    let plan = case.plan();
    assert_eq!((plan.step, plan.report.phase), (Step::Rest, Phase::Ready));
    assert!(plan.report.error);
}

#[test]
fn defect_16_a_budget_that_forbids_it_keeps_the_machine_until_somebody_decides() {
    let blocked = Case::ready().change(|case| {
        case.record.deleting = true;
        case.drain = waiting(Some("default/held: the budget allows none"));
    });
    let plan = blocked.plan();
    assert_eq!(plan.report.reason, reasons::DRAIN_FAILED);
    assert!(plan.report.message.contains("default/held"));
    let late = blocked.change(|case| {
        case.drain = Drain::GivenUp { why: "2 pods did not leave".to_owned() };
    });
    // A record that is deleted cannot stay: it goes on asking, and never goes without leave.
    assert_eq!(late.plan().step, Step::Drain("k-1".to_owned()));
    assert!(late.plan().report.message.contains("force-removal"));
    let forced = late.change(|case| case.record.forced = true);
    assert_eq!(forced.plan().step, Step::DeleteMachine);
}

#[test]
fn defect_15_a_node_whose_drain_is_given_up_stays_and_takes_pods_again() {
    let sent = || Case::ready().change(|case| case.removing = true);
    assert_eq!(sent().plan().step, Step::Drain("k-1".to_owned()));
    let drained = sent().change(|case| case.drain = Drain::Done).plan();
    assert_eq!((drained.step, drained.report.reason.as_str()), (Step::Rest, DRAINED));
    let kept = sent().change(|case| {
        case.drain = Drain::GivenUp { why: "2 pods did not leave".to_owned() };
    });
    let plan = kept.plan();
    assert_eq!((plan.report.phase, plan.report.reason.as_str()), (Phase::Ready, "DrainFailed"));
    // Its group took it off the list: pods may come again.
    let back = Case::ready().change(|case| {
        case.node.as_mut().unwrap().draining = Some(at(50));
        case.node.as_mut().unwrap().cordoned = true;
    });
    assert_eq!(back.plan().step, Step::Uncordon("k-1".to_owned()));
    // One that has no node yet has nothing to drain.
    let fresh = Case::joining().change(|case| case.removing = true);
    assert_eq!(fresh.plan().report.reason, DRAINED);
}

#[tokio::test]
async fn defect_16_pods_that_cannot_be_looked_at_are_not_gone() {
    let begun = json!({ "spec": { "unschedulable": true }, "metadata": {
        "annotations": { "autoscaler.vpsie.com/drain-start-time": at(50).to_string() }}});
    let begun = serde_json::to_value(node("k-1", "10.0.0.1", begun)).unwrap();
    let pod =
        json!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": { "containers": [] }});
    let pods = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod] });
    let down = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "down for a moment", "reason": "InternalError", "code": 500 });
    for listed in [false, true] {
        let (begun, pods, down) = (begun.clone(), pods.clone(), down.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (status, body) = match request.uri().path() {
                "/api/v1/nodes/k-1" => (200, &begun),
                "/api/v1/pods" if listed => (200, &pods),
                _ => (500, &down),
            };
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(http::Response::builder().status(status).body(body))
        });
        let client = Client::new(service, "default");
        let patience = Duration::from_secs(1000);
        let drain = drainer::drain(&client, "k-1", patience, at(100)).await;
        match listed {
            false => assert!(drain.is_err(), "{drain:?}"),
            // Nobody knows whether it was asked to leave.
            true => assert!(matches!(drain, Ok(Drain::Waiting { left: 1, .. })), "{drain:?}"),
        }
    }
}

#[test]
fn a_node_that_a_person_cordoned_is_left_so() {
    let case = Case::ready().change(|case| case.node.as_mut().unwrap().cordoned = true);
    assert_eq!(case.plan().step, Step::Rest);
}

#[test]
fn who_has_to_leave_a_node() {
    let pod = |name: &str, more: Value| -> Pod {
        let mut object = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "ns" },
            "spec": { "containers": [] }, "status": { "phase": "Running" } });
        merge(&mut object, more);
        serde_json::from_value(object).unwrap()
    };
    let owner = json!({ "metadata": { "ownerReferences": [
        { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true }]}});
    let going = json!({ "metadata": { "deletionTimestamp": at(0).to_string() } });
    let mirror = json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } });
    let pods = [
        pod("plain", json!({})),
        pod("daemon", owner),
        pod("mirror", mirror),
        pod("done", json!({ "status": { "phase": "Succeeded" } })),
        pod("going", going),
    ];
    let names = |pods: Vec<&Pod>| -> Vec<String> {
        pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
    };
    let sorted = sort_pods(&pods, true, at(1000));
    assert_eq!(
        (names(sorted.ask), names(sorted.leaving)),
        (vec!["plain".into()], vec!["going".into()])
    );
    // On a node that does not answer, nobody will ever say that it is gone.
    let sorted = sort_pods(&pods, false, at(1000));
    assert!(sorted.leaving.is_empty());
    let sorted = sort_pods(&pods, false, at(30));
    assert_eq!(names(sorted.leaving), ["going"]);
}
