//! Server-side apply.

use serde_json::json;

use super::{cm, deployment, pod, toy, with, without};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("apply":
    creates, no_op, changes, removes_own, keeps_others, conflict, conflict_many, force, shared_value, ownership_by_equal_value, ownership_transfer, after_update, after_update_conflict, update_after_apply,
    create_race_fields, list_map, list_map_conflict, list_map_two_keys, list_map_default_key, list_map_duplicate, list_map_missing_key, list_map_order, list_map_remove, set, set_duplicate, set_order, atomic_list, atomic_map,
    granular_map, nested_object, removes_whole_object, null_values, status, status_ignored_on_main, spec_ignored_on_status, scale_owner, missing_manager, empty_manager, long_manager, no_force_param, dry_run, dry_run_conflict,
    yaml, yaml_bad, yaml_multi, wrong_type_json, json_content, managed_fields_in_body, version_in_body, version_stale, uid_in_body, name_mismatch, name_absent, namespace_mismatch, kind_mismatch, kind_absent, generate_name, invalid, invalid_create, unknown_field_strict, unknown_field_default, duplicate_field,
    defaults_not_owned, deployment_env, deployment_ports, service_ports, finalizers, owner_references, labels, on_terminating, deleted_recreated, two_versions_of_manager, same_manager_update_and_apply, force_removes_from_other, empty_spec, empty_lists, preserve_unknown, embedded, int_or_string, float_equal, missing_namespace, preconditions, secret_string_data, cluster_scoped, time_of_entry, many_managers,
);

const A: &str = "toy/x?fieldManager=a";
const B: &str = "toy/x?fieldManager=b";
const B_FORCE: &str = "toy/x?fieldManager=b&force=true";

fn t(spec: serde_json::Value) -> serde_json::Value {
    toy("x", spec)
}

fn creates(c: &Case) {
    let made = c
        .apply(A, &t(json!({"size": 1})))
        .is(201)
        .has("/metadata/managedFields/0/operation", "Apply");
    made.has("/metadata/managedFields/0/manager", "a").has("/metadata/generation", 1);
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "data", json!({"k": "v"}))).is(201);
    c.get("toy/x").is(200);
}

fn no_op(c: &Case) {
    let made = c.apply(A, &t(json!({"size": 1}))).is(201);
    let again = c.apply(A, &t(json!({"size": 1}))).is(200);
    c.equal(again.rv(), made.rv());
    let made = c.apply("cm/x?fieldManager=a", &cm("x")).is(201);
    let again = c.apply("cm/x?fieldManager=a", &cm("x")).is(200);
    c.equal(again.rv(), made.rv());
}

fn changes(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).is(201);
    c.apply(A, &t(json!({"size": 2, "code": "ab1"})))
        .is(200)
        .has("/spec/size", 2)
        .has("/metadata/generation", 2);
}

fn removes_own(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "code": "ab1", "labels": {"a": "b", "c": "d"}}))).is(201);
    c.apply(A, &t(json!({"size": 1, "labels": {"a": "b"}})))
        .is(200)
        .lacks("/spec/code")
        .has("/spec/labels", json!({"a": "b"}));
    c.apply(A, &t(json!({"size": 1}))).is(200).lacks("/spec/labels");
}

fn keeps_others(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(B, &t(json!({"size": 1, "code": "ab1"}))).is(200);
    c.merge("toy/x?fieldManager=u", &json!({"spec": {"left": "l"}})).is(200);
    c.apply(A, &t(json!({"size": 1, "long": 5})))
        .is(200)
        .has("/spec/code", "ab1")
        .has("/spec/left", "l");
    // What another still wants stays when one lets go.
    c.apply(B, &t(json!({"code": "ab1"}))).is(200).has("/spec/size", 1);
}

fn conflict(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(B, &t(json!({"size": 2})))
        .refused(409, "Conflict")
        .blames(".spec.size")
        .says("conflict with \"a\"");
    c.get("toy/x").is(200).has("/spec/size", 1);
}

fn conflict_many(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "labels": {"a": "1"}, "disks": [{"name": "d", "gib": 1}]})))
        .is(201);
    c.merge("toy/x?fieldManager=u", &json!({"spec": {"code": "ab1"}})).is(200);
    c.apply(B, &t(json!({"size": 2, "code": "cd2", "labels": {"a": "2"}, "disks": [{"name": "d", "gib": 2}]}))).refused(409, "Conflict").blames(".spec.disks[name=\"d\"].gib").blames(".spec.labels.a");
}

