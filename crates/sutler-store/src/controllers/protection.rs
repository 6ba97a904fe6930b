//! Volumes and claims that are being deleted go once nobody uses them.

use std::time::Duration;

use serde_json::Value;

use super::{At, System, feed::Feed, note};
use crate::{object, policy, registry::Resource, status::ApiError};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";
/// How long a failed round waits.
const RETRY: Duration = Duration::from_millis(500);

pub(super) async fn run(system: System) {
    let wanted = |r: &Resource| {
        r.is("", "persistentvolumeclaims") || r.is("", "persistentvolumes") || r.is("", "pods")
    };
    let mut feed = Feed::open(&system.inner, wanted);
    loop {
        while feed.ready().is_some() {}
        let failed = round(&system).await.inspect_err(|e| note("freeing volumes", e)).is_err();
        let next = if failed {
            tokio::time::timeout(RETRY, feed.next()).await.ok()
        } else {
            Some(feed.next().await)
        };
        if matches!(next, Some(None)) {
            return;
        }
    }
}

async fn round(system: &System) -> Result<(), ApiError> {
    let inner = &system.inner;
    for claim in policy::all(inner, "", "persistentvolumeclaims", "").await? {
        if !held(&claim, CLAIM) {
            continue;
        }
        let pods = policy::all(inner, "", "pods", object::namespace(&claim)).await?;
        if !pods.iter().any(|pod| uses(pod, object::name(&claim))) {
            release(system, "persistentvolumeclaims", &claim, CLAIM).await?;
        }
    }
    for volume in policy::all(inner, "", "persistentvolumes", "").await? {
        if held(&volume, VOLUME) && volume.pointer("/status/phase") != Some(&"Bound".into()) {
            release(system, "persistentvolumes", &volume, VOLUME).await?;
        }
    }
    Ok(())
}

fn held(object: &Value, finalizer: &str) -> bool {
    object::is_deleting(object) && object::finalizers(object).any(|f| f == finalizer)
}

/// Whether a pod that is not over mounts a claim.
fn uses(pod: &Value, claim: &str) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    !matches!(phase, "Succeeded" | "Failed")
        && volumes
            .into_iter()
            .flatten()
            .any(|v| v.pointer("/persistentVolumeClaim/claimName") == Some(&claim.into()))
}

async fn release(
    system: &System,
    plural: &str,
    held: &Value,
    finalizer: &str,
) -> Result<(), ApiError> {
    let Some(resource) = system.inner.registry.builtin("", plural) else { return Ok(()) };
    let (namespace, name) = (object::namespace(held), object::name(held));
    let at = At { resource, namespace, name, subresource: "" };
    system.edit(at, &|object| object::drop_finalizers(object, |f| f == finalizer)).await
}
