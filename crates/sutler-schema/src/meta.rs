//! Checks of `metadata`, on create and on update.

use serde_json::Value;

pub use crate::names::{
    is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_label_value, is_qualified_name,
};
use crate::{
    error::FieldError,
    names::{is_path_segment_name, is_path_segment_prefix},
    path::Path,
    text::{go_json, go_quote, is_print},
};

/// The bytes that all annotations of an object may take, keys included.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;

/// The format of an object's name, which differs by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A DNS subdomain (RFC 1123): most kinds, and all custom ones.
    Subdomain,
    /// A DNS label (RFC 1123).
    Label,
    /// A DNS label that starts with a letter (RFC 1035).
    Label1035,
    /// Whatever can stand in a URL path.
    PathSegment,
}

impl NameKind {
    /// What is wrong with `name`; with `prefix`, as the beginning of a generated name.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        if self == Self::PathSegment {
            return if prefix { is_path_segment_prefix(name) } else { is_path_segment_name(name) };
        }
        let masked;
        let mut name = name;
        if prefix && name.len() > 1 && name.ends_with('-') {
            // The dash will be followed by more; what stands before it goes unchecked, too.
            let kept = &name.as_bytes()[..name.len() - 2];
            masked = format!("{}a", String::from_utf8_lossy(kept));
            name = &masked;
        }
        match self {
            Self::Subdomain => is_dns1123_subdomain(name),
            Self::Label => is_dns1123_label(name),
            Self::Label1035 => is_dns1035_label(name),
            Self::PathSegment => unreachable!("answered above"),
        }
    }
}

/// What is wrong with the `metadata` of an object that is about to be created, its name already
/// generated.
pub fn validate_object_meta(
    meta: &Value,
    namespaced: bool,
    name_kind: NameKind,
) -> Vec<FieldError> {
    validate_object_meta_at(meta, namespaced, name_kind, &Path::new("metadata"))
}

/// As [`validate_object_meta`], for metadata that stands at `path` (templates, embedded resources).
pub fn validate_object_meta_at(
    meta: &Value,
    namespaced: bool,
    name_kind: NameKind,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = text(meta, "generateName");
    if !generate_name.is_empty() {
        let messages = name_kind.check(generate_name, true).into_iter();
        let field = path.child("generateName");
        errors.extend(messages.map(|m| FieldError::invalid(&field, generate_name, m)));
    }
    let name = text(meta, "name");
    let field = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(field, "name or generateName is required"));
    } else {
        let messages = name_kind.check(name, false).into_iter();
        errors.extend(messages.map(|m| FieldError::invalid(&field, name, m)));
    }
    let namespace = text(meta, "namespace");
    let field = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(field, "")),
        (true, false) => {
            let messages = is_dns1123_label(namespace).into_iter();
            errors.extend(messages.map(|m| FieldError::invalid(&field, namespace, m)));
        }
        (false, false) => errors.push(FieldError::forbidden(field, "not allowed on this type")),
        (false, true) => {}
    }
    let generation = int(meta, "generation");
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child("generation"), generation, detail));
    }
    validate_labels(&meta["labels"], &path.child("labels"), &mut errors);
    validate_annotations(&meta["annotations"], &path.child("annotations"), &mut errors);
    validate_owner_references(
        &meta["ownerReferences"],
        &path.child("ownerReferences"),
        &mut errors,
    );
    validate_finalizers(&meta["finalizers"], &path.child("finalizers"), &mut errors);
    validate_managed_fields(&meta["managedFields"], &path.child("managedFields"), &mut errors);
    errors
}

/// What is wrong with the change from the metadata `old` to `new`.
pub fn validate_object_meta_update(new: &Value, old: &Value) -> Vec<FieldError> {
    validate_object_meta_update_at(new, old, &Path::new("metadata"))
}

/// As [`validate_object_meta_update`], for metadata that stands at `path`.
pub fn validate_object_meta_update_at(new: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_unset(&old["deletionTimestamp"]) {
        let known: Vec<&str> = strings(&old["finalizers"]).collect();
        let mut extra: Vec<&str> =
            strings(&new["finalizers"]).filter(|finalizer| !known.contains(finalizer)).collect();
        extra.sort_unstable();
        extra.dedup();
        if !extra.is_empty() {
            let quoted: Vec<String> = extra.into_iter().map(go_quote).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(FieldError::forbidden(path.child("finalizers"), detail));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        let field = path.child("resourceVersion");
        errors.push(FieldError::invalid(field, "", "must be specified for an update"));
    }
    let generation = int(new, "generation");
    if generation < int(old, "generation") {
        let field = path.child("generation");
        errors.push(FieldError::invalid(field, generation, "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        immutable(&text(new, name).into(), &text(old, name).into(), &path.child(name), &mut errors);
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        immutable(&new[name], &old[name], &path.child(name), &mut errors);
    }
    validate_labels(&new["labels"], &path.child("labels"), &mut errors);
    validate_annotations(&new["annotations"], &path.child("annotations"), &mut errors);
    validate_owner_references(&new["ownerReferences"], &path.child("ownerReferences"), &mut errors);
    validate_managed_fields(&new["managedFields"], &path.child("managedFields"), &mut errors);
    errors
}

/// Adds an error unless `new` equals `old`.
pub fn immutable(new: &Value, old: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if new != old {
        errors.push(FieldError::invalid(path, new.clone(), "field is immutable"));
    }
}

/// Checks a map of labels.
pub fn validate_labels(labels: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        let messages = is_qualified_name(key).into_iter();
        errors.extend(messages.map(|m| FieldError::invalid(path, key.as_str(), m)));
        let value = value.as_str().unwrap_or_default();
        let messages = is_label_value(value).into_iter();
        errors.extend(messages.map(|m| FieldError::invalid(path, value, m)));
    }
}

/// Checks a map of annotations.
pub fn validate_annotations(annotations: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let messages = is_qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(messages.map(|m| FieldError::invalid(path, key.as_str(), m)));
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX_BYTES));
    }
}