fn force(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).is(201);
    c.apply(B_FORCE, &t(json!({"size": 2}))).is(200).has("/spec/size", 2);
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).refused(409, "Conflict");
    // Letting go of what is not its own any more changes nothing.
    c.apply(A, &t(json!({"code": "ab1"}))).is(200).has("/spec/size", 2);
}

fn shared_value(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(B, &t(json!({"size": 1}))).is(200);
    c.apply(A, &t(json!({"size": 2}))).refused(409, "Conflict");
    c.apply("toy/x?fieldManager=a&force=true", &t(json!({"size": 2}))).is(200);
    c.apply(B, &t(json!({"size": 2}))).is(200);
}

fn ownership_by_equal_value(c: &Case) {
    c.post("toy?fieldManager=u", &t(json!({"size": 1, "code": "ab1"}))).is(201);
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).is(200);
    c.apply(A, &t(json!({"size": 1}))).is(200).has("/spec/code", "ab1");
}

fn ownership_transfer(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).is(201);
    c.apply(B, &t(json!({"size": 1}))).is(200);
    c.apply(A, &t(json!({"size": 1}))).is(200).lacks("/spec/code");
    c.apply(B_FORCE, &t(json!({"size": 3}))).is(200);
    c.apply(B, &t(json!({}))).is(422);
}

fn after_update(c: &Case) {
    let made = c.post("toy?fieldManager=u", &t(json!({"size": 1}))).is(201);
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).is(200);
    c.check(!made.rv().is_empty(), "a version");
}

fn after_update_conflict(c: &Case) {
    c.post("toy?fieldManager=u", &t(json!({"size": 1}))).is(201);
    c.apply(A, &t(json!({"size": 2}))).refused(409, "Conflict").says("conflict with \"u\"");
    c.post("cm", &with(cm("x"), "data", json!({"k": "v"}))).is(201);
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "data", json!({"k": "w"})))
        .refused(409, "Conflict")
        .blames(".data.k");
}

fn update_after_apply(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).is(201);
    // An update takes what it changes.
    c.merge("toy/x?fieldManager=u", &json!({"spec": {"size": 2}})).is(200);
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).refused(409, "Conflict");
    c.apply(A, &t(json!({"size": 2, "code": "ab1"}))).is(200);
    c.merge("toy/x?fieldManager=u", &json!({"spec": {"code": null}})).is(200);
    c.apply(A, &t(json!({"size": 2, "code": "ab1"}))).is(200);
}

fn create_race_fields(c: &Case) {
    c.post("toy?fieldManager=a", &t(json!({"size": 1}))).is(201);
    c.apply(A, &t(json!({"size": 2})));
}

fn list_map(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 1}]}))).is(201);
    c.apply(B, &t(json!({"size": 1, "disks": [{"name": "b", "gib": 2}]})))
        .is(200)
        .has("/spec/disks/0/name", "a")
        .has("/spec/disks/1/name", "b");
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 5, "options": {"x": "y"}}]})))
        .is(200)
        .has("/spec/disks/0/gib", 5);
    c.apply(B, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 5, "options": {"z": "w"}}, {"name": "b", "gib": 2}]}))).is(200);
}

fn list_map_conflict(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 1}]}))).is(201);
    c.apply(B, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 2}]}))).refused(409, "Conflict");
    c.apply(B_FORCE, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 2}]}))).is(200);
    c.apply(A, &t(json!({"size": 1}))).is(200).has("/spec/disks/0/gib", 2);
}

fn list_map_two_keys(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}))).is(201);
    c.apply(B, &t(json!({"size": 1, "ports": [{"port": 80, "protocol": "UDP", "label": "u"}]})))
        .is(200)
        .has("/spec/ports/1/label", "u");
    c.apply(A, &t(json!({"size": 1, "ports": [{"port": 80, "protocol": "TCP"}]}))).is(200);
}

fn list_map_default_key(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "ports": [{"port": 80}]})))
        .is(201)
        .has("/spec/ports/0/protocol", "TCP");
    c.apply(A, &t(json!({"size": 1, "ports": [{"port": 80, "protocol": "TCP", "label": "x"}]})))
        .is(200)
        .lacks("/spec/ports/1");
    c.apply(B, &t(json!({"size": 1, "ports": [{"port": 80, "label": "x"}]}))).is(200);
}

fn list_map_duplicate(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 1}, {"name": "a", "gib": 2}]})));
    c.apply(A, &t(json!({"size": 1, "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]})));
}

fn list_map_missing_key(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "disks": [{"gib": 1}]})));
    c.apply(A, &t(json!({"size": 1, "disks": ["a"]})));
    c.apply(A, &t(json!({"size": 1, "disks": [null]})));
    c.apply(A, &t(json!({"size": 1, "disks": {"a": 1}})));
}

