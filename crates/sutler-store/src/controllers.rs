//! What makes an API server a cluster's: dependents go with their owners, namespaces empty
//! themselves, disruption budgets count, history is forgotten in time. Each is a task that reads
//! the log and writes like any other client.

mod aggregation;
mod disruption;
mod feed;
mod gc;
mod namespace;
mod protection;
mod upkeep;

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use serde_json::Value;

use crate::{
    auth::User,
    registry::Resource,
    request::{Query, RequestInfo},
    server::{ApiServer, Inner},
    status::ApiError,
    write::{
        Ctx,
        update::{self, Change, Next},
    },
};

pub use upkeep::Upkeep;

/// Runs the controllers until the returned handle is dropped.
pub fn spawn(server: &ApiServer, upkeep: Upkeep) -> Running {
    let inner = &server.0;
    Running(vec![
        tokio::spawn(gc::run(System::new(inner, "generic-garbage-collector"))),
        tokio::spawn(namespace::run(System::new(inner, "namespace-controller"))),
        tokio::spawn(disruption::run(System::new(inner, "disruption-controller"))),
        tokio::spawn(aggregation::run(System::new(inner, "clusterrole-aggregation-controller"))),
        tokio::spawn(protection::run(System::new(inner, "pvc-protection-controller"))),
        tokio::spawn(upkeep::run(inner.clone(), upkeep)),
    ])
}

/// Controllers that run; they end when this is dropped.
#[derive(Debug)]
pub struct Running(Vec<tokio::task::JoinHandle<()>>);

impl Drop for Running {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// A controller's identity, and what its requests are made of.
pub(crate) struct System {
    pub(crate) inner: Arc<Inner>,
    user: User,
    info: RequestInfo,
    query: Query,
    headers: HeaderMap,
    manager: &'static str,
}

impl System {
    fn new(inner: &Arc<Inner>, name: &'static str) -> Self {
        Self {
            inner: inner.clone(),
            user: User::privileged(&format!("system:serviceaccount:kube-system:{name}")),
            info: RequestInfo::default(),
            query: Query::default(),
            headers: HeaderMap::new(),
            manager: name,
        }
    }

    pub(crate) fn ctx(&self) -> Ctx<'_> {
        Ctx {
            inner: &self.inner,
            user: &self.user,
            info: &self.info,
            query: &self.query,
            headers: &self.headers,
            warnings: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn options(&self) -> crate::options::WriteOptions {
        crate::options::WriteOptions {
            dry_run: false,
            manager: self.manager.into(),
            validation: crate::strategy::FieldValidation::Ignore,
            force: false,
        }
    }
}

/// An object that a controller changes, and by which endpoint.
pub(crate) struct At<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
}

impl System {
    /// Changes an object, computed anew when somebody else writes it in between.
    pub(crate) async fn edit(
        &self,
        at: At<'_>,
        change: &(dyn Fn(&mut Value) + Sync),
    ) -> Result<(), ApiError> {
        let At { resource, namespace, name, subresource } = at;
        let options = self.options();
        let edit = Change {
            resource,
            namespace,
            name,
            subresource,
            options: &options,
            create: false,
            binding_version: false,
            binding_uid: false,
        };
        update::run(&self.ctx(), &edit, &mut |current| {
            let current = current.ok_or_else(|| ApiError::not_found(resource.gr(), name))?;
            let mut next = current.clone();
            change(&mut next);
            Ok(Next::Tracked(next))
        })
        .await?;
        Ok(())
    }
}

/// Tells of a failure that will be tried again; an object that is gone is none.
pub(crate) fn note(what: &str, error: &ApiError) {
    if !matches!(error.code, 404 | 409) {
        tracing::warn!(%error, "{what} failed and is tried again");
    }
}
