//! The status and scale subresources, binding and eviction.

use serde_json::json;

use super::{cm, deployment, pod, toy, with, without};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("subresource":
    status_get, status_put, status_put_without_version, status_invalid, status_unknown_field, status_metadata, status_finalizers, status_generation, status_dry_run, status_defaults, status_missing_status, status_conditions,
    status_deployment, status_pod, status_node, status_pdb, status_namespace, status_pvc, status_service, status_world,
    scale_get, scale_put, scale_merge, scale_negative, scale_without_replicas, scale_missing, scale_version, scale_name_mismatch, scale_wrong_kind, scale_selector, scale_status_ignored, scale_dry_run, scale_strategic_custom, scale_json_patch,
    scale_deployment, scale_replicaset, scale_apply, scale_invalid_object, scale_of_plain,
    binding, binding_twice, binding_missing_pod, binding_target, binding_collection, binding_annotations, eviction, eviction_missing, eviction_name, eviction_dry_run, eviction_grace, eviction_budget, eviction_two_budgets, eviction_unhealthy,
);

fn made(c: &Case) -> crate::case::Reply {
    c.post("toy", &toy("a", json!({"size": 1, "replicas": 2}))).is(201)
}

fn status_get(c: &Case) {
    made(c);
    c.get("toy/a/status").is(200).has("/kind", "Toy").has("/spec/size", 1);
    c.post("deploy", &deployment("a")).is(201);
    c.get("deploy/a/status").is(200).has("/kind", "Deployment");
}

fn status_put(c: &Case) {
    let old = made(c);
    let new = c
        .put(
            "toy/a/status",
            &with(old.body.clone(), "status", json!({"phase": "Up", "replicas": 1})),
        )
        .is(200)
        .has("/status/phase", "Up");
    c.check(old.rv() != new.rv(), "another version");
    c.put("toy/a/status", &without(new.body.clone(), "status")).is(200).lacks("/status");
}

fn status_put_without_version(c: &Case) {
    made(c);
    c.put("toy/a/status", &with(toy("a", json!({"size": 1})), "status", json!({"phase": "Up"})))
        .refused(422, "Invalid");
    c.post("deploy", &deployment("a")).is(201);
    c.put("deploy/a/status", &with(deployment("a"), "status", json!({"replicas": 1}))).is(200);
}

fn status_invalid(c: &Case) {
    let old = made(c);
    c.put(
        "toy/a/status",
        &with(old.body.clone(), "status", json!({"conditions": [{"type": "Ready"}]})),
    )
    .refused(422, "Invalid");
    c.put("toy/a/status", &with(old.body.clone(), "status", json!({"phase": 5})))
        .refused(422, "Invalid")
        .blames("status.phase");
    c.put("toy/a/status", &with(old.body.clone(), "status", json!("up"))).refused(422, "Invalid");
    // What is wrong elsewhere does not matter: it is not written.
    c.put(
        "toy/a/status",
        &with(with(old.body.clone(), "spec.size", 0), "status", json!({"phase": "Up"})),
    );
}

fn status_unknown_field(c: &Case) {
    let old = made(c);
    let odd = with(old.body.clone(), "status", json!({"phase": "Up", "colour": "red"}));
    c.put("toy/a/status?fieldValidation=Strict", &odd).is(400);
    c.put("toy/a/status", &odd).is(200).lacks("/status/colour").warns("status.colour");
}

fn status_metadata(c: &Case) {
    let old = made(c);
    let odd = with(
        with(
            with(old.body.clone(), "metadata.labels", json!({"a": "b"})),
            "metadata.annotations",
            json!({"a": "b"}),
        ),
        "status",
        json!({"phase": "Up"}),
    );
    c.put("toy/a/status", &odd).is(200).has("/status/phase", "Up");
    c.get("toy/a").is(200);
}

fn status_finalizers(c: &Case) {
    let old = c
        .post("toy", &with(toy("a", json!({"size": 1})), "metadata.finalizers", json!(["a.b/c"])))
        .is(201);
    c.put("toy/a/status", &without(old.body.clone(), "metadata.finalizers"));
    c.get("toy/a").is(200);
    c.delete("toy/a").is(200);
    let marked = c.get("toy/a").is(200);
    c.put(
        "toy/a/status",
        &without(
            with(marked.body.clone(), "status", json!({"phase": "Gone"})),
            "metadata.finalizers",
        ),
    );
    c.get("toy/a");
}

