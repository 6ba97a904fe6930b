//! Create.

use serde_json::json;

use super::{cm, toy, with, without};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("create":
    plain, generate_name, generate_name_with_name, generate_name_long, no_name, name_bad, name_long, name_kinds,
    dry_run, dry_run_bad, dry_run_exists, namespace_in_body, namespace_mismatch, namespace_missing, namespace_of_cluster_kind,
    already_exists, version_set, uid_set, system_fields_set, deletion_set, wrong_kind, wrong_version, kind_missing, version_missing, core_kind_missing,
    unknown_field_default, unknown_field_strict, unknown_field_warn, unknown_field_ignore, unknown_field_custom, unknown_field_metadata, unknown_field_nested,
    duplicate_field, duplicate_field_custom, field_validation_bad, too_large, large_allowed,
    labels_bad, annotations_bad, annotations_too_large, finalizers_bad, owners_bad, owners, managed_fields_set, managed_fields_bad,
    status_dropped, status_kept_without_subresource, body_empty, body_null, body_array, body_list, field_manager_bad, field_manager_names, user_agent_names,
    post_yaml, name_in_query, generation_set, spec_missing, pod_generate_name, location,
);

fn plain(c: &Case) {
    let body = with(cm("a"), "data", json!({"k": "v"}));
    let made =
        c.post("cm", &body).is(201).shows("/metadata/uid").shows("/metadata/creationTimestamp");
    made.has("/metadata/managedFields/0/manager", "parity").lacks("/metadata/generation");
    c.post("toy", &toy("a", json!({"size": 1}))).is(201).has("/metadata/generation", 1);
}

fn generate_name(c: &Case) {
    let body = json!({"metadata": {"generateName": "gen-"}});
    let (first, second) = (c.post("cm", &body).is(201), c.post("cm", &body).is(201));
    c.check(
        first.name().len() == 9 && first.name().starts_with("gen-"),
        "five characters are added",
    );
    c.check(first.name() != second.name(), "names differ");
    let suffix_fits = first.name()[4..].chars().all(|x| "bcdfghjklmnpqrstvwxz2456789".contains(x));
    c.check(suffix_fits, "of the alphabet without vowels");
    c.get(&format!("cm/{}", first.name())).is(200).has("/metadata/generateName", "gen-");
    let custom = with(
        without(toy("", json!({"size": 1})), "metadata.name"),
        "metadata.generateName",
        "toy-",
    );
    c.post("toy", &custom).is(201);
}

fn generate_name_with_name(c: &Case) {
    let body = json!({"metadata": {"name": "given", "generateName": "gen-"}});
    c.post("cm", &body)
        .is(201)
        .has("/metadata/name", "given")
        .has("/metadata/generateName", "gen-");
}

fn generate_name_long(c: &Case) {
    // The prefix is cut so that the name fits, and only then looked at.
    let body = |prefix: &str| json!({"metadata": {"generateName": prefix}});
    let made = c.post("cm", &body(&"x".repeat(100))).is(201);
    c.equal(made.name().len(), 63);
    let refused = c.call(&Call::new("POST", "cm").json(&body(&"x".repeat(260))).quiet());
    refused.refused(422, "Invalid").blames("metadata.generateName");
    c.call(&Call::new("POST", "cm").json(&body("Bad_")).quiet())
        .refused(422, "Invalid")
        .blames("metadata.name");
}

fn no_name(c: &Case) {
    c.post("cm", &json!({"metadata": {}})).refused(422, "Invalid").blames("metadata.name");
    c.post("cm", &json!({"data": {"k": "v"}})).refused(422, "Invalid");
    c.post("toy", &without(toy("a", json!({"size": 1})), "metadata.name"))
        .refused(422, "Invalid")
        .blames("metadata.name");
    c.post("toy", &without(toy("a", json!({"size": 1})), "metadata")).is(422);
}

fn name_bad(c: &Case) {
    for name in ["UPPER", "a_b", "-a", "a-", "a b", "a/b", "..", "a..b", "é"] {
        c.post("cm", &cm(name)).refused(422, "Invalid");
        c.post("toy", &toy(name, json!({"size": 1}))).refused(422, "Invalid");
    }
}

