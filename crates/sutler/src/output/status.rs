//! Refusals, with the field, the line and the fix.

use std::collections::BTreeMap;

use kube::core::Status;

use crate::client::{errors::Error, fields, manifests::Document};

/// Advice on fields, by their paths.
pub(crate) type Advice = BTreeMap<String, String>;

/// A failed request in full: what was refused, where in the file, and what to do about it.
pub(crate) fn explain(error: &Error, document: Option<&Document>) -> String {
    explain_with(error, document, &Advice::new())
}

/// The same, with advice on some of the fields.
pub(crate) fn explain_with(error: &Error, document: Option<&Document>, advice: &Advice) -> String {
    match error {
        Error::Status { status, peer } => {
            let mut lines = vec![headline(status)];
            for complaint in fields::complaints(status) {
                let advice = advice.get(&complaint.field).map(|a| format!("; {a}"));
                let line = complain(&complaint, document);
                lines.push(format!("  {line}{}", advice.unwrap_or_default()));
            }
            if let Some(hint) = hint(status, document) {
                lines.push(format!("  {hint}"));
            }
            if status.code == 401 {
                lines.push(format!(
                    "  {peer} does not know these credentials: the token may be revoked or expired, or belong to another server"
                ));
            }
            lines.join("\n")
        }
        Error::Connection { problem, .. } => format!("{error}\n  {}", problem.hint()),
        Error::Answer { .. } => error.to_string(),
    }
}

/// The first line: who is refused and why, without what the lines below say.
fn headline(status: &Status) -> String {
    let complaints = fields::complaints(status);
    let message = if status.message.is_empty() { &status.reason } else { &status.message };
    if complaints.is_empty() {
        return message.clone();
    }
    for cut in [" is invalid: ", "strict decoding error: ", "failed to create typed patch object"] {
        if let Some((before, _)) = message.split_once(cut) {
            return match cut {
                " is invalid: " => format!("{before} is invalid"),
                "strict decoding error: " => match before.trim_end_matches([' ', ':']) {
                    "" => "unknown or doubled fields".to_owned(),
                    before => format!("{before}: unknown or doubled fields"),
                },
                _ => "the object does not fit its kind".to_owned(),
            };
        }
    }
    if status.reason == "Conflict" {
        return "other managers own fields that would change".to_owned();
    }
    message.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

fn complain(complaint: &fields::Complaint, document: Option<&Document>) -> String {
    let field = complaint.field.trim_start_matches('.');
    // Servers repeat the path in the message; once is enough.
    let message = complaint.message.replace(&format!("{field} in body "), "");
    let place = document.map(|d| format!("{}: ", d.place(field))).unwrap_or_default();
    match field {
        "" => format!("{place}{message}"),
        field => format!("{place}{field}: {message}"),
    }
}

/// What to do, where we know.
fn hint(status: &Status, document: Option<&Document>) -> Option<String> {
    let complaints = fields::complaints(status);
    let details = status.details.as_ref();
    let conflict =
        details.is_some_and(|d| d.causes.iter().any(|c| c.reason == "FieldManagerConflict"));
    if conflict {
        return Some(
            "take them over with --force-conflicts, or remove them from the manifest".into(),
        );
    }
    let boolean = [
        "must be of type string: \"boolean\"",
        "expected string, got true",
        "expected string, got false",
    ];
    let is_boolean = |c: &fields::Complaint| boolean.iter().any(|text| c.message.contains(text));
    if document.is_some() && complaints.iter().any(is_boolean) {
        return Some(
            "YAML reads a bare on, off, yes or no as true or false: quote it, as in \"On\"".into(),
        );
    }
    if status.code == 404 && details.is_some_and(|d| d.kind == "namespaces") {
        return Some("create the namespace first, or name another one with -n".into());
    }
    if status.code == 403 && status.reason == "Forbidden" && status.message.contains(" cannot ") {
        return Some(
            "an administrator can grant this with a RoleBinding, or `sutler user add --role`"
                .into(),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::client::{errors::Peer, manifests};

    fn refused(status: serde_json::Value) -> Error {
        Error::Status {
            status: Box::new(serde_json::from_value(status).unwrap()),
            peer: Arc::new(Peer {
                server: "https://h".into(),
                source: "k".into(),
                context: "c".into(),
            }),
        }
    }

    fn document(text: &str) -> Document {
        manifests::parse("vm.yaml", text).unwrap().remove(0).unwrap()
    }

    #[test]
    fn an_invalid_object_shows_field_and_line() {
        let document = document(
            "apiVersion: v1\nkind: VM\nmetadata: {name: web}\nspec:\n  disks:\n  - sizeGiB: 0\n  power: on\n",
        );
        let error = refused(json!({"code": 422, "reason": "Invalid",
            "message": "VM.g \"web\" is invalid: [spec.disks[0].sizeGiB: Invalid value: 0: x]",
            "details": {"name": "web", "causes": [
                {"field": "spec.disks[0].sizeGiB", "reason": "FieldValueInvalid",
                 "message": "Invalid value: 0: spec.disks[0].sizeGiB in body should be greater than or equal to 1"},
                {"field": "spec.power", "reason": "FieldValueTypeInvalid",
                 "message": "Invalid value: \"boolean\": spec.power in body must be of type string: \"boolean\""}]}}));
        assert_eq!(
            explain(&error, Some(&document)),
            "VM.g \"web\" is invalid\n  \
             vm.yaml:6:5: spec.disks[0].sizeGiB: Invalid value: 0: should be greater than or equal to 1\n  \
             vm.yaml:7:3: spec.power: Invalid value: \"boolean\": must be of type string: \"boolean\"\n  \
             YAML reads a bare on, off, yes or no as true or false: quote it, as in \"On\""
        );
        assert!(!explain(&error, None).contains("vm.yaml"));
    }

    #[test]
    fn unknown_fields_show_their_place() {
        let document =
            document("apiVersion: v1\nkind: VM\nmetadata: {name: web}\nspec:\n  foo: 1\n");
        let error = refused(json!({"code": 500,
            "message": "failed to create typed patch object (d/web; g/v1, Kind=VM): .spec.foo: field not declared in schema"}));
        let text = explain(&error, Some(&document));
        assert!(text.contains("vm.yaml:5:3: spec.foo: unknown field"), "{text}");
        let error = refused(
            json!({"code": 400, "message": "strict decoding error: unknown field \"spec.foo\""}),
        );
        assert_eq!(
            explain(&error, Some(&document)),
            "unknown or doubled fields\n  vm.yaml:5:3: spec.foo: unknown field"
        );
    }

    #[test]
    fn conflicts_and_missing_rights_say_what_to_do() {
        let error = refused(
            json!({"code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
            "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".spec.n", "message": "conflict with \"kubectl\""}]}}),
        );
        let text = explain(&error, None);
        assert!(text.contains("spec.n: conflict with \"kubectl\""), "{text}");
        assert!(text.contains("--force-conflicts"), "{text}");
        let error =
            refused(json!({"code": 401, "reason": "Unauthorized", "message": "Unauthorized"}));
        assert!(explain(&error, None).contains("revoked"));
    }
}
