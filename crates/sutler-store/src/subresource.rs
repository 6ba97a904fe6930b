//! Subresources that only single built-in kinds have: binding and eviction of pods, finalize of
//! namespaces.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use sutler_builtin::Subresource;
use sutler_schema::{error::FieldError, selector::LabelSelector};

use crate::{
    negotiate, object,
    options::{OptionsKind, WriteOptions},
    policy,
    read::get,
    registry::Resource,
    request::Query,
    status::ApiError,
    write::{
        Ctx, Outcome,
        decode::why_another,
        delete::{self, DeleteOptions},
        update::{Change, Next, run, uid_conflict},
    },
};

/// Whether a resource has a subresource; all have the empty one.
pub(crate) fn exists(resource: &Resource, subresource: &str) -> bool {
    match subresource {
        "" => true,
        "status" => resource.status,
        "scale" => resource.scale.is_some(),
        other => resource
            .builtin()
            .is_some_and(|kind| kind.subresources.iter().any(|s| s.name() == other)),
    }
}

/// Writes to a special subresource.
pub(crate) async fn write(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
) -> Result<Outcome, ApiError> {
    let subresource = ctx.info.subresource.as_str();
    match (ctx.info.verb, subresource) {
        ("create", s) if s == Subresource::Binding.name() => {
            bind(ctx, resource, Some(&ctx.info.name), body).await
        }
        ("create", s) if s == Subresource::Eviction.name() => evict(ctx, resource, body).await,
        ("update", s) if s == Subresource::Finalize.name() => finalize(ctx, resource, body).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Puts a pod on a node: the one that the address names, or else the one that the binding does.
pub(crate) async fn bind(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    addressed: Option<&str>,
    body: &[u8],
) -> Result<Outcome, ApiError> {
    let options = WriteOptions::parse(OptionsKind::Create, ctx.query, ctx.headers)?;
    let binding = negotiate::decode_object(ctx.headers, body)?.value;
    let info = ctx.info;
    let name = object::name(&binding);
    let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default();
    let kind = binding.pointer("/target/kind").and_then(Value::as_str).unwrap_or_default();
    if addressed.is_some_and(|addressed| addressed != name) {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let mut errors: Vec<FieldError> = Vec::new();
    if !matches!(kind, "" | "Node") {
        let known = ["Node", "<empty>"];
        errors.push(FieldError::not_supported("target.kind", kind, &known));
    }
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    if !errors.is_empty() {
        // These come bare: the real server does not take them for a fault of the client.
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let message = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        return Err(ApiError::plain(StatusCode::INTERNAL_SERVER_ERROR, "", message));
    }
    let now = ctx.inner.timestamp();
    let change = Change {
        resource,
        namespace: &info.namespace,
        name,
        subresource: "binding",
        options: &options,
        create: false,
        binding_version: false,
        binding_uid: false,
    };
    run(ctx, &change, &mut |current| {
        let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), name))?;
        let (asked, found) = (object::uid(&binding), object::uid(current));
        if !asked.is_empty() && asked != found {
            return Err(uid_conflict(&change, asked, found));
        }
        let assigned = current.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
        let refuse = |why: String| {
            let gr = crate::status::GroupResource { group: "", resource: "pods/binding" };
            Err(ApiError::conflict(gr, name, &why))
        };
        if object::is_deleting(current) {
            return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        if !assigned.is_empty() {
            return refuse(format!("pod {name} is already assigned to node {assigned:?}"));
        }
        let mut next = current.clone();
        next["spec"]["nodeName"] = node.into();
        set_condition(
            &mut next,
            json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": now,
            }),
        );
        let annotations = binding.pointer("/metadata/annotations").and_then(Value::as_object);
        for (key, value) in annotations.into_iter().flatten() {
            next["metadata"]["annotations"][key.as_str()] = value.clone();
        }
        Ok(Next::Owned(next))
    })
    .await?;
    Ok(Outcome::success(StatusCode::CREATED, Value::Null))
}

async fn finalize(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
) -> Result<Outcome, ApiError> {
    let options = WriteOptions::parse(OptionsKind::Update, ctx.query, ctx.headers)?;
    let sent = crate::write::decode_body(ctx, resource, &options, body)?;
    let info = ctx.info;
    let change = Change {
        resource,
        namespace: "",
        name: &info.name,
        subresource: "finalize",
        options: &options,
        create: false,
        binding_version: !object::meta_str(&sent, "resourceVersion").is_empty(),
        binding_uid: false,
    };
    run(ctx, &change, &mut |current| {
        let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))?;
        let mut next = current.clone();
        next["spec"] = sent.get("spec").cloned().unwrap_or_else(|| json!({}));
        let version = sent.pointer("/metadata/resourceVersion").cloned();
        object::set_meta(&mut next, "resourceVersion", version);
        Ok(Next::Tracked(next))
    })
    .await
}

/// The words that evicting clients look for.
const WOULD_VIOLATE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

