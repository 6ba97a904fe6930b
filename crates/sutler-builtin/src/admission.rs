//! What the admission plugins that are on by default add to new objects. The server runs it after
//! the defaults and before [`crate::prepare_for_create`].

use serde_json::{Value, json};

use crate::{
    Kind,
    json::{copy, default, ensure_object, get, has, items, object_mut, text, texts},
};

/// Taints that every pod tolerates for five minutes, unless it says otherwise.
const TOLERATED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds to a new object what the reference implementation's default plugins add: tolerations and
/// a priority to pods, finalizers to volumes and claims, a taint to nodes that nobody has seen yet.
pub fn admit_create(kind: &Kind, object: &mut Value) {
    match (kind.group, kind.kind) {
        ("", "Pod") => {
            if let Some(spec) = object_mut(object, "spec") {
                default(spec, "priority", 0);
                default(spec, "preemptionPolicy", "PreemptLowerPriority");
                TOLERATED.iter().for_each(|key| tolerate(spec, key));
            }
        }
        ("", "PersistentVolume") => protect(object, "kubernetes.io/pv-protection"),
        ("", "PersistentVolumeClaim") => protect(object, "kubernetes.io/pvc-protection"),
        ("", "Node") => {
            if let Some(spec) = ensure_object(object, "spec") {
                let taint = json!({"key": TOLERATED[0], "effect": "NoSchedule"});
                let same = |row: &Value| {
                    text(row, "key") == TOLERATED[0] && text(row, "effect") == "NoSchedule"
                };
                if !items(spec, "taints").iter().any(same) {
                    push(spec, "taints", taint);
                }
            }
        }
        _ => {}
    }
}

/// What the same plugins do to a changed pod: tolerations come back, the priority stays.
pub fn admit_update(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.is("", "Pod")
        && let Some(spec) = object_mut(new, "spec")
    {
        for key in ["priority", "preemptionPolicy"] {
            if !has(spec, key) {
                copy(spec, get(old, "spec"), key);
            }
        }
        TOLERATED.iter().for_each(|key| tolerate(spec, key));
    }
}

fn tolerate(spec: &mut Value, key: &str) {
    let covers = |row: &Value| {
        (text(row, "key") == key || text(row, "key").is_empty())
            && matches!(text(row, "effect"), "NoExecute" | "")
    };
    if !items(spec, "tolerations").iter().any(covers) {
        let row = json!({"key": key, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300});
        push(spec, "tolerations", row);
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    if let Some(meta) = ensure_object(object, "metadata")
        && !texts(meta, "finalizers").any(|name| name == finalizer)
    {
        push(meta, "finalizers", finalizer.into());
    }
}

fn push(value: &mut Value, key: &str, item: Value) {
    default(value, key, json!([]));
    if let Some(list) = value.get_mut(key).and_then(Value::as_array_mut) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn a_pod_that_tolerates_everything_gets_no_more() {
        let kind = lookup("", "v1", "Pod").unwrap();
        let mut pod = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        admit_create(kind, &mut pod);
        assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(pod["spec"]["priority"], 0);
    }
}
