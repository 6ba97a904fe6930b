//! The rules of ownership, common to apply and update.

use std::collections::BTreeMap;

use serde_json::Value;
use sutler_schema::node::Node;

use crate::{
    fieldset::FieldSet,
    managed::{Managed, ManagerId},
    schema::Ty,
    typed::{self, Comparison, Problem},
};

/// How many updaters an object keeps by name.
pub(crate) const UPDATERS_MOST: usize = 10;

/// What both operations need to know of the request.
pub(crate) struct Scope<'a> {
    pub(crate) ty: Ty<'a>,
    pub(crate) api_version: &'a str,
    /// Fields that this endpoint does not write.
    pub(crate) ignored: FieldSet,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(node: &'a Node, api_version: &'a str, reset: &[&[&str]]) -> Self {
        Self { ty: Ty::root(node), api_version, ignored: FieldSet::of_fields(reset) }
    }

    /// Drops the managers that used a version of another group, and adapts the others to the
    /// schema.
    pub(crate) fn reconcile(&self, managed: &mut Managed) {
        let group = group_of(self.api_version);
        managed.entries.retain(|_, owned| group_of(&owned.api_version) == group);
        for owned in managed.entries.values_mut() {
            typed::reconcile(self.ty, &mut owned.fields);
        }
    }

    /// What a change from one object to the other does to everybody but `own`: fields that others
    /// own and that are changed are conflicts. Without `force`, conflicts are returned and nothing
    /// is done; else the others lose these fields, and those that are gone.
    pub(crate) fn settle(
        &self,
        old: &Value,
        new: &Value,
        managed: &mut Managed,
        own: Option<&ManagerId>,
        force: bool,
    ) -> Result<Settled, Problem> {
        let comparison = typed::compare(self.ty, old, new)?.without(&self.ignored);
        if managed.entries.is_empty() {
            return Ok(Settled::Done(comparison));
        }
        let set = comparison.set();
        let mut conflicts = BTreeMap::new();
        for (id, owned) in &managed.entries {
            if Some(id) != own {
                let conflict = owned.fields.intersection(&set);
                if !conflict.is_empty() {
                    conflicts.insert(id.clone(), conflict);
                }
            }
        }
        if !force && !conflicts.is_empty() {
            return Ok(Settled::Conflicts(conflicts));
        }
        for (id, owned) in &mut managed.entries {
            if let Some(conflict) = conflicts.get(id) {
                owned.fields = owned.fields.difference(conflict);
            }
            if Some(id) != own && !comparison.removed.is_empty() {
                owned.fields = owned.fields.difference(&comparison.removed);
            }
        }
        managed.entries.retain(|_, owned| !owned.fields.is_empty());
        Ok(Settled::Done(comparison))
    }
}

/// The outcome of [`Scope::settle`].
pub(crate) enum Settled {
    Conflicts(BTreeMap<ManagerId, FieldSet>),
    Done(Comparison),
}

/// Fields that nobody owns: they are the server's, or identify the object.
pub(crate) fn strip(fields: &mut FieldSet) {
    static NEVER_OWNED: std::sync::LazyLock<FieldSet> = std::sync::LazyLock::new(|| {
        FieldSet::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    fields.subtract(&NEVER_OWNED);
}

/// Whether the object has been stored, as opposed to being created now.
pub(crate) fn is_stored(object: &Value) -> bool {
    let uid = object.get("metadata").and_then(|metadata| metadata.get("uid"));
    uid.and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

/// The object that is compared with on create: the kind's zero object, or no more than the type.
pub(crate) fn blank(zero: Option<&Value>, object: &Value) -> Value {
    if let Some(zero) = zero {
        return zero.clone();
    }
    let mut blank = serde_json::Map::new();
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            blank.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(blank)
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
