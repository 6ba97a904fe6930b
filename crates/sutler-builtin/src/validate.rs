//! What is wrong with an object: the rules that a kind has beyond the types of its fields. The
//! faults are those that the reference implementation finds in what people really write, in its
//! words and in its order; rules for rarely used fields are left out.

mod apps;
mod container;
mod core;
mod event;
mod net;
mod node;
mod pod;
mod rbac;
mod service;
mod storage;
mod volume;

use serde_json::Value;
use sutler_schema::{
    error::FieldError,
    meta::{NameKind, validate_labels, validate_object_meta, validate_object_meta_update},
    names::{
        is_dns1123_label, is_label_value, is_percent, is_port_name, is_port_number,
        is_qualified_name,
    },
    path::Path,
};

use crate::{
    Kind,
    json::{entries, get, has, int, items, text, texts},
};

type Errors = Vec<FieldError>;

/// The faults of an object that is about to be created, its name generated and its defaults set.
/// `kind` is the served one; the object is in its stored form.
pub fn validate_create(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    if !skips_metadata(kind) {
        names(kind, object, &mut errors);
    }
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => core::config_map(object, &mut errors),
        ("", "Secret") => core::secret(object, &mut errors),
        ("", "Namespace") => core::namespace(object, &mut errors),
        ("", "Node") => node::create(object, &mut errors),
        ("", "Event") => event::create(object, false, &mut errors),
        ("events.k8s.io", _) => event::create(object, true, &mut errors),
        ("", "Pod") => pod::create(object, &mut errors),
        ("", "Service") => service::service(object, &Value::Null, &mut errors),
        ("", "PersistentVolume") => storage::volume(object, &mut errors),
        ("", "PersistentVolumeClaim") => storage::claim(object, &mut errors),
        ("storage.k8s.io", _) => storage::class(object, &mut errors),
        ("apps", "Deployment") => apps::deployment(object, &mut errors),
        ("apps", "ReplicaSet") => apps::replica_set(object, &mut errors),
        ("apps", "DaemonSet") => apps::daemon_set(object, &mut errors),
        ("policy", "PodDisruptionBudget") => core::budget(object, &mut errors),
        ("coordination.k8s.io", _) => core::lease(object, &mut errors),
        ("rbac.authorization.k8s.io", _) => rbac::validate(kind, object, &mut errors),
        _ => {}
    }
    if errors.is_empty() {
        errors = any_metadata(kind, object);
    }
    errors
}

/// The faults of a change from `old` to `new`, whole or through a subresource. Faults that every
/// kind shares (names and other metadata that cannot change) are among them. `kind` is the served
/// one; the objects are in their stored form.
pub fn validate_update(
    kind: &Kind,
    new: &Value,
    old: &Value,
    subresource: Option<&str>,
) -> Vec<FieldError> {
    // What holds for any kind comes first; most kinds then repeat it, and so do the answers.
    let mut common = any_metadata(kind, new);
    common.extend(validate_object_meta_update(get(new, "metadata"), get(old, "metadata")));
    let mut errors = Errors::new();
    if !skips_metadata(kind) {
        errors = validate_object_meta_update(get(new, "metadata"), get(old, "metadata"));
        standard_finalizers(new, &mut errors);
    }
    match subresource {
        Some("status") => status(kind, new, old, &mut errors),
        Some("finalize") => core::finalizers(new, true, &mut errors),
        _ => whole(kind, new, old, &mut errors),
    }
    common.append(&mut errors);
    common
}

/// The metadata of any kind, whatever its rule for names.
fn any_metadata(kind: &Kind, object: &Value) -> Errors {
    validate_object_meta(get(object, "metadata"), kind.namespaced, NameKind::PathSegment)
}

fn whole(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => core::config_map_update(kind, new, old, errors),
        ("", "Secret") => core::secret_update(kind, new, old, errors),
        ("", "Namespace") => {
            names(kind, new, errors);
            core::namespace(new, errors);
        }
        ("", "ServiceAccount") => names(kind, new, errors),
        ("", "Node") => {
            // As a new one first, then the change.
            let change = std::mem::take(errors);
            names(kind, new, errors);
            node::create(new, errors);
            errors.extend(change);
            node::update(new, old, errors);
        }
        ("", "Event") => event::update(new, old, false, errors),
        ("events.k8s.io", _) => event::update(new, old, true, errors),
        ("", "Pod") => pod::update(kind, new, old, errors),
        ("", "Service") => service::update(new, old, errors),
        ("", "PersistentVolume") => {
            // Volumes are looked at twice as new ones, and their metadata not as changed.
            errors.clear();
            names(kind, new, errors);
            storage::volume(new, errors);
            names(kind, new, errors);
            storage::volume_update(new, old, errors);
        }
        ("", "PersistentVolumeClaim") => {
            names(kind, new, errors);
            storage::claim_update(new, old, errors);
        }
        ("storage.k8s.io", _) => storage::class_update(kind, new, old, errors),
        ("apps", "Deployment") => {
            apps::deployment(new, errors);
            selector_is_immutable(new, old, errors);
        }
        ("apps", "ReplicaSet") => {
            apps::replica_set(new, errors);
            selector_is_immutable(new, old, errors);
        }
        ("apps", "DaemonSet") => {
            selector_is_immutable(new, old, errors);
            apps::daemon_set(new, errors);
        }
        ("policy", "PodDisruptionBudget") => core::budget(new, errors),
        ("coordination.k8s.io", _) => core::lease(new, errors),
        ("rbac.authorization.k8s.io", _) => rbac::update(kind, new, old, errors),
        _ => {}
    }
}

