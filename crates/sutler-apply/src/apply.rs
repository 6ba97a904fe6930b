//! Server-side apply: merging what a manager wants into the live object.

use std::collections::BTreeMap;

use serde_json::Value;
use sutler_schema::node::Node;

use crate::{
    engine::{self, Scope, Settled},
    fieldset::{FieldSet, path_text},
    last_applied,
    managed::{self, Managed, ManagerId, Operation, Owned},
    time, typed, update, value,
};

/// One apply request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The stored object; none if it is to be created.
    pub live: Option<&'a Value>,
    /// What the manager wants, and nothing else.
    pub config: &'a Value,
    /// The schema of the kind.
    pub node: &'a Node,
    /// Who applies.
    pub manager: &'a str,
    /// The version of the endpoint.
    pub api_version: &'a str,
    /// The subresource written to; empty for the object itself.
    pub subresource: &'a str,
    /// Take fields from their managers instead of reporting conflicts.
    pub force: bool,
    /// The time of the request, RFC 3339.
    pub now: &'a str,
    /// Paths that this endpoint does not write: nobody comes to own them through it. The result
    /// still carries what the configuration says there, until the kind's strategy resets it.
    pub reset: &'a [&'a [&'a str]],
    /// The kind's [zero object](crate::zero); none for custom resources.
    pub zero: Option<&'a Value>,
}

/// A field that somebody else owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub manager: String,
    /// How that manager came to own it.
    pub operation: Operation,
    /// The version that manager used; empty for appliers.
    pub api_version: String,
    /// The subresource that manager wrote to.
    pub subresource: String,
    /// When that manager last took fields.
    pub time: Option<String>,
    /// The field: `.spec.a`.
    pub path: String,
}

impl Conflict {
    /// The message of the `FieldManagerConflict` cause.
    pub fn cause(&self) -> String {
        format!("conflict with {}", managed::describe(&self.id()))
    }

    fn id(&self) -> ManagerId {
        ManagerId {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.clone(),
        }
    }
}

/// Why an apply failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Others own fields that the configuration wants otherwise (409, reason `Conflict`, one
    /// `FieldManagerConflict` cause each).
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The request can never work (400, reason `BadRequest`).
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the schema, or the live object does not (500, no reason).
    #[error("{0}")]
    Internal(String),
}

/// The object after the request, with its managed fields. The caller defaults, validates and
/// stores it.
pub fn apply(request: &Request) -> Result<Value, Error> {
    let Request { config, node, api_version, .. } = *request;
    let managed = match request.live {
        Some(live) => Managed::of_object(live)
            .map_err(|e| Error::Internal(format!("failed to decode managed fields: {e}")))?,
        None => Managed::default(),
    };
    check(request)?;
    let scope = Scope::new(node, api_version, request.reset);
    let mut live = match request.live {
        Some(live) => live.clone(),
        None => engine::blank(request.zero, config),
    };
    managed::remove_from(&mut live);
    let managed = before_first_apply(request, &scope, &live, managed)?;

    let outcome = merge_and_settle(request, &scope, &live, managed.clone(), request.force);
    let (object, managed) = match outcome {
        // kubectl may take over what it owned by client-side apply.
        Err(Error::Conflict(conflicts)) if request.manager == "kubectl" => {
            match last_applied::unexplained(&scope, &live, &conflicts) {
                Some(rest) if rest.is_empty() => {
                    merge_and_settle(request, &scope, &live, managed, true)?
                }
                Some(rest) => return Err(Error::Conflict(rest)),
                None => return Err(Error::Conflict(conflicts)),
            }
        }
        other => other?,
    };
    let mut object = object.unwrap_or(live);
    if request.manager == "kubectl" {
        last_applied::refresh(&mut object, config);
    }
    // Metadata is a struct in every kind: what pruning left empty there is absent.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    managed.store(&mut object);
    Ok(object)
}

