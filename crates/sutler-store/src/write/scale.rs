//! The scale subresource: a number to read and to write, wherever a kind keeps it.

use std::sync::Arc;

use serde_json::{Value, json};
use sutler_apply::patch;
use sutler_schema::error::FieldError;

use super::{
    Ctx, Outcome,
    update::{Change, Next, run},
};
use crate::{
    negotiate, object,
    options::{OptionsKind, WriteOptions},
    read::get,
    registry::{Resource, Scale},
    status::{ApiError, GroupResource},
    strategy::at,
};

/// `GET …/scale`.
pub(crate) async fn read(ctx: &Ctx<'_>, resource: &Arc<Resource>) -> Result<Value, ApiError> {
    let object = get::object(ctx, resource).await?;
    let scale = paths(resource)?;
    Ok(view(resource, scale, &object))
}

/// `PUT …/scale` and `PATCH …/scale`.
pub(crate) async fn write(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
    patching: bool,
) -> Result<Outcome, ApiError> {
    let scale = paths(resource)?;
    let kind = if patching { OptionsKind::Patch { apply: false } } else { OptionsKind::Update };
    let content_type = negotiate::content_type(ctx.headers);
    let apply = patching && content_type == "application/apply-patch+yaml";
    let kind = if apply { OptionsKind::Patch { apply: true } } else { kind };
    let options = WriteOptions::parse(kind, ctx.query, ctx.headers)?;
    let sent = match (patching, content_type.as_str()) {
        (false, _) => negotiate::decode_object(ctx.headers, body)?.value,
        (true, "application/apply-patch+yaml") => negotiate::from_yaml(body)?.value,
        (true, _) => negotiate::from_json(body)?.value,
    };
    let info = ctx.info;
    let change = Change {
        resource,
        namespace: &info.namespace,
        name: &info.name,
        subresource: "scale",
        options: &options,
        create: false,
        binding_version: !patching && !object::meta_str(&sent, "resourceVersion").is_empty(),
    };
    let mut outcome = run(ctx, &change, &mut |current| {
        let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))?;
        let wanted = if patching {
            let mut wanted = view(resource, scale, current);
            match content_type.as_str() {
                "application/json-patch+json" => patch::json(&mut wanted, &sent),
                _ => patch::check_merge(&sent).map(|()| patch::merge(&mut wanted, &sent)),
            }
            .map_err(|e| super::patch::refusal(&e))?;
            wanted
        } else {
            sent.clone()
        };
        check(&wanted, &info.name)?;
        let mut next = current.clone();
        let replicas = wanted.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
        set(&mut next, &scale.spec_replicas, replicas);
        let version = object::meta_str(&wanted, "resourceVersion");
        let version = (!version.is_empty()).then(|| Value::String(version.into()));
        object::set_meta(&mut next, "resourceVersion", version);
        Ok(Next::Tracked(next))
    })
    .await?;
    outcome.object = view(resource, scale, &outcome.object);
    outcome.wire = None;
    outcome.status = true;
    Ok(outcome)
}

fn paths(resource: &Resource) -> Result<&Scale, ApiError> {
    resource.scale.as_ref().ok_or_else(|| ApiError::internal("no scale subresource"))
}

fn check(scale: &Value, name: &str) -> Result<(), ApiError> {
    let own = object::name(scale);
    if !own.is_empty() && own != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({name})"
        )));
    }
    let mut errors = Vec::new();
    match scale.pointer("/spec/replicas") {
        None => {}
        Some(replicas) => match replicas.as_i64() {
            Some(n) if n < 0 => errors.push(FieldError::invalid(
                "spec.replicas",
                n,
                "must be greater than or equal to 0",
            )),
            Some(_) => {}
            None => {
                return Err(ApiError::bad_request(
                    "spec.replicas must be a whole number".to_owned(),
                ));
            }
        },
    }
    if errors.is_empty() {
        return Ok(());
    }
    let gk = GroupResource { group: "autoscaling", resource: "Scale" };
    Err(ApiError::invalid(gk, name, &errors))
}

fn view(resource: &Resource, scale: &Scale, object: &Value) -> Value {
    let mut metadata = json!({
        "name": object::name(object), "uid": object::uid(object),
        "resourceVersion": object::meta_str(object, "resourceVersion"),
        "creationTimestamp": object::meta_str(object, "creationTimestamp"),
    });
    if resource.namespaced {
        metadata["namespace"] = object::namespace(object).into();
    }
    let number = |path: &[String]| at(object, path).and_then(Value::as_i64);
    let mut view = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": number(&scale.status_replicas).unwrap_or(0)},
    });
    // Zero is left out, as it always was on this kind.
    if let Some(replicas) = number(&scale.spec_replicas).filter(|n| *n != 0) {
        view["spec"]["replicas"] = replicas.into();
    }
    if let Some(selector) = scale.selector.as_ref().and_then(|path| at(object, path)) {
        let text = match selector {
            Value::String(text) => text.clone(),
            selector => sutler_schema::selector::LabelSelector::from_object(selector)
                .map(|s| s.to_string())
                .unwrap_or_default(),
        };
        if !text.is_empty() {
            view["status"]["selector"] = text.into();
        }
    }
    view
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = object;
    for field in parents {
        if !at.get(field).is_some_and(Value::is_object) {
            at[field.as_str()] = json!({});
        }
        at = &mut at[field.as_str()];
    }
    at[last.as_str()] = value;
}
