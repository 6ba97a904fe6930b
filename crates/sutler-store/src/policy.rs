//! Who may do what, kept ready. The cache follows the store's own changes and not the requests that
//! make them: a request whose client goes away can still commit. After a change it reads again what
//! that change belongs to, one namespace or what is cluster-wide, and keeps the rest.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use serde_json::Value;
use sutler_kv::engine::{Change, Engine};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

use crate::{
    auth::{rbac, users},
    read::list,
    registry::{Resource, prefix},
    server::Inner,
    status::ApiError,
};

/// With more namespaces than this to read, everything is read at once.
const APART: usize = 16;

/// The policy of the newest roles and bindings.
pub(crate) struct PolicyCache {
    /// With the count of changes that it knows of.
    policy: ArcSwapOption<(u64, rbac::Policy)>,
    seen: Mutex<Seen>,
    /// Held by the one who reads.
    reading: tokio::sync::Mutex<()>,
    /// The count of changes to users that the authenticator knows of.
    users_loaded: AtomicU64,
}

/// What has changed so far.
struct Seen {
    rbac: Vec<Receiver<Arc<Change>>>,
    secrets: Receiver<Arc<Change>>,
    /// Counts changes of roles and bindings.
    epoch: u64,
    /// When a scope, a namespace or the cluster (empty), last changed, where that is not read yet.
    scopes: BTreeMap<String, u64>,
    /// When changes were missed.
    missed: u64,
    /// Counts changes of Secrets where users are; 0 is before the first look.
    users: u64,
}

impl PolicyCache {
    /// A cache that follows `engine` from now on.
    pub(crate) fn new(engine: &dyn Engine) -> Self {
        let topic = |group: &str, plural: &str| {
            engine.subscribe(prefix(group, plural).trim_end_matches('/'))
        };
        let rbac = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
        let seen = Seen {
            rbac: rbac.map(|plural| topic(rbac::GROUP, plural)).into(),
            secrets: topic("", "secrets"),
            epoch: 0,
            scopes: BTreeMap::new(),
            missed: 0,
            users: 1,
        };
        Self {
            policy: ArcSwapOption::empty(),
            seen: Mutex::new(seen),
            reading: tokio::sync::Mutex::default(),
            users_loaded: AtomicU64::new(0),
        }
    }

    /// Takes note that objects of a resource were written, so that nothing is held for it in the
    /// meantime; what counts is what the store tells.
    pub(crate) fn touched(&self, resource: &Resource) {
        if resource.group == rbac::GROUP || resource.is("", "secrets") {
            self.look(|_| ());
        }
    }

    /// The policy, with what has changed of it read anew.
    pub(crate) async fn get(&self, inner: &Inner) -> Result<Arc<(u64, rbac::Policy)>, ApiError> {
        let epoch = self.look(|seen| seen.epoch);
        if let Some(ready) = self.policy.load_full()
            && ready.0 == epoch
        {
            return Ok(ready);
        }
        let _one = self.reading.lock().await;
        let ready = self.policy.load_full();
        let since = ready.as_ref().map(|ready| ready.0);
        let (epoch, scopes) = self.look(|seen| (seen.epoch, seen.since(since)));
        let policy = match (ready, scopes) {
            // Somebody else has read it meanwhile.
            (Some(ready), _) if ready.0 == epoch => return Ok(ready),
            (Some(ready), Some(scopes)) => some(inner, &ready.1, &scopes).await?,
            _ => everything(inner).await?,
        };
        let ready = Arc::new((epoch, policy));
        self.policy.store(Some(ready.clone()));
        self.look(|seen| seen.scopes.retain(|_, at| *at > epoch));
        Ok(ready)
    }

    /// Makes sure that the authenticator knows the newest users.
    pub(crate) async fn refresh_users(&self, inner: &Inner) -> Result<(), ApiError> {
        let users = self.look(|seen| seen.users);
        if self.users_loaded.load(Ordering::Acquire) == users {
            return Ok(());
        }
        let _one = self.reading.lock().await;
        let users = self.look(|seen| seen.users);
        if self.users_loaded.load(Ordering::Acquire) == users {
            return Ok(());
        }
        let secrets = all(inner, "", "secrets", users::NAMESPACE).await?;
        inner.authn.reload(secrets.iter().filter(|s| users::is_user_secret(s)));
        self.users_loaded.store(users, Ordering::Release);
        Ok(())
    }

    /// What is seen after everything that the store has told by now.
    fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        seen.follow();
        look(&mut seen)
    }
}

impl Seen {
    fn follow(&mut self) {
        let Self { rbac, secrets, epoch, scopes, missed, users } = self;
        for receiver in rbac {
            drain(receiver, |change| {
                *epoch += 1;
                match change {
                    Some(change) => {
                        scopes.insert(scope(&change.key).to_owned(), *epoch);
                    }
                    None => *missed = *epoch,
                }
            });
        }
        drain(secrets, |change| {
            if change.is_none_or(|change| scope(&change.key) == users::NAMESPACE) {
                *users += 1;
            }
        });
    }

    /// The scopes that changed after an epoch; nothing where that is not known or many.
    fn since(&self, epoch: Option<u64>) -> Option<Vec<String>> {
        let epoch = epoch.filter(|epoch| self.missed <= *epoch)?;
        let changed = self.scopes.iter().filter(|(_, at)| **at > epoch);
        let changed: Vec<String> = changed.map(|(scope, _)| scope.clone()).collect();
        (changed.len() <= APART).then_some(changed)
    }
}

/// Takes what a receiver holds; nothing stands for changes that were missed.
fn drain(receiver: &mut Receiver<Arc<Change>>, mut take: impl FnMut(Option<Arc<Change>>)) {
    loop {
        match receiver.try_recv() {
            Ok(change) => take(Some(change)),
            Err(TryRecvError::Lagged(_)) => take(None),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        }
    }
}

/// The namespace of a key, which is `group/plural/namespace/name` or `group/plural/name`.
fn scope(key: &str) -> &str {
    let mut parts = key.splitn(4, '/').skip(2);
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(_)) => namespace,
        _ => "",
    }
}

async fn everything(inner: &Inner) -> Result<rbac::Policy, ApiError> {
    let cluster_roles = all(inner, rbac::GROUP, "clusterroles", "").await?;
    let roles = all(inner, rbac::GROUP, "roles", "").await?;
    let cluster_bindings = all(inner, rbac::GROUP, "clusterrolebindings", "").await?;
    let bindings = all(inner, rbac::GROUP, "rolebindings", "").await?;
    Ok(rbac::Policy::build(&cluster_roles, &roles, &cluster_bindings, &bindings))
}

/// `policy` with some scopes read anew.
async fn some(
    inner: &Inner,
    policy: &rbac::Policy,
    scopes: &[String],
) -> Result<rbac::Policy, ApiError> {
    let mut policy = policy.clone();
    for scope in scopes {
        policy = if scope.is_empty() {
            let roles = all(inner, rbac::GROUP, "clusterroles", "").await?;
            let bindings = all(inner, rbac::GROUP, "clusterrolebindings", "").await?;
            policy.with_cluster(&roles, &bindings)
        } else {
            let roles = all(inner, rbac::GROUP, "roles", scope).await?;
            let bindings = all(inner, rbac::GROUP, "rolebindings", scope).await?;
            policy.with_namespace(scope, &roles, &bindings)
        };
    }
    Ok(policy)
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

#[cfg(test)]
mod tests;
