//! NodeGroups.

use super::*;

const GROUP: Kind = Kind::NodeGroup;

#[test]
fn groups_as_people_write_them_are_taken() {
    takes(GROUP, &group(), &[]);
    takes(GROUP, &vpsie(), &[]);
    // Nobody has decided yet.
    takes(GROUP, &group(), &[("spec.desiredNodes", json!(0))]);
    takes(GROUP, &group(), &[("spec.minNodes", json!(0)), ("spec.desiredNodes", json!(0))]);
    takes(GROUP, &group(), &[("spec.desiredNodes", Value::Null)]);
    takes(GROUP, &group(), &[("spec.maxNodes", json!(9999))]);
    takes(GROUP, &group(), &[("spec.labels", json!({"node-role.kubernetes.io/worker": ""}))]);
    takes(GROUP, &group(), &[("spec.labels", json!({"node.kubernetes.io/pool": "a"})), k3s("h:1")]);
    takes(GROUP, &group(), &[kubeadm("https://api.example.org:6443/")]);
    takes(GROUP, &group(), &[k3s("https://10.0.0.10:6443")]);
    takes(GROUP, &group(), &[("spec.spotConfig", json!({"interruptionGracePeriod": "off"}))]);
    let spread = json!({"enabled": true, "datacenterIDs": ["a", "b"],
        "distributionStrategy": "weighted", "weightedDistribution": {"a": 1, "b": 3}});
    takes(GROUP, &group(), &[("spec.multiRegion", spread)]);
    let removing = json!({"autoscaler.vpsie.com/removing": "[\"web-0001\"]"});
    takes(GROUP, &group(), &[("metadata.annotations", removing)]);
}

fn kubeadm(endpoint: &str) -> (&'static str, Value) {
    let secret = json!({"name": "t"});
    let value = json!({"kind": "kubeadm", "endpoint": endpoint, "tokenSecretRef": secret});
    ("spec.bootstrap", value)
}

fn k3s(endpoint: &str) -> (&'static str, Value) {
    let secret = json!({"name": "t"});
    ("spec.bootstrap", json!({"kind": "k3s", "endpoint": endpoint, "tokenSecretRef": secret}))
}

#[test]
fn sizes_that_cannot_be() {
    let refuses = |changes: &[(&str, Value)], field: &str, words: &str| {
        refuses(GROUP, &group(), changes, field, words);
    };
    let upside =
        [("spec.minNodes", json!(5)), ("spec.maxNodes", json!(4)), ("spec.desiredNodes", json!(0))];
    refuses(&upside, "spec.minNodes", "lower it or raise maxNodes");
    refuses(&[("spec.minNodes", json!(-1))], "spec.minNodes", "below 0");
    refuses(&[("spec.desiredNodes", json!(-1))], "spec.desiredNodes", "below 0");
    refuses(&[("spec.desiredNodes", json!(11))], "spec.desiredNodes", "maxNodes 10");
    let below = with(group(), &[("spec.minNodes", json!(3)), ("spec.desiredNodes", json!(4))]);
    super::refuses(
        GROUP,
        &below,
        &[("spec.desiredNodes", json!(2))],
        "spec.desiredNodes",
        "minNodes 3",
    );
    refuses(&[("spec.maxNodes", json!(10_000))], "spec.maxNodes", "at most 9999");
    refuses(&[("spec.maxNodes", json!(3_000_000_000_u32))], "spec.maxNodes", "cannot be read");
    refuses(&[("metadata.name", json!("x".repeat(59)))], "metadata.name", "at most 58");
    takes(GROUP, &group(), &[("metadata.name", json!("x".repeat(58)))]);
}

#[test]
fn bounds_may_move_past_the_size_which_moves_along() {
    let larger = with(group(), &[("spec.desiredNodes", json!(8))]);
    let lower = with(larger.clone(), &[("spec.maxNodes", json!(5))]);
    let said = update(GROUP, &larger, &lower).unwrap();
    assert!(said[0].contains("will have 5 nodes"), "{said:?}");
    // What the controller then writes is taken, and so is what it would never write.
    let moved = with(lower.clone(), &[("spec.desiredNodes", json!(5))]);
    assert_eq!(update(GROUP, &lower, &moved), Ok(Warnings::new()));
    let worse = with(lower.clone(), &[("spec.desiredNodes", json!(7))]);
    assert_eq!(fields(&update(GROUP, &lower, &worse)), ["spec.desiredNodes"]);
}

