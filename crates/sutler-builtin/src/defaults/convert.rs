//! What changes when an object is read into the form that the reference implementation works on:
//! fields that exist twice are made equal, and old ways to write something give way to new ones.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    Kind,
    json::{ensure_object, int, items, object_mut, remove, set, text},
};

/// Annotations of init containers from before there was a field for them.
const OLD_INIT_CONTAINERS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

pub(super) fn settle(kind: &Kind, object: &mut Value) {
    match (kind.group, kind.kind) {
        ("", "Secret") => string_data(object),
        ("", "Pod") => {
            pod(object);
            if let Some(status) = object_mut(object, "status") {
                let read = |row: &Value| text(row, "ip").to_owned();
                first_of(status, "podIP", "podIPs", |ip| json!({"ip": ip}), read);
            }
        }
        ("", "Node") => {
            if let Some(spec) = object_mut(object, "spec") {
                let read = |row: &Value| row.as_str().unwrap_or_default().to_owned();
                first_of(spec, "podCIDR", "podCIDRs", |cidr| json!(cidr), read);
            }
        }
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
            if let Some(template) = object.pointer_mut("/spec/template") {
                pod_template(template);
            }
        }
        _ => {}
    }
}

fn pod(object: &mut Value) {
    drop_old_annotations(object);
    let Some(spec) = object_mut(object, "spec") else { return };
    accounts(spec);
    if int(spec, "terminationGracePeriodSeconds") < 0 {
        set(spec, "terminationGracePeriodSeconds", 1);
    }
}

fn pod_template(template: &mut Value) {
    drop_old_annotations(template);
    if let Some(spec) = object_mut(template, "spec") {
        accounts(spec);
    }
}

fn accounts(spec: &mut Value) {
    let mut name = text(spec, "serviceAccountName").to_owned();
    if name.is_empty() {
        name = text(spec, "serviceAccount").to_owned();
    }
    if !name.is_empty() {
        set(spec, "serviceAccountName", name.clone());
        set(spec, "serviceAccount", name);
    }
}

fn drop_old_annotations(object: &mut Value) {
    let Some(annotations) = object.pointer_mut("/metadata/annotations") else { return };
    for name in OLD_INIT_CONTAINERS {
        remove(annotations, name);
    }
    if annotations.as_object().is_some_and(serde_json::Map::is_empty) {
        remove(&mut object["metadata"], "annotations");
    }
}

fn string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = remove(object, "stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let Some(data) = ensure_object(object, "data") else { return };
    for (key, value) in texts {
        set(data, &key, STANDARD.encode(value.as_str().unwrap_or_default()));
    }
}

/// Makes a single field and the first item of its list agree; the single one wins.
fn first_of(
    value: &mut Value,
    single: &str,
    list: &str,
    row: impl Fn(&str) -> Value,
    read: impl Fn(&Value) -> String,
) {
    let given = text(value, single).to_owned();
    let first = items(value, list).first().map(read);
    match first {
        Some(first) if given.is_empty() => set(value, single, first),
        Some(first) if first == given => {}
        _ if given.is_empty() => {}
        _ => {
            let rows = json!([row(&given)]);
            set(value, list, rows);
        }
    }
}
