//! Merging an applied configuration into the live object.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

use super::{Problem, item_element};
use crate::{
    fieldset::PathElement,
    schema::{List, ListKind, MapType, Shape, Ty},
};

/// The live value with everything that the configuration sets. Nothing is removed.
pub(crate) fn merge(ty: Ty, live: &Value, config: &Value) -> Result<Value, Problem> {
    Ok(walk(ty, Some(live), Some(config))?.unwrap_or(Value::Null))
}

fn walk(ty: Ty, left: Option<&Value>, right: Option<&Value>) -> Result<Option<Value>, Problem> {
    let atom = ty.atom();
    let atom = if right.is_none() { atom.deduce(left) } else { atom.deduce(right) };
    match atom.shape() {
        None => Err(Problem::new("schema error: invalid atom: inlined")),
        Some(Shape::Scalar(_)) => Ok(keep(left, right)),
        Some(Shape::List(list)) => {
            let lefts = left.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let rights = right.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            if matches!(list.kind, ListKind::Atomic) || (lefts.is_empty() && rights.is_empty()) {
                return Ok(keep(left, right));
            }
            let items = merge_items(&list, lefts, rights)?;
            Ok((!items.is_empty()).then_some(Value::Array(items)))
        }
        Some(Shape::Map(map)) => {
            let lefts = left.and_then(Value::as_object);
            let rights = right.and_then(Value::as_object);
            let empty = lefts.is_none_or(Map::is_empty) && rights.is_none_or(Map::is_empty);
            if map.atomic || empty {
                return Ok(keep(left, right));
            }
            let fields = merge_fields(&map, lefts, rights)?;
            Ok((!fields.is_empty()).then_some(Value::Object(fields)))
        }
    }
}

fn keep(left: Option<&Value>, right: Option<&Value>) -> Option<Value> {
    right.or(left).cloned()
}

fn merge_fields(
    map: &MapType,
    left: Option<&Map<String, Value>>,
    right: Option<&Map<String, Value>>,
) -> Result<Map<String, Value>, Problem> {
    let mut out = Map::new();
    let mut visit = |name: &String, l: Option<&Value>, r: Option<&Value>| {
        let merged = walk(map.field(name), l, r)
            .map_err(|problem| problem.under(&PathElement::field(name)))?;
        if let Some(merged) = merged {
            out.insert(name.clone(), merged);
        }
        Ok(())
    };
    for (name, l) in left.into_iter().flatten() {
        visit(name, Some(l), right.and_then(|right| right.get(name)))?;
    }
    for (name, r) in right.into_iter().flatten() {
        if left.is_none_or(|left| !left.contains_key(name)) {
            visit(name, None, Some(r))?;
        }
    }
    Ok(out)
}

/// The identities of a list's items, in order, and the value of each.
type Indexed<'a> = (Vec<PathElement>, BTreeMap<PathElement, &'a Value>);

/// Items that are there twice are not merged with: they stand for null.
fn index<'a>(list: &List, items: &'a [Value], twice: bool) -> Result<Indexed<'a>, Problem> {
    let mut elements = Vec::with_capacity(items.len());
    let mut values = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        let element = item_element(list, item)
            .map_err(|reason| Problem::new(format!("element {i}: {reason}")))?;
        if values.insert(element.clone(), item).is_some() {
            if !twice {
                return Err(Problem::new(format!("duplicate entries for key {element}")));
            }
            values.insert(element.clone(), &Value::Null);
        }
        elements.push(element);
    }
    Ok((elements, values))
}

/// Shared items come in the order of the configuration; items that only the live list has stay
/// near the shared items they stood beside.
fn merge_items(list: &List, left: &[Value], right: &[Value]) -> Result<Vec<Value>, Problem> {
    let (rights, right_values) = index(list, right, false)?;
    let (lefts, left_values) = index(list, left, true)?;
    let mut shared: VecDeque<&PathElement> =
        rights.iter().filter(|element| left_values.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged = std::collections::BTreeSet::new();
    let mut out = Vec::with_capacity(lefts.len().max(rights.len()));
    let mut take = |l: Option<&Value>, r: Option<&Value>| {
        // A problem below an item leaves the item out; both sides were validated before.
        if let Ok(Some(item)) = walk(list.element, l, r) {
            out.push(item);
        }
    };
    let (mut i, mut j) = (0, 0);
    while i < lefts.len() || j < rights.len() {
        if let (Some(l), Some(r)) = (lefts.get(i), rights.get(j)) {
            if l == r {
                merged.insert(l);
                take(left_values.get(l).copied(), right_values.get(l).copied());
                i += 1;
                j += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if right_values.contains_key(l) && next_shared.is_some_and(|next| next != l) {
                // Shared, but its turn has not come.
                i += 1;
                continue;
            }
        }
        if let Some(l) = lefts.get(i) {
            if !right_values.contains_key(l) {
                take(Some(&left[i]), None);
                i += 1;
                continue;
            }
            if merged.contains(l) {
                i += 1;
            }
        }
        if let Some(r) = rights.get(j) {
            merged.insert(r);
            take(left_values.get(r).copied(), right_values.get(r).copied());
            j += 1;
            if next_shared == Some(r) {
                next_shared = shared.pop_front();
            }
        }
    }
    Ok(out)
}
