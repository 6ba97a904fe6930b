//! Delete, and delete of collections.

use serde_json::json;

use super::{cm, deployment, labelled, make, pod, toy, with};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("delete":
    plain, missing, twice, answer_of_kinds, uid_precondition, version_precondition, both_preconditions, finalizer, finalizer_twice, finalizer_then_precondition,
    grace_of_configmap, grace_zero, grace_negative, grace_bad, grace_in_query, propagation_background, propagation_orphan, propagation_foreground, propagation_bad, propagation_in_query, orphan_dependents, orphan_and_propagation,
    foreground_then_background, dry_run, dry_run_bad, dry_run_finalizer, options_kind, options_version, options_unknown_field, options_bad_json, options_yaml, empty_body, ignore_store_errors,
    pod_grace, pod_grace_default, pod_unscheduled, pod_terminating_update, recreated_after, status_path, collection, collection_empty, collection_by_label, collection_by_field, collection_bad_selector, collection_with_finalizers, collection_dry_run,
    collection_limit, collection_options, collection_answer, collection_custom, collection_all_namespaces, service_answer, deployment_answer, namespaced_world,
);

fn plain(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.delete("cm/a").is(200).has("/status", "Success").has("/details/uid", made.uid());
    c.get("cm/a").is(404);
    let made = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.delete("toy/a")
        .is(200)
        .has("/details/uid", made.uid())
        .has("/details/group", "parity.sutler.dev");
}

fn missing(c: &Case) {
    c.delete("cm/a").refused(404, "NotFound");
    c.delete("toy/a").refused(404, "NotFound");
    c.delete_with("cm/a", &json!({"preconditions": {"uid": "x"}})).refused(404, "NotFound");
    c.delete("/api/v1/namespaces/{ns}-none/configmaps/a").refused(404, "NotFound");
}

fn twice(c: &Case) {
    make(c, &["a"]);
    c.delete("cm/a").is(200);
    c.delete("cm/a").refused(404, "NotFound");
}

fn answer_of_kinds(c: &Case) {
    for (path, body) in [
        ("secret", json!({"metadata": {"name": "a"}})),
        ("sa", json!({"metadata": {"name": "a"}})),
        ("lease", json!({"metadata": {"name": "a"}, "spec": {}})),
        ("role", json!({"metadata": {"name": "a"}, "rules": []})),
        ("pod", pod("a")),
        ("pdb", json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1}})),
        ("event", json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "{ns}"}})),
        (
            "plain",
            json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "a"}}),
        ),
    ] {
        c.post(path, &body).is(201);
        c.delete(&format!("{path}/a")).is(200);
        c.get(&format!("{path}/a")).is(404);
    }
}

fn uid_precondition(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.delete_with(
        "cm/a",
        &json!({"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}),
    )
    .refused(409, "Conflict");
    c.get("cm/a").is(200);
    c.delete_with("cm/a", &json!({"preconditions": {"uid": made.uid()}})).is(200);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.delete_with(
        "toy/a",
        &json!({"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}),
    )
    .refused(409, "Conflict");
}

fn version_precondition(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let new = c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    c.delete_with("cm/a", &json!({"preconditions": {"resourceVersion": made.rv()}}))
        .refused(409, "Conflict");
    c.delete_with("cm/a", &json!({"preconditions": {"resourceVersion": new.rv()}})).is(200);
}

fn both_preconditions(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    c.delete_with(
        "cm/a",
        &json!({"preconditions": {"uid": made.uid(), "resourceVersion": made.rv()}}),
    )
    .refused(409, "Conflict");
    c.delete_with("cm/a", &json!({"preconditions": {}})).is(200);
}

fn held(c: &Case) -> crate::case::Reply {
    c.post("cm", &with(cm("a"), "metadata.finalizers", json!(["a.b/c"]))).is(201)
}

fn finalizer(c: &Case) {
    held(c);
    c.delete("cm/a")
        .is(200)
        .has("/kind", "ConfigMap")
        .shows("/metadata/deletionTimestamp")
        .has("/metadata/deletionGracePeriodSeconds", 0);
    c.get("cm/a").is(200);
    c.post("cm", &cm("a")).refused(409, "AlreadyExists");
    c.merge("cm/a", &json!({"metadata": {"finalizers": []}})).is(200);
    c.get("cm/a").is(404);
}

fn finalizer_twice(c: &Case) {
    held(c);
    let first = c.delete("cm/a").is(200);
    let second = c.delete("cm/a").is(200);
    c.equal(second.rv(), first.rv());
    c.equal(second.text("/metadata/deletionTimestamp"), first.text("/metadata/deletionTimestamp"));
}

fn finalizer_then_precondition(c: &Case) {
    held(c);
    c.delete("cm/a").is(200);
    c.delete_with(
        "cm/a",
        &json!({"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}),
    )
    .refused(409, "Conflict");
}

fn grace_of_configmap(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"gracePeriodSeconds": 60})).is(200);
    c.get("cm/a").is(404);
    held(c);
    c.delete_with("cm/a", &json!({"gracePeriodSeconds": 60})).is(200);
}

fn grace_zero(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"gracePeriodSeconds": 0})).is(200);
}