/// Checks `ownerReferences`.
pub fn validate_owner_references(owners: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let owners = owners.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut controller: Option<String> = None;
    for owner in owners {
        let api_version = text(owner, "apiVersion");
        let (kind, name) = (text(owner, "kind"), text(owner, "name"));
        let (group, version) = match api_version.matches('/').count() {
            0 => ("", api_version),
            1 => api_version.split_once('/').unwrap_or(("", "")),
            _ => ("", ""),
        };
        if version.is_empty() {
            let field = path.child("apiVersion");
            errors.push(FieldError::invalid(field, api_version, "version must not be empty"));
        }
        for (field, value) in [("kind", kind), ("name", name), ("uid", text(owner, "uid"))] {
            if value.is_empty() {
                errors.push(FieldError::invalid(path.child(field), value, "must not be empty"));
            }
        }
        if (group, version, kind) == ("", "v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_json(path, &owner_json(owner), detail));
        }
        if owner["controller"] != Value::Bool(true) {
            continue;
        }
        let current = format!("{kind}/{name}");
        match &controller {
            None => controller = Some(current),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {first} and {current}"
                );
                let all: Vec<String> = owners.iter().map(owner_json).collect();
                let json = format!("[{}]", all.join(","));
                errors.push(FieldError::invalid_json(path, &json, &detail));
            }
        }
    }
}

/// Checks `finalizers`: qualified names, and not both of the two that contradict each other.
pub fn validate_finalizers(finalizers: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for finalizer in strings(finalizers) {
        let messages = is_qualified_name(finalizer).into_iter();
        errors.extend(messages.map(|m| FieldError::invalid(path, finalizer, m)));
    }
    let has = |name| strings(finalizers).any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, finalizers.clone(), detail));
    }
}

/// Warnings about finalizers that `new` has and `old` has not: names that other writers may also
/// hit upon. The API gives them for custom resources.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: Vec<&str> = old.map(|old| strings(&old["finalizers"]).collect()).unwrap_or_default();
    let mut added: Vec<&str> =
        strings(&new["finalizers"]).filter(|finalizer| !known.contains(finalizer)).collect();
    added.sort_unstable();
    added.dedup();
    let mut warnings = Vec::new();
    for finalizer in added {
        let mut warn = |message: &str| {
            warnings.push(format!("metadata.finalizers: {}: {message}", go_quote(finalizer)));
        };
        is_qualified_name(finalizer).iter().for_each(|message| warn(message));
        let standard = matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes");
        match (finalizer.contains('/') || standard, finalizer.contains('.')) {
            (true, _) => {}
            (false, true) => warn(
                "prefer a domain-qualified finalizer name including a path (/) to avoid accidental \
                 conflicts with other finalizer writers",
            ),
            (false, false) => warn(
                "prefer a domain-qualified finalizer name to avoid accidental conflicts with other \
                 finalizer writers",
            ),
        }
    }
    warnings
}

/// Checks `managedFields`.
pub fn validate_managed_fields(entries: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for (i, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let path = path.index(i);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let field = path.child("operation");
            errors.push(FieldError::invalid(field, operation, "must be `Apply` or `Update`"));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let field = path.child("fieldsType");
            errors.push(FieldError::invalid(field, fields_type, "must be `FieldsV1`"));
        }
        validate_field_manager(text(entry, "manager"), &path.child("manager"), errors);
        if text(entry, "subresource").len() > 256 {
            errors.push(FieldError::too_long(path.child("subresource"), 256));
        }
    }
}

/// Checks the name of a field manager: at most 128 bytes, all printable.
pub fn validate_field_manager(manager: &str, path: &Path, errors: &mut Vec<FieldError>) {
    if manager.len() > 128 {
        errors.push(FieldError::too_long(path, 128));
    }
    for (i, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {i})", c as u32);
        errors.push(FieldError::invalid(path, manager, detail));
    }
}

