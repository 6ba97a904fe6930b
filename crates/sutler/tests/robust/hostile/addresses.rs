//! Paths, names and queries that lead nowhere, or should not lead where they point.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Bad, CONFIG_MAPS, Hosted};
use crate::client::JSON;

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
    for selector in
        ["a in (", "!!", "a=b=c", "=x", "a>x", "é=1", "a=\u{1}", ",,", "x in (a,,b", "a b"]
    {
        let target = query(&format!("labelSelector={}", encoded(selector)));
        cases.push(get(target, 400, ""));
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
    for name in ["a\0b", "A", &long] {
        let target = format!("{CONFIG_MAPS}/{}?fieldManager=m", encoded(name));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let content = "application/apply-patch+yaml";
        let body = object.to_string().into_bytes();
        let says = "invalid";
        let case = Bad { method: "PATCH", target, content, body, code: 422, says };
        case.check(&mut hosted.admin).await;
    }
    for target in [
        format!("{CONFIG_MAPS}/one%00"),
        format!("{CONFIG_MAPS}/%2Fone"),
        format!("{CONFIG_MAPS}/.."),
        format!("{CONFIG_MAPS}/%ff"),
        format!("{CONFIG_MAPS}/{long}{long}"),
        "/api/v1/namespaces/kube-system%2F..%2Fdefault/configmaps/one".to_owned(),
        "/api/v1/namespaces/default%2Fone/configmaps/x".to_owned(),
    ] {
        let answer = hosted.admin.get(&target).await.unwrap();
        assert!((400..500).contains(&answer.code), "{target}: {answer:?}");
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
        assert!(!text.is_empty(), "{target}");
    }
    // Nothing of a namespace shows through another name for it.
    for namespace in ["..", "kube-system%2F..%2Fdefault", "default%00", "default%2F", "%zz", "."] {
        let target = format!("/api/v1/namespaces/{namespace}/configmaps");
        let answer = hosted.admin.get(&target).await.unwrap();
        let nothing = answer.code >= 400 || answer.value()["items"] == json!([]);
        assert!(nothing, "{target}: {answer:?}");
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        let answer = hosted.admin.json("POST", &target, &body).await.unwrap();
        assert!(answer.code >= 400, "{target}: {answer:?}");
    }
    for method in ["OPTIONS", "TRACE", "BREW"] {
        let answer = hosted.admin.send(method, CONFIG_MAPS, &[], "").await.unwrap();
        assert!((400..500).contains(&answer.code), "{method}: {answer:?}");
    }
    let accept = |form: &'static str| [("accept", form)];
    for form in ["text/html", "application/json;as=Nope;v=v1;g=x", "image/*;q=0.1"] {
        let answer = hosted.admin.send("GET", CONFIG_MAPS, &accept(form), "").await.unwrap();
        assert_eq!(answer.code, 406, "{form}: {answer:?}");
    }
    // Refused before anything is written, not after.
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let headers = [("accept", "text/html"), ("content-type", JSON)];
    let answer = hosted.admin.send("POST", CONFIG_MAPS, &headers, body.to_string()).await.unwrap();
    assert_eq!(answer.code, 406, "{answer:?}");
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
