//! What happens to an object between the request and the store, apart from I/O: decoding checks,
//! pruning, defaults, the fields that the server owns, generation, validation. Built-in and custom
//! kinds differ here and nowhere else.

use serde_json::Value;
use sutler_schema::{
    defaults,
    error::FieldError,
    meta::{self, NameKind},
    prune,
    validate::{Around, Outcome},
};

use crate::{
    object,
    registry::{Flavor, Resource},
    status::ApiError,
};

/// What `fieldValidation` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Unknown and repeated fields are dropped in silence.
    Ignore,
    /// They are dropped, and the answer warns of them.
    Warn,
    /// They are refused.
    Strict,
}

/// Drops unknown fields and sets defaults: from what was sent to what the type admits. The
/// returned texts are for warnings, or for the refusal when validation is strict; those of a
/// built-in kind's unknown fields only with `look`, where the decoder has not found them already.
pub(crate) fn shape(
    resource: &Resource,
    object: &mut Value,
    look: bool,
) -> Result<Vec<String>, ApiError> {
    let unknown = match &resource.flavor {
        Flavor::Custom(_) => {
            defaults::apply_defaults(object, &resource.node);
            prune::coerce(object, &resource.node)
                .map_err(|e| ApiError::bad_request(e.to_string()))?
        }
        Flavor::Builtin(kind) => {
            // Where the stored form is another one, the sent form is what is judged.
            let unknown = match (look, resource.converted) {
                (false, _) => Vec::new(),
                (true, true) => prune::unknown_fields(object, &kind.node()),
                (true, false) => prune::unknown_fields(object, &resource.node),
            };
            *object = sutler_builtin::decode(kind, object.take()).map_err(|e| {
                ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: {e}",
                    resource.kind, resource.version, resource.kind
                ))
            })?;
            sutler_builtin::apply_defaults(kind, object);
            unknown
        }
    };
    Ok(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect())
}

/// What a refusal by strict decoding begins with.
pub(crate) const STRICT: &str = "strict decoding error: ";

/// Refuses or reports what strict decoding found.
pub(crate) fn judge(
    validation: FieldValidation,
    mut findings: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    if findings.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            warnings.append(&mut findings);
            Ok(())
        }
        FieldValidation::Strict => {
            Err(ApiError::bad_request(format!("{STRICT}{}", findings.join(", "))))
        }
    }
}

/// Fields whose writers own nothing there, by endpoint.
pub(crate) fn reset_fields(
    resource: &Resource,
    subresource: &str,
) -> &'static [&'static [&'static str]] {
    match (subresource, &resource.flavor) {
        ("", _) if resource.status => &[&["status"]],
        ("status", Flavor::Custom(_)) => &[&["metadata"], &["spec"]],
        ("status", Flavor::Builtin(kind)) => match kind.kind {
            "Pod" => {
                &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
            }
            "Deployment" => &[&["spec"], &["metadata", "labels"]],
            _ => &[&["spec"]],
        },
        _ => &[],
    }
}

/// The fields that a create does not decide.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value, uid: String, now: &str) {
    let meta = object::meta_mut(object);
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
    {
        meta.remove(field);
    }
    meta.insert("uid".into(), uid.into());
    meta.insert("creationTimestamp".into(), now.into());
    if resource.has_generation() {
        meta.insert("generation".into(), 1.into());
    }
    match &resource.flavor {
        Flavor::Custom(_) => {
            if resource.status
                && let Some(map) = object.as_object_mut()
            {
                map.remove("status");
            }
        }
        Flavor::Builtin(kind) => {
            sutler_builtin::admit_create(kind, object);
            sutler_builtin::prepare_for_create(kind.storage(), object);
        }
    }
}

/// What is wrong with a new object.
pub(crate) fn validate_create(resource: &Resource, object: &Value) -> Outcome {
    match &resource.flavor {
        Flavor::Custom(custom) => {
            let around = Around {
                before: meta::validate_object_meta(
                    &object["metadata"],
                    resource.namespaced,
                    NameKind::Subdomain,
                ),
                after: validate_scale(resource, object),
            };
            custom.validator.validate(object, None, around)
        }
        Flavor::Builtin(kind) => {
            let errors = sutler_builtin::validate_create(kind, object);
            Outcome { errors, warnings: sutler_builtin::warnings(kind, object) }
        }
    }
}

/// The fields that an update does not decide.
pub(crate) fn prepare_update(resource: &Resource, subresource: &str, new: &mut Value, old: &Value) {
    let generation = object::generation(old);
    let old_meta = &old["metadata"];
    {
        let meta = object::meta_mut(new);
        match old_meta.get("generation") {
            Some(generation) => meta.insert("generation".into(), generation.clone()),
            None => meta.remove("generation"),
        };
    }
    match &resource.flavor {
        Flavor::Custom(_) => prepare_custom_update(resource, subresource, new, old, generation),
        // These change what they are for and nothing else.
        Flavor::Builtin(_) if matches!(subresource, "binding" | "eviction") => {}
        Flavor::Builtin(kind) => {
            let subresource = (!subresource.is_empty()).then_some(subresource);
            if subresource.is_none() {
                sutler_builtin::admit_update(kind, new, old);
            }
            sutler_builtin::prepare_for_update(kind.storage(), new, old, subresource);
        }
    }
    let meta = object::meta_mut(new);
    if meta.get("uid").and_then(Value::as_str).is_none_or(str::is_empty)
        && let Some(uid) = old_meta.get("uid")
    {
        meta.insert("uid".into(), uid.clone());
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        match old_meta.get(field) {
            Some(value) => {
                meta.insert(field.into(), value.clone());
            }
            None => {
                meta.remove(field);
            }
        }
    }
    meta.remove("selfLink");
}

