//! JSON patch, merge patch and strategic merge patch.

use serde_json::json;

use super::{cm, deployment, pod, toy, with};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("patch":
    json_ops, json_pointer_escapes, json_test, json_missing_path, json_index_bounds, json_bad_op, json_not_array, json_empty, json_on_missing, json_too_many,
    json_replace_root, json_changes_name, json_copy_move, json_invalid_result, json_version_test, json_on_custom, json_unknown_field,
    merge_sets, merge_null_removes, merge_lists_replace, merge_not_object, merge_version, merge_uid, merge_name, merge_on_missing, merge_wrong_type, merge_custom,
    merge_unknown_field, merge_kind, merge_no_op, merge_nested_null, merge_dry_run, merge_bad_json, merge_labels, merge_deleted_field_default,
    strategic_containers, strategic_delete_item, strategic_directives, strategic_replace, strategic_retain_keys, strategic_env, strategic_ports, strategic_finalizers,
    strategic_on_custom, strategic_bad, strategic_set_order, strategic_primitive_delete, strategic_owner, strategic_tolerations, strategic_annotations,
    type_unknown, type_missing, type_with_parameters, force_without_apply, field_manager, status_patch, no_body, yaml_merge,
);

fn data(name: &str) -> serde_json::Value {
    with(cm(name), "data", json!({"a": "1", "b": "2"}))
}

fn json_ops(c: &Case) {
    c.post("cm", &data("x")).is(201);
    let patch = json!([
        {"op": "add", "path": "/data/c", "value": "3"}, {"op": "replace", "path": "/data/a", "value": "9"},
        {"op": "remove", "path": "/data/b"}, {"op": "add", "path": "/metadata/labels", "value": {"l": "m"}},
    ]);
    c.json_patch("cm/x", &patch)
        .is(200)
        .has("/data/a", "9")
        .has("/data/c", "3")
        .lacks("/data/b")
        .has("/metadata/labels/l", "m");
}

fn json_pointer_escapes(c: &Case) {
    c.post("cm", &cm("x")).is(201);
    c.json_patch("cm/x", &json!([{"op": "add", "path": "/metadata/annotations", "value": {"a.b/c": "1", "d~e": "x"}}])).is(422);
    c.json_patch(
        "cm/x",
        &json!([{"op": "add", "path": "/metadata/annotations", "value": {"a.b/c": "1"}}]),
    )
    .is(200);
    c.json_patch(
        "cm/x",
        &json!([{"op": "replace", "path": "/metadata/annotations/a.b~1c", "value": "2"}]),
    )
    .is(200)
    .has("/metadata/annotations/a.b~1c", "2");
}

fn json_test(c: &Case) {
    c.post("cm", &data("x")).is(201);
    let patch = |value: &str| json!([{"op": "test", "path": "/data/a", "value": value}, {"op": "replace", "path": "/data/a", "value": "new"}]);
    c.json_patch("cm/x", &patch("wrong")).refused(422, "Invalid");
    c.get("cm/x").is(200).has("/data/a", "1");
    c.json_patch("cm/x", &patch("1")).is(200).has("/data/a", "new");
    c.json_patch("cm/x", &json!([{"op": "test", "path": "/data/none", "value": "x"}])).is(422);
    c.json_patch("cm/x", &json!([{"op": "test", "path": "/data/none", "value": null}]));
}

fn json_missing_path(c: &Case) {
    c.post("cm", &data("x")).is(201);
    for patch in [
        json!([{"op": "replace", "path": "/data/none", "value": "1"}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "add", "path": "/nothing/here", "value": "1"}]),
        json!([{"op": "remove", "path": "/nothing/here"}]),
        json!([{"op": "copy", "from": "/none", "path": "/data/q"}]),
        json!([{"op": "move", "from": "/none", "path": "/data/q"}]),
        json!([{"op": "add", "path": "data", "value": "1"}]),
    ] {
        // Removing what is not there is fine.
        c.json_patch("cm/x", &patch);
    }
}

