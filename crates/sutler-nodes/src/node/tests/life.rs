//! From the request for a machine to a node that takes pods.

use sutler_api::names::reasons;

use super::*;

#[test]
fn a_record_asks_before_anything_is_made() {
    let fresh = Record::read(&object(json!({})));
    assert_eq!((fresh.asked, fresh.finalizer), (Asked::No, false));
    let case = Case::joining().change(|case| {
        case.record = fresh;
        case.machine = MachineRecord::Absent;
    });
    assert_eq!(case.plan().step, Step::Ask);
    let asked = case.change(|case| {
        case.record.asked = Asked::Here;
        case.record.finalizer = true;
        case.record.made = false;
    });
    assert_eq!(asked.plan().step, Step::MakeMachine);
}

#[test]
fn what_upstream_asked_for_is_looked_for_and_never_asked_for() {
    let noted = json!({ "metadata": { "annotations": {
        "autoscaler.vpsie.com/creation-requested": "true" } } });
    let record = Record::read(&object(noted.clone()));
    assert_eq!(record.asked, Asked::Elsewhere(0));
    assert_eq!(record.asked_at, at(-10), "when the object was made is all that is known");
    let vm = machine_of(&object(noted), &record, None, None);
    let notes = vm.metadata.annotations.unwrap();
    assert_eq!(notes["sutler.dev/asked-at"], at(-10).to_string());
    assert!(!notes.contains_key("sutler.dev/said-id"));
    let known = object(json!({ "spec": { "vpsieInstanceID": 4711 } }));
    let record = Record::read(&known);
    assert_eq!(record.asked, Asked::Elsewhere(4711));
    let vm = machine_of(&known, &record, None, None);
    assert_eq!(vm.metadata.annotations.unwrap()["sutler.dev/said-id"], "4711");
    // What we asked for ourselves is told by the time that we wrote down.
    let ours = json!({ "metadata": { "annotations": {
        "autoscaler.vpsie.com/creation-requested": "true",
        "autoscaler.vpsie.com/creation-requested-at": at(5).to_string() } } });
    let record = Record::read(&object(ours.clone()));
    assert_eq!((record.asked, record.asked_at), (Asked::Here, at(5)));
    let vm = machine_of(&object(ours), &record, None, None);
    assert!(!vm.metadata.annotations.unwrap().contains_key("sutler.dev/asked-at"));
}

#[test]
fn a_machines_record_is_ours_by_its_owner_and_has_our_name() {
    let node = object(json!({}));
    let vm = machine_of(&node, &Record::read(&node), None, Some("boot".to_owned()));
    assert_eq!(vm.metadata.name.as_deref(), Some("web-0001"));
    assert!(MachineRecord::read(Some(&vm), "u-1").ours().is_some());
    assert_eq!(MachineRecord::read(Some(&vm), "u-2"), MachineRecord::Foreign);
    assert_eq!(MachineRecord::read(None, "u-1"), MachineRecord::Absent);
    let managed = vm.spec.managed_node.unwrap();
    assert_eq!((managed.cluster.as_str(), managed.group.as_str()), ("c", "web"));
    assert_eq!(vm.spec.provider_ref.namespace.as_deref(), Some("kube-system"));
    assert_eq!(vm.metadata.annotations.unwrap()["sutler.dev/made-once"], "true");
}

#[test]
fn provisioner_create_vps_with_discovery_success_timeout_not_found_and_api_error() {
    let waiting = |reason: &'static str| {
        Case::joining().change(|case| case.record.provisioned_at = None).machine(move |machine| {
            machine.id = None;
            machine.ready = false;
            machine.reason = reason.to_owned();
            machine.message = "a machine is being looked for".to_owned();
        })
    };
    // Not found yet: it waits, and says for what.
    let plan = waiting(reasons::DISCOVERING).plan();
    assert_eq!((plan.step, plan.report.phase), (Step::Rest, Phase::Provisioning));
    assert_eq!(plan.report.reason, reasons::DISCOVERING);
    // An error of the platform: the engine tries again, and it is shown.
    let plan = waiting(reasons::UNAVAILABLE).plan();
    assert_eq!(plan.report.phase, Phase::Provisioning);
    assert!(plan.report.error);
    // Out of time.
    let case = waiting(reasons::DISCOVERY_TIMEOUT);
    let mut machine = case.machine.ours().unwrap().clone();
    machine.failed = true;
    let case = case.change(|case| case.machine = MachineRecord::Ours(Box::new(machine)));
    let plan = case.plan();
    assert_eq!((plan.step, plan.report.phase), (Step::Rest, Phase::Failed));
    assert_eq!(plan.report.reason, "DiscoveryTimeout");
    // Found: it goes on.
    let found = Case::joining().change(|case| case.record.provisioned_at = None);
    assert_eq!(found.plan().report.phase, Phase::Provisioned);
    assert_eq!(Case::joining().plan().report.phase, Phase::Joining);
}

