//! Deletes: of one object and of many, with preconditions, grace, finalizers and the three ways to
//! treat dependents.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use sutler_kv::engine::{Action, Error, Expect, Record, Write};
use sutler_schema::error::{FieldError, FieldErrorKind};

use super::{
    Ctx, Outcome, Shape,
    decode::{no_type, not_registered},
    guard,
};
use crate::{
    admit::{self, Operation},
    codec, negotiate, object,
    options::dry_run,
    read::list,
    registry::Resource,
    status::{ApiError, GroupResource},
    time,
};

/// The finalizer that holds an owner until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that holds an owner until its dependents are released.
pub(crate) const ORPHAN: &str = "orphan";

/// How far ahead an end is written down, in seconds: a hundred years. What is asked for can be more
/// than a clock can tell.
const GRACE_MOST: u64 = 100 * 365 * 86400;

/// What a delete was asked to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    dry_run: bool,
    grace: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
    policy: Option<Policy>,
    /// The deprecated way to say it; it also decides the code of the answer.
    orphan: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Orphan,
    Background,
    Foreground,
}

impl DeleteOptions {
    /// From a `DeleteOptions` body, or from the query when there is none.
    pub(crate) fn parse(ctx: &Ctx<'_>, body: &[u8]) -> Result<Self, ApiError> {
        let given = if body.is_empty() {
            from_query(ctx)?
        } else {
            let read = |error: ApiError| match error.code {
                400 => ApiError::bad_request(format!(
                    "couldn't get version/kind; json parse error: {}",
                    error.message
                )),
                _ => error,
            };
            negotiate::decode_object(ctx.headers, body).map_err(read)?.value
        };
        if !given.is_object() && !given.is_null() {
            return Err(ApiError::bad_request(no_type(&given)));
        }
        Self::of(&given)
    }

    /// From a `DeleteOptions` object.
    pub(crate) fn of(given: &Value) -> Result<Self, ApiError> {
        let kind = given["kind"].as_str().unwrap_or_default();
        if !matches!(kind, "" | "DeleteOptions") {
            let api_version = given["apiVersion"].as_str().unwrap_or_default();
            return Err(ApiError::bad_request(not_registered(api_version, kind)));
        }
        // A field of the wrong type must not pass for one that is absent: the object would go.
        let types = sutler_builtin::lookup("", "v1", "DeleteOptions").filter(|_| !given.is_null());
        if let Some(types) = types {
            sutler_builtin::decode(types, given.clone())
                .map_err(|e| ApiError::bad_request(e.to_string()))?;
        }
        let mut errors = Vec::new();
        let dry = given["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let dry_run = dry_run(dry).unwrap_or_else(|error| {
            errors.push(error);
            false
        });
        let orphan = given["orphanDependents"].as_bool();
        let policy = match given["propagationPolicy"].as_str() {
            None | Some("") => None,
            Some("Orphan") => Some(Policy::Orphan),
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some(other) => {
                errors.push(FieldError {
                    kind: FieldErrorKind::NotSupported,
                    field: "propagationPolicy".into(),
                    bad_value: Some(other.into()),
                    detail: "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                        .into(),
                });
                None
            }
        };
        if policy.is_some() && orphan.is_some() {
            errors.push(FieldError {
                kind: FieldErrorKind::Invalid,
                field: "propagationPolicy".into(),
                bad_value: Some(given["propagationPolicy"].clone()),
                detail: "orphanDependents and deletionPropagation cannot be both set".into(),
            });
        }
        if !errors.is_empty() {
            let gk = GroupResource { group: "meta.k8s.io", resource: "DeleteOptions" };
            return Err(ApiError::invalid(gk, "", &errors));
        }
        let text =
            |pointer: &str| given.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            dry_run,
            grace: given["gracePeriodSeconds"].as_i64(),
            uid: text("/preconditions/uid"),
            version: text("/preconditions/resourceVersion"),
            policy,
            orphan,
        })
    }
}

