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
    Ctx, Outcome, Shape,
    decode::{no_type, why_another},
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
        (false, _) => {
            let sent = negotiate::decode_object(ctx.headers, body)?.value;
            whole(ctx, resource, sent)?
        }
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
        binding_uid: !patching,
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
                let wanted = typed(wanted.clone())
                    .map_err(|why| super::patch::unfit(&wanted, ApiError::bad_request(why)))?;
                write.tracked(&view, wanted)
            }
        };
        check(ctx, resource, &wanted)?;
        write.parent(current, &wanted).map(Next::Owned)
    })
    .await?;
    outcome.object = view(resource, scale, &outcome.object);
    outcome.wire = None;
    outcome.shape = Shape::Other;
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

/// A scale as its type has it: what is empty is left out, and a number is a number.
fn typed(scale: Value) -> Result<Value, String> {
    let Some(kind) = scale_kind() else { return Ok(scale) };
    sutler_builtin::decode(kind, scale).map_err(|error| error.to_string())
}

/// A scale that was sent whole.
fn whole(ctx: &Ctx<'_>, resource: &Resource, mut sent: Value) -> Result<Value, ApiError> {
    let Some(map) = sent.as_object_mut() else {
        return Err(ApiError::bad_request(no_type(&sent)));
    };
    for (key, own) in [("apiVersion", "autoscaling/v1"), ("kind", "Scale")] {
        map.entry(key).or_insert_with(|| own.into());
    }
    let text = |key: &str| sent[key].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if (api_version, kind) != ("autoscaling/v1", "Scale") {
        return Err(ApiError::bad_request(match resource.custom() {
            Some(_) => {
                "no kind is registered for the type v1.Scale in scheme \"sutler\"".to_owned()
            }
            None => format!(
                "{kind} in version {:?} cannot be handled as a Scale: {}",
                api_version.rsplit('/').next().unwrap_or_default(),
                why_another(ctx, ("autoscaling", "Scale"), api_version, kind)
            ),
        }));
    }
    typed(sent).map_err(|why| {
        let message = format!("Scale in version \"v1\" cannot be handled as a Scale: {why}");
        ApiError::bad_request(message)
    })
}

fn check(ctx: &Ctx<'_>, resource: &Resource, scale: &Value) -> Result<(), ApiError> {
    let name = ctx.info.name.as_str();
    let own = object::name(scale);
    if !own.is_empty() && own != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({name})"
        )));
    }
    let namespace = object::namespace(scale);
    if resource.namespaced && !namespace.is_empty() && namespace != ctx.info.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    // Custom kinds judge the number where they keep it.
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas >= 0 || resource.custom().is_some() {
        return Ok(());
    }
    let why = "must be greater than or equal to 0";
    let error = FieldError::invalid("spec.replicas", replicas, why);
    let gk = GroupResource { group: "autoscaling", resource: "Scale" };
    Err(ApiError::invalid(gk, name, &[error]))
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
