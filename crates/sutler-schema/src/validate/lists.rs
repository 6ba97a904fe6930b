//! Uniqueness in lists of type `set` and `map`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::schema::MAX_FAULTS;
use crate::{
    error::FieldError,
    node::{ListType, Node},
    path::Path,
    text::go_json,
};

/// Adds an error for the second of every two equal items.
pub(crate) fn check(value: &Value, node: &Node, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if let Some(child) = node.additional.as_deref().filter(|child| has_lists(child)) {
                for (name, field) in fields {
                    check(field, child, &path.key(name), errors);
                }
            }
            for (name, field) in fields {
                if let Some(child) = node.properties.get(name).filter(|child| has_lists(child)) {
                    check(field, child, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &node.list_type {
                ListType::Set => check_set(items, path, errors),
                ListType::Map(keys) => check_map(items, keys, path, errors),
                ListType::Atomic => {}
            }
            if let Some(child) = node.items.as_deref().filter(|child| has_lists(child)) {
                for (i, item) in items.iter().enumerate() {
                    check(item, child, &path.index(i), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether something below can hold a list at all; most fields are scalars.
fn has_lists(node: &Node) -> bool {
    node.items.is_some()
        || node.additional.is_some()
        || !node.properties.is_empty()
        || node.list_type != ListType::Atomic
}

fn check_set(items: &[Value], path: &Path, errors: &mut Vec<FieldError>) {
    for i in repeated(items).into_iter().take(MAX_FAULTS) {
        errors.push(FieldError::duplicate(path.index(i), items[i].clone()));
    }
}

fn check_map(items: &[Value], keys: &[String], path: &Path, errors: &mut Vec<FieldError>) {
    let stray = items.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(i) = stray {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path.index(i), items[i].clone(), detail));
        return;
    }
    if items.len() < 2 {
        return;
    }
    let identities: Vec<Value> = items
        .iter()
        .map(|item| {
            let mut identity = Map::new();
            for key in keys {
                if let Some(value) = item.get(key) {
                    identity.insert(key.clone(), value.clone());
                }
            }
            Value::Object(identity)
        })
        .collect();
    for i in repeated(&identities).into_iter().take(MAX_FAULTS) {
        errors.push(FieldError::duplicate(path.index(i), identities[i].clone()));
    }
}

/// Where a value stands for the second time.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(items.len());
    let mut repeated = Vec::new();
    if items.len() < 2 {
        return repeated;
    }
    for (i, item) in items.iter().enumerate() {
        let times = seen.entry(go_json(item)).or_insert(0);
        *times += 1;
        if *times == 2 {
            repeated.push(i);
        }
    }
    repeated
}
