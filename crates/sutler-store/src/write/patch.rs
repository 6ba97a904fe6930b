//! Patches of four kinds, server-side apply among them.

use std::sync::Arc;

use serde_json::Value;
use sutler_apply::{apply, patch};
use sutler_schema::error::FieldError;

use super::{
    Ctx, Outcome,
    decode::{go_package, not_registered, warn_of_other_version, why_another, wrong_kind},
    update::{Change, Next, run, undeterminable},
};
use crate::{
    negotiate::{self, Decoded},
    object,
    options::{OptionsKind, WriteOptions},
    registry::Resource,
    status::{ApiError, GroupResource},
    strategy::{self, FieldValidation},
};

/// The kind of a patch, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// `PATCH` of an object or its status.
pub(crate) async fn patch(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
) -> Result<Outcome, ApiError> {
    let kind = patch_kind(resource, &negotiate::content_type_as_sent(ctx.headers))?;
    let apply = kind == PatchKind::Apply;
    let options = WriteOptions::parse(OptionsKind::Patch { apply }, ctx.query, ctx.headers)?;
    if apply {
        return apply_patch(ctx, resource, body, &options).await;
    }
    let Decoded { value: patch, mut findings, .. } =
        negotiate::from_json(body).map_err(|e| match kind {
            PatchKind::Strategic => e,
            _ => ApiError::bad_request(format!("error decoding patch: {}", e.message)),
        })?;
    if kind == PatchKind::Json {
        for finding in &mut findings {
            finding.insert_str(0, "json patch ");
        }
    }
    let info = ctx.info;
    let change = Change {
        resource,
        namespace: &info.namespace,
        name: &info.name,
        subresource: &info.subresource,
        options: &options,
        create: false,
        binding_version: sets_version(kind, &patch),
        binding_uid: false,
    };
    run(ctx, &change, &mut |current| {
        let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))?;
        let mut new = patched(kind, resource, current, &patch)?;
        check_names(ctx, resource, &options, &mut new)?;
        let sent = new.clone();
        super::shape(ctx, resource, &options, &mut new, findings.clone()).map_err(
            |error| match (kind, resource.builtin()) {
                (PatchKind::Strategic, Some(kind)) => unfit_strategic(kind, &patch, &sent, error),
                _ => unfit(&sent, error),
            },
        )?;
        let new = if resource.converted { sutler_builtin::event_from_v1(new) } else { new };
        Ok(Next::Tracked(new))
    })
    .await
}

fn patch_kind(resource: &Resource, content_type: &str) -> Result<PatchKind, ApiError> {
    match content_type {
        JSON => Ok(PatchKind::Json),
        MERGE => Ok(PatchKind::Merge),
        APPLY => Ok(PatchKind::Apply),
        STRATEGIC if resource.builtin().is_some() => Ok(PatchKind::Strategic),
        _ if resource.builtin().is_some() => {
            let code = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let message = "415: Unsupported Media Type";
            let mut error = ApiError::plain(code, "UnsupportedMediaType", message);
            error.details = Some(serde_json::json!({}));
            Err(error)
        }
        _ => Err(ApiError::unsupported_media_type(&[JSON, MERGE, APPLY].join(", "))),
    }
}

/// Whether the patch itself names the version that it is for.
fn sets_version(kind: PatchKind, patch: &Value) -> bool {
    match kind {
        PatchKind::Json => patch.as_array().into_iter().flatten().any(|op| {
            let path = op["path"].as_str().unwrap_or_default();
            path == "/metadata/resourceVersion" || path == "/metadata" || path.is_empty()
        }),
        _ => patch.pointer("/metadata/resourceVersion").is_some(),
    }
}

fn patched(
    kind: PatchKind,
    resource: &Resource,
    current: &Value,
    patch: &Value,
) -> Result<Value, ApiError> {
    let mut new = current.clone();
    if resource.converted {
        new = sutler_builtin::event_to_v1(new);
    }
    match kind {
        PatchKind::Json => patch::json(&mut new, patch),
        PatchKind::Strategic => patch::strategic(&mut new, patch, &resource.node),
        PatchKind::Merge | PatchKind::Apply => {
            patch::check_merge(patch).map(|()| patch::merge(&mut new, patch))
        }
    }
    .map_err(|e| refusal(&e))?;
    Ok(new)
}