fn status_generation(c: &Case) {
    made(c);
    c.merge("toy/a/status", &json!({"status": {"observedGeneration": 1}}))
        .is(200)
        .has("/metadata/generation", 1);
    c.post("deploy", &deployment("a")).is(201);
    c.merge("deploy/a/status", &json!({"status": {"observedGeneration": 1}}))
        .is(200)
        .has("/metadata/generation", 1);
    c.merge("deploy/a", &json!({"spec": {"replicas": 4}})).is(200).has("/metadata/generation", 2);
    c.merge("deploy/a", &json!({"metadata": {"labels": {"a": "b"}}}))
        .is(200)
        .has("/metadata/generation", 2);
}

fn status_dry_run(c: &Case) {
    let old = made(c);
    c.put("toy/a/status?dryRun=All", &with(old.body.clone(), "status", json!({"phase": "Up"})))
        .is(200)
        .has("/status/phase", "Up");
    c.get("toy/a").is(200).lacks("/status");
}

fn status_defaults(c: &Case) {
    made(c);
    c.merge("toy/a/status", &json!({"status": {}})).is(200);
    c.merge("toy/a/status", &json!({"status": {"conditions": []}})).is(200);
}

fn status_missing_status(c: &Case) {
    let old = made(c);
    c.merge("toy/a/status", &json!({"status": {"phase": "Up"}})).is(200);
    let now = c.get("toy/a").is(200);
    let _ = old;
    c.put("toy/a/status", &without(now.body.clone(), "status")).is(200).lacks("/status");
}

fn status_conditions(c: &Case) {
    made(c);
    let condition = |status: &str| json!({"type": "Ready", "status": status, "lastTransitionTime": "2001-01-01T00:00:00Z", "reason": "R", "message": ""});
    c.merge("toy/a/status", &json!({"status": {"conditions": [condition("True")]}})).is(200);
    c.merge(
        "toy/a/status",
        &json!({"status": {"conditions": [condition("True"), condition("False")]}}),
    )
    .refused(422, "Invalid");
}

fn status_deployment(c: &Case) {
    c.post("deploy", &deployment("a")).is(201);
    let status = json!({"status": {"replicas": 2, "readyReplicas": 1, "conditions": [{"type": "Available", "status": "True", "reason": "R", "lastUpdateTime": "2001-01-01T00:00:00Z", "lastTransitionTime": "2001-01-01T00:00:00Z"}]}});
    c.merge("deploy/a/status", &status).is(200).has("/status/readyReplicas", 1);
    c.strategic(
        "deploy/a/status",
        &json!({"status": {"conditions": [{"type": "Progressing", "status": "False"}]}}),
    )
    .is(200);
    c.merge("deploy/a/status", &json!({"status": {"replicas": -1}})).refused(422, "Invalid");
    c.merge("deploy/a/status", &json!({"status": {"replicas": 1, "readyReplicas": 5}}))
        .refused(422, "Invalid");
    c.merge(
        "deploy/a/status",
        &json!({"spec": {"replicas": 9}, "metadata": {"labels": {"a": "b"}}}),
    )
    .is(200)
    .has("/spec/replicas", 1);
}

fn status_pod(c: &Case) {
    c.post("pod", &pod("a"))
        .is(201)
        .has("/status/phase", "Pending")
        .has("/status/qosClass", "BestEffort");
    c.merge("pod/a/status", &json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "True"}]}})).is(200).has("/status/phase", "Running");
    c.merge("pod/a", &json!({"status": {"phase": "Failed"}}))
        .is(200)
        .has("/status/phase", "Running");
    c.strategic("pod/a/status", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]}})).is(200);
}

fn status_node(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}})).is(201);
    c.strategic("node/{ns}-n/status", &json!({"status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m"}], "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}})).is(200).has("/status/capacity/cpu", "4");
    c.strategic(
        "node/{ns}-n/status",
        &json!({"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}),
    )
    .is(200);
    c.delete("node/{ns}-n").is(200);
}

fn status_pdb(c: &Case) {
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"nobody": "x"}}}})).is(201);
    c.until("pdb/a", |reply| {
        reply.at("/status/observedGeneration") == 1 && reply.at("/status/conditions").is_array()
    });
}

fn status_namespace(c: &Case) {
    c.get("ns/{ns}/status").is(200);
    c.merge(
        "ns/{ns}/status",
        &json!({"status": {"conditions": [{"type": "X", "status": "True"}]}}),
    )
    .is(200);
    c.get("ns/{ns}/finalize").is(405);
}

