//! Removing fields and items from a value.

use serde_json::{Map, Value};

use super::item_element;
use crate::{
    fieldset::{FieldSet, PathElement},
    schema::{List, ListKind, MapType, Shape, Ty},
};

/// The value without the members of the set. What is left empty becomes null, as an atomic value
/// does of which a part is to be removed.
pub(crate) fn remove(ty: Ty, value: Value, set: &FieldSet) -> Value {
    match (ty.atom().deduce(Some(&value)).shape(), value) {
        (Some(Shape::Scalar(_)), value) => value,
        (Some(Shape::List(list)), Value::Array(items)) => remove_items(&list, items, set),
        (Some(Shape::Map(map)), Value::Object(fields)) => remove_fields(&map, fields, set),
        _ => Value::Null,
    }
}

fn remove_items(list: &List, items: Vec<Value>, set: &FieldSet) -> Value {
    if matches!(list.kind, ListKind::Atomic) {
        return Value::Null;
    }
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        let place = item_element(list, &item).ok().and_then(|element| set.find(&element).ok());
        match place.map(|place| &set.entries[place]) {
            None => out.push(item),
            Some(entry) if entry.member => {}
            Some(entry) => out.push(remove(list.element, item, &entry.children)),
        }
    }
    if out.is_empty() { Value::Null } else { Value::Array(out) }
}

fn remove_fields(map: &MapType, fields: Map<String, Value>, set: &FieldSet) -> Value {
    if map.atomic {
        return Value::Null;
    }
    let mut out = Map::new();
    for (name, value) in fields {
        let element = PathElement::Field(name);
        let entry = set.find(&element).ok().map(|place| &set.entries[place]);
        let PathElement::Field(name) = element else { continue };
        match entry {
            None => {
                out.insert(name, value);
            }
            Some(entry) if entry.member => {}
            Some(entry) => {
                let below = remove(map.field(&name), value, &entry.children);
                out.insert(name, below);
            }
        }
    }
    if out.is_empty() { Value::Null } else { Value::Object(out) }
}