fn json_index_bounds(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1, "steps": ["a", "b"]}))).is(201);
    for path in ["/spec/steps/2", "/spec/steps/-", "/spec/steps/0"] {
        c.json_patch("toy/x", &json!([{"op": "add", "path": path, "value": "c"}]));
    }
    for path in ["/spec/steps/9", "/spec/steps/-1", "/spec/steps/x", "/spec/steps/01"] {
        c.json_patch("toy/x", &json!([{"op": "add", "path": path, "value": "c"}]));
        c.json_patch("toy/x", &json!([{"op": "remove", "path": path}]));
    }
}

fn json_bad_op(c: &Case) {
    c.post("cm", &data("x")).is(201);
    for patch in [
        json!([{"op": "steal", "path": "/data/a"}]),
        json!([{"path": "/data/a", "value": "1"}]),
        json!([{"op": "add", "value": "1"}]),
        json!([{"op": "add", "path": "/data/z"}]),
        json!([{"op": "replace", "path": "/data/a"}]),
        json!(["x"]),
        json!([null]),
        json!([{"op": 5, "path": "/a"}]),
    ] {
        c.json_patch("cm/x", &patch);
    }
}

fn json_not_array(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.json_patch("cm/x", &json!({"data": {"a": "2"}})).refused(400, "BadRequest");
    c.json_patch("cm/x", &json!("x")).is(400);
    c.call(&Call::new("PATCH", "cm/x").text("application/json-patch+json", "[")).is(400);
    c.call(&Call::new("PATCH", "cm/x").text("application/json-patch+json", "")).is(400);
}

fn json_empty(c: &Case) {
    let old = c.post("cm", &data("x")).is(201);
    let same = c.json_patch("cm/x", &json!([])).is(200);
    c.equal(same.rv(), old.rv());
}

fn json_on_missing(c: &Case) {
    c.json_patch("cm/x", &json!([{"op": "add", "path": "/data", "value": {}}]))
        .refused(404, "NotFound");
    c.json_patch("toy/x", &json!([])).refused(404, "NotFound");
}

fn json_too_many(c: &Case) {
    c.post("cm", &data("x")).is(201);
    let many: Vec<_> =
        (0..10_001).map(|_| json!({"op": "test", "path": "/data/a", "value": "1"})).collect();
    c.json_patch("cm/x", &json!(many)).refused(413, "RequestEntityTooLarge");
}

fn json_replace_root(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.json_patch("cm/x", &json!([{"op": "replace", "path": "", "value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}}]));
    c.json_patch("cm/x", &json!([{"op": "remove", "path": ""}]));
    c.json_patch("cm/x", &json!([{"op": "remove", "path": "/metadata"}]));
}

fn json_changes_name(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.json_patch("cm/x", &json!([{"op": "replace", "path": "/metadata/name", "value": "y"}]))
        .is(400);
    c.json_patch(
        "cm/x",
        &json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}]),
    )
    .is(400);
    c.json_patch("cm/x", &json!([{"op": "replace", "path": "/kind", "value": "Secret"}])).is(422);
    c.json_patch("cm/x", &json!([{"op": "replace", "path": "/apiVersion", "value": "v2"}])).is(422);
}

fn json_copy_move(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.json_patch("cm/x", &json!([{"op": "copy", "from": "/data/a", "path": "/data/c"}, {"op": "move", "from": "/data/b", "path": "/data/d"}])).is(200).has("/data/c", "1").has("/data/d", "2").lacks("/data/b");
}

fn json_invalid_result(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.json_patch("toy/x", &json!([{"op": "replace", "path": "/spec/size", "value": 0}]))
        .refused(422, "Invalid")
        .blames("spec.size");
    c.json_patch("toy/x", &json!([{"op": "remove", "path": "/spec/size"}])).refused(422, "Invalid");
    c.json_patch("toy/x", &json!([{"op": "replace", "path": "/spec/size", "value": "big"}]))
        .refused(422, "Invalid");
    c.post("cm", &data("x")).is(201);
    c.json_patch("cm/x", &json!([{"op": "replace", "path": "/data/a", "value": 5}])).is(422);
}

fn json_version_test(c: &Case) {
    let old = c.post("cm", &data("x")).is(201);
    c.json_patch("cm/x", &json!([{"op": "test", "path": "/metadata/resourceVersion", "value": old.rv()}, {"op": "add", "path": "/data/q", "value": "1"}])).is(200);
    c.call(
        &Call::new("PATCH", "cm/x").quiet().text(
            "application/json-patch+json",
            &json!([{"op": "test", "path": "/metadata/resourceVersion", "value": old.rv()}])
                .to_string(),
        ),
    )
    .is(422);
    c.json_patch("cm/x", &json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": old.rv()}, {"op": "add", "path": "/data/r", "value": "1"}])).refused(409, "Conflict");
}

fn json_on_custom(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1, "tags": ["a"]}))).is(201);
    c.json_patch("toy/x", &json!([{"op": "add", "path": "/spec/tags/-", "value": "b"}]))
        .is(200)
        .has("/spec/tags/1", "b")
        .has("/metadata/generation", 2);
    c.json_patch("toy/x", &json!([{"op": "add", "path": "/spec/tags/-", "value": "b"}]))
        .refused(422, "Invalid");
    c.json_patch("toy/x", &json!([{"op": "remove", "path": "/spec/tags"}]))
        .is(200)
        .lacks("/spec/tags");
}

