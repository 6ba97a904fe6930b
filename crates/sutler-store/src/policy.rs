//! Who may do what, kept ready: roles, bindings and tokens are read again only after one changed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwapOption;
use serde_json::Value;

use crate::{
    auth::{rbac, users},
    read::list,
    registry::Resource,
    server::Inner,
    status::ApiError,
};

/// The policy of the newest roles and bindings.
#[derive(Default)]
pub(crate) struct PolicyCache {
    policy: ArcSwapOption<(u64, rbac::Policy)>,
    /// Counts writes to roles and bindings.
    policy_epoch: AtomicU64,
    /// Counts writes to Secrets where users are.
    users_epoch: AtomicU64,
    users_loaded: AtomicU64,
}

impl PolicyCache {
    /// Takes note that objects of a resource were written.
    pub(crate) fn touched(&self, resource: &Resource) {
        if resource.group == rbac::GROUP {
            self.policy_epoch.fetch_add(1, Ordering::AcqRel);
        } else if resource.is("", "secrets") {
            self.users_epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The policy, read anew if roles or bindings have changed.
    pub(crate) async fn get(&self, inner: &Inner) -> Result<Arc<(u64, rbac::Policy)>, ApiError> {
        let epoch = self.policy_epoch.load(Ordering::Acquire);
        if let Some(ready) = self.policy.load_full()
            && ready.0 == epoch
        {
            return Ok(ready);
        }
        let cluster_roles = all(inner, rbac::GROUP, "clusterroles", "").await?;
        let roles = all(inner, rbac::GROUP, "roles", "").await?;
        let cluster_bindings = all(inner, rbac::GROUP, "clusterrolebindings", "").await?;
        let bindings = all(inner, rbac::GROUP, "rolebindings", "").await?;
        let policy = rbac::Policy::build(
            cluster_roles.iter(),
            roles.iter(),
            cluster_bindings.iter(),
            bindings.iter(),
        );
        let ready = Arc::new((epoch, policy));
        self.policy.store(Some(ready.clone()));
        Ok(ready)
    }

    /// Makes sure that the authenticator knows the newest users.
    pub(crate) async fn refresh_users(&self, inner: &Inner) -> Result<(), ApiError> {
        // One more than the count of writes, so that 0 means never.
        let epoch = self.users_epoch.load(Ordering::Acquire) + 1;
        if self.users_loaded.load(Ordering::Acquire) == epoch {
            return Ok(());
        }
        let secrets = all(inner, "", "secrets", users::NAMESPACE).await?;
        inner.authn.reload(secrets.iter().filter(|s| users::is_user_secret(s)));
        self.users_loaded.store(epoch, Ordering::Release);
        Ok(())
    }
}

/// All objects of a built-in resource, in one namespace or in all.
pub(crate) async fn all(
    inner: &Inner,
    group: &str,
    plural: &str,
    namespace: &str,
) -> Result<Vec<Value>, ApiError> {
    let Some(resource) = inner.registry.builtin(group, plural) else { return Ok(Vec::new()) };
    let page = list::page(inner, resource, namespace, None, 0, None).await?;
    page.records.iter().map(|record| resource.decode(record)).collect()
}
