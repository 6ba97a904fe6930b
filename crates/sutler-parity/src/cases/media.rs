//! Content negotiation, protobuf bodies, and bodies that are broken.

use bytes::Bytes;
use serde_json::json;

use super::{cm, deployment, pod, toy, with};
use crate::case::{Call, Case, Reply};
use crate::suite::subject;

subject!("media":
    accept_unknown, accept_any, accept_yaml, accept_list, accept_quality, accept_on_write, accept_watch, content_unknown, content_charset, content_missing, content_case, gzip_list, gzip_small, gzip_object,
    protobuf_configmap, protobuf_namespace, protobuf_secret, protobuf_review, protobuf_broken, protobuf_update, protobuf_wrong_kind, protobuf_unknown_fields, protobuf_delete_options, protobuf_accept_custom, protobuf_accept, protobuf_accept_list, protobuf_accept_status, protobuf_there_and_back,
    json_truncated, json_trailing, json_garbage, json_bad_utf8, json_escapes, json_deep, json_deep_custom, json_big_numbers, json_comments, json_nan, json_case_of_fields, json_nulls, json_bom, json_whitespace, yaml_tabs, yaml_anchors, yaml_deep_aliases, yaml_types, yaml_multi, yaml_json, wrong_types_metadata, wrong_types_configmap, wrong_types_pod, wrong_types_deployment, query_repeated, query_encoded, query_bad_escape, long_query, header_unknown, path_traversal, double_slash,
);

fn accept_unknown(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    for accept in ["text/html", "application/xml", "image/png", "application/json;v=9", "x"] {
        c.call(&Call::new("GET", "cm/a").accept(accept));
        c.call(&Call::new("GET", "toy").accept(accept));
    }
}

fn accept_any(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("GET", "cm/a").accept("*/*")).is(200).has("/kind", "ConfigMap");
    c.call(&Call::new("GET", "cm/a").accept("application/*")).is(406);
    c.call(&Call::new("GET", "cm/a").without("accept")).is(200);
    c.call(&Call::new("GET", "cm/a").accept("")).is(200);
}

fn accept_yaml(c: &Case) {
    c.post("cm", &with(cm("a"), "data", json!({"k": "on", "n": "5"}))).is(201);
    c.call(&Call::new("GET", "cm/a").accept("application/yaml")).is(200).has("/data/k", "on");
    c.call(&Call::new("GET", "cm").accept("application/yaml")).is(200);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.call(&Call::new("GET", "toy/a").accept("application/yaml")).is(200);
    c.call(&Call::new("GET", "cm/none").accept("application/yaml")).is(404);
}

fn accept_list(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("GET", "cm/a").accept("text/html,application/json")).is(200);
    c.call(&Call::new("GET", "cm/a").accept("text/html, application/yaml;q=0.5, application/json"))
        .is(200);
}

fn accept_quality(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("GET", "cm/a").accept("application/yaml;q=0.1,application/json;q=0.9"))
        .is(200);
    c.call(&Call::new("GET", "cm/a").accept("application/json;q=0")).is(200);
    c.call(&Call::new("GET", "cm/a").accept("application/json;q=abc"));
}

fn accept_on_write(c: &Case) {
    c.call(&Call::new("POST", "cm").json(&cm("a")).accept("application/yaml"))
        .is(201)
        .has("/metadata/name", "a");
    c.call(&Call::new("POST", "cm").json(&cm("b")).accept("text/html")).is(406);
    c.get("cm/b").is(404);
    c.call(&Call::new("DELETE", "cm/a").accept("text/html")).is(406);
    c.get("cm/a").is(200);
}

fn accept_watch(c: &Case) {
    let _ = c
        .watch_call(&Call::new("GET", "cm?watch=true&timeoutSeconds=1").accept("text/html"))
        .is(406);
    let _ = c
        .watch_call(&Call::new("GET", "cm?watch=true&timeoutSeconds=1").accept("application/yaml"));
}

fn content_unknown(c: &Case) {
    let body = cm("a").to_string();
    for content in [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/cbor",
    ] {
        c.call(&Call::new("POST", "cm").text(content, &body));
    }
    c.call(&Call::new("POST", "toy").text("text/plain", &toy("a", json!({"size": 1})).to_string()))
        .is(415);
    c.post("cm", &cm("p")).is(201);
    c.call(&Call::new("PUT", "cm/p").text("text/plain", &cm("p").to_string())).is(415);
}