fn list_map_order(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 1}, {"name": "b", "gib": 1}, {"name": "c", "gib": 1}]}))).is(201);
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "c", "gib": 1}, {"name": "a", "gib": 1}, {"name": "b", "gib": 1}]}))).is(200);
    c.apply(B, &t(json!({"size": 1, "disks": [{"name": "z", "gib": 1}, {"name": "b", "gib": 1}]})))
        .is(200);
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "b", "gib": 1}, {"name": "n", "gib": 1}, {"name": "c", "gib": 1}]}))).is(200);
}

fn list_map_remove(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "a", "gib": 1}, {"name": "b", "gib": 1}]})))
        .is(201);
    c.merge("toy/x?fieldManager=u", &json!({"spec": {"disks": [{"name": "a", "gib": 1, "options": {"k": "v"}}, {"name": "b", "gib": 1}]}})).is(200);
    // The item stays with what the other set in it... or goes whole, with its key.
    c.apply(A, &t(json!({"size": 1, "disks": [{"name": "b", "gib": 1}]})));
    c.get("toy/x").is(200);
}

fn set(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "tags": ["a", "b"]}))).is(201);
    c.apply(B, &t(json!({"size": 1, "tags": ["b", "c"]})))
        .is(200)
        .has("/spec/tags", json!(["a", "b", "c"]));
    c.apply(A, &t(json!({"size": 1, "tags": ["a"]})))
        .is(200)
        .has("/spec/tags", json!(["a", "b", "c"]));
    c.apply(B, &t(json!({"size": 1, "tags": ["c"]}))).is(200).has("/spec/tags", json!(["a", "c"]));
}

fn set_duplicate(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "tags": ["a", "a"]})));
    c.post("toy", &t(json!({"size": 1, "tags": ["a", "a"]}))).is(422);
    c.apply(A, &t(json!({"size": 1, "tags": [1]})));
    c.apply(A, &t(json!({"size": 1, "tags": [null]})));
}

fn set_order(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "tags": ["a", "b", "c"]}))).is(201);
    c.apply(A, &t(json!({"size": 1, "tags": ["c", "b", "a"]}))).is(200);
    c.apply(B, &t(json!({"size": 1, "tags": ["z", "c"]}))).is(200);
}

fn atomic_list(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "steps": ["a", "b"]}))).is(201);
    c.apply(B, &t(json!({"size": 1, "steps": ["a"]})))
        .refused(409, "Conflict")
        .blames(".spec.steps");
    c.apply(B_FORCE, &t(json!({"size": 1, "steps": ["a"]})))
        .is(200)
        .has("/spec/steps", json!(["a"]));
    c.apply(A, &t(json!({"size": 1}))).is(200).has("/spec/steps", json!(["a"]));
}

fn atomic_map(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "pair": {"a": "1"}}))).is(201);
    c.apply(B, &t(json!({"size": 1, "pair": {"b": "2"}})))
        .refused(409, "Conflict")
        .blames(".spec.pair");
    c.apply(B_FORCE, &t(json!({"size": 1, "pair": {"b": "2"}})))
        .is(200)
        .has("/spec/pair", json!({"b": "2"}));
}

fn granular_map(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "labels": {"a": "1"}}))).is(201);
    c.apply(B, &t(json!({"size": 1, "labels": {"b": "2"}})))
        .is(200)
        .has("/spec/labels", json!({"a": "1", "b": "2"}));
    c.apply(A, &t(json!({"size": 1, "labels": {}}))).is(200).has("/spec/labels", json!({"b": "2"}));
    // The last item leaves a null behind, which the schema refuses.
    c.apply(B, &t(json!({"size": 1}))).refused(422, "Invalid");
}

fn nested_object(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "nested": {"inner": {"text": "x"}}})))
        .is(201)
        .has("/spec/nested/inner/flag", true);
    c.apply(B, &t(json!({"size": 1, "nested": {"depth": 4}}))).is(200);
    c.apply(A, &t(json!({"size": 1}))).is(200);
}

fn removes_whole_object(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "choice": {"one": "x"}}))).is(201);
    c.apply(A, &t(json!({"size": 1, "choice": {"two": "y"}}))).is(200).lacks("/spec/choice/one");
    c.apply(A, &t(json!({"size": 1}))).is(200).lacks("/spec/choice");
}

fn null_values(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "code": null, "note": null, "labels": null, "tags": null})));
    c.apply(A, &t(json!({"size": 1, "labels": {"a": null}})));
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "data", json!({"k": null})));
    c.apply("cm/y?fieldManager=a", &with(cm("y"), "data", json!(null)));
}

