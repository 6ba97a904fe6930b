//! Other built-in kinds: defaults, validation, and what each does of its own.

use serde_json::{Value, json};

use super::{cm, pod, with, without};
use crate::case::Case;
use crate::suite::subject;

subject!("builtin":
    configmap_keys, configmap_both, configmap_binary, configmap_too_large, secret_string_data, secret_string_data_update, secret_types, secret_keys, secret_bad_data, secret_too_large, claim_defaults, claim_errors, claim_update, claim_protection, volume_defaults, volume_errors, class_defaults, class_errors, class_update, budget_defaults, budget_errors, budget_update, lease_fields, lease_errors, event_defaults, event_errors, event_update, account_fields, node_defaults, node_errors, node_taints, namespace_errors, old_policy_version, times,
);

fn configmap_keys(c: &Case) {
    for key in ["a", "a.b", "A_b-1", "..data", ".", "..", "a b", "a/b", "", "é", &"k".repeat(254)]
    {
        c.post("cm", &with(cm("a"), "data", json!({key: "v"})));
        c.delete("cm/a");
    }
}

fn configmap_both(c: &Case) {
    c.post(
        "cm",
        &with(with(cm("a"), "data", json!({"k": "v"})), "binaryData", json!({"k": "AA=="})),
    )
    .refused(422, "Invalid");
}

fn configmap_binary(c: &Case) {
    c.post("cm", &with(cm("a"), "binaryData", json!({"k": "AAEC/w=="})))
        .is(201)
        .has("/binaryData/k", "AAEC/w==");
    c.post("cm", &with(cm("b"), "binaryData", json!({"k": "AAE"}))).is(400);
    c.post("cm", &with(cm("c"), "binaryData", json!({"k": ""}))).is(201);
}

fn configmap_too_large(c: &Case) {
    let half = "x".repeat(600_000);
    c.post("cm", &with(cm("a"), "data", json!({"a": half, "b": half}))).refused(422, "Invalid");
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

fn secret_string_data(c: &Case) {
    c.post(
        "secret",
        &with(
            with(secret("a"), "stringData", json!({"k": "v", "l": "é"})),
            "data",
            json!({"k": "eA==", "m": "eA=="}),
        ),
    )
    .is(201)
    .has("/data/k", "dg==")
    .lacks("/stringData")
    .has("/type", "Opaque");
    c.get("secret/a").is(200).has("/data/m", "eA==");
}

fn secret_string_data_update(c: &Case) {
    c.post("secret", &with(secret("a"), "stringData", json!({"k": "v"}))).is(201);
    c.merge("secret/a", &json!({"stringData": {"l": "w"}}))
        .is(200)
        .has("/data/l", "dw==")
        .has("/data/k", "dg==");
    c.put("secret/a", &with(secret("a"), "stringData", json!({"m": "x"}))).is(200).lacks("/data/k");
}

fn secret_types(c: &Case) {
    c.post("secret", &with(secret("a"), "type", "kubernetes.io/tls"))
        .refused(422, "Invalid")
        .blames("data[tls.crt]");
    c.post(
        "secret",
        &with(
            with(secret("a"), "type", "kubernetes.io/tls"),
            "stringData",
            json!({"tls.crt": "", "tls.key": ""}),
        ),
    )
    .is(201);
    c.post("secret", &with(secret("b"), "type", "kubernetes.io/basic-auth")).is(422);
    c.post("secret", &with(secret("c"), "type", "kubernetes.io/ssh-auth")).is(422);
    c.post(
        "secret",
        &with(
            with(secret("d"), "type", "kubernetes.io/dockerconfigjson"),
            "stringData",
            json!({".dockerconfigjson": "{"}),
        ),
    )
    .is(422);
    c.post(
        "secret",
        &with(
            with(secret("e"), "type", "kubernetes.io/dockerconfigjson"),
            "stringData",
            json!({".dockerconfigjson": "{}"}),
        ),
    )
    .is(201);
    c.post("secret", &with(secret("f"), "type", "kubernetes.io/service-account-token")).is(422);
    c.post("secret", &with(secret("g"), "type", "")).is(201).has("/type", "Opaque");
}

fn secret_keys(c: &Case) {
    c.post("secret", &with(secret("a"), "stringData", json!({"a b": "v"}))).refused(422, "Invalid");
    c.post("secret", &with(secret("a"), "data", json!({"..": ""}))).refused(422, "Invalid");
}

fn secret_bad_data(c: &Case) {
    c.post("secret", &with(secret("a"), "data", json!({"k": "not base64!"}))).is(400);
    c.post("secret", &with(secret("a"), "data", json!({"k": 5}))).is(400);
    c.post("secret", &with(secret("a"), "data", json!({"k": null}))).is(201);
}

fn secret_too_large(c: &Case) {
    c.post("secret", &with(secret("a"), "stringData", json!({"k": "x".repeat(1024 * 1024 + 1)})))
        .refused(422, "Invalid");
}

fn claim() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}})
}

