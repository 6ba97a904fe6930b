//! Roles and their bindings.

use serde_json::Value;
use sutler_schema::{error::FieldError, names::is_path_segment_name, path::Path};

use super::*;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn validate(kind: &Kind, object: &Value, errors: &mut Errors) {
    match kind.kind {
        "Role" | "ClusterRole" => {
            for (i, rule) in items(object, "rules").iter().enumerate() {
                policy_rule(rule, kind.namespaced, &Path::new("rules").index(i), errors);
            }
            if has(object, "aggregationRule") {
                aggregation(&object["aggregationRule"], errors);
            }
        }
        _ => binding(kind, object, errors),
    }
}

pub(super) fn update(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    // These check the object as such first, and the change afterwards.
    let change = std::mem::take(errors);
    names(kind, new, errors);
    validate(kind, new, errors);
    errors.extend(change);
    if get(new, "roleRef") != get(old, "roleRef") {
        let role = get(new, "roleRef");
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            Value::from(text(role, "apiGroup")),
            Value::from(text(role, "kind")),
            Value::from(text(role, "name"))
        );
        errors.push(FieldError::invalid_json("roleRef", &shown, "cannot change roleRef"));
    }
}

fn policy_rule(rule: &Value, namespaced: bool, path: &Path, errors: &mut Errors) {
    if items(rule, "verbs").is_empty() {
        let detail = "verbs must contain at least one value";
        errors.push(FieldError::required(path.child("verbs"), detail));
    }
    if !items(rule, "nonResourceURLs").is_empty() {
        let path = path.child("nonResourceURLs");
        let urls = &rule["nonResourceURLs"];
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&path, urls.clone(), detail));
        }
        let others = ["apiGroups", "resources", "resourceNames"];
        if others.iter().any(|key| !items(rule, key).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&path, urls.clone(), detail));
        }
        return;
    }
    for (key, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if items(rule, key).is_empty() {
            let detail = format!("resource rules must supply at least one {what}");
            errors.push(FieldError::required(path.child(key), detail));
        }
    }
}

fn aggregation(rule: &Value, errors: &mut Errors) {
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = items(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(&path, detail));
    }
    for (i, selector) in selectors.iter().enumerate() {
        label_selector(errors, selector, &path.index(i));
    }
}

fn binding(kind: &Kind, object: &Value, errors: &mut Errors) {
    let (role, path) = (get(object, "roleRef"), Path::new("roleRef"));
    if text(role, "apiGroup") != GROUP {
        let group = text(role, "apiGroup");
        errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = if kind.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported(path.child("kind"), text(role, "kind"), kinds));
    }
    match text(role, "name") {
        "" => errors.push(FieldError::required(path.child("name"), "")),
        name => invalid(errors, &path.child("name"), name, is_path_segment_name(name)),
    }
    for (i, row) in items(object, "subjects").iter().enumerate() {
        subject(row, kind.namespaced, &Path::new("subjects").index(i), errors);
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path, errors: &mut Errors) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                let messages = sutler_schema::names::is_dns1123_subdomain(name);
                invalid(errors, &path.child("name"), name, messages);
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[""]));
            }
            if !namespaced {
                required_text(errors, subject, path, "namespace");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[GROUP]));
            }
        }
        other => errors.push(FieldError::not_supported(
            path.child("kind"),
            other,
            &["ServiceAccount", "User", "Group"],
        )),
    }
}
