//! Field selectors: which fields of a kind can be selected by, and their values.

use serde_json::Value;

use crate::{
    Kind,
    json::{at, flag, get, items, text},
};

/// The fields that a field selector may name.
pub fn selectable_fields(kind: &Kind) -> &'static [&'static str] {
    match (kind.group, kind.kind) {
        ("", "Pod") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            "metadata.namespace",
            "metadata.name",
        ],
        ("events.k8s.io", "Event") => &[
            "reason",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
            "type",
            "metadata.namespace",
            "metadata.name",
        ],
        ("", "Node") => &["metadata.name", "spec.unschedulable"],
        ("", "Namespace") => &["status.phase", "metadata.name"],
        ("", "Secret") => &["type", "metadata.namespace", "metadata.name"],
        ("", "Service") => &["metadata.namespace", "metadata.name", "spec.clusterIP", "spec.type"],
        _ => &["metadata.name", "metadata.namespace"],
    }
}

/// The refusal of a field that is not among [`selectable_fields`].
pub fn unsupported_field(kind: &Kind, path: &str) -> String {
    match selectable_fields(kind) {
        ["metadata.name", "metadata.namespace"] => format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
        _ => format!("field label not supported: {path}"),
    }
}

/// The value of a selectable field; `None` for any other. `object` is in its stored form.
pub fn field_value(kind: &Kind, object: &Value, path: &str) -> Option<String> {
    if !selectable_fields(kind).contains(&path) {
        return None;
    }
    let value = match path {
        "spec.host" => text(get(object, "spec"), "nodeName").to_owned(),
        "spec.hostNetwork" => flag(get(object, "spec"), "hostNetwork").to_string(),
        "spec.unschedulable" => flag(get(object, "spec"), "unschedulable").to_string(),
        "status.podIP" => {
            let first = items(get(object, "status"), "podIPs").first();
            first.map(|row| text(row, "ip")).unwrap_or_default().to_owned()
        }
        // Kept out of the set of fields by the reference implementation, though it takes the name.
        "status.podIPs" => String::new(),
        "source" => match text(get(object, "source"), "component") {
            "" => text(object, "reportingComponent").to_owned(),
            component => component.to_owned(),
        },
        "reportingController" => text(object, "reportingComponent").to_owned(),
        path => {
            let path = path.replacen("regarding.", "involvedObject.", 1);
            let keys: Vec<&str> = path.split('.').collect();
            at(object, &keys).as_str().unwrap_or_default().to_owned()
        }
    };
    Some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lookup;

    #[test]
    fn values() {
        let pod = lookup("", "v1", "Pod").unwrap();
        let object = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}});
        let value = |path: &str| field_value(pod, &object, path);
        assert_eq!(value("metadata.name").as_deref(), Some("p"));
        assert_eq!(value("spec.nodeName").as_deref(), Some("n"));
        assert_eq!(value("spec.hostNetwork").as_deref(), Some("false"));
        assert_eq!(value("status.podIP").as_deref(), Some("10.0.0.1"));
        assert_eq!(value("spec.restartPolicy").as_deref(), Some(""));
        assert_eq!(value("spec.image"), None);
        assert_eq!(unsupported_field(pod, "x"), "field label not supported: x");
        let set = lookup("apps", "v1", "ReplicaSet").unwrap();
        assert_eq!(
            unsupported_field(set, "x"),
            "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    #[test]
    fn events_by_either_name() {
        let event =
            json!({"involvedObject": {"kind": "Pod"}, "reportingComponent": "c", "source": {}});
        let core = lookup("", "v1", "Event").unwrap();
        let new = lookup("events.k8s.io", "v1", "Event").unwrap();
        assert_eq!(field_value(core, &event, "involvedObject.kind").as_deref(), Some("Pod"));
        assert_eq!(field_value(new, &event, "regarding.kind").as_deref(), Some("Pod"));
        assert_eq!(field_value(core, &event, "source").as_deref(), Some("c"));
        assert_eq!(field_value(new, &event, "involvedObject.kind"), None);
    }
}
