//! Machines go with their records, or stay where they should.

use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, ready};

both!(
    a_machine_goes_with_its_record,
    a_retained_machine_stays,
    a_forgotten_machine_is_an_orphan,
    a_platform_that_is_down_keeps_the_record,
);

async fn a_machine_goes_with_its_record(lab: Lab) {
    lab.furnish(json!({"work": {"delete": "50ms"}})).await;
    lab.ready("web", json!({})).await;
    lab.delete("web").await;
    lab.until_gone("web").await;
    assert!(lab.platform().is_empty());
}

async fn a_retained_machine_stays(lab: Lab) {
    lab.furnish(json!({})).await;
    let vm = lab.ready("web", json!({"deletionPolicy": "Retain"})).await;
    lab.delete("web").await;
    lab.until_gone("web").await;
    let left = lab.only();
    assert_eq!(left["machine"]["id"], vm["status"]["id"]);
    assert_eq!(left["machine"]["power"], "On");
    assert!(left["machine"]["token"].is_null(), "it is nobody's now: {left:#}");
    let id = vm["status"]["id"].clone();
    let told = move |provider: &Value| provider["status"]["unmanaged"][0]["id"] == id;
    lab.until_of(INFRA, "Provider", "sim", "telling of what is nobody's", told).await;
}

async fn a_forgotten_machine_is_an_orphan(lab: Lab) {
    lab.furnish(json!({})).await;
    let vm = lab.ready("web", json!({})).await;
    let forget = json!({"metadata": {"annotations": {"sutler.dev/forget": "true"}}});
    lab.patch("web", forget).await;
    lab.delete("web").await;
    lab.until_gone("web").await;
    assert_eq!(lab.only()["machine"]["id"], vm["status"]["id"]);
    // Another Provider of the same platform looks at it with fresh eyes.
    let other = lab.neighbour().await;
    other.furnish(json!({})).await;
    let told = |provider: &Value| provider["status"]["orphans"][0]["id"].is_string();
    let provider = other.until_of(INFRA, "Provider", "sim", "told of", told).await.unwrap();
    assert_eq!(provider["status"]["orphans"][0]["id"], vm["status"]["id"]);
    assert_eq!(lab.platform().len(), 1, "it is left alone");
}

async fn a_platform_that_is_down_keeps_the_record(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.ready("web", json!({})).await;
    let down = json!({"spec": {"options": {"faults": {"refuse": 1.0}}}});
    lab.patch_of("Provider", "sim", down).await.unwrap();
    lab.until_of(INFRA, "Provider", "sim", "not ready", |provider| {
        ready(provider)["status"] == "False"
    })
    .await;
    lab.delete("web").await;
    let vm = lab
        .until("web", "held", |vm| {
            vm["metadata"]["deletionTimestamp"].is_string()
                && vm["status"]["waiting"]["message"].is_string()
        })
        .await;
    assert!(!vm["metadata"]["finalizers"].as_array().unwrap().is_empty());
    assert_eq!(vm["status"]["phase"], "Deleting");
    assert_eq!(lab.platform().len(), 1);
    let up = json!({"spec": {"options": {"faults": {"refuse": 0.0}}}});
    lab.patch_of("Provider", "sim", up).await.unwrap();
    lab.until_gone("web").await;
    assert!(lab.platform().is_empty());
}
