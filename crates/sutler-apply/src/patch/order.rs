//! The order of merged lists: what the patch names comes in the patch's order, what only the server
//! has stays where it stood as far as that is possible.

use std::collections::HashMap;

use serde_json::Value;

/// By what the items of a list are told apart: the value of a key, or the item itself.
#[derive(Clone, Copy)]
pub(super) struct Identity<'a> {
    /// None for lists of scalars.
    pub(super) key: Option<&'a str>,
}

impl<'a> Identity<'a> {
    pub(super) fn of<'v>(&self, item: &'v Value) -> &'v Value {
        match self.key {
            Some(key) => item.get(key).unwrap_or(&Value::Null),
            None => item,
        }
    }

    /// The first place of each identity.
    pub(super) fn places<'v>(&self, items: &'v [Value]) -> HashMap<&'v Value, usize> {
        let mut places = HashMap::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            places.entry(self.of(item)).or_insert(i);
        }
        places
    }
}

/// Splits the items by whether the list names them.
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    identity: Identity,
) -> (Vec<Value>, Vec<Value>) {
    let named = identity.places(by);
    items.into_iter().partition(|item| named.contains_key(identity.of(item)))
}

/// Sorts the patch's items and the server's own, and joins them.
pub(super) fn normalize(
    patch: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    identity: Identity,
) -> Vec<Value> {
    let patch = sort(patch, patch_order, identity);
    let server_only = sort(server_only, server_order, identity);
    let places = identity.places(server_order);
    let place = |item: &Value| places.get(identity.of(item)).copied();

    let mut out = Vec::with_capacity(patch.len() + server_only.len());
    let mut lefts = server_only.into_iter().peekable();
    let mut rights = patch.into_iter().peekable();
    loop {
        let left_first = match (lefts.peek(), rights.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => match (place(left), place(right)) {
                (Some(left), Some(right)) => left < right,
                _ => false,
            },
        };
        out.extend(if left_first { lefts.next() } else { rights.next() });
    }
}

fn sort(mut items: Vec<Value>, order: &[Value], identity: Identity) -> Vec<Value> {
    let places = identity.places(order);
    let place = |item: &Value| places.get(identity.of(item)).copied();
    // Items marked for deletion go last.
    let deleted = |item: &Value| {
        identity.key.is_some() && item.get("$patch").and_then(Value::as_str) == Some("delete")
    };
    let (mut kept, mut last) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items.drain(..) {
        if deleted(&item) { last.push(item) } else { kept.push(item) }
    }
    if kept.iter().all(|item| place(item).is_some()) {
        kept.sort_by_key(|item| place(item));
    } else {
        // An item that the order does not name sorts before all that stand in front of it.
        let mut sorted: Vec<Value> = Vec::with_capacity(kept.len());
        for item in kept {
            let at = place(&item);
            let mut to = sorted.len();
            while to > 0 {
                let before = at.zip(place(&sorted[to - 1]));
                if before.is_none_or(|(at, other)| at < other) { to -= 1 } else { break }
            }
            sorted.insert(to, item);
        }
        kept = sorted;
    }
    kept.append(&mut last);
    kept
}
