//! Small accessors for objects kept as JSON.

use serde_json::{Map, Value};

/// An object's JSON map; an empty one where the value is no object.
pub(crate) fn map(object: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.as_object().unwrap_or(&EMPTY)
}

/// `metadata`, made where it is missing.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = Value::Object(Map::new());
    }
    object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .expect("metadata was made an object above")
}

/// A string of `metadata`, empty where absent.
pub(crate) fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

/// `metadata.namespace`.
pub(crate) fn namespace(object: &Value) -> &str {
    meta_str(object, "namespace")
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// `metadata.generation`, 0 where absent.
pub(crate) fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Whether deletion was asked for.
pub(crate) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// `metadata.ownerReferences`.
pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    let list = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    list.into_iter().flatten()
}

/// `metadata.labels`.
pub(crate) fn labels(object: &Value) -> &Map<String, Value> {
    static NULL: Value = Value::Null;
    map(object.pointer("/metadata/labels").unwrap_or(&NULL))
}

/// Sets or removes a field of `metadata`.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            meta_mut(object).insert(field.into(), value);
        }
        None => {
            meta_mut(object).remove(field);
        }
    }
}

/// Removes `metadata.finalizers` entries that `drop` picks; the field goes with the last one.
pub(crate) fn drop_finalizers(object: &mut Value, drop: impl Fn(&str) -> bool) {
    let kept: Vec<Value> =
        finalizers(object).filter(|f| !drop(f)).map(|f| Value::String(f.into())).collect();
    let kept = (!kept.is_empty()).then_some(Value::Array(kept));
    set_meta(object, "finalizers", kept);
}