#[test]
fn labels_and_taints_that_no_node_can_have() {
    let label = |key: &str, value: &str, words: &str| {
        let field = format!("spec.labels[{key}]");
        refuses(GROUP, &group(), &[("spec.labels", json!({key: value}))], &field, words);
    };
    label("a b", "x", "the key");
    label("-", "x", "the key");
    label("pool", "not a value", "the value");
    label("kubernetes.io/hostname", "x", "keeps for itself");
    label("k8s.io/x", "x", "keeps for itself");
    label("autoscaler.vpsie.com/nodegroup", "x", "itself");
    let taints = |taints: Value, field: &str, words: &str| {
        refuses(GROUP, &group(), &[("spec.taints", taints)], field, words);
    };
    let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
    taints(json!([taint("k", "", "Never")]), "spec.taints[0].effect", "NoSchedule");
    taints(json!([taint("", "", "NoSchedule")]), "spec.taints[0].key", "letters");
    taints(json!([taint("k", "a/b", "NoSchedule")]), "spec.taints[0].value", "letters");
    let twice = json!([taint("k", "a", "NoSchedule"), taint("k", "b", "NoSchedule")]);
    taints(twice, "spec.taints[1]", "second");
    takes(
        GROUP,
        &group(),
        &[("spec.taints", json!([taint("k", "", "NoSchedule"), taint("k", "", "NoExecute")]))],
    );
    // A kubelet that is told of such a label does not start.
    let joining = with(group(), &[k3s("10.0.0.1:6443")]);
    let changes = [("spec.labels", json!({"node-role.kubernetes.io/worker": ""}))];
    let field = "spec.labels[node-role.kubernetes.io/worker]";
    refuses(GROUP, &joining, &changes, field, "does not start");
}

#[test]
fn policies_that_cannot_be_carried_out() {
    let refuses = |path: &str, value: Value, field: &str, words: &str| {
        refuses(GROUP, &group(), &[(path, value)], field, words);
    };
    let up = |what: Value| ("spec.scaleUpPolicy", what);
    let (path, value) = up(json!({"cpuThreshold": 101}));
    refuses(path, value, "spec.scaleUpPolicy.cpuThreshold", "between 0 and 100");
    let (path, value) = up(json!({"stabilizationWindowSeconds": -1}));
    refuses(path, value, "spec.scaleUpPolicy.stabilizationWindowSeconds", "below 0");
    refuses(
        "spec.scaleDownPolicy",
        json!({"memoryThreshold": -5}),
        "spec.scaleDownPolicy.memoryThreshold",
        "between 0 and 100",
    );
    refuses(
        "spec.spotConfig",
        json!({"enabled": true, "interruptionGracePeriod": "two minutes"}),
        "spec.spotConfig.interruptionGracePeriod",
        "such as 90s",
    );
    refuses(
        "spec.costOptimization",
        json!({"optimizationInterval": "1 day"}),
        "spec.costOptimization.optimizationInterval",
        "such as 90s",
    );
    refuses(
        "spec.costOptimization",
        json!({"strategy": "bold"}),
        "spec.costOptimization.strategy",
        "none of",
    );
    refuses(
        "spec.costOptimization",
        json!({"minMonthlySavings": -1.0}),
        "spec.costOptimization.minMonthlySavings",
        "money",
    );
    let spread = |more: Value| {
        let mut whole = json!({"enabled": true, "datacenterIDs": ["a", "b"]});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    };
    for (more, field, words) in [
        (json!({"distributionStrategy": "fair"}), "distributionStrategy", "none of"),
        (json!({"distributionStrategy": "primary-backup"}), "primaryDatacenter", "missing"),
        (
            json!({"distributionStrategy": "primary-backup", "primaryDatacenter": "c"}),
            "primaryDatacenter",
            "not one of",
        ),
        (json!({"distributionStrategy": "weighted"}), "weightedDistribution", "weight above 0"),
        (json!({"minNodesPerRegion": -1}), "minNodesPerRegion", "below 0"),
    ] {
        refuses("spec.multiRegion", spread(more), &format!("spec.multiRegion.{field}"), words);
    }
}

#[test]
fn parts_that_need_or_exclude_each_other() {
    refuses(GROUP, &group(), &[("spec.imageRef", Value::Null)], "spec.imageRef", "missing");
    let managed = vpsie();
    let boot = ("spec.bootstrap", json!({"kind": "custom", "extra": "#cloud-config\n"}));
    refuses(GROUP, &managed, &[boot], "spec.bootstrap", "installs its own nodes");
    let image = ("spec.imageRef", json!({"name": "debian"}));
    refuses(
        GROUP,
        &managed,
        std::slice::from_ref(&image),
        "spec.imageRef",
        "chooses its own image",
    );
    let class = ("spec.classRef", json!({"name": "small"}));
    refuses(GROUP, &managed, &[class, image], "spec.classRef", "needs providerRef");
    refuses(GROUP, &managed, &[("spec.project", json!(" "))], "spec.project", "empty");
    refuses(
        GROUP,
        &managed,
        &[("spec.preferredInstanceType", json!("x"))],
        "spec.preferredInstanceType",
        "add it",
    );
    let sizes = |ids: Value| [("spec.offeringIDs", ids)];
    refuses(GROUP, &managed, &sizes(json!(["large", ""])), "spec.offeringIDs", "without a name");
    refuses(GROUP, &managed, &sizes(json!(["large", "large"])), "spec.offeringIDs", "twice");
    for endpoint in ["api", "api:0", ":6443", "api:https", "a/b:6443"] {
        refuses(GROUP, &group(), &[kubeadm(endpoint)], "spec.bootstrap.endpoint", "10.0.0.10:6443");
    }
    refuses(GROUP, &group(), &[k3s("https://")], "spec.bootstrap.endpoint", "10.0.0.10:6443");
    let list = json!({"autoscaler.vpsie.com/removing": "web-0001"});
    let field = "metadata.annotations[autoscaler.vpsie.com/removing]";
    refuses(GROUP, &group(), &[("metadata.annotations", list)], field, "JSON array");
}