fn content_charset(c: &Case) {
    c.call(&Call::new("POST", "cm").text("application/json; charset=utf-8", &cm("a").to_string()))
        .is(201);
    c.call(&Call::new("POST", "cm").text("application/json;charset=latin1", &cm("b").to_string()));
}

fn content_missing(c: &Case) {
    c.call(&Call::new("POST", "cm").json(&cm("a")).without("content-type")).is(201);
    c.call(&Call::new("POST", "toy").json(&toy("a", json!({"size": 1}))).without("content-type"));
    c.call(&Call::new("POST", "cm").text("", &cm("b").to_string()));
}

fn content_case(c: &Case) {
    c.call(&Call::new("POST", "cm").text("Application/JSON", &cm("a").to_string()));
    c.call(&Call::new("POST", "cm").text("application/json ", &cm("b").to_string()));
}

fn gzip_list(c: &Case) {
    // Only answers beyond 128 KiB are worth it.
    let big = with(cm("a"), "data", json!({"k": "x".repeat(200_000)}));
    c.call(&Call::new("POST", "cm").json(&big).quiet()).is(201);
    let reply = c
        .call(&Call::new("GET", "cm").header("accept-encoding", "gzip").quiet())
        .is(200)
        .items(&["a"]);
    c.check(reply.headers.get("content-encoding").is_some_and(|v| v == "gzip"), "it is compressed");
    c.check(reply.bytes.len() < 20_000, "and small");
    let reply = c.call(&Call::new("GET", "cm").quiet()).is(200);
    c.check(reply.headers.get("content-encoding").is_none(), "not unless asked for");
}

fn gzip_small(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("GET", "cm").header("accept-encoding", "gzip")).is(200);
}

fn gzip_object(c: &Case) {
    let big = with(cm("a"), "data", json!({"k": "x".repeat(200_000)}));
    c.call(&Call::new("POST", "cm").json(&big).quiet()).is(201);
    let reply = c.call(&Call::new("GET", "cm/a").header("accept-encoding", "gzip").quiet()).is(200);
    c.note(
        "encoding",
        json!(reply.headers.get("content-encoding").map(|v| v.to_str().unwrap_or_default())),
    );
    let reply = c
        .call(&Call::new("GET", "cm/a").header("accept-encoding", "br, gzip;q=0.5").quiet())
        .is(200);
    c.note(
        "encoding",
        json!(reply.headers.get("content-encoding").map(|v| v.to_str().unwrap_or_default())),
    );
}

/// A field of a protobuf message that holds bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        out.push((length as u8 & 0x7f) | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(value);
    out
}

fn message(fields: &[Vec<u8>]) -> Vec<u8> {
    fields.concat()
}

/// An object in the envelope that clients send.
fn envelope(version: &str, kind: &str, raw: &[u8]) -> Bytes {
    let kind = message(&[field(1, version.as_bytes()), field(2, kind.as_bytes())]);
    let mut out = b"k8s\0".to_vec();
    out.extend(message(&[field(1, &kind), field(2, raw), field(3, b""), field(4, b"")]));
    Bytes::from(out)
}

fn metadata(name: &str) -> Vec<u8> {
    let label = message(&[field(1, b"l"), field(2, b"m")]);
    field(1, &message(&[field(1, name.as_bytes()), field(11, &label)]))
}

fn entry(key: &str, value: &[u8]) -> Vec<u8> {
    field(2, &message(&[field(1, key.as_bytes()), field(2, value)]))
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn protobuf_configmap(c: &Case) {
    let raw = message(&[metadata("a"), entry("k", b"v"), entry("k2", b"w")]);
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("v1", "ConfigMap", &raw)))
        .is(201)
        .has("/data/k", "v")
        .has("/metadata/labels/l", "m");
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("v1", "ConfigMap", &raw))).is(409);
}

fn protobuf_namespace(c: &Case) {
    let name = format!("{}-p", c.ns);
    c.call(&Call::new("POST", "ns").bytes(PROTOBUF, envelope("v1", "Namespace", &metadata(&name))))
        .is(201)
        .has("/metadata/name", name);
}