fn claim_defaults(c: &Case) {
    c.post("pvc", &claim())
        .is(201)
        .has("/spec/volumeMode", "Filesystem")
        .has("/status/phase", "Pending")
        .has("/metadata/finalizers", json!(["kubernetes.io/pvc-protection"]));
}

fn claim_errors(c: &Case) {
    c.post("pvc", &json!({"metadata": {"name": "a"}, "spec": {}}))
        .refused(422, "Invalid")
        .blames("spec.accessModes");
    c.post("pvc", &with(claim(), "spec.accessModes", json!(["Odd"]))).refused(422, "Invalid");
    c.post("pvc", &with(claim(), "spec.resources.requests.storage", "0")).refused(422, "Invalid");
    c.post("pvc", &with(claim(), "spec.resources.requests.storage", "lots")).is(400);
    c.post("pvc", &with(claim(), "spec.volumeMode", "Odd")).refused(422, "Invalid");
    c.post("pvc", &with(claim(), "spec.storageClassName", "BAD CLASS")).refused(422, "Invalid");
}

fn claim_update(c: &Case) {
    c.post("pvc", &claim()).is(201);
    c.merge("pvc/a", &json!({"spec": {"accessModes": ["ReadWriteMany"]}})).refused(422, "Invalid");
    c.merge("pvc/a", &json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
    c.merge("pvc/a", &json!({"metadata": {"labels": {"a": "b"}}})).is(200);
}

fn claim_protection(c: &Case) {
    c.post("pvc", &claim()).is(201);
    c.delete("pvc/a").is(200).shows("/metadata/deletionTimestamp");
    // Nobody uses it, and so it goes.
    c.until("pvc/a", |reply| reply.status == 404);
}

fn volume() -> Value {
    json!({"metadata": {"name": "{ns}-v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}})
}

fn volume_defaults(c: &Case) {
    c.post("pv", &volume())
        .is(201)
        .has("/spec/persistentVolumeReclaimPolicy", "Retain")
        .has("/status/phase", "Pending")
        .has("/metadata/finalizers", json!(["kubernetes.io/pv-protection"]));
    c.merge("pv/{ns}-v", &json!({"metadata": {"finalizers": null}})).is(200);
    c.delete("pv/{ns}-v").is(200);
}

fn volume_errors(c: &Case) {
    c.post("pv", &json!({"metadata": {"name": "{ns}-v"}, "spec": {}})).refused(422, "Invalid");
    c.post("pv", &without(volume(), "spec.hostPath")).refused(422, "Invalid");
    c.post("pv", &with(volume(), "spec.nfs", json!({"server": "s", "path": "/p"})))
        .refused(422, "Invalid");
    c.post("pv", &with(volume(), "spec.persistentVolumeReclaimPolicy", "Odd"))
        .refused(422, "Invalid");
    c.post("pv", &with(volume(), "spec.capacity", json!({"storage": "-1"})))
        .refused(422, "Invalid");
}

fn class_defaults(c: &Case) {
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "x.y/z"}))
        .is(201)
        .has("/reclaimPolicy", "Delete")
        .has("/volumeBindingMode", "Immediate");
    c.delete("sc/{ns}-s").is(200);
}

fn class_errors(c: &Case) {
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}}))
        .refused(422, "Invalid")
        .blames("provisioner");
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "BAD PROVISIONER"}))
        .refused(422, "Invalid");
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "x", "reclaimPolicy": "Odd", "volumeBindingMode": "Odd"})).refused(422, "Invalid");
}

fn class_update(c: &Case) {
    c.post(
        "sc",
        &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "x.y/z", "parameters": {"a": "b"}}),
    )
    .is(201);
    c.merge("sc/{ns}-s", &json!({"provisioner": "other"})).refused(422, "Invalid");
    c.merge("sc/{ns}-s", &json!({"parameters": {"a": "c"}})).refused(422, "Invalid");
    c.merge("sc/{ns}-s", &json!({"allowVolumeExpansion": true})).is(200);
    c.delete("sc/{ns}-s").is(200);
}

fn budget_defaults(c: &Case) {
    // Its status is the controller's; the answer to the create is the server's.
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {}})).is(201);
    c.post(
        "pdb",
        &json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": "50%", "selector": {}}}),
    )
    .is(201)
    .has("/metadata/generation", 1);
}

fn budget_errors(c: &Case) {
    c.post(
        "pdb",
        &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
    )
    .refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": -1}}))
        .refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "200%"}}))
        .refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "half"}}))
        .refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}})).refused(422, "Invalid");
    c.post(
        "pdb",
        &json!({"metadata": {"name": "a"}, "spec": {"unhealthyPodEvictionPolicy": "Odd"}}),
    )
    .refused(422, "Invalid");
}

