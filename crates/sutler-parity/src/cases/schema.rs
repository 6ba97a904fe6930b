//! Schemas of custom kinds: defaults, pruning, validation messages, rules.

use serde_json::{Value, json};

use super::{toy, with};
use crate::case::{Call, Case, Reply};
use crate::suite::subject;

subject!("schema":
    defaults, defaults_nested, defaults_in_lists, defaults_and_null, pruning, pruning_nested, pruning_maps, preserved, type_errors, type_errors_nested, integer_forms, number_range, integer_range, multiple_of, string_length, string_pattern, string_unicode, enumeration, required, required_nested, array_length, array_unique, list_map_keys, list_map_duplicates, map_size, map_values,
    nullable, int_or_string, quantity_pattern, formats_good, formats_bad, one_of, any_of, not, rule_message, rule_expression, rule_exclusive, rule_quantity, rules_skipped_after_type_error, many_errors, rules_on_update, optional_old_self, ratcheting, ratcheting_rules, embedded_resource, embedded_bad, large_numbers, float_forms, boolean_forms, empty_strings, deep_free_form, deep_in_every_way, metadata_in_schema, unknown_formats, list_of_nulls, status_rules,
);

fn create(c: &Case, spec: Value) -> Reply {
    c.post("toy", &toy("a", spec))
}

/// Sends a spec that cannot be, with only these fields beside the size.
fn bad(c: &Case, fields: Value, blamed: &str) {
    let mut spec = json!({"size": 1});
    for (key, value) in fields.as_object().cloned().unwrap_or_default() {
        spec[key] = value;
    }
    create(c, spec).refused(422, "Invalid").blames(blamed);
}

fn defaults(c: &Case) {
    create(c, json!({"size": 1}))
        .is(201)
        .has("/spec/mode", "Fast")
        .has("/spec/nested/depth", 1)
        .has("/spec/noteWithDefault", "none")
        .lacks("/spec/nested/inner");
}

fn defaults_nested(c: &Case) {
    create(c, json!({"size": 1, "nested": {"inner": {}}}))
        .is(201)
        .has("/spec/nested/inner/flag", true);
}

fn defaults_in_lists(c: &Case) {
    create(c, json!({"size": 1, "ports": [{"port": 1}, {"port": 2, "protocol": "UDP"}], "disks": [{"name": "a", "gib": 1}]})).is(201).has("/spec/ports/0/protocol", "TCP").has("/spec/disks/0/kind", "thin");
}

fn defaults_and_null(c: &Case) {
    create(c, json!({"size": 1, "mode": null, "noteWithDefault": null, "nested": null}))
        .is(201)
        .has("/spec/mode", "Fast")
        .has("/spec/noteWithDefault", json!(null));
}

fn pruning(c: &Case) {
    create(c, json!({"size": 1, "x": 1})).is(201).lacks("/spec/x");
}

fn pruning_nested(c: &Case) {
    create(c, json!({"size": 1, "nested": {"x": 1, "inner": {"y": 2}}, "disks": [{"name": "a", "gib": 1, "z": 3}]})).is(201).lacks("/spec/nested/x").lacks("/spec/disks/0/z");
}

fn pruning_maps(c: &Case) {
    create(c, json!({"size": 1, "labels": {"any": "key"}, "counts": {"a": 1}}))
        .is(201)
        .has("/spec/labels/any", "key");
}

fn preserved(c: &Case) {
    create(c, json!({"size": 1, "free": {"known": 1, "deep": {"x": [1, {"y": null}]}}, "anything": {"a": [null]}})).is(201).has("/spec/free/deep/x/0", 1);
}

fn type_errors(c: &Case) {
    for (field, value) in [
        ("size", json!("1")),
        ("size", json!(1.5)),
        ("size", json!(true)),
        ("size", json!(null)),
        ("mode", json!(1)),
        ("on", json!("true")),
        ("ratio", json!("x")),
        ("labels", json!([])),
        ("labels", json!("x")),
        ("tags", json!({})),
        ("tags", json!("a")),
        ("nested", json!(1)),
        ("code", json!({})),
        ("free", json!("x")),
    ] {
        create(c, with(json!({"size": 1}), field, value)).refused(422, "Invalid");
    }
    c.post("toy", &toy("a", json!("x"))).refused(422, "Invalid");
    c.post("toy", &toy("a", json!([]))).refused(422, "Invalid");
    c.post("toy", &toy("a", json!(null))).refused(422, "Invalid");
}

