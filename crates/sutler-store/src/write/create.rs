//! Creates.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sutler_apply::update::{Track, track};
use sutler_kv::engine::{Action, Error, Expect, Record, Write};
use sutler_schema::meta::finalizer_warnings;

use super::{Ctx, Outcome, Shape, guard};
use crate::{
    admit::{self, Operation},
    codec, object,
    options::WriteOptions,
    registry::Resource,
    status::ApiError,
    strategy,
};

/// How often a taken generated name is replaced by another.
const NAME_TRIES: usize = 8;
/// How often a stale view of the namespace is refreshed.
const NAMESPACE_TRIES: usize = 5;

/// Creates `object`, which has been shaped.
pub(crate) async fn create(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    place(ctx, resource, &mut object)?;
    // What is no version at all is dropped with the rest of what the server decides.
    if object::meta_str(&object, "resourceVersion").parse::<u64>().is_ok_and(|v| v != 0) {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::plain(StatusCode::INTERNAL_SERVER_ERROR, "", message));
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object::set_meta(&mut object, field, None);
    }
    track(
        &mut object,
        &Track {
            old: None,
            node: &resource.node,
            manager: &options.manager,
            api_version: &resource.api_version,
            subresource: "",
            now: &ctx.inner.timestamp(),
            reset: strategy::reset_fields(resource, ""),
            zero: resource.zero.as_ref(),
        },
    );
    insert(ctx, resource, object, options).await
}

/// The part of a create that an apply of a new object shares: everything after ownership.
pub(crate) async fn insert(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let inner = ctx.inner;
    strategy::prepare_create(resource, &mut object, inner.ids.uid(), &inner.timestamp());
    let generate = object::name(&object)
        .is_empty()
        .then(|| object::meta_str(&object, "generateName").to_owned())
        .filter(|base| !base.is_empty());
    let namespace = object::namespace(&object).to_owned();
    let mut tries = 0;
    let mut refreshes = 0;
    loop {
        if let Some(base) = &generate {
            object::set_meta(
                &mut object,
                "name",
                Some(generated(base, &inner.ids.suffix()).into()),
            );
        }
        let name = object::name(&object).to_owned();
        let also = inner.namespaces.expect(inner, resource, &namespace, &name).await?;
        guard::before_create(ctx, resource, &mut object).await?;
        let found = strategy::validate_create(resource, &object);
        if !found.errors.is_empty() {
            return Err(ApiError::invalid(resource.gk(), &name, &found.errors));
        }
        admit::ask(ctx, resource, "", &name, Operation::Create, (None, Some(&object)))?;
        ctx.warn(found.warnings);
        ctx.warn(finalizer_warnings(&object["metadata"], None));
        let key = resource.key(&namespace, &name);
        let stored = codec::encode(&object)?;
        if options.dry_run {
            if let Some(found) = inner.engine.get(&key).await? {
                return Err(taken(resource, &name, Some(&found)));
            }
            return Ok(Outcome {
                code: StatusCode::CREATED,
                object,
                wire: None,
                shape: Shape::Object,
            });
        }
        let write = Write {
            key: key.clone(),
            expect: Expect::Absent,
            action: Action::Put(stored.clone()),
            also,
        };
        match inner.engine.write(write).await {
            Ok(version) => {
                guard::after_write(ctx.inner, resource);
                let wire = if resource.converted {
                    None
                } else {
                    Some(codec::wire(&resource.type_prefix, &stored, version)?)
                };
                object::set_meta(&mut object, "resourceVersion", Some(version.to_string().into()));
                return Ok(Outcome {
                    code: StatusCode::CREATED,
                    object,
                    wire,
                    shape: Shape::Object,
                });
            }
            Err(Error::Conflict { key: conflicting, found }) if conflicting != key => {
                refreshes += 1;
                if refreshes > NAMESPACE_TRIES {
                    return Err(ApiError::modified(resource.gr(), &name));
                }
                inner.namespaces.changed(inner, &conflicting, found.as_ref())?;
            }
            Err(Error::Conflict { .. }) if generate.is_some() && tries + 1 < NAME_TRIES => {
                tries += 1;
            }
            Err(Error::Conflict { .. }) if generate.is_some() => {
                let mut error = ApiError::already_exists(resource.gr(), &name);
                error.message = format!(
                    "{}, the server was not able to generate a unique name for the object",
                    error.message
                );
                return Err(error);
            }
            Err(Error::Conflict { found, .. }) => {
                return Err(taken(resource, &name, found.as_ref()));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The name is taken, perhaps by an object that is on its way out.
fn taken(resource: &Resource, name: &str, found: Option<&Record>) -> ApiError {
    let mut error = ApiError::already_exists(resource.gr(), name);
    let deleting = found.is_some_and(|record| {
        codec::glance(&record.value).is_ok_and(|g| g.metadata.deleting.is_some())
    });
    if deleting {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

/// Puts the object where the path says, or refuses when it says otherwise itself.
fn place(ctx: &Ctx<'_>, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    if resource.namespaced {
        let own = object::namespace(object);
        if own.is_empty() {
            object::set_meta(object, "namespace", Some(ctx.info.namespace.clone().into()));
        } else if own != ctx.info.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
    } else if !object::namespace(object).is_empty() {
        // Cluster-scoped kinds: the real server drops it for built-in kinds and refuses for custom ones.
        object::set_meta(object, "namespace", None);
    }
    Ok(())
}

/// The longest name that is generated, less the suffix.
const GENERATED_BASE_MAX: usize = 63 - 5;

fn generated(base: &str, suffix: &str) -> String {
    let mut end = base.len().min(GENERATED_BASE_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

#[cfg(test)]
mod tests {
    use super::generated;

    #[test]
    fn generated_names_fit_a_label() {
        assert_eq!(generated("web-", "abcde"), "web-abcde");
        assert_eq!(generated(&"x".repeat(100), "abcde").len(), 63);
        assert_eq!(generated(&"é".repeat(100), "abcde").len(), 63);
    }
}
