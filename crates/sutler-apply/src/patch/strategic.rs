//! Strategic merge patch, as the server applies it: lists are merged where the schema says so, and
//! directives in the patch delete, replace and order.

use std::collections::HashSet;

use serde_json::{Map, Value};
use sutler_schema::node::Node;

use super::{
    PatchError,
    order::{self, Identity},
};
use crate::value;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;

/// Applies the patch. The document may be half-changed after an error.
pub fn strategic(doc: &mut Value, patch: &Value, node: &Node) -> Result<(), PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => return Ok(()),
        other => {
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                super::json::json_kind(other)
            )));
        }
    };
    let original = match doc.take() {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    };
    *doc = Value::Object(merge_map(original, patch, Some(node))?);
    Ok(())
}

fn internal(text: impl Into<String>) -> PatchError {
    PatchError::Internal(text.into())
}

fn bad(text: &str) -> PatchError {
    PatchError::BadRequest(text.to_owned())
}

fn wrong_type(expected: &str, found: &Value) -> PatchError {
    internal(format!("expected a {expected}, but received a {}", value::type_name(found)))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    internal(format!("map: {} does not contain declared merge key: {key}", value::printed(item)))
}

/// The schema of a field, where its parent is a struct.
fn lookup<'a>(node: Option<&'a Node>, field: &str) -> Result<&'a Node, PatchError> {
    let node = node.ok_or_else(|| {
        internal("merging an object in json but data type is not struct, instead is: map")
    })?;
    if node.properties.is_empty() {
        return Err(internal(
            "merging an object in json but data type is not struct, instead is: map",
        ));
    }
    node.properties.get(field).map(|field| &**field).ok_or_else(|| {
        internal(format!(
            "unable to find api field in struct {} for the json field {}",
            node.name.as_deref().unwrap_or_default(),
            value::quoted(field)
        ))
    })
}

fn merge_map(
    mut original: Fields,
    mut patch: Fields,
    node: Option<&Node>,
) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => {
                let directive = value::printed(directive);
                let patch = value::printed(&Value::Object(patch));
                Err(internal(format!("unknown patch type: {directive} in map: {patch}")))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    apply_orders(&mut original, &mut patch, node)?;
    for (key, change) in patch {
        let (key, is_delete_list) = match key.strip_prefix(DELETE_FROM) {
            None => (key, false),
            Some(rest) => match rest.strip_prefix('/') {
                Some(field) => (field.to_owned(), true),
                None => return Err(bad("invalid patch format of primitive list")),
            },
        };
        if change.is_null() {
            original.remove(&key);
            continue;
        }
        let before = match original.remove(&key) {
            Some(before) if same_type(&before, &change) => before,
            other => {
                // Nothing to merge with: the patch's value is taken.
                if is_delete_list {
                    original.extend(other.map(|before| (key, before)));
                } else {
                    let mut change = change;
                    discard_nulls(&mut change);
                    original.extend(without_directives(change).map(|value| (key, value)));
                }
                continue;
            }
        };
        let merged = match (before, change) {
            (Value::Object(before), Value::Object(change)) => {
                let field = lookup(node, &key)?;
                if field.patch.replace {
                    Some(Value::Object(change))
                } else {
                    Some(Value::Object(merge_map(before, change, Some(field))?))
                }
            }
            (Value::Array(before), Value::Array(change)) => {
                let field = lookup(node, &key)?;
                Some(Value::Array(merge_list(before, change, field, is_delete_list)?.items))
            }
            (_, change) => without_directives(change),
        };
        original.extend(merged.map(|value| (key, value)));
    }
    Ok(original)
}

/// Types as Go tells them apart: integers and other numbers are two.
fn same_type(left: &Value, right: &Value) -> bool {
    value::type_name(left) == value::type_name(right)
}