fn json_unknown_field(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.post("cm", &data("x")).is(201);
    for (path, pointer) in [("toy/x", "/spec/colour"), ("cm/x", "/colour")] {
        let patch = json!([{"op": "add", "path": pointer, "value": "red"}]);
        c.json_patch(&format!("{path}?fieldValidation=Strict"), &patch).is(422);
        c.json_patch(path, &patch).is(200).warns("unknown field");
        c.json_patch(&format!("{path}?fieldValidation=Ignore"), &patch).is(200);
    }
    let duplicate = r#"[{"op":"add","path":"/data/q","value":"1","value":"2"}]"#;
    c.call(&Call::new("PATCH", "cm/x").text("application/json-patch+json", duplicate));
    c.call(
        &Call::new("PATCH", "cm/x?fieldValidation=Strict")
            .text("application/json-patch+json", duplicate),
    );
}

fn merge_sets(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.merge("cm/x", &json!({"data": {"c": "3"}})).is(200).has("/data/a", "1").has("/data/c", "3");
}

fn merge_null_removes(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.merge("cm/x", &json!({"data": {"a": null, "none": null}}))
        .is(200)
        .lacks("/data/a")
        .has("/data/b", "2");
    c.merge("cm/x", &json!({"data": null})).is(200).lacks("/data");
}

fn merge_lists_replace(c: &Case) {
    c.post(
        "toy",
        &toy("x", json!({"size": 1, "disks": [{"name": "a", "gib": 1}], "tags": ["a", "b"]})),
    )
    .is(201);
    c.merge("toy/x", &json!({"spec": {"disks": [{"name": "b", "gib": 2}], "tags": ["c"]}}))
        .is(200)
        .has("/spec/disks/0/name", "b")
        .has("/spec/tags", json!(["c"]));
}

fn merge_not_object(c: &Case) {
    c.post("cm", &data("x")).is(201);
    for body in [json!([]), json!("x"), json!(null), json!(5)] {
        c.merge("cm/x", &body).is(400);
        c.merge("toy/none", &body);
    }
}

fn merge_version(c: &Case) {
    let old = c.post("cm", &data("x")).is(201);
    c.merge("cm/x", &json!({"metadata": {"resourceVersion": old.rv()}, "data": {"c": "3"}}))
        .is(200);
    c.merge("cm/x", &json!({"metadata": {"resourceVersion": old.rv()}, "data": {"d": "4"}}))
        .refused(409, "Conflict");
    c.merge("cm/x", &json!({"metadata": {"resourceVersion": "abc"}, "data": {"d": "4"}}));
    c.merge("cm/x", &json!({"metadata": {"resourceVersion": null}, "data": {"d": "4"}})).is(200);
    let old = c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.merge("toy/x", &json!({"spec": {"size": 2}})).is(200);
    c.merge("toy/x", &json!({"metadata": {"resourceVersion": old.rv()}, "spec": {"size": 3}}))
        .refused(409, "Conflict");
}

