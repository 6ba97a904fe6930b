//! Kubernetes nodes made of machines: discovery, joining, labels, groups. The names carry the numbers of
//! the criteria that they show.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready, ready};

/// The kinds of groups and nodes.
pub(crate) const AUTOSCALER: &str = "autoscaler.vpsie.com/v1alpha1";

both!(
    d1_d2_d3_m1_m3_l1_l2_l3_s1_s2_s3_a_group_becomes_nodes,
    d4_a_hostname_that_begins_with_the_records_name_is_its_machine,
    d5_m4_a_node_that_joined_first_leads_to_its_machine_by_address,
    d6_e3_e4_what_does_not_show_up_fails_and_waits_for_a_person,
    d9_many_records_find_one_machine_each,
    m2_a_node_is_known_by_hostname_where_no_address_tells,
    l4_l5_labels_are_one_write_that_is_tried_again_on_conflict,
    l4_partial_labels_are_completed_and_right_ones_left_alone,
    e2_errors_that_pass_are_tried_again_and_nothing_is_made_twice,
    defect_03_a_foreign_node_is_never_claimed,
    defect_07_a_machine_that_comes_after_its_record_was_deleted_is_removed,
    defect_11_a_node_that_vanishes_is_noticed,
    defect_19_a_group_goes_after_its_nodes,
    defect_20_groups_of_one_name_in_two_namespaces_do_not_meet,
    a_group_that_is_not_labelled_is_left_alone,
    a_group_shrinks_by_draining_and_stays_where_a_budget_forbids_it,
    a_group_on_any_provider_boots_with_a_join_document,
    what_a_group_cannot_be_is_said,
);

/// A platform that tells no IDs and can carry no tokens.
fn quiet(more: Value) -> Value {
    let mut options = json!({"uniqueBy": "None", "token": false, "returnsId": false, "tasks": false,
        "deadlines": {"make": "2s"}, "work": {"create": "300ms", "boot": "200ms"}});
    options.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    options
}

fn group(name: &str, nodes: u32) -> Value {
    json!({"apiVersion": AUTOSCALER, "kind": "NodeGroup",
        "metadata": {"name": name, "labels": {"autoscaler.vpsie.com/managed": "true"}},
        "spec": {"minNodes": 0, "maxNodes": 20, "desiredNodes": nodes,
            "providerRef": {"name": "sim"}, "resourceIdentifier": "c-1", "project": "p",
            "datacenterID": "dc-1", "offeringIDs": ["small"], "kubernetesVersion": "v1.34.1",
            "kubeSizeID": 3,
            "labels": {"pool": name},
            "taints": [{"key": "dedicated", "value": name, "effect": "NoSchedule"}]}})
}

impl Lab {
    /// Addresses of this case alone: all cases share the nodes of one cluster.
    pub(crate) fn first_address(&self) -> u64 {
        let digits: String = self.namespace.chars().filter(char::is_ascii_digit).collect();
        let neighbour = u64::from(self.namespace.ends_with("-too"));
        (2 * digits.parse::<u64>().unwrap() + neighbour) * 254
    }