/// `$retainKeys`: fields that the directive does not name are cleared.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || bad("invalid patch format of retainKeys");
    let keys: HashSet<&str> =
        keys.as_array().ok_or_else(malformed)?.iter().filter_map(Value::as_str).collect();
    for (name, change) in &*patch {
        let directive = name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        if !change.is_null() && !directive && !keys.contains(name.as_str()) {
            return Err(malformed());
        }
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// `$setElementOrder/x`: merges the list together with its patch, and puts it into this order.
fn apply_orders(
    original: &mut Fields,
    patch: &mut Fields,
    node: Option<&Node>,
) -> Result<(), PatchError> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::Array(order) = order else {
            return Err(wrong_type("[]interface {}", &order));
        };
        let field = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let field = field.ok_or_else(|| bad("invalid patch format of setElementOrder list"))?;
        let list = |found: Option<&Value>| match found {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(other) => Err(wrong_type("[]interface {}", other)),
        };
        let before = list(original.get(field))?;
        let change = list(patch.get(field))?;
        let schema = lookup(node, field)?;
        let key = schema.patch.merge_key.as_deref();
        check_order(change.as_deref().unwrap_or_default(), &order, key)?;
        let mut server_order = before.clone().unwrap_or_default();
        let is_map = match (&before, &change) {
            (None, None) => continue,
            (before, change) => is_map_list(
                before.as_deref().unwrap_or_default(),
                change.as_deref().unwrap_or_default(),
            ),
        };
        let merged = match (before, change) {
            (Some(before), None) => before,
            (None, Some(change)) => match without_directives(Value::Array(change)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(before), Some(change)) => {
                let merged = merge_list(before, change, schema, false)?;
                server_order = merged.server_order.unwrap_or(server_order);
                merged.items
            }
            (None, None) => continue,
        };
        let (identity, named_by_key) = (Identity { key }, key.is_some());
        if let Some(key) = key {
            require_key(&merged, key)?;
        }
        let (named, server_only) = order::partition(merged, &order, identity);
        if is_map? && let Some(key) = key {
            require_key(&order, key)?;
            require_key(&server_order, key)?;
        }
        let identity = if named_by_key { identity } else { Identity { key: None } };
        let items = order::normalize(named, server_only, &order, &server_order, identity);
        original.insert(field.to_owned(), Value::Array(items));
        patch.remove(field);
    }
    Ok(())
}

/// The items of the patch must come in the given order, and none may be missing from it.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut items = Vec::with_capacity(patch.len());
    for item in patch {
        if key.is_some() && !item.is_object() {
            return Err(wrong_type("map[string]interface {}", item));
        }
        let deleted = item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
        if key.is_none() || !deleted {
            items.push(item);
        }
    }
    let identity = |item: &Value| match key {
        None => Ok(item.clone()),
        Some(key) => match item.as_object() {
            None => Err(wrong_type("map[string]interface {}", item)),
            Some(map) => map.get(key).cloned().ok_or_else(|| no_merge_key(item, key)),
        },
    };
    // Other directives are passed over, but not once the order has come to its end.
    let (mut next, mut place) = (0, 0);
    while next < items.len() && place < order.len() {
        if items[next].get(DIRECTIVE).is_some() {
            next += 1;
            continue;
        }
        if identity(items[next])? == identity(&order[place])? {
            next += 1;
        }
        place += 1;
    }
    if next < items.len() {
        return Err(internal(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            value::printed(&Value::Array(patch.to_vec())),
            value::printed(&Value::Array(order.to_vec()))
        )));
    }
    Ok(())
}

/// A merged list.
struct Merged {
    items: Vec<Value>,
    /// The order of the live list for what comes after: where items were deleted, new ones have
    /// taken their places.
    server_order: Option<Vec<Value>>,
}

impl From<Vec<Value>> for Merged {
    fn from(items: Vec<Value>) -> Self {
        Self { items, server_order: None }
    }
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    schema: &Node,
    is_delete_list: bool,
) -> Result<Merged, PatchError> {
    if !schema.patch.merge && !is_delete_list {
        return Ok(patch.into());
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original.into());
    }
    if !is_map_list(&original, &patch)? {
        return Ok(merge_scalars(original, patch, is_delete_list).into());
    }
    let Some(key) = schema.patch.merge_key.as_deref() else {
        return Err(internal("cannot merge lists without merge key for struct"));
    };
    let count = original.len();
    let Special { original, patch, replaced } = special_items(original, patch, key)?;
    require_key(&patch, key)?;
    let only_keys =
        |items: &[Value]| items.iter().map(|item| only_key(item, key)).collect::<Vec<Value>>();
    let (kept_order, patch_order) = (only_keys(&original), only_keys(&patch));
    let base = replaced.unwrap_or(original);
    let base_count = base.len();
    let base_order = only_keys(&base);
    let merged = merge_items(base, patch, key, schema.items.as_deref())?;
    require_key(&merged, key)?;
    let mut server_order = kept_order;
    let freed = count - server_order.len();
    server_order.extend(only_keys(&merged[base_count..]).into_iter().take(freed));
    let identity = Identity { key: Some(key) };
    let (named, server_only) = order::partition(merged, &patch_order, identity);
    require_key(&base_order, key)?;
    let items = order::normalize(named, server_only, &patch_order, &base_order, identity);
    Ok(Merged { items, server_order: Some(server_order) })
}

