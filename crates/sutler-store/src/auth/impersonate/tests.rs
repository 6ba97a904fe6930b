use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::auth::recorded::{self, list, text};

fn headers(case: &serde_json::Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for pair in case["headers"].as_array().unwrap() {
        headers.append(
            HeaderName::from_bytes(pair[0].as_str().unwrap().as_bytes()).unwrap(),
            HeaderValue::from_str(pair[1].as_str().unwrap()).unwrap(),
        );
    }
    headers
}

#[test]
fn answers_as_the_real_server_did() {
    let recorded = recorded::load();
    let policy = recorded::policy(&recorded);
    let impersonator = Impersonator::default();
    for case in list(&recorded, "impersonation") {
        let user = recorded::user(case);
        let resource = text(case, "path").rsplit('/').next().unwrap();
        let request = match resource {
            "selfsubjectreviews" => {
                Attributes::resource(&user, "create", AUTHENTICATION_GROUP, resource)
            }
            _ => {
                Attributes { namespace: "ns1", ..Attributes::resource(&user, "list", "", resource) }
            }
        };
        let wanted = match requested(&headers(case)) {
            Ok(wanted) => wanted.expect("the case impersonates"),
            Err(error) => {
                assert_eq!(
                    (400, error.to_string().into()),
                    (case["code"].as_u64().unwrap(), case["message"].clone())
                );
                continue;
            }
        };
        match impersonator.authorize(&policy, &request, &wanted) {
            Err(denied) => {
                assert_eq!(denied.to_string(), case["message"], "{case}");
                assert_eq!(case["code"], 403);
            }
            Ok(user) => {
                // What the impersonated user may then do is a question of its own.
                let request = Attributes { user: &user, ..request };
                let decision = policy.authorize(&request);
                assert_eq!(decision.allowed, case["code"] == 201, "{case}");
                if decision.allowed {
                    let whoami = &case["whoami"];
                    assert_eq!(user.name, whoami["username"]);
                    assert_eq!(user.uid, text(whoami, "uid"));
                    assert_eq!(serde_json::json!(user.groups), whoami["groups"], "{case}");
                    let extra = whoami.get("extra").cloned().unwrap_or(serde_json::json!({}));
                    assert_eq!(serde_json::json!(user.extra), extra);
                } else {
                    let message = forbidden_message(&request, &decision.reason);
                    assert_eq!(message, case["message"], "{case}");
                }
            }
        }
    }
}

#[test]
fn nothing_asked_is_nothing_done() {
    let mut headers = HeaderMap::new();
    headers.insert("impersonate-user", HeaderValue::from_static(""));
    assert_eq!(requested(&headers), Ok(None));
    assert_eq!(requested(&HeaderMap::new()), Ok(None));
}

#[test]
fn headers_are_taken_off() {
    let mut headers = HeaderMap::new();
    for name in ["impersonate-user", "impersonate-uid", "impersonate-group", "accept"] {
        headers.append(name, HeaderValue::from_static("a"));
        headers.append(name, HeaderValue::from_static("b"));
    }
    headers.insert("impersonate-extra-scopes", HeaderValue::from_static("x"));
    strip(&mut headers);
    assert_eq!(headers.keys().collect::<Vec<_>>(), ["accept"]);
}

#[test]
fn extra_keys_are_unescaped_when_they_can_be() {
    for (key, want) in [("a%2fb", "a/b"), ("plain", "plain"), ("a%zz", "a%zz"), ("a%2", "a%2")] {
        assert_eq!(unescape(key), want);
    }
}

#[test]
fn memory_of_modes_is_bounded() {
    let impersonator = Impersonator::default();
    for i in 0..MAX_REMEMBERED + 5 {
        impersonator.remember(&format!("user{i}"), Mode::Legacy);
    }
    assert!(impersonator.lock().len() <= MAX_REMEMBERED);
}
