//! VPSieNodes, AutoscalerConfigs and Nodes.

use super::*;

#[test]
fn records_that_cannot_be() {
    const RECORD: Kind = Kind::VpsieNode;
    takes(RECORD, &record(), &[]);
    let known = [("spec.vpsieInstanceID", json!(77)), ("spec.ipAddress", json!("10.0.0.7"))];
    takes(RECORD, &record(), &known);
    takes(
        RECORD,
        &record(),
        &[("spec.ipv6Address", json!("fd00::7")), ("spec.ipAddress", json!(""))],
    );
    takes(RECORD, &record(), &[("spec.providerRef", json!({"name": "sim"}))]);
    let refuses = |path: &str, value: Value, words: &str| {
        refuses(RECORD, &record(), &[(path, value)], path, words);
    };
    refuses("spec.vpsieInstanceID", json!(-1), "below 0");
    refuses("spec.vpsieGroupID", json!(-1), "below 0");
    refuses("spec.ipAddress", json!("10.0.0"), "IPv4");
    refuses("spec.ipv6Address", json!("10.0.0.1"), "IPv6");
    let nameless = create(RECORD, &with(record(), &[("spec.nodeGroupName", json!(""))]));
    assert_eq!(fields(&nameless), ["spec.nodeGroupName"]);
}

#[test]
fn records_keep_their_group_and_their_machine() {
    const RECORD: Kind = Kind::VpsieNode;
    let changed = |old: &Value, path: &str, value: Value| {
        let new = with(old.clone(), &[(path, value)]);
        fields(&update(RECORD, old, &new)).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let fresh = record();
    assert_eq!(changed(&fresh, "spec.nodeGroupName", json!("db")), ["spec.nodeGroupName"]);
    assert_eq!(
        changed(&fresh, "spec.datacenterID", json!("dc-2")),
        [""; 0],
        "nothing was asked for"
    );
    let asked = json!({"autoscaler.vpsie.com/creation-requested": "true"});
    let asked = with(record(), &[("metadata.annotations", asked)]);
    for (field, value) in [
        ("providerRef", json!({"name": "x"})),
        ("classRef", json!({"name": "x"})),
        ("imageRef", json!({"name": "x"})),
        ("instanceType", json!("x")),
        ("datacenterID", json!("x")),
        ("resourceIdentifier", json!("x")),
        ("project", json!("x")),
        ("osImageID", json!("x")),
        ("kubernetesVersion", json!("v1.35.0")),
        ("sshKeyIDs", json!(["x"])),
    ] {
        let path = format!("spec.{field}");
        assert_eq!(changed(&asked, &path, value.clone()), [path.as_str()]);
        let new = with(asked.clone(), &[(path.as_str(), value)]);
        let own = check(Operation::Update, RECORD, Some(&asked), Some(&new), &SUTLER);
        assert_eq!(own, Ok(Warnings::new()), "Sutler is never in its own way");
    }
    // What is found out later may be written down.
    for (path, value) in [
        ("spec.vpsieInstanceID", json!(77)),
        ("spec.vpsieGroupID", json!(7)),
        ("spec.vpsieNodeIdentifier", json!("u")),
        ("spec.ipAddress", json!("10.0.0.7")),
        ("spec.nodeName", json!("n")),
    ] {
        assert_eq!(changed(&asked, path, value), [""; 0]);
    }
    let known = with(asked, &[("spec.vpsieInstanceID", json!(77))]);
    assert_eq!(changed(&known, "spec.vpsieInstanceID", json!(78)), ["spec.vpsieInstanceID"]);
}

#[test]
fn settings_that_cannot_be() {
    const CONFIG: Kind = Kind::AutoscalerConfig;
    takes(CONFIG, &config(), &[]);
    takes(CONFIG, &config(), &[("spec", json!({}))]);
    let global = |name: &str, value: i64, words: &str| {
        let changes = [("spec.globalSettings", json!({name: value}))];
        refuses(CONFIG, &config(), &changes, &format!("spec.globalSettings.{name}"), words);
    };
    global("maxClusterWorkers", -1, "below 0");
    global("maxConcurrentScaleUps", 0, "below 1");
    global("maxConcurrentScaleDowns", 0, "below 1");
    global("nodeReadyTimeoutSeconds", 59, "below 60");
    global("podEvictionTimeoutSeconds", -1, "below 0");
    let default = |name: &str, value: Value, field: &str, words: &str| {
        let path = format!("spec.nodeGroupDefaults.{name}");
        let field = format!("spec.nodeGroupDefaults.{field}");
        refuses(CONFIG, &config(), &[(path.as_str(), value)], &field, words);
    };
    default("minNodes", json!(6), "minNodes", "raise maxNodes");
    default("minNodes", json!(-1), "minNodes", "below 0");
    default("kubernetesVersion", json!("1.34"), "kubernetesVersion", "v1.34.1");
    default("namespace", json!("Not One"), "namespace", "namespace");
    default("kubeSizeID", json!(0), "kubeSizeID", "below 1");
    default("offeringIDs", json!(["a", "a"]), "offeringIDs", "twice");
    default("labels", json!({"a b": "x"}), "labels[a b]", "the key");
    default("labels", json!({"k8s.io/x": "x"}), "labels[k8s.io/x]", "itself");
    default("taints", json!([{"key": "k", "effect": "no"}]), "taints[0].effect", "none of");
    default("scaleUpPolicy", json!({"cpuThreshold": 200}), "scaleUpPolicy.cpuThreshold", "100");
    let spot = json!({"enabled": true, "interruptionGracePeriod": "soon"});
    default("spotConfig", spot, "spotConfig.interruptionGracePeriod", "duration");
    let other = with(config(), &[("metadata.name", json!("mine"))]);
    assert!(create(CONFIG, &other).unwrap()[0].contains("default"));
}

#[test]
fn a_node_with_a_record_goes_by_its_record() {
    let delete =
        |node: &Value, who: &Who<'_>| check(Operation::Delete, Kind::Node, Some(node), None, who);
    let by = |user: &'static str| Who { user, sutler: false };
    for user in ["jane", "kubernetes-admin", "system:admin", "sutler-admin", ""] {
        let refused = delete(&node(), &by(user)).unwrap_err();
        let message = &refused[0].message;
        for words in ["kubectl delete vpsienode web-0001 -n ns", "smaller", "allow-deletion=true"] {
            assert!(message.contains(words), "{user}: {message}");
        }
    }
    for user in [
        "system:kube-controller-manager",
        "system:cloud-controller-manager",
        "system:serviceaccount:kube-system:node-controller",
        "system:serviceaccount:cloud:manager",
        "system:node:n",
    ] {
        assert_eq!(delete(&node(), &by(user)), Ok(Warnings::new()), "{user}");
    }
    assert_eq!(delete(&node(), &SUTLER), Ok(Warnings::new()));
    let allowed = json!({"autoscaler.vpsie.com/allow-deletion": "true"});
    assert_eq!(
        delete(&with(node(), &[("metadata.annotations", allowed)]), &JANE),
        Ok(Warnings::new())
    );
    let going = with(node(), &[("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z"))]);
    assert_eq!(delete(&going, &JANE), Ok(Warnings::new()));
    let other =
        with(node(), &[("metadata.labels", json!({"autoscaler.vpsie.com/managed": "true"}))]);
    assert_eq!(delete(&other, &JANE), Ok(Warnings::new()), "nobody stands behind it");
}

