//! Checks that look beyond the object itself.
//!
//! A namespaced object is written only while its namespace is as the check saw it: the namespace's
//! version is part of the write's expectation, so a namespace that goes away in between takes the
//! write with it. That lets the check be answered from a cache that is allowed to be stale.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use sutler_kv::engine::{Expect, Record, Version};

use crate::{
    object,
    registry::Resource,
    server::Inner,
    status::{ApiError, GroupResource},
};

/// What was last seen of namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces(Mutex<HashMap<String, Seen>>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    version: Version,
    terminating: bool,
}

/// The resource name of namespaces in refusals.
const NAMESPACES: GroupResource<'static> = GroupResource { group: "", resource: "namespaces" };

impl Namespaces {
    /// What the creation of `resource` in `namespace` must expect of the namespace.
    pub(crate) async fn expect(
        &self,
        inner: &Inner,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<(Arc<str>, Expect)>, ApiError> {
        if !resource.namespaced {
            return Ok(Vec::new());
        }
        let key: Arc<str> = format!("core/namespaces/{namespace}").into();
        let seen = match self.seen(namespace) {
            Some(seen) => seen,
            None => {
                let record = inner.engine.get(&key).await?;
                self.note(inner, namespace, record.as_ref())?
                    .ok_or_else(|| ApiError::not_found(NAMESPACES, namespace))?
            }
        };
        if seen.terminating {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being \
                 terminated"
            );
            let error = ApiError::forbidden(resource.gr(), name, &why);
            let cause = format!("namespace {namespace} is being terminated");
            return Err(error.with_cause("NamespaceTerminating", &cause, "metadata.namespace"));
        }
        Ok(vec![(key, Expect::At(seen.version))])
    }

    /// Takes note of a namespace's record that a refused write has shown.
    pub(crate) fn changed(
        &self,
        inner: &Inner,
        key: &str,
        found: Option<&Record>,
    ) -> Result<(), ApiError> {
        if let Some(namespace) = key.strip_prefix("core/namespaces/") {
            self.note(inner, namespace, found)?;
        }
        Ok(())
    }

    fn seen(&self, namespace: &str) -> Option<Seen> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).get(namespace).copied()
    }

    fn note(
        &self,
        inner: &Inner,
        namespace: &str,
        record: Option<&Record>,
    ) -> Result<Option<Seen>, ApiError> {
        let seen = match (record, inner.registry.builtin("", "namespaces")) {
            (Some(record), Some(resource)) => {
                let object = resource.decode(record)?;
                Some(Seen { version: record.version, terminating: object::is_deleting(&object) })
            }
            _ => None,
        };
        let mut map = self.0.lock().unwrap_or_else(|e| e.into_inner());
        match seen {
            Some(seen) => map.insert(namespace.to_owned(), seen),
            None => map.remove(namespace),
        };
        Ok(seen)
    }
}
