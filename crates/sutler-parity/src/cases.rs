//! The cases, one module per subject, and the objects that they play with.

use serde_json::{Value, json};

use crate::case::Case;
use crate::suite::Subject;

mod access;
mod apply;
mod builtin;
mod collect;
mod create;
mod delete;
mod discovery;
mod list;
mod media;
mod patch;
mod pod;
mod read;
mod schema;
mod subresource;
mod table;
mod update;
mod watch;
mod workload;

/// Every subject of the suite.
pub const SUBJECTS: &[Subject] = &[
    read::SUBJECT,
    list::SUBJECT,
    watch::SUBJECT,
    create::SUBJECT,
    update::SUBJECT,
    patch::SUBJECT,
    apply::SUBJECT,
    delete::SUBJECT,
    subresource::SUBJECT,
    collect::SUBJECT,
    table::SUBJECT,
    discovery::SUBJECT,
    schema::SUBJECT,
    media::SUBJECT,
    access::SUBJECT,
    builtin::SUBJECT,
    pod::SUBJECT,
    workload::SUBJECT,
];

/// A ConfigMap.
fn cm(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// A ConfigMap with labels.
fn labelled(name: &str, labels: Value) -> Value {
    with(cm(name), "metadata.labels", labels)
}

/// A Toy.
fn toy(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "parity.sutler.dev/v1", "kind": "Toy",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// An object with one more field; the path is dotted, and what is missing on the way is made.
fn with(mut object: Value, path: &str, value: impl Into<Value>) -> Value {
    let mut at = &mut object;
    for key in path.split('.') {
        at = match key.parse::<usize>() {
            Ok(index) if at.is_array() => &mut at[index],
            _ => &mut at[key],
        };
    }
    *at = value.into();
    object
}

/// An object without a field.
fn without(mut object: Value, path: &str) -> Value {
    let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut at = &mut object;
    for key in parent.split('.').filter(|key| !key.is_empty()) {
        at = &mut at[key];
    }
    if let Some(map) = at.as_object_mut() {
        map.remove(key);
    }
    object
}

/// Makes ConfigMaps of these names.
fn make(c: &Case, names: &[&str]) {
    for name in names {
        c.post("cm", &cm(name)).is(201);
    }
}

/// A Pod with one container.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

/// A Deployment with one container.
fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}