fn grace_negative(c: &Case) {
    make(c, &["a"]);
    c.post("pod", &pod("a")).is(201);
    c.delete_with("cm/a", &json!({"gracePeriodSeconds": -1}));
    c.delete_with("pod/a", &json!({"gracePeriodSeconds": -5}));
}

fn grace_bad(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"gracePeriodSeconds": "soon"})).is(400);
    c.delete("cm/a?gracePeriodSeconds=soon").is(400);
    c.get("cm/a").is(200);
}

fn grace_in_query(c: &Case) {
    let scheduled = with(pod("a"), "spec.nodeName", "n1");
    c.post("pod", &scheduled).is(201);
    c.delete("pod/a?gracePeriodSeconds=7").is(200).has("/metadata/deletionGracePeriodSeconds", 7);
    // The body counts, and not the query.
    c.call(
        &Call::new("DELETE", "pod/a?gracePeriodSeconds=0").json(&json!({"gracePeriodSeconds": 3})),
    );
}

fn owner_with_dependent(c: &Case, block: bool) {
    let owner = c.post("cm", &cm("owner")).is(201);
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "blockOwnerDeletion": block}]);
    // Held, so that no collector hurries.
    let dependent = with(
        with(cm("dependent"), "metadata.ownerReferences", reference),
        "metadata.finalizers",
        json!(["a.b/c"]),
    );
    c.post("cm", &dependent).is(201);
}

fn propagation_background(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"propagationPolicy": "Background"}))
        .is(200)
        .has("/status", "Success");
    c.get("cm/a").is(404);
}

fn propagation_orphan(c: &Case) {
    held(c);
    c.delete_with("cm/a", &json!({"propagationPolicy": "Orphan"}))
        .is(200)
        .has("/metadata/finalizers", json!(["a.b/c", "orphan"]));
}

fn propagation_foreground(c: &Case) {
    owner_with_dependent(c, true);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Foreground"}))
        .is(200)
        .has("/metadata/finalizers", json!(["foregroundDeletion"]));
}

fn propagation_bad(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"propagationPolicy": "Sometimes"}))
        .refused(422, "Invalid")
        .blames("propagationPolicy");
    c.delete("cm/a?propagationPolicy=orphan").refused(422, "Invalid");
    c.get("cm/a").is(200);
}

fn propagation_in_query(c: &Case) {
    held(c);
    c.delete("cm/a?propagationPolicy=Foreground")
        .is(200)
        .has("/metadata/finalizers", json!(["a.b/c", "foregroundDeletion"]));
}

fn orphan_dependents(c: &Case) {
    held(c);
    // Asked for in this old way it is "accepted", when it says so itself.
    c.delete_with("cm/a", &json!({"orphanDependents": true})).is(200);
    c.post("cm", &with(cm("b"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.delete("cm/b?orphanDependents=false").is(202);
}

fn orphan_and_propagation(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"orphanDependents": true, "propagationPolicy": "Orphan"}))
        .refused(422, "Invalid");
}

fn foreground_then_background(c: &Case) {
    owner_with_dependent(c, true);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Foreground"})).is(200);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Background"})).is(200);
    c.get("cm/owner").is(404);
}

fn dry_run(c: &Case) {
    make(c, &["a"]);
    c.delete("cm/a?dryRun=All").is(200);
    c.delete_with("cm/a", &json!({"dryRun": ["All"]})).is(200);
    c.get("cm/a").is(200).lacks("/metadata/deletionTimestamp");
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.delete("toy/a?dryRun=All").is(200);
    c.get("toy/a").is(200);
    c.delete("cm/none?dryRun=All").is(404);
}

