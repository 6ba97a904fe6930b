//! Which old value a new one is compared with: fields by name, items of list maps by their keys,
//! items of other lists not at all.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use serde_json::Value;

use crate::{
    node::{ListType, Node, Type},
    text::go_quote,
};

/// The items of an old list map, by key.
pub(crate) struct OldItems<'v> {
    keys: &'v [String],
    items: HashMap<Cow<'v, str>, &'v Value>,
}

impl<'v> OldItems<'v> {
    /// The items of `old`, or nothing where items do not correlate.
    pub(crate) fn of(node: &'v Node, old: Option<&'v Value>) -> Option<Self> {
        let ListType::Map(keys) = &node.list_type else { return None };
        let old = old?.as_array().filter(|_| node.ty == Type::Array)?;
        let mut items = HashMap::with_capacity(old.len());
        for item in old {
            if let Some(key) = key_of(keys, item) {
                // Of several with one key, the first counts.
                items.entry(key).or_insert(item);
            }
        }
        Some(Self { keys, items })
    }

    /// The old item that has the keys of `item`.
    pub(crate) fn get(&self, item: &Value) -> Option<&'v Value> {
        self.items.get(&key_of(self.keys, item)?).copied()
    }
}

/// A text that is equal for items of equal keys; nothing when a key is missing or no scalar.
fn key_of<'v>(keys: &[String], item: &'v Value) -> Option<Cow<'v, str>> {
    let item = item.as_object()?;
    if let [key] = keys
        && let Some(Value::String(text)) = item.get(key)
    {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::new();
    for key in keys {
        out.push('\0');
        match item.get(key)? {
            Value::String(text) => out.push_str(&go_quote(text)),
            value @ (Value::Bool(_) | Value::Number(_)) => {
                write!(out, "{value}").expect("writing to a string cannot fail");
            }
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        }
    }
    Some(Cow::Owned(out))
}

/// Whether `new` equals the old value it correlates with; list maps may be reordered.
pub(crate) fn unchanged(new: &Value, old: &Value, node: &Node) -> bool {
    match (new, old) {
        (Value::Array(new_items), Value::Array(old_items)) => {
            if new_items.len() != old_items.len() {
                return false;
            }
            match (OldItems::of(node, Some(old)), &node.items) {
                (Some(index), Some(item_node)) => new_items
                    .iter()
                    .all(|item| index.get(item).is_some_and(|old| unchanged(item, old, item_node))),
                _ => new == old,
            }
        }
        (Value::Object(new_fields), Value::Object(old_fields)) => {
            new_fields.len() == old_fields.len()
                && new_fields.iter().all(|(name, field)| {
                    match (old_fields.get(name), node.field(name)) {
                        (Some(old), Some(node)) => unchanged(field, old, node),
                        _ => false,
                    }
                })
        }
        _ => new == old,
    }
}