fn status_pvc(c: &Case) {
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    c.post("pvc", &claim).is(201).has("/status/phase", "Pending");
    c.merge("pvc/a/status", &json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}))
        .is(200)
        .has("/status/phase", "Bound");
}

fn status_service(c: &Case) {
    c.post("svc", &json!({"metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 1}]}})).is(201);
    c.merge("svc/a/status", &json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}))
        .is(200);
}

fn status_world(c: &Case) {
    let world = json!({"apiVersion": "parity.sutler.dev/v1", "kind": "World", "metadata": {"name": "{ns}-w"}, "spec": {"moons": 1}, "status": {"spinning": true}});
    c.post("world", &world).is(201).lacks("/status");
    c.merge("world/{ns}-w/status", &json!({"status": {"spinning": true}}))
        .is(200)
        .has("/status/spinning", true);
    c.get("world/{ns}-w/scale").is(404);
    c.delete("world/{ns}-w").is(200);
}

fn scale_get(c: &Case) {
    made(c);
    c.get("toy/a/scale")
        .is(200)
        .has("/kind", "Scale")
        .has("/apiVersion", "autoscaling/v1")
        .has("/spec/replicas", 2)
        .has("/status/replicas", 0);
    c.merge("toy/a/status", &json!({"status": {"replicas": 1, "selector": "a=b"}})).is(200);
    c.get("toy/a/scale").is(200).has("/status/replicas", 1).has("/status/selector", "a=b");
}

fn scale_put(c: &Case) {
    made(c);
    let scale = c.get("toy/a/scale").is(200);
    c.put("toy/a/scale", &with(scale.body.clone(), "spec.replicas", 5))
        .is(200)
        .has("/spec/replicas", 5);
    c.get("toy/a").is(200).has("/spec/replicas", 5).has("/metadata/generation", 2);
}

fn scale_merge(c: &Case) {
    made(c);
    c.merge("toy/a/scale", &json!({"spec": {"replicas": 7}})).is(200).has("/spec/replicas", 7);
    c.merge("toy/a/scale", &json!({"spec": {"replicas": 0}})).is(200);
    c.get("toy/a").is(200).has("/spec/replicas", 0);
}

fn scale_negative(c: &Case) {
    made(c);
    c.merge("toy/a/scale", &json!({"spec": {"replicas": -1}}))
        .refused(422, "Invalid")
        .blames("spec.replicas");
    c.post("deploy", &deployment("a")).is(201);
    c.merge("deploy/a/scale", &json!({"spec": {"replicas": -1}}))
        .refused(422, "Invalid")
        .blames("spec.replicas");
}

fn scale_without_replicas(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.get("toy/a/scale");
    c.merge("toy/a/scale", &json!({"spec": {"replicas": 3}}));
    c.get("toy/a").is(200);
}

fn scale_missing(c: &Case) {
    c.get("toy/none/scale").is(404);
    c.merge("toy/none/scale", &json!({"spec": {"replicas": 1}})).is(404);
    c.get("deploy/none/scale").is(404);
    c.merge("deploy/none/scale", &json!({"spec": {"replicas": 1}})).is(404);
}

fn scale_version(c: &Case) {
    made(c);
    let old = c.get("toy/a/scale").is(200);
    c.merge("toy/a", &json!({"spec": {"size": 5}})).is(200);
    c.put("toy/a/scale", &with(old.body.clone(), "spec.replicas", 5)).refused(409, "Conflict");
    c.put(
        "toy/a/scale",
        &without(with(old.body.clone(), "spec.replicas", 5), "metadata.resourceVersion"),
    )
    .is(200);
}

fn scale_name_mismatch(c: &Case) {
    made(c);
    let scale = c.get("toy/a/scale").is(200);
    c.put("toy/a/scale", &with(scale.body.clone(), "metadata.name", "b"));
    c.put("toy/a/scale", &with(scale.body.clone(), "metadata.namespace", "other"));
    c.put(
        "toy/a/scale",
        &with(scale.body.clone(), "metadata.uid", "01234567-89ab-cdef-0123-456789abcdef"),
    );
}

fn scale_wrong_kind(c: &Case) {
    made(c);
    c.put("toy/a/scale", &toy("a", json!({"size": 1})));
    c.put("toy/a/scale", &cm("a"));
    c.post("deploy", &deployment("a")).is(201);
    c.put("deploy/a/scale", &deployment("a"));
}

fn scale_selector(c: &Case) {
    c.post("deploy", &with(deployment("a"), "spec.selector", json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}))).is(201);
    c.get("deploy/a/scale").is(200);
}

