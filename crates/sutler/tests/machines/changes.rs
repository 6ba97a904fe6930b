//! Machines follow when their records, or what these refer to, change.

use serde_json::json;

use crate::lab::{Lab, is_ready, ready};

both!(
    a_machine_grows_with_its_record,
    a_class_reaches_its_machines,
    a_paused_record_changes_nothing,
);

async fn a_machine_grows_with_its_record(lab: Lab) {
    lab.furnish(json!({"work": {"reconfigure": "50ms"}})).await;
    let disk = |size: u32| json!([{"name": "data", "sizeGiB": size, "expandPolicy": "Online"}]);
    let before = lab.ready("web", json!({"disks": disk(5)})).await;
    let wish = json!({"spec": {"resources": {"cpu": 4, "memoryMiB": 4096}, "disks": disk(20)}});
    lab.patch("web", wish).await;
    let vm = lab.until("web", "ready", is_ready).await;
    assert_eq!(vm["status"]["id"], before["status"]["id"], "it is the same machine");
    assert_eq!(vm["status"]["currentResources"], json!({"cpu": 4, "memoryMiB": 4096}));
    let made = lab.only();
    assert_eq!(made["machine"]["cpu"], 4);
    assert_eq!(made["machine"]["memoryMib"], 4096);
    assert_eq!(made["machine"]["disks"][1]["sizeGib"], 20);

    let shrunk = lab.patch_of("VirtualMachine", "web", json!({"spec": {"disks": disk(10)}})).await;
    let error = shrunk.unwrap_err().to_string();
    assert!(error.contains("a disk cannot shrink"), "{error}");
}

async fn a_class_reaches_its_machines(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.ready("web", json!({})).await;
    lab.patch_of("VMClass", "small", json!({"spec": {"cpu": 3}})).await.unwrap();
    lab.until("web", "larger", |vm| vm["status"]["currentResources"]["cpu"] == 3 && is_ready(vm))
        .await;
    assert_eq!(lab.only()["machine"]["cpu"], 3);
}

async fn a_paused_record_changes_nothing(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.ready("web", json!({})).await;
    let paused = json!({"metadata": {"annotations": {"sutler.dev/paused": "true"}},
        "spec": {"resources": {"cpu": 8}}});
    lab.patch("web", paused).await;
    lab.until("web", "paused", |vm| {
        ready(vm)["reason"] == "Paused"
            && ready(vm)["observedGeneration"] == vm["metadata"]["generation"]
    })
    .await;
    assert_eq!(lab.only()["machine"]["cpu"], 1);
    let on = json!({"metadata": {"annotations": {"sutler.dev/paused": null}}});
    lab.patch("web", on).await;
    lab.until("web", "larger", |vm| vm["status"]["currentResources"]["cpu"] == 8 && is_ready(vm))
        .await;
    assert_eq!(lab.only()["machine"]["cpu"], 8);
}