fn merge_uid(c: &Case) {
    let old = c.post("cm", &data("x")).is(201);
    c.merge("cm/x", &json!({"metadata": {"uid": "01234567-89ab-cdef-0123-456789abcdef"}}))
        .refused(422, "Invalid")
        .blames("metadata.uid");
    c.merge("cm/x", &json!({"metadata": {"uid": old.uid()}, "data": {"c": "3"}})).is(200);
}

fn merge_name(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.merge("cm/x", &json!({"metadata": {"name": "y"}})).refused(400, "BadRequest");
    c.merge("cm/x", &json!({"metadata": {"name": null}}));
    c.merge("cm/x", &json!({"metadata": {"namespace": "other"}})).refused(400, "BadRequest");
    c.merge("cm/x", &json!({"metadata": null}));
}

fn merge_on_missing(c: &Case) {
    c.merge("cm/x", &json!({"data": {"a": "1"}})).refused(404, "NotFound");
    c.merge("toy/x", &json!({"spec": {"size": 1}})).refused(404, "NotFound");
    c.merge("lease/x", &json!({"spec": {}})).refused(404, "NotFound");
    c.merge("toy/x/status", &json!({"status": {}})).refused(404, "NotFound");
}

fn merge_wrong_type(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.merge("cm/x", &json!({"data": {"a": 5}}));
    c.merge("cm/x", &json!({"data": "x"}));
    c.merge("cm/x", &json!({"metadata": {"labels": {"a": true}}}));
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.merge("toy/x", &json!({"spec": {"size": "x"}})).refused(422, "Invalid");
    c.merge("toy/x", &json!({"spec": "x"})).refused(422, "Invalid");
    c.merge("toy/x", &json!({"metadata": {"labels": {"a": true}}}));
    c.merge("toy/x", &json!({"metadata": "x"}));
}

fn merge_custom(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1, "labels": {"a": "b"}}))).is(201);
    c.merge("toy/x", &json!({"spec": {"labels": {"c": "d", "a": null}, "size": 4}}))
        .is(200)
        .has("/spec/labels", json!({"c": "d"}))
        .has("/metadata/generation", 2);
}

fn merge_unknown_field(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.merge("toy/x?fieldValidation=Strict", &json!({"spec": {"colour": "red"}})).is(422);
    c.merge("toy/x", &json!({"spec": {"colour": "red"}})).is(200).warns("spec.colour");
    c.post("cm", &data("x")).is(201);
    c.merge("cm/x?fieldValidation=Strict", &json!({"colour": "red"})).is(422);
    c.merge("cm/x", &json!({"colour": "red"})).is(200).warns("colour");
    let duplicate = r#"{"data":{"q":"1","q":"2"}}"#;
    c.call(
        &Call::new("PATCH", "cm/x?fieldValidation=Strict")
            .text("application/merge-patch+json", duplicate),
    );
    c.call(&Call::new("PATCH", "cm/x").text("application/merge-patch+json", duplicate));
    let duplicate = r#"{"spec":{"size":1,"size":2}}"#;
    c.call(
        &Call::new("PATCH", "toy/x?fieldValidation=Strict")
            .text("application/merge-patch+json", duplicate),
    );
    c.call(&Call::new("PATCH", "toy/x").text("application/merge-patch+json", duplicate));
}

fn merge_kind(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.merge("cm/x", &json!({"kind": "Secret"})).is(422);
    c.merge("cm/x", &json!({"apiVersion": "v2"})).is(422);
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.merge("toy/x", &json!({"kind": "Plain"}));
    c.merge("toy/x", &json!({"apiVersion": "parity.sutler.dev/v2"}));
}

fn merge_no_op(c: &Case) {
    let old = c.post("cm", &data("x")).is(201);
    for body in [
        json!({}),
        json!({"data": {"a": "1"}}),
        json!({"data": {}}),
        json!({"data": {"none": null}}),
    ] {
        let same = c.merge("cm/x", &body).is(200);
        c.equal(same.rv(), old.rv());
    }
}

