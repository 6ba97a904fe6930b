//! ClusterRoles that collect the rules of others by label have them written out, for people and
//! clients that read the object.

use std::time::Duration;

use serde_json::Value;

use super::{System, feed::Feed, note};
use crate::{
    auth::rbac::{GROUP, aggregate},
    policy,
    status::ApiError,
    write::update::{self, Change as Edit, Next},
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
        let options = system.options();
        let edit = Edit {
            resource,
            namespace: "",
            name: &name,
            subresource: "",
            options: &options,
            create: false,
            binding_version: false,
            binding_uid: false,
        };
        let ctx = system.ctx();
        update::run(&ctx, &edit, &mut |current| {
            let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), &name))?;
            let mut next = current.clone();
            next["rules"] = Value::Array(rules.clone());
            Ok(Next::Tracked(next))
        })
        .await?;
    }
    Ok(())
}
