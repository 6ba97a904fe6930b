//! Bodies that are not what they should be.

use super::{Bad, CONFIG_MAPS, Hosted, VM_CLASSES};
use crate::client::JSON;

const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const DEEP: usize = 100_000;

fn config_map(name: &str, more: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}{more}}}"#)
}

fn post(
    content: &'static str,
    body: impl Into<Vec<u8>>,
    code: u16,
    says: &'static str,
) -> Bad<'static> {
    Bad { method: "POST", target: CONFIG_MAPS.into(), content, body: body.into(), code, says }
}

fn one(
    method: &'static str,
    content: &'static str,
    body: impl Into<Vec<u8>>,
    code: u16,
    says: &'static str,
) -> Bad<'static> {
    let query = if content == APPLY { "?fieldManager=m" } else { "" };
    let target = format!("{CONFIG_MAPS}/one{query}");
    Bad { method, target, content, body: body.into(), code, says }
}

/// Each level nine times the one before.
fn alias_bomb() -> String {
    let mut text = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, of) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        let all = vec![format!("*{of}"); 9].join(",");
        text.push_str(&format!("{name}: &{name} [{all}]\n"));
    }
    text
}

#[tokio::test]
async fn hostile_bodies_are_refused() {
    let mut hosted = Hosted::start(&[]).await;
    let custom = |spec: &str| {
        format!(
            r#"{{"apiVersion":"infra.virtrigaud.io/v1beta1","kind":"VMClass","metadata":{{"name":"a"}},"spec":{spec}}}"#
        )
    };
    let large = "x".repeat(3 * 1024 * 1024);
    let mut copies = r#"[{"op":"add","path":"/data","value":{"a":"aaaaaaaaaaaaaaaa"}}"#.to_owned();
    for n in 0..40 {
        copies.push_str(&format!(r#",{{"op":"copy","from":"/data","path":"/data/x{n}"}}"#));
    }
    copies.push(']');
    let many = vec![r#"{"op":"test","path":"/x","value":1}"#; 10_001].join(",");
    let mut cases = vec![
        // Not JSON, not YAML, not protobuf.
        post(JSON, "", 400, "unexpected end of JSON input"),
        post(JSON, r#"{"a":"#, 400, "unexpected end of JSON input"),
        post(JSON, config_map("a", "") + "}", 400, "after top-level value"),
        post(JSON, "{'a': 1}", 400, "invalid character '\\''"),
        post(JSON, "a: 1", 400, "invalid character 'a'"),
        post(JSON, b"\xff\xfe{".to_vec(), 400, "invalid character"),
        post(YAML, "a: [1, {", 400, "yaml: line 1"),
        post(YAML, "a:\n\t- x", 400, "yaml: line 2"),
        post(YAML, b"a: \xff\xfe".to_vec(), 400, "yaml: "),
        post(PROTOBUF, "hello", 400, "does not appear to be a protobuf message"),
        post(PROTOBUF, b"k8s\0\x0a\xff\xff\xff\xff\x0f".to_vec(), 400, "unexpected EOF"),
        one("PATCH", MERGE, "{", 400, "JSON"),
        one("PATCH", MERGE, "[]", 400, "array"),
        one("PATCH", PATCH, "{}", 400, "object"),
        one("PATCH", PATCH, r#"[{"op":"nope","path":"/a"}]"#, 422, "rejected our request"),
        one("PATCH", APPLY, "a: [", 400, "YAML"),
        one("DELETE", JSON, r#"{"kind":"#, 400, "unexpected end of JSON input"),
        // Of another kind, or of none.
        post(JSON, "[]", 400, "couldn't get version/kind"),
        post(JSON, "null", 422, "metadata.name"),
        post(JSON, r#""x""#, 400, "couldn't get version/kind"),
        post(JSON, r#"{"apiVersion":"v1","kind":"Nope"}"#, 400, "Nope"),
        post(JSON, r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#, 400, "Secret"),
        post(JSON, r#"{"apiVersion":"v7","kind":"ConfigMap","metadata":{"name":"a"}}"#, 400, "v7"),
        one("DELETE", JSON, config_map("one", ""), 400, "ConfigMap"),
        // Of the wrong type inside.
        post(JSON, config_map("a", r#","data":{"a":1}"#), 400, "ConfigMap.data of type string"),
        post(JSON, config_map("a", r#","data":[]"#), 400, "ConfigMap.data"),
        post(JSON, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}"#, 400, "metadata"),
        post(JSON, r#"{"apiVersion":1,"kind":"ConfigMap"}"#, 400, "apiVersion"),
        one("DELETE", JSON, r#"{"gracePeriodSeconds":"x"}"#, 400, "gracePeriodSeconds"),
        one("DELETE", JSON, r#"{"preconditions":{"uid":7}}"#, 400, "preconditions.uid"),
        one("PUT", JSON, config_map("two", ""), 400, "does not match the name on the URL"),
        one("PATCH", MERGE, r#"{"data":{"a":{"b":1}}}"#, 422, "cannot unmarshal"),
        one("PATCH", MERGE, r#"{"metadata":{"name":"two"}}"#, 400, "name"),
        // Too deep, too much, too large.
        post(JSON, "[".repeat(DEEP), 400, "exceeded max depth"),
        post(JSON, r#"{"a":"#.repeat(DEEP), 400, "exceeded max depth"),
        post(JSON, "[".repeat(DEEP) + &"]".repeat(DEEP), 400, "exceeded max depth"),
        post(YAML, "[".repeat(DEEP), 400, "yaml: recursion limit exceeded"),
        post(YAML, "{a: ".repeat(DEEP), 400, "yaml: line 1"),
        post(YAML, "- ".repeat(DEEP), 400, "exceeded max depth"),
        post(YAML, alias_bomb(), 400, "excessive aliasing"),
        post(
            YAML,
            format!("a: &a {}\nb: [{}]", &large[..100_000], vec!["*a"; 20_000].join(",")),
            400,
            "excessive aliasing",
        ),
        post(YAML, "a: &a [*a]", 400, "contains itself"),
        one("PATCH", APPLY, alias_bomb(), 400, "excessive aliasing"),
        one("PATCH", MERGE, r#"{"a":"#.repeat(DEEP), 400, "exceeded max depth"),
        one("PATCH", PATCH, "[".repeat(DEEP), 400, "exceeded max depth"),
        one(
            "PATCH",
            PATCH,
            format!("[{many}]"),
            413,
            "maximum operations in a JSON patch is 10000",
        ),
        one("PATCH", PATCH, copies, 422, "rejected our request"),
        post(
            JSON,
            config_map("a", &format!(r#","data":{{"a":"{large}"}}"#)),
            413,
            "limit is 3145728",
        ),
        one("PATCH", APPLY, large.clone() + "x", 413, "limit is 3145728"),
        post(
            JSON,
            config_map("a", &format!(r#","data":{{"a":"{}"}}"#, &large[..1_048_577])),
            422,
            "may not be more than 1048576 bytes",
        ),
        // Not in a form that is served.
        post(
            "text/plain",
            config_map("a", ""),
            415,
            "accepted media types include: application/json",
        ),
        post("application/x-www-form-urlencoded", "a=b", 415, "accepted media types"),
        post(";;;", config_map("a", ""), 415, "accepted media types"),
        post(MERGE, config_map("a", ""), 415, "accepted media types"),
        one("PATCH", JSON, "{}", 415, "Unsupported Media Type"),
        one("PATCH", "", "{}", 415, "Unsupported Media Type"),
        one("PUT", MERGE, config_map("one", ""), 415, "accepted media types"),
    ];
    for (spec, says) in [
        (r#"{"cpu":"x","memory":"1Gi"}"#, "spec.cpu"),
        (r#"{"cpu":1,"memory":[]}"#, "spec.memory"),
        (r#"{"cpu":99999999999999999999,"memory":"1Gi"}"#, "spec.cpu"),
        (r#"{"cpu":-1,"memory":"1Gi"}"#, "spec.cpu"),
        ("[]", "spec"),
        ("null", "spec"),
    ] {
        let (target, body) = (VM_CLASSES.to_owned(), custom(spec).into_bytes());
        cases.push(Bad { method: "POST", target, content: JSON, body, code: 422, says });
    }
    let target = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    for (more, says) in [
        (r#","data":{"a":"1","a":"2"}"#, r#"duplicate field "data.a""#),
        (r#","datta":{}"#, r#"unknown field "datta""#),
    ] {
        let body = config_map("a", more).into_bytes();
        let target = target.clone();
        cases.push(Bad { method: "POST", target, content: JSON, body, code: 400, says });
    }
    for case in cases {
        case.check(&mut hosted.admin).await;
    }
    hosted.is_unchanged().await;
    hosted.is_sound().await;
}

#[tokio::test]
async fn hostile_bodies_that_pass_are_warned_of() {
    let mut hosted = Hosted::start(&[]).await;
    let body = config_map("a", r#","data":{"a":"1","a":"2"},"x\u0000\"y":1"#);
    let target = format!("{CONFIG_MAPS}?fieldValidation=Warn&dryRun=All");
    let answer = hosted.admin.send("POST", &target, &[("content-type", JSON)], body).await.unwrap();
    assert_eq!(answer.code, 201, "{answer:?}");
    let warnings: Vec<_> = answer.headers.get_all("warning").iter().collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(warnings[0], r#"299 - "duplicate field \"data.a\"""#);
    assert_eq!(answer.value()["data"]["a"], "2");
    // What is not UTF-8 cannot be kept; it is replaced, as the API does.
    let mut body = config_map("b", r#","data":{"a":"?"}"#).into_bytes();
    let place = body.iter().position(|byte| *byte == b'?').unwrap();
    body[place] = 0xff;
    let answer = hosted.admin.send("POST", &target, &[("content-type", JSON)], body).await.unwrap();
    assert_eq!(answer.code, 201, "{answer:?}");
    assert_eq!(answer.value()["data"]["a"], "\u{fffd}");
    hosted.is_unchanged().await;
    hosted.is_sound().await;
}