fn scale_status_ignored(c: &Case) {
    made(c);
    c.merge("toy/a/scale", &json!({"status": {"replicas": 9}, "metadata": {"labels": {"a": "b"}}}))
        .is(200)
        .has("/status/replicas", 0);
    c.get("toy/a").is(200).lacks("/metadata/labels");
}

fn scale_dry_run(c: &Case) {
    made(c);
    c.merge("toy/a/scale?dryRun=All", &json!({"spec": {"replicas": 9}}))
        .is(200)
        .has("/spec/replicas", 9);
    c.get("toy/a").is(200).has("/spec/replicas", 2);
}

fn scale_strategic_custom(c: &Case) {
    made(c);
    c.strategic("toy/a/scale", &json!({"spec": {"replicas": 9}}));
}

fn scale_json_patch(c: &Case) {
    made(c);
    c.json_patch("toy/a/scale", &json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]))
        .is(200)
        .has("/spec/replicas", 4);
    c.json_patch("toy/a/scale", &json!([{"op": "test", "path": "/spec/replicas", "value": 1}]))
        .is(422);
}

fn scale_deployment(c: &Case) {
    c.post("deploy", &deployment("a")).is(201);
    c.get("deploy/a/scale").is(200).has("/spec/replicas", 1).has("/status/selector", "app=x");
    c.merge("deploy/a/scale", &json!({"spec": {"replicas": 3}})).is(200).has("/spec/replicas", 3);
    let scale = c.get("deploy/a/scale").is(200);
    c.put("deploy/a/scale", &with(scale.body.clone(), "spec.replicas", 4)).is(200);
    c.get("deploy/a").is(200).has("/spec/replicas", 4).has("/metadata/generation", 3);
    c.put("deploy/a/scale", &scale.body).refused(409, "Conflict");
    c.strategic("deploy/a/scale", &json!({"spec": {"replicas": 5}})).is(200);
}

fn scale_replicaset(c: &Case) {
    c.post("rs", &with(with(deployment("a"), "kind", "ReplicaSet"), "spec.replicas", 2)).is(201);
    c.get("rs/a/scale").is(200).has("/spec/replicas", 2);
    c.merge("rs/a/scale", &json!({"spec": {"replicas": 0}})).is(200);
    c.get("rs/a").is(200).has("/spec/replicas", 0);
}

fn scale_apply(c: &Case) {
    made(c);
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 6}});
    c.apply("toy/a/scale?fieldManager=m", &scale);
    c.apply("toy/a/scale?fieldManager=m&force=true", &scale);
    c.post("deploy", &deployment("a")).is(201);
    c.apply("deploy/a/scale?fieldManager=m", &scale);
    c.get("deploy/a").is(200);
}

fn scale_invalid_object(c: &Case) {
    c.post("deploy", &deployment("a")).is(201);
    c.merge("deploy/a/scale", &json!({"spec": {"replicas": "many"}}));
    c.merge("deploy/a/scale", &json!({"spec": null}));
    made(c);
    c.merge("toy/a/scale", &json!({"spec": {"replicas": "many"}}));
    c.merge("toy/a/scale", &json!({"spec": null}));
}

fn scale_of_plain(c: &Case) {
    c.post("plain", &json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "a"}, "spec": {"replicas": 1}})).is(201);
    c.get("plain/a/scale").is(404);
    c.merge("plain/a/status", &json!({})).is(404);
}

fn bind(name: &str, node: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
}

fn binding(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/binding", &bind("a", "n1")).is(201);
    c.get("pod/a")
        .is(200)
        .has("/spec/nodeName", "n1")
        .has("/status/conditions/0/type", "PodScheduled");
}

fn binding_twice(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/binding", &bind("a", "n1")).is(201);
    c.post("pod/a/binding", &bind("a", "n2")).refused(409, "Conflict");
    c.post("pod/a/binding", &bind("a", "n1")).refused(409, "Conflict");
}

fn binding_missing_pod(c: &Case) {
    c.post("pod/a/binding", &bind("a", "n1")).is(404);
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/binding", &bind("b", "n1")).is(400);
}

