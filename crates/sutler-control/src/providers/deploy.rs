//! Providers that are deployed: their Deployment, Service and NetworkPolicy on a cluster.
//!
//! They are applied at every look, so that what somebody changes by hand is put back, and belong to
//! their Provider, so that they go with it. The pod is told what upstream's manager tells it: images
//! made for that run here.

mod objects;

use std::{fmt::Debug, sync::Arc};

use futures::StreamExt as _;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, networking::v1::NetworkPolicy};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::{NamespaceResourceScope, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use sutler_api::{
    infra::{Provider, ProviderRuntime, ProviderRuntimeStatus, RuntimeMode, RuntimePhase},
    names::{MANAGER, reasons},
    refs::CoreLocalRef,
};

use super::{
    Problem,
    runtime::{Runtime, Said, object_name},
};
use crate::{
    context::Context,
    fleet::{Key, lock},
    kit::Steady,
    machine::Error,
};

/// The label that says whose what we deploy is, beside the owner reference.
const MANAGED: &str = "app.kubernetes.io/managed-by";

/// Where a deployed Provider is dialled: upstream's name, which is in its certificate.
pub(super) fn address(provider: &Provider, runtime: &ProviderRuntime) -> String {
    let namespace = provider.namespace().unwrap_or_default();
    let port = objects::port(runtime);
    format!("{}.{namespace}.svc.cluster.local:{port}", object_name(provider))
}

/// Makes what the Provider asks for, or changes it, and tells how far it has come.
pub(super) async fn apply(
    context: &Context,
    provider: &Provider,
    runtime: &ProviderRuntime,
) -> Result<Result<Runtime, Problem>, Error> {
    let own = provider.namespace().unwrap_or_default();
    let credentials = match &provider.spec.credential_secret_ref {
        None => None,
        Some(reference) if reference.namespace_or(&own) != own => {
            let message = format!(
                "spec.credentialSecretRef: a pod in namespace {own} cannot have a Secret of \
                 namespace {}: copy it here",
                reference.namespace_or(&own)
            );
            return Ok(Err(Problem::new(reasons::INVALID, message)));
        }
        Some(reference) => {
            let secret = context.secret(&Key::new(&own, &reference.name)).await?;
            let version = secret.and_then(|secret| secret.resource_version());
            Some((reference.name.clone(), version.unwrap_or_default()))
        }
    };
    let wanted = objects::wanted(provider, runtime, credentials, &context.settings.namespace);
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(error) => {
            let message = format!("spec.runtime: {error}");
            return Ok(Err(Problem::new(reasons::INVALID, message)));
        }
    };
    let deployment = match put(context, &own, &wanted.deployment).await? {
        Ok(deployment) => deployment,
        Err(problem) => return Ok(Err(problem)),
    };
    for put in [
        put(context, &own, &wanted.service).await?.map(drop),
        put(context, &own, &wanted.policy).await?.map(drop),
    ] {
        if let Err(problem) = put {
            return Ok(Err(problem));
        }
    }
    Ok(Ok(progress(&deployment)))
}

/// Applies one object. What the API server refuses is for a person to put right.
async fn put<K>(context: &Context, namespace: &str, object: &K) -> Result<Result<K, Problem>, Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Serialize
        + DeserializeOwned
        + Debug,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    let name = object.name_any();
    let params = PatchParams::apply(MANAGER).force();
    match api.patch(&name, &params, &Patch::Apply(object)).await {
        Ok(applied) => Ok(Ok(applied)),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 404 | 422) => {
            let kind = K::kind(&());
            let message = format!("{kind} {name} cannot be applied: {}", status.message);
            let mut problem = Problem::new(reasons::FAILED, message);
            problem.retry = Some(std::time::Duration::from_secs(60));
            Ok(Err(problem))
        }
        Err(error) => Err(error.into()),
    }
}

