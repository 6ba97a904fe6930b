//! Disruption budgets: how many of a set of pods may be disturbed now.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sutler_schema::selector::LabelSelector;

use super::{
    System,
    feed::{Feed, Tick},
    note,
};
use crate::{
    object, policy,
    registry::Resource,
    status::ApiError,
    time,
    write::update::{self, Change as Edit, Next},
};

const RETRY: Duration = Duration::from_millis(500);
/// How long a pod that was evicted counts as disrupted before its deletion is seen.
const DISRUPTED: Duration = Duration::from_secs(120);

pub(super) async fn run(system: System) {
    let wanted = |r: &Resource| {
        r.is("", "pods")
            || r.is("policy", "poddisruptionbudgets")
            || r.is("apps", "replicasets")
            || r.is("apps", "deployments")
    };
    let mut feed = Feed::open(&system.inner, wanted);
    let mut dirty: Option<BTreeSet<String>> = None;
    loop {
        let failed = match work(&system, dirty.take()).await {
            Ok(()) => false,
            Err(error) => {
                note("counting disruption budgets", &error);
                true
            }
        };
        let tick = if failed {
            match tokio::time::timeout(RETRY, feed.next()).await {
                Ok(tick) => tick,
                Err(_) => continue,
            }
        } else {
            feed.next().await
        };
        let Some(tick) = tick else { return };
        let mut namespaces = BTreeSet::new();
        let mut all = failed;
        let mut next = Some(tick);
        while let Some(tick) = next {
            match tick {
                Tick::Missed => all = true,
                Tick::Change(resource, change) => {
                    let rest = change.key.strip_prefix(&resource.prefix).unwrap_or_default();
                    let namespace = rest.split('/').next().unwrap_or_default();
                    namespaces.insert(namespace.to_owned());
                }
            }
            next = feed.ready();
        }
        dirty = (!all).then_some(namespaces);
    }
}

/// Counts the budgets of some namespaces, or of all.
async fn work(system: &System, namespaces: Option<BTreeSet<String>>) -> Result<(), ApiError> {
    let inner = &system.inner;
    let budgets = match &namespaces {
        None => policy::all(inner, "policy", "poddisruptionbudgets", "").await?,
        Some(namespaces) => {
            let mut found = Vec::new();
            for namespace in namespaces {
                found
                    .extend(policy::all(inner, "policy", "poddisruptionbudgets", namespace).await?);
            }
            found
        }
    };
    for budget in budgets {
        count(system, &budget).await?;
    }
    Ok(())
}

async fn count(system: &System, budget: &Value) -> Result<(), ApiError> {
    let inner = &system.inner;
    let Some(resource) = inner.registry.builtin("policy", "poddisruptionbudgets") else {
        return Ok(());
    };
    let namespace = object::namespace(budget);
    let selector = budget.pointer("/spec/selector").unwrap_or(&Value::Null);
    let selector = match LabelSelector::from_object(selector) {
        Ok(found) if !selector.is_null() => found,
        _ => LabelSelector::nothing(),
    };
    let pods: Vec<Value> = policy::all(inner, "", "pods", namespace)
        .await?
        .into_iter()
        .filter(|pod| selector.matches(object::labels(pod)))
        .collect();
    let (expected, desired) = expectation(system, budget, &pods).await?;
    let now = inner.clock.now();
    let disrupted: serde_json::Map<String, Value> = budget
        .pointer("/status/disruptedPods")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(name, when)| {
            let recent = when.as_str().and_then(time::parse).is_some_and(|t| t + DISRUPTED > now);
            recent && pods.iter().any(|p| object::name(p) == *name && !object::is_deleting(p))
        })
        .map(|(name, when)| (name.clone(), when.clone()))
        .collect();
    let healthy = pods
        .iter()
        .filter(|pod| {
            is_ready(pod) && !object::is_deleting(pod) && !disrupted.contains_key(object::name(pod))
        })
        .count() as i64;
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let generation = object::generation(budget);
    let stamp = inner.timestamp();
    let options = system.options();
    let edit = Edit {
        resource,
        namespace,
        name: object::name(budget),
        subresource: "status",
        options: &options,
        create: false,
        binding_version: false,
        binding_uid: false,
    };
    let ctx = system.ctx();
    update::run(&ctx, &edit, &mut |current| {
        let current =
            current.ok_or_else(|| ApiError::not_found(resource.gr(), object::name(budget)))?;
        // An eviction has counted in between: then this count is stale, and another tick comes.
        if object::meta_str(current, "resourceVersion")
            != object::meta_str(budget, "resourceVersion")
        {
            return Ok(Next::Tracked(current.clone()));
        }
        let mut next = current.clone();
        let status = &mut next["status"];
        status["expectedPods"] = expected.into();
        status["desiredHealthy"] = desired.into();
        status["currentHealthy"] = healthy.into();
        status["disruptionsAllowed"] = allowed.into();
        status["observedGeneration"] = generation.into();
        if disrupted.is_empty() {
            if let Some(map) = status.as_object_mut() {
                map.remove("disruptedPods");
            }
        } else {
            status["disruptedPods"] = Value::Object(disrupted.clone());
        }
        set_condition(status, allowed > 0, generation, &stamp);
        Ok(Next::Tracked(next))
    })
    .await?;
    Ok(())
}

