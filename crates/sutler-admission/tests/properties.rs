//! What holds for whatever is written: nobody who does their work is refused, and nothing that was
//! there before is held against anybody.

use proptest::prelude::*;
use serde_json::{Value, json};
use sutler_admission::{Kind, Operation, Who, check, impossible};
use sutler_api::autoscaler::{
    NodeGroup,
    removal::{self, REMOVING},
};
use sutler_scale::world::{Group, GroupFacts, Size};

const JANE: Who<'static> = Who { user: "jane", sutler: false };

const KINDS: [Kind; 4] = [Kind::NodeGroup, Kind::VpsieNode, Kind::AutoscalerConfig, Kind::Node];

fn key() -> impl Strategy<Value = String> {
    "([a-z]{1,5}\\.example\\.com/)?[a-zA-Z]([-_.a-z0-9]{0,6}[a-z0-9])?"
}

fn taint() -> impl Strategy<Value = Value> {
    let effect = prop::sample::select(vec!["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    (key(), "[a-z0-9]{0,4}", effect)
        .prop_map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}))
}

fn taints() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(taint(), 0..4).prop_map(|mut all| {
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|taint| seen.insert((taint["key"].to_string(), taint["effect"].to_string())));
        all
    })
}

/// What groups on machines and groups on managed Kubernetes are made of.
fn made_of() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"datacenterID": "dc", "resourceIdentifier": "c", "project": "p",
            "offeringIDs": ["s", "l"], "kubernetesVersion": "v1.34.1"})),
        Just(json!({"providerRef": {"name": "p"}, "resourceIdentifier": "c"})),
        Just(json!({"providerRef": {"name": "p"}, "classRef": {"name": "s"},
            "imageRef": {"name": "i"}})),
        Just(json!({"providerRef": {"name": "p"}, "classRef": {"name": "s"},
            "imageRef": {"name": "i"}, "bootstrap": {"kind": "k3s", "endpoint": "10.0.0.1:6443",
                "tokenSecretRef": {"name": "t"}}})),
    ]
}

/// Policies within their ranges.
fn policies() -> impl Strategy<Value = Value> {
    let share = 0..=100i32;
    let strategy = prop::sample::select(vec!["auto", "manual", "aggressive", "conservative"]);
    (share.clone(), share, 0..5000i32, strategy, any::<[bool; 3]>(), 1..500u32).prop_map(
        |(cpu, memory, window, strategy, on, minutes)| {
            json!({
                "scaleUpPolicy": {"enabled": on[0], "cpuThreshold": cpu, "memoryThreshold": memory,
                    "stabilizationWindowSeconds": window},
                "scaleDownPolicy": {"enabled": on[1], "cpuThreshold": memory,
                    "memoryThreshold": cpu, "cooldownSeconds": window},
                "spotConfig": {"enabled": on[2], "interruptionGracePeriod": format!("{minutes}m"),
                    "maxSpotPercentage": cpu},
                "costOptimization": {"enabled": on[0], "strategy": strategy,
                    "optimizationInterval": format!("{minutes}h"), "maxPerformanceImpact": memory},
                "multiRegion": {"enabled": on[1], "datacenterIDs": ["a", "b"],
                    "distributionStrategy": "primary-backup", "primaryDatacenter": "b"},
            })
        },
    )
}

/// A group that the controllers can carry out, and its size within its bounds.
fn group() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map(key(), "[a-zA-Z0-9]{0,5}", 0..4);
    let sizes = (0..50i32, 0..50i32, 0..=100i32);
    (made_of(), policies(), labels, taints(), sizes, "[a-z]([-a-z0-9]{0,20}[a-z0-9])?").prop_map(
        |(made_of, policies, labels, taints, (least, more, share), name)| {
            let most = (least + more).max(1);
            let desired = least + (most - least) * share / 100;
            let mut spec = json!({"minNodes": least, "maxNodes": most, "desiredNodes": desired,
                "labels": labels, "taints": taints});
            for part in [made_of, policies] {
                for (field, value) in part.as_object().into_iter().flatten() {
                    spec[field] = value.clone();
                }
            }
            json!({
                "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
                "metadata": {"name": name, "namespace": "ns",
                    "labels": {"autoscaler.vpsie.com/managed": "true"}},
                "spec": spec,
            })
        },
    )
}

/// Anything that JSON can say, in the shape of an object.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,6}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "minNodes",
        "maxNodes",
        "desiredNodes",
        "labels",
        "taints",
        "offeringIDs",
        "bootstrap",
        "nodeGroupName",
        "vpsieInstanceID",
        "ipAddress",
        "globalSettings",
        "nodeGroupDefaults",
        "multiRegion",
        "spotConfig",
        "kubernetesVersion",
    ]);
    let value = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    });
    let field = |map: std::collections::BTreeMap<&str, Value>| -> Value {
        map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    };
    let spec = prop::collection::btree_map(names, value.clone(), 0..8).prop_map(field);
    let notes =
        prop::sample::select(vec![REMOVING, "autoscaler.vpsie.com/scale-down-allowed-hours"]);
    let notes = prop::collection::btree_map(notes, value, 0..2).prop_map(field);
    (spec, notes).prop_map(
        |(spec, notes)| json!({"metadata": {"name": "x", "annotations": notes}, "spec": spec}),
    )
}

