//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

use super::PatchError;

/// Merges the patch into the document: null removes, objects are merged, all else replaces.
pub fn merge(doc: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *doc, patch) else {
        *doc = without_nulls(patch);
        return;
    };
    merge_fields(fields, changes);
}

fn merge_fields(fields: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
            continue;
        }
        match (fields.get_mut(name), change) {
            (Some(Value::Object(below)), Value::Object(changes)) => merge_fields(below, changes),
            // Where an object was, the new value is taken as it is.
            (Some(place @ Value::Object(_)), other) => *place = other.clone(),
            (Some(place), other) => *place = without_nulls(other),
            (None, other) => {
                fields.insert(name.clone(), without_nulls(other));
            }
        }
    }
}

/// The value without null fields; null items of arrays stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Refuses what is not a merge patch for an object.
pub fn check_merge(patch: &Value) -> Result<(), PatchError> {
    let found = match patch {
        Value::Object(_) => return Ok(()),
        Value::Null => return Err(PatchError::BadRequest("Invalid JSON Patch".into())),
        other => super::json::json_kind(other),
    };
    Err(PatchError::BadRequest(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type \
         map[string]interface {{}}"
    )))
}
