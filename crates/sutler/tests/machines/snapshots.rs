//! Snapshots are taken, gone back to, kept and deleted as their records say.

use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready, ready};

both!(
    a_snapshot_is_taken_gone_back_to_and_deleted,
    what_cannot_be_saved_is_named,
    a_schedule_takes_and_retires,
    a_snapshot_goes_with_its_machine,
    a_hook_takes_a_snapshot,
);

fn snapshot(name: &str, spec: Value) -> Value {
    let mut whole = json!({"vmRef": {"name": "web"}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": INFRA, "kind": "VMSnapshot", "metadata": {"name": name}, "spec": whole})
}

fn brisk() -> Value {
    json!({"work": {"create": "50ms", "start": "20ms", "boot": "20ms", "snapshot": "100ms"}})
}

/// The names of the snapshots that the only machine has.
fn saved(lab: &Lab) -> Vec<String> {
    let machine = lab.only();
    let saved = machine["saved"].as_array().cloned().unwrap_or_default();
    saved.iter().map(|saved| saved["info"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn a_snapshot_is_taken_gone_back_to_and_deleted(lab: Lab) {
    lab.furnish(brisk()).await;
    lab.ready("web", json!({"resources": {"cpu": 1}})).await;
    let config = json!({"snapshotConfig": {"description": "as it was", "includeMemory": true}});
    lab.create(snapshot("before", config)).await;
    let taken = lab.until_of(INFRA, "VMSnapshot", "before", "taken", is_ready).await.unwrap();
    let status = &taken["status"];
    assert_eq!(status["phase"], "Ready", "{taken:#}");
    assert!(status["snapshotID"].is_string() && status["creationTime"].is_string(), "{taken:#}");
    let names = saved(&lab);
    assert!(names.len() == 1 && names[0].starts_with("before-"), "{names:?}");
    let operations = lab.api("sutler.dev/v1alpha1", "Operation");
    let found = operations.list(&ListParams::default()).await.unwrap().items;
    let taking = found.iter().find(|operation| operation.data["spec"]["type"] == "snapshot");
    let name = taking.unwrap().name_any();
    let done = |operation: &Value| operation["status"]["state"] == "Completed";
    lab.until_of("sutler.dev/v1alpha1", "Operation", &name, "completed", done).await.unwrap();

    // A second look takes no second one.
    lab.patch_of("VMSnapshot", "before", json!({"spec": {"metadata": {"pinned": true}}}))
        .await
        .unwrap();
    lab.until_of(INFRA, "VMSnapshot", "before", "looked at", is_ready).await.unwrap();
    assert_eq!(saved(&lab), names);

    lab.patch("web", json!({"spec": {"snapshot": {"revertToRef": {"name": "before"}}}})).await;
    let back = |vm: &Value| vm["status"]["revertedTo"] == "before" && is_ready(vm);
    lab.until("web", "back", back).await;
    let events = lab.api("v1", "Event").list(&ListParams::default()).await.unwrap().items;
    let reverts = events.iter().filter(|event| event.data["reason"] == "Reverted");
    assert_eq!(reverts.count(), 1);

    let api = lab.api(INFRA, "VMSnapshot");
    api.delete("before", &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "VMSnapshot", "before", "gone", Value::is_null).await;
    assert!(saved(&lab).is_empty());
}

async fn what_cannot_be_saved_is_named(lab: Lab) {
    lab.furnish(json!({"without": ["memorySnapshots"]})).await;
    lab.ready("web", json!({})).await;
    for (name, spec, field) in [
        ("memory", json!({"snapshotConfig": {"includeMemory": true}}), "includeMemory"),
        ("sealed", json!({"snapshotConfig": {"encryption": {"enabled": true}}}), "encryption"),
        ("nowhere", json!({"vmRef": {"name": "nowhere"}}), "spec.vmRef"),
        ("never", json!({"schedule": {"enabled": true, "cronSpec": "0 0 31 2 *"}}), "cronSpec"),
        (
            "nozone",
            json!({"schedule": {"enabled": true, "cronSpec": "@daily", "timezone": "Mars"}}),
            "timezone",
        ),
    ] {
        lab.create(snapshot(name, spec)).await;
        let said = |object: &Value| {
            ready(object)["status"] == "False" && ready(object)["reason"] != "Waiting"
        };
        let found = lab.until_of(INFRA, "VMSnapshot", name, "refused", said).await.unwrap();
        let message = ready(&found)["message"].as_str().unwrap();
        assert!(message.contains(field), "{name}: {message}");
    }
    assert!(saved(&lab).is_empty());
}

async fn a_schedule_takes_and_retires(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.ready("web", json!({})).await;
    lab.create(snapshot("mine", json!({}))).await;
    lab.until_of(INFRA, "VMSnapshot", "mine", "taken", is_ready).await.unwrap();
    lab.create(snapshot(
        "often",
        json!({"schedule": {"enabled": true, "cronSpec": "* * * * * *"},
            "retentionPolicy": {"maxCount": 2}}),
    ))
    .await;
    let begun = |object: &Value| object["status"]["lastScheduleTime"].is_string();
    lab.until_of(INFRA, "VMSnapshot", "often", "begun", begun).await.unwrap();
    let api = lab.api(INFRA, "VMSnapshot");
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let runs =
        all.iter().map(kube::ResourceExt::name_any).filter(|name| name.starts_with("often-"));
    let first = runs.min().unwrap();
    // When the first of all is gone, more than two were taken.
    lab.until_of(INFRA, "VMSnapshot", &first, "retired", Value::is_null).await;
    let stop = json!({"spec": {"schedule": {"suspend": true}}});
    lab.patch_of("VMSnapshot", "often", stop).await.unwrap();
    let held = |object: &Value| ready(object)["reason"] == "Suspended" && is_ready(object);
    let schedule = lab.until_of(INFRA, "VMSnapshot", "often", "suspended", held).await.unwrap();
    assert!(schedule["status"]["lastScheduleTime"].is_string(), "{schedule:#}");
    // What is not the schedule's stays.
    assert!(saved(&lab).iter().any(|name| name.starts_with("mine-")));
}

async fn a_snapshot_goes_with_its_machine(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.ready("web", json!({})).await;
    lab.create(snapshot("one", json!({}))).await;
    lab.create(snapshot("two", json!({"retentionPolicy": {"deleteOnVMDelete": false}}))).await;
    for name in ["one", "two"] {
        lab.until_of(INFRA, "VMSnapshot", name, "taken", is_ready).await.unwrap();
    }
    lab.delete("web").await;
    lab.until_gone("web").await;
    lab.until_of(INFRA, "VMSnapshot", "one", "gone", Value::is_null).await;
    let lost = |object: &Value| ready(object)["reason"] == "Lost";
    lab.until_of(INFRA, "VMSnapshot", "two", "lost", lost).await.unwrap();
    let api = lab.api(INFRA, "VMSnapshot");
    api.delete("two", &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "VMSnapshot", "two", "gone", Value::is_null).await;
}

async fn a_hook_takes_a_snapshot(lab: Lab) {
    lab.furnish(brisk()).await;
    let hook = json!({"lifecycle": {"preStop": {"snapshot": {"name": "before-stop"}}}});
    lab.ready("web", hook).await;
    lab.patch("web", json!({"spec": {"powerState": "Off"}})).await;
    lab.until("web", "off", |vm| vm["status"]["phase"] == "Stopped").await;
    let names = saved(&lab);
    assert_eq!(names.len(), 1, "{names:?}");
    let all = lab.api(INFRA, "VMSnapshot").list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 1);
    assert!(all[0].name_any().starts_with("web-before-stop-"), "{}", all[0].name_any());
}
