//! The scale subresource: a number to read and to write, wherever a kind keeps it.

use std::sync::Arc;

use serde_json::{Value, json};
use sutler_apply::{
    apply,
    managed::{ManagedError, ReplicasPath, from_scale, to_scale},
    patch,
    update::{Track, track},
};
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
    if resource.custom().is_some() && at(&object, &scale.spec_replicas).is_none() {
        let path = scale.spec_replicas.join(".");
        let why = format!("the spec replicas field \".{path}\" does not exist");
        return Err(ApiError::internal(why));
    }
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
    if resource.custom().is_some() && content_type == "application/strategic-merge-patch+json" {
        return Err(ApiError::unsupported_media_type(
            "application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml",
        ));
    }
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
        binding_uid: false,
    };
    let now = ctx.inner.timestamp();
    let write = ScaleWrite { resource, scale, options: &options, now: &now };
    let mut outcome = run(ctx, &change, &mut |current| {
        let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))?;
        let view = write.view(current)?;
        let wanted = match (patching, content_type.as_str()) {
            (false, _) => write.tracked(&view, sent.clone()),
            (true, "application/apply-patch+yaml") => write.applied(&view, &sent)?,
            (true, kind) => {
                let mut wanted = view.clone();
                match kind {
                    "application/json-patch+json" => patch::json(&mut wanted, &sent),
                    _ => patch::check_merge(&sent).map(|()| patch::merge(&mut wanted, &sent)),
                }
                .map_err(|e| super::patch::refusal(&e))?;
                write.tracked(&view, wanted)
            }
        };
        check(&wanted, &info.name)?;
        write.parent(current, &wanted).map(Next::Owned)
    })
    .await?;
    outcome.object = view(resource, scale, &outcome.object);
    outcome.wire = None;
    outcome.status = true;
    Ok(outcome)
}

/// A write to the scale of an object: who owns the number there owns it here.
struct ScaleWrite<'a> {
    resource: &'a Resource,
    scale: &'a Scale,
    options: &'a WriteOptions,
    now: &'a str,
}

impl ScaleWrite<'_> {
    fn with_path<T>(
        &self,
        then: impl FnOnce(&[ReplicasPath<'_>]) -> Result<T, ManagedError>,
    ) -> Result<T, ApiError> {
        let path: Vec<&str> = self.scale.spec_replicas.iter().map(String::as_str).collect();
        let mapping = ReplicasPath { api_version: &self.resource.api_version, path: &path };
        then(&[mapping]).map_err(ApiError::internal)
    }

    fn view(&self, parent: &Value) -> Result<Value, ApiError> {
        let mut view = view(self.resource, self.scale, parent);
        let owned = parent.pointer("/metadata/managedFields");
        let owned = self.with_path(|paths| to_scale(owned, paths))?;
        object::set_meta(&mut view, "managedFields", owned);
        Ok(view)
    }

    fn tracked(&self, old: &Value, mut new: Value) -> Value {
        let Some(kind) = scale_kind() else { return new };
        let track_it = Track {
            old: Some(old),
            node: &kind.node(),
            manager: &self.options.manager,
            api_version: "autoscaling/v1",
            subresource: "scale",
            now: self.now,
            reset: &[],
            zero: None,
        };
        track(&mut new, &track_it);
        new
    }

    fn applied(&self, live: &Value, config: &Value) -> Result<Value, ApiError> {
        let Some(kind) = scale_kind() else { return Ok(config.clone()) };
        let request = apply::Request {
            live: Some(live),
            config,
            node: &kind.node(),
            manager: &self.options.manager,
            api_version: "autoscaling/v1",
            subresource: "scale",
            force: self.options.force,
            now: self.now,
            reset: &[],
            zero: None,
        };
        apply::apply(&request).map_err(|e| super::patch::apply_refusal(&e))
    }

    /// The parent with the number and the owners of its new scale.
    fn parent(&self, current: &Value, wanted: &Value) -> Result<Value, ApiError> {
        let mut next = current.clone();
        let replicas = wanted.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
        set(&mut next, &self.scale.spec_replicas, replicas);
        let owned = self.with_path(|paths| {
            from_scale(
                current.pointer("/metadata/managedFields"),
                wanted.pointer("/metadata/managedFields"),
                &self.resource.api_version,
                paths,
            )
        })?;
        object::set_meta(&mut next, "managedFields", owned);
        let version = object::meta_str(wanted, "resourceVersion");
        let version = (!version.is_empty()).then(|| Value::String(version.into()));
        object::set_meta(&mut next, "resourceVersion", version);
        let uid = object::uid(wanted);
        if !uid.is_empty() {
            object::set_meta(&mut next, "uid", Some(uid.into()));
        }
        Ok(next)
    }
}

fn scale_kind() -> Option<&'static sutler_builtin::Kind> {
    sutler_builtin::lookup("autoscaling", "v1", "Scale")
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
