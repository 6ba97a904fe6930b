//! What controllers do: garbage collection by owner, and the end of namespaces.

use serde_json::{Value, json};

use super::{cm, toy, with};
use crate::case::{Case, Reply};
use crate::suite::subject;

subject!("collect":
    background, orphan, foreground, foreground_not_blocking, chain, two_owners, owner_gone_already, owner_uid_wrong, custom_owner, custom_dependent, cluster_owner, foreground_waits_for_finalizer, default_policy,
    namespace_empty, namespace_with_content, namespace_held, namespace_terminating_create, namespace_finalizers, namespace_created, namespace_update, namespace_delete_answer, namespace_default_labels, namespace_default_protected, namespace_recreated,
);

fn owned(name: &str, owner: &Reply, block: bool) -> Value {
    let reference = json!({
        "apiVersion": owner.text("/apiVersion"), "kind": owner.text("/kind"), "name": owner.name(),
        "uid": owner.uid(), "blockOwnerDeletion": block,
    });
    with(cm(name), "metadata.ownerReferences", json!([reference]))
}

fn gone(reply: &Reply) -> bool {
    reply.status == 404
}

fn background(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    c.post("cm", &owned("a", &owner, false)).is(201);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Background"})).is(200);
    c.get("cm/owner").is(404);
    c.until("cm/a", gone);
}

fn orphan(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    c.post("cm", &owned("a", &owner, false)).is(201);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Orphan"})).is(200);
    c.until("cm/owner", gone);
    c.get("cm/a").is(200).lacks("/metadata/ownerReferences");
}

fn foreground(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    c.post("cm", &owned("a", &owner, true)).is(201);
    c.post("cm", &owned("b", &owner, true)).is(201);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Foreground"})).is(200);
    c.until("cm/owner", gone);
    c.get("cm/a").is(404);
    c.get("cm/b").is(404);
}

