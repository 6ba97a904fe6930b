//! The fields that a refusal is about, wherever the server put them: in causes, or in prose.

use kube::core::Status;

/// What is wrong with a field that the kind does not have.
pub(crate) const UNKNOWN: &str = "unknown field";

/// One thing that is wrong, and the field it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The field's path; empty where the server names none.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) message: String,
}

/// What a refusal complains about, field by field; empty where its message says it all.
pub(crate) fn complaints(status: &Status) -> Vec<Complaint> {
    let causes = status.details.as_ref().map(|d| d.causes.as_slice()).unwrap_or_default();
    if !causes.is_empty() {
        return causes
            .iter()
            .map(|cause| Complaint {
                field: cause.field.trim_start_matches("<nil>").to_owned(),
                message: cause.message.clone(),
            })
            .collect();
    }
    if let Some((_, list)) = status.message.split_once("strict decoding error: ") {
        return strict(list);
    }
    if let Some((_, list)) = status.message.split_once("failed to create typed patch object (")
        && let Some((_, list)) = list.split_once("): ")
    {
        return typed(list);
    }
    Vec::new()
}

/// `unknown field "spec.a", duplicate field "spec.b"`, as strict decoding reports.
fn strict(list: &str) -> Vec<Complaint> {
    let mut found = Vec::new();
    for part in list.split("\", ") {
        let Some((what, field)) = part.split_once(" \"") else { continue };
        found.push(Complaint {
            field: field.trim_end_matches('"').to_owned(),
            message: what.trim().to_owned(),
        });
    }
    found
}

/// `.spec.a: field not declared in schema`, one or a list with a line each, as apply reports.
fn typed(list: &str) -> Vec<Complaint> {
    list.trim_start_matches("errors:")
        .lines()
        .map(str::trim)
        .filter_map(|line| line.split_once(": "))
        .map(|(field, message)| Complaint {
            field: field.to_owned(),
            message: match message {
                "field not declared in schema" => UNKNOWN.to_owned(),
                // The server prints its own types; the value is what counts.
                other => other.replace("&value.valueUnstructured{Value:", "").replace('}', ""),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(status: serde_json::Value) -> Vec<(String, String)> {
        complaints(&serde_json::from_value(status).unwrap())
            .into_iter()
            .map(|c| (c.field, c.message))
            .collect()
    }

    #[test]
    fn fields_come_from_causes_or_from_prose() {
        assert_eq!(
            found(json!({"details": {"causes": [
                {"field": "spec.x", "message": "Invalid value: 0: must be >= 1"},
                {"field": "<nil>", "message": "whole"}]}})),
            [
                ("spec.x".into(), "Invalid value: 0: must be >= 1".into()),
                (String::new(), "whole".into())
            ]
        );
        assert_eq!(
            found(
                json!({"message": "VM in version \"v1\" cannot be handled as a VM: strict decoding error: unknown field \"spec.disk\", unknown field \"spec.foo\""})
            ),
            [
                ("spec.disk".into(), "unknown field".into()),
                ("spec.foo".into(), "unknown field".into())
            ]
        );
        assert_eq!(
            found(
                json!({"message": "failed to create typed patch object (default/x; g/v1, Kind=VM): .spec.foo: field not declared in schema"})
            ),
            [(".spec.foo".into(), "unknown field".into())]
        );
        assert_eq!(
            found(
                json!({"message": "failed to create typed patch object (d/x; g/v1, Kind=VM): errors:\n  .spec.a: field not declared in schema\n  .spec.b: expected string, got &value.valueUnstructured{Value:true}"})
            ),
            [
                (".spec.a".into(), "unknown field".into()),
                (".spec.b".into(), "expected string, got true".into())
            ]
        );
        assert_eq!(found(json!({"message": "nothing to see"})), []);
    }
}
