//! What API servers ask and are told.

use super::*;
use crate::{
    review::{self, NotAReview},
    webhook::{self, Place},
};

fn review(resource: &str, operation: &str, object: Value, old: Value) -> Value {
    let group = if resource == "nodes" { "" } else { "autoscaler.vpsie.com" };
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5", "operation": operation, "name": "web", "namespace": "ns",
            "resource": {"group": group, "version": "v1alpha1", "resource": resource},
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "object": object, "oldObject": old, "dryRun": false, "options": null,
        },
    })
}

fn said(review: &Value) -> Value {
    let answer = review::answer(review.to_string().as_bytes(), "sutler").unwrap();
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], "705ab4f5");
    answer["response"].clone()
}

#[test]
fn a_refusal_is_a_status_with_its_causes() {
    let bad =
        with(group(), &[("spec.desiredNodes", json!(99)), ("spec.labels", json!({"a b": ""}))]);
    let answer = said(&review("nodegroups", "CREATE", bad.clone(), Value::Null));
    assert_eq!(answer["allowed"], false);
    let status = &answer["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("NodeGroup.autoscaler.vpsie.com \"web\" is invalid: [spec."),
        "{message}"
    );
    assert_eq!(status["details"]["kind"], "NodeGroup");
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    assert_eq!(causes[1]["field"], "spec.desiredNodes");
    assert_eq!(causes[1]["reason"], "FieldValueInvalid");
    // A dry run is asked about as any other.
    let mut dry = review("nodegroups", "CREATE", bad.clone(), Value::Null);
    dry["request"]["dryRun"] = json!(true);
    assert_eq!(said(&dry)["allowed"], false);
    let answer = said(&review("nodegroups", "UPDATE", bad.clone(), bad));
    assert_eq!(answer["allowed"], true);
    assert!(answer.get("status").is_none());
}

#[test]
fn a_node_is_forbidden_to_go() {
    let answer = said(&review("nodes", "DELETE", Value::Null, node()));
    let status = &answer["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("nodes \"n\" is forbidden: VPSieNode web-0001 keeps"), "{message}");
    let mut own = review("nodes", "DELETE", Value::Null, node());
    own["request"]["userInfo"]["username"] = json!("sutler");
    assert_eq!(said(&own)["allowed"], true);
}

#[test]
fn warnings_come_along() {
    let alone = with(group(), &[("metadata.labels", json!({}))]);
    let answer = said(&review("nodegroups", "CREATE", alone, Value::Null));
    assert_eq!(answer["allowed"], true);
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_not_asked_about_is_allowed() {
    let bad = with(group(), &[("spec.minNodes", json!(99))]);
    let mut status = review("nodegroups", "UPDATE", bad.clone(), group());
    status["request"]["subResource"] = json!("status");
    assert_eq!(said(&status)["allowed"], true);
    assert_eq!(said(&review("others", "CREATE", bad.clone(), Value::Null))["allowed"], true);
    assert_eq!(said(&review("nodegroups", "CONNECT", bad, Value::Null))["allowed"], true);
}

#[test]
fn what_is_no_review_is_no_answer() {
    for (text, words) in [
        ("", "no AdmissionReview"),
        ("[]", "no AdmissionReview"),
        (r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#, "no request"),
        (r#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}"#, "v1beta1"),
        (r#"{"apiVersion": "v1", "kind": "Pod"}"#, "Pod"),
    ] {
        let error: NotAReview = review::answer(text.as_bytes(), "sutler").unwrap_err();
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
}

#[test]
fn defect_25_the_webhooks_need_no_rights_on_namespaces_and_cannot_hold_up_a_cluster() {
    let place = Place::Url("https://10.0.0.5:9443/admission".to_owned());
    let object = webhook::configuration(&place, "Q0E=");
    let webhooks = object["webhooks"].as_array().unwrap();
    assert_eq!(webhooks.len(), 2);
    for one in webhooks {
        assert_eq!(one["failurePolicy"], "Ignore", "{one:#}");
        assert_eq!(one["sideEffects"], "None", "dry runs are asked about");
        assert!(one["timeoutSeconds"].as_u64().unwrap() <= 10);
        assert!(one.get("namespaceSelector").is_none());
        assert_eq!(one["clientConfig"]["caBundle"], "Q0E=");
        assert_eq!(one["clientConfig"]["url"], "https://10.0.0.5:9443/admission");
        // No subresources: the kubelet's heartbeats and our statuses never come by.
        let resources = one["rules"][0]["resources"].as_array().unwrap();
        assert!(resources.iter().all(|name| !name.as_str().unwrap().contains(['/', '*'])));
        for resource in resources {
            let group = one["rules"][0]["apiGroups"][0].as_str().unwrap();
            assert!(Kind::of(group, resource.as_str().unwrap()).is_some());
        }
    }
    let selector = &webhooks[1]["objectSelector"]["matchExpressions"][0];
    assert_eq!(selector["key"], "autoscaler.vpsie.com/vpsienode");
    let place = Place::Service { namespace: "s".to_owned(), name: "n".to_owned(), port: 443 };
    let object = webhook::configuration(&place, "Q0E=");
    let service = &object["webhooks"][0]["clientConfig"]["service"];
    assert_eq!(service, &json!({"namespace": "s", "name": "n", "port": 443, "path": "/admission"}));
}