fn type_errors_nested(c: &Case) {
    bad(c, json!({"disks": [{"name": 5, "gib": "x"}]}), "spec.disks[0].name");
    bad(c, json!({"labels": {"a": 1}}), "spec.labels.a");
    bad(c, json!({"tags": ["a", 5]}), "spec.tags[1]");
    bad(c, json!({"nested": {"inner": {"flag": "yes"}}}), "spec.nested.inner.flag");
}

fn integer_forms(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1.0})));
    c.post("toy", &toy("b", json!({"size": 1e1})));
    c.post("toy", &toy("c", json!({"size": 1, "long": 9223372036854775807_i64}))).is(201);
    c.post("toy", &toy("d", json!({"size": 1, "long": 18446744073709551615_u64})));
    c.post("toy", &toy("e", json!({"size": 1, "low": 1e30})));
}

fn number_range(c: &Case) {
    bad(c, json!({"ratio": 0}), "spec.ratio");
    bad(c, json!({"ratio": -0.5}), "spec.ratio");
    bad(c, json!({"ratio": 10}), "spec.ratio");
    create(c, json!({"size": 1, "ratio": 9.99})).is(201);
}

fn integer_range(c: &Case) {
    bad(c, json!({"size": 0}), "spec.size");
    bad(c, json!({"size": 101}), "spec.size");
    bad(c, json!({"size": 3000000000_i64}), "spec.size");
    create(c, json!({"size": 100})).is(201);
}

fn multiple_of(c: &Case) {
    bad(c, json!({"step": 7}), "spec.step");
    create(c, json!({"size": 1, "step": 15})).is(201);
}

fn string_length(c: &Case) {
    bad(c, json!({"code": "a1"}), "spec.code");
    bad(c, json!({"code": "ab12345"}), "spec.code");
    create(c, json!({"size": 1, "code": "ab1"})).is(201);
}

fn string_pattern(c: &Case) {
    bad(c, json!({"code": "1234"}), "spec.code");
    bad(c, json!({"code": "AB12"}), "spec.code");
}

fn string_unicode(c: &Case) {
    // Characters are counted, not bytes.
    create(c, json!({"size": 1, "labels": {"k": "éééééééé"}})).is(201);
    bad(c, json!({"labels": {"k": "ééééééééé"}}), "spec.labels.k");
    create(c, json!({"size": 1, "left": "日本語 \u{1F600} \t \"quoted\" <&>"})).is(409);
}

fn enumeration(c: &Case) {
    bad(c, json!({"mode": "Medium"}), "spec.mode");
    bad(c, json!({"mode": "fast"}), "spec.mode");
    bad(c, json!({"mode": ""}), "spec.mode");
}

fn required(c: &Case) {
    create(c, json!({})).refused(422, "Invalid").blames("spec.size");
    create(c, json!({"mode": "Slow"})).refused(422, "Invalid");
}

fn required_nested(c: &Case) {
    bad(c, json!({"disks": [{"name": "a"}]}), "spec.disks[0].gib");
    bad(c, json!({"disks": [{}]}), "spec.disks[0].name");
    bad(c, json!({"ports": [{"label": "x"}]}), "spec.ports[0].port");
}

fn array_length(c: &Case) {
    bad(c, json!({"steps": []}), "spec.steps");
    bad(c, json!({"steps": ["a", "b", "c", "d", "e"]}), "spec.steps");
    bad(c, json!({"tags": ["a", "b", "c", "d", "e", "f"]}), "spec.tags");
}

fn array_unique(c: &Case) {
    bad(c, json!({"tags": ["a", "b", "a"]}), "spec.tags[2]");
}