fn status(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    let body = without(
        with(
            t(json!({})),
            "status",
            json!({"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}),
        ),
        "spec",
    );
    c.apply("toy/x/status?fieldManager=s", &body).is(200).has("/status/phase", "Up");
    let other = without(
        with(t(json!({})), "status", json!({"conditions": [{"type": "Live", "status": "False"}]})),
        "spec",
    );
    c.apply("toy/x/status?fieldManager=r", &other).is(200).has("/status/conditions/1/type", "Live");
    c.apply("toy/x/status?fieldManager=r", &with(other, "status.phase", "Down"))
        .refused(409, "Conflict")
        .says("status");
    c.apply(A, &t(json!({"size": 2}))).is(200).has("/status/phase", "Up");
}

fn status_ignored_on_main(c: &Case) {
    c.apply(A, &with(t(json!({"size": 1})), "status", json!({"phase": "Up"})))
        .is(201)
        .lacks("/status");
    c.apply(A, &with(t(json!({"size": 1})), "status", json!({"phase": "Up"}))).is(200);
}

fn spec_ignored_on_status(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(
        "toy/x/status?fieldManager=s",
        &with(t(json!({"size": 9})), "status", json!({"phase": "Up"})),
    )
    .is(200)
    .has("/spec/size", 1);
    c.apply(
        "toy/none/status?fieldManager=s",
        &with(toy("none", json!({"size": 9})), "status", json!({"phase": "Up"})),
    )
    .is(404);
}

fn scale_owner(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "replicas": 2}))).is(201);
    c.merge("toy/x/scale?fieldManager=hpa", &json!({"spec": {"replicas": 5}})).is(200);
    c.get("toy/x").is(200).has("/spec/replicas", 5);
    c.apply(A, &t(json!({"size": 1, "replicas": 2}))).refused(409, "Conflict");
    c.apply("deploy/x?fieldManager=a", &with(deployment("x"), "spec.replicas", 2)).is(201);
    c.merge("deploy/x/scale?fieldManager=hpa", &json!({"spec": {"replicas": 5}})).is(200);
    c.get("deploy/x").is(200).has("/spec/replicas", 5);
    c.apply("deploy/x?fieldManager=a", &with(deployment("x"), "spec.replicas", 2))
        .refused(409, "Conflict");
}

fn missing_manager(c: &Case) {
    c.apply("toy/x", &t(json!({"size": 1}))).refused(422, "Invalid").blames("fieldManager");
    c.apply("cm/x", &cm("x")).refused(422, "Invalid");
}

fn empty_manager(c: &Case) {
    c.apply("toy/x?fieldManager=", &t(json!({"size": 1}))).refused(422, "Invalid");
}

fn long_manager(c: &Case) {
    c.apply(&format!("toy/x?fieldManager={}", "m".repeat(129)), &t(json!({"size": 1})))
        .refused(422, "Invalid");
    c.apply(&format!("toy/x?fieldManager={}", "m".repeat(128)), &t(json!({"size": 1}))).is(201);
}

fn no_force_param(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply("toy/x?fieldManager=b&force=false", &t(json!({"size": 2}))).refused(409, "Conflict");
    c.apply("toy/x?fieldManager=b&force=abc", &t(json!({"size": 2})));
    c.apply("toy/x?fieldManager=b&force=1", &t(json!({"size": 3})));
}

fn dry_run(c: &Case) {
    c.apply("toy/x?fieldManager=a&dryRun=All", &t(json!({"size": 1}))).is(201);
    c.get("toy/x").is(404);
    let made = c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply("toy/x?fieldManager=a&dryRun=All", &t(json!({"size": 2}))).is(200).has("/spec/size", 2);
    c.get("toy/x").is(200).has("/metadata/resourceVersion", made.rv());
}

fn dry_run_conflict(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply("toy/x?fieldManager=b&dryRun=All", &t(json!({"size": 2}))).refused(409, "Conflict");
    c.apply("toy/x?fieldManager=b&dryRun=All&force=true", &t(json!({"size": 2}))).is(200);
}

