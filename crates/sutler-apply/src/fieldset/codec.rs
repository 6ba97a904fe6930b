//! The `FieldsV1` form of a set.

use serde_json::{Map, Value};

use super::{Entry, FieldSet, PathElement};
use crate::value;

/// Why a `fieldsV1` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FieldsError {
    /// What is wrong with it.
    pub reason: String,
}

impl FieldSet {
    /// The `fieldsV1` value.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    fn to_map(&self, member: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if member && !self.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for entry in &self.entries {
            let mut key = String::with_capacity(32);
            entry.element.write(&mut key);
            map.insert(key, Value::Object(entry.children.to_map(entry.member)));
        }
        map
    }

    /// The `fieldsV1` text, its keys in the order of path elements (a JSON map sorts them as text).
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(256);
        let mut key = String::with_capacity(32);
        self.write_json(false, &mut key, &mut out);
        out
    }

    fn write_json(&self, member: bool, key: &mut String, out: &mut String) {
        out.push('{');
        let mut first = true;
        if member && !self.is_empty() {
            out.push_str("\".\":{}");
            first = false;
        }
        for entry in &self.entries {
            if !first {
                out.push(',');
            }
            first = false;
            key.clear();
            entry.element.write(key);
            value::json_string(key, false, out);
            out.push(':');
            entry.children.write_json(entry.member, key, out);
        }
        out.push('}');
    }

    /// Reads a `fieldsV1` value. Elements of an unknown kind are dropped.
    pub fn from_value(fields: &Value) -> Result<Self, FieldsError> {
        Ok(read(fields)?.0)
    }

    /// Reads a `fieldsV1` text.
    pub fn from_json(text: &str) -> Result<Self, FieldsError> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| FieldsError { reason: e.to_string() })?;
        Self::from_value(&value)
    }
}

/// What is below, and whether the element itself is a member.
fn read(fields: &Value) -> Result<(FieldSet, bool), FieldsError> {
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => return Ok((FieldSet::default(), true)),
        other => {
            let reason = format!("expect {{ or n, but found {}", value::printed(other));
            return Err(FieldsError { reason });
        }
    };
    let mut set = FieldSet { entries: Vec::with_capacity(map.len()) };
    let mut member = false;
    for (key, below) in map {
        if key == "." {
            member = true;
            continue;
        }
        let element = PathElement::parse(key).map_err(|reason| FieldsError {
            reason: format!("parsing key as path element: {reason}"),
        })?;
        let Some(element) = element else { continue };
        let (children, child_member) = read(below)?;
        match set.find(&element) {
            Ok(place) => {
                let entry = &mut set.entries[place];
                entry.member |= child_member;
                if !children.is_empty() {
                    entry.children = children;
                }
            }
            Err(place) => {
                set.entries.insert(place, Entry { element, member: child_member, children });
            }
        }
    }
    let member = member || set.is_empty();
    Ok((set, member))
}
