//! Update: PUT, the optimistic lock and what cannot change.

use serde_json::json;

use super::{cm, toy, with, without};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("update":
    replaces, without_version, stale_version, stale_version_custom, version_bad, version_zero, missing, create_on_update, create_on_update_with_version,
    name_mismatch, name_absent, namespace_mismatch, uid_mismatch, uid_absent, uid_is_kept, creation_is_kept, no_op, no_op_custom, generation, generation_of_metadata,
    generation_given, kind_mismatch, dry_run, dry_run_conflict, invalid, unknown_fields, deletion_is_kept, finalizer_added_late, finalizer_removed_last, owners_change,
    managed_fields_cleared, managed_fields_kept, managers, status_ignored, status_ignored_builtin, transition_rules, immutable_configmap, immutable_secret,
    secret_type, immutable_selector, node_spec, service_ip, empty_body, yaml_body, concurrent,
);

fn replaces(c: &Case) {
    c.post("cm", &with(cm("a"), "data", json!({"k": "v"}))).is(201);
    let old = c.get("cm/a");
    let changed = with(cm("a"), "data", json!({"l": "w"}));
    let new = c
        .put("cm/a", &with(changed, "metadata.resourceVersion", old.rv()))
        .is(200)
        .lacks("/data/k")
        .has("/data/l", "w");
    c.check(new.rv() != old.rv(), "another version");
    c.equal(new.uid(), old.uid());
}

fn without_version(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.put("cm/a", &with(cm("a"), "data", json!({"k": "v"}))).is(200);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    // Custom kinds insist on the version.
    c.put("toy/a", &toy("a", json!({"size": 2})))
        .refused(422, "Invalid")
        .blames("metadata.resourceVersion");
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {}})).is(201);
    c.put("lease/a", &json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}))
        .refused(422, "Invalid");
    c.post("role", &json!({"metadata": {"name": "a"}, "rules": []})).is(201);
    c.put("role/a", &json!({"metadata": {"name": "a"}, "rules": []})).is(200);
}

fn stale_version(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    c.put("cm/a", &old.body).refused(409, "Conflict").says("the object has been modified");
    c.get("cm/a").is(200).has("/data/k", "v");
}

fn stale_version_custom(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.merge("toy/a", &json!({"spec": {"size": 2}})).is(200);
    c.put("toy/a", &old.body).refused(409, "Conflict").has("/details/group", "parity.sutler.dev");
    c.put("toy/a/status", &old.body).refused(409, "Conflict");
}

fn version_bad(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    for version in ["abc", "-1", "999999999999", "1.0"] {
        c.put("cm/a", &with(cm("a"), "metadata.resourceVersion", version));
        c.put("toy/a", &with(toy("a", json!({"size": 1})), "metadata.resourceVersion", version));
    }
    c.put("cm/a", &with(cm("a"), "metadata.resourceVersion", 5)).is(400);
}

fn version_zero(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.put("cm/a", &with(with(cm("a"), "metadata.resourceVersion", "0"), "data", json!({"k": "v"})));
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a", &with(toy("a", json!({"size": 2})), "metadata.resourceVersion", "0"));
}

fn missing(c: &Case) {
    c.put("cm/a", &cm("a")).refused(404, "NotFound");
    c.put("cm/a", &with(cm("a"), "metadata.resourceVersion", "5")).refused(404, "NotFound");
    c.put("toy/a", &with(toy("a", json!({"size": 1})), "metadata.resourceVersion", "5"))
        .refused(404, "NotFound");
    c.put("toy/a", &toy("a", json!({"size": 1}))).refused(404, "NotFound");
    c.put("toy/a/status", &toy("a", json!({"size": 1}))).refused(404, "NotFound");
    c.put("/api/v1/namespaces/{ns}-none/configmaps/a", &cm("a")).refused(404, "NotFound");
}

fn create_on_update(c: &Case) {
    c.put("lease/a", &json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}})).is(201);
    c.put("role/a", &json!({"metadata": {"name": "a"}, "rules": []})).is(201);
    c.put("rb/a", &json!({"metadata": {"name": "a"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}})).is(201);
    c.put("svc/a", &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}}));
    c.put("event/a", &json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "{ns}"}}));
    c.put("pdb/a", &json!({"metadata": {"name": "a"}, "spec": {}}));
    c.put("node/{ns}-n", &json!({"metadata": {"name": "{ns}-n"}}));
    c.put("secret/a", &json!({"metadata": {"name": "a"}})).is(404);
    c.put("deploy/a", &json!({"metadata": {"name": "a"}})).is(404);
    c.put("sa/a", &json!({"metadata": {"name": "a"}})).is(404);
}