fn protobuf_secret(c: &Case) {
    let raw = message(&[metadata("a"), entry("k", &[0, 255, 1]), field(3, b"x.y/z")]);
    c.call(&Call::new("POST", "secret").bytes(PROTOBUF, envelope("v1", "Secret", &raw)))
        .is(201)
        .has("/data/k", "AP8B")
        .has("/type", "x.y/z");
}

fn protobuf_review(c: &Case) {
    let attributes = message(&[field(1, c.ns.as_bytes()), field(2, b"get"), field(5, b"pods")]);
    let raw = message(&[field(1, b""), field(2, &field(1, &attributes))]);
    let kind = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", &raw);
    c.call(&Call::new("POST", "ssar").bytes(PROTOBUF, kind)).is(201).has("/status/allowed", true);
    c.call(
        &Call::new("POST", "ssr")
            .bytes(PROTOBUF, envelope("authentication.k8s.io/v1", "SelfSubjectReview", b"")),
    )
    .is(201)
    .has("/status/userInfo/username", "admin");
}

fn protobuf_broken(c: &Case) {
    for body in
        [&b"k8s\0"[..], b"", b"k8s", b"not protobuf", b"k8s\0\xff\xff\xff", b"k8s\0\x0a\x05"]
    {
        c.call(&Call::new("POST", "cm").bytes(PROTOBUF, Bytes::from_static(body)));
    }
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("v1", "ConfigMap", b"\x0a\x7f")));
}

fn protobuf_update(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    let raw = message(&[metadata("a"), entry("k", b"v")]);
    c.call(&Call::new("PUT", "cm/a").bytes(PROTOBUF, envelope("v1", "ConfigMap", &raw)))
        .is(200)
        .has("/data/k", "v");
}

fn protobuf_wrong_kind(c: &Case) {
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("v1", "Secret", &metadata("a"))))
        .is(400);
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("v1", "Gadget", &metadata("a"))))
        .is(400);
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("v9", "ConfigMap", &metadata("a"))))
        .is(400);
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("", "", &metadata("a"))));
}

fn protobuf_unknown_fields(c: &Case) {
    let raw = message(&[metadata("a"), field(15, b"new")]);
    c.call(&Call::new("POST", "cm").bytes(PROTOBUF, envelope("v1", "ConfigMap", &raw))).is(201);
}

fn protobuf_delete_options(c: &Case) {
    c.post("cm", &with(cm("a"), "metadata.finalizers", json!(["a.b/c"]))).is(201);
    let raw = field(4, b"Foreground");
    c.call(&Call::new("DELETE", "cm/a").bytes(PROTOBUF, envelope("v1", "DeleteOptions", &raw)))
        .is(200)
        .has("/metadata/finalizers/1", "foregroundDeletion");
}

fn protobuf_accept_custom(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.call(&Call::new("GET", "toy/a").accept(PROTOBUF));
    c.call(&Call::new("GET", "toy/a").accept(&format!("{PROTOBUF},application/json")))
        .is(200)
        .has("/kind", "Toy");
}

/// What can be said of an answer in protobuf without reading it.
fn protobuf(c: &Case, reply: &Reply) {
    let content = reply.headers.get("content-type").and_then(|value| value.to_str().ok());
    c.note("content type", json!(content));
    c.check(reply.bytes.starts_with(b"k8s\0"), "it begins as protobuf does");
}

fn protobuf_accept(c: &Case) {
    c.post("cm", &with(cm("a"), "data", json!({"k": "v"}))).is(201);
    let reply = c.call(&Call::new("GET", "cm/a").accept(PROTOBUF).quiet()).is(200);
    protobuf(c, &reply);
    let reply = c.call(&Call::new("POST", "cm").json(&cm("b")).accept(PROTOBUF).quiet()).is(201);
    protobuf(c, &reply);
    let _ =
        c.watch_call(&Call::new("GET", "cm?watch=true&timeoutSeconds=1").accept(PROTOBUF)).is(200);
}

fn protobuf_accept_list(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    let reply = c.call(&Call::new("GET", "cm").accept(PROTOBUF).quiet()).is(200);
    protobuf(c, &reply);
    c.check(reply.bytes.windows(13).any(|part| part == b"ConfigMapList"), "and says what it is");
}