fn merge_nested_null(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.merge("toy/x", &json!({"spec": {"free": {"a": {"b": null, "c": 1}}, "note": null, "anything": {"x": null}}})).is(200);
    c.merge("toy/x", &json!({"spec": {"noteWithDefault": null}})).is(200);
}

fn merge_dry_run(c: &Case) {
    let old = c.post("cm", &data("x")).is(201);
    c.merge("cm/x?dryRun=All", &json!({"data": {"a": "9"}})).is(200).has("/data/a", "9");
    c.get("cm/x").is(200).has("/data/a", "1").has("/metadata/resourceVersion", old.rv());
    c.merge("cm/x?dryRun=Some", &json!({})).is(422);
}

fn merge_bad_json(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    for path in ["cm/x", "toy/x"] {
        for body in ["{", "", "{]", "{\"a\":}", "nul"] {
            c.call(&Call::new("PATCH", path).text("application/merge-patch+json", body)).is(400);
        }
    }
}

fn merge_labels(c: &Case) {
    c.post("cm", &with(cm("x"), "metadata.labels", json!({"a": "b"}))).is(201);
    c.merge("cm/x", &json!({"metadata": {"labels": {"a": null, "c": "d"}}}))
        .is(200)
        .has("/metadata/labels", json!({"c": "d"}));
    c.merge("cm/x", &json!({"metadata": {"labels": {"c": null}}})).is(200);
    c.merge("cm/x", &json!({"metadata": {"labels": {"bad value": "x"}}})).refused(422, "Invalid");
}

fn merge_deleted_field_default(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1, "mode": "Slow"}))).is(201);
    c.merge("toy/x", &json!({"spec": {"mode": null}})).is(200).has("/spec/mode", "Fast");
    c.merge("toy/x", &json!({"spec": {"nested": null}})).is(200).has("/spec/nested/depth", 1);
}

fn strategic_containers(c: &Case) {
    c.post("deploy", &deployment("x")).is(201);
    c.strategic(
        "deploy/x",
        &json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}),
    )
    .is(200)
    .has("/spec/template/spec/containers/0/image", "new")
    .lacks("/spec/template/spec/containers/1");
    c.strategic(
        "deploy/x",
        &json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}),
    )
    .is(200)
    .has("/spec/template/spec/containers/0/name", "side")
    .has("/spec/template/spec/containers/1/name", "c");
}

fn strategic_delete_item(c: &Case) {
    c.post("deploy", &deployment("x")).is(201);
    c.strategic(
        "deploy/x",
        &json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}),
    )
    .is(200);
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}})).is(200).has("/spec/template/spec/containers/0/name", "c").lacks("/spec/template/spec/containers/1");
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"containers": [{"name": "none", "$patch": "delete"}]}}}})).is(200);
}

fn strategic_directives(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.strategic("cm/x", &json!({"data": {"$patch": "replace", "z": "1"}}))
        .is(200)
        .has("/data", json!({"z": "1"}));
    c.strategic("cm/x", &json!({"data": {"$patch": "delete"}})).is(200);
    c.strategic("cm/x", &json!({"data": {"$patch": "merge", "q": "1"}}));
    c.strategic("cm/x", &json!({"data": {"$patch": "steal", "q": "1"}}));
    c.strategic("cm/x", &json!({"$patch": "delete"}));
}

fn strategic_replace(c: &Case) {
    c.post("deploy", &deployment("x")).is(201);
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, {"name": "only", "image": "o"}]}}}})).is(200).has("/spec/template/spec/containers/0/name", "only").lacks("/spec/template/spec/containers/1");
}

fn strategic_retain_keys(c: &Case) {
    let body =
        with(deployment("x"), "spec.template.spec.volumes", json!([{"name": "v", "emptyDir": {}}]));
    c.post("deploy", &body).is(201);
    c.strategic(
        "deploy/x",
        &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    )
    .is(200)
    .has("/spec/strategy", json!({"type": "Recreate"}));
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"volumes": [{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "m"}}]}}}})).is(200).lacks("/spec/template/spec/volumes/0/emptyDir");
}

fn strategic_env(c: &Case) {
    c.post("deploy", &deployment("x")).is(201);
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}}}})).is(200);
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}, {"name": "C", "value": "4"}]}]}}}})).is(200);
}

