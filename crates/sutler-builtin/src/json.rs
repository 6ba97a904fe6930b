//! Short ways to read and to fill JSON objects. Reading never fails: what is not there is empty.

use serde_json::{Map, Value};

/// The text at `key`, empty if there is none.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The number at `key`, 0 if there is none.
pub(crate) fn int(value: &Value, key: &str) -> i64 {
    value.get(key).and_then(Value::as_i64).unwrap_or_default()
}

/// The flag at `key`, false if there is none.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The items at `key`.
pub(crate) fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The texts at `key`.
pub(crate) fn texts<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    items(value, key).iter().filter_map(Value::as_str)
}

/// The entries at `key`.
pub(crate) fn entries<'v>(
    value: &'v Value,
    key: &str,
) -> impl Iterator<Item = (&'v str, &'v Value)> {
    let map = value.get(key).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Whether there is something at `key`, be it empty.
pub(crate) fn has(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}

/// What is at `key`, or null.
pub(crate) fn get<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// What is at a path of keys, or null.
pub(crate) fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, key| get(value, key))
}

/// The object at `key`, if there is one.
pub(crate) fn object_mut<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    value.get_mut(key).filter(|value| value.is_object())
}

/// The object at `key`, made if it is not there. `None` when `value` is no object, or something
/// else stands at the key.
pub(crate) fn ensure_object<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    let slot = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    Some(slot).filter(|slot| slot.is_object())
}

/// The items at `key`, to change them.
pub(crate) fn items_mut<'v>(
    value: &'v mut Value,
    key: &str,
) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets `key` unless something is there already.
pub(crate) fn default(value: &mut Value, key: &str, content: impl Into<Value>) {
    if let Some(map) = value.as_object_mut() {
        let slot = map.entry(key).or_insert(Value::Null);
        if slot.is_null() {
            *slot = content.into();
        }
    }
}

/// Sets `key` unless a text is there that is not empty.
pub(crate) fn default_text(value: &mut Value, key: &str, content: &str) {
    if text(value, key).is_empty() {
        set(value, key, content);
    }
}

/// Sets `key` unless a number is there that is not 0.
pub(crate) fn default_int(value: &mut Value, key: &str, content: i64) {
    if int(value, key) == 0 {
        set(value, key, content);
    }
}

/// Sets `key`.
pub(crate) fn set(value: &mut Value, key: &str, content: impl Into<Value>) {
    if let Some(map) = value.as_object_mut() {
        map.insert(key.to_owned(), content.into());
    }
}

/// Removes `key`.
pub(crate) fn remove(value: &mut Value, key: &str) -> Option<Value> {
    value.as_object_mut().and_then(|map| map.remove(key))
}

/// Makes `key` of `value` what it is in `other`, be it absent.
pub(crate) fn copy(value: &mut Value, other: &Value, key: &str) {
    match other.get(key) {
        Some(content) => set(value, key, content.clone()),
        None => {
            remove(value, key);
        }
    }
}