fn create_on_update_with_version(c: &Case) {
    c.put("lease/a", &json!({"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {}}));
    c.put("lease/b", &json!({"metadata": {"name": "b", "uid": "u"}, "spec": {}}));
    c.put("lease/c?dryRun=All", &json!({"metadata": {"name": "c"}, "spec": {}}));
    c.put("lease/c", &json!({"metadata": {"name": "c"}, "spec": {"leaseDurationSeconds": 0}}));
    c.put(
        "/apis/coordination.k8s.io/v1/namespaces/{ns}-none/leases/c",
        &json!({"metadata": {"name": "c"}, "spec": {}}),
    )
    .is(404);
}

fn name_mismatch(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.put("cm/a", &cm("b")).refused(400, "BadRequest").says("does not match");
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a", &toy("b", json!({"size": 1}))).refused(400, "BadRequest");
}

fn name_absent(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.put("cm/a", &without(cm("a"), "metadata.name")).refused(400, "BadRequest");
    c.put("cm/a", &json!({})).refused(400, "BadRequest").says("name must be provided");
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a", &without(old.body.clone(), "metadata.name"));
}

fn namespace_mismatch(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.put("cm/a", &with(cm("a"), "metadata.namespace", "other")).refused(400, "BadRequest");
    c.put("cm/a", &with(cm("a"), "metadata.namespace", "{ns}")).is(200);
}

fn uid_mismatch(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    let other = "01234567-89ab-cdef-0123-456789abcdef";
    c.put("cm/a", &with(cm("a"), "metadata.uid", other)).refused(409, "Conflict");
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a", &with(old.body.clone(), "metadata.uid", other)).refused(409, "Conflict");
}

fn uid_absent(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    let new = c
        .put("cm/a", &with(without(old.body.clone(), "metadata.uid"), "data", json!({"k": "v"})))
        .is(200);
    c.equal(new.uid(), old.uid());
}

fn uid_is_kept(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    let same = with(with(cm("a"), "metadata.uid", old.uid()), "data", json!({"k": "v"}));
    c.put("cm/a", &same).is(200).has("/metadata/uid", old.uid());
}

fn creation_is_kept(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    let body = with(cm("a"), "metadata.creationTimestamp", "2001-01-01T00:00:00Z");
    c.put("cm/a", &body)
        .is(200)
        .has("/metadata/creationTimestamp", old.text("/metadata/creationTimestamp"));
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a", &with(old.body.clone(), "metadata.creationTimestamp", "2001-01-01T00:00:00Z"))
        .is(200);
    c.put("cm/a", &with(cm("a"), "metadata.generateName", "new-"));
    c.put("cm/a", &with(cm("a"), "metadata.selfLink", "/x"));
}

fn no_op(c: &Case) {
    let old = c.post("cm", &with(cm("a"), "data", json!({"k": "v"}))).is(201);
    let same = c.put("cm/a", &old.body).is(200);
    c.equal(same.rv(), old.rv());
    let same = c.put("cm/a", &with(cm("a"), "data", json!({"k": "v"}))).is(200);
    c.equal(same.rv(), old.rv());
    let same = c.put("cm/a?fieldManager=other", &old.body).is(200);
    c.equal(same.rv(), old.rv());
}

fn no_op_custom(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let same = c.put("toy/a", &old.body).is(200);
    c.equal(same.rv(), old.rv());
    // Defaults make it the same.
    let body = with(toy("a", json!({"size": 1})), "metadata.resourceVersion", old.rv());
    let same = c.put("toy/a", &body).is(200);
    c.equal(same.rv(), old.rv());
    let same = c.put("toy/a/status", &old.body).is(200);
    c.equal(same.rv(), old.rv());
}

fn generation(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201).has("/metadata/generation", 1);
    let new = c
        .put("toy/a", &with(old.body.clone(), "spec.size", 2))
        .is(200)
        .has("/metadata/generation", 2);
    let status =
        c.put("toy/a/status", &with(new.body.clone(), "status", json!({"phase": "Up"}))).is(200);
    let status = status.has("/metadata/generation", 2);
    c.put("toy/a", &with(status.body.clone(), "metadata.labels", json!({"a": "b"})))
        .is(200)
        .has("/metadata/generation", 2);
    let plain = json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "a"}, "x": 1});
    let old = c.post("plain", &plain).is(201);
    c.put("plain/a", &with(old.body.clone(), "x", 2)).is(200);
}