fn strategic_ports(c: &Case) {
    c.post("svc", &json!({"metadata": {"name": "x"}, "spec": {"clusterIP": "None", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}})).is(201);
    c.strategic("svc/x", &json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}))
        .is(200)
        .has("/spec/ports/0/targetPort", 8080);
    c.strategic("svc/x", &json!({"spec": {"ports": [{"port": 81, "$patch": "delete"}]}}))
        .is(200)
        .lacks("/spec/ports/1");
}

fn strategic_finalizers(c: &Case) {
    c.post("cm", &with(cm("x"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    // A list of values that is merged.
    c.strategic("cm/x", &json!({"metadata": {"finalizers": ["a.b/d"]}})).is(200);
    c.strategic("cm/x", &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}}))
        .is(200);
    c.strategic("cm/x", &json!({"metadata": {"finalizers": null}}))
        .is(200)
        .lacks("/metadata/finalizers");
}

fn strategic_on_custom(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.strategic("toy/x", &json!({"spec": {"size": 2}})).refused(415, "UnsupportedMediaType");
}

fn strategic_bad(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.post("deploy", &deployment("x")).is(201);
    c.strategic("cm/x", &json!([])).is(400);
    c.strategic("cm/x", &json!({"data": "x"}));
    c.strategic("cm/x", &json!({"data": {"a": 5}}));
    c.strategic(
        "deploy/x",
        &json!({"spec": {"template": {"spec": {"containers": {"name": "c"}}}}}),
    );
    c.strategic(
        "deploy/x",
        &json!({"spec": {"template": {"spec": {"containers": [{"image": "no name"}]}}}}),
    );
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"containers": ["c"]}}}}));
    c.strategic("deploy/x", &json!({"spec": {"replicas": "three"}}));
    c.strategic("deploy/x", &json!({"spec": {"$setElementOrder/nothing": ["a"]}}));
    c.strategic("deploy/x", &json!({"spec": {"$setElementOrder/nothing": null}}));
    c.strategic("deploy/x", &json!({"$setElementOrder/items": null, "a": null}));
    c.strategic("deploy/x", &json!({"spec": {"$setElementOrder/nothing": "a"}}));
    c.strategic("deploy/x?fieldValidation=Strict", &json!({"spec": {"colour": "red"}}));
    c.strategic("deploy/x", &json!({"spec": {"colour": "red"}}));
    c.strategic("cm/none", &json!({})).is(404);
}

fn strategic_set_order(c: &Case) {
    let body = with(
        deployment("x"),
        "spec.template.spec.containers",
        json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}, {"name": "e", "image": "i"}]),
    );
    c.post("deploy", &body).is(201);
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "e"}, {"name": "c"}, {"name": "d"}], "containers": [{"name": "d", "image": "new"}]}}}})).is(200).has("/spec/template/spec/containers/0/name", "e").has("/spec/template/spec/containers/2/image", "new");
    c.strategic("deploy/x", &json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "d", "image": "newer"}]}}}}));
}

fn strategic_primitive_delete(c: &Case) {
    c.post("cm", &with(cm("x"), "metadata.finalizers", json!(["a.b/c", "a.b/d", "a.b/e"]))).is(201);
    c.strategic("cm/x", &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/d", "none"], "$setElementOrder/finalizers": ["a.b/e", "a.b/c"]}})).is(200);
}

fn strategic_owner(c: &Case) {
    let owner = c.post("cm", &cm("o")).is(201);
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner.uid()});
    c.post("cm", &with(cm("x"), "metadata.ownerReferences", json!([reference]))).is(201);
    // Merged by UID.
    c.strategic("cm/x", &json!({"metadata": {"ownerReferences": [{"uid": owner.uid(), "blockOwnerDeletion": true}]}})).is(200).has("/metadata/ownerReferences/0/blockOwnerDeletion", true);
    c.strategic(
        "cm/x",
        &json!({"metadata": {"ownerReferences": [{"uid": owner.uid(), "$patch": "delete"}]}}),
    )
    .is(200)
    .lacks("/metadata/ownerReferences");
}