#[test]
fn a_group_with_nodes_stays_in_its_cluster() {
    let with_nodes = |object: Value, nodes: i64| {
        with(
            object,
            &[("status", json!({"currentNodes": nodes, "desiredNodes": 2, "readyNodes": 0}))],
        )
    };
    let other = [("spec.resourceIdentifier", json!("c-2"))];
    for (nodes, expected) in [(0, &[][..]), (2, &["spec.resourceIdentifier"][..])] {
        let old = with_nodes(vpsie(), nodes);
        assert_eq!(fields(&update(GROUP, &old, &with(old.clone(), &other))), expected);
    }
    let old = with_nodes(group(), 2);
    let new = with(old.clone(), &[("spec.clusterRef", json!({"name": "shop"}))]);
    assert_eq!(fields(&update(GROUP, &old, &new)), ["spec.clusterRef"]);
    let new = with(old.clone(), &[("spec.classRef", json!({"name": "large"}))]);
    let said = update(GROUP, &old, &new).unwrap();
    assert!(said[0].contains("new ones follow spec.classRef"), "{said:?}");
}

#[test]
fn a_person_is_told_what_will_not_happen() {
    let label = "metadata.labels";
    let alone = with(group(), &[(label, json!({}))]);
    let said = create(GROUP, &alone).unwrap();
    assert!(said[0].contains("autoscaler.vpsie.com/managed=true"), "{said:?}");
    assert_eq!(update(GROUP, &group(), &alone).unwrap().len(), 1);
    assert_eq!(update(GROUP, &alone, &alone), Ok(Warnings::new()), "it is said once");
    let hours = json!({"autoscaler.vpsie.com/scale-down-allowed-hours": "22:00-06:00"});
    let said = create(GROUP, &with(group(), &[("metadata.annotations", hours)])).unwrap();
    assert!(said[0].contains("Nodes only"), "{said:?}");
}

#[test]
fn only_what_changed_is_refused() {
    let bad = with(
        group(),
        &[
            ("spec.minNodes", json!(50)),
            ("spec.labels", json!({"a b": "c"})),
            ("spec.desiredNodes", json!(99)),
        ],
    );
    assert_eq!(fields(&create(GROUP, &bad)).len(), 3);
    let one = with(bad.clone(), &[("spec.taints", json!([]))]);
    assert_eq!(update(GROUP, &bad, &one).map(drop), Ok(()));
    let mended = with(bad.clone(), &[("spec.labels", json!({"a": "c"}))]);
    assert_eq!(update(GROUP, &bad, &mended).map(drop), Ok(()));
    // Both ends of a pair count.
    let raised = with(bad.clone(), &[("spec.maxNodes", json!(20))]);
    assert_eq!(fields(&update(GROUP, &bad, &raised)), ["spec.minNodes"]);
    // What no controller could read stays writable, so that it can be repaired or let go.
    let unread = with(group(), &[("spec.maxNodes", json!("many"))]);
    assert_eq!(fields(&create(GROUP, &unread)), ["spec.maxNodes"]);
    let touched = with(unread.clone(), &[("metadata.finalizers", json!([]))]);
    assert_eq!(update(GROUP, &unread, &touched), Ok(Warnings::new()));
    assert_eq!(update(GROUP, &unread, &group()), Ok(Warnings::new()));
}

#[test]
fn controllers_are_told_the_same_of_groups_that_came_in_otherwise() {
    let parse = |object: Value| serde_json::from_value(object).unwrap();
    assert_eq!(impossible(&parse(group())), []);
    let upside = with(group(), &[("spec.minNodes", json!(50))]);
    let said: Vec<String> = impossible(&parse(upside)).iter().map(ToString::to_string).collect();
    assert_eq!(said, ["spec.minNodes: 50 is above maxNodes 10: lower it or raise maxNodes"]);
    // What they can do nevertheless is no trouble.
    let odd = with(
        group(),
        &[("spec.desiredNodes", json!(50)), ("spec.labels", json!({"k8s.io/x": ""}))],
    );
    assert_eq!(impossible(&parse(odd)), []);
}