fn name_long(c: &Case) {
    let (long, fits) = ("a".repeat(254), "a".repeat(253));
    c.post("cm", &cm(&long)).refused(422, "Invalid").blames("metadata.name");
    c.post("cm", &cm(&fits)).is(201);
    c.post("ns", &json!({"metadata": {"name": "a".repeat(64)}})).refused(422, "Invalid");
    c.post("svc", &json!({"metadata": {"name": "a".repeat(64)}, "spec": {"ports": [{"port": 1}]}}))
        .refused(422, "Invalid");
}

fn name_kinds(c: &Case) {
    c.post("ns", &json!({"metadata": {"name": "a.b"}})).refused(422, "Invalid");
    c.post("svc", &json!({"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 1}]}})).is(201);
    c.post("svc", &json!({"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 1}]}}))
        .refused(422, "Invalid");
    c.post("role", &json!({"metadata": {"name": "System:Thing_1"}, "rules": []})).is(201);
    c.post("role", &json!({"metadata": {"name": "a%b"}, "rules": []})).refused(422, "Invalid");
    c.post("secret", &json!({"metadata": {"name": "a.b"}})).is(201);
}

fn dry_run(c: &Case) {
    c.post("cm?dryRun=All", &cm("a"))
        .is(201)
        .shows("/metadata/uid")
        .lacks("/metadata/resourceVersion");
    c.get("cm/a").refused(404, "NotFound");
    c.post("toy?dryRun=All", &toy("a", json!({"size": 1}))).is(201).has("/spec/mode", "Fast");
    c.post("toy?dryRun=All", &toy("a", json!({"size": 0}))).refused(422, "Invalid");
    c.get("toy/a").refused(404, "NotFound");
    c.post("cm?dryRun=All", &json!({"metadata": {"generateName": "g-"}})).is(201);
}

fn dry_run_bad(c: &Case) {
    c.post("cm?dryRun=Some", &cm("a")).refused(422, "Invalid").blames("dryRun");
    c.post("cm?dryRun=all", &cm("a")).is(422);
    c.post("cm?dryRun=", &cm("b"));
    c.post("cm?dryRun=All&dryRun=All", &cm("c"));
    c.post("toy?dryRun=true", &toy("a", json!({"size": 1}))).is(422);
}

fn dry_run_exists(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("cm?dryRun=All", &cm("a")).refused(409, "AlreadyExists");
}

fn namespace_in_body(c: &Case) {
    c.post("cm", &with(cm("a"), "metadata.namespace", "{ns}"))
        .is(201)
        .has("/metadata/namespace", c.ns.as_str());
    c.post("cm", &cm("b")).is(201).has("/metadata/namespace", c.ns.as_str());
}

fn namespace_mismatch(c: &Case) {
    c.post("cm", &with(cm("a"), "metadata.namespace", "other"))
        .refused(400, "BadRequest")
        .says("does not match");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.namespace", "other"))
        .refused(400, "BadRequest");
}

fn namespace_missing(c: &Case) {
    c.post("/api/v1/namespaces/{ns}-none/configmaps", &cm("a"))
        .refused(404, "NotFound")
        .has("/details/kind", "namespaces");
    c.post("/apis/parity.sutler.dev/v1/namespaces/{ns}-none/toys", &toy("a", json!({"size": 1})))
        .refused(404, "NotFound");
}

fn namespace_of_cluster_kind(c: &Case) {
    let world = json!({"apiVersion": "parity.sutler.dev/v1", "kind": "World", "metadata": {"name": "{ns}-w", "namespace": "x"}, "spec": {}});
    c.post("world", &world);
    c.post("ns", &json!({"metadata": {"name": "{ns}-2", "namespace": "x"}}));
}

fn already_exists(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("cm", &cm("a")).refused(409, "AlreadyExists").has("/details/name", "a");
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.post("toy", &toy("a", json!({"size": 1})))
        .refused(409, "AlreadyExists")
        .has("/details/group", "parity.sutler.dev");
    // What is wrong with the object is said before.
    c.post("toy", &toy("a", json!({"size": 0}))).refused(422, "Invalid");
    c.post("ns", &json!({"metadata": {"name": "{ns}"}})).refused(409, "AlreadyExists");
}

fn version_set(c: &Case) {
    c.post("cm", &with(cm("a"), "metadata.resourceVersion", "5")).is(500);
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.resourceVersion", "5")).is(500);
    c.post("cm", &with(cm("b"), "metadata.resourceVersion", "0"));
    c.post("cm", &with(cm("c"), "metadata.resourceVersion", "")).is(201);
    c.post("cm", &with(cm("d"), "metadata.resourceVersion", "abc"));
}

fn uid_set(c: &Case) {
    let given = "01234567-89ab-cdef-0123-456789abcdef";
    let made = c.post("cm", &with(cm("a"), "metadata.uid", given)).is(201);
    c.check(made.uid() != given, "the server gives the UID");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.uid", given)).is(201);
}

fn system_fields_set(c: &Case) {
    let mut body = with(cm("a"), "metadata.creationTimestamp", "2001-01-01T00:00:00Z");
    body = with(body, "metadata.selfLink", "/x");
    let made = c.post("cm", &body).is(201);
    c.check(
        made.text("/metadata/creationTimestamp") != "2001-01-01T00:00:00Z",
        "the server gives the time",
    );
    c.post("cm", &with(cm("b"), "metadata.creationTimestamp", json!(null))).is(201);
    c.post("cm", &with(cm("c"), "metadata.creationTimestamp", "yesterday")).is(400);
    c.post("toy", &with(toy("c", json!({"size": 1})), "metadata.creationTimestamp", "yesterday"))
        .is(400);
}

fn deletion_set(c: &Case) {
    let body = with(cm("a"), "metadata.deletionTimestamp", "2001-01-01T00:00:00Z");
    c.post("cm", &body).is(201).lacks("/metadata/deletionTimestamp");
    let body = with(
        with(toy("a", json!({"size": 1})), "metadata.deletionTimestamp", "2001-01-01T00:00:00Z"),
        "metadata.deletionGracePeriodSeconds",
        5,
    );
    c.post("toy", &body).is(201).lacks("/metadata/deletionTimestamp");
}

fn generation_set(c: &Case) {
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.generation", 7))
        .is(201)
        .has("/metadata/generation", 1);
    c.post("cm", &with(cm("a"), "metadata.generation", 7)).is(201);
}

fn wrong_kind(c: &Case) {
    c.post("cm", &with(cm("a"), "kind", "Secret")).is(400);
    c.post("cm", &with(cm("a"), "kind", "Gadget")).is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "kind", "Plain"))
        .refused(422, "Invalid")
        .blames("kind");
    c.post("toy", &with(toy("a", json!({"size": 1})), "kind", "toy")).is(422);
    c.post("deploy", &with(cm("a"), "kind", "ConfigMap")).is(400);
}

fn wrong_version(c: &Case) {
    c.post("cm", &with(cm("a"), "apiVersion", "v2")).is(400);
    c.post("cm", &with(cm("a"), "apiVersion", "apps/v1")).is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "apiVersion", "parity.sutler.dev/v2"))
        .is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "apiVersion", "other.dev/v1")).is(400);
    c.post("cm", &with(cm("a"), "apiVersion", "a/b/c")).is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "apiVersion", "a/b/c")).is(400);
}