#[test]
fn hours_of_a_node_are_read_when_they_are_written() {
    let hours = |text: &str| {
        let notes = json!({"autoscaler.vpsie.com/scale-down-allowed-hours": text});
        with(node(), &[("metadata.annotations", notes)])
    };
    for text in ["22:00-06:00", "00:00-24:00", " 08:30 - 17:00 "] {
        assert_eq!(update(Kind::Node, &node(), &hours(text)), Ok(Warnings::new()), "{text}");
    }
    for text in ["", "22-6", "25:00-01:00", "22:00-22:00", "Mon 22:00-06:00", "22:00-06:00 CET"] {
        let refused = update(Kind::Node, &node(), &hours(text)).unwrap_err();
        assert!(refused[0].field.contains("scale-down-allowed-hours"), "{refused:?}");
        assert!(refused[0].message.contains("HH:MM-HH:MM"), "{refused:?}");
        assert_eq!(update(Kind::Node, &hours(text), &hours(text)), Ok(Warnings::new()));
    }
    assert_eq!(create(Kind::Node, &hours("x")), Ok(Warnings::new()), "a kubelet is not held up");
}

#[test]
fn other_deletions_are_nobodys_business() {
    for (kind, object) in [
        (Kind::NodeGroup, group()),
        (Kind::VpsieNode, record()),
        (Kind::AutoscalerConfig, config()),
    ] {
        let said = check(Operation::Delete, kind, Some(&object), None, &JANE);
        assert_eq!(said, Ok(Warnings::new()));
    }
}