fn dry_run_bad(c: &Case) {
    make(c, &["a"]);
    c.delete("cm/a?dryRun=Some").is(422);
    c.delete_with("cm/a", &json!({"dryRun": ["Some"]})).is(422);
    c.delete_with("cm/a", &json!({"dryRun": "All"})).is(400);
    c.get("cm/a").is(200);
}

fn dry_run_finalizer(c: &Case) {
    held(c);
    c.delete("cm/a?dryRun=All").is(200).shows("/metadata/deletionTimestamp");
    c.get("cm/a").is(200).lacks("/metadata/deletionTimestamp");
}

fn options_kind(c: &Case) {
    make(c, &["a", "b", "c"]);
    c.delete_with("cm/a", &json!({"apiVersion": "v1", "kind": "DeleteOptions"})).is(200);
    c.delete_with("cm/b", &json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}))
        .is(200);
    c.delete_with("cm/c", &json!({"apiVersion": "v1", "kind": "ConfigMap"}));
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.delete_with("toy/a", &json!({"apiVersion": "parity.sutler.dev/v1", "kind": "DeleteOptions"}));
}

fn options_version(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"apiVersion": "v2", "kind": "DeleteOptions"}));
    c.delete_with("cm/a", &json!({"apiVersion": "apps/v1", "kind": "DeleteOptions"}));
}

fn options_unknown_field(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"colour": "red"}));
}

fn options_bad_json(c: &Case) {
    make(c, &["a"]);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    for path in ["cm/a", "toy/a"] {
        for body in ["{", "[]", "x", "\"x\""] {
            c.call(&Call::new("DELETE", path).text("application/json", body));
        }
        c.get(path).is(200);
    }
}

fn options_yaml(c: &Case) {
    make(c, &["a"]);
    c.call(&Call::new("DELETE", "cm/a").text("application/yaml", "propagationPolicy: Wrong\n"))
        .is(422);
    c.call(
        &Call::new("DELETE", "cm/a").text("application/yaml", "propagationPolicy: Background\n"),
    )
    .is(200);
}

fn empty_body(c: &Case) {
    make(c, &["a", "b", "c"]);
    c.call(&Call::new("DELETE", "cm/a").text("application/json", "")).is(200);
    c.call(&Call::new("DELETE", "cm/b").text("application/json", "{}")).is(200);
    c.call(&Call::new("DELETE", "cm/c").text("text/plain", "x"));
}

fn ignore_store_errors(c: &Case) {
    make(c, &["a"]);
    c.delete_with("cm/a", &json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true}));
}

fn pod_grace(c: &Case) {
    c.post("pod", &with(pod("a"), "spec.nodeName", "n1")).is(201);
    c.delete_with("pod/a", &json!({"gracePeriodSeconds": 20}))
        .is(200)
        .has("/metadata/deletionGracePeriodSeconds", 20);
    c.delete_with("pod/a", &json!({"gracePeriodSeconds": 60}))
        .is(200)
        .has("/metadata/deletionGracePeriodSeconds", 20);
    c.delete_with("pod/a", &json!({"gracePeriodSeconds": 5}))
        .is(200)
        .has("/metadata/deletionGracePeriodSeconds", 5);
    c.delete_with("pod/a", &json!({"gracePeriodSeconds": 0})).is(200);
    c.get("pod/a").is(404);
}

fn pod_grace_default(c: &Case) {
    c.post("pod", &with(pod("a"), "spec.nodeName", "n1")).is(201);
    c.delete("pod/a").is(200).has("/metadata/deletionGracePeriodSeconds", 30);
    c.get("pod/a").is(200).shows("/metadata/deletionTimestamp");
    c.delete("pod/a").is(200);
}

fn pod_unscheduled(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.delete("pod/a").is(200);
    c.get("pod/a").is(404);
    // So does one that has ended.
    c.post("pod", &with(pod("b"), "spec.nodeName", "n1")).is(201);
    c.merge("pod/b/status", &json!({"status": {"phase": "Succeeded"}})).is(200);
    c.delete("pod/b").is(200);
    c.get("pod/b").is(404);
}

fn pod_terminating_update(c: &Case) {
    c.post("pod", &with(pod("a"), "spec.nodeName", "n1")).is(201);
    c.delete("pod/a").is(200);
    c.merge("pod/a", &json!({"metadata": {"labels": {"a": "b"}}}))
        .is(200)
        .shows("/metadata/deletionTimestamp");
}

