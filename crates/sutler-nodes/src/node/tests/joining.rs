//! Which node is a record's, and what is written onto it.

use super::*;

fn found(machine: Option<&Machine>, nodes: &[Node]) -> Option<String> {
    let index = index(nodes);
    node_of(&record(), "web", machine, &index).map(|seen| seen.name.clone())
}

#[test]
fn m1_find_k8s_node_by_ip_found_and_not_found() {
    let nodes = [node("a", "10.0.0.9", json!({})), node("b", "10.0.0.1", json!({}))];
    assert_eq!(found(Some(&machine()), &nodes).as_deref(), Some("b"));
    assert_eq!(found(Some(&machine()), &nodes[..1]), None);
}

#[test]
fn m1_an_address_within_the_clusters_network_comes_first_and_one_beyond_it_counts() {
    let beyond = json!({ "status": { "addresses": [
        { "type": "InternalIP", "address": "172.16.0.1" },
        { "type": "ExternalIP", "address": "10.0.0.1" },
    ]}});
    let nodes = [node("a", "", beyond), node("b", "10.0.0.1", json!({}))];
    assert_eq!(found(Some(&machine()), &nodes).as_deref(), Some("b"));
    assert_eq!(found(Some(&machine()), &nodes[..1]).as_deref(), Some("a"));
}

#[test]
fn joiner_ip_first_matching_beats_a_wrong_name() {
    // One is called what the machine calls itself, and has another's address.
    let nodes = [node("web-0001", "10.0.0.9", json!({})), node("b", "10.0.0.1", json!({}))];
    assert_eq!(found(Some(&machine()), &nodes).as_deref(), Some("b"));
    assert_eq!(found(Some(&machine()), &nodes[..1]), None, "it is another machine's node");
}

#[test]
fn the_object_that_a_dead_machine_left_is_not_taken_by_its_name() {
    let left = [node("web-0001", "10.0.0.9", json!({}))];
    let untold = |ready| Machine { ready, ips: Vec::new(), ..machine() };
    assert_eq!(found(Some(&untold(false)), &left), None, "its address is not known yet");
    // A platform that tells no addresses leaves nothing else to go by.
    assert_eq!(found(Some(&untold(true)), &left).as_deref(), Some("web-0001"));
}

#[test]
fn m2_a_node_is_known_by_name_and_then_by_hostname() {
    let bare = |name: &str, hostname: &str| {
        let addresses = json!([{ "type": "Hostname", "address": hostname }]);
        node(name, "", json!({ "status": { "addresses": addresses } }))
    };
    let nodes = [bare("wanted", "x"), bare("other", "Web-0001")];
    assert_eq!(found(Some(&machine()), &nodes).as_deref(), Some("other"));
    let all = index(&nodes);
    let wanting = Record { wanted_node: Some("wanted".to_owned()), ..record() };
    let seen = node_of(&wanting, "web", Some(&machine()), &all);
    assert_eq!(seen.map(|seen| seen.name.as_str()), Some("wanted"));
}

#[test]
fn m4_a_node_that_our_bootstrap_labelled_is_known_before_its_machine_is() {
    let nodes = [node("k", "10.9.9.9", labelled("web-0001"))];
    assert_eq!(found(None, &nodes).as_deref(), Some("k"));
    // A label without the namespace is anybody's of that name: the machine has to prove it.
    let mut vague = labelled("web-0001");
    vague["metadata"]["labels"]["autoscaler.vpsie.com/nodegroup-namespace"] = json!("");
    vague["metadata"]["labels"]["autoscaler.vpsie.com/nodegroup"] = json!("other");
    let nodes = [node("k", "10.9.9.9", vague)];
    assert_eq!(found(None, &nodes), None);
}

#[test]
fn is_node_claimed_by_other_claimed_not_claimed_same_vpsienode() {
    let other = [node("a", "10.0.0.1", labelled("web-0002"))];
    assert_eq!(found(Some(&machine()), &other), None);
    let mut elsewhere = labelled("web-0001");
    elsewhere["metadata"]["labels"]["autoscaler.vpsie.com/nodegroup-namespace"] = json!("else");
    let elsewhere = [node("a", "10.0.0.1", elsewhere)];
    assert_eq!(found(Some(&machine()), &elsewhere), None, "one of that name in another namespace");
    let own = [node("a", "10.0.0.1", labelled("web-0001"))];
    assert_eq!(found(Some(&machine()), &own).as_deref(), Some("a"));
    let free = [node("a", "10.0.0.1", json!({}))];
    assert_eq!(found(Some(&machine()), &free).as_deref(), Some("a"));
}

#[test]
fn defect_02_of_two_records_that_want_one_node_one_has_it() {
    let free = node("a", "10.0.0.1", json!({}));
    let other = object(json!({ "metadata": { "name": "web-0002", "uid": "u-2" } }));
    let patches = [object(json!({})), other.clone()]
        .map(|record| claim_patch(&free, &wanted_labels(&record, None), &[]).unwrap());
    // Both looked at it while it was free: the API takes one write over that version, and no more.
    for patch in &patches {
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["metadata"]["uid"], "uid-a");
    }
    let mut taken = serde_json::to_value(&free).unwrap();
    merge(&mut taken, patches[0].clone());
    taken["metadata"]["resourceVersion"] = json!("8");
    let taken: Node = serde_json::from_value(taken).unwrap();
    // Who looks again sees whose it is.
    assert_eq!(found(Some(&machine()), std::slice::from_ref(&taken)).as_deref(), Some("a"));
    let all = index(&[taken]);
    assert!(node_of(&Record::read(&other), "web", Some(&machine()), &all).is_none());
}