    /// The Provider of nodes: found within seconds, or given up.
    async fn quiet_platform(&self, mut more: Value, timeout: &str) {
        more["firstAddress"] = json!(self.first_address());
        self.furnish(quiet(more)).await;
        let discovery = json!({"spec": {"discovery": {"interval": "1s", "timeout": timeout}}});
        self.patch_of("Provider", "sim", discovery).await.unwrap();
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// A node's name that no other case has.
    fn node_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Lets a node join, as its kubelet would.
    pub(crate) async fn join(&self, name: &str, address: &str, more: Value) -> Node {
        let name = self.node_name(name);
        let mut object = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name}, "spec": {}});
        merge(&mut object, more);
        let node: Node = serde_json::from_value(object).unwrap();
        self.nodes().create(&PostParams::default(), &node).await.unwrap();
        self.report(&name, address, true).await
    }

    /// What a kubelet says of its node.
    async fn report(&self, name: &str, address: &str, ready: bool) -> Node {
        let mut addresses = vec![json!({"type": "Hostname", "address": name})];
        if !address.is_empty() {
            addresses.push(json!({"type": "InternalIP", "address": address}));
        }
        let status = if ready { "True" } else { "False" };
        let status = json!({"status": {"addresses": addresses, "conditions": [
            {"type": "Ready", "status": status, "reason": "Kubelet", "message": "says so",
             "lastHeartbeatTime": "2026-01-01T00:00:00Z",
             "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let params = PatchParams::default();
        self.nodes().patch_status(name, &params, &Patch::Merge(status)).await.unwrap()
    }

    pub(crate) async fn node_record(
        &self,
        name: &str,
        what: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_of(AUTOSCALER, "VPSieNode", name, what, done).await.unwrap_or_default()
    }

    pub(crate) async fn group_is(
        &self,
        name: &str,
        what: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_of(AUTOSCALER, "NodeGroup", name, what, done).await.unwrap_or_default()
    }

    /// A record whose machine runs, with its address.
    pub(crate) async fn provisioned(&self, name: &str) -> (Value, String) {
        let record = self
            .node_record(name, "provisioned", |node| !node["status"]["provisionedAt"].is_null())
            .await;
        let address = record["spec"]["ipAddress"].as_str().unwrap_or_default().to_owned();
        (record, address)
    }

    /// A node as the API shows it once it is as wanted.
    async fn node_is(&self, name: &str, done: impl Fn(&Node) -> bool) -> Node {
        let condition = |node: Option<&Node>| node.is_some_and(&done);
        let waited = await_condition(self.nodes(), name, condition);
        let limit = std::time::Duration::from_secs(100);
        match tokio::time::timeout(limit, waited).await {
            Ok(node) => node.unwrap().unwrap(),
            Err(_) => panic!("{name}: {:#?}\n{}", self.nodes().get_opt(name).await, self.log()),
        }
    }

    async fn records(&self) -> Vec<Value> {
        let all = self.api(AUTOSCALER, "VPSieNode").list(&ListParams::default()).await.unwrap();
        all.items.iter().map(|node| serde_json::to_value(node).unwrap()).collect()
    }

    pub(crate) async fn resize(&self, name: &str, nodes: u32) {
        let patch = Patch::Merge(json!({"spec": {"desiredNodes": nodes}}));
        let api = self.api(AUTOSCALER, "NodeGroup");
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Lets a node vanish, although its record stands behind it.
    async fn drop_node(&self, name: &str) {
        let notes = json!({"autoscaler.vpsie.com/allow-deletion": "true"});
        let patch = Patch::Merge(json!({"metadata": {"annotations": notes}}));
        self.nodes().patch(name, &PatchParams::default(), &patch).await.unwrap();
        self.nodes().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn drop_group(&self, name: &str) {
        let api = self.api(AUTOSCALER, "NodeGroup");
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until nothing of a group is left. On a platform that can carry no tokens that takes as long
    /// as a request may still have an effect.
    async fn until_nothing_is_left(&self, name: &str) {
        self.group_is(name, "gone", Value::is_null).await;
        assert!(self.records().await.is_empty());
        assert!(self.platform().is_empty(), "{:#?}", self.platform());
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn phase_is(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |node| node["status"]["phase"] == phase
}

fn label(node: &Node, name: &str) -> String {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    labels.get(&format!("autoscaler.vpsie.com/{name}")).cloned().unwrap_or_default()
}

fn is_labelled(record: &str) -> impl Fn(&Node) -> bool {
    move |node| label(node, "vpsienode") == record
}

async fn d1_d2_d3_m1_m3_l1_l2_l3_s1_s2_s3_a_group_becomes_nodes(lab: Lab) {
    lab.quiet_platform(json!({}), "15m").await;
    lab.create(group("web", 2)).await;
    for name in ["web-0001", "web-0002"] {
        let (record, address) = lab.provisioned(name).await;
        assert!(record["spec"]["vpsieInstanceID"].as_i64().unwrap() > 0, "{record:#}");
        assert!(!address.is_empty() && record["status"]["hostname"] == name, "{record:#}");
        assert_eq!(
            record["metadata"]["annotations"]["autoscaler.vpsie.com/creation-requested"],
            "true"
        );
        assert_eq!(record["status"]["vmRef"]["name"], name);
        assert!(record["status"]["resources"]["cpu"].as_i64().unwrap() > 0, "{record:#}");
        // Its name in Kubernetes has nothing to do with the record's: the address tells.
        let node = lab.join(&format!("kubelet-{name}"), &address, json!({})).await;
        let node_name = node.metadata.name.clone().unwrap();
        let node = lab.node_is(&node_name, is_labelled(name)).await;
        assert_eq!(label(&node, "managed"), "true");
        assert_eq!(label(&node, "nodegroup"), "web");
        assert_eq!(label(&node, "datacenter"), "dc-1");
        assert_eq!(node.metadata.labels.unwrap()["pool"], "web");
        let taints = node.spec.unwrap().taints.unwrap();
        assert!(taints.iter().any(|taint| taint.key == "dedicated"), "{taints:?}");
        let record = lab.node_record(name, "ready", phase_is("Ready")).await;
        assert_eq!(record["status"]["nodeName"], node_name.as_str());
        assert!(is_ready(&record), "{record:#}");
    }
    let web = lab.group_is("web", "ready", is_ready).await;
    assert_eq!(web["status"]["currentNodes"], 2);
    assert_eq!(web["status"]["readyNodes"], 2);
    assert_eq!(web["status"]["failedNodes"], 0);
    assert_eq!(web["status"]["desiredNodes"], 2);
    assert_eq!(web["status"]["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(lab.platform().len(), 2);
    lab.drop_group("web").await;
    lab.until_nothing_is_left("web").await;
    for name in ["web-0001", "web-0002"] {
        let node = lab.node_name(&format!("kubelet-{name}"));
        assert!(lab.nodes().get_opt(&node).await.unwrap().is_none(), "{node} is still there");
    }
}

async fn d4_a_hostname_that_begins_with_the_records_name_is_its_machine(lab: Lab) {
    lab.quiet_platform(json!({"hostnameSuffix": "-k8s-worker"}), "15m").await;
    lab.create(group("n", 1)).await;
    let (record, _) = lab.provisioned("n-0001").await;
    assert_eq!(record["status"]["hostname"], "n-0001-k8s-worker");
    lab.drop_group("n").await;
}

async fn d5_m4_a_node_that_joined_first_leads_to_its_machine_by_address(lab: Lab) {
    // The platform calls its machines as it pleases, and shows them late.
    let late = json!({"ownNames": true, "appears": "Made", "deadlines": {"make": "12s"},
        "work": {"create": "3s", "boot": "200ms"}});
    lab.quiet_platform(late, "15m").await;
    lab.create(group("web", 1)).await;
    let record = lab.node_record("web-0001", "asked for", phase_is("Provisioning")).await;
    assert!(record["status"]["instanceID"].is_null(), "{record:#}");
    // The address that the simulated network gives its first machine.
    let expected = format!("10.0.{}.2", lab.first_address() / 254);
    let node = lab.join("early", &expected, json!({})).await;
    let name = node.metadata.name.unwrap();
    let (record, address) = lab.provisioned("web-0001").await;
    let machine = lab.only();
    assert!(machine["machine"]["name"].as_str().unwrap().starts_with("worker-"), "{machine:#}");
    assert_eq!(address, expected);
    lab.node_is(&name, is_labelled("web-0001")).await;
    assert!(record["spec"]["vpsieInstanceID"].as_i64().unwrap() > 0, "{record:#}");
    lab.node_record("web-0001", "ready", phase_is("Ready")).await;
    lab.drop_group("web").await;
}

async fn d6_e3_e4_what_does_not_show_up_fails_and_waits_for_a_person(lab: Lab) {
    let late = json!({"appears": "Made", "tasks": true, "deadlines": {"make": "12s"},
        "work": {"create": "8s", "boot": "200ms"}});
    lab.quiet_platform(late, "2s").await;
    lab.create(group("slow", 1)).await;
    let record = lab.node_record("slow-0001", "failed", phase_is("Failed")).await;
    assert_eq!(record["status"]["reason"], "DiscoveryTimeout", "{record:#}");
    assert!(record["status"]["lastError"].as_str().unwrap().contains("slow-0001"), "{record:#}");
    let slow =
        lab.group_is("slow", "told of it", |group| group["status"]["failedNodes"] == 1).await;
    // It counts, and is replaced, and stays until a person has looked at it.
    assert!(slow["status"]["currentNodes"].as_i64().unwrap() >= 1, "{slow:#}");
    lab.node_record("slow-0002", "there", |node| !node.is_null()).await;
    // What comes late is its own all the same.
    lab.node_record("slow-0001", "found after all", |node| {
        !node["status"]["instanceID"].is_null() && node["status"]["phase"] != "Failed"
    })
    .await;
    lab.drop_group("slow").await;
}

async fn d9_many_records_find_one_machine_each(lab: Lab) {
    lab.quiet_platform(json!({"ownNames": true}), "15m").await;
    lab.create(group("many", 8)).await;
    let mut ids = std::collections::BTreeSet::new();
    for number in 1..=8 {
        let (record, _) = lab.provisioned(&format!("many-{number:04}")).await;
        ids.insert(record["status"]["instanceID"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 8);
    assert_eq!(lab.platform().len(), 8);
    lab.drop_group("many").await;
}

async fn m2_a_node_is_known_by_hostname_where_no_address_tells(lab: Lab) {
    lab.quiet_platform(json!({}), "15m").await;
    lab.create(group(&format!("{}-h", lab.namespace), 1)).await;
    let name = format!("{}-h-0001", lab.namespace);
    lab.provisioned(&name).await;
    // The node has no address yet, and is called what the machine calls itself.
    lab.join("h-0001", "", json!({})).await;
    lab.node_is(&name, is_labelled(&name)).await;
    lab.node_record(&name, "ready", phase_is("Ready")).await;
    lab.drop_group(&format!("{}-h", lab.namespace)).await;
}

async fn l4_l5_labels_are_one_write_that_is_tried_again_on_conflict(lab: Lab) {
    lab.quiet_platform(json!({}), "15m").await;
    lab.create(group("web", 1)).await;
    let (_, address) = lab.provisioned("web-0001").await;
    let name = lab.node_name("busy");
    // Somebody else writes the node all the time.
    let (nodes, busy) = (lab.nodes(), name.clone());
    let writer = tokio::spawn(async move {
        for number in 0.. {
            let patch = json!({"metadata": {"annotations": {"busy": number.to_string()}}});
            let _ = nodes.patch(&busy, &PatchParams::default(), &Patch::Merge(patch)).await;
        }
    });
    lab.join("busy", &address, json!({})).await;
    let node = lab.node_is(&name, is_labelled("web-0001")).await;
    writer.abort();
    // All of them came with one write.
    assert_eq!((label(&node, "managed"), label(&node, "nodegroup")), ("true".into(), "web".into()));
    assert!(node.spec.unwrap().taints.unwrap().iter().any(|taint| taint.key == "dedicated"));
    lab.drop_group("web").await;
}

async fn l4_partial_labels_are_completed_and_right_ones_left_alone(lab: Lab) {
    lab.quiet_platform(json!({}), "15m").await;
    lab.create(group("web", 1)).await;
    let (_, address) = lab.provisioned("web-0001").await;
    let partial =
        json!({"metadata": {"labels": {"autoscaler.vpsie.com/managed": "true", "own": "x"}}});
    let node = lab.join("partial", &address, partial).await;
    let name = node.metadata.name.unwrap();
    let node = lab.node_is(&name, is_labelled("web-0001")).await;
    assert_eq!(node.metadata.labels.as_ref().unwrap()["own"], "x");
    lab.node_record("web-0001", "ready", phase_is("Ready")).await;
    let version = lab.nodes().get(&name).await.unwrap().metadata.resource_version;
    // Looked at again, it is not written again.
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    let api = lab.api(AUTOSCALER, "VPSieNode");
    api.patch("web-0001", &PatchParams::default(), &Patch::Merge(touch)).await.unwrap();
    lab.node_record("web-0001", "touched", |node| {
        node["metadata"]["annotations"]["touched"] == "yes"
    })
    .await;
    assert_eq!(lab.nodes().get(&name).await.unwrap().metadata.resource_version, version);
    lab.drop_group("web").await;
}

async fn e2_errors_that_pass_are_tried_again_and_nothing_is_made_twice(lab: Lab) {
    let faults = json!({"refuse": 0.3, "lostReply": 0.2, "partial": 0.3});
    lab.quiet_platform(json!({"faults": faults, "seed": 7}), "15m").await;
    lab.create(group("web", 3)).await;
    for number in 1..=3 {
        lab.until(&format!("web-{number:04}"), "asked for", |vm| {
            !vm["metadata"]["annotations"]["sutler.dev/create-requested-at"].is_null()
        })
        .await;
    }
    // Whatever was lost by now is found once the errors have passed.
    let calm = json!({"spec": {"options": {"faults": null}}});
    lab.patch_of("Provider", "sim", calm).await.unwrap();
    for number in 1..=3 {
        lab.provisioned(&format!("web-{number:04}")).await;
    }
    assert_eq!(lab.platform().len(), 3, "{:#?}", lab.platform());
    lab.drop_group("web").await;
}

async fn defect_03_a_foreign_node_is_never_claimed(lab: Lab) {
    lab.quiet_platform(json!({"work": {"create": "1s", "boot": "200ms"}}), "15m").await;
    // A young node without labels, of somebody else.
    let foreign = lab.join("foreign", "192.0.2.7", json!({})).await;
    let leader = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    lab.create(group("web", 1)).await;
    let (_, address) = lab.provisioned("web-0001").await;
    // One that runs the cluster is not ours even at our address.
    let leader = lab.join("leader", &address, leader).await;
    let node = lab.join("ours", &address, json!({})).await;
    lab.node_is(&node.metadata.name.unwrap(), is_labelled("web-0001")).await;
    lab.node_record("web-0001", "ready", phase_is("Ready")).await;
    for other in [foreign, leader] {
        let name = other.metadata.name.unwrap();
        let node = lab.nodes().get(&name).await.unwrap();
        assert_eq!(label(&node, "vpsienode"), "", "{name} was touched");
        lab.drop_node(&name).await;
    }
    lab.drop_group("web").await;
}

async fn defect_07_a_machine_that_comes_after_its_record_was_deleted_is_removed(lab: Lab) {
    let late = json!({"ownNames": true, "appears": "Made", "deadlines": {"make": "12s"},
        "work": {"create": "4s", "boot": "200ms"}});
    lab.quiet_platform(late, "12s").await;
    lab.create(group("web", 1)).await;
    lab.node_record("web-0001", "asked for", phase_is("Provisioning")).await;
    lab.until("web-0001", "asked for", |vm| {
        !vm["metadata"]["annotations"]["sutler.dev/create-requested-at"].is_null()
    })
    .await;
    let api = lab.api(AUTOSCALER, "NodeGroup");
    api.delete("web", &DeleteParams::default()).await.unwrap();
    let going = lab.node_record("web-0001", "going", |node| {
        node.is_null() || !node["metadata"]["deletionTimestamp"].is_null()
    });
    going.await;
    lab.until_nothing_is_left("web").await;
}

async fn defect_11_a_node_that_vanishes_is_noticed(lab: Lab) {
    lab.quiet_platform(json!({}), "15m").await;
    lab.create(group("web", 1)).await;
    let (_, address) = lab.provisioned("web-0001").await;
    let name = lab.join("gone", &address, json!({})).await.metadata.name.unwrap();
    lab.node_record("web-0001", "ready", phase_is("Ready")).await;
    lab.report(&name, &address, false).await;
    let record = lab.node_record("web-0001", "unready", phase_is("Joining")).await;
    assert_eq!(record["status"]["reason"], "NodeNotReady", "{record:#}");
    lab.drop_node(&name).await;
    let lost = |node: &Value| node["status"]["reason"] == "NodeNotFound";
    lab.node_record("web-0001", "lost", lost).await;
    lab.group_is("web", "told", |group| group["status"]["readyNodes"] == 0).await;
    // It comes back, and is ours again.
    lab.join("gone", &address, json!({})).await;
    lab.node_record("web-0001", "ready again", phase_is("Ready")).await;
    // Its machine goes without us: the record fails, and another takes its place.
    let vm = lab.api(INFRA, "VirtualMachine");
    vm.delete("web-0001", &DeleteParams::default()).await.unwrap();
    let record = lab.node_record("web-0001", "failed", phase_is("Failed")).await;
    assert_eq!(record["status"]["reason"], "MachineLost", "{record:#}");
    lab.node_record("web-0002", "there instead", |node| !node.is_null()).await;
    lab.drop_group("web").await;
}

async fn defect_19_a_group_goes_after_its_nodes(lab: Lab) {
    lab.quiet_platform(
        json!({"work": {"create": "300ms", "boot": "200ms", "delete": "2s"}}),
        "15m",
    )
    .await;
    lab.create(group("web", 2)).await;
    lab.provisioned("web-0001").await;
    lab.provisioned("web-0002").await;
    let api = lab.api(AUTOSCALER, "NodeGroup");
    api.delete("web", &DeleteParams::default()).await.unwrap();
    let waiting =
        lab.group_is("web", "waiting", |group| ready(group)["reason"] == "Deleting").await;
    assert!(ready(&waiting)["message"].as_str().unwrap().contains("still there"), "{waiting:#}");
    lab.until_nothing_is_left("web").await;
}

async fn defect_20_groups_of_one_name_in_two_namespaces_do_not_meet(lab: Lab) {
    let tokens = json!({"work": {"create": "300ms", "boot": "200ms"},
        "firstAddress": lab.first_address()});
    lab.furnish(tokens.clone()).await;
    let other = lab.neighbour().await;
    other.furnish(tokens).await;
    for lab in [&lab, &other] {
        let mut own = group("web", 1);
        own["spec"]["classRef"] = json!({"name": "small"});
        own["spec"]["imageRef"] = json!({"name": "debian"});
        lab.create(own).await;
    }
    let mut seen = Vec::new();
    for lab in [&lab, &other] {
        let (_, address) = lab.provisioned("web-0001").await;
        let name = lab.join("same", &address, json!({})).await.metadata.name.unwrap();
        let node = lab.node_is(&name, is_labelled("web-0001")).await;
        assert_eq!(label(&node, "nodegroup-namespace"), lab.namespace);
        let web = lab.group_is("web", "ready", is_ready).await;
        assert_eq!(web["status"]["currentNodes"], 1);
        seen.push(name);
    }
    lab.api(AUTOSCALER, "NodeGroup").delete("web", &DeleteParams::default()).await.unwrap();
    lab.group_is("web", "gone", Value::is_null).await;
    // The neighbour's is as it was.
    let there = lab.nodes().get(&seen[1]).await.unwrap();
    assert_eq!(label(&there, "vpsienode"), "web-0001");
    other.drop_group("web").await;
}

async fn a_group_that_is_not_labelled_is_left_alone(lab: Lab) {
    lab.quiet_platform(json!({}), "15m").await;
    let mut plain = group("plain", 2);
    plain["metadata"]["labels"] = json!({});
    lab.create(plain).await;
    lab.create(group("web", 1)).await;
    lab.provisioned("web-0001").await;
    let api = lab.api(AUTOSCALER, "NodeGroup");
    let plain = serde_json::to_value(api.get("plain").await.unwrap()).unwrap();
    assert!(plain["status"].is_null() && plain["metadata"]["finalizers"].is_null(), "{plain:#}");
    assert_eq!(lab.records().await.len(), 1);
    lab.drop_group("web").await;
}

async fn a_group_shrinks_by_draining_and_stays_where_a_budget_forbids_it(lab: Lab) {
    lab.quiet_platform(json!({}), "15m").await;
    lab.create(group("web", 2)).await;
    let mut names = Vec::new();
    for record in ["web-0001", "web-0002"] {
        let (_, address) = lab.provisioned(record).await;
        let node = lab.join(&format!("k-{record}"), &address, json!({})).await;
        names.push(node.metadata.name.unwrap());
        lab.node_record(record, "ready", phase_is("Ready")).await;
    }
    for (pod, node) in [("held", &names[1]), ("free", &names[1])] {
        let object = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "labels": {"app": pod}},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i"}]}});
        lab.create(object).await;
        let running = json!({"status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let pods = lab.api("v1", "Pod");
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(running)).await.unwrap();
    }
    lab.create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "held"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}}))
        .await;
    lab.until_of("policy/v1", "PodDisruptionBudget", "held", "counted", |budget| {
        budget["status"]["currentHealthy"] == 1
    })
    .await;
    // The one that is to go is named, as whoever decides on sizes does.
    let body = json!({"spec": {"desiredNodes": 1},
        "metadata": {"annotations": {"autoscaler.vpsie.com/removing": "[\"web-0002\"]"}}});
    let api = lab.api(AUTOSCALER, "NodeGroup");
    api.patch("web", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    let record = lab
        .node_record("web-0002", "held up", |node| node["status"]["reason"] == "DrainFailed")
        .await;
    assert!(ready(&record)["message"].as_str().unwrap().contains("held"), "{record:#}");
    let node = lab.nodes().get(&names[1]).await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    lab.until_of("v1", "Pod", "free", "gone", Value::is_null).await;
    assert_eq!(lab.platform().len(), 2, "the machine stays while a pod is on it");
    // The budget allows it now.
    let budgets = lab.api("policy/v1", "PodDisruptionBudget");
    budgets.delete("held", &DeleteParams::default()).await.unwrap();
    lab.node_record("web-0002", "gone", Value::is_null).await;
    lab.group_is("web", "smaller", |group| is_ready(group) && group["status"]["currentNodes"] == 1)
        .await;
    assert_eq!(lab.platform().len(), 1);
    // A group that is merely made smaller picks for itself.
    lab.resize("web", 0).await;
    lab.node_record("web-0001", "going", |node| {
        node.is_null() || !node["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    lab.drop_group("web").await;
}

async fn a_group_on_any_provider_boots_with_a_join_document(lab: Lab) {
    lab.furnish(json!({"work": {"create": "300ms", "boot": "200ms"},
        "firstAddress": lab.first_address()}))
        .await;
    lab.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "join"},
        "stringData": {"token": "abcdef.0123456789abcdef"}}))
        .await;
    let mut own = group("k3s", 1);
    own["spec"]["classRef"] = json!({"name": "small"});
    own["spec"]["imageRef"] = json!({"name": "debian"});
    own["spec"]["bootstrap"] = json!({"kind": "k3s", "endpoint": "10.1.2.3:6443",
        "tokenSecretRef": {"name": "join"}});
    own["spec"].as_object_mut().unwrap().remove("resourceIdentifier");
    lab.create(own).await;
    let (record, address) = lab.provisioned("k3s-0001").await;
    assert!(!record["status"]["instanceID"].is_null());
    let vm = lab.api(INFRA, "VirtualMachine").get("k3s-0001").await.unwrap();
    let vm = serde_json::to_value(vm).unwrap();
    let secret = vm["spec"]["userData"]["cloudInit"]["secretRef"]["name"].as_str().unwrap();
    let secret = lab.api("v1", "Secret").get(secret).await.unwrap();
    assert!(secret.data["data"]["userdata"].as_str().unwrap().len() > 100);
    assert_eq!(lab.platform().len(), 1);
    // The label that the document gives the node proves whose it is.
    let labels = json!({"metadata": {"labels": {"autoscaler.vpsie.com/nodegroup": "k3s",
        "autoscaler.vpsie.com/nodegroup-namespace": lab.namespace,
        "autoscaler.vpsie.com/vpsienode": "k3s-0001"}}});
    lab.join("k3s", &address, labels).await;
    lab.node_record("k3s-0001", "ready", phase_is("Ready")).await;
    lab.drop_group("k3s").await;
    lab.until_nothing_is_left("k3s").await;
    lab.until_of("v1", "Secret", "k3s-0001-bootstrap", "gone", Value::is_null).await;
}

async fn what_a_group_cannot_be_is_said(lab: Lab) {
    lab.furnish(json!({})).await;
    let mut upside = group("upside", 1);
    upside["spec"]["minNodes"] = json!(30);
    let refused = lab.try_create(upside).await.unwrap_err().to_string();
    assert!(refused.contains("minNodes must not be above maxNodes"), "{refused}");
    let mut version = group("version", 1);
    version["spec"]["kubernetesVersion"] = json!("1.34");
    let refused = lab.try_create(version).await.unwrap_err().to_string();
    assert!(refused.contains("kubernetesVersion"), "{refused}");
    let mut nowhere = group("nowhere", 1);
    nowhere["spec"]["providerRef"]["name"] = json!("missing");
    lab.create(nowhere).await;
    let record = lab
        .node_record("nowhere-0001", "told", |node| node["status"]["reason"] == "ReferenceNotFound")
        .await;
    assert!(ready(&record)["message"].as_str().unwrap().contains("missing"), "{record:#}");
    lab.drop_group("nowhere").await;
    let mut far = group("far", 1);
    far["spec"]["clusterRef"] = json!({"name": "kubeconfig"});
    lab.create(far).await;
    let far =
        lab.group_is("far", "told", |group| ready(group)["reason"] == "ClusterNotReachable").await;
    let message = ready(&far)["message"].as_str().unwrap();
    assert!(message.contains("kubeconfig") && message.contains("create it"), "{message}");
    lab.drop_group("far").await;
}