fn from_query(ctx: &Ctx<'_>) -> Result<Value, ApiError> {
    let mut given = json!({});
    if let Some(seconds) = ctx.query.number("gracePeriodSeconds")? {
        given["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = ctx.query.get("propagationPolicy") {
        given["propagationPolicy"] = policy.into();
    }
    if ctx.query.has("orphanDependents") {
        given["orphanDependents"] = ctx.query.flag("orphanDependents").into();
    }
    let dry: Vec<&str> = ctx.query.all("dryRun").collect();
    if !dry.is_empty() {
        given["dryRun"] = json!(dry);
    }
    Ok(given)
}

/// `DELETE` of one object.
pub(crate) async fn delete(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
) -> Result<Outcome, ApiError> {
    let options = DeleteOptions::parse(ctx, body)?;
    delete_one(ctx, resource, &ctx.info.namespace, &ctx.info.name, &options).await
}

/// Deletes one object as asked, anew when somebody else writes it in between.
pub(crate) async fn delete_one(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Outcome, ApiError> {
    let inner = ctx.inner;
    let key = resource.key(namespace, name);
    loop {
        let found = inner.engine.get(&key).await?;
        let record = found.ok_or_else(|| ApiError::not_found(resource.gr(), name))?;
        if let Some(outcome) = attempt(ctx, resource, name, &key, &record, options).await? {
            return Ok(outcome);
        }
    }
}

async fn attempt(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    name: &str,
    key: &Arc<str>,
    record: &Record,
    options: &DeleteOptions,
) -> Result<Option<Outcome>, ApiError> {
    let inner = ctx.inner;
    let old = resource.decode(record)?;
    check_preconditions(resource, name, &old, options)?;
    guard::before_delete(ctx, resource, &old).await?;
    admit::ask(ctx, resource, "", name, Operation::Delete, (Some(&old), None))?;
    let mut new = old.clone();
    let grace = guard::grace_period(resource, &old, options.grace);
    mark_finalizers(&mut new, options);
    let held = object::finalizers(&new).next().is_some() || guard::holds(resource, &new);
    let stays = held || grace > 0;
    if stays || guard::is_graceful(resource) {
        mark_deleting(inner, resource, &mut new, &old, grace);
        guard::mark_terminating(resource, &mut new);
    }
    let code =
        if stays && options.orphan == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
    if options.dry_run {
        return Ok(Some(if stays { answer(code, new) } else { success(resource, &new) }));
    }
    if stays && new == old {
        return Ok(Some(answer(code, old)));
    }
    let stored = codec::encode(&new)?;
    // What watchers see of a removed object is its last stored state.
    let action = if stays { Action::Put(stored) } else { Action::Delete(record.value.clone()) };
    let write =
        Write { key: key.clone(), expect: Expect::At(record.version), action, also: Vec::new() };
    match inner.engine.write(write).await {
        Ok(version) => {
            guard::after_write(inner, resource);
            object::set_meta(&mut new, "resourceVersion", Some(version.to_string().into()));
            Ok(Some(if stays { answer(code, new) } else { success(resource, &new) }))
        }
        Err(Error::Conflict { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn answer(code: StatusCode, object: Value) -> Outcome {
    Outcome { code, object, wire: None, shape: Shape::Object }
}

fn success(resource: &Resource, old: &Value) -> Outcome {
    // Pods and a few others answer with the object; all others with a Status that names it.
    if guard::deletes_with_object(resource) {
        return Outcome::ok(old.clone());
    }
    let mut details = json!({
        "name": object::name(old), "kind": resource.plural, "uid": object::uid(old),
    });
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    Outcome::success(StatusCode::OK, details)
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    // The real server names the kind here, not the resource.
    let conflict = |why: &str| Err(ApiError::conflict(resource.gk(), name, why));
    let found = object::uid(old);
    // Namespaces have a delete of their own, and words of their own.
    if resource.is("", "namespaces")
        && let Some(asked) = options.uid.as_ref().filter(|asked| *asked != found)
    {
        let why = format!(
            "Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
        );
        return Err(ApiError::conflict(resource.gr(), name, &why));
    }
    if let Some(asked) = options.uid.as_ref().filter(|asked| *asked != found) {
        return conflict(&format!(
            "the UID in the precondition ({asked}) does not match the UID in record ({found}). The \
             object might have been deleted and then recreated"
        ));
    }
    let found = object::meta_str(old, "resourceVersion");
    if let Some(asked) = options.version.as_ref().filter(|asked| *asked != found) {
        return conflict(&format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion \
             in record ({found}). The object might have been modified"
        ));
    }
    Ok(())
}

/// The way to treat dependents becomes a finalizer that the garbage collector honours.
fn mark_finalizers(new: &mut Value, options: &DeleteOptions) {
    let has = |finalizer: &str| object::finalizers(new).any(|f| f == finalizer);
    let (orphan, foreground) = match (options.policy, options.orphan) {
        (Some(Policy::Orphan), _) | (None, Some(true)) => (true, false),
        (Some(Policy::Foreground), _) => (false, true),
        (Some(Policy::Background), _) | (None, Some(false)) => (false, false),
        // Nothing was said: what is there decides.
        (None, None) => (has(ORPHAN), has(FOREGROUND)),
    };
    let mut kept: Vec<String> = object::finalizers(new)
        .filter(|f| *f != ORPHAN && *f != FOREGROUND)
        .map(str::to_owned)
        .collect();
    if orphan {
        kept.push(ORPHAN.into());
    }
    if foreground {
        kept.push(FOREGROUND.into());
    }
    let unchanged = object::finalizers(new).eq(kept.iter().map(String::as_str));
    if !unchanged {
        object::set_meta(new, "finalizers", (!kept.is_empty()).then(|| json!(kept)));
    }
}

fn mark_deleting(
    inner: &crate::server::Inner,
    resource: &Resource,
    new: &mut Value,
    old: &Value,
    grace: i64,
) {
    if object::is_deleting(old) {
        let before = old.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        // A second delete can only make the wait shorter.
        if before.is_none_or(|before| grace >= before) {
            return;
        }
        object::set_meta(new, "deletionGracePeriodSeconds", Some(grace.into()));
        return;
    }
    let seconds = u64::try_from(grace).unwrap_or(0).min(GRACE_MOST);
    let grace_time = std::time::Duration::from_secs(seconds);
    let when = inner.clock.now() + grace_time;
    object::set_meta(new, "deletionTimestamp", Some(time::rfc3339(when).into()));
    // Namespaces end when they are empty; no time is set for that.
    if !resource.is("", "namespaces") {
        object::set_meta(new, "deletionGracePeriodSeconds", Some(grace.into()));
    }
    if new.pointer("/metadata/generation").is_some() {
        let generation = object::generation(new) + 1;
        object::set_meta(new, "generation", Some(generation.into()));
    }
}

/// `DELETE` of all objects that a list would show.
pub(crate) async fn delete_collection(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
) -> Result<Outcome, ApiError> {
    let options = DeleteOptions::parse(ctx, body)?;
    let listed =
        list::collect(ctx, resource, &list::ListOptions::parse(ctx.query, resource)?).await?;
    let mut items = Vec::with_capacity(listed.records.len());
    for record in &listed.records {
        let object = resource.decode(record)?;
        let (namespace, name) = (object::namespace(&object), object::name(&object));
        match delete_one(ctx, resource, namespace, name, &options).await {
            Ok(_) => items.push(object),
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let mut metadata = list::list_meta(&listed);
    if resource.custom().is_some() && metadata.get("continue").is_none() {
        metadata["continue"] = "".into();
    }
    let mut object = json!({
        "apiVersion": resource.api_version, "kind": resource.list_kind, "metadata": metadata,
        "items": items,
    });
    if resource.builtin().is_some() {
        for item in object["items"].as_array_mut().into_iter().flatten() {
            if let Some(map) = item.as_object_mut() {
                map.remove("apiVersion");
                map.remove("kind");
            }
        }
    }
    Ok(Outcome { code: StatusCode::OK, object, wire: None, shape: Shape::List })
}