fn kind_missing(c: &Case) {
    c.post("toy", &without(toy("a", json!({"size": 1})), "kind")).is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "kind", "")).is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "kind", 5)).is(400);
}

fn version_missing(c: &Case) {
    c.post("toy", &without(toy("a", json!({"size": 1})), "apiVersion")).is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "apiVersion", "")).is(400);
}

fn core_kind_missing(c: &Case) {
    c.post("cm", &without(cm("a"), "kind")).is(201);
    c.post("cm", &without(cm("b"), "apiVersion")).is(201);
    c.post("deploy", &without(cm("c"), "kind")).is(400);
}

fn unknown_field_default(c: &Case) {
    let body = with(cm("a"), "colour", "red");
    c.post("cm", &body).is(201).warns("unknown field");
    c.post("toy", &toy("a", json!({"size": 1, "colour": "red"})))
        .is(201)
        .warns("unknown field")
        .lacks("/spec/colour");
}

fn unknown_field_strict(c: &Case) {
    let body = with(cm("a"), "colour", "red");
    c.post("cm?fieldValidation=Strict", &body)
        .refused(400, "BadRequest")
        .says("unknown field \"colour\"");
    c.post("toy?fieldValidation=Strict", &toy("a", json!({"size": 1, "colour": "red"})))
        .refused(400, "BadRequest")
        .says("unknown field \"spec.colour\"");
    c.get("cm/a").is(404);
    c.get("toy/a").is(404);
    c.post("cm?fieldValidation=Strict", &cm("b")).is(201);
    c.post("toy?fieldValidation=Strict", &toy("b", json!({"size": 1}))).is(201);
}