fn prepare_custom_update(
    resource: &Resource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
    generation: i64,
) {
    if subresource == "status" {
        let status = new.as_object_mut().and_then(|map| map.remove("status"));
        let managed = new.pointer("/metadata/managedFields").cloned();
        let version = new.pointer("/metadata/resourceVersion").cloned();
        *new = old.clone();
        let map = new.as_object_mut().expect("stored objects are maps");
        match status {
            Some(status) => map.insert("status".into(), status),
            None => map.remove("status"),
        };
        object::set_meta(new, "managedFields", managed);
        if let Some(version) = version {
            object::set_meta(new, "resourceVersion", Some(version));
        }
        return;
    }
    if resource.status
        && let Some(map) = new.as_object_mut()
    {
        match old.get("status") {
            Some(status) => map.insert("status".into(), status.clone()),
            None => map.remove("status"),
        };
    }
    if !same_fields(new, old, &|k| k == "metadata" || (resource.status && k == "status")) {
        object::set_meta(new, "generation", Some((generation + 1).into()));
    }
}

fn same_fields(a: &Value, b: &Value, skip: &dyn Fn(&str) -> bool) -> bool {
    let (a, b) = (object::map(a), object::map(b));
    let left = a.iter().filter(|(k, _)| !skip(k));
    let right = b.iter().filter(|(k, _)| !skip(k));
    left.eq(right)
}

/// What is wrong with a changed object.
pub(crate) fn validate_update(
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Outcome {
    match &resource.flavor {
        Flavor::Custom(custom) => {
            let around = Around {
                before: meta::validate_object_meta_update(&new["metadata"], &old["metadata"]),
                after: validate_scale(resource, new),
            };
            let mut found = match subresource {
                "status" => custom.validator.validate_status(new, old, around),
                _ => custom.validator.validate(new, Some(old), around),
            };
            // What holds for any kind comes first; what this kind repeats is told again.
            let name = NameKind::PathSegment;
            let mut errors =
                meta::validate_object_meta(&new["metadata"], resource.namespaced, name);
            errors.extend(meta::validate_object_meta_update(&new["metadata"], &old["metadata"]));
            errors.append(&mut found.errors);
            Outcome { errors, warnings: found.warnings }
        }
        // What a binding changes is decided where it is made.
        Flavor::Builtin(_) if subresource == "binding" => {
            Outcome { errors: Vec::new(), warnings: Vec::new() }
        }
        Flavor::Builtin(_) if matches!(subresource, "binding" | "eviction") => Outcome::default(),
        Flavor::Builtin(kind) => {
            let subresource = (!subresource.is_empty()).then_some(subresource);
            let errors = sutler_builtin::validate_update(kind, new, old, subresource);
            Outcome { errors, warnings: Vec::new() }
        }
    }
}

/// What a scale subresource shows must be sensible wherever it is written.
fn validate_scale(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let Some(scale) = &resource.scale else { return Vec::new() };
    let mut errors = Vec::new();
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let invalid = |bad: Value, detail: String| {
            FieldError::invalid(format!(".{}", path.join(".")), bad, detail)
        };
        match accessed(object, path, "int64", Value::is_i64) {
            Err(why) => errors.push(invalid(0.into(), why)),
            Ok(None) => {}
            Ok(Some(value)) => match value.as_i64().unwrap_or_default() {
                ..0 => {
                    errors.push(invalid(value.clone(), "should be a non-negative integer".into()))
                }
                number if number > i64::from(i32::MAX) => errors.push(invalid(
                    value.clone(),
                    format!("should be less than or equal to {}", i32::MAX),
                )),
                _ => {}
            },
        }
    }
    if let Some(path) = &scale.selector
        && let Err(why) = accessed(object, path, "string", Value::is_string)
    {
        errors.push(FieldError::invalid(format!(".{}", path.join(".")), "", why));
    }
    errors
}

/// The value at a path; why not, in the words of the real server, if something on the way is not
/// what it should be.
fn accessed<'v>(
    object: &'v Value,
    path: &[String],
    wanted: &str,
    fits: fn(&Value) -> bool,
) -> Result<Option<&'v Value>, String> {
    let refuse = |path: &[String], value: &Value, wanted: &str| {
        format!(
            ".{} accessor error: {} is of the type {}, expected {wanted}",
            path.join("."),
            go_value(value),
            go_type(value)
        )
    };
    let mut at = object;
    for (n, field) in path.iter().enumerate() {
        let Some(map) = at.as_object() else {
            return Err(refuse(&path[..=n], at, "map[string]interface{}"));
        };
        let Some(next) = map.get(field) else { return Ok(None) };
        at = next;
    }
    if fits(at) { Ok(Some(at)) } else { Err(refuse(path, at, wanted)) }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go prints it by default.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// The value at a path of fields.
pub(crate) fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}