pub(super) fn refusal(error: &patch::PatchError) -> ApiError {
    use http::StatusCode;
    let text = error.message();
    match error {
        patch::PatchError::BadRequest(_) => ApiError::bad_request(text),
        patch::PatchError::Unprocessable(_) => {
            let mut error = ApiError::unprocessable(text);
            error.details = Some(serde_json::json!({}));
            error
        }
        patch::PatchError::TooLarge(_) => {
            ApiError::plain(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", text)
        }
        patch::PatchError::Internal(_) => {
            ApiError::plain(StatusCode::INTERNAL_SERVER_ERROR, "", text)
        }
    }
}

/// What a patch makes of an object does not fit its type.
pub(super) fn unfit(patched: &Value, error: ApiError) -> ApiError {
    if error.code != 400 {
        return error;
    }
    unfit_as(patched.to_string().into(), error)
}

fn unfit_as(shown: Value, error: ApiError) -> ApiError {
    let why = match error.message.split_once(" cannot be handled as a ") {
        Some((_, rest)) => rest.split_once(": ").map_or(rest, |(_, why)| why).to_owned(),
        None => error.message,
    };
    let error = FieldError::invalid("patch", shown, why);
    ApiError::invalid(GroupResource { group: "", resource: "" }, "", &[error])
}

/// As [`unfit`] for a strategic merge, where the patch is shown instead of the object.
fn unfit_strategic(
    kind: &sutler_builtin::Kind,
    patch: &Value,
    patched: &Value,
    error: ApiError,
) -> ApiError {
    if error.code != 400 {
        return error;
    }
    let why = sutler_builtin::misfit(kind, patched);
    let error = match why {
        Some(why) => ApiError::bad_request(why),
        None => error,
    };
    let shown = Value::String(strategy::go_value(patch));
    unfit_as(shown, error)
}

/// A patch cannot turn an object into another one, nor into one of another kind.
fn check_names(
    ctx: &Ctx<'_>,
    resource: &Resource,
    options: &WriteOptions,
    new: &mut Value,
) -> Result<(), ApiError> {
    let info = ctx.info;
    if let (true, Some(map)) = (resource.builtin().is_some(), new.as_object_mut()) {
        for (key, own) in [("apiVersion", &resource.api_version), ("kind", &resource.kind)] {
            map.entry(key).or_insert_with(|| own.clone().into());
        }
    }
    let text = |key: &str| new.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if resource.custom().is_some() {
        if kind.is_empty() {
            return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{new}'")));
        }
        if api_version == resource.api_version && kind != resource.kind {
            return Err(wrong_kind(resource, kind, object::name(new)));
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if api_version != resource.api_version && group == resource.group {
            if let Some(map) = new.as_object() {
                warn_of_other_version(ctx, resource, options, map);
            }
            let why = format!("must be {}", resource.api_version);
            let error = FieldError::invalid("apiVersion", api_version, why);
            return Err(ApiError::invalid(resource.gk(), object::name(new), &[error]));
        }
    }
    if api_version != resource.api_version || kind != resource.kind {
        let why = match ctx.inner.registry.find_kind(api_version, kind).and_then(|r| r.builtin()) {
            Some(other) => sutler_builtin::decode(other, new.clone()).map_or_else(
                |error| error.to_string(),
                |_| {
                    let wanted = (go_package(&resource.group), resource.kind.as_str());
                    why_another(ctx, wanted, api_version, kind)
                },
            ),
            None => not_registered(api_version, kind),
        };
        return Err(unfit(new, ApiError::bad_request(why)));
    }
    if let (true, Some(meta)) = (resource.custom().is_some(), new.get("metadata"))
        && let Err(why) = sutler_schema::object_meta::coerce(meta, "metadata", &mut Vec::new())
    {
        return Err(unfit(new, ApiError::bad_request(why)));
    }
    match object::name(new) {
        "" => return Err(undeterminable(&info.name)),
        name if name != info.name => {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                info.name
            )));
        }
        _ => {}
    }
    if resource.namespaced {
        match object::namespace(new) {
            "" => object::set_meta(new, "namespace", Some(info.namespace.clone().into())),
            namespace if namespace != info.namespace => {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on \
                     the request",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn apply_patch(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let info = ctx.info;
    let Decoded { value: mut config, findings, .. } = negotiate::from_yaml(body).map_err(|e| {
        let why = format!("error decoding YAML: error converting YAML to JSON: {}", e.message);
        ApiError::bad_request(why)
    })?;
    if options.validation == FieldValidation::Strict && !findings.is_empty() {
        return Err(ApiError::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {}",
            findings.join(", ")
        )));
    }
    if options.validation == FieldValidation::Warn {
        let lines = findings.iter().flat_map(|f| f.lines()).map(str::trim);
        ctx.warn(lines.filter(|l| l.starts_with("line ")).map(str::to_owned));
    }
    check_config(ctx, resource, &mut config)?;
    if resource.converted {
        config = sutler_builtin::event_from_v1(config);
    }
    let change = Change {
        resource,
        namespace: &info.namespace,
        name: &info.name,
        subresource: &info.subresource,
        options,
        create: info.subresource.is_empty(),
        binding_version: !object::meta_str(&config, "resourceVersion").is_empty(),
        binding_uid: false,
    };
    let now = ctx.inner.timestamp();
    run(ctx, &change, &mut |current| {
        let request = apply::Request {
            live: current,
            config: &config,
            node: &resource.node,
            manager: &options.manager,
            api_version: &resource.api_version,
            subresource: &info.subresource,
            force: options.force,
            now: &now,
            reset: strategy::reset_fields(resource, &info.subresource),
            zero: resource.zero.as_ref(),
        };
        let mut new = apply::apply(&request).map_err(|e| apply_refusal(&e))?;
        if object::name(&new).is_empty() {
            return Err(undeterminable(&info.name));
        }
        if resource.namespaced && object::namespace(&new).is_empty() {
            object::set_meta(&mut new, "namespace", Some(info.namespace.clone().into()));
        }
        if resource.custom().is_some() {
            // Apply fits the object to its type; what it leaves null is for validation to judge.
            sutler_schema::defaults::apply_defaults(&mut new, &resource.node);
        } else if !resource.converted {
            super::shape(ctx, resource, options, &mut new, Vec::new())?;
        }
        Ok(Next::Owned(new))
    })
    .await
}