fn unknown_field_warn(c: &Case) {
    let body = with(with(cm("a"), "colour", "red"), "size", 5);
    c.post("cm?fieldValidation=Warn", &body).is(201).warns("colour").warns("size");
    c.post("toy?fieldValidation=Warn", &toy("a", json!({"size": 1, "x": 1, "y": {"z": 2}})))
        .is(201)
        .warns("spec.x")
        .warns("spec.y");
}

fn unknown_field_ignore(c: &Case) {
    c.post("cm?fieldValidation=Ignore", &with(cm("a"), "colour", "red")).is(201);
    c.post("toy?fieldValidation=Ignore", &toy("a", json!({"size": 1, "colour": "red"})))
        .is(201)
        .lacks("/spec/colour");
}

fn unknown_field_custom(c: &Case) {
    let spec = json!({"size": 1, "free": {"known": 1, "other": {"x": 1}}, "anything": [1, "a"], "pair": {"a": "x", "c": "y"}});
    c.post("toy?fieldValidation=Strict", &toy("a", spec.clone())).refused(400, "BadRequest");
    c.post("toy", &toy("a", spec)).is(201).has("/spec/free/other/x", 1).lacks("/spec/pair/c");
    let top = with(toy("b", json!({"size": 1})), "extra", "x");
    c.post("toy?fieldValidation=Strict", &top).refused(400, "BadRequest");
    c.post("toy", &top).is(201).lacks("/extra");
}

fn unknown_field_metadata(c: &Case) {
    c.post("cm?fieldValidation=Strict", &with(cm("a"), "metadata.colour", "red")).is(400);
    c.post(
        "toy?fieldValidation=Strict",
        &with(toy("a", json!({"size": 1})), "metadata.colour", "red"),
    )
    .is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.colour", "red"))
        .is(201)
        .lacks("/metadata/colour");
}

fn unknown_field_nested(c: &Case) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "colour": "red", "ports": [{"containerPort": 1, "shape": 2}]}]}});
    c.post("pod?fieldValidation=Strict", &pod).is(400).says("spec.containers[0].colour");
    c.post("pod", &pod).is(201).warns("spec.containers[0].colour");
    let disks = toy(
        "a",
        json!({"size": 1, "disks": [{"name": "d", "gib": 1, "x": 1}, {"name": "e", "gib": 1, "y": 1}]}),
    );
    c.post("toy?fieldValidation=Strict", &disks).is(400).says("spec.disks[0].x");
}

fn duplicate_field(c: &Case) {
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"},"data":{"k":"1","k":"2"}}"#;
    let call =
        |query: &str| Call::new("POST", &format!("cm{query}")).text("application/json", body);
    c.call(&call("?fieldValidation=Strict")).is(400);
    c.call(&call("")).is(201).warns("duplicate field");
    c.call(&call("?fieldValidation=Ignore")).is(409);
}

