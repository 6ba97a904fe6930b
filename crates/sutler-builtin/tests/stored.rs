//! New objects, compared with what a real server stored for the same manifests
//! (`tests/fixtures/stored`, written by `tools/record.py`).

use std::fs;

use serde_json::Value;
use sutler_builtin::{decode, needs_cluster_ip};

use crate::pipeline::{create, folder, kind_of, manifests, read, show, update};

#[test]
fn new_objects_are_stored_as_the_real_server_stores_them() {
    let mut failures = Vec::new();
    for (name, manifest) in manifests() {
        let path = folder("fixtures/stored").join(format!("{name}.json"));
        let expected: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let kind = kind_of(&manifest);
        let (object, errors) = create(kind, read(manifest).unwrap());
        assert_eq!(errors, [], "{name}");
        let mut object = show(kind, object);
        // What this crate hands out is in written form already.
        assert_eq!(decode(kind, object.clone()).unwrap(), object, "{name}");
        generalize(&mut object);
        if object != expected {
            let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
            failures.push(format!("{name}\n{}", difference(&text(&expected), &text(&object))));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn changes_are_stored_as_the_real_server_stores_them() {
    let text = fs::read_to_string(folder("fixtures/updated.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let bases = manifests();
    let mut failures = Vec::new();
    for case in &cases {
        let (_, base) = bases.iter().find(|(name, _)| *name == case["base"]).unwrap();
        let kind = kind_of(base);
        let (old, _) = create(kind, read(base.clone()).unwrap());
        let (new, errors) =
            update(kind, &old, &case["update"], case["subresource"].as_str()).unwrap();
        if !errors.is_empty() {
            failures.push(format!("{} {}\n{errors:?}", case["base"], case["update"]));
            continue;
        }
        let mut new = show(kind, new);
        assert_eq!(decode(kind, new.clone()).unwrap(), new, "{case}");
        generalize(&mut new);
        if new != case["result"] {
            let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
            let lines = difference(&text(&case["result"]), &text(&new));
            failures.push(format!("{} {}\n{lines}", case["base"], case["update"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn addresses_are_wanted_for_all_but_headless_and_external_services() {
    for (name, expected) in [
        ("service", true),
        ("service-balancer", true),
        ("service-headless", false),
        ("service-external", false),
    ] {
        let (_, manifest) = manifests().into_iter().find(|(found, _)| found == name).unwrap();
        assert_eq!(needs_cluster_ip(&read(manifest).unwrap()), expected, "{name}");
    }
}

/// Removes what differs from run to run, as the recorder does.
fn generalize(object: &mut Value) {
    let is = |object: &Value, kind: &str| object["kind"] == kind;
    let meta = object["metadata"].as_object_mut().unwrap();
    for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        meta.remove(key);
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("lastPhaseTransitionTime");
    }
    if is(object, "Pod")
        && let Some(conditions) = object["status"].get_mut("conditions")
    {
        for condition in conditions.as_array_mut().unwrap() {
            condition.as_object_mut().unwrap().remove("lastTransitionTime");
        }
    }
    if is(object, "Service") {
        for port in
            object["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten()
        {
            port.as_object_mut().unwrap().remove("nodePort");
        }
        let spec = object["spec"].as_object_mut().unwrap();
        if spec.get("clusterIP").is_some_and(|ip| ip != "None") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
    }
}

/// The lines that only one side has.
fn difference(expected: &str, found: &str) -> String {
    let has = |text: &str, line: &str| text.lines().any(|other| other == line);
    let minus = expected.lines().filter(|line| !has(found, line)).map(|line| format!("-{line}"));
    let plus = found.lines().filter(|line| !has(expected, line)).map(|line| format!("+{line}"));
    minus.chain(plus).collect::<Vec<_>>().join("\n")
}