fn list_map_keys(c: &Case) {
    create(c, json!({"size": 1, "ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]})).is(201);
}

fn list_map_duplicates(c: &Case) {
    bad(c, json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}), "spec.ports[1]");
    bad(
        c,
        json!({"disks": [{"name": "a", "gib": 1}, {"name": "b", "gib": 1}, {"name": "a", "gib": 2}]}),
        "spec.disks[2]",
    );
}

fn map_size(c: &Case) {
    bad(c, json!({"labels": {"a": "1", "b": "1", "c": "1", "d": "1"}}), "spec.labels");
    bad(c, json!({"counts": {}}), "spec.counts");
}

fn map_values(c: &Case) {
    bad(c, json!({"labels": {"a": "123456789"}}), "spec.labels.a");
    bad(c, json!({"counts": {"a": 1.5}}), "spec.counts.a");
}

fn nullable(c: &Case) {
    create(c, json!({"size": 1, "note": null})).is(201).has("/spec/note", json!(null));
    c.post(
        "toy",
        &toy("b", json!({"size": 1, "code": null, "labels": null, "tags": null, "disks": null})),
    );
    c.post(
        "toy",
        &toy(
            "c",
            json!({"size": 1, "disks": [{"name": "a", "gib": 1, "kind": null, "options": null}]}),
        ),
    );
}

fn int_or_string(c: &Case) {
    create(c, json!({"size": 1, "port": 80})).is(201).has("/spec/port", 80);
    c.post("toy", &toy("b", json!({"size": 1, "port": "http"}))).is(201).has("/spec/port", "http");
    bad(c, json!({"port": true}), "spec.port");
    bad(c, json!({"port": 1.5}), "spec.port");
    bad(c, json!({"port": {}}), "spec.port");
}

fn quantity_pattern(c: &Case) {
    create(c, json!({"size": 1, "amount": "5Mi"})).is(201);
    c.post("toy", &toy("b", json!({"size": 1, "amount": 5}))).is(201);
    bad(c, json!({"amount": "5Zi"}), "spec.amount");
    bad(c, json!({"amount": []}), "spec.amount");
}

fn formats_good(c: &Case) {
    create(c, json!({
        "size": 1, "born": "2001-02-03T04:05:06Z", "day": "2001-02-03", "wait": "1h5m", "address": "10.0.0.1", "address6": "fe80::1", "network": "10.0.0.0/8", "mac": "aa:bb:cc:dd:ee:ff",
        "blob": "aGVsbG8=", "link": "https://example.com/x?y=z", "host": "a.example.com", "mail": "a@example.com", "id": "01234567-89ab-cdef-0123-456789abcdef",
    })).is(201);
    c.post("toy", &toy("b", json!({"size": 1, "born": "2001-02-03T04:05:06.789+02:00", "wait": "3 days", "network": "fe80::/64"}))).is(201);
}

fn formats_bad(c: &Case) {
    for (field, value) in [
        ("born", "yesterday"),
        ("born", "2001-13-01T00:00:00Z"),
        ("born", "2001-02-03"),
        ("day", "2001-02-30"),
        ("wait", "soon"),
        ("wait", "1"),
        ("address", "10.0.0.256"),
        ("address", "fe80::1"),
        ("address6", "10.0.0.1"),
        ("network", "10.0.0.0"),
        ("network", "10.0.0.0/33"),
        ("mac", "aa:bb"),
        ("blob", "not base64!"),
        ("link", "::"),
        ("link", "no scheme"),
        ("host", "-bad-"),
        ("mail", "nobody"),
        ("id", "1234"),
    ] {
        create(c, json!({"size": 1, field: value}));
        c.delete("toy/a");
    }
}

fn one_of(c: &Case) {
    create(c, json!({"size": 1, "choice": {"one": "x"}})).is(201);
    create(c, json!({"size": 1, "choice": {}})).refused(422, "Invalid");
    create(c, json!({"size": 1, "choice": {"one": "x", "two": "y"}})).refused(422, "Invalid");
}

fn any_of(c: &Case) {
    create(c, json!({"size": 1, "either": {"a": 1, "b": 2}})).is(201);
    create(c, json!({"size": 1, "either": {}})).refused(422, "Invalid");
}

fn not(c: &Case) {
    create(c, json!({"size": 1, "never": "good"})).is(201);
    create(c, json!({"size": 1, "never": "bad"})).refused(422, "Invalid").says("spec.never");
}

fn rule_message(c: &Case) {
    create(c, json!({"size": 1, "low": 5, "high": 1}))
        .refused(422, "Invalid")
        .blames("spec")
        .says("low must not exceed high");
    create(c, json!({"size": 1, "low": 1, "high": 5})).is(201);
}

fn rule_expression(c: &Case) {
    create(c, json!({"size": 1, "code": "zz13"}))
        .refused(422, "Invalid")
        .blames("spec.code")
        .says("code zz13 is unlucky");
}

fn rule_exclusive(c: &Case) {
    create(c, json!({"size": 1, "left": "l", "right": "r"}))
        .refused(422, "Invalid")
        .says("left and right exclude each other");
}

fn rule_quantity(c: &Case) {
    bad(c, json!({"quantity": "lots"}), "spec.quantity");
    create(c, json!({"size": 1, "quantity": "5Gi"})).is(201);
}

fn rules_skipped_after_type_error(c: &Case) {
    create(c, json!({"size": "x", "low": 5, "high": 1})).refused(422, "Invalid");
    create(c, json!({"size": 0, "low": 5, "high": 1})).refused(422, "Invalid");
    create(c, json!({"size": 1, "low": "x", "quantity": "lots"})).refused(422, "Invalid");
}

fn many_errors(c: &Case) {
    create(c, json!({"size": 0, "mode": "Odd", "code": "X", "ratio": 0, "tags": ["a", "a"], "disks": [{"name": "a"}], "left": "l", "right": "r", "low": 5, "high": 1})).refused(422, "Invalid").blames("spec.size").blames("spec.mode");
}

fn rules_on_update(c: &Case) {
    create(c, json!({"size": 1, "sticky": "x"})).is(201);
    c.merge("toy/a", &json!({"spec": {"sticky": "y"}}))
        .refused(422, "Invalid")
        .blames("spec.sticky");
    c.merge("toy/a", &json!({"spec": {"sticky": null}})).refused(422, "Invalid");
    c.merge("toy/a", &json!({"spec": {"size": 2}})).is(200);
    // One that is set later may be set once.
    c.post("toy", &toy("b", json!({"size": 1}))).is(201);
    c.merge("toy/b", &json!({"spec": {"sticky": "x"}})).is(200);
    c.merge("toy/b", &json!({"spec": {"sticky": "y"}})).refused(422, "Invalid");
}

fn optional_old_self(c: &Case) {
    create(c, json!({"size": 1, "grow": 5})).is(201);
    c.merge("toy/a", &json!({"spec": {"grow": 4}})).refused(422, "Invalid").blames("spec.grow");
    c.merge("toy/a", &json!({"spec": {"grow": 6}})).is(200);
    c.merge("toy/a", &json!({"spec": {"grow": null}})).is(200);
    c.merge("toy/a", &json!({"spec": {"grow": 1}})).is(200);
}

fn ratcheting(c: &Case) {
    create(c, json!({"size": 1, "disks": [{"name": "a", "gib": 2}]})).is(201);
    c.merge("toy/a", &json!({"spec": {"disks": [{"name": "a", "gib": 1}]}}))
        .refused(422, "Invalid")
        .blames("spec.disks[0]");
    c.merge(
        "toy/a",
        &json!({"spec": {"disks": [{"name": "b", "gib": 1}, {"name": "a", "gib": 2}]}}),
    )
    .is(200);
    c.merge(
        "toy/a",
        &json!({"spec": {"disks": [{"name": "a", "gib": 1}, {"name": "b", "gib": 1}]}}),
    )
    .refused(422, "Invalid");
}

fn ratcheting_rules(c: &Case) {
    create(c, json!({"size": 1})).is(201);
    c.merge("toy/a", &json!({"spec": {"low": 9}})).is(200);
    c.merge("toy/a", &json!({"spec": {"high": 1}})).refused(422, "Invalid");
    c.merge("toy/a", &json!({"metadata": {"labels": {"x": "y"}}})).is(200);
}

fn embedded_resource(c: &Case) {
    create(c, json!({"size": 1, "template": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"y": 1}}})).is(201).has("/spec/template/spec/y", 1);
}

