//! ClusterRoles that collect the rules of others by label have them written out, for people and
//! clients that read the object.

use std::time::Duration;

use serde_json::Value;

use super::{At, System, feed::Feed, note};
use crate::{
    auth::rbac::{GROUP, aggregate},
    policy,
    status::ApiError,
};

/// How long a failed round waits.
const RETRY: Duration = Duration::from_millis(500);

pub(super) async fn run(system: System) {
    let mut feed = Feed::open(&system.inner, |r| r.is(GROUP, "clusterroles"));
    loop {
        while feed.ready().is_some() {}
        let retry = match round(&system).await {
            Ok(()) => None,
            Err(error) => {
                note("aggregating roles", &error);
                Some(RETRY)
            }
        };
        let next = match retry {
            Some(pause) => tokio::time::timeout(pause, feed.next()).await.ok(),
            None => Some(feed.next().await),
        };
        if matches!(next, Some(None)) {
            return;
        }
    }
}

async fn round(system: &System) -> Result<(), ApiError> {
    let Some(resource) = system.inner.registry.builtin(GROUP, "clusterroles") else {
        return Ok(());
    };
    let roles = policy::all(&system.inner, GROUP, "clusterroles", "").await?;
    for (name, rules) in aggregate::outdated(roles.iter()) {
        let at = At { resource, namespace: "", name: &name, subresource: "" };
        system.edit(at, &|role| role["rules"] = Value::Array(rules.clone())).await?;
    }
    Ok(())
}
