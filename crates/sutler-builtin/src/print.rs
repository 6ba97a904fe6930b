//! Objects as rows of a table, which is what `kubectl get` shows.

mod age;
mod column;
mod pod;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sutler_schema::selector::LabelSelector;

use crate::{
    Kind,
    json::{at, entries, flag, get, has, int, items, text, texts},
};
use age::{age, since};

pub use column::{Column, columns};

/// The cells of an object's row, one for each of [`columns`]. `object` is in its stored form.
pub fn cells(kind: &Kind, object: &Value, now: DateTime<Utc>) -> Vec<Value> {
    let meta = get(object, "metadata");
    let name = || Value::from(text(meta, "name"));
    let age = || Value::from(age(meta, now));
    let (spec, status) = (get(object, "spec"), get(object, "status"));
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::cells(object, now),
        ("", "Service") => vec![
            name(),
            text(spec, "type").into(),
            texts(spec, "clusterIPs").next().unwrap_or("<none>").into(),
            external_ip(spec, status).into(),
            ports(spec).into(),
            age(),
            labels(get(spec, "selector")).into(),
        ],
        ("" | "events.k8s.io", "Event") => event(object, now),
        ("", "Namespace") => vec![name(), text(status, "phase").into(), age()],
        ("", "Secret") => {
            vec![name(), text(object, "type").into(), count(object, "data").into(), age()]
        }
        ("", "ConfigMap") => {
            vec![name(), (count(object, "data") + count(object, "binaryData")).into(), age()]
        }
        ("", "ServiceAccount") => vec![name(), age()],
        ("", "PersistentVolume") => persistent_volume(object, name(), age()),
        ("", "PersistentVolumeClaim") => claim(object, name(), age()),
        ("", "Node") => node(object, name(), age()),
        ("apps", "Deployment") => {
            let ready = format!("{}/{}", int(status, "readyReplicas"), int(spec, "replicas"));
            let (updated, available) =
                (int(status, "updatedReplicas"), int(status, "availableReplicas"));
            let mut row = vec![name(), ready.into(), updated.into(), available.into(), age()];
            row.extend(template(spec, false));
            row
        }
        ("apps", "ReplicaSet") => {
            let (current, ready) = (int(status, "replicas"), int(status, "readyReplicas"));
            let desired = int(spec, "replicas");
            let mut row = vec![name(), desired.into(), current.into(), ready.into(), age()];
            row.extend(template(spec, true));
            row
        }
        ("apps", "DaemonSet") => {
            let keys = [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ];
            let mut row = vec![name()];
            row.extend(keys.iter().map(|key| Value::from(int(status, key))));
            row.push(labels(at(spec, &["template", "spec", "nodeSelector"])).into());
            row.push(age());
            row.extend(template(spec, true));
            row
        }
        ("policy", "PodDisruptionBudget") => vec![
            name(),
            number_or_text(get(spec, "minAvailable")).into(),
            number_or_text(get(spec, "maxUnavailable")).into(),
            int(status, "disruptionsAllowed").into(),
            age(),
        ],
        ("storage.k8s.io", "StorageClass") => storage_class(object, age()),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            let role = get(object, "roleRef");
            let role = format!("{}/{}", text(role, "kind"), text(role, "name"));
            let mut row = vec![name(), role.into(), age()];
            row.extend(subjects(object));
            row
        }
        ("coordination.k8s.io", "Lease") => {
            vec![name(), text(spec, "holderIdentity").into(), age()]
        }
        _ => vec![name(), get(meta, "creationTimestamp").clone()],
    }
}

/// The conditions of an object's row: pods that are done with are marked.
pub fn row_conditions(kind: &Kind, object: &Value) -> Vec<Value> {
    if !kind.is("", "Pod") {
        return Vec::new();
    }
    let (reason, message) = match text(get(object, "status"), "phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn count(object: &Value, key: &str) -> usize {
    entries(object, key).count()
}

/// `a=b,c=d`, or `<none>`.
fn labels(labels: &Value) -> String {
    let rows: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if rows.is_empty() { "<none>".into() } else { rows.join(",") }
}

fn or<'t>(text: &'t str, other: &'t str) -> &'t str {
    if text.is_empty() { other } else { text }
}

fn number_or_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "N/A".into(),
    }
}

/// Names and images of the template's containers, and the selector.
fn template(spec: &Value, named_none: bool) -> [Value; 3] {
    let containers = items(at(spec, &["template", "spec"]), "containers");
    let join = |key: &str| {
        let all: Vec<&str> = containers.iter().map(|container| text(container, key)).collect();
        all.join(",")
    };
    let selector = match LabelSelector::from_object(get(spec, "selector")) {
        Ok(selector) => selector.to_string(),
        Err(_) if named_none => "<error>".into(),
        Err(_) => "<invalid>".into(),
    };
    let selector = if named_none { or(&selector, "<none>").to_owned() } else { selector };
    [join("name").into(), join("image").into(), selector.into()]
}

fn external_ip(spec: &Value, status: &Value) -> String {
    let given: Vec<&str> = texts(spec, "externalIPs").collect();
    match text(spec, "type") {
        "ClusterIP" | "NodePort" => or(&given.join(","), "<none>").to_owned(),
        "LoadBalancer" => {
            let ingress = items(get(status, "loadBalancer"), "ingress");
            let balancers: BTreeSet<&str> = ingress
                .iter()
                .map(|row| or(text(row, "ip"), text(row, "hostname")))
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = balancers.into_iter().chain(given).collect();
            or(&all.join(","), "<pending>").to_owned()
        }
        "ExternalName" => text(spec, "externalName").to_owned(),
        _ => "<unknown>".into(),
    }
}

