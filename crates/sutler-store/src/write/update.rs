//! Updates, and the loop that everything shares which changes an object that is there.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sutler_apply::update::{Track, is_noop_besides_timestamps, track};
use sutler_kv::engine::{Action, Error, Expect, Record, Write};
use sutler_schema::meta::finalizer_warnings;

use super::{Ctx, Outcome, Shape, create, decode::wrong_kind, guard};
use crate::{
    admit::{self, Operation},
    auth::rbac::{Attributes, forbidden_cause},
    codec, object,
    options::WriteOptions,
    registry::Resource,
    status::ApiError,
    strategy,
};

/// How often a change that can be computed anew is, when others write in between. Each loss means
/// that somebody else made progress.
const TRIES: usize = 64;

/// What the new state is to be, given the current one.
pub(crate) enum Next {
    /// A state whose owner is decided by the usual comparison.
    Tracked(Value),
    /// A state that says itself who owns what (apply).
    Owned(Value),
}

/// How an object is found and changed.
pub(crate) struct Change<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) options: &'a WriteOptions,
    /// Whether an absent object may be created.
    pub(crate) create: bool,
    /// Whether a version in the new state was the client's (and is then binding).
    pub(crate) binding_version: bool,
    /// Whether a uid in the new state is a condition, and not a change of it.
    pub(crate) binding_uid: bool,
}

/// `PUT`: replaces the object by `new`, which has been shaped.
pub(crate) async fn update(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    mut new: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let info = ctx.info;
    place(ctx, resource, &mut new)?;
    let versioned = !matches!(object::meta_str(&new, "resourceVersion"), "" | "0");
    let change = Change {
        resource,
        namespace: &info.namespace,
        name: &info.name,
        subresource: &info.subresource,
        options,
        create: resource.create_on_update && info.subresource.is_empty(),
        binding_version: versioned,
        binding_uid: true,
    };
    run(ctx, &change, &mut |current| {
        if current.is_some() && !versioned && !resource.unconditional_update {
            let error = sutler_schema::error::FieldError {
                kind: sutler_schema::error::FieldErrorKind::Invalid,
                field: "metadata.resourceVersion".into(),
                bad_value: Some(0.into()),
                detail: "must be specified for an update".into(),
            };
            return Err(ApiError::invalid(resource.gr(), &info.name, &[error]));
        }
        let kind = new["kind"].as_str().unwrap_or_default();
        if resource.custom().is_some() && kind != resource.kind {
            return Err(wrong_kind(resource, kind, &info.name));
        }
        Ok(Next::Tracked(new.clone()))
    })
    .await
}

/// The body must agree with the path.
fn place(ctx: &Ctx<'_>, resource: &Resource, new: &mut Value) -> Result<(), ApiError> {
    let info = ctx.info;
    let name = object::name(new);
    if name.is_empty() {
        return Err(undeterminable(&info.name));
    }
    if name != info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            info.name
        )));
    }
    if resource.namespaced {
        let namespace = object::namespace(new);
        if namespace.is_empty() {
            object::set_meta(new, "namespace", Some(info.namespace.clone().into()));
        } else if namespace != info.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
    } else {
        object::set_meta(new, "namespace", None);
    }
    Ok(())
}