fn yaml(c: &Case) {
    let text = "apiVersion: parity.sutler.dev/v1\nkind: Toy\nmetadata:\n  name: x\nspec:\n  size: 4 # four\n  mode: \"Slow\"\n  tags:\n  - a\n";
    c.call(&Call::new("PATCH", A).text("application/apply-patch+yaml", text))
        .is(201)
        .has("/spec/size", 4);
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  yes: \"on\"\n  multi: |\n    a\n    b\n";
    c.call(&Call::new("PATCH", "cm/x?fieldManager=a").text("application/apply-patch+yaml", text));
    let anchored = "apiVersion: parity.sutler.dev/v1\nkind: Toy\nmetadata:\n  name: z\nspec: &s\n  size: 4\n  free: {copy: 1}\n";
    c.call(
        &Call::new("PATCH", "toy/z?fieldManager=a").text("application/apply-patch+yaml", anchored),
    )
    .is(201);
}

fn yaml_bad(c: &Case) {
    for text in ["a: [", "\t", "x", "- a", "a: b: c", "{", "%"] {
        c.call(&Call::new("PATCH", A).text("application/apply-patch+yaml", text));
    }
}

fn yaml_multi(c: &Case) {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n";
    c.call(&Call::new("PATCH", "cm/x?fieldManager=a").text("application/apply-patch+yaml", text));
    c.get("cm/y").is(404);
}

fn wrong_type_json(c: &Case) {
    c.patch("application/apply-patch+json", A, &t(json!({"size": 1})));
    c.patch("application/apply-patch", A, &t(json!({"size": 1}))).is(415);
    c.patch("application/apply-patch+cbor", A, &t(json!({"size": 1})));
}

fn json_content(c: &Case) {
    c.apply(A, &json!([])).is(400);
    c.apply(A, &json!(null)).is(400);
    c.apply(A, &json!("x")).is(400);
    c.apply(A, &json!({})).is(400);
}

fn managed_fields_in_body(c: &Case) {
    let made = c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(A, &made.body).refused(400, "BadRequest").says("managedFields must be nil");
    c.apply(A, &with(t(json!({"size": 1})), "metadata.managedFields", json!([])));
    c.apply(A, &with(t(json!({"size": 1})), "metadata.managedFields", json!(null)));
}

fn version_in_body(c: &Case) {
    c.apply(A, &with(t(json!({"size": 1})), "metadata.resourceVersion", "5")).is(201);
    let made = c.apply(A, &t(json!({"size": 1}))).is(200);
    c.apply(A, &with(t(json!({"size": 2})), "metadata.resourceVersion", made.rv())).is(200);
}

fn version_stale(c: &Case) {
    let made = c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(A, &t(json!({"size": 2}))).is(200);
    c.apply(A, &with(t(json!({"size": 3})), "metadata.resourceVersion", made.rv()))
        .refused(409, "Conflict");
}

fn uid_in_body(c: &Case) {
    let other = "01234567-89ab-cdef-0123-456789abcdef";
    c.apply(A, &with(t(json!({"size": 1})), "metadata.uid", other)).is(409);
    let made = c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(A, &with(t(json!({"size": 1})), "metadata.uid", other)).refused(422, "Invalid");
    c.apply(A, &with(t(json!({"size": 2})), "metadata.uid", made.uid())).is(200);
}

fn name_mismatch(c: &Case) {
    c.apply(A, &toy("y", json!({"size": 1}))).is(400);
    c.apply("cm/x?fieldManager=a", &cm("y")).is(400);
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(A, &toy("y", json!({"size": 1}))).is(400);
}

fn name_absent(c: &Case) {
    c.apply(A, &without(t(json!({"size": 1})), "metadata.name"));
    c.apply(A, &without(t(json!({"size": 1})), "metadata"));
    c.apply("cm/x?fieldManager=a", &without(cm("x"), "metadata"));
}

fn namespace_mismatch(c: &Case) {
    c.apply(A, &with(t(json!({"size": 1})), "metadata.namespace", "other")).is(400);
    c.apply(A, &with(t(json!({"size": 1})), "metadata.namespace", "{ns}")).is(201);
}

fn kind_mismatch(c: &Case) {
    c.apply(A, &with(t(json!({"size": 1})), "kind", "Plain"));
    c.apply(A, &with(t(json!({"size": 1})), "apiVersion", "parity.sutler.dev/v2"));
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "kind", "Secret"));
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "apiVersion", "apps/v1"));
}

fn kind_absent(c: &Case) {
    c.apply(A, &without(t(json!({"size": 1})), "kind")).is(400);
    c.apply(A, &without(t(json!({"size": 1})), "apiVersion")).is(400);
    c.apply("cm/x?fieldManager=a", &without(cm("x"), "kind")).is(400);
}

fn generate_name(c: &Case) {
    c.apply(A, &with(t(json!({"size": 1})), "metadata.generateName", "g-"));
}