fn generation_of_metadata(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.merge("toy/a", &json!({"metadata": {"annotations": {"a": "b"}}}))
        .is(200)
        .has("/metadata/generation", 1);
    c.merge("toy/a", &json!({"metadata": {"finalizers": ["a.b/c"]}}))
        .is(200)
        .has("/metadata/generation", 1);
    // Being deleted counts as a change of what is wanted.
    c.delete("toy/a").is(200).has("/metadata/generation", 2);
    c.merge("toy/a", &json!({"metadata": {"finalizers": null}})).is(200);
}

fn generation_given(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a", &with(old.body.clone(), "metadata.generation", 9))
        .is(200)
        .has("/metadata/generation", 1);
}

fn kind_mismatch(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.put("cm/a", &with(cm("a"), "kind", "Secret")).is(400);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let plain = with(toy("a", json!({"size": 1})), "kind", "Plain");
    c.put("toy/a", &plain).refused(422, "Invalid");
    c.put("toy/a", &with(plain, "metadata.resourceVersion", c.get("toy/a").rv())).is(422);
    c.put("toy/a", &with(toy("a", json!({"size": 1})), "apiVersion", "v1")).is(400);
}

fn dry_run(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    c.put("cm/a?dryRun=All", &with(old.body.clone(), "data", json!({"k": "v"})))
        .is(200)
        .has("/data/k", "v");
    c.get("cm/a").is(200).lacks("/data").has("/metadata/resourceVersion", old.rv());
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a?dryRun=All", &with(old.body.clone(), "spec.size", 5))
        .is(200)
        .has("/metadata/generation", 2);
    c.get("toy/a").is(200).has("/spec/size", 1);
}

fn dry_run_conflict(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    c.put("cm/a?dryRun=All", &old.body).refused(409, "Conflict");
    c.put("cm/none?dryRun=All", &cm("none")).refused(404, "NotFound");
}

fn invalid(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a", &with(old.body.clone(), "spec.size", 0))
        .refused(422, "Invalid")
        .blames("spec.size");
    c.put("toy/a", &with(old.body.clone(), "spec.mode", "Odd")).refused(422, "Invalid");
    c.put("toy/a", &with(old.body.clone(), "metadata.labels", json!({"a b": "c"})))
        .refused(422, "Invalid");
    // A stale version is told before what is wrong with the object.
    c.merge("toy/a", &json!({"spec": {"size": 2}})).is(200);
    c.put("toy/a", &with(old.body.clone(), "spec.size", 0));
    c.get("toy/a").is(200).has("/spec/size", 2);
}

fn unknown_fields(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy/a?fieldValidation=Strict", &with(old.body.clone(), "spec.colour", "red")).is(400);
    c.put("toy/a", &with(old.body.clone(), "spec.colour", "red"))
        .is(200)
        .warns("spec.colour")
        .lacks("/spec/colour");
    c.post("cm", &cm("a")).is(201);
    c.put("cm/a?fieldValidation=Strict", &with(cm("a"), "colour", "red")).is(400);
}

fn deletion_is_kept(c: &Case) {
    let held = with(cm("a"), "metadata.finalizers", json!(["a.b/c"]));
    c.post("cm", &held).is(201);
    c.delete("cm/a").is(200);
    c.put("cm/a", &held).is(200).shows("/metadata/deletionTimestamp");
    let body = with(held.clone(), "metadata.deletionTimestamp", "2001-01-01T00:00:00Z");
    c.put("cm/a", &body);
    c.merge("cm/a", &json!({"metadata": {"deletionTimestamp": null}}))
        .is(200)
        .shows("/metadata/deletionTimestamp");
    c.put("cm/a", &cm("a")).is(200);
    c.get("cm/a").is(404);
}

fn finalizer_added_late(c: &Case) {
    let held = with(cm("a"), "metadata.finalizers", json!(["a.b/c"]));
    c.post("cm", &held).is(201);
    c.delete("cm/a").is(200);
    c.put("cm/a", &with(cm("a"), "metadata.finalizers", json!(["a.b/c", "a.b/d"])))
        .refused(422, "Invalid")
        .blames("metadata.finalizers");
    c.put("cm/a", &with(cm("a"), "metadata.finalizers", json!(["a.b/d"]))).refused(422, "Invalid");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.finalizers", json!(["a.b/c"])))
        .is(201);
    c.delete("toy/a").is(200);
    c.merge("toy/a", &json!({"metadata": {"finalizers": ["a.b/c", "a.b/d"]}}))
        .refused(422, "Invalid");
}