fn recreated_after(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    c.delete("cm/a").is(200);
    let new = c.post("cm", &cm("a")).is(201);
    c.check(old.uid() != new.uid(), "another object");
    c.delete_with("cm/a", &json!({"preconditions": {"uid": old.uid()}})).refused(409, "Conflict");
}

fn status_path(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.delete("toy/a/scale");
    c.get("toy/a").is(200);
}

fn collection(c: &Case) {
    make(c, &["a", "b", "c"]);
    c.delete("cm").is(200);
    c.get("cm").is(200).items(&[]);
}

fn collection_empty(c: &Case) {
    c.delete("cm").is(200);
    c.delete("toy").is(200);
    c.delete("/api/v1/namespaces/{ns}-none/configmaps").is(200);
}

fn collection_by_label(c: &Case) {
    c.post("cm", &labelled("a", json!({"x": "1"}))).is(201);
    c.post("cm", &labelled("b", json!({"x": "2"}))).is(201);
    make(c, &["c"]);
    c.delete("cm?labelSelector=x%3D1").is(200).items(&["a"]);
    c.get("cm").is(200).items(&["b", "c"]);
    c.delete("cm?labelSelector=%21x").is(200);
    c.get("cm").is(200).items(&["b"]);
}

fn collection_by_field(c: &Case) {
    make(c, &["a", "b"]);
    c.delete("cm?fieldSelector=metadata.name%3Da").is(200).items(&["a"]);
    c.get("cm").is(200).items(&["b"]);
}

fn collection_bad_selector(c: &Case) {
    make(c, &["a"]);
    c.delete("cm?labelSelector=a+in+(").is(400);
    c.delete("cm?fieldSelector=data%3Dx").is(400);
    c.get("cm").is(200).items(&["a"]);
}

fn collection_with_finalizers(c: &Case) {
    held(c);
    make(c, &["b"]);
    c.delete("cm").is(200);
    c.get("cm").is(200).items(&["a"]).shows("/items/0/metadata/deletionTimestamp");
    c.delete("cm").is(200);
}

fn collection_dry_run(c: &Case) {
    make(c, &["a", "b"]);
    c.delete("cm?dryRun=All").is(200);
    c.get("cm").is(200).items(&["a", "b"]);
}

fn collection_limit(c: &Case) {
    make(c, &["a", "b", "c"]);
    c.delete("cm?limit=2").is(200);
    c.get("cm").is(200);
}

fn collection_options(c: &Case) {
    make(c, &["a", "b"]);
    c.delete_with("cm", &json!({"propagationPolicy": "Wrong"})).is(422);
    c.delete_with("cm", &json!({"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}));
    c.get("cm").is(200);
    c.delete_with("cm", &json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0}))
        .is(200);
    c.get("cm").is(200).items(&[]);
}

fn collection_answer(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.delete("toy").is(200).has("/kind", "ToyList").items(&["a"]);
    make(c, &["a"]);
    c.delete("cm").is(200).has("/kind", "ConfigMapList").items(&["a"]);
}

fn collection_custom(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.post("toy", &toy("b", json!({"size": 1, "mode": "Slow"}))).is(201);
    c.delete("toy?fieldSelector=spec.mode%3DSlow").is(200).items(&["b"]);
    c.get("toy").is(200).items(&["a"]);
}

fn collection_all_namespaces(c: &Case) {
    c.delete("/apis/parity.sutler.dev/v1/toys?labelSelector=of%3D{ns}").is(404);
    c.delete("node?labelSelector=of%3D{ns}").is(200).items(&[]);
    c.delete("world?labelSelector=of%3D{ns}").is(200).items(&[]);
}

fn service_answer(c: &Case) {
    c.post("svc", &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}})).is(201);
    c.delete("svc/a").is(200);
    c.get("svc/a").is(404);
}

fn deployment_answer(c: &Case) {
    c.post("deploy", &deployment("a")).is(201);
    c.delete("deploy/a").is(200);
    c.get("deploy/a").is(404);
}

fn namespaced_world(c: &Case) {
    let world = json!({"apiVersion": "parity.sutler.dev/v1", "kind": "World", "metadata": {"name": "{ns}-w", "labels": {"of": "{ns}"}}, "spec": {}});
    c.post("world", &world).is(201);
    c.delete("world?labelSelector=of%3D{ns}").is(200);
    c.get("world/{ns}-w").is(404);
}