#[test]
fn defect_04_a_record_knows_its_own_claim_again_and_takes_no_second_node() {
    // It crashed before it wrote down that its node has joined, and another node is free to take.
    let case = Case::joining();
    assert_eq!(case.record.node, None);
    let nodes = [node("free", "10.0.0.1", json!({})), node("k-1", "", labelled("web-0001"))];
    let all = index(&nodes);
    for known in [Some(&machine()), None] {
        let seen = node_of(&case.record, "web", known, &all).unwrap();
        assert_eq!(seen.name, "k-1");
        let again = Case::joining().change(|case| {
            case.record.claimed = Some("k-1".to_owned());
            (case.node, case.labelled) = (Some(seen.clone()), true);
        });
        assert_eq!((again.plan().step, again.plan().report.phase), (Step::Rest, Phase::Ready));
    }
    // It crashed between the two writes of a claim: the same node is claimed.
    let again = Case::joining().change(|case| {
        case.record.claimed = Some("free".to_owned());
        case.node = Some(Seen::read(&nodes[0]));
    });
    assert_eq!(again.plan().step, Step::Claim("free".to_owned()));
}

#[test]
fn defect_09_a_name_proves_nothing_of_a_node_that_another_has_or_that_is_called_longer() {
    // Nothing but the name tells them apart: the platform tells no addresses.
    let machine = Machine { ips: Vec::new(), ..machine() };
    let called = |name: &str, more: Value| [node(name, "10.0.0.9", more)];
    let free = called("web-0001", json!({}));
    assert_eq!(found(Some(&machine), &free).as_deref(), Some("web-0001"));
    assert_eq!(found(Some(&machine), &called("web-0001", labelled("web-0002"))), None);
    assert_eq!(found(Some(&machine), &called("web-00010", json!({}))), None);
}

#[test]
fn a_node_that_runs_the_cluster_is_nobodys() {
    let label =
        json!({ "metadata": { "labels": { "node-role.kubernetes.io/control-plane": "" } } });
    assert_eq!(found(Some(&machine()), &[node("a", "10.0.0.1", label)]), None);
}

#[test]
fn d5_hints_are_the_addresses_of_nodes_that_nobody_has_and_that_joined_since() {
    let unknown = Machine { id: None, ips: Vec::new(), ..machine() };
    let old = json!({ "metadata": { "creationTimestamp": at(-60).to_string() } });
    let all = index(&[
        node("free", "10.0.0.3", json!({})),
        node("taken", "10.0.0.4", labelled("web-0002")),
        node("old", "10.0.0.5", old),
    ]);
    let hints = |managed, machine: &Machine| {
        discoverer::addresses(&record(), "web", managed, machine, &all)
    };
    assert_eq!(hints(true, &unknown), Some(vec!["10.0.0.3".to_owned()]));
    // Where our own bootstrap installs them, only its label is a proof.
    assert_eq!(hints(false, &unknown), None);
    assert_eq!(hints(true, &machine()), None, "its machine is known");
    let told = Machine { hints: vec!["10.0.0.3".to_owned()], ..unknown };
    assert_eq!(hints(true, &told), None, "it is written down already");
}

#[test]
fn l1_l2_l3_labels_and_taints_are_one_write_over_the_version_that_was_read() {
    let group: NodeGroup = serde_json::from_value(json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": { "name": "web", "namespace": "ns" },
        "spec": { "minNodes": 0, "maxNodes": 3, "labels": { "pool": "web" },
            "taints": [{ "key": "t", "value": "new", "effect": "NoSchedule" }] },
    }))
    .unwrap();
    let record = object(json!({}));
    let wanted = wanted_labels(&record, Some(&group));
    let label = |name: &str| wanted.get(&format!("autoscaler.vpsie.com/{name}")).cloned();
    assert_eq!(label("managed").as_deref(), Some("true"));
    assert_eq!(label("nodegroup").as_deref(), Some("web"));
    assert_eq!(label("vpsienode").as_deref(), Some("web-0001"));
    assert_eq!(label("datacenter").as_deref(), Some("dc-1"), "what no label takes is replaced");
    assert_eq!(wanted["pool"], "web");
    let taints = json!({ "spec": { "taints": [
        { "key": "own", "effect": "NoExecute" },
        { "key": "t", "value": "old", "effect": "NoSchedule" },
    ]}});
    let before = node("a", "10.0.0.1", taints);
    let patch = claim_patch(&before, &wanted, &group.spec.taints).unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert_eq!(patch["metadata"]["uid"], "uid-a");
    assert_eq!(patch["spec"]["taints"].as_array().unwrap().len(), 2);
    assert_eq!(patch["spec"]["taints"][1]["value"], "new");
    // What a cloud says of a node's size stays; where nothing does, pods find it by the group's word.
    let size = "node.kubernetes.io/instance-type";
    assert_eq!(patch["metadata"]["labels"][size], "small");
    let known = node("a", "10.0.0.1", json!({ "metadata": { "labels": { size: "m5.large" } } }));
    let patch_known = claim_patch(&known, &wanted, &group.spec.taints).unwrap();
    assert!(patch_known["metadata"]["labels"].get(size).is_none());
    // Partial labels are completed, and right ones not written.
    let mut after = serde_json::to_value(&before).unwrap();
    merge(&mut after, json!({ "metadata": { "labels": patch["metadata"]["labels"] } }));
    let partial: Node = serde_json::from_value(after.clone()).unwrap();
    let rest = claim_patch(&partial, &wanted, &group.spec.taints).unwrap();
    assert_eq!(rest["metadata"]["labels"], json!({}));
    after["spec"]["taints"] = patch["spec"]["taints"].clone();
    let whole: Node = serde_json::from_value(after).unwrap();
    assert_eq!(claim_patch(&whole, &wanted, &group.spec.taints), None);
}
