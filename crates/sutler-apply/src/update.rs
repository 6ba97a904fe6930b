//! Who owns what after a create, an update, or a patch other than apply.

use serde_json::Value;
use sutler_schema::node::Node;

use crate::{
    engine::{self, Scope, Settled, UPDATERS_MOST},
    managed::{self, Given, Managed, ManagerId, Operation, Owned},
    time, typed,
};

/// What is known about a write.
#[derive(Debug, Clone, Copy)]
pub struct Track<'a> {
    /// The object as it was; none on create.
    pub old: Option<&'a Value>,
    /// The schema of the kind.
    pub node: &'a Node,
    /// Who writes; see [`managed::manager_name`].
    pub manager: &'a str,
    /// The version in which the request came.
    pub api_version: &'a str,
    /// The subresource written to; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the request, RFC 3339.
    pub now: &'a str,
    /// Paths that this endpoint does not write, whatever the request says.
    pub reset: &'a [&'a [&'a str]],
    /// The kind's [zero object](crate::zero); none for custom resources.
    pub zero: Option<&'a Value>,
}

/// Sets `metadata.managedFields` of `new`, the object as the request wants it: decoded and
/// defaulted, before the server resets or generates anything.
///
/// An object that does not fit its schema is left without managed fields: it is refused later, or
/// was stored under another schema.
pub fn track(new: &mut Value, track: &Track) {
    let managed = managed_after(new, track).unwrap_or_default();
    managed.store(new);
}

fn managed_after(new: &mut Value, track: &Track) -> Option<Managed> {
    let stored = track.old.filter(|old| engine::is_stored(old));
    let old_managed = || track.old.and_then(|old| Managed::of_object(old).ok()).unwrap_or_default();
    // The managed fields of a request to a subresource are those of another object.
    let managed = if track.subresource.is_empty() {
        match managed::given(new, track.zero.is_none()) {
            Given::Reset => Managed::default(),
            Given::Managed(managed) => managed,
            Given::Absent => old_managed(),
        }
    } else {
        old_managed()
    };
    managed::remove_from(new);
    if managed.entries.is_empty() && stored.is_some() {
        // Not tracked until the first apply.
        return Some(managed);
    }
    let scope = Scope::new(track.node, track.api_version, track.reset);
    let blank;
    let old = match track.old {
        Some(old) => old,
        None => {
            blank = engine::blank(track.zero, new);
            &blank
        }
    };
    let id = ManagerId::new(track.manager, Operation::Update, track.api_version, track.subresource);
    update(&scope, old, new, managed, id, track.now)
}

/// The managers after `id` changed the object from `old` to `new`; none if one of them does not
/// fit the schema.
pub(crate) fn update(
    scope: &Scope,
    old: &Value,
    new: &Value,
    mut managed: Managed,
    id: ManagerId,
    now: &str,
) -> Option<Managed> {
    for object in [old, new] {
        if !typed::validate(scope.ty, object, true).is_empty() {
            return None;
        }
    }
    scope.reconcile(&mut managed);
    let Ok(Settled::Done(comparison)) = scope.settle(old, new, &mut managed, None, true) else {
        return None;
    };
    let mut fields = comparison.into_set();
    engine::strip(&mut fields);
    if !fields.is_empty() {
        let fields = match managed.entries.remove(&id) {
            Some(before) => fields.join(before.fields),
            None => fields,
        };
        let owned =
            Owned { api_version: scope.api_version.to_owned(), fields, time: time::parse(now) };
        managed.entries.insert(id, owned);
    }
    managed.cap_updaters(UPDATERS_MOST);
    Some(managed)
}

/// Whether a write changes nothing but the times of managed fields. Such a write is not one: the
/// object keeps its times and its resource version.
pub fn is_noop_besides_timestamps(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
    same_but(old, new, &[], |name, old, new| match (name, old, new) {
        ("metadata", Value::Object(old), Value::Object(new)) => {
            same_but(old, new, &["resourceVersion"], |name, old, new| match name {
                "managedFields" => same_managers(old, new),
                _ => old == new,
            })
        }
        _ => old == new,
    })
}

fn same_managers(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else { return old == new };
    old.len() == new.len()
        && old.iter().zip(new).all(|pair| match pair {
            (Value::Object(old), Value::Object(new)) => {
                same_but(old, new, &["time"], |_, old, new| old == new)
            }
            (old, new) => old == new,
        })
}

type Fields = serde_json::Map<String, Value>;

/// Whether two maps have the same fields, apart from some, with `same` values.
fn same_but(
    old: &Fields,
    new: &Fields,
    ignored: &[&str],
    same: impl Fn(&str, &Value, &Value) -> bool,
) -> bool {
    let counts = |map: &Fields| map.keys().filter(|key| !ignored.contains(&key.as_str())).count();
    counts(old) == counts(new)
        && old
            .iter()
            .filter(|(name, _)| !ignored.contains(&name.as_str()))
            .all(|(name, value)| new.get(name).is_some_and(|other| same(name, value, other)))
}

#[cfg(test)]
mod tests;