fn duplicate_field_custom(c: &Case) {
    let body = r#"{"apiVersion":"parity.sutler.dev/v1","kind":"Toy","metadata":{"name":"a"},"spec":{"size":1,"size":2,"disks":[{"name":"a","gib":1,"gib":2}]}}"#;
    let call =
        |query: &str| Call::new("POST", &format!("toy{query}")).text("application/json", body);
    c.call(&call("?fieldValidation=Strict")).is(400).says("duplicate field \"spec.size\"");
    c.call(&call("")).is(201).warns("duplicate field").has("/spec/size", 2);
}

fn field_validation_bad(c: &Case) {
    c.post("cm?fieldValidation=Loud", &cm("a")).refused(422, "Invalid").blames("fieldValidation");
    c.post("toy?fieldValidation=strict", &toy("a", json!({"size": 1}))).refused(422, "Invalid");
    c.post("cm?fieldValidation=", &cm("b")).is(201);
}

fn too_large(c: &Case) {
    let big = "x".repeat(3 * 1024 * 1024);
    let body = with(cm("a"), "data", json!({"k": big}));
    c.post("cm", &body).refused(413, "RequestEntityTooLarge");
    c.post("toy", &toy("a", json!({"size": 1, "anything": big})))
        .refused(413, "RequestEntityTooLarge");
    c.get("cm/a").is(404);
    c.get("toy/a").is(404);
}

fn large_allowed(c: &Case) {
    let body = with(cm("a"), "data", json!({"k": "x".repeat(1024 * 1024 + 1)}));
    c.post("cm", &body).refused(422, "Invalid");
    let body = with(cm("a"), "data", json!({"k": "x".repeat(500_000)}));
    c.call(&Call::new("POST", "cm").json(&body).quiet()).is(201);
}

fn labels_bad(c: &Case) {
    for (key, value) in [
        ("a", "b c"),
        ("-a", "b"),
        ("a/b/c", "d"),
        ("", "x"),
        ("UP.x/a", "b"),
        ("a", "-b"),
        ("a", &"x".repeat(64)),
        (&"x".repeat(64), "a"),
    ] {
        c.post("cm", &with(cm("a"), "metadata.labels", json!({key: value})))
            .refused(422, "Invalid");
    }
    c.post(
        "toy",
        &with(toy("a", json!({"size": 1})), "metadata.labels", json!({"a": "b c", "-x": "y"})),
    )
    .refused(422, "Invalid");
    c.post("cm", &with(cm("a"), "metadata.labels", json!({"a": 5}))).refused(400, "BadRequest");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.labels", json!({"a": 5})))
        .refused(400, "BadRequest");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.labels", json!("x")))
        .refused(400, "BadRequest");
}

fn annotations_bad(c: &Case) {
    c.post("cm", &with(cm("a"), "metadata.annotations", json!({"a b": "c"})))
        .refused(422, "Invalid");
    c.post("cm", &with(cm("a"), "metadata.annotations", json!({"a/b/c": "c"})))
        .refused(422, "Invalid");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.annotations", json!({"a b": "c"})))
        .refused(422, "Invalid");
    c.post("cm", &with(cm("a"), "metadata.annotations", json!({"a": null, "b": ""}))).is(201);
}

fn annotations_too_large(c: &Case) {
    let big = "x".repeat(256 * 1024);
    c.post("cm", &with(cm("a"), "metadata.annotations", json!({"k": big})))
        .refused(422, "Invalid")
        .blames("metadata.annotations");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.annotations", json!({"k": big})))
        .refused(422, "Invalid");
}

fn finalizers_bad(c: &Case) {
    c.post("cm", &with(cm("a"), "metadata.finalizers", json!(["bad name"])))
        .refused(422, "Invalid");
    c.post("cm", &with(cm("b"), "metadata.finalizers", json!(["noslash"])));
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.finalizers", json!(["noslash"])));
    c.post(
        "toy",
        &with(toy("b", json!({"size": 1})), "metadata.finalizers", json!(["a/b", "a/b", "orphan"])),
    );
    c.post("cm", &with(cm("c"), "metadata.finalizers", json!(["orphan", "foregroundDeletion"])));
    c.post("cm", &with(cm("d"), "metadata.finalizers", json!("x"))).is(400);
}