fn protobuf_accept_status(c: &Case) {
    c.call(&Call::new("GET", "cm/none").accept(PROTOBUF)).is(404);
    c.call(&Call::new("POST", "cm").json(&cm("BAD")).accept(PROTOBUF)).is(422);
}

/// What a server writes in protobuf it reads again as the same object.
fn protobuf_there_and_back(c: &Case) {
    let service = json!({"metadata": {"name": "a"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "http"}]}});
    let secret = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "stringData": {"k": "v"}});
    for (path, body) in [
        ("cm", with(cm("a"), "data", json!({"k": "v", "empty": ""}))),
        ("secret", secret),
        ("svc", service),
        ("pod", pod("a")),
        ("deploy", deployment("a")),
    ] {
        c.post(path, &body).is(201);
        let one = format!("{path}/a");
        let reply = c.call(&Call::new("GET", &one).accept(PROTOBUF).quiet()).is(200);
        c.call(&Call::new("PUT", &one).bytes(PROTOBUF, reply.bytes.clone()).quiet()).is(200);
        c.get(&one).is(200);
    }
}

fn both(c: &Case, content: &str, of: impl Fn(&str, &str) -> String) {
    let core = of("v1", "ConfigMap");
    let custom = of("parity.sutler.dev/v1", "Toy");
    c.call(&Call::new("POST", "cm").text(content, &core));
    c.call(&Call::new("POST", "toy").text(content, &custom));
}

fn json(version: &str, kind: &str, rest: &str) -> String {
    format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"a"}}{rest}}}"#)
}

fn json_truncated(c: &Case) {
    for cut in [1, 10, 40] {
        both(c, "application/json", |version, kind| {
            let text = json(version, kind, "");
            text[..text.len() - cut].to_owned()
        });
    }
}

fn json_trailing(c: &Case) {
    both(c, "application/json", |version, kind| json(version, kind, "") + " trailing");
    both(c, "application/json", |version, kind| json(version, kind, "") + "{}");
}

fn json_garbage(c: &Case) {
    for text in ["x", "\u{0}", "{'a': 1}", "{a: 1}", "{\"a\": 1,}", "true", "<xml/>", "{\"a\" 1}"] {
        c.call(&Call::new("POST", "cm").text("application/json", text)).is(400);
        c.call(&Call::new("POST", "toy").text("application/json", text)).is(400);
    }
}