fn set_condition(status: &mut Value, sufficient: bool, generation: i64, now: &str) {
    let (text, reason) =
        if sufficient { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions.iter().find(|c| c["type"] == "DisruptionAllowed");
    let since = match before {
        Some(c) if c["status"] == text => c["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    conditions.retain(|c| c["type"] != "DisruptionAllowed");
    conditions.push(json!({
        "type": "DisruptionAllowed", "status": text, "reason": reason, "message": "",
        "lastTransitionTime": since, "observedGeneration": generation,
    }));
    status["conditions"] = conditions.into();
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// How many pods there should be, and how many of them must stay healthy.
async fn expectation(
    system: &System,
    budget: &Value,
    pods: &[Value],
) -> Result<(i64, i64), ApiError> {
    let spec = &budget["spec"];
    if let Some(most) = spec.get("maxUnavailable").filter(|v| !v.is_null()) {
        let expected = scale(system, object::namespace(budget), pods).await?;
        let most = amount(most, expected);
        return Ok((expected, (expected - most).max(0)));
    }
    match spec.get("minAvailable").filter(|v| !v.is_null()) {
        Some(Value::Number(n)) => Ok((pods.len() as i64, n.as_i64().unwrap_or(0))),
        Some(least) => {
            let expected = scale(system, object::namespace(budget), pods).await?;
            Ok((expected, amount(least, expected)))
        }
        None => Ok((pods.len() as i64, 0)),
    }
}

/// A number, or a share that is rounded up.
fn amount(value: &Value, of: i64) -> i64 {
    match value {
        Value::Number(n) => n.as_i64().unwrap_or(0),
        Value::String(text) => {
            let percent = text.trim_end_matches('%').parse::<i64>().unwrap_or(0);
            (of * percent + 99).div_euclid(100)
        }
        _ => 0,
    }
}

/// The sum of what the controllers of the pods want.
async fn scale(system: &System, namespace: &str, pods: &[Value]) -> Result<i64, ApiError> {
    let ctx = system.ctx();
    let registry = &system.inner.registry;
    let mut seen = BTreeSet::new();
    let mut sum = 0;
    for pod in pods {
        let Some(owner) = controller(pod) else { continue };
        let mut at = owner;
        let mut wanted = None;
        // From the pod's own controller up to the last one that can be scaled.
        for _ in 0..4 {
            let Some(resource) = registry.find_kind(&at.0, &at.1) else { break };
            let Some(object) = find(&ctx, resource, namespace, &at).await? else { break };
            if let Some(scale) = &resource.scale {
                let replicas = crate::strategy::at(&object, &scale.spec_replicas);
                wanted = Some((
                    object::uid(&object).to_owned(),
                    replicas.and_then(Value::as_i64).unwrap_or(0),
                ));
            }
            match controller(&object) {
                Some(above) => at = above,
                None => break,
            }
        }
        if let Some((uid, replicas)) = wanted
            && seen.insert(uid)
        {
            sum += replicas;
        }
    }
    Ok(sum)
}

type Ref = (String, String, String, String);

async fn find(
    ctx: &crate::write::Ctx<'_>,
    resource: &Arc<Resource>,
    namespace: &str,
    at: &Ref,
) -> Result<Option<Value>, ApiError> {
    let namespace = if resource.namespaced { namespace } else { "" };
    let found = crate::read::get::find(ctx, resource, namespace, &at.2).await?;
    Ok(found.filter(|object| object::uid(object) == at.3))
}

/// The controlling owner: apiVersion, kind, name and uid.
fn controller(object: &Value) -> Option<Ref> {
    let owner = object::owners(object).find(|o| o["controller"] == Value::Bool(true))?;
    let text = |key: &str| owner[key].as_str().unwrap_or_default().to_owned();
    Some((text("apiVersion"), text("kind"), text("name"), text("uid")))
}