fn check(request: &Request) -> Result<(), Error> {
    let text = |object: &Value, name: &str| {
        object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (version, kind) = (text(request.config, "apiVersion"), text(request.config, "kind"));
    let live_kind = request.live.map(|live| text(live, "kind")).filter(|kind| !kind.is_empty());
    if version != request.api_version || live_kind.is_some_and(|live| live != kind) {
        let kind = type_text(&version, &kind);
        return Err(Error::BadRequest(format!("invalid object type: {kind}")));
    }
    if managed::is_given(request.config) {
        return Err(Error::BadRequest("metadata.managedFields must be nil".into()));
    }
    Ok(())
}

/// What stood in the object before anybody applied belongs to a manager of its own.
fn before_first_apply(
    request: &Request,
    scope: &Scope,
    live: &Value,
    managed: Managed,
) -> Result<Managed, Error> {
    if !managed.entries.is_empty() || request.live.is_none() {
        return Ok(managed);
    }
    let version = request.api_version;
    let id = ManagerId::new("before-first-apply", Operation::Update, version, request.subresource);
    let blank = engine::blank(request.zero, request.config);
    match update::update(scope, &blank, live, managed, id, request.now) {
        Some(managed) => Ok(managed),
        None => Err(live_error(scope, live)),
    }
}

/// The merged object, unless it is the live one, and its managers.
fn merge_and_settle(
    request: &Request,
    scope: &Scope,
    live: &Value,
    mut managed: Managed,
    force: bool,
) -> Result<(Option<Value>, Managed), Error> {
    let config = request.config;
    let problems = typed::validate(scope.ty, config, false);
    if !problems.is_empty() {
        return Err(Error::Internal(format!(
            "failed to create typed patch object ({}): {}",
            object_text(config),
            typed::problems_text(&problems)
        )));
    }
    if !typed::validate(scope.ty, live, true).is_empty() {
        return Err(live_error(scope, live));
    }
    let fail = |what: &str, problem| {
        Error::Internal(format!("failed to {what}: {}", typed::problems_text(&[problem])))
    };

    scope.reconcile(&mut managed);
    let merged = typed::merge(scope.ty, live, config).map_err(|p| fail("merge config", p))?;
    let id =
        ManagerId::new(request.manager, Operation::Apply, request.api_version, request.subresource);
    let last = managed.entries.get(&id).cloned();
    let mut fields = typed::field_set(scope.ty, config);
    fields.subtract_recursively(&scope.ignored);
    let owned = Owned {
        api_version: request.api_version.to_owned(),
        fields,
        time: last.as_ref().and_then(|last| last.time),
    };
    managed.entries.insert(id.clone(), owned);
    let object = match last {
        Some(last) => prune(scope, merged, &managed, &id, &last.fields),
        None => merged,
    };
    let settled = scope.settle(live, &object, &mut managed, Some(&id), force);
    match settled.map_err(|p| fail("compare objects", p))? {
        Settled::Conflicts(conflicts) => {
            return Err(Error::Conflict(list_conflicts(&conflicts, &managed)));
        }
        Settled::Done(_) => {}
    }
    let changed = !value::equals(live, &object);
    if let Some(owned) = managed.entries.get_mut(&id) {
        engine::strip(&mut owned.fields);
        if changed {
            owned.time = time::parse(request.now);
        }
        if owned.fields.is_empty() {
            managed.entries.remove(&id);
        }
    }
    Ok((changed.then_some(object), managed))
}

/// Removes what the manager applied last time, does not apply now, and nobody else owns.
fn prune(
    scope: &Scope,
    merged: Value,
    managed: &Managed,
    id: &ManagerId,
    last: &FieldSet,
) -> Value {
    let now = managed.entries.get(id).map(|owned| &owned.fields);
    if last.is_empty() || now.is_some_and(|now| last.difference(now).is_empty()) {
        return merged;
    }
    let ty = scope.ty;
    let ensure = |set: &FieldSet| typed::ensure_named(ty, set);
    let last = ensure(last);
    let merged_set = ensure(&typed::field_set(ty, &merged));
    let pruned = typed::remove(ty, merged.clone(), &last);

    // What anybody owns comes back.
    let mut owned = FieldSet::new();
    for entry in managed.entries.values() {
        owned = owned.union(&entry.fields);
    }
    let keep = ensure(&typed::field_set(ty, &pruned)).union(&ensure(&owned));
    let pruned = typed::remove(ty, merged.clone(), &merged_set.difference(&keep));

    // And so does what this manager did not apply itself.
    let pruned_set = ensure(&typed::field_set(ty, &pruned));
    typed::remove(ty, merged, &merged_set.difference(&pruned_set).intersection(&last))
}

fn list_conflicts(conflicts: &BTreeMap<ManagerId, FieldSet>, managed: &Managed) -> Vec<Conflict> {
    let mut managers: Vec<&ManagerId> = conflicts.keys().collect();
    managers.sort_by(|left, right| managed::by_key(left, right));
    let mut out = Vec::new();
    for id in managers {
        let time = managed.entries.get(id).and_then(|owned| owned.time).map(time::format);
        conflicts[id].each(&mut |path| {
            out.push(Conflict {
                manager: id.manager.clone(),
                operation: id.operation,
                api_version: id.api_version.clone(),
                subresource: id.subresource.clone(),
                time: time.clone(),
                path: path_text(path),
            });
        });
    }
    out
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", only.cause(), only.path);
    }
    let mut lines = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        let id = conflict.id();
        if last.as_ref() != Some(&id) {
            lines.push(format!("conflicts with {}:", managed::describe(&id)));
            last = Some(id);
        }
        lines.push(format!("- {}", conflict.path));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

fn live_error(scope: &Scope, live: &Value) -> Error {
    Error::Internal(format!(
        "failed to create typed live object ({}): {}",
        object_text(live),
        typed::problems_text(&typed::validate(scope.ty, live, true))
    ))
}

/// `namespace/name; group/version, Kind=Kind`.
fn object_text(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |name: &str| text(object.get("metadata").and_then(|m| m.get(name)));
    format!(
        "{}/{}; {}",
        metadata("namespace"),
        metadata("name"),
        type_text(&text(object.get("apiVersion")), &text(object.get("kind")))
    )
}

fn type_text(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

#[cfg(test)]
mod tests;