/// An owner reference as JSON, in the order in which its fields are declared.
fn owner_json(owner: &Value) -> String {
    let mut fields = Vec::new();
    for name in ["apiVersion", "kind", "name", "uid"] {
        fields.push(format!("\"{name}\":{}", go_json(&text(owner, name).into())));
    }
    for name in ["controller", "blockOwnerDeletion"] {
        if let Some(flag) = owner[name].as_bool() {
            fields.push(format!("\"{name}\":{flag}"));
        }
    }
    format!("{{{}}}", fields.join(","))
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn int(value: &Value, field: &str) -> i64 {
    value[field].as_i64().unwrap_or_default()
}

fn is_unset(value: &Value) -> bool {
    value.is_null()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_and_namespaces() {
        let check = |meta: Value, namespaced| {
            texts(validate_object_meta(&meta, namespaced, NameKind::Label))
        };
        assert_eq!(check(json!({"name": "a", "namespace": "b"}), true), [""; 0]);
        assert_eq!(
            check(json!({}), true),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value",
            ]
        );
        assert_eq!(
            check(json!({"name": "a.b", "namespace": "c"}), false),
            [
                r#"metadata.name: Invalid value: "a.b": must not contain dots"#,
                "metadata.namespace: Forbidden: not allowed on this type",
            ]
        );
        assert_eq!(
            check(json!({"name": "a", "generation": -1}), false),
            ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]
        );
        assert!(NameKind::Subdomain.check("a.b-", true).is_empty());
        assert_eq!(NameKind::Subdomain.check("a.b-", false).len(), 1);
        assert_eq!(NameKind::PathSegment.check("a/b", false), ["may not contain '/'"]);
        // What stands before a trailing dash goes unchecked, as in the API.
        assert!(NameKind::Label.check("a_-", true).is_empty());
        assert_eq!(NameKind::Label.check("é-", true).len(), 1);
    }

    #[test]
    fn annotations_have_a_size() {
        let meta = |n: usize| json!({"name": "a", "annotations": {"k": "x".repeat(n)}});
        let check = |n| texts(validate_object_meta(&meta(n), false, NameKind::Label));
        assert_eq!(check((256 << 10) - 1), [""; 0]);
        assert_eq!(
            check(256 << 10),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
    }

    #[test]
    fn updates() {
        let old = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"});
        let with = |changes: Value| {
            let mut new = old.clone();
            for (name, value) in changes.as_object().unwrap() {
                new[name] = value.clone();
            }
            texts(validate_object_meta_update(&new, &old))
        };
        assert_eq!(with(json!({"labels": {"a": "b"}})), [""; 0]);
        assert_eq!(
            with(json!({"name": "b", "uid": "w", "resourceVersion": "", "generation": 1})),
            [
                r#"metadata.resourceVersion: Invalid value: "": must be specified for an update"#,
                "metadata.generation: Invalid value: 1: must not be decremented",
                r#"metadata.name: Invalid value: "b": field is immutable"#,
                r#"metadata.uid: Invalid value: "w": field is immutable"#,
            ]
        );
        assert_eq!(
            with(json!({"creationTimestamp": null, "deletionGracePeriodSeconds": 5})),
            [
                "metadata.creationTimestamp: Invalid value: null: field is immutable",
                "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
            ]
        );
        let mut leaving = old.clone();
        leaving["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        leaving["finalizers"] = json!(["a/b"]);
        let mut new = leaving.clone();
        new["finalizers"] = json!(["z/z", "a/b", "c/d"]);
        assert_eq!(
            texts(validate_object_meta_update(&new, &leaving)),
            ["metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
                 being deleted, found new finalizers []string{\"c/d\", \"z/z\"}"]
        );
    }

    #[test]
    fn finalizers_that_may_collide() {
        let old = json!({"finalizers": ["bar"]});
        let new = json!({"finalizers": ["foo", "a.b", "a.b/c", "orphan", "bar"]});
        let rest = "to avoid accidental conflicts with other finalizer writers";
        assert_eq!(
            finalizer_warnings(&new, Some(&old)),
            [
                format!(
                    "metadata.finalizers: \"a.b\": prefer a domain-qualified finalizer name \
                     including a path (/) {rest}"
                ),
                format!(
                    "metadata.finalizers: \"foo\": prefer a domain-qualified finalizer name {rest}"
                ),
            ]
        );
    }

    #[test]
    fn managers() {
        let mut errors = Vec::new();
        let path = Path::new("fieldManager");
        validate_field_manager("a\u{7}b", &path, &mut errors);
        validate_field_manager(&"x".repeat(129), &path, &mut errors);
        assert_eq!(
            texts(errors),
            [
                r#"fieldManager: Invalid value: "a\ab": invalid character U+0007 (at position 1)"#,
                "fieldManager: Too long: may not be more than 128 bytes",
            ]
        );
    }
}