fn budget_update(c: &Case) {
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "nobody"}}}})).is(201);
    c.until("pdb/a", |reply| reply.at("/status/observedGeneration") == 1);
    c.merge("pdb/a", &json!({"spec": {"minAvailable": 2}})).is(200).has("/metadata/generation", 2);
    c.until("pdb/a", |reply| reply.at("/status/observedGeneration") == 2);
}

fn lease_fields(c: &Case) {
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2001-01-01T00:00:00.000000Z", "renewTime": "2001-01-01T00:00:00.123456Z", "leaseTransitions": 1}});
    let made =
        c.post("lease", &lease).is(201).has("/spec/renewTime", "2001-01-01T00:00:00.123456Z");
    c.put("lease/a", &with(made.body.clone(), "spec.renewTime", "2001-01-01T00:00:01.000000Z"))
        .is(200);
    // Microseconds are not optional.
    c.put("lease/a", &with(made.body.clone(), "spec.renewTime", "2001-01-01T00:00:01Z")).is(400);
}

fn lease_errors(c: &Case) {
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0}}))
        .refused(422, "Invalid");
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"leaseTransitions": -1}}))
        .refused(422, "Invalid");
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"renewTime": "now"}})).is(400);
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": ""}}));
}

fn event(name: &str) -> Value {
    json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"}, "reason": "R", "message": "m", "type": "Normal"})
}

fn event_defaults(c: &Case) {
    c.post("event", &event("a")).is(201);
    c.post("event", &with(event("b"), "count", 2)).is(201);
}

fn event_errors(c: &Case) {
    c.post("event", &with(event("a"), "involvedObject.namespace", "other"))
        .refused(422, "Invalid")
        .blames("involvedObject.namespace");
    c.post("event", &without(event("b"), "involvedObject"));
    c.post("event", &with(event("c"), "eventTime", "2001-01-01T00:00:00.000000Z"));
    c.post("event", &with(event("d"), "type", "Odd"));
    c.post("event", &with(event("e"), "message", "x".repeat(2000)));
}

fn event_update(c: &Case) {
    c.post("event", &event("a")).is(201);
    c.merge("event/a", &json!({"count": 5})).is(200).has("/count", 5);
    c.strategic("event/a", &json!({"message": "new"})).is(200);
}

fn account_fields(c: &Case) {
    c.post("sa", &json!({"metadata": {"name": "a"}, "secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": false})).is(201);
    c.strategic("sa/a", &json!({"secrets": [{"name": "t"}]})).is(200);
    c.post("sa", &json!({"metadata": {"name": "BAD"}})).refused(422, "Invalid");
}

fn node_defaults(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "1"}}})).is(201);
    c.delete("node/{ns}-n").is(200);
}

fn node_errors(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"podCIDR": "x"}}));
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"taints": [{"key": "a", "effect": "Odd"}]}})).refused(422, "Invalid");
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}})).refused(422, "Invalid");
}

fn node_taints(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}})).is(201);
    c.strategic("node/{ns}-n", &json!({"spec": {"unschedulable": true}})).is(200);
    c.strategic("node/{ns}-n", &json!({"spec": {"unschedulable": null, "taints": null}})).is(200);
    c.strategic("node/{ns}-n", &json!({"metadata": {"labels": {"x": "y"}}})).is(200);
    c.delete("node/{ns}-n").is(200);
}

fn namespace_errors(c: &Case) {
    c.post("ns", &json!({"metadata": {"name": "Bad"}})).refused(422, "Invalid");
    c.post("ns", &json!({"metadata": {"name": "{ns}-x"}, "spec": {"finalizers": ["bad name"]}}))
        .refused(422, "Invalid");
    c.post("ns", &json!({"metadata": {}})).refused(422, "Invalid");
}

fn old_policy_version(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post(
        "pod/a/eviction",
        &json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"}}),
    );
    c.get("/apis/policy/v1beta1/namespaces/{ns}/poddisruptionbudgets").is(404);
}

fn times(c: &Case) {
    c.post("event", &with(event("a"), "firstTimestamp", "2001-01-01T00:00:00Z"))
        .is(201)
        .has("/firstTimestamp", "2001-01-01T00:00:00Z");
    c.post("event", &with(event("b"), "firstTimestamp", "2001-01-01T02:00:00+02:00"))
        .is(201)
        .has("/firstTimestamp", "2001-01-01T00:00:00Z");
    c.post("event", &with(event("c"), "firstTimestamp", "2001-01-01T00:00:00.5Z"));
    c.post("event", &with(event("d"), "firstTimestamp", "yesterday")).is(400);
}