fn foreground_not_blocking(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    c.post("cm", &with(owned("a", &owner, false), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Foreground"})).is(200);
    // Nothing that blocks: the owner does not wait.
    c.until("cm/owner", gone);
    c.until("cm/a", |reply| reply.at("/metadata/deletionTimestamp").is_string());
}

fn foreground_waits_for_finalizer(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    c.post("cm", &with(owned("a", &owner, true), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Foreground"})).is(200);
    c.until("cm/a", |reply| reply.at("/metadata/deletionTimestamp").is_string());
    c.get("cm/owner").is(200).has("/metadata/finalizers", json!(["foregroundDeletion"]));
    c.merge("cm/a", &json!({"metadata": {"finalizers": null}})).is(200);
    c.until("cm/owner", gone);
}

fn chain(c: &Case) {
    let first = c.post("cm", &cm("first")).is(201);
    let second = c.post("cm", &owned("second", &first, false)).is(201);
    c.post("cm", &owned("third", &second, false)).is(201);
    c.delete("cm/first").is(200);
    c.until("cm/third", gone);
    c.get("cm/second").is(404);
}

fn two_owners(c: &Case) {
    let (one, two) = (c.post("cm", &cm("one")).is(201), c.post("cm", &cm("two")).is(201));
    let mut both = owned("a", &one, false);
    let other = owned("a", &two, false);
    if let Some(list) = both["metadata"]["ownerReferences"].as_array_mut() {
        list.push(other["metadata"]["ownerReferences"][0].clone());
    }
    c.post("cm", &both).is(201);
    let sentinel = c.post("cm", &owned("sentinel", &one, false)).is(201);
    c.delete("cm/one").is(200);
    c.until("cm/sentinel", gone);
    // One owner is left, and only that one is named.
    c.until("cm/a", |reply| reply.at("/metadata/ownerReferences/1").is_null());
    c.delete("cm/two").is(200);
    c.until("cm/a", gone);
    let _ = sentinel;
}

fn owner_gone_already(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    c.delete("cm/owner").is(200);
    c.post("cm", &owned("a", &owner, false)).is(201);
    c.until("cm/a", gone);
}

fn owner_uid_wrong(c: &Case) {
    c.post("cm", &cm("owner")).is(201);
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "01234567-89ab-cdef-0123-456789abcdef"}]);
    c.post("cm", &with(cm("a"), "metadata.ownerReferences", reference)).is(201);
    c.until("cm/a", gone);
    c.get("cm/owner").is(200);
}

fn custom_owner(c: &Case) {
    let owner = c.post("toy", &toy("owner", json!({"size": 1}))).is(201);
    c.post("cm", &owned("a", &owner, true)).is(201);
    c.delete("toy/owner").is(200);
    c.until("cm/a", gone);
}

fn custom_dependent(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    let references = owned("x", &owner, true)["metadata"]["ownerReferences"].clone();
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.ownerReferences", references))
        .is(201);
    c.delete_with("cm/owner", &json!({"propagationPolicy": "Foreground"})).is(200);
    c.until("cm/owner", gone);
    c.get("toy/a").is(404);
}

fn cluster_owner(c: &Case) {
    let world = json!({"apiVersion": "parity.sutler.dev/v1", "kind": "World", "metadata": {"name": "{ns}-w"}, "spec": {}});
    let owner = c.post("world", &world).is(201);
    c.post("cm", &owned("a", &owner, false)).is(201);
    c.delete("world/{ns}-w").is(200);
    c.until("cm/a", gone);
}

fn default_policy(c: &Case) {
    let owner = c.post("deploy", &super::deployment("owner")).is(201);
    c.post("cm", &owned("a", &owner, true)).is(201);
    c.delete("deploy/owner").is(200);
    c.until("cm/a", gone);
    c.get("deploy/owner").is(404);
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn namespace_empty(c: &Case) {
    c.post("ns", &namespace("{ns}-2")).is(201);
    c.delete("ns/{ns}-2").is(200);
    c.until("ns/{ns}-2", gone);
}

fn namespace_with_content(c: &Case) {
    c.post("ns", &namespace("{ns}-2")).is(201);
    c.post("/api/v1/namespaces/{ns}-2/configmaps", &cm("a")).is(201);
    c.post("/apis/parity.sutler.dev/v1/namespaces/{ns}-2/toys", &toy("a", json!({"size": 1})))
        .is(201);
    c.delete("ns/{ns}-2").is(200);
    c.until("ns/{ns}-2", gone);
    c.get("/api/v1/namespaces/{ns}-2/configmaps").is(200).items(&[]);
    c.get("/apis/parity.sutler.dev/v1/namespaces/{ns}-2/toys").is(200).items(&[]);
}

fn namespace_held(c: &Case) {
    c.post("ns", &namespace("{ns}-2")).is(201);
    let path = "/api/v1/namespaces/{ns}-2/configmaps";
    c.post(path, &with(cm("a"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.delete("ns/{ns}-2").is(200).has("/status/phase", "Terminating");
    c.until(&format!("{path}/a"), |reply| reply.at("/metadata/deletionTimestamp").is_string());
    // The controller says what it waits for.
    let told = |reply: &Reply| reply.at("/status/conditions/4").is_object();
    c.until("ns/{ns}-2", told)
        .has("/status/phase", "Terminating")
        .has("/spec/finalizers", json!(["kubernetes"]));
}

fn namespace_terminating_create(c: &Case) {
    c.post("ns", &namespace("{ns}-2")).is(201);
    let path = "/api/v1/namespaces/{ns}-2/configmaps";
    c.post(path, &with(cm("a"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.delete("ns/{ns}-2").is(200);
    c.until(&format!("{path}/a"), |reply| reply.at("/metadata/deletionTimestamp").is_string());
    c.post(path, &cm("b"))
        .refused(403, "Forbidden")
        .has("/details/causes/0/reason", "NamespaceTerminating");
    c.post("/apis/parity.sutler.dev/v1/namespaces/{ns}-2/toys", &toy("b", json!({"size": 1})))
        .refused(403, "Forbidden");
    c.apply(&format!("{path}/b?fieldManager=m"), &cm("b")).refused(403, "Forbidden");
    c.merge(&format!("{path}/a"), &json!({"data": {"k": "v"}})).is(200);
}

fn namespace_finalizers(c: &Case) {
    c.post("ns", &with(namespace("{ns}-2"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.delete("ns/{ns}-2").is(200);
    c.until("ns/{ns}-2", |reply| reply.at("/spec/finalizers").is_null());
    c.merge("ns/{ns}-2", &json!({"metadata": {"finalizers": null}})).is(200);
    c.until("ns/{ns}-2", gone);
}

fn namespace_created(c: &Case) {
    let made = c
        .post("ns", &namespace("{ns}-2"))
        .is(201)
        .has("/spec/finalizers", json!(["kubernetes"]))
        .has("/status/phase", "Active");
    made.shows("/metadata/labels/kubernetes.io~1metadata.name");
    c.post("ns", &with(namespace("{ns}-3"), "spec.finalizers", json!(["a.b/c"])));
}

fn namespace_update(c: &Case) {
    c.merge("ns/{ns}", &json!({"metadata": {"labels": {"a": "b"}}}))
        .is(200)
        .has("/metadata/labels/a", "b");
    c.merge("ns/{ns}", &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}));
    c.merge("ns/{ns}", &json!({"metadata": {"labels": null}})).is(200);
    c.merge("ns/{ns}", &json!({"spec": {"finalizers": []}}))
        .is(200)
        .has("/spec/finalizers", json!(["kubernetes"]));
    c.merge("ns/{ns}", &json!({"status": {"phase": "Terminating"}}))
        .is(200)
        .has("/status/phase", "Active");
}

fn namespace_delete_answer(c: &Case) {
    c.post("ns", &namespace("{ns}-2")).is(201);
    c.post(
        "/api/v1/namespaces/{ns}-2/configmaps",
        &with(cm("a"), "metadata.finalizers", json!(["a.b/c"])),
    )
    .is(201);
    c.delete("ns/{ns}-2?dryRun=All").is(200);
    c.delete("ns/{ns}-2").is(200).has("/kind", "Namespace").has("/status/phase", "Terminating");
    c.delete_with(
        "ns/{ns}-2",
        &json!({"preconditions": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}),
    )
    .is(409);
}

fn namespace_default_labels(c: &Case) {
    c.get("ns/{ns}").is(200).has("/metadata/labels/kubernetes.io~1metadata.name", c.ns.as_str());
}

fn namespace_default_protected(c: &Case) {
    c.delete("ns/default").refused(403, "Forbidden");
    c.delete("ns/kube-system").refused(403, "Forbidden");
    c.delete("ns/kube-public").refused(403, "Forbidden");
    c.get("ns/default").is(200).has("/status/phase", "Active");
}

fn namespace_recreated(c: &Case) {
    let old = c.post("ns", &namespace("{ns}-2")).is(201);
    c.delete("ns/{ns}-2").is(200);
    c.until("ns/{ns}-2", gone);
    let new = c.post("ns", &namespace("{ns}-2")).is(201);
    c.check(old.uid() != new.uid(), "another namespace");
}