fn invalid(c: &Case) {
    c.apply(A, &t(json!({"size": 1}))).is(201);
    c.apply(A, &t(json!({"size": 0}))).refused(422, "Invalid").blames("spec.size");
    c.apply(A, &t(json!({"size": "x"})));
    c.apply(A, &t(json!({"size": 1, "labels": "x"})));
    c.apply(A, &t(json!({"size": 1, "low": 5, "high": 1}))).refused(422, "Invalid");
    c.get("toy/x").is(200).has("/spec/size", 1);
}

fn invalid_create(c: &Case) {
    c.apply(A, &t(json!({"size": 0}))).refused(422, "Invalid");
    c.apply(A, &t(json!({}))).refused(422, "Invalid");
    c.apply("cm/UPPER?fieldManager=a", &cm("UPPER")).refused(422, "Invalid");
    c.apply(
        "deploy/x?fieldManager=a",
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}),
    )
    .refused(422, "Invalid");
}

fn unknown_field_strict(c: &Case) {
    c.apply("toy/x?fieldManager=a&fieldValidation=Strict", &t(json!({"size": 1, "colour": "red"})));
    c.apply("cm/x?fieldManager=a&fieldValidation=Strict", &with(cm("x"), "colour", "red"));
    c.apply(
        "deploy/x?fieldManager=a&fieldValidation=Strict",
        &with(deployment("x"), "spec.template.spec.containers.0.colour", "red"),
    );
}

fn unknown_field_default(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "colour": "red"})));
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "colour", "red"));
    c.apply(
        "toy/y?fieldManager=a&fieldValidation=Ignore",
        &toy("y", json!({"size": 1, "colour": "red"})),
    );
    c.apply("cm/y?fieldManager=a&fieldValidation=Ignore", &with(cm("y"), "colour", "red"));
}

fn duplicate_field(c: &Case) {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  k: a\n  k: b\n";
    c.call(
        &Call::new("PATCH", "cm/x?fieldManager=a&fieldValidation=Strict")
            .text("application/apply-patch+yaml", text),
    );
    c.call(&Call::new("PATCH", "cm/x?fieldManager=a").text("application/apply-patch+yaml", text));
    c.call(
        &Call::new("PATCH", "cm/x?fieldManager=a&fieldValidation=Ignore")
            .text("application/apply-patch+yaml", text),
    );
}

fn defaults_not_owned(c: &Case) {
    let made = c.apply(A, &t(json!({"size": 1}))).is(201);
    made.has("/spec/mode", "Fast").lacks("/metadata/managedFields/0/fieldsV1/f:spec/f:mode");
    c.apply(B, &t(json!({"size": 1, "mode": "Slow"}))).is(200).has("/spec/mode", "Slow");
    c.apply(B, &t(json!({"size": 1}))).is(200).has("/spec/mode", "Fast");
}

fn deployment_env(c: &Case) {
    let env =
        |env: serde_json::Value| with(deployment("x"), "spec.template.spec.containers.0.env", env);
    c.apply("deploy/x?fieldManager=a", &env(json!([{"name": "A", "value": "1"}]))).is(201);
    c.apply("deploy/x?fieldManager=b", &env(json!([{"name": "B", "value": "2"}]))).is(200);
    c.apply("deploy/x?fieldManager=b", &env(json!([{"name": "A", "value": "2"}])))
        .refused(409, "Conflict");
    c.apply("deploy/x?fieldManager=a", &deployment("x"))
        .is(200)
        .has("/spec/template/spec/containers/0/env/0/name", "B");
}

fn deployment_ports(c: &Case) {
    let ports = |ports: serde_json::Value| {
        with(deployment("x"), "spec.template.spec.containers.0.ports", ports)
    };
    c.apply("deploy/x?fieldManager=a", &ports(json!([{"containerPort": 80}]))).is(201);
    c.apply(
        "deploy/x?fieldManager=a",
        &ports(
            json!([{"containerPort": 80, "name": "web"}, {"containerPort": 80, "protocol": "UDP"}]),
        ),
    )
    .is(200);
    c.apply(
        "deploy/x?fieldManager=b",
        &ports(json!([{"containerPort": 80, "protocol": "TCP", "name": "other"}])),
    )
    .refused(409, "Conflict");
}

fn service_ports(c: &Case) {
    let service = |ports: serde_json::Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"clusterIP": "None", "ports": ports}});
    c.apply("svc/x?fieldManager=a", &service(json!([{"name": "p", "port": 80}]))).is(201);
    c.apply(
        "svc/x?fieldManager=a",
        &service(
            json!([{"name": "p", "port": 80, "targetPort": "web"}, {"name": "q", "port": 81}]),
        ),
    )
    .is(200);
    c.apply(
        "svc/x?fieldManager=a",
        &service(json!([{"name": "p", "port": 80}, {"name": "q", "port": 80, "protocol": "UDP"}])),
    )
    .is(200);
}