fn owners_bad(c: &Case) {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u1"});
    for bad in [
        without(owner.clone(), "uid"),
        without(owner.clone(), "name"),
        without(owner.clone(), "kind"),
        without(owner.clone(), "apiVersion"),
        with(owner.clone(), "apiVersion", "a/b/c"),
        with(owner.clone(), "kind", "Event"),
    ] {
        c.post("cm", &with(cm("a"), "metadata.ownerReferences", json!([bad])))
            .refused(422, "Invalid");
    }
    let controller = with(owner.clone(), "controller", true);
    let two = json!([controller, with(controller.clone(), "uid", "u2")]);
    c.post("cm", &with(cm("a"), "metadata.ownerReferences", two.clone())).refused(422, "Invalid");
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.ownerReferences", two))
        .refused(422, "Invalid");
    c.post("cm", &with(cm("a"), "metadata.ownerReferences", json!({"a": 1}))).is(400);
}

fn owners(c: &Case) {
    let owner = c.post("cm", &cm("owner")).is(201);
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true, "blockOwnerDeletion": true});
    c.post("cm", &with(cm("a"), "metadata.ownerReferences", json!([reference])))
        .is(201)
        .has("/metadata/ownerReferences/0/uid", owner.uid());
    // The same owner twice is told, not refused.
    c.post(
        "cm",
        &with(
            cm("b"),
            "metadata.ownerReferences",
            json!([reference, without(reference.clone(), "controller")]),
        ),
    );
}

fn managed_fields_set(c: &Case) {
    let fields = json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}}]);
    let body = with(with(cm("a"), "metadata.managedFields", fields), "data", json!({"k": "v"}));
    c.post("cm", &body).is(201);
    c.post("cm", &with(cm("b"), "metadata.managedFields", json!([]))).is(201);
    c.post("cm", &with(cm("c"), "metadata.managedFields", json!([{}]))).is(201);
}

fn managed_fields_bad(c: &Case) {
    let entry = json!({"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
    c.post(
        "cm",
        &with(
            cm("a"),
            "metadata.managedFields",
            json!([with(entry.clone(), "operation", "Steal")]),
        ),
    );
    c.post(
        "cm",
        &with(
            cm("b"),
            "metadata.managedFields",
            json!([with(entry.clone(), "fieldsType", "FieldsV9")]),
        ),
    );
    c.post(
        "cm",
        &with(
            cm("c"),
            "metadata.managedFields",
            json!([with(entry.clone(), "manager", "x".repeat(200))]),
        ),
    );
    c.post(
        "cm",
        &with(
            cm("d"),
            "metadata.managedFields",
            json!([with(entry, "fieldsV1", json!({"zz": {}}))]),
        ),
    );
}

fn status_dropped(c: &Case) {
    let body = with(toy("a", json!({"size": 1})), "status", json!({"phase": "Up"}));
    c.post("toy", &body).is(201).lacks("/status");
    let deploy = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": {"replicas": 5}});
    c.post("deploy", &deploy).is(201).lacks("/status/replicas");
}

fn status_kept_without_subresource(c: &Case) {
    let body = json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "a"}, "status": {"phase": "Up"}, "x": {"y": [1]}});
    c.post("plain", &body).is(201).has("/status/phase", "Up").has("/x/y/0", 1);
}

fn body_empty(c: &Case) {
    c.call(&Call::new("POST", "cm").text("application/json", "")).is(400);
    c.call(&Call::new("POST", "toy").text("application/json", "")).is(400);
    c.call(&Call::new("POST", "cm").text("application/json", "{}")).is(422);
    c.call(&Call::new("POST", "toy").text("application/json", "{}")).is(400);
    c.call(&Call::new("POST", "cm"));
    c.call(&Call::new("POST", "toy"));
}