fn embedded_bad(c: &Case) {
    bad(c, json!({"template": {}}), "spec.template.apiVersion");
    bad(c, json!({"template": {"apiVersion": "v1"}}), "spec.template.kind");
    bad(
        c,
        json!({"template": {"apiVersion": "a/b/c", "kind": "Thing"}}),
        "spec.template.apiVersion",
    );
    bad(
        c,
        json!({"template": {"apiVersion": "v1", "kind": "bad kind", "metadata": {"name": "x"}}}),
        "spec.template.kind",
    );
    bad(
        c,
        json!({"template": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "BAD", "labels": {"a b": "c"}}}}),
        "spec.template.metadata.labels",
    );
}

fn large_numbers(c: &Case) {
    create(
        c,
        json!({"size": 1, "free": {"big": 9007199254740993_i64, "float": 1.25e20, "small": 1e-7}}),
    )
    .is(201);
    c.get("toy/a").is(200);
}

fn float_forms(c: &Case) {
    create(c, json!({"size": 1, "ratio": 1.0, "free": {"a": 1.0, "b": 100.0, "c": 1.50}})).is(201);
    c.get("toy/a").is(200);
}

fn boolean_forms(c: &Case) {
    create(c, json!({"size": 1, "on": false})).is(201).has("/spec/on", false);
    bad(c, json!({"on": 0}), "spec.on");
}