fn finalizers(c: &Case) {
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.apply("cm/x?fieldManager=b", &with(cm("x"), "metadata.finalizers", json!(["a.b/d"])))
        .is(200)
        .has("/metadata/finalizers", json!(["a.b/c", "a.b/d"]));
    c.apply("cm/x?fieldManager=a", &cm("x")).is(200).has("/metadata/finalizers", json!(["a.b/d"]));
    c.apply("cm/x?fieldManager=b", &cm("x")).is(200);
}

fn owner_references(c: &Case) {
    let owner = c.post("cm", &cm("o")).is(201);
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner.uid()}]);
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "metadata.ownerReferences", reference.clone()))
        .is(201);
    c.apply("cm/x?fieldManager=b", &with(cm("x"), "metadata.ownerReferences", reference))
        .is(200)
        .lacks("/metadata/ownerReferences/1");
    c.apply("cm/x?fieldManager=a", &cm("x")).is(200).shows("/metadata/ownerReferences/0");
    c.apply("cm/x?fieldManager=b", &cm("x")).is(200).lacks("/metadata/ownerReferences");
}

fn labels(c: &Case) {
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "metadata.labels", json!({"a": "1"}))).is(201);
    c.apply("cm/x?fieldManager=b", &with(cm("x"), "metadata.labels", json!({"a": "2", "b": "2"})))
        .refused(409, "Conflict")
        .blames(".metadata.labels.a");
    c.apply("cm/x?fieldManager=b", &with(cm("x"), "metadata.labels", json!({"b": "2"}))).is(200);
    c.apply("cm/x?fieldManager=a", &cm("x")).is(200).has("/metadata/labels", json!({"b": "2"}));
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "metadata.annotations", json!({"x.y/z": "1"})))
        .is(200);
}

fn on_terminating(c: &Case) {
    c.apply("cm/x?fieldManager=a", &with(cm("x"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    c.delete("cm/x").is(200);
    c.apply(
        "cm/x?fieldManager=a",
        &with(with(cm("x"), "metadata.finalizers", json!(["a.b/c"])), "data", json!({"k": "v"})),
    )
    .is(200);
    c.apply("cm/x?fieldManager=a", &cm("x")).is(200);
    c.get("cm/x").is(404);
}

fn deleted_recreated(c: &Case) {
    let old = c.apply("cm/x?fieldManager=a", &cm("x")).is(201);
    c.delete("cm/x").is(200);
    let new = c.apply("cm/x?fieldManager=a", &cm("x")).is(201);
    c.check(old.uid() != new.uid(), "another object");
}

fn two_versions_of_manager(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "code": "ab1"}))).is(201);
    c.merge("toy/x/status?fieldManager=a", &json!({"status": {"phase": "Up"}})).is(200);
    c.apply(
        "toy/x/status?fieldManager=a",
        &without(with(t(json!({})), "status", json!({"replicas": 1})), "spec"),
    )
    .is(200);
    c.apply(A, &t(json!({"size": 1}))).is(200).lacks("/spec/code").has("/status/phase", "Up");
}

fn same_manager_update_and_apply(c: &Case) {
    c.post("toy?fieldManager=a", &t(json!({"size": 1, "code": "ab1"}))).is(201);
    c.apply(A, &t(json!({"size": 1}))).is(200).has("/spec/code", "ab1");
    c.apply(A, &t(json!({"size": 2})));
}

fn force_removes_from_other(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "labels": {"a": "1", "b": "1"}}))).is(201);
    c.apply(B_FORCE, &t(json!({"size": 1, "labels": {"a": "2"}}))).is(200);
    c.apply(A, &t(json!({"size": 1, "labels": {"b": "1"}})))
        .is(200)
        .has("/spec/labels", json!({"a": "2", "b": "1"}));
}

fn empty_spec(c: &Case) {
    c.apply("plain/x?fieldManager=a", &json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "x"}, "spec": {}})).is(201);
    c.apply(
        "plain/x?fieldManager=a",
        &json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "x"}}),
    )
    .is(200);
}

fn empty_lists(c: &Case) {
    c.apply(
        A,
        &t(json!({"size": 1, "tags": [], "disks": [], "labels": {}, "steps": ["a"], "free": {}})),
    )
    .is(201);
    c.apply(A, &t(json!({"size": 1}))).is(200);
}