fn merge_scalars(original: Vec<Value>, patch: Vec<Value>, is_delete_list: bool) -> Vec<Value> {
    if is_delete_list {
        let gone: HashSet<&Value> = patch.iter().collect();
        return original.into_iter().filter(|item| !gone.contains(item)).collect();
    }
    let mut seen: HashSet<&Value> = HashSet::with_capacity(original.len() + patch.len());
    let all = original.iter().chain(&patch);
    let merged: Vec<Value> = all.filter(|item| seen.insert(item)).cloned().collect();
    let identity = Identity { key: None };
    let (named, server_only) = order::partition(merged, &patch, identity);
    order::normalize(named, server_only, &patch, &original, identity)
}

/// The item with no more than its identity.
fn only_key(item: &Value, key: &str) -> Value {
    let mut map = Fields::new();
    if let Some(value) = item.get(key) {
        map.insert(key.to_owned(), value.clone());
    }
    Value::Object(map)
}

fn require_key(items: &[Value], key: &str) -> Result<(), PatchError> {
    for item in items {
        match item.as_object() {
            None => return Err(wrong_type("map[string]interface {}", item)),
            Some(map) if !map.contains_key(key) => return Err(no_merge_key(item, key)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Whether the items are objects. All must be of one type, and none a list.
fn is_map_list(original: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(internal("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(PatchError::Unprocessable("lists of lists are not supported".into()));
    }
    if items.any(|item| !same_type(first, item)) {
        let lists = Value::Array(vec![original.to_vec().into(), patch.to_vec().into()]);
        return Err(internal(format!(
            "list element types are not identical: {}",
            value::printed(&lists)
        )));
    }
    Ok(first.is_object())
}

/// What is left once directives are carried out.
struct Special {
    /// The items that were not deleted.
    original: Vec<Value>,
    /// The items that are not directives.
    patch: Vec<Value>,
    /// The items to take instead of the original ones.
    replaced: Option<Vec<Value>>,
}

/// Carries out the items of the patch that are directives, and takes them out of it.
fn special_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<Special, PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut gone: HashSet<Value> = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => match item.get(key) {
                Some(identity) => {
                    gone.insert(identity.clone());
                }
                None => return Err(no_merge_key(&item, key)),
            },
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(internal("merging lists cannot yet be specified in the patch"));
            }
            _ => {
                return Err(internal(format!(
                    "unknown patch type: {} in map: {}",
                    value::printed(directive),
                    value::printed(&item)
                )));
            }
        }
    }
    original.retain(|item| item.get(key).is_none_or(|identity| !gone.contains(identity)));
    if replace {
        return Ok(Special { original, patch: Vec::new(), replaced: Some(rest) });
    }
    Ok(Special { original, patch: rest, replaced: None })
}

fn merge_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    item_schema: Option<&Node>,
) -> Result<Vec<Value>, PatchError> {
    let mut places: std::collections::HashMap<Value, usize> = std::collections::HashMap::new();
    for (i, item) in original.iter().enumerate() {
        if let Some(identity) = item.get(key) {
            places.entry(identity.clone()).or_insert(i);
        }
    }
    for change in patch {
        let identity = change.get(key).cloned().unwrap_or(Value::Null);
        match (places.get(&identity), change) {
            (Some(&place), Value::Object(change)) => {
                let before = match original[place].take() {
                    Value::Object(before) => before,
                    _ => Fields::new(),
                };
                original[place] = Value::Object(merge_map(before, change, item_schema)?);
            }
            (_, change) => {
                places.entry(identity).or_insert(original.len());
                original.push(change);
            }
        }
    }
    Ok(original)
}

/// The value without objects that carry a directive; none if it is one.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return None;
            }
            let kept = fields
                .into_iter()
                .filter_map(|(name, value)| without_directives(value).map(|value| (name, value)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().filter_map(without_directives).collect())
        }
        other => other,
    })
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