fn binding_target(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/binding", &with(bind("a", "n1"), "target", json!({}))).is(500);
    c.post("pod/a/binding", &with(bind("a", "n1"), "target.kind", "Pod")).is(500);
    c.post("pod/a/binding", &without(bind("a", "n1"), "target"));
    c.post("pod/a/binding?dryRun=All", &bind("a", "n1")).is(201);
    c.get("pod/a").is(200).lacks("/spec/nodeName");
}

fn binding_collection(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("/api/v1/namespaces/{ns}/bindings", &bind("a", "n1")).is(201);
    c.get("pod/a").is(200).has("/spec/nodeName", "n1");
}

fn binding_annotations(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post(
        "pod/a/binding",
        &with(
            with(bind("a", "n1"), "metadata.annotations", json!({"x": "y"})),
            "metadata.uid",
            "01234567-89ab-cdef-0123-456789abcdef",
        ),
    );
    c.post("pod/a/binding", &with(bind("a", "n1"), "metadata.annotations", json!({"x": "y"})))
        .is(201);
    c.get("pod/a").is(200).has("/metadata/annotations/x", "y");
}

fn evict(name: &str) -> serde_json::Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

fn eviction(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/eviction", &evict("a")).is(201).has("/status", "Success");
    c.get("pod/a").is(404);
    c.post("pod", &with(pod("b"), "spec.nodeName", "n1")).is(201);
    c.post("pod/b/eviction", &evict("b")).is(201);
    c.get("pod/b").is(200).shows("/metadata/deletionTimestamp");
}

fn eviction_missing(c: &Case) {
    c.post("pod/a/eviction", &evict("a")).refused(404, "NotFound");
}

fn eviction_name(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/eviction", &evict("b")).is(400);
    c.post("pod/a/eviction", &without(evict("a"), "metadata")).is(400);
    c.post("pod/a/eviction", &with(evict("a"), "apiVersion", "v1"));
}

fn eviction_dry_run(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/eviction?dryRun=All", &evict("a")).is(201);
    c.post("pod/a/eviction", &with(evict("a"), "deleteOptions", json!({"dryRun": ["All"]})))
        .is(201);
    c.get("pod/a").is(200).lacks("/metadata/deletionTimestamp");
}

fn eviction_grace(c: &Case) {
    c.post("pod", &with(pod("a"), "spec.nodeName", "n1")).is(201);
    c.post("pod/a/eviction", &with(evict("a"), "deleteOptions", json!({"gracePeriodSeconds": 9})))
        .is(201);
    c.get("pod/a").is(200).has("/metadata/deletionGracePeriodSeconds", 9);
}

fn ready(c: &Case, name: &str) {
    c.post(
        "pod",
        &with(with(pod(name), "metadata.labels", json!({"app": "x"})), "spec.nodeName", "n1"),
    )
    .is(201);
    c.merge(&format!("pod/{name}/status"), &json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})).is(200);
}

fn budget(name: &str, least: i64) -> serde_json::Value {
    json!({"metadata": {"name": name}, "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "x"}}}})
}

fn eviction_budget(c: &Case) {
    ready(c, "a");
    ready(c, "b");
    c.post("pdb", &budget("p", 1)).is(201);
    c.until("pdb/p", |reply| reply.at("/status/disruptionsAllowed") == 1);
    c.post("pod/a/eviction", &evict("a")).is(201);
    // The controller counts again in its own time, and the refusal tells its count.
    c.until_call(&Call::new("GET", "pdb/p").quiet(), |reply| {
        reply.at("/status/currentHealthy") == 1 && reply.at("/status/disruptedPods").is_null()
    });
    let refused = c.post("pod/b/eviction", &evict("b")).refused(429, "TooManyRequests");
    refused.has("/details/causes/0/reason", "DisruptionBudget");
    c.get("pod/b").is(200).lacks("/metadata/deletionTimestamp");
}

fn eviction_two_budgets(c: &Case) {
    ready(c, "a");
    c.post("pdb", &budget("p", 0)).is(201);
    c.post("pdb", &budget("q", 0)).is(201);
    c.post("pod/a/eviction", &evict("a")).is(500);
}

fn eviction_unhealthy(c: &Case) {
    c.post(
        "pod",
        &with(with(pod("a"), "metadata.labels", json!({"app": "x"})), "spec.nodeName", "n1"),
    )
    .is(201);
    c.post("pdb", &budget("p", 1)).is(201);
    c.until("pdb/p", |reply| reply.at("/status/expectedPods") == 1);
    // A pending pod may always go.
    c.post("pod/a/eviction", &evict("a")).is(201);
}
