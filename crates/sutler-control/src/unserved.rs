//! Kinds whose controllers come with later releases: their objects say so, once per generation.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::BoxFuture, future::FutureExt as _};
use jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use sutler_api::{
    infra::VMMigration,
    names::{MANAGER, condition_types, reasons},
    sutler::{Agent, Application, PendingAdoption, VMTemplate},
};

use crate::{context::Context, fleet::Key, kit::Steady};

/// The pause before a kind that the server does not have is looked for again.
const NOT_INSTALLED: Duration = Duration::from_secs(300);

/// The pause before a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// A kind that is not served yet.
#[derive(Debug, Clone)]
struct Kind {
    resource: ApiResource,
}

fn kind<K: Resource<DynamicType = ()>>() -> Kind {
    Kind { resource: ApiResource::erase::<K>(&()) }
}

fn kinds() -> Vec<Kind> {
    vec![
        kind::<VMMigration>(),
        kind::<VMTemplate>(),
        kind::<Application>(),
        kind::<PendingAdoption>(),
        kind::<Agent>(),
    ]
}

/// Tells of all these kinds until the future is dropped.
pub(crate) async fn run(context: &Arc<Context>) {
    let all: Vec<BoxFuture<'_, ()>> =
        kinds().into_iter().map(|kind| tell(context, kind).boxed()).collect();
    futures::future::join_all(all).await;
}

async fn tell(context: &Arc<Context>, kind: Kind) {
    let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &kind.resource);
    let objects =
        watcher(api, watcher::Config::default()).backoff(Steady::default()).touched_objects();
    let mut objects = std::pin::pin!(objects);
    // Whatever others write into the status afterwards, it is told once per generation.
    let mut told: BTreeMap<Key, (Option<String>, i64)> = BTreeMap::new();
    while let Some(object) = objects.next().await {
        let object = match object {
            Ok(object) => object,
            Err(error) if not_installed(&error) => {
                tokio::time::sleep(NOT_INSTALLED).await;
                continue;
            }
            Err(error) => {
                tracing::debug!(%error, kind = kind.resource.kind, "a watch begins anew");
                continue;
            }
        };
        let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
        if object.metadata.deletion_timestamp.is_some() {
            told.remove(&key);
            continue;
        }
        let generation = object.metadata.generation.unwrap_or_default();
        let this = (object.uid(), generation);
        if told.get(&key) == Some(&this) {
            continue;
        }
        if let Some(status) = status(&kind, &object, context.clock.now()) {
            write(context, &kind, &key, &object, status).await;
        }
        told.insert(key, this);
    }
}

fn not_installed(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// The status that says so; none where it was said of this generation.
fn status(kind: &Kind, object: &DynamicObject, now: Timestamp) -> Option<Value> {
    let generation = object.metadata.generation.unwrap_or_default();
    let old = object.data.get("status");
    let conditions = old.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let mut conditions = conditions.cloned().unwrap_or_default();
    let is_ready = |condition: &Value| condition["type"] == condition_types::READY;
    let known = conditions.iter().position(is_ready);
    let before = known.map(|place| &conditions[place]);
    if before.is_some_and(|before| before["observedGeneration"].as_i64() >= Some(generation)) {
        return None;
    }
    let same = before.filter(|before| before["status"] == "False");
    let since = same.map(|before| before["lastTransitionTime"].clone());
    let now = json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    let ready = json!({
        "type": condition_types::READY,
        "status": "False",
        "reason": reasons::NOT_YET_SERVED,
        "message": format!("{} is not served by this release", kind.resource.kind),
        "lastTransitionTime": since.filter(|since| !since.is_null()).unwrap_or(now.clone()),
        "observedGeneration": generation,
    });
    match known {
        Some(place) => conditions[place] = ready,
        None => conditions.push(ready),
    }
    Some(json!({ "conditions": conditions, "observedGeneration": generation }))
}

async fn write(context: &Context, kind: &Kind, key: &Key, object: &DynamicObject, status: Value) {
    let api: Api<DynamicObject> = match key.namespace.is_empty() {
        true => Api::all_with(context.client.clone(), &kind.resource),
        false => Api::namespaced_with(context.client.clone(), &key.namespace, &kind.resource),
    };
    let body = json!({ "metadata": { "uid": object.uid() }, "status": status });
    let params = PatchParams::apply(MANAGER);
    loop {
        match api.patch_status(&key.name, &params, &Patch::Merge(&body)).await {
            Ok(_) => return,
            // It went away, or what it says is not ours to say.
            Err(kube::Error::Api(status)) if (400..429).contains(&status.code) => {
                tracing::debug!(%key, message = %status.message, "a status was not written");
                return;
            }
            Err(error) => {
                context.counters.count_api_error();
                tracing::debug!(%key, %error, "a status is written later");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(generation: i64, conditions: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "x/v1", "kind": "VMMigration",
            "metadata": { "name": "a", "namespace": "ns", "generation": generation },
            "spec": {}, "status": { "conditions": conditions },
        }))
        .unwrap()
    }

    #[test]
    fn it_is_said_once_per_generation_and_nothing_else_is_lost() {
        let kind = kind::<VMMigration>();
        let now = Timestamp::from_second(7).unwrap();
        let other = json!({ "type": "Other", "status": "True" });
        let first = status(&kind, &object(1, json!([other])), now).unwrap();
        assert_eq!(first["conditions"][0], other);
        assert_eq!(first["conditions"][1]["reason"], "NotYetServed");
        assert!(first["conditions"][1]["message"].as_str().unwrap().contains("VMMigration"));
        let told = object(1, first["conditions"].clone());
        assert_eq!(status(&kind, &told, now), None);
        let later = Timestamp::from_second(9).unwrap();
        let next = status(&kind, &object(2, first["conditions"].clone()), later).unwrap();
        let ready = &next["conditions"][1];
        assert_eq!(ready["lastTransitionTime"], first["conditions"][1]["lastTransitionTime"]);
        assert_eq!(ready["observedGeneration"], 2);
    }

    #[test]
    fn the_conditions_fit_the_types_of_their_kinds() {
        let now = Timestamp::from_second(7).unwrap();
        let of = |kind: Kind| status(&kind, &object(3, json!([])), now).unwrap();
        let read: sutler_api::infra::VMMigrationStatus =
            serde_json::from_value(of(kind::<VMMigration>())).unwrap();
        assert_eq!(read.conditions[0].observed_generation, Some(3));
        assert_eq!(kinds().len(), 5);
    }
}