fn check_config(ctx: &Ctx<'_>, resource: &Resource, config: &mut Value) -> Result<(), ApiError> {
    let info = ctx.info;
    if config.is_null() {
        *config = serde_json::json!({});
    }
    if !config.is_object() {
        let kind = if config.is_array() { "array" } else { "string" };
        return Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
             unmarshal {kind} into Go value of type map[string]interface {{}}"
        )));
    }
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != resource.api_version || kind != resource.kind {
        let slash = if api_version.contains('/') { "" } else { "/" };
        return Err(ApiError::bad_request(format!(
            "invalid object type: {slash}{api_version}, Kind={kind}"
        )));
    }
    match object::name(config) {
        // What is there has a name, and a new object must bring it.
        "" => {}
        name if name != info.name => {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                info.name
            )));
        }
        _ => {}
    }
    let namespace = object::namespace(config);
    if resource.namespaced && !namespace.is_empty() && namespace != info.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

pub(super) fn apply_refusal(error: &apply::Error) -> ApiError {
    let message = error.to_string();
    match error {
        apply::Error::Conflict(conflicts) => {
            let mut error = ApiError::plain(http::StatusCode::CONFLICT, "Conflict", message);
            error.details = Some(serde_json::json!({}));
            conflicts.iter().fold(error, |error, conflict| {
                error.with_cause("FieldManagerConflict", &conflict.cause(), &conflict.path)
            })
        }
        apply::Error::BadRequest(_) => ApiError::bad_request(message),
        apply::Error::Internal(_) => {
            ApiError::plain(http::StatusCode::INTERNAL_SERVER_ERROR, "", message)
        }
    }
}
