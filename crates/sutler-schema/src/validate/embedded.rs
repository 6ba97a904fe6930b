//! Embedded resources: type and metadata as at the root of an object.

use serde_json::{Map, Value, json};

use crate::{
    error::FieldError,
    meta::{NameKind, validate_object_meta_at},
    names::is_dns1035_label,
    node::Node,
    object_meta,
    path::Path,
};

/// Checks every embedded resource below `node`.
pub(crate) fn check(value: &Value, node: &Node, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded_resource {
                resource(fields, path, errors);
            }
            for (name, field) in fields {
                if let Some(child) = node.properties.get(name) {
                    check(field, child, &path.child(name), errors);
                } else if let Some(child) = &node.additional {
                    check(field, child, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for (i, item) in items.iter().enumerate() {
                check(item, child, &path.index(i), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether there is an embedded resource anywhere in the schema.
pub(crate) fn anywhere(node: &Node) -> bool {
    node.embedded_resource
        || node.properties.values().any(|child| anywhere(child))
        || node.additional.as_deref().is_some_and(anywhere)
        || node.items.as_deref().is_some_and(anywhere)
}

fn resource(fields: &Map<String, Value>, path: &Path, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        if !fields.contains_key(name) {
            errors.push(FieldError::required(path.child(name), ""));
        }
    }
    if let Some(value) = fields.get("apiVersion") {
        api_version(value, &path.child("apiVersion"), errors);
    }
    if let Some(value) = fields.get("kind") {
        kind(value, &path.child("kind"), errors);
    }
    if let Some(value) = fields.get("metadata") {
        metadata(value, &path.child("metadata"), errors);
    }
}

fn api_version(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match value.as_str() {
        None => errors.push(FieldError::invalid(path, value.clone(), "must be a string")),
        Some("") => errors.push(FieldError::invalid(path, "", "must not be empty")),
        Some(text) if text.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(path, text, detail));
        }
        Some(_) => {}
    }
}

fn kind(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match value.as_str() {
        None => errors.push(FieldError::invalid(path, value.clone(), "must be a string")),
        Some("") => errors.push(FieldError::invalid(path, "", "must not be empty")),
        Some(text) => {
            let messages = is_dns1035_label(&text.to_lowercase());
            if !messages.is_empty() {
                let detail = format!(
                    "may have mixed case, but should otherwise match: {}",
                    messages.join(",")
                );
                errors.push(FieldError::invalid(path, text, detail));
            }
        }
    }
}

fn metadata(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match object_meta::coerce(value, "metadata", &mut Vec::new()) {
        Err(message) => errors.push(FieldError::invalid(path, value.clone(), message)),
        Ok(mut meta) => {
            if meta["name"].as_str().is_none_or(str::is_empty) {
                // Embedded resources need no name, but the check of metadata wants one.
                meta["name"] = json!("fakename");
            }
            let namespaced = meta["namespace"].is_string();
            let kind = NameKind::PathSegment;
            errors.append(&mut validate_object_meta_at(&meta, namespaced, kind, path));
        }
    }
}
