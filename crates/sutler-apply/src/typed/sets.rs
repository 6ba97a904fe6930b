//! Sets of paths in the light of the schema.

use std::collections::BTreeMap;

use serde_json::Value;

use super::item_element;
use crate::{
    fieldset::{FieldSet, PathElement},
    schema::{List, ListKind, MapType, Shape, Ty},
};

/// Every leaf and item that the value mentions.
pub(crate) fn field_set(ty: Ty, value: &Value) -> FieldSet {
    let mut out = FieldSet::new();
    collect(ty, value, &mut out);
    out
}

/// Adds what is below the value to `out`; true if the value itself is a member.
fn collect(ty: Ty, value: &Value, out: &mut FieldSet) -> bool {
    match ty.atom().deduce(Some(value)).shape() {
        None => false,
        Some(Shape::Scalar(_)) => true,
        Some(Shape::List(list)) => {
            if matches!(list.kind, ListKind::Atomic) {
                return true;
            }
            collect_items(&list, value, out);
            false
        }
        Some(Shape::Map(map)) => {
            if map.atomic {
                return true;
            }
            collect_fields(&map, value, out);
            false
        }
    }
}

fn collect_items(list: &List, value: &Value, out: &mut FieldSet) {
    let mut items: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in value.as_array().into_iter().flatten() {
        if let Ok(element) = item_element(list, item) {
            items.entry(element).or_default().push(item);
        }
    }
    for (element, values) in &items {
        let mut below = FieldSet::new();
        // Items that are there twice are owned together, without their parts.
        if let [value] = values.as_slice() {
            collect(list.element, value, &mut below);
        }
        out.push(element, true, below);
    }
}

fn collect_fields(map: &MapType, value: &Value, out: &mut FieldSet) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let named = map.named(name);
        let mut below = FieldSet::new();
        let leaf = collect(named.unwrap_or(map.element), value, &mut below);
        let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        out.push(&PathElement::field(name), leaf || empty || named.is_none(), below);
    }
}

/// The set with every named field that leads to a member as a member too.
pub(crate) fn ensure_named(ty: Ty, set: &FieldSet) -> FieldSet {
    let atom = ty.atom();
    let mut out = FieldSet { entries: Vec::with_capacity(set.entries.len()) };
    for entry in &set.entries {
        let mut member = entry.member;
        let below = match (&entry.element, &atom.map, &atom.list) {
            (PathElement::Field(name), Some(map), _) => {
                let named = map.named(name);
                member |= named.is_some() && !entry.children.is_empty();
                named.unwrap_or(map.element)
            }
            (PathElement::Key(_), _, Some(list)) => list.element,
            _ => Ty::Undeclared,
        };
        out.push(&entry.element, member, ensure_named(below, &entry.children));
    }
    out
}

/// Adapts a set that was written under an older schema: where a value is atomic now, its parts
/// are owned as a whole.
pub(crate) fn reconcile(ty: Ty, set: &mut FieldSet) {
    let list_or_map = match ty.atom().shape() {
        None | Some(Shape::Scalar(_)) => return,
        Some(shape) => shape,
    };
    for entry in &mut set.entries {
        let below = match list_or_map {
            Shape::Map(map) if map.is_deduced() => return,
            Shape::Map(map) => match &entry.element {
                PathElement::Field(name) => map.field(name),
                _ => map.element,
            },
            Shape::List(list) => list.element,
            Shape::Scalar(_) => return,
        };
        if entry.children.is_empty() || matches!(below, Ty::Undeclared) {
            continue;
        }
        let atomic = match below.atom().shape() {
            Some(Shape::Map(map)) => map.atomic && !map.is_deduced(),
            Some(Shape::List(list)) => matches!(list.kind, ListKind::Atomic),
            _ => false,
        };
        if atomic {
            entry.member = true;
            entry.children = FieldSet::new();
        } else {
            reconcile(below, &mut entry.children);
        }
    }
}