fn strategic_tolerations(c: &Case) {
    c.post("pod", &pod("x")).is(201);
    c.strategic("pod/x", &json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}));
    c.strategic("pod/x", &json!({"spec": {"containers": [{"name": "c", "image": "new"}]}})).is(200);
    c.strategic("pod/x", &json!({"spec": {"containers": [{"name": "c", "command": ["x"]}]}}))
        .refused(422, "Invalid");
}

fn strategic_annotations(c: &Case) {
    c.post("cm", &with(cm("x"), "metadata.annotations", json!({"a": "1", "b": "2"}))).is(201);
    c.strategic("cm/x", &json!({"metadata": {"annotations": {"a": null, "c": "3"}}}))
        .is(200)
        .has("/metadata/annotations", json!({"b": "2", "c": "3"}));
    c.strategic("cm/x", &json!({"metadata": {"annotations": null}}))
        .is(200)
        .lacks("/metadata/annotations");
}

fn type_unknown(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    for path in ["cm/x", "toy/x", "toy/x/status"] {
        c.patch("application/json", path, &json!({})).refused(415, "UnsupportedMediaType");
        c.patch("text/plain", path, &json!({})).refused(415, "UnsupportedMediaType");
        c.patch("application/merge-patch+yaml", path, &json!({}))
            .refused(415, "UnsupportedMediaType");
    }
}

fn type_missing(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.call(&Call::new("PATCH", "cm/x").text("x", "{}").without("content-type")).is(415);
    c.patch("", "cm/x", &json!({})).is(415);
}

fn type_with_parameters(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.patch("application/merge-patch+json; charset=utf-8", "cm/x", &json!({"data": {"c": "1"}}))
        .is(200);
    c.patch("application/merge-patch+json;;", "cm/x", &json!({"data": {"c": "2"}}));
    c.patch("Application/Merge-Patch+JSON", "cm/x", &json!({"data": {"c": "3"}}));
}

fn force_without_apply(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.merge("cm/x?force=true", &json!({})).refused(422, "Invalid").blames("force");
    c.merge("cm/x?force=false", &json!({})).is(422);
    c.json_patch("cm/x?force=true", &json!([])).is(422);
}

fn field_manager(c: &Case) {
    c.post("cm?fieldManager=one", &data("x")).is(201);
    c.merge("cm/x?fieldManager=two", &json!({"data": {"a": "9"}})).is(200);
    c.strategic("cm/x?fieldManager=three", &json!({"data": {"b": "9"}})).is(200);
    c.json_patch(
        "cm/x?fieldManager=four",
        &json!([{"op": "add", "path": "/data/c", "value": "1"}]),
    )
    .is(200);
    c.merge(&format!("cm/x?fieldManager={}", "x".repeat(200)), &json!({})).is(422);
}

fn status_patch(c: &Case) {
    c.post("toy", &toy("x", json!({"size": 1}))).is(201);
    c.merge("toy/x/status", &json!({"status": {"phase": "Up"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}})).is(200).has("/spec/size", 1).has("/status/phase", "Up");
    c.merge("toy/x", &json!({"status": {"phase": "Down"}})).is(200).has("/status/phase", "Up");
    c.json_patch(
        "toy/x/status",
        &json!([{"op": "replace", "path": "/status/phase", "value": "Down"}]),
    )
    .is(200)
    .has("/status/phase", "Down");
    c.merge(
        "toy/x/status",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "Maybe"}]}}),
    )
    .refused(422, "Invalid");
    c.merge("toy/x/status", &json!({"status": null})).is(200);
}

fn no_body(c: &Case) {
    c.post("cm", &data("x")).is(201);
    for kind in [
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ] {
        c.call(&Call::new("PATCH", "cm/x?fieldManager=m").text(kind, "")).is(400);
    }
}

fn yaml_merge(c: &Case) {
    c.post("cm", &data("x")).is(201);
    c.call(&Call::new("PATCH", "cm/x").text("application/merge-patch+json", "data:\n  c: d\n"))
        .is(400);
    c.call(
        &Call::new("PATCH", "cm/x")
            .text("application/strategic-merge-patch+json", "data:\n  c: d\n"),
    )
    .is(400);
}
