//! Namespaces that are being deleted: their content goes first, then they do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    At, System,
    feed::{Feed, Tick},
    note,
};
use crate::{
    object, policy,
    read::{get, list},
    registry::Resource,
    status::ApiError,
    write::delete::{self, DeleteOptions},
};

/// How long a namespace whose content could not be removed waits for the next try.
const RETRY: Duration = Duration::from_millis(500);

pub(super) async fn run(system: System) {
    let mut feed = Feed::open(&system.inner, |r| r.namespaced || r.is("", "namespaces"));
    let mut terminating: BTreeSet<String> = BTreeSet::new();
    let mut dirty = BTreeSet::new();
    scan(&system, &mut terminating, &mut dirty).await;
    loop {
        let mut failed = false;
        while let Some(name) = dirty.pop_first() {
            match empty(&system, &name).await {
                Ok(()) => {}
                Err(error) => {
                    note("emptying a namespace", &error);
                    failed |= error.code != 404;
                }
            }
        }
        let tick = if failed {
            match tokio::time::timeout(RETRY, feed.next()).await {
                Ok(tick) => tick,
                Err(_) => {
                    dirty = terminating.clone();
                    continue;
                }
            }
        } else {
            feed.next().await
        };
        match tick {
            None => return,
            Some(Tick::Missed) => scan(&system, &mut terminating, &mut dirty).await,
            Some(Tick::Change(resource, change)) => {
                let rest = change.key.strip_prefix(&resource.prefix).unwrap_or_default();
                if resource.is("", "namespaces") {
                    let deleting = crate::codec::glance(&change.value)
                        .is_ok_and(|g| g.metadata.deleting.is_some());
                    if change.deleted {
                        terminating.remove(rest);
                    } else if deleting && terminating.insert(rest.to_owned()) {
                        dirty.insert(rest.to_owned());
                    }
                } else if let Some((namespace, _)) = rest.split_once('/')
                    && change.deleted
                    && terminating.contains(namespace)
                {
                    dirty.insert(namespace.to_owned());
                }
            }
        }
        while let Some(tick) = feed.ready() {
            // Drained in one go, so that a hundred deletions are one look at the namespace.
            if let Tick::Change(resource, change) = tick {
                let rest = change.key.strip_prefix(&resource.prefix).unwrap_or_default();
                let namespace = rest.split_once('/').map_or(rest, |(namespace, _)| namespace);
                let deleting = resource.is("", "namespaces")
                    && crate::codec::glance(&change.value)
                        .is_ok_and(|g| g.metadata.deleting.is_some());
                if deleting && !change.deleted && terminating.insert(namespace.to_owned())
                    || terminating.contains(namespace) && change.deleted
                {
                    dirty.insert(namespace.to_owned());
                }
            } else {
                scan(&system, &mut terminating, &mut dirty).await;
            }
        }
    }
}

async fn scan(system: &System, terminating: &mut BTreeSet<String>, dirty: &mut BTreeSet<String>) {
    match policy::all(&system.inner, "", "namespaces", "").await {
        Ok(namespaces) => {
            for namespace in namespaces.iter().filter(|n| object::is_deleting(n)) {
                terminating.insert(object::name(namespace).to_owned());
                dirty.insert(object::name(namespace).to_owned());
            }
        }
        Err(error) => note("listing namespaces", &error),
    }
}

/// Deletes what a namespace holds; when nothing is left, lets the namespace go.
async fn empty(system: &System, name: &str) -> Result<(), ApiError> {
    let ctx = system.ctx();
    let inner = &system.inner;
    let Some(namespaces) = inner.registry.builtin("", "namespaces") else { return Ok(()) };
    let found = get::find(&ctx, namespaces, "", name).await?;
    let Some(namespace) = found.filter(object::is_deleting) else { return Ok(()) };
    let held = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    if !held.into_iter().flatten().any(|f| f == "kubernetes") {
        return Ok(());
    }
    let options = DeleteOptions::of(&json!({"propagationPolicy": "Background"}))?;
    let mut left = Left::default();
    for resource in inner.registry.iter().filter(|r| r.namespaced && !r.converted) {
        let page = list::page(inner, resource, name, None, 0, None).await?;
        for record in &page.records {
            let object = resource.decode(record)?;
            if !object::is_deleting(&object) {
                let object_name = object::name(&object);
                match delete::delete_one(&ctx, resource, name, object_name, &options).await {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
            if let Some(object) = get::find(&ctx, resource, name, object::name(&object)).await? {
                left.add(resource, &object);
            }
        }
    }
    let done = left.resources.is_empty();
    set_conditions(system, namespaces, name, &left).await?;
    if done {
        finish(system, namespaces, name).await?;
    }
    Ok(())
}

/// What keeps a namespace from going.
#[derive(Default)]
struct Left {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Left {
    fn add(&mut self, resource: &Resource, object: &Value) {
        *self.resources.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
        for finalizer in object::finalizers(object) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }

    fn conditions(&self) -> Vec<(&'static str, bool, &'static str, String)> {
        let list = |map: &BTreeMap<String, usize>, word: &str| {
            let items: Vec<String> = map
                .iter()
                .map(|(name, n)| format!("{name} {word} {n} resource instances"))
                .collect();
            items.join(", ")
        };
        let mut out = vec![
            (
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                "All resources successfully discovered".to_owned(),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                false,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".to_owned(),
            ),
            (
                "NamespaceDeletionContentFailure",
                false,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization".to_owned(),
            ),
        ];
        out.push(if self.resources.is_empty() {
            (
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".to_owned(),
            )
        } else {
            let list = list(&self.resources, "has");
            (
                "NamespaceContentRemaining",
                true,
                "SomeResourcesRemain",
                format!("Some resources are remaining: {list}"),
            )
        });
        out.push(if self.finalizers.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            let list = list(&self.finalizers, "in");
            (
                "NamespaceFinalizersRemaining",
                true,
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {list}"),
            )
        });
        out
    }
}

async fn set_conditions(
    system: &System,
    namespaces: &Arc<Resource>,
    name: &str,
    left: &Left,
) -> Result<(), ApiError> {
    let now = system.inner.timestamp();
    let at = At { resource: namespaces, namespace: "", name, subresource: "status" };
    system
        .edit(at, &|object| {
            let old = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let conditions: Vec<Value> = left
                .conditions()
                .into_iter()
                .map(|(kind, status, reason, message)| {
                    let status = if status { "True" } else { "False" };
                    let before = old.iter().find(|c| c["type"] == kind && c["status"] == status);
                    let since = before.map_or(json!(now), |c| c["lastTransitionTime"].clone());
                    json!({
                        "type": kind, "status": status, "reason": reason, "message": message,
                        "lastTransitionTime": since,
                    })
                })
                .collect();
            object["status"]["conditions"] = conditions.into();
        })
        .await
}

async fn finish(system: &System, namespaces: &Arc<Resource>, name: &str) -> Result<(), ApiError> {
    let at = At { resource: namespaces, namespace: "", name, subresource: "finalize" };
    system
        .edit(at, &|object| {
            let kept: Vec<Value> = object["spec"]["finalizers"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|f| *f != "kubernetes")
                .cloned()
                .collect();
            if kept.is_empty() {
                if let Some(spec) = object["spec"].as_object_mut() {
                    spec.remove("finalizers");
                }
            } else {
                object["spec"]["finalizers"] = kept.into();
            }
        })
        .await
}