/// An object without a name, sent to an address with one.
pub(crate) fn undeterminable(name: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Computes the next state of an object from its current one and commits it, anew when somebody
/// else was faster.
pub(crate) async fn run(
    ctx: &Ctx<'_>,
    change: &Change<'_>,
    next: &mut (dyn FnMut(Option<&Value>) -> Result<Next, ApiError> + Send),
) -> Result<Outcome, ApiError> {
    let Change { resource, namespace, name, .. } = *change;
    let inner = ctx.inner;
    let key = resource.key(namespace, name);
    let mut current = inner.engine.get(&key).await?;
    for _ in 0..TRIES {
        let Some(record) = current.take() else {
            if !change.create {
                return Err(ApiError::not_found(resource.gr(), name));
            }
            match create_instead(ctx, change, next(None)?).await {
                // Somebody else created it first: then this is a change of theirs.
                Err(error) if error.reason == "AlreadyExists" && !change.options.dry_run => {
                    current = inner.engine.get(&key).await?;
                    continue;
                }
                done => return done,
            }
        };
        match attempt(ctx, change, &key, &record, next).await? {
            Attempt::Done(outcome) => return Ok(outcome),
            Attempt::Lost(found) => current = found,
        }
    }
    Err(ApiError::modified(resource.gr(), name))
}

enum Attempt {
    Done(Outcome),
    Lost(Option<Record>),
}

async fn attempt(
    ctx: &Ctx<'_>,
    change: &Change<'_>,
    key: &Arc<str>,
    record: &Record,
    next: &mut (dyn FnMut(Option<&Value>) -> Result<Next, ApiError> + Send),
) -> Result<Attempt, ApiError> {
    let Change { resource, name, subresource, options, .. } = *change;
    let inner = ctx.inner;
    let old = resource.decode(record)?;
    let (mut new, tracked) = match next(Some(&old))? {
        Next::Tracked(new) => (new, true),
        Next::Owned(new) => (new, false),
    };
    check_preconditions(change, &new, &old)?;
    // What names no version is about the one that is there.
    object::set_meta(&mut new, "resourceVersion", Some(record.version.to_string().into()));
    if tracked {
        track(
            &mut new,
            &Track {
                old: Some(&old),
                node: &resource.node,
                manager: &options.manager,
                api_version: &resource.api_version,
                subresource,
                now: &inner.timestamp(),
                reset: strategy::reset_fields(resource, subresource),
                zero: resource.zero.as_ref(),
            },
        );
    }
    strategy::prepare_update(resource, subresource, &mut new, &old);
    guard::before_update(ctx, resource, subresource, &mut new, &old).await?;
    let found = strategy::validate_update(resource, subresource, &new, &old);
    if !found.errors.is_empty() {
        return Err(ApiError::invalid(resource.gk(), name, &found.errors));
    }
    let states = (Some(&old), Some(&new));
    admit::ask(ctx, resource, subresource, name, Operation::Update, states)?;
    ctx.warn(found.warnings);
    ctx.warn(finalizer_warnings(&new["metadata"], Some(&old["metadata"])));
    if is_noop_besides_timestamps(&old, &new) {
        return Ok(Attempt::Done(Outcome::ok(old)));
    }
    if options.dry_run {
        return Ok(Attempt::Done(Outcome::ok(new)));
    }
    // An object that only its finalizers kept goes with the last of them.
    let gone = object::is_deleting(&new)
        && object::finalizers(&new).next().is_none()
        && guard::may_vanish(resource, &new);
    let stored = codec::encode(&new)?;
    let action = if gone { Action::Delete(stored.clone()) } else { Action::Put(stored.clone()) };
    let write =
        Write { key: key.clone(), expect: Expect::At(record.version), action, also: Vec::new() };
    match inner.engine.write(write).await {
        Ok(version) => {
            guard::after_write(inner, resource);
            // What its last finalizer let go is answered as it was.
            let version = if gone { record.version } else { version };
            let wire = if resource.converted {
                None
            } else {
                Some(codec::wire(&resource.type_prefix, &stored, version)?)
            };
            object::set_meta(&mut new, "resourceVersion", Some(version.to_string().into()));
            Ok(Attempt::Done(Outcome {
                code: StatusCode::OK,
                object: new,
                wire,
                shape: Shape::Object,
            }))
        }
        Err(Error::Conflict { .. }) if change.binding_version => {
            Err(ApiError::modified(resource.gr(), name))
        }
        Err(Error::Conflict { found, .. }) => Ok(Attempt::Lost(found)),
        Err(error) => Err(error.into()),
    }
}

/// A version or uid in the new state is a condition on the current one.
fn check_preconditions(change: &Change<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    let Change { resource, name, .. } = *change;
    let uid = object::uid(new);
    if change.binding_uid && !uid.is_empty() && uid != object::uid(old) {
        return Err(uid_conflict(change, uid, object::uid(old)));
    }
    let asked = object::meta_str(new, "resourceVersion");
    if !asked.is_empty() && asked != "0" && asked != object::meta_str(old, "resourceVersion") {
        if asked.parse::<u64>().is_err() {
            let message = format!("strconv.ParseUint: parsing {asked:?}: invalid syntax");
            return Err(ApiError::plain(StatusCode::INTERNAL_SERVER_ERROR, "", message));
        }
        return Err(ApiError::modified(resource.gr(), name));
    }
    Ok(())
}

/// The uid that a write is for is not that of the object.
pub(crate) fn uid_conflict(change: &Change<'_>, asked: &str, found: &str) -> ApiError {
    let Change { resource, namespace, name, .. } = *change;
    let group = if resource.group.is_empty() || resource.builtin().is_some() {
        String::new()
    } else {
        format!("{}/", resource.group)
    };
    let place = if resource.namespaced { format!("{namespace}/{name}") } else { name.to_owned() };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{place}, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: \
         {asked}, UID in object meta: {found}",
        resource.plural
    );
    ApiError::conflict(resource.gr(), name, &why)
}

/// Creating takes the right to create, also for those who may patch.
async fn may_create(ctx: &Ctx<'_>, resource: &Resource) -> Result<(), ApiError> {
    let info = ctx.info;
    let policy = ctx.inner.policy.get(ctx.inner).await?;
    let attributes = Attributes {
        version: &info.version,
        namespace: &info.namespace,
        name: &info.name,
        ..Attributes::resource(ctx.user, "create", &resource.group, &resource.plural)
    };
    let decision = policy.1.authorize(&attributes);
    if decision.allowed {
        return Ok(());
    }
    let why = forbidden_cause(&attributes, &decision.reason);
    Err(ApiError::forbidden(resource.gr(), &info.name, &why))
}

async fn create_instead(
    ctx: &Ctx<'_>,
    change: &Change<'_>,
    next: Next,
) -> Result<Outcome, ApiError> {
    let Change { resource, name, options, .. } = *change;
    may_create(ctx, resource).await?;
    match next {
        Next::Tracked(mut object) => {
            if !object::uid(&object).is_empty() {
                let uid = object::uid(&object);
                return Err(uid_conflict(change, uid, ""));
            }
            object::set_meta(&mut object, "resourceVersion", None);
            create::create(ctx, resource, object, options).await
        }
        Next::Owned(object) => {
            let uid = object::uid(&object);
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(resource.gr(), name, &why));
            }
            create::insert(ctx, resource, object, options).await
        }
    }
}
