use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use sutler_kv::memory::Memory;
use tower::Service as _;

use super::*;
use crate::{ApiServer, Config, RandomIds, SystemClock};

/// Refuses config maps that say `no`, and the deletion of those that say `keep`; warns of others.
#[derive(Default)]
struct Picky {
    asked: Mutex<Vec<(Operation, String, bool, bool)>>,
}

impl Admit for Picky {
    fn admit(&self, attempt: &Attempt<'_>) -> Result<Vec<String>, ApiError> {
        if (attempt.group, attempt.resource) != ("", "configmaps") {
            return Ok(Vec::new());
        }
        let seen = (attempt.operation, attempt.name.to_owned());
        let states = (attempt.old.is_some(), attempt.new.is_some());
        self.asked.lock().unwrap().push((seen.0, seen.1, states.0, states.1));
        assert_eq!(attempt.user.name, "jane");
        let says = |object: Option<&Value>, word: &str| {
            object.is_some_and(|object| object["data"]["says"] == word)
        };
        let kept = attempt.operation == Operation::Delete && says(attempt.old, "keep");
        if kept || says(attempt.new, "no") {
            let error = ApiError::unprocessable("it says no");
            return Err(error.with_cause("FieldValueInvalid", "says no", "data.says"));
        }
        Ok(vec!["as you like".to_owned()])
    }
}

async fn start() -> (Arc<Picky>, ApiServer) {
    let server = ApiServer::start(Config {
        engine: Arc::new(Memory::new()),
        crds: Vec::new(),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        version: "test".into(),
    });
    let (picky, server) = (Arc::new(Picky::default()), server.await.unwrap());
    server.admit_by(picky.clone());
    (picky, server)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn says(word: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": {"says": word}})
}

/// The code of an answer, its warnings and its body.
async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    kind: &str,
    body: Value,
) -> (u16, Vec<String>, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(Full::new(body)).unwrap();
    let response = server.as_user(User::privileged("jane")).call(request).await.unwrap();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).collect();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, warnings, serde_json::from_slice(&body).unwrap_or_default())
}

const JSON: &str = "application/json";

#[tokio::test]
async fn every_way_to_write_is_asked_about() {
    let (_, server) = start().await;
    let one = format!("{MAPS}/m");
    let apply = format!("{one}?fieldManager=t&force=true");
    let dry =
        |path: &str| format!("{path}{}dryRun=All", if path.contains('?') { '&' } else { '?' });
    let merge = "application/merge-patch+json";
    let applied = "application/apply-patch+yaml";
    for path in [MAPS.to_owned(), dry(MAPS)] {
        let (code, _, status) = send(&server, "POST", &path, JSON, says("no")).await;
        assert_eq!((code, &status["message"]), (422, &json!("it says no")));
        assert_eq!(status["details"]["causes"][0]["field"], "data.says");
    }
    assert_eq!(send(&server, "PATCH", &apply, applied, says("no")).await.0, 422, "apply creates");
    let (code, warnings, _) = send(&server, "POST", MAPS, JSON, says("yes")).await;
    assert_eq!((code, warnings), (201, vec!["299 - \"as you like\"".to_owned()]));
    for (method, path, kind) in [
        ("PUT", &one, JSON),
        ("PUT", &dry(&one), JSON),
        ("PATCH", &one, merge),
        ("PATCH", &one, "application/strategic-merge-patch+json"),
        ("PATCH", &dry(&one), merge),
        ("PATCH", &apply, applied),
    ] {
        assert_eq!(send(&server, method, path, kind, says("no")).await.0, 422, "{method} {kind}");
    }
    let (_, _, kept) = send(&server, "GET", &one, JSON, Value::Null).await;
    assert_eq!(kept["data"]["says"], "yes");
}

#[tokio::test]
async fn deletions_are_asked_about_one_by_one() {
    let (picky, server) = start().await;
    send(&server, "POST", MAPS, JSON, says("keep")).await;
    let mut other = says("go");
    other["metadata"]["name"] = json!("a");
    send(&server, "POST", MAPS, JSON, other).await;
    let one = format!("{MAPS}/m");
    for path in [one.clone(), format!("{one}?dryRun=All")] {
        assert_eq!(send(&server, "DELETE", &path, JSON, Value::Null).await.0, 422);
    }
    assert_eq!(send(&server, "DELETE", MAPS, JSON, Value::Null).await.0, 422, "all of them");
    assert_eq!(send(&server, "GET", &one, JSON, Value::Null).await.0, 200);
    send(&server, "PUT", &one, JSON, says("go")).await;
    assert_eq!(send(&server, "DELETE", &one, JSON, Value::Null).await.0, 200);
    let asked = picky.asked.lock().unwrap();
    assert_eq!(asked[0], (Operation::Create, "m".to_owned(), false, true));
    assert!(asked.contains(&(Operation::Update, "m".to_owned(), true, true)));
    assert_eq!(asked.last(), Some(&(Operation::Delete, "m".to_owned(), true, false)));
}
