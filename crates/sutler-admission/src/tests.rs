//! What is refused and what is not, case by case.

mod groups;
mod others;
mod wire;

use serde_json::{Value, json};

use super::*;

const JANE: Who<'static> = Who { user: "jane", sutler: false };
const SUTLER: Who<'static> = Who { user: "system:serviceaccount:sutler:sutler", sutler: true };

/// Sets what is at a path such as `spec.minNodes`; null takes it away.
fn set(object: &mut Value, path: &str, value: Value) {
    let (at, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = object;
    for part in at.split('.').filter(|part| !part.is_empty()) {
        place = &mut place[part];
    }
    match value {
        Value::Null => {
            if let Some(map) = place.as_object_mut() {
                map.remove(key);
            }
        }
        value => place[key] = value,
    }
}

fn with(base: Value, changes: &[(&str, Value)]) -> Value {
    let mut object = base;
    for (path, value) in changes {
        set(&mut object, path, value.clone());
    }
    object
}

/// A group on a provider of machines.
fn group() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": "web", "namespace": "ns",
            "labels": {"autoscaler.vpsie.com/managed": "true"}, "annotations": {}},
        "spec": {"minNodes": 1, "maxNodes": 10, "desiredNodes": 2,
            "providerRef": {"name": "sim"}, "classRef": {"name": "small"},
            "imageRef": {"name": "debian"}, "labels": {"pool": "web"},
            "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]},
    })
}

/// A group as upstream's users write it.
fn vpsie() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": "web", "namespace": "kube-system",
            "labels": {"autoscaler.vpsie.com/managed": "true"}, "annotations": {}},
        "spec": {"minNodes": 1, "maxNodes": 10, "datacenterID": "dc-1", "project": "p",
            "resourceIdentifier": "c-1", "offeringIDs": ["small", "large"],
            "kubernetesVersion": "v1.34.1", "kubeSizeID": 3, "preferredInstanceType": "large",
            "scaleUpPolicy": {"enabled": true}, "scaleDownPolicy": {"cooldownSeconds": 600},
            "costOptimization": {"strategy": "conservative", "optimizationInterval": "12h"}},
    })
}

fn record() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
        "metadata": {"name": "web-0001", "namespace": "ns", "annotations": {}},
        "spec": {"nodeGroupName": "web", "vpsieInstanceID": 0, "instanceType": "small",
            "datacenterID": "dc-1", "resourceIdentifier": "c-1", "project": "p",
            "kubernetesVersion": "v1.34.1"},
    })
}

fn config() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "AutoscalerConfig",
        "metadata": {"name": "default"},
        "spec": {"globalSettings": {"maxClusterWorkers": 20},
            "nodeGroupDefaults": {"minNodes": 1, "maxNodes": 5, "kubernetesVersion": "v1.34.1"}},
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "annotations": {}, "labels": {
            "autoscaler.vpsie.com/vpsienode": "web-0001",
            "autoscaler.vpsie.com/nodegroup-namespace": "ns"}},
    })
}

fn create(kind: Kind, object: &Value) -> Result<Warnings, Vec<Refusal>> {
    check(Operation::Create, kind, None, Some(object), &JANE)
}

fn update(kind: Kind, old: &Value, new: &Value) -> Result<Warnings, Vec<Refusal>> {
    check(Operation::Update, kind, Some(old), Some(new), &JANE)
}

fn fields(verdict: &Result<Warnings, Vec<Refusal>>) -> Vec<&str> {
    let refusals = verdict.as_ref().err().map(Vec::as_slice).unwrap_or_default();
    refusals.iter().map(|refusal| refusal.field.as_str()).collect()
}

/// That an object with these changes is refused for exactly this field, by words that say so.
fn refuses(kind: Kind, base: &Value, changes: &[(&str, Value)], field: &str, words: &str) {
    let object = with(base.clone(), changes);
    let verdict = create(kind, &object);
    assert_eq!(fields(&verdict), [field], "{object:#}\n{verdict:?}");
    let refusals = verdict.unwrap_err();
    assert!(refusals[0].message.contains(words), "{words:?} is not in {:?}", refusals[0].message);
    // The same by a change, unless the object was as bad before.
    if !field.starts_with("metadata.name") {
        assert_eq!(fields(&update(kind, base, &object)), [field], "{object:#}");
    }
    assert_eq!(update(kind, &object, &object).map(drop), Ok(()));
    let gone = with(object.clone(), &[("metadata.finalizers", json!(["x"]))]);
    assert_eq!(update(kind, &gone, &object).map(drop), Ok(()), "a finalizer comes off");
    let going = with(object, &[("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z"))]);
    assert_eq!(update(kind, base, &going).map(drop), Ok(()), "what is being deleted is let go");
}

/// That an object with these changes is taken without a word.
fn takes(kind: Kind, base: &Value, changes: &[(&str, Value)]) {
    let object = with(base.clone(), changes);
    assert_eq!(create(kind, &object), Ok(Warnings::new()), "{object:#}");
    assert_eq!(update(kind, base, &object).map(drop), Ok(()), "{object:#}");
}
