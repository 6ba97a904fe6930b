//! Paths, names and queries that lead nowhere, or should not lead where they point.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Bad, CONFIG_MAPS, Hosted};
use crate::client::JSON;

/// What is said to an address that no resource has.
const NOWHERE: &str = "the server could not find the requested resource";

fn get(target: String, code: u16, says: &str) -> Bad<'_> {
    Bad { method: "GET", target, content: "", body: Vec::new(), code, says }
}

fn query(text: &str) -> String {
    format!("{CONFIG_MAPS}?{text}")
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn named(name: &str) -> Bad<'_> {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let body = body.to_string().into_bytes();
    let target = CONFIG_MAPS.to_owned();
    Bad { method: "POST", target, content: JSON, body, code: 422, says: "metadata.name" }
}

fn token(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test]
async fn hostile_queries_are_refused() {
    let mut hosted = Hosted::start(&[]).await;
    let mut cases = Vec::new();
    for (selector, says) in [
        ("a in (", "found '', expected: ',', ')' or identifier"),
        ("!!", "found '!', expected: identifier"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a>x", "values[0]: Invalid value: \"x\""),
        ("é=1", "Invalid value: \"é\": name part must consist of"),
        ("a=\u{1}", "values[0][a]: Invalid value: \"\\x01\""),
        (",,", "found ',', expected: !, identifier, or 'end of string'"),
        ("x in (a,,b", "found '', expected: ',' or ')'"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ] {
        let target = query(&format!("labelSelector={}", encoded(selector)));
        cases.push(get(target, 400, says));
    }
    let long = "a".repeat(300);
    cases.push(get(query(&format!("labelSelector={long}")), 400, "must be no more than 63 bytes"));
    for (selector, says) in [
        ("a", "invalid selector"),
        ("spec.x=1", "spec.x"),
        ("metadata.name=\\x", "invalid escape sequence"),
        ("status.phase=Running", "status.phase"),
    ] {
        cases.push(get(query(&format!("fieldSelector={}", encoded(selector))), 400, says));
    }
    let version = "meta.k8s.io/v1";
    for bad in [
        "garbage".to_owned(),
        "!!!".to_owned(),
        "AAAA".to_owned(),
        "A".repeat(20_000),
        token(&json!([])),
        token(&json!({"v": "x"})),
        token(&json!({"v": version, "rv": 1, "start": ""})),
        token(&json!({"v": version, "rv": 1, "start": "../../secrets/x\0"})),
        token(&json!({"v": version, "rv": 1, "start": "a/../../secrets"})),
    ] {
        let target = query(&format!("limit=1&continue={}", encoded(&bad)));
        cases.push(get(target, 400, "continue key is not valid"));
    }
    let future = token(&json!({"v": version, "rv": 99_999_999, "start": "a\u{0}"}));
    cases.push(get(query(&format!("limit=1&continue={future}")), 410, "continue parameter"));
    for (text, code, says) in [
        ("resourceVersion=99999999999999999999", 400, "value out of range"),
        ("resourceVersion=-1", 400, "invalid resource version"),
        ("resourceVersion=x", 400, "invalid resource version"),
        ("resourceVersion=18446744073709551615", 504, "Too large resource version"),
        ("limit=99999999999999999999", 400, "value out of range"),
        ("limit=x", 400, "invalid syntax"),
        ("watch=1&timeoutSeconds=99999999999999999999", 400, "value out of range"),
        ("watch=1&resourceVersion=x", 500, "resourceVersion"),
        ("watch=1&sendInitialEvents=true", 422, "resourceVersionMatch"),
        ("resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
        ("resourceVersion=1&resourceVersionMatch=x", 422, "Unsupported value"),
    ] {
        cases.push(get(query(text), code, says));
    }
    let one = |text: &str| format!("{CONFIG_MAPS}/one?{text}");
    for (method, target, code, says) in [
        ("DELETE", one("gracePeriodSeconds=99999999999999999999"), 400, "value out of range"),
        ("DELETE", one("propagationPolicy=Sideways"), 422, "propagationPolicy"),
        ("DELETE", one("dryRun=Some"), 422, "dryRun"),
        ("PUT", one("fieldValidation=Nope"), 422, "fieldValidation"),
        ("POST", query(&format!("fieldManager={long}")), 422, "fieldManager"),
        ("POST", query("fieldManager=a%00b"), 422, "invalid character U+0000 (at position 1)"),
    ] {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
        let body = if method == "DELETE" { Vec::new() } else { body.to_string().into_bytes() };
        cases.push(Bad { method, target, content: JSON, body, code, says });
    }
    for case in cases {
        case.check(&mut hosted.admin).await;
    }
    // What asks for nothing special, in large amounts.
    for text in ["limit=-1".to_owned(), "x=y&".repeat(8000), "%zz=%&&&==".to_owned()] {
        assert_eq!(hosted.admin.get(&query(&text)).await.unwrap().code, 200, "{text:.50}");
    }
    // A time beyond any clock is a time far ahead, not a fault.
    let far = query("watch=1&resourceVersion=1&timeoutSeconds=9223372036854775807");
    let watch = hosted.admin.open("GET", &far, &[], "").await.unwrap();
    assert_eq!(watch.status(), 200);
    drop(watch);
    hosted.is_unchanged().await;
    hosted.is_sound().await;
}

#[tokio::test]
async fn hostile_paths_and_names_lead_nowhere() {
    let mut hosted = Hosted::start(&[]).await;
    let long = "a".repeat(254);
    for name in ["a\0b", "a\nb", "..", "a/b", "A", "-a", "", "%2e", "a b", "\u{202e}a", &long] {
        named(name).check(&mut hosted.admin).await;
    }
    for name in ["a\0b", "../one", "..", "A", &long] {
        let target = format!("{CONFIG_MAPS}/{}?fieldManager=m", encoded(name));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let content = "application/apply-patch+yaml";
        let body = object.to_string().into_bytes();
        // A name that means something in a path is refused before the body is looked at, and a slash
        // is one, however it is written.
        let (code, says) = match name {
            "../one" => (404, NOWHERE),
            ".." => (400, "Name parameter invalid: \"..\": may not be '..'"),
            _ => (422, "is invalid: metadata.name: Invalid value: "),
        };
        let case = Bad { method: "PATCH", target, content, body, code, says };
        case.check(&mut hosted.admin).await;
    }
    for (target, code, says) in [
        (format!("{CONFIG_MAPS}/one%00"), 404, "configmaps \"one"),
        (format!("{CONFIG_MAPS}/%2Fone"), 404, NOWHERE),
        (format!("{CONFIG_MAPS}/.."), 400, "Name parameter invalid: \"..\": may not be '..'"),
        (format!("{CONFIG_MAPS}/%ff"), 404, "not found"),
        (format!("{CONFIG_MAPS}/{long}{long}"), 404, "not found"),
        ("/api/v1/namespaces/kube-system%2F..%2Fdefault/configmaps/one".to_owned(), 404, NOWHERE),
        ("/api/v1/namespaces/default%2Fone/configmaps/x".to_owned(), 404, NOWHERE),
    ] {
        let answer = hosted.admin.get(&target).await.unwrap();
        super::refused(&answer, code, says, &target);
    }
    // Addresses without a handler; some of them are answered by a plain text, as in the API.
    for target in [
        "/api/v1/namespaces/default/nopes",
        "/apis/no.such/v1/things",
        "/apis/../api/v1/pods",
        "/api/v1/namespaces/default/configmaps/one/status",
        "/api/v1/namespaces/default/configmaps/one/a/b/c",
        "/nope",
        "/..%2f..%2fetc/passwd",
    ] {
        let answer = hosted.admin.get(target).await.unwrap();
        assert_eq!(answer.code, 404, "{target}: {answer:?}");
        let text = answer.text();
        assert!(text.contains("not found") || text.contains("could not find"), "{target}: {text}");
    }
    assert_eq!(hosted.admin.get("/%").await.unwrap().code, 400);
    // Nothing of a namespace shows through another name for it. A name that no key can hold is the
    // one thing that the API has no better code for than 500.
    for (namespace, listed, made, says) in [
        ("..", 500, 500, "invalid key: \\\"/configmaps/..\\\""),
        (".", 500, 500, "invalid key: \\\"/configmaps/.\\\""),
        ("kube-system%2F..%2Fdefault", 404, 404, NOWHERE),
        ("default%2F", 404, 404, NOWHERE),
        ("default%00", 200, 404, "not found"),
        ("%zz", 400, 400, "Bad Request"),
    ] {
        let target = format!("/api/v1/namespaces/{namespace}/configmaps");
        let answer = hosted.admin.get(&target).await.unwrap();
        assert_eq!(answer.code, listed, "{target}: {answer:?}");
        match listed {
            200 => assert_eq!(answer.value()["items"], json!([]), "{target}"),
            _ => assert!(answer.text().contains(says), "{target}: {answer:?}"),
        }
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        let answer = hosted.admin.json("POST", &target, &body).await.unwrap();
        assert_eq!(answer.code, made, "{target}: {answer:?}");
        assert!(answer.text().contains(says), "{target}: {answer:?}");
    }
    for method in ["OPTIONS", "TRACE", "BREW"] {
        let answer = hosted.admin.send(method, CONFIG_MAPS, &[], "").await.unwrap();
        super::refused(&answer, 405, "does not allow this method", method);
    }
    let accept = |form: &'static str| [("accept", form)];
    for form in ["text/html", "application/json;as=Nope;v=v1;g=x", "image/*;q=0.1"] {
        let answer = hosted.admin.send("GET", CONFIG_MAPS, &accept(form), "").await.unwrap();
        super::refused(&answer, 406, "application/json", form);
    }
    // Refused before anything is written, not after.
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let headers = [("accept", "text/html"), ("content-type", JSON)];
    let answer = hosted.admin.send("POST", CONFIG_MAPS, &headers, body.to_string()).await.unwrap();
    super::refused(&answer, 406, "application/json", "POST");
    for (method, kind, says) in [
        ("POST", "PartialObjectMetadataList", "is not a list"),
        ("DELETE", "PartialObjectMetadata", "is a list"),
    ] {
        let form = format!("application/json;as={kind};v=v1;g=meta.k8s.io");
        let headers = [("accept", form.as_str()), ("content-type", JSON)];
        let sent = if method == "POST" { body.to_string() } else { String::new() };
        let answer = hosted.admin.send(method, CONFIG_MAPS, &headers, sent).await.unwrap();
        super::refused(&answer, 406, says, method);
    }
    hosted.is_unchanged().await;
    hosted.is_sound().await;

    // The longest name there is, and as much annotation as fits, are fine.
    let longest = "a".repeat(253);
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": longest, "annotations": {"a": "x".repeat(262_143)}},
    });
    let answer = hosted.admin.json("POST", CONFIG_MAPS, &object).await.unwrap();
    assert_eq!(answer.code, 201, "{:?}", answer.text().get(..300));
    object["metadata"]["name"] = "more".into();
    object["metadata"]["annotations"]["a"] = "x".repeat(1 << 20).into();
    let answer = hosted.admin.json("POST", CONFIG_MAPS, &object).await.unwrap();
    super::refused(&answer, 422, "metadata.annotations: Too long", "annotations");
}

#[tokio::test]
async fn hostile_numbers_of_seconds_are_borne() {
    let mut hosted = Hosted::start(&[]).await;
    let pods = "/api/v1/namespaces/default/pods";
    for (own, asked) in [(i64::MAX, ""), (30, "?gracePeriodSeconds=9223372036854775807")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {
                "nodeName": "n", "terminationGracePeriodSeconds": own,
                "containers": [{"name": "a", "image": "b"}],
            },
        });
        let answer = hosted.admin.json("POST", pods, &pod).await.unwrap();
        assert_eq!(answer.code, 201, "{answer:?}");
        let target = format!("{pods}/p{asked}");
        let answer = hosted.admin.send("DELETE", &target, &[], "").await.unwrap();
        assert_eq!(answer.code, 200, "{answer:?}");
        assert_eq!(answer.value()["metadata"]["deletionGracePeriodSeconds"], i64::MAX);
        let target = format!("{pods}/p?gracePeriodSeconds=0");
        let answer = hosted.admin.send("DELETE", &target, &[], "").await.unwrap();
        assert_eq!(answer.code, 200, "{answer:?}");
    }
    hosted.is_sound().await;
}