#[test]
fn provisioner_create_vps_no_discoverer_set_waits() {
    // A provider that cannot list says so in its machine's record, and nothing else happens.
    let case =
        Case::joining().change(|case| case.record.provisioned_at = None).machine(|machine| {
            machine.id = None;
            machine.ready = false;
            machine.reason = reasons::DISCOVERING.to_owned();
            machine.message = "this provider cannot list its machines".to_owned();
        });
    let plan = case.plan();
    assert_eq!((plan.step, plan.report.phase), (Step::Rest, Phase::Provisioning));
    assert!(plan.report.message.contains("cannot list"));
}

#[test]
fn defect_12_a_platform_without_room_is_waited_for_and_not_churned() {
    let case =
        Case::joining().change(|case| case.record.provisioned_at = None).machine(|machine| {
            machine.id = None;
            machine.ready = false;
            machine.reason = reasons::EXHAUSTED.to_owned();
            machine.message = "create: quota exceeded".to_owned();
        });
    let plan = case.plan();
    assert_eq!(plan.step, Step::Rest);
    assert_eq!(plan.report.phase, Phase::Provisioning, "it is not failed and not made anew");
    assert_eq!(plan.report.reason, reasons::CAPACITY_LIMIT_REACHED);
}

#[test]
fn a_node_is_claimed_and_then_ready() {
    let case = Case::ready().change(|case| {
        case.labelled = false;
        case.record.claimed = None;
    });
    // Which one it claims is on record first.
    assert_eq!(case.plan().step, Step::Intend("k-1".to_owned()));
    let case = case.change(|case| case.record.claimed = Some("k-1".to_owned()));
    assert_eq!(case.plan().step, Step::Claim("k-1".to_owned()));
    let plan = Case::ready().plan();
    assert_eq!((plan.step, plan.report.phase), (Step::Rest, Phase::Ready));
}

#[test]
fn a_machine_that_runs_and_never_joins_fails_in_its_time() {
    let plan = Case::joining().plan();
    assert_eq!(plan.step, Step::Wait(at(960)));
    let plan = Case::joining().change(|case| case.now = 960).plan();
    assert_eq!((plan.report.phase, plan.report.reason.as_str()), (Phase::Failed, "JoiningTimeout"));
    assert!(plan.report.message.contains("10.0.0.1"), "{}", plan.report.message);
    let stuck = Case::joining()
        .change(|case| case.record.provisioned_at = None)
        .machine(|machine| machine.ready = false);
    assert_eq!(stuck.plan().step, Step::Wait(at(900)));
    let plan = stuck.change(|case| case.now = 900).plan();
    assert_eq!(plan.report.reason, "ProvisioningTimeout");
}

#[test]
fn defect_11_a_node_that_vanished_or_is_not_ready_is_noticed_and_fails_in_its_time() {
    let gone = || {
        Case::ready().change(|case| {
            case.node = None;
            case.labelled = false;
            case.record.unready_since = Some(at(90));
        })
    };
    let plan = gone().plan();
    assert_eq!((plan.report.phase, plan.report.reason.as_str()), (Phase::Joining, "NodeNotFound"));
    let plan = gone().change(|case| case.now = 990).plan();
    assert_eq!((plan.report.phase, plan.report.reason.as_str()), (Phase::Failed, "NodeNotFound"));
    let unready = || {
        Case::ready().change(|case| {
            let node = case.node.as_mut().unwrap();
            node.ready = Err("kubelet stopped".to_owned());
            case.record.unready_since = Some(at(90));
        })
    };
    let plan = unready().plan();
    assert_eq!((plan.report.phase, plan.report.reason.as_str()), (Phase::Joining, "NodeNotReady"));
    assert_eq!(unready().change(|case| case.now = 990).plan().report.phase, Phase::Failed);
    // It comes back, whatever was said of it.
    let back = Case::ready().change(|case| case.record.phase = Some(Phase::Failed));
    assert_eq!(back.plan().report.phase, Phase::Ready);
}

#[test]
fn a_machine_that_was_deleted_without_us_fails_the_record() {
    let case = Case::ready().change(|case| {
        case.machine = MachineRecord::Absent;
        case.node = None;
    });
    let plan = case.plan();
    assert_eq!((plan.step, plan.report.phase), (Step::Rest, Phase::Failed));
    assert_eq!(plan.report.reason, reasons::MACHINE_LOST);
}

#[test]
fn a_failed_record_stays_failed_while_it_is_told_of_nodes_that_it_may_be() {
    let failed = |machine: &mut Machine| {
        (machine.ready, machine.failed, machine.id) = (false, true, None);
        machine.reason = reasons::DISCOVERY_TIMEOUT.to_owned();
    };
    let case = Case::joining().machine(failed);
    let plain = case.plan();
    let told = case.change(|case| case.hints = Some(vec!["10.0.0.9".to_owned()])).plan();
    assert_eq!(told.step, Step::Hint(vec!["10.0.0.9".to_owned()]));
    assert_eq!(told.report, plain.report);
    assert_eq!(told.report.phase, Phase::Failed);
}