fn body_null(c: &Case) {
    c.call(&Call::new("POST", "cm").text("application/json", "null"));
    c.call(&Call::new("POST", "toy").text("application/json", "null"));
    c.call(&Call::new("POST", "cm").text("application/json", "\"x\""));
    c.call(&Call::new("POST", "toy").text("application/json", "5"));
}

fn body_array(c: &Case) {
    c.call(&Call::new("POST", "cm").text("application/json", "[]")).is(400);
    c.call(&Call::new("POST", "toy").text("application/json", "[]")).is(400);
}

fn body_list(c: &Case) {
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [cm("a")]});
    c.post("cm", &list).is(400);
    c.post("cm", &json!({"apiVersion": "v1", "kind": "List", "items": [cm("a")]})).is(400);
    let toys = json!({"apiVersion": "parity.sutler.dev/v1", "kind": "ToyList", "items": []});
    c.post("toy", &toys).is(422);
}

fn field_manager_bad(c: &Case) {
    c.post(&format!("cm?fieldManager={}", "x".repeat(129)), &cm("a"))
        .refused(422, "Invalid")
        .blames("fieldManager");
    c.post("cm?fieldManager=a%00b", &cm("a"));
    c.post("cm?fieldManager=a%0Ab", &cm("b"));
    c.post("toy?fieldManager=%C3%A9", &toy("a", json!({"size": 1})));
}

fn field_manager_names(c: &Case) {
    c.post("cm?fieldManager=me", &cm("a")).is(201);
    c.post("cm?fieldManager=me", &with(cm("b"), "data", json!({"k": "v"})))
        .is(201)
        .has("/metadata/managedFields/0/manager", "me");
    c.post("cm?fieldManager=", &with(cm("c"), "data", json!({"k": "v"})))
        .is(201)
        .has("/metadata/managedFields/0/manager", "parity");
}

fn user_agent_names(c: &Case) {
    let body = |name: &str| with(cm(name), "data", json!({"k": "v"}));
    for (name, agent) in [
        ("a", "kubectl/v1.37 (linux/amd64) kubernetes/abc"),
        ("b", "plain"),
        ("c", "a b c"),
        ("d", "/x"),
    ] {
        c.call(&Call::new("POST", "cm").json(&body(name)).header("user-agent", agent)).is(201);
    }
    c.call(&Call::new("POST", "cm").json(&body("e")).without("user-agent")).is(201);
}

fn post_yaml(c: &Case) {
    let yaml =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: \"on\"\n  # comment\n";
    c.call(&Call::new("POST", "cm").text("application/yaml", yaml)).is(201).has("/data/k", "on");
    let yaml = "apiVersion: parity.sutler.dev/v1\nkind: Toy\nmetadata: {name: a}\nspec:\n  size: 5\n  labels: {a: b}\n";
    c.call(&Call::new("POST", "toy").text("application/yaml", yaml)).is(201).has("/spec/size", 5);
    c.call(&Call::new("POST", "cm").text("application/yaml", "a: [")).is(400);
    c.call(&Call::new("POST", "toy").text("application/yaml", "a: [")).is(400);
    c.call(&Call::new("POST", "cm?fieldValidation=Strict").text(
        "application/yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n  name: c\n",
    ))
    .is(400);
}

fn name_in_query(c: &Case) {
    c.post("cm?name=b", &cm("a")).is(201).has("/metadata/name", "a");
}

fn spec_missing(c: &Case) {
    c.post("toy", &without(toy("a", json!({})), "spec")).refused(422, "Invalid").blames("spec");
    c.post("toy", &toy("a", json!({}))).refused(422, "Invalid").blames("spec.size");
    c.post("deploy", &json!({"metadata": {"name": "a"}})).refused(422, "Invalid");
    c.post("pod", &json!({"metadata": {"name": "a"}})).refused(422, "Invalid");
}

fn pod_generate_name(c: &Case) {
    let pod = json!({"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = c.post("pod", &pod).is(201);
    c.get(&format!("pod/{}", made.name())).is(200);
}

fn location(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.check(made.headers.get("location").is_none(), "no Location");
    c.check(made.headers.get("audit-id").is_some(), "an audit ID");
}