fn preserve_unknown(c: &Case) {
    let plain = |x: serde_json::Value| json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "x"}, "x": x});
    c.apply(
        "plain/x?fieldManager=a",
        &plain(json!({"a": 1, "list": [1, 2], "deep": {"b": {"c": true}}})),
    )
    .is(201);
    c.apply("plain/x?fieldManager=b", &plain(json!({"z": 1, "deep": {"b": {"d": 2}}}))).is(200);
    c.apply("plain/x?fieldManager=b", &plain(json!({"list": [3]}))).refused(409, "Conflict");
    c.apply(A, &t(json!({"size": 1, "free": {"q": {"r": 1}}, "anything": [1, {"a": 2}]}))).is(201);
}

fn embedded(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "template": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"x": 1}}}))).is(201);
    c.apply(B, &t(json!({"size": 1, "template": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n"}, "spec": {"y": 1}}}))).is(200);
}

fn int_or_string(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "port": 80}))).is(201);
    c.apply(B, &t(json!({"size": 1, "port": "80"}))).refused(409, "Conflict");
    c.apply(A, &t(json!({"size": 1, "port": "http"}))).is(200);
    c.apply(B, &t(json!({"size": 1, "port": "http"}))).is(200);
}

fn float_equal(c: &Case) {
    c.apply(A, &t(json!({"size": 1, "ratio": 2}))).is(201);
    c.apply(B, &t(json!({"size": 1, "ratio": 2.0}))).is(200);
    c.apply(B, &t(json!({"size": 1, "ratio": 2.5}))).refused(409, "Conflict");
}

fn missing_namespace(c: &Case) {
    c.apply("/api/v1/namespaces/{ns}-none/configmaps/x?fieldManager=a", &cm("x"))
        .refused(404, "NotFound");
    c.apply(
        "/apis/parity.sutler.dev/v1/namespaces/{ns}-none/toys/x?fieldManager=a",
        &t(json!({"size": 1})),
    )
    .refused(404, "NotFound");
}

fn preconditions(c: &Case) {
    c.apply("pod/x?fieldManager=a", &pod("x")).is(201);
    c.apply("pod/x?fieldManager=a", &pod("x")).is(200);
    c.apply("pod/x?fieldManager=a", &with(pod("x"), "spec.containers.0.image", "new")).is(200);
    c.apply("pod/x?fieldManager=a", &with(pod("x"), "spec.restartPolicy", "Never"))
        .refused(422, "Invalid");
}

fn secret_string_data(c: &Case) {
    let secret = |key: &str, value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, key: {"k": value}});
    c.apply("secret/x?fieldManager=a", &secret("stringData", "v")).is(201).has("/data/k", "dg==");
    c.apply("secret/x?fieldManager=a", &secret("stringData", "w")).is(200).has("/data/k", "dw==");
    c.apply("secret/x?fieldManager=b", &secret("data", "dg=="));
}

fn cluster_scoped(c: &Case) {
    let world = |spec: serde_json::Value| json!({"apiVersion": "parity.sutler.dev/v1", "kind": "World", "metadata": {"name": "{ns}-w"}, "spec": spec});
    c.apply("world/{ns}-w?fieldManager=a", &world(json!({"moons": 1}))).is(201);
    c.apply("world/{ns}-w?fieldManager=b", &world(json!({"moons": 2}))).refused(409, "Conflict");
    c.apply("ns/{ns}?fieldManager=a", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}", "labels": {"a": "b"}}})).is(200);
    c.delete("world/{ns}-w").is(200);
}

fn time_of_entry(c: &Case) {
    let made = c.apply(A, &t(json!({"size": 1}))).is(201).shows("/metadata/managedFields/0/time");
    let again = c.apply(A, &t(json!({"size": 1}))).is(200);
    c.equal(
        again.text("/metadata/managedFields/0/time"),
        made.text("/metadata/managedFields/0/time"),
    );
}

fn many_managers(c: &Case) {
    c.post("cm?fieldManager=m0", &with(cm("x"), "data", json!({"k": "v"}))).is(201);
    // Updates beyond the tenth are merged into one.
    for i in 1..=13 {
        c.call(
            &Call::new("PATCH", &format!("cm/x?fieldManager=m{i:02}"))
                .text(
                    "application/merge-patch+json",
                    &json!({"data": {format!("k{i}"): "v"}}).to_string(),
                )
                .quiet(),
        )
        .is(200);
    }
    let last = c.call(&Call::new("GET", "cm/x").quiet()).is(200);
    c.equal(last.at("/metadata/managedFields").as_array().map(Vec::len), Some(10));
}
