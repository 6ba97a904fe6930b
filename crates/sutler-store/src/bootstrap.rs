//! What every server begins with: namespaces, roles and bindings, and its own CRDs to read.

use std::sync::Arc;

use serde_json::{Value, json};
use sutler_apply::update::{Track, track};
use sutler_kv::engine::{Action, Error, Expect, Write};

use crate::{
    auth::bootstrap::{self as rbac, Action as Step},
    codec, object,
    registry::Resource,
    server::{ApiServer, Inner},
    status::ApiError,
    strategy,
};

const NAMESPACES: [&str; 5] =
    ["default", "kube-node-lease", "kube-public", "kube-system", crate::auth::users::NAMESPACE];

pub(crate) async fn run(server: &ApiServer, definitions: Vec<Value>) -> Result<(), ApiError> {
    let inner = &server.0;
    for name in NAMESPACES {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(inner, namespace, false).await?;
    }
    for wanted in rbac::objects() {
        ensure(inner, wanted, true).await?;
    }
    for definition in definitions {
        ensure_definition(inner, definition).await?;
    }
    Ok(())
}

/// Creates an object that is missing; one that is there gets what it lacks, if `update` says so.
async fn ensure(inner: &Arc<Inner>, wanted: Value, update: bool) -> Result<(), ApiError> {
    let api_version = wanted["apiVersion"].as_str().unwrap_or_default();
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let Some(resource) = inner.registry.find_kind(api_version, kind) else { return Ok(()) };
    let key = resource.key(object::namespace(&wanted), object::name(&wanted));
    let found = inner.engine.get(&key).await?;
    let Some(record) = found else { return insert(inner, resource, wanted).await };
    if !update {
        return Ok(());
    }
    let existing = resource.decode(&record)?;
    match rbac::reconcile(Some(&existing), &wanted) {
        Step::Keep | Step::Protected => Ok(()),
        Step::Create(wanted) => insert(inner, resource, wanted).await,
        Step::Update(merged) => put(inner, &key, Expect::At(record.version), &merged).await,
        Step::Recreate(wanted) => {
            let last = record.value.clone();
            let write = Write {
                key: key.clone(),
                expect: Expect::At(record.version),
                action: Action::Delete(last),
                also: Vec::new(),
            };
            inner.engine.write(write).await?;
            insert(inner, resource, wanted).await
        }
    }
}

async fn insert(
    inner: &Arc<Inner>,
    resource: &Resource,
    mut wanted: Value,
) -> Result<(), ApiError> {
    strategy::shape(resource, &mut wanted, false)?;
    let creation = Track {
        old: None,
        node: &resource.node,
        manager: "kube-apiserver",
        api_version: &resource.api_version,
        subresource: "",
        now: &inner.timestamp(),
        reset: strategy::reset_fields(resource, ""),
        zero: resource.zero.as_ref(),
    };
    track(&mut wanted, &creation);
    strategy::prepare_create(resource, &mut wanted, inner.ids.uid(), &inner.timestamp());
    let found = strategy::validate_create(resource, &wanted);
    if !found.errors.is_empty() {
        return Err(ApiError::invalid(resource.gk(), object::name(&wanted), &found.errors));
    }
    let key = resource.key(object::namespace(&wanted), object::name(&wanted));
    put(inner, &key, Expect::Absent, &wanted).await
}

async fn put(
    inner: &Arc<Inner>,
    key: &Arc<str>,
    expect: Expect,
    object: &Value,
) -> Result<(), ApiError> {
    let action = Action::Put(codec::encode(object)?);
    let write = Write { key: key.clone(), expect, action, also: Vec::new() };
    match inner.engine.write(write).await {
        // Another server that starts on the same store was faster, with the same object.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A CRD as its readers expect it: accepted and established.
async fn ensure_definition(inner: &Arc<Inner>, mut wanted: Value) -> Result<(), ApiError> {
    let crds = inner.registry.builtin("apiextensions.k8s.io", "customresourcedefinitions");
    let Some(resource) = crds else { return Ok(()) };
    let key = resource.key("", object::name(&wanted));
    let now = inner.timestamp();
    let versions = wanted.pointer("/spec/versions").and_then(Value::as_array);
    let stored: Vec<Value> = versions
        .into_iter()
        .flatten()
        .filter(|v| v["storage"] == Value::Bool(true))
        .map(|v| v["name"].clone())
        .collect();
    let names = wanted["spec"]["names"].clone();
    wanted["apiVersion"] = resource.api_version.clone().into();
    wanted["kind"] = resource.kind.clone().into();
    let found = inner.engine.get(&key).await?;
    let (uid, created, generation, expect) = match &found {
        Some(record) => {
            let old = resource.decode(record)?;
            if old["spec"] == wanted["spec"] {
                return Ok(());
            }
            let meta = |field: &str| object::meta_str(&old, field).to_owned();
            (
                meta("uid"),
                meta("creationTimestamp"),
                object::generation(&old) + 1,
                Expect::At(record.version),
            )
        }
        None => (inner.ids.uid(), now.clone(), 1, Expect::Absent),
    };
    object::set_meta(&mut wanted, "uid", Some(uid.into()));
    object::set_meta(&mut wanted, "creationTimestamp", Some(created.into()));
    object::set_meta(&mut wanted, "generation", Some(generation.into()));
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now,
        })
    };
    wanted["status"] = json!({
        "acceptedNames": names, "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
    put(inner, &key, expect, &wanted).await
}