fn taken(old: Option<&Value>, new: &Value) -> Result<(), TestCaseError> {
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let said = check(operation, Kind::NodeGroup, old, Some(new), &JANE);
    prop_assert!(said.is_ok(), "{:?}\n{:#}", said, new);
    Ok(())
}

#[test]
fn manifests_as_people_have_them_are_taken() {
    let mut seen = 0;
    for manifest in sutler_api::corpus::valid() {
        let kind = match manifest.object["kind"].as_str() {
            Some("NodeGroup") => Kind::NodeGroup,
            Some("VPSieNode") => Kind::VpsieNode,
            Some("AutoscalerConfig") => Kind::AutoscalerConfig,
            _ => continue,
        };
        // Those fill every field with any word, and show that the schema takes it.
        if manifest.name.ends_with("-full") {
            continue;
        }
        seen += 1;
        let mut object = manifest.object.clone();
        // The schema's defaults come before the checks.
        if object["spec"].is_null() {
            object["spec"] = json!({});
        }
        let said = check(Operation::Create, kind, None, Some(&object), &JANE);
        assert!(said.is_ok(), "{}: {said:?}", manifest.name);
    }
    assert!(seen > 4, "{seen}");
}

proptest! {
    #[test]
    fn what_the_controllers_can_carry_out_is_never_refused(object in group()) {
        let group: NodeGroup = serde_json::from_value(object.clone()).unwrap();
        prop_assert_eq!(impossible(&group), []);
        let size = |id: &str| Size { id: id.to_owned(), ..Size::default() };
        let facts = GroupFacts { sizes: vec![size("s"), size("l")], ..GroupFacts::default() };
        prop_assert!(Group::read(&group, facts).is_ok());
        taken(None, &object)?;
    }

    #[test]
    fn what_the_controllers_write_is_never_refused(
        object in group(),
        least in 0..50i32,
        more in 0..50i32,
        current in 0..60i32,
        names in prop::collection::btree_set("[a-z]{1,4}-000[1-9]", 0..3),
    ) {
        // Somebody moves the bounds past the size; the size follows.
        let mut moved = object.clone();
        moved["spec"]["minNodes"] = json!(least);
        moved["spec"]["maxNodes"] = json!((least + more).max(1));
        moved["status"] = json!({"currentNodes": current, "desiredNodes": current, "readyNodes": 0});
        taken(Some(&object), &moved)?;
        let mut group: NodeGroup = serde_json::from_value(moved.clone()).unwrap();
        group.spec.desired_nodes = removal::target_size(&group);
        let sized = serde_json::to_value(&group).unwrap();
        taken(Some(&moved), &sized)?;
        // Records are sent away, and the finalizer comes and goes.
        removal::set_removing(&mut group, &names);
        group.metadata.finalizers = Some(vec!["nodegroup.autoscaler.vpsie.com/finalizer".to_owned()]);
        let removing = serde_json::to_value(&group).unwrap();
        taken(Some(&sized), &removing)?;
        taken(Some(&removing), &sized)?;
    }

    #[test]
    fn what_did_not_change_is_never_refused(
        object in anything(),
        finalizers in prop::collection::vec("[a-z]{1,3}/f", 0..3),
        deleting: bool,
    ) {
        for kind in KINDS {
            let mut new = object.clone();
            new["metadata"]["finalizers"] = json!(finalizers);
            new["metadata"]["labels"] = json!({"a": "b"});
            new["status"] = json!({"phase": "Ready"});
            if deleting {
                new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            for (old, new) in [(&object, &new), (&new, &object)] {
                let said = check(Operation::Update, kind, Some(old), Some(new), &JANE);
                prop_assert!(said.is_ok(), "{:?} {:?}\n{:#}", kind, said, new);
            }
        }
    }

    #[test]
    fn a_refusal_is_about_what_changed(old in anything(), new in anything()) {
        for kind in KINDS {
            let said = check(Operation::Update, kind, Some(&old), Some(&new), &JANE);
            for refusal in said.err().unwrap_or_default() {
                prop_assert!(!refusal.message.is_empty());
                let field = refusal.field.split(['.', '[']).nth(1).unwrap_or_default();
                // A pair is refused at one of its ends, and an object that cannot be read as a whole.
                let ends = ["minNodes", "desiredNodes", "maxNodes", "preferredInstanceType"];
                let whole = refusal.message.starts_with("cannot be read");
                let top = refusal.field.split('.').next().unwrap_or_default();
                let changed = old[top][field] != new[top][field];
                prop_assert!(changed || whole || ends.contains(&field)
                    || ["classRef", "imageRef", "bootstrap", "multiRegion"].contains(&field),
                    "{}", refusal);
            }
            let _ = check(Operation::Create, kind, None, Some(&new), &JANE);
            let _ = check(Operation::Delete, kind, Some(&old), None, &JANE);
        }
    }
}