fn finalizer_removed_last(c: &Case) {
    c.post(
        "toy",
        &with(toy("a", json!({"size": 1})), "metadata.finalizers", json!(["a.b/c", "a.b/d"])),
    )
    .is(201);
    c.delete("toy/a").is(200);
    c.merge("toy/a", &json!({"metadata": {"finalizers": ["a.b/d"]}})).is(200);
    c.get("toy/a").is(200);
    let last = c.get("toy/a").is(200);
    c.put("toy/a", &without(last.body.clone(), "metadata.finalizers")).is(200);
    c.get("toy/a").is(404);
}

fn owners_change(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    c.post("cm", &cm("a")).is(201);
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
    c.put("cm/a", &with(cm("a"), "metadata.ownerReferences", json!([reference]))).is(200);
    c.put("cm/a", &cm("a")).is(200).lacks("/metadata/ownerReferences");
}

fn managed_fields_cleared(c: &Case) {
    let old = c.post("cm", &with(cm("a"), "data", json!({"k": "v"}))).is(201);
    c.put("cm/a", &with(old.body.clone(), "metadata.managedFields", json!([{}])))
        .is(200)
        .lacks("/metadata/managedFields");
    c.put("cm/a?fieldManager=new", &with(cm("a"), "data", json!({"k": "v", "l": "w"}))).is(200);
}

fn managed_fields_kept(c: &Case) {
    c.post("cm?fieldManager=one", &with(cm("a"), "data", json!({"k": "v"}))).is(201);
    // Leaving them out does not lose them, and an empty list neither.
    c.put("cm/a?fieldManager=two", &with(cm("a"), "data", json!({"k": "v", "l": "w"}))).is(200);
    c.put(
        "cm/a?fieldManager=three",
        &with(
            with(cm("a"), "data", json!({"k": "v", "l": "w", "m": "x"})),
            "metadata.managedFields",
            json!([]),
        ),
    )
    .is(200);
}

fn managers(c: &Case) {
    c.post("toy?fieldManager=one", &toy("a", json!({"size": 1, "labels": {"a": "b"}}))).is(201);
    c.merge("toy/a?fieldManager=two", &json!({"spec": {"labels": {"c": "d"}}})).is(200);
    c.merge("toy/a?fieldManager=three", &json!({"spec": {"size": 3}})).is(200);
    c.merge("toy/a/status?fieldManager=three", &json!({"status": {"phase": "Up"}})).is(200);
    c.merge("toy/a?fieldManager=two", &json!({"spec": {"labels": null}})).is(200);
    c.get("toy/a").is(200);
}

fn status_ignored(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let up = c
        .put("toy/a/status", &with(old.body.clone(), "status", json!({"phase": "Up"})))
        .is(200)
        .has("/status/phase", "Up");
    let down = with(with(up.body.clone(), "status.phase", "Down"), "spec.size", 7);
    let new = c.put("toy/a", &down).is(200).has("/status/phase", "Up").has("/spec/size", 7);
    // And the other way round.
    let odd = with(with(new.body.clone(), "status.phase", "Odd"), "spec.size", 9);
    c.put("toy/a/status", &odd).is(200).has("/status/phase", "Odd").has("/spec/size", 7);
    let last = c.get("toy/a").is(200);
    c.put("toy/a", &without(last.body.clone(), "status")).is(200).has("/status/phase", "Odd");
}

fn status_ignored_builtin(c: &Case) {
    let deploy = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    c.post("deploy", &deploy).is(201);
    c.put("deploy/a", &with(deploy.clone(), "status", json!({"replicas": 3})))
        .is(200)
        .lacks("/status/replicas");
    c.put(
        "deploy/a/status",
        &with(deploy, "status", json!({"replicas": 3, "observedGeneration": 1})),
    )
    .is(200)
    .has("/status/replicas", 3);
}