/// How far a Deployment has come.
fn progress(deployment: &Deployment) -> Runtime {
    let name = deployment.name_any();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let ready = status.ready_replicas.unwrap_or_default();
    let behind = status.observed_generation < deployment.metadata.generation;
    let condition = |type_: &str, holds: &str| {
        let conditions = status.conditions.iter().flatten();
        let found = conditions.into_iter().find(|c| c.type_ == type_ && c.status == holds);
        found.and_then(|condition| condition.message.clone())
    };
    let stuck = condition("Progressing", "False").or_else(|| condition("ReplicaFailure", "True"));
    let counted = format!("Deployment {name} has {ready} of {wanted} copies ready");
    let (phase, up) = match (stuck, ready) {
        (_, 1..) => (RuntimePhase::Running, Said::new(true, reasons::READY, counted)),
        (Some(why), _) if !behind => {
            let message = format!("{counted}: {why}");
            (RuntimePhase::Failed, Said::new(false, reasons::FAILED, message))
        }
        _ if behind => {
            let message = format!("Deployment {name} was made and nobody has looked at it yet");
            (RuntimePhase::Pending, Said::new(false, reasons::PENDING, message))
        }
        _ => (RuntimePhase::Starting, Said::new(false, reasons::STARTING, counted)),
    };
    Runtime {
        status: ProviderRuntimeStatus {
            mode: Some(RuntimeMode::Remote),
            phase: Some(phase),
            endpoint: None,
            service_ref: Some(CoreLocalRef { name }),
            ready_replicas: Some(ready),
            available_replicas: Some(status.available_replicas.unwrap_or_default()),
            message: Some(up.message.clone()),
        },
        up,
        tls: None,
        credentials: None,
    }
}

/// Removes what was deployed for a Provider that is reached in another way now.
pub(super) async fn remove(context: &Context, provider: &Provider) -> Result<(), Error> {
    let status = provider.status.as_ref().and_then(|status| status.runtime.as_ref());
    let deployed = status.is_some_and(|runtime| runtime.service_ref.is_some());
    if !deployed || !context.settings.cluster {
        return Ok(());
    }
    take::<Deployment>(context, provider).await?;
    take::<Service>(context, provider).await?;
    take::<NetworkPolicy>(context, provider).await
}

/// Removes an object of ours, if it is there and still ours.
async fn take<K>(context: &Context, provider: &Provider) -> Result<(), Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let namespace = provider.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    let Some(found) = api.get_opt(&object_name(provider)).await? else { return Ok(()) };
    let uid = provider.uid().unwrap_or_default();
    if !found.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let exactly = Preconditions { uid: found.uid(), resource_version: found.resource_version() };
    let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
    match api.delete(&found.name_any(), &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Wakes Providers whose Deployments changed.
pub(crate) async fn watch(context: &Arc<Context>) {
    if !context.settings.cluster {
        return;
    }
    let deployments: Api<PartialObjectMeta<Deployment>> = Api::all(context.client.clone());
    let config = watcher::Config::default().labels(&format!("{MANAGED}={MANAGER}"));
    let events = watcher(deployments, config).backoff(Steady::default()).touched_objects();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let Ok(deployment) = event else { continue };
        let namespace = deployment.namespace().unwrap_or_default();
        let owners = deployment.owner_references().iter();
        for owner in owners.filter(|owner| owner.kind == "Provider") {
            let key = Key::new(&namespace, &owner.name);
            // What was written a moment ago is no reason to hold this back.
            lock(&context.provider_status_at).remove(&key);
            context.wake_provider(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn phase(status: Value) -> (RuntimePhase, String) {
        let deployment = json!({"metadata": {"name": "d", "generation": 2},
            "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": status});
        let runtime = progress(&serde_json::from_value(deployment).unwrap());
        assert_eq!(runtime.is_up(), runtime.status.phase == Some(RuntimePhase::Running));
        (runtime.status.phase.unwrap(), runtime.up.message)
    }

    #[test]
    fn a_deployment_says_how_far_it_has_come() {
        assert_eq!(phase(json!({})).0, RuntimePhase::Pending);
        assert_eq!(phase(json!({"observedGeneration": 1})).0, RuntimePhase::Pending);
        let (now, message) = phase(json!({"observedGeneration": 2}));
        assert_eq!(now, RuntimePhase::Starting);
        assert!(message.contains("0 of 2"), "{message}");
        let stuck = json!({"observedGeneration": 2, "conditions": [
            {"type": "Progressing", "status": "False", "message": "it takes too long"}]});
        let (now, message) = phase(stuck);
        assert_eq!(now, RuntimePhase::Failed);
        assert!(message.contains("it takes too long"), "{message}");
        let up = json!({"observedGeneration": 2, "readyReplicas": 1});
        assert_eq!(phase(up).0, RuntimePhase::Running);
    }
}