async fn evict(ctx: &Ctx<'_>, resource: &Arc<Resource>, body: &[u8]) -> Result<Outcome, ApiError> {
    let info = ctx.info;
    let eviction = negotiate::decode_object(ctx.headers, body)?.value;
    let text = |key: &str| eviction[key].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if !api_version.is_empty() && group != "policy" || !matches!(kind, "" | "Eviction") {
        let why = why_another(ctx, ("policy", "Eviction"), api_version, kind);
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a Eviction: {why}",
            api_version.rsplit('/').next().unwrap_or_default()
        )));
    }
    if object::name(&eviction) != info.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let dry = crate::options::dry_run(ctx.query.all("dryRun")).unwrap_or(false)
        || eviction.pointer("/deleteOptions/dryRun").is_some();
    let mut options = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    if dry {
        options["dryRun"] = json!(["All"]);
    }
    let delete_options = DeleteOptions::of(&options)?;
    let pod = get::find(ctx, resource, &info.namespace, &info.name)
        .await?
        .ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))?;
    if !needs_budget(&pod) || spend(ctx, &pod, dry).await? {
        if !dry {
            mark_disrupted(ctx, resource).await?;
        }
        delete::delete_one(ctx, resource, &info.namespace, &info.name, &delete_options).await?;
    }
    Ok(Outcome::success(StatusCode::CREATED, Value::Null))
}

/// Says on the pod why it ends.
async fn mark_disrupted(ctx: &Ctx<'_>, resource: &Arc<Resource>) -> Result<(), ApiError> {
    let info = ctx.info;
    let options = WriteOptions::parse(OptionsKind::Create, &Query::default(), ctx.headers)?;
    let now = ctx.inner.timestamp();
    let change = Change {
        resource,
        namespace: &info.namespace,
        name: &info.name,
        subresource: "eviction",
        options: &options,
        create: false,
        binding_version: false,
        binding_uid: false,
    };
    run(ctx, &change, &mut |current| {
        let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))?;
        let mut next = current.clone();
        set_condition(
            &mut next,
            json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null,
                "lastTransitionTime": now,
            }),
        );
        Ok(Next::Owned(next))
    })
    .await?;
    Ok(())
}

/// Sets a condition in the place of the one with its type.
fn set_condition(pod: &mut Value, condition: Value) {
    let conditions = &mut pod["status"]["conditions"];
    let mut kept = match conditions.take() {
        Value::Array(conditions) => conditions,
        _ => Vec::new(),
    };
    kept.retain(|other| other["type"] != condition["type"]);
    kept.push(condition);
    *conditions = kept.into();
}

/// A pod that is over, has not begun or is on its way out disturbs nobody by going.
fn needs_budget(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    !matches!(phase, "Succeeded" | "Failed" | "Pending") && !object::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Takes one disruption from the pod's budget, if it has one. Refused when there is none to take.
async fn spend(ctx: &Ctx<'_>, pod: &Value, dry: bool) -> Result<bool, ApiError> {
    let inner = ctx.inner;
    let namespace = object::namespace(pod);
    let Some(budgets) = inner.registry.builtin("policy", "poddisruptionbudgets") else {
        return Ok(true);
    };
    let all = policy::all(inner, "policy", "poddisruptionbudgets", namespace).await?;
    let mine: Vec<&Value> = all
        .iter()
        .filter(|budget| {
            let selector = budget.pointer("/spec/selector").unwrap_or(&Value::Null);
            !selector.is_null()
                && LabelSelector::from_object(selector)
                    .is_ok_and(|s| s.matches(object::labels(pod)))
        })
        .collect();
    let budget = match mine.as_slice() {
        [] => return Ok(true),
        [one] => *one,
        _ => {
            return Err(ApiError::plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                 does not support.",
            ));
        }
    };
    let name = object::name(budget);
    let number = |budget: &Value, field: &str| {
        budget.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or(0)
    };
    if !is_ready(pod) {
        let always =
            budget.pointer("/spec/unhealthyPodEvictionPolicy") == Some(&json!("AlwaysAllow"));
        let healthy = number(budget, "currentHealthy");
        let enough =
            healthy >= number(budget, "desiredHealthy") && number(budget, "desiredHealthy") > 0;
        if always || enough {
            return Ok(true);
        }
    }
    if dry {
        return Ok(true);
    }
    let now = inner.timestamp();
    let options = WriteOptions {
        dry_run: false,
        manager: "kube-apiserver".into(),
        validation: crate::strategy::FieldValidation::Ignore,
        force: false,
    };
    let change = Change {
        resource: budgets,
        namespace,
        name,
        subresource: "status",
        options: &options,
        create: false,
        binding_version: false,
        binding_uid: false,
    };
    let refuse = |retry: u64, message: String| {
        let causes = json!([{"reason": "DisruptionBudget", "message": message}]);
        Err(ApiError::too_many_requests(WOULD_VIOLATE, retry, causes))
    };
    run(ctx, &change, &mut |current| {
        let current = current.ok_or_else(|| ApiError::not_found(budgets.gr(), name))?;
        if number(current, "observedGeneration") < object::generation(current) {
            return refuse(
                10,
                format!("The disruption budget {name} is still being processed by the server."),
            );
        }
        let allowed = number(current, "disruptionsAllowed");
        if allowed <= 0 {
            let (desired, healthy) =
                (number(current, "desiredHealthy"), number(current, "currentHealthy"));
            return refuse(
                0,
                format!(
                    "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
                ),
            );
        }
        let mut next = current.clone();
        next["status"]["disruptionsAllowed"] = (allowed - 1).into();
        next["status"]["disruptedPods"][object::name(pod)] = now.clone().into();
        Ok(Next::Tracked(next))
    })
    .await?;
    Ok(true)
}