fn transition_rules(c: &Case) {
    let old = c.post("toy", &toy("a", json!({"size": 1, "sticky": "x", "grow": 5, "disks": [{"name": "a", "gib": 10}, {"name": "b", "gib": 20}]}))).is(201);
    c.put("toy/a", &with(old.body.clone(), "spec.sticky", "y"))
        .refused(422, "Invalid")
        .blames("spec.sticky");
    c.put("toy/a", &without(old.body.clone(), "spec.sticky")).refused(422, "Invalid");
    c.put("toy/a", &with(old.body.clone(), "spec.grow", 4))
        .refused(422, "Invalid")
        .blames("spec.grow");
    c.put(
        "toy/a",
        &with(
            old.body.clone(),
            "spec.disks",
            json!([{"name": "b", "gib": 5}, {"name": "a", "gib": 10}]),
        ),
    )
    .refused(422, "Invalid");
    // Items are matched by their key: the order does not matter, and one may go.
    c.put("toy/a", &with(old.body.clone(), "spec.disks", json!([{"name": "b", "gib": 30}])))
        .is(200);
    c.merge("toy/a", &json!({"spec": {"grow": 6}})).is(200);
}

fn immutable_configmap(c: &Case) {
    let body = with(with(cm("a"), "data", json!({"k": "v"})), "immutable", true);
    c.post("cm", &body).is(201);
    c.put("cm/a", &with(body.clone(), "data.k", "w")).refused(422, "Invalid").blames("data");
    c.put("cm/a", &without(body.clone(), "immutable")).refused(422, "Invalid").blames("immutable");
    c.put("cm/a", &with(body.clone(), "binaryData", json!({"b": "AA=="}))).refused(422, "Invalid");
    c.put("cm/a", &with(body.clone(), "metadata.labels", json!({"a": "b"}))).is(200);
    c.merge("cm/a", &json!({"immutable": false})).refused(422, "Invalid");
}

fn immutable_secret(c: &Case) {
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "dg=="}, "immutable": true});
    c.post("secret", &body).is(201);
    c.put("secret/a", &with(body.clone(), "data.k", "dw==")).refused(422, "Invalid").blames("data");
    c.put("secret/a", &with(body.clone(), "immutable", false)).refused(422, "Invalid");
}

fn secret_type(c: &Case) {
    c.post("secret", &json!({"metadata": {"name": "a"}, "type": "x.y/z"})).is(201);
    c.put("secret/a", &json!({"metadata": {"name": "a"}, "type": "x.y/w"}))
        .refused(422, "Invalid")
        .blames("type");
    c.put("secret/a", &json!({"metadata": {"name": "a"}}));
    c.merge("secret/a", &json!({"type": "other"})).refused(422, "Invalid");
}

fn immutable_selector(c: &Case) {
    let deploy = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    c.post("deploy", &deploy).is(201);
    c.put("deploy/a", &with(deploy.clone(), "spec.selector.matchLabels", json!({"c": "d"})))
        .refused(422, "Invalid")
        .blames("spec.selector");
    c.put("deploy/a", &with(deploy, "spec.template.metadata.labels", json!({"x": "y"})))
        .refused(422, "Invalid");
}

fn node_spec(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"providerID": "x://1"}}))
        .is(201);
    c.merge("node/{ns}-n", &json!({"spec": {"providerID": "x://2"}})).is(422);
    c.merge("node/{ns}-n", &json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}))
        .is(200);
    c.merge(
        "node/{ns}-n/status",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    )
    .is(200);
    c.delete("node/{ns}-n").is(200);
}

fn service_ip(c: &Case) {
    c.post("svc", &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}))
        .is(201)
        .shows("/spec/clusterIP");
    c.merge("svc/a", &json!({"spec": {"clusterIP": "10.96.200.200"}})).refused(422, "Invalid");
    c.merge("svc/a", &json!({"spec": {"ports": [{"port": 81}]}})).is(200);
    // An update that leaves the address out keeps it.
    c.put("svc/a", &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 82}]}}))
        .is(200)
        .shows("/spec/clusterIP");
}

fn empty_body(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    for path in ["cm/a", "toy/a"] {
        c.call(&Call::new("PUT", path).text("application/json", ""));
        c.call(&Call::new("PUT", path).text("application/json", "{"));
        c.call(&Call::new("PUT", path).text("application/json", "[]"));
        c.call(&Call::new("PUT", path));
    }
}

fn yaml_body(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    let yaml = "metadata:\n  name: a\ndata:\n  k: v\n";
    c.call(&Call::new("PUT", "cm/a").text("application/yaml", yaml)).is(200).has("/data/k", "v");
}

fn concurrent(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    let (first, second) = (
        with(old.body.clone(), "data", json!({"k": "1"})),
        with(old.body.clone(), "data", json!({"k": "2"})),
    );
    c.put("cm/a", &first).is(200);
    c.put("cm/a", &second).refused(409, "Conflict");
    // The same change again is refused too: its version is old.
    c.put("cm/a", &first).refused(409, "Conflict");
}