fn json_bad_utf8(c: &Case) {
    let mut body = json("v1", "ConfigMap", r#","data":{"k":"X"}"#).into_bytes();
    if let Some(byte) = body.iter_mut().find(|byte| **byte == b'X') {
        *byte = 0xff;
    }
    c.call(&Call::new("POST", "cm").bytes("application/json", Bytes::from(body)));
    let mut body =
        json("parity.sutler.dev/v1", "Toy", r#","spec":{"size":1,"left":"X"}"#).into_bytes();
    if let Some(byte) = body.iter_mut().find(|byte| **byte == b'X') {
        *byte = 0xff;
    }
    c.call(&Call::new("POST", "toy").bytes("application/json", Bytes::from(body)));
}

fn json_escapes(c: &Case) {
    let text = json("v1", "ConfigMap", r#","data":{"k":"\u00e9\n\t\"\\ \ud83d\ude00"}"#);
    c.call(&Call::new("POST", "cm").text("application/json", &text)).is(201);
    let text = json("parity.sutler.dev/v1", "Toy", r#","spec":{"size":1,"left":"\ud83d"}"#);
    c.call(&Call::new("POST", "toy").text("application/json", &text));
    let text = json("parity.sutler.dev/v1", "Toy", r#","spec":{"size":1,"left":"\x"}"#);
    c.call(&Call::new("POST", "toy").text("application/json", &text)).is(400);
}

fn json_deep(c: &Case) {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    c.call(
        &Call::new("POST", "cm")
            .text("application/json", &json("v1", "ConfigMap", &format!(r#","data":{deep}"#))),
    )
    .is(400);
    c.get("cm/a").is(404);
}

fn json_deep_custom(c: &Case) {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let body =
        json("parity.sutler.dev/v1", "Toy", &format!(r#","spec":{{"size":1,"anything":{deep}}}"#));
    c.call(&Call::new("POST", "toy").text("application/json", &body)).is(400);
    c.get("toy/a").is(404);
}

fn json_big_numbers(c: &Case) {
    for number in
        ["1e400", "123456789012345678901234567890", "-0", "0.1e1", "01", "1.", ".5", "+1", "0x10"]
    {
        c.call(&Call::new("POST", "toy").text(
            "application/json",
            &json("parity.sutler.dev/v1", "Toy", &format!(r#","spec":{{"size":{number}}}"#)),
        ));
    }
}

fn json_comments(c: &Case) {
    both(c, "application/json", |version, kind| json(version, kind, "") + "// comment");
    both(c, "application/json", |version, kind| format!("/* x */{}", json(version, kind, "")));
}

fn json_nan(c: &Case) {
    for number in ["NaN", "Infinity", "-Infinity"] {
        c.call(&Call::new("POST", "toy").text(
            "application/json",
            &json("parity.sutler.dev/v1", "Toy", &format!(r#","spec":{{"size":{number}}}"#)),
        ))
        .is(400);
    }
}

fn json_case_of_fields(c: &Case) {
    // Names of fields are as they are.
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","Metadata":{"Name":"a"},"DATA":{"k":"v"}}"#;
    c.call(&Call::new("POST", "cm").text("application/json", text)).is(422);
    c.call(&Call::new("POST", "cm").text(
        "application/json",
        r#"{"apiVersion":"v1","Kind":"ConfigMap","metadata":{"name":"a"}}"#,
    ));
}

fn json_nulls(c: &Case) {
    c.call(&Call::new("POST", "cm").text("application/json", r#"{"apiVersion":null,"kind":null,"metadata":{"name":"a","labels":null},"data":null,"immutable":null}"#)).is(201);
    c.call(
        &Call::new("POST", "toy")
            .text("application/json", r#"{"apiVersion":null,"kind":null,"metadata":{"name":"a"}}"#),
    )
    .is(400);
    c.post("toy", &with(toy("a", json!({"size": 1})), "metadata.labels", json!({"a": null})));
}

fn json_bom(c: &Case) {
    both(c, "application/json", |version, kind| format!("\u{feff}{}", json(version, kind, "")));
}

fn json_whitespace(c: &Case) {
    c.call(
        &Call::new("POST", "cm")
            .text("application/json", &format!("\n\t {} \n\n", json("v1", "ConfigMap", ""))),
    )
    .is(201);
}

fn yaml_tabs(c: &Case) {
    both(c, "application/yaml", |version, kind| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n\tname: a\n")
    });
}

fn yaml_anchors(c: &Case) {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: &l {x: z}\n  annotations: *l\n";
    c.call(&Call::new("POST", "cm").text("application/yaml", text))
        .is(201)
        .has("/metadata/annotations/x", "z");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\nbase: &b {k: v}\ndata:\n  <<: *b\n  l: w\n";
    c.call(&Call::new("POST", "cm").text("application/yaml", text));
}

fn yaml_deep_aliases(c: &Case) {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x,x,x,x,x,x,x,x,x]\n"
            .to_owned();
    for i in 1..9 {
        let alias = format!("*a{}", i - 1);
        text.push_str(&format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 9].join(",")));
    }
    c.call(&Call::new("POST", "cm").text("application/yaml", &text)).is(400);
    c.get("cm/a").is(404);
}

fn yaml_types(c: &Case) {
    let text = "apiVersion: parity.sutler.dev/v1\nkind: Toy\nmetadata:\n  name: a\nspec:\n  size: 0x10\n  free:\n    a: yes\n    b: ~\n    c: 1e3\n    d: 2001-01-01\n    e: 0o17\n    f: 017\n    g: off\n    h: .inf\n    i: 1_000\n    j: '1'\n    k: !!str 5\n";
    c.call(&Call::new("POST", "toy").text("application/yaml", text));
    let text = "apiVersion: parity.sutler.dev/v1\nkind: Toy\nmetadata:\n  name: b\nspec:\n  size: 1\n  free:\n    a: yes\n    b: ~\n    c: 1e3\n    d: 2001-01-01\n    e: 0o17\n    f: 017\n    g: off\n    i: 1_000\n    j: '1'\n    5: five\n    true: 'yes'\n";
    c.call(&Call::new("POST", "toy").text("application/yaml", text));
}

fn yaml_multi(c: &Case) {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n";
    c.call(&Call::new("POST", "cm").text("application/yaml", text));
    c.get("cm").is(200);
}

fn yaml_json(c: &Case) {
    c.call(&Call::new("POST", "cm").text("application/yaml", &cm("a").to_string())).is(201);
    c.call(
        &Call::new("POST", "cm")
            .text("application/json", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"),
    )
    .is(400);
}

fn wrong_types_metadata(c: &Case) {
    for (path, value) in [
        ("metadata", json!("x")),
        ("metadata", json!([])),
        ("metadata.name", json!(5)),
        ("metadata.labels", json!([])),
        ("metadata.annotations", json!({"a": 1})),
        ("metadata.finalizers", json!("x")),
        ("metadata.ownerReferences", json!("x")),
        ("metadata.generation", json!("x")),
        ("metadata.deletionTimestamp", json!(5)),
        ("metadata.managedFields", json!({})),
        ("apiVersion", json!(5)),
        ("kind", json!([])),
    ] {
        c.post("cm", &with(cm("a"), path, value.clone()));
        c.post("toy", &with(toy("a", json!({"size": 1})), path, value));
    }
}

fn wrong_types_configmap(c: &Case) {
    for value in
        [json!("x"), json!([]), json!({"a": 1}), json!({"a": {}}), json!({"a": null}), json!(5)]
    {
        c.post("cm", &with(cm("a"), "data", value));
    }
    c.post("cm", &with(cm("b"), "binaryData", json!({"a": "not base64!"})));
    c.post("cm", &with(cm("b"), "immutable", json!("yes")));
}

fn wrong_types_pod(c: &Case) {
    for spec in [
        json!("x"),
        json!({"containers": {}}),
        json!({"containers": [1]}),
        json!({"containers": [{"name": 1}]}),
        json!({"containers": [{"name": "c", "ports": [{"containerPort": "x"}]}]}),
        json!({"terminationGracePeriodSeconds": 1.5}),
    ] {
        c.post("pod", &json!({"metadata": {"name": "a"}, "spec": spec})).is(400);
    }
}

fn wrong_types_deployment(c: &Case) {
    for spec in [
        json!({"replicas": "3"}),
        json!({"replicas": 1.5}),
        json!({"selector": []}),
        json!({"strategy": {"rollingUpdate": {"maxSurge": true}}}),
        json!({"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}}}),
        json!({"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}}}),
    ] {
        c.post("deploy", &json!({"metadata": {"name": "a"}, "spec": spec})).is(400);
    }
}

fn query_repeated(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.get("cm?limit=1&limit=2").is(200);
    c.get("cm?labelSelector=a%3Db&labelSelector=x").is(200);
    c.get("cm?fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db").is(200);
}

fn query_encoded(c: &Case) {
    c.post("cm", &with(cm("a"), "metadata.labels", json!({"a.b/c": "d"}))).is(201);
    c.get("cm?labelSelector=a.b%2Fc%3Dd").is(200).items(&["a"]);
    c.get("cm?labelSelector=a.b/c=d").is(200).items(&["a"]);
    c.get("cm?label%53elector=a.b/c=d").is(200).items(&["a"]);
}

fn query_bad_escape(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.get("cm?labelSelector=%zz");
    c.get("cm?limit=%");
    c.get("cm?a;b=c");
    c.get("cm/a%zz");
}

fn long_query(c: &Case) {
    c.get(&format!("cm?x={}", "y".repeat(20_000))).is(200);
}

fn header_unknown(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(
        &Call::new("GET", "cm/a")
            .header("x-custom", "1")
            .header("if-none-match", "\"x\"")
            .header("range", "bytes=0-1"),
    )
    .is(200);
}

fn path_traversal(c: &Case) {
    c.get("/api/v1/namespaces/{ns}/configmaps/..");
    c.get("/api/v1/namespaces/{ns}/configmaps/../secrets");
    c.get("/api/v1/namespaces/{ns}/./configmaps");
    c.get("/api/../healthz");
}

fn double_slash(c: &Case) {
    c.get("//api/v1");
    c.get("/api//v1/namespaces/{ns}/configmaps");
    c.get("/api/v1//namespaces/{ns}/configmaps");
}