fn ports(spec: &Value) -> String {
    let rows: Vec<String> = items(spec, "ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (int(port, "port"), text(port, "protocol"));
            match int(port, "nodePort") {
                node @ 1.. => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    or(&rows.join(","), "<none>").to_owned()
}

fn event(event: &Value, now: DateTime<Utc>) -> Vec<Value> {
    let given = |value: &Value, key: &str| since(text(value, key), now);
    let first = match has(event, "firstTimestamp") {
        true => given(event, "firstTimestamp"),
        false => given(event, "eventTime"),
    };
    let mut last = match has(event, "lastTimestamp") {
        true => given(event, "lastTimestamp"),
        false => first.clone(),
    };
    let mut count = int(event, "count").max(1);
    if has(event, "series") {
        last = given(&event["series"], "lastObservedTime");
        count = int(&event["series"], "count");
    }
    let involved = get(event, "involvedObject");
    let mut target = text(involved, "kind").to_lowercase();
    if !text(involved, "name").is_empty() {
        target = format!("{target}/{}", text(involved, "name"));
    }
    let source = get(event, "source");
    let component = or(text(source, "component"), text(event, "reportingComponent"));
    let source = match or(text(source, "host"), text(event, "reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        last.into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        target.into(),
        text(involved, "fieldPath").into(),
        source.into(),
        text(event, "message").trim().into(),
        first.into(),
        count.into(),
        text(get(event, "metadata"), "name").into(),
    ]
}

fn access_modes(value: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given: Vec<&str> = texts(value, "accessModes").collect();
    let shown: Vec<&str> =
        short.iter().filter(|(long, _)| given.contains(long)).map(|(_, short)| *short).collect();
    shown.join(",")
}

fn class(object: &Value) -> &str {
    let old = "volume.beta.kubernetes.io/storage-class";
    match at(object, &["metadata", "annotations", old]).as_str() {
        Some(class) => class,
        None => text(get(object, "spec"), "storageClassName"),
    }
}

fn phase(object: &Value) -> &str {
    match has(get(object, "metadata"), "deletionTimestamp") {
        true => "Terminating",
        false => text(get(object, "status"), "phase"),
    }
}

fn persistent_volume(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let spec = get(object, "spec");
    let claim = get(spec, "claimRef");
    let claim = match claim {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(claim, "namespace"), text(claim, "name")),
    };
    vec![
        name,
        at(spec, &["capacity", "storage"]).as_str().unwrap_or("0").into(),
        access_modes(spec).into(),
        text(spec, "persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        class(object).into(),
        or(text(spec, "volumeAttributesClassName"), "<unset>").into(),
        text(get(object, "status"), "reason").into(),
        age,
        or(text(spec, "volumeMode"), "<unset>").into(),
    ]
}

fn claim(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (get(object, "spec"), get(object, "status"));
    let volume = text(spec, "volumeName");
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => {
            let size = at(status, &["capacity", "storage"]).as_str().unwrap_or("0");
            (size, access_modes(status))
        }
    };
    vec![
        name,
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(object).into(),
        or(text(spec, "volumeAttributesClassName"), "<unset>").into(),
        age,
        or(text(spec, "volumeMode"), "<unset>").into(),
    ]
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    const ROLE: &str = "node-role.kubernetes.io/";
    let (status, info) = (get(object, "status"), at(object, &["status", "nodeInfo"]));
    let ready = items(status, "conditions").iter().rev().find(|c| text(c, "type") == "Ready");
    let mut state = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".into(),
        None => "Unknown".into(),
    };
    if flag(get(object, "spec"), "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let roles: BTreeSet<&str> = entries(get(object, "metadata"), "labels")
        .filter_map(|(key, value)| match key.strip_prefix(ROLE) {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles: Vec<&str> = roles.into_iter().collect();
    let address = |ty: &str| {
        let found = items(status, "addresses").iter().find(|row| text(row, "type") == ty);
        found.map_or("<none>", |row| text(row, "address")).to_owned()
    };
    let mut kernel = or(text(info, "kernelVersion"), "<unknown>").to_owned();
    if !text(info, "architecture").is_empty() {
        kernel = format!("{kernel} ({})", text(info, "architecture"));
    }
    vec![
        name,
        state.into(),
        or(&roles.join(","), "<none>").into(),
        age,
        text(info, "kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        or(text(info, "osImage"), "<unknown>").into(),
        kernel.into(),
        or(text(info, "containerRuntimeVersion"), "<unknown>").into(),
    ]
}

fn storage_class(object: &Value, age: Value) -> Vec<Value> {
    let annotations = at(object, &["metadata", "annotations"]);
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let mut name = text(get(object, "metadata"), "name").to_owned();
    if marks.iter().any(|mark| text(annotations, mark) == "true") {
        name.push_str(" (default)");
    }
    vec![
        name.into(),
        text(object, "provisioner").into(),
        or(text(object, "reclaimPolicy"), "Delete").into(),
        or(text(object, "volumeBindingMode"), "Immediate").into(),
        flag(object, "allowVolumeExpansion").into(),
        age,
    ]
}

/// Users, groups and service accounts of a binding.
fn subjects(object: &Value) -> [Value; 3] {
    let of = |kind: &str| {
        let rows = items(object, "subjects").iter().filter(|row| text(row, "kind") == kind);
        let names: Vec<String> = rows
            .map(|row| match (kind, text(row, "namespace")) {
                ("ServiceAccount", namespace) if !namespace.is_empty() => {
                    format!("{namespace}/{}", text(row, "name"))
                }
                _ => text(row, "name").to_owned(),
            })
            .collect();
        Value::from(names.join(", "))
    };
    [of("User"), of("Group"), of("ServiceAccount")]
}