fn status(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "Namespace") => core::namespace_status(new, errors),
        ("", "Node") => node::update(new, old, errors),
        ("", "Pod") => pod::status(new, old, errors),
        ("", "Service") => service::status(new, errors),
        ("apps", _) => apps::status(kind.kind, new, old, errors),
        ("policy", "PodDisruptionBudget") => core::budget_status(new, errors),
        _ => {}
    }
}

/// Events have their metadata checked by nobody, budgets only when they change.
fn skips_metadata(kind: &Kind) -> bool {
    kind.is("", "Event") || kind.is("policy", "PodDisruptionBudget")
}

/// The metadata as on creation, which some kinds check again after a change.
fn names(kind: &Kind, object: &Value, errors: &mut Errors) {
    let meta = get(object, "metadata");
    errors.extend(validate_object_meta(meta, kind.namespaced, kind.name_kind));
    standard_finalizers(object, errors);
}

/// Finalizers without a domain are only those that the API itself knows.
fn standard_finalizers(object: &Value, errors: &mut Errors) {
    let path = Path::new("metadata").child("finalizers");
    for (i, name) in texts(get(object, "metadata"), "finalizers").enumerate() {
        standard_finalizer(name, &path.index(i), errors);
    }
}

fn standard_finalizer(name: &str, path: &Path, errors: &mut Errors) {
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn selector_is_immutable(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (get(&new["spec"], "selector"), get(&old["spec"], "selector"));
    if new != old {
        let path = Path::new("spec").child("selector");
        errors.push(FieldError::invalid_json(path, &selector_text(new), "field is immutable"));
    }
}

/// A selector as JSON, its fields in the order in which they are declared.
fn selector_text(selector: &Value) -> String {
    ordered(selector, &["matchLabels", "matchExpressions", "key", "operator", "values"])
}

/// A value as JSON with these fields of its objects first, in this order.
fn ordered(value: &Value, order: &[&str]) -> String {
    match value {
        Value::Object(map) => {
            let first = order.iter().filter_map(|key| map.get_key_value(*key));
            let rest = map.iter().filter(|(key, _)| !order.contains(&key.as_str()));
            let fields: Vec<String> = first
                .chain(rest)
                .map(|(key, value)| {
                    format!("{}:{}", Value::from(key.as_str()), ordered(value, order))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(|item| ordered(item, order)).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// Each message as a fault of this value.
fn invalid(errors: &mut Errors, path: &Path, value: &str, messages: Vec<String>) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
}

fn label(errors: &mut Errors, path: &Path, value: &str) {
    invalid(errors, path, value, is_dns1123_label(value));
}

fn qualified_name(errors: &mut Errors, path: &Path, value: &str) {
    invalid(errors, path, value, is_qualified_name(value));
}

fn not_negative(errors: &mut Errors, value: &Value, path: &Path, keys: &[&str]) {
    for key in keys {
        let number = int(value, key);
        if number < 0 {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path.child(key), number, detail));
        }
    }
}

/// One of `supported`; what is empty is missing.
fn one_of(errors: &mut Errors, path: &Path, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, value, supported));
    }
}

fn required_text(errors: &mut Errors, value: &Value, path: &Path, key: &str) {
    if text(value, key).is_empty() {
        errors.push(FieldError::required(path.child(key), ""));
    }
}

fn label_selector(errors: &mut Errors, selector: &Value, path: &Path) {
    validate_labels(get(selector, "matchLabels"), &path.child("matchLabels"), errors);
    for (i, row) in items(selector, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let none = items(row, "values").is_empty();
        match text(row, "operator") {
            "In" | "NotIn" if none => errors.push(FieldError::required(
                path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !none => errors.push(FieldError::forbidden(
                path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                path.child("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        qualified_name(errors, &path.child("key"), text(row, "key"));
        for (j, value) in texts(row, "values").enumerate() {
            invalid(errors, &path.child("values").index(j), value, is_label_value(value));
        }
    }
}

/// A whole number that is not negative, or a percentage.
fn int_or_percent(errors: &mut Errors, value: &Value, path: &Path) {
    match value {
        Value::String(text) => {
            let messages = is_percent(text).into_iter();
            errors.extend(messages.map(|m| FieldError::invalid_json(path, &value.to_string(), &m)));
        }
        _ if value.as_i64().is_some_and(|number| number < 0) => {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path, value.clone(), detail));
        }
        _ => {}
    }
}

fn at_most_all(errors: &mut Errors, value: &Value, path: &Path) {
    if percent(value).is_some_and(|percent| percent > 100) {
        let text = value.to_string();
        errors.push(FieldError::invalid_json(path, &text, "must not be greater than 100%"));
    }
}

fn percent(value: &Value) -> Option<i64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The number, be it whole or a percentage.
fn amount(value: &Value) -> i64 {
    percent(value).or_else(|| value.as_i64()).unwrap_or(0)
}

/// A port's number, or its name in a container.
fn port(errors: &mut Errors, value: &Value, path: &Path) {
    match value {
        Value::String(name) => invalid(errors, path, name, is_port_name(name)),
        number => {
            let number = number.as_i64().unwrap_or(0);
            port_number(errors, number, path);
        }
    }
}

fn port_number(errors: &mut Errors, number: i64, path: &Path) {
    let messages = is_port_number(number).into_iter();
    errors.extend(messages.map(|message| FieldError::invalid(path, number, message)));
}

/// Data whose keys become file names, and the bytes it takes.
fn data_keys(errors: &mut Errors, object: &Value, key: &str) {
    let path = Path::new(key);
    for (name, _) in entries(object, key) {
        let messages = sutler_schema::names::is_config_map_key(name);
        invalid(errors, &path.key(name), name, messages);
    }
}

/// Whether the object is on its way out.
fn is_deleted(object: &Value) -> bool {
    has(&object["metadata"], "deletionTimestamp")
}