fn empty_strings(c: &Case) {
    create(c, json!({"size": 1, "left": "", "labels": {"": ""}, "tags": [""]})).is(201);
}

fn deep_free_form(c: &Case) {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!({"d": deep});
    }
    create(c, json!({"size": 1, "free": deep})).is(201);
}

/// Whatever is done to an object that is as deep as one may be, nothing breaks.
fn deep_in_every_way(c: &Case) {
    let mut deep = json!(1);
    for _ in 0..480 {
        deep = json!({"d": deep});
    }
    let object = toy("a", json!({"size": 1, "free": deep}));
    let text = object.to_string();
    c.call(&Call::new("POST", "toy").text("application/json", &text).quiet()).is(201);
    c.call(&Call::new("GET", "toy/a").quiet()).is(200);
    c.call(&Call::new("GET", "toy").quiet()).is(200);
    c.call(&Call::new("GET", "toy/a").accept("application/yaml").quiet()).is(200);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    c.call(&Call::new("GET", "toy?includeObject=Object").accept(table).quiet()).is(200);
    let size = r#"{"spec":{"size":2}}"#;
    c.call(&Call::new("PATCH", "toy/a").text("application/merge-patch+json", size).quiet()).is(200);
    let op = r#"[{"op":"replace","path":"/spec/size","value":3}]"#;
    c.call(&Call::new("PATCH", "toy/a").text("application/json-patch+json", op).quiet()).is(200);
    let path = "toy/a?fieldManager=deep&force=true";
    c.call(&Call::new("PATCH", path).text("application/apply-patch+yaml", &text).quiet()).is(200);
    c.call(&Call::new("DELETE", "toy/a").quiet()).is(200);
}

fn metadata_in_schema(c: &Case) {
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata", json!("x"))).is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.finalizers", json!([5]))).is(400);
    c.post(
        "toy",
        &with(toy("a", json!({"size": 1})), "metadata.ownerReferences", json!([{"x": 1}])),
    );
}

fn unknown_formats(c: &Case) {
    create(c, json!({"size": 1, "long": 1, "replicas": 5})).is(201);
    bad(c, json!({"replicas": -1}), "spec.replicas");
    create(c, json!({"size": 1, "replicas": 2147483648_i64})).refused(422, "Invalid");
}

fn list_of_nulls(c: &Case) {
    create(c, json!({"size": 1, "steps": [null]}));
    create(c, json!({"size": 1, "disks": [null]}));
    create(c, json!({"size": 1, "tags": ["a", null]}));
}

fn status_rules(c: &Case) {
    create(c, json!({"size": 1})).is(201);
    c.merge(
        "toy/a/status",
        &json!({"status": {"conditions": [{"type": "A", "status": "Maybe"}], "phase": 5}}),
    )
    .refused(422, "Invalid");
}
