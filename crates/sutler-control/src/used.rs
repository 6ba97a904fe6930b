//! What machines refer to says who uses it: when that is written, and when it is looked at again.

use std::{fmt::Debug, sync::Arc, time::Duration};

use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
    runtime::controller::Action,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use sutler_api::names::MANAGER;

use crate::{
    context::{Context, SPACING},
    machine::{Error, status_difference},
};

/// The pause between two writes that only tell of another number of machines.
const COUNT_PAUSE: Duration = Duration::from_secs(5);

/// The pause after which an object is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(1800);

/// The pause after which a Provider that is not ready is looked at again.
const NOT_READY: Duration = Duration::from_secs(30);

/// The next try after an error of the API.
pub(crate) fn error_policy<K>(_: Arc<K>, _: &Error, context: Arc<Context>) -> Action {
    context.counters.count_api_error();
    Action::requeue(Duration::from_secs(2))
}

/// How an object stands that machines refer to.
pub(crate) struct Standing<S> {
    pub(crate) old: S,
    pub(crate) new: S,
    /// Whether only numbers of users are other ones.
    pub(crate) counts_alone: bool,
    /// Whether all Providers were ready that it is used on.
    pub(crate) all_ready: bool,
}

/// Writes how an object stands, if that is news and it is time to, and tells when to look again.
pub(crate) async fn publish<K, S>(
    context: &Context,
    object: &K,
    standing: &Standing<S>,
) -> Result<Action, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
    S: Serialize,
{
    let pause = if standing.all_ready { RESYNC } else { NOT_READY };
    let Some(patch) = status_difference(&standing.old, &standing.new) else {
        return Ok(Action::requeue(pause));
    };
    let uid = object.uid().unwrap_or_default();
    let least = if standing.counts_alone { COUNT_PAUSE } else { SPACING };
    if let Some(wait) = context.too_soon(&uid, least) {
        return Ok(Action::requeue(wait));
    }
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Merge(json!({ "status": patch }));
    match api.patch_status(&object.name_any(), &PatchParams::apply(MANAGER), &patch).await {
        Ok(_) => context.wrote(&uid),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Action::requeue(pause))
}
