//! Machines come into being and do what their records say.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready};

both!(
    a_record_becomes_a_machine,
    a_machine_smaller_than_can_be_asked_for_is_told_of,
    the_same_name_in_two_namespaces_is_two_machines,
    power_follows_the_record,
    a_restart_is_carried_out_once,
    hooks_run_in_the_guest,
    guests_get_their_first_boot_data,
);

/// Work takes a moment, so that stages can be seen.
fn brisk() -> Value {
    json!({"work": {"create": "100ms", "start": "50ms", "boot": "100ms", "shutdown": "100ms"}})
}

async fn a_record_becomes_a_machine(lab: Lab) {
    lab.furnish(brisk()).await;
    let record = lab.record("web", json!({"disks": [{"name": "data", "sizeGiB": 5}]})).await;
    let vm = lab.until("web", "ready", is_ready).await;
    let status = &vm["status"];
    assert_eq!(status["phase"], "Running");
    assert!(!status["ips"][0].as_str().unwrap().is_empty(), "{status:#}");
    let stages = status["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 6);
    assert!(stages.iter().all(|stage| stage["state"] == "Completed"), "{stages:#?}");
    let made = lab.only();
    let uid = record["metadata"]["uid"].as_str().unwrap();
    assert!(made["machine"]["token"].as_str().unwrap().starts_with(uid), "{made:#}");
    assert!(made["machine"]["name"].as_str().unwrap().starts_with("web-"), "{made:#}");
    assert_eq!(made["machine"]["id"], status["id"]);
    assert_eq!(made["machine"]["disks"][1]["sizeGib"], 5);

    let operations = lab.api("sutler.dev/v1alpha1", "Operation");
    let found = operations.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 1, "one change is one Operation");
    let done = |operation: &Value| operation["status"]["state"] == "Completed";
    let name = found[0].name_any();
    lab.until_of("sutler.dev/v1alpha1", "Operation", &name, "completed", done).await.unwrap();
}

/// A class may be smaller than `spec.resources` may say, and so may what a platform gives.
async fn a_machine_smaller_than_can_be_asked_for_is_told_of(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.create(json!({"apiVersion": INFRA, "kind": "VMClass", "metadata": {"name": "tiny"},
        "spec": {"cpu": 1, "memory": "64Mi"}}))
        .await;
    let vm = lab.ready("web", json!({"classRef": {"name": "tiny"}})).await;
    assert_eq!(vm["status"]["currentResources"]["memoryMiB"], 64, "{vm:#}");
}

async fn the_same_name_in_two_namespaces_is_two_machines(lab: Lab) {
    let other = lab.neighbour().await;
    lab.furnish(json!({})).await;
    other.furnish(json!({})).await;
    let (one, two) = tokio::join!(lab.ready("web", json!({})), other.ready("web", json!({})));
    assert_ne!(one["status"]["id"], two["status"]["id"]);
    assert_eq!(lab.platform().len(), 2);
    other.delete("web").await;
    other.until_gone("web").await;
    assert_eq!(lab.only()["machine"]["id"], one["status"]["id"]);
}

async fn power_follows_the_record(lab: Lab) {
    lab.furnish(brisk()).await;
    lab.ready("web", json!({})).await;
    for (wanted, phase, power) in
        [("Off", "Stopped", "Off"), ("On", "Running", "On"), ("OffGraceful", "Stopped", "Off")]
    {
        lab.patch("web", json!({"spec": {"powerState": wanted}})).await;
        let vm = lab.until("web", "ready", is_ready).await;
        assert_eq!(vm["status"]["phase"], phase, "{wanted}");
        assert_eq!(lab.only()["machine"]["power"], power, "{wanted}");
    }
}

async fn a_restart_is_carried_out_once(lab: Lab) {
    lab.furnish(brisk()).await;
    let before = lab.ready("web", json!({})).await;
    let asked = json!({"metadata": {"annotations": {"sutler.dev/restart-requested-at": "now-1"}}});
    lab.patch("web", asked).await;
    let vm = lab
        .until("web", "restarted", |vm| vm["status"]["restartHandled"] == "now-1" && is_ready(vm))
        .await;
    assert_eq!(vm["status"]["id"], before["status"]["id"]);
    let operations = lab.api("sutler.dev/v1alpha1", "Operation");
    let found = operations.list(&ListParams::default()).await.unwrap().items;
    let restarts = found.iter().filter(|operation| operation.data["spec"]["type"] == "restart");
    assert_eq!(restarts.count(), 1, "{found:#?}");
}

async fn hooks_run_in_the_guest(lab: Lab) {
    lab.furnish(brisk()).await;
    let command = |file: &str| json!({"exec": {"command": ["touch", file]}});
    let spec =
        json!({"lifecycle": {"postStart": command("/started"), "preStop": command("/stopping")}});
    lab.ready("web", spec).await;
    assert!(lab.only()["files"]["/started"].is_string());
    assert!(lab.only()["files"]["/stopping"].is_null());
    lab.patch("web", json!({"spec": {"powerState": "Off"}})).await;
    lab.until("web", "off", |vm| vm["status"]["phase"] == "Stopped").await;
    assert!(lab.only()["files"]["/stopping"].is_string());
}

async fn guests_get_their_first_boot_data(lab: Lab) {
    lab.furnish(json!({})).await;
    let secrets: Api<Secret> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "boot"},
        "stringData": {"user-data": "#cloud-config\nfrom: secret\n", "meta-data": "instance-id: x\n"}});
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let inline = json!({"userData": {"cloudInit": {"inline": "#cloud-config\nfrom: record\n"}}});
    let record = lab.ready("inline", inline).await;
    let of = |vm: &Value| lab.platform()[vm["status"]["id"].as_str().unwrap()].clone();
    assert_eq!(of(&record)["user_data"], "#cloud-config\nfrom: record\n");
    let named = json!({"userData": {"cloudInit": {"secretRef": {"name": "boot"}}},
        "metaData": {"cloudInit": {"secretRef": {"name": "boot"}}}});
    let record = lab.ready("named", named).await;
    assert_eq!(of(&record)["user_data"], "#cloud-config\nfrom: secret\n");
    assert_eq!(of(&record)["meta_data"], "instance-id: x\n");
    let missing = json!({"userData": {"cloudInit": {"secretRef": {"name": "none"}}}});
    lab.record("missing", missing).await;
    let vm = lab
        .until_of(INFRA, "VirtualMachine", "missing", "blocked", |vm| {
            crate::lab::ready(vm)["reason"] == "ReferenceNotFound"
        })
        .await;
    let message = crate::lab::ready(&vm.unwrap())["message"].to_string();
    assert!(message.contains("none"), "{message}");
    assert_eq!(lab.platform().len(), 2);
}
