//! Copies of machines, snapshots and images.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready, ready};

both!(
    a_machine_is_copied,
    a_snapshot_is_copied_and_shares_its_disks,
    an_image_becomes_a_machine,
    a_copy_that_is_given_up_leaves_nothing,
    what_cannot_be_copied_is_named,
);

fn clone(name: &str, spec: Value) -> Value {
    let mut whole =
        json!({"source": {"vmRef": {"name": "web"}}, "target": {"name": format!("{name}-vm")}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": INFRA, "kind": "VMClone", "metadata": {"name": name}, "spec": whole})
}

/// The machine on the platform that a record has.
async fn machine_of(lab: &Lab, name: &str) -> Value {
    let vm = lab.until(name, "ready", is_ready).await;
    let id = vm["status"]["id"].as_str().unwrap();
    lab.platform().get(id).cloned().unwrap_or_default()
}

async fn a_machine_is_copied(lab: Lab) {
    lab.furnish(json!({"work": {"clone": "100ms"}})).await;
    lab.ready("web", json!({"disks": [{"name": "data", "sizeGiB": 5}]})).await;
    lab.create(clone(
        "copy",
        json!({
            "target": {"name": "copy-vm", "labels": {"app": "shop"}},
            "options": {"powerOn": true, "parallel": true},
            "customization": {"hostname": "two", "domain": "example.org", "timeZone": "UTC",
                "userData": {"cloudInit": {"inline": "#cloud-config\n{}"}}, "tags": ["blue"]},
        }),
    ))
    .await;
    let done = lab.until_of(INFRA, "VMClone", "copy", "made", is_ready).await.unwrap();
    let status = &done["status"];
    assert_eq!(status["phase"], "Ready", "{done:#}");
    assert_eq!(status["actualCloneType"], "FullClone");
    assert_eq!(status["progress"]["overallPercentage"], 100);
    let said = status["conditions"].as_array().unwrap();
    let idle = said.iter().find(|condition| condition["type"] == "Supported").unwrap();
    assert!(idle["message"].as_str().unwrap().contains("spec.options.parallel"), "{idle:#}");
    let vm = lab.until("copy-vm", "ready", is_ready).await;
    assert_eq!(vm["metadata"]["labels"]["app"], "shop");
    assert!(vm["metadata"]["ownerReferences"].is_null(), "it is a machine of its own");
    assert_eq!(status["targetVMID"], vm["status"]["id"]);
    let made = machine_of(&lab, "copy-vm").await;
    assert_eq!(made["machine"]["disks"][1]["sizeGib"], 5, "{made:#}");
    assert_eq!(made["hostname"], "two.example.org");
    assert_eq!(made["files"]["/etc/timezone"], "UTC");
    assert!(made["user_data"].as_str().unwrap().contains("cloud-config"), "{made:#}");
    assert_eq!(lab.platform().len(), 2);

    // A copy that was made stays when its request goes, and is not made again when it goes itself.
    let api = lab.api(INFRA, "VMClone");
    api.delete("copy", &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "VMClone", "copy", "gone", Value::is_null).await;
    lab.until("copy-vm", "ready", is_ready).await;
    assert_eq!(lab.platform().len(), 2);
}

async fn a_snapshot_is_copied_and_shares_its_disks(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.ready("web", json!({})).await;
    lab.create(json!({"apiVersion": INFRA, "kind": "VMSnapshot", "metadata": {"name": "before"},
        "spec": {"vmRef": {"name": "web"}}}))
        .await;
    let spec = json!({"source": {"snapshotRef": {"name": "before"}},
        "options": {"type": "LinkedClone"}});
    lab.create(clone("linked", spec)).await;
    let done = lab.until_of(INFRA, "VMClone", "linked", "made", is_ready).await.unwrap();
    assert_eq!(done["status"]["actualCloneType"], "LinkedClone");
    let made = machine_of(&lab, "linked-vm").await;
    assert!(made["machine"]["disks"][0]["backingFile"].is_string(), "{made:#}");
    assert_eq!(made["machine"]["power"], "Off");
    // Once it was made, its record is its own: deleting that deletes its machine and no more.
    lab.delete("linked-vm").await;
    lab.until_gone("linked-vm").await;
    assert_eq!(lab.platform().len(), 1);
    let still = lab.api(INFRA, "VMClone").get("linked").await.unwrap();
    assert_eq!(still.data["status"]["phase"], "Ready");
}

async fn an_image_becomes_a_machine(lab: Lab) {
    lab.furnish(json!({})).await;
    let spec = json!({"source": {"imageRef": {"name": "debian"}}, "target": {"name": "fresh",
        "providerRef": {"name": "sim"}, "classRef": {"name": "small"}},
        "options": {"powerOn": true}, "customization": {"hostname": "first"}});
    lab.create(clone("image", spec)).await;
    lab.until_of(INFRA, "VMClone", "image", "made", is_ready).await.unwrap();
    let made = machine_of(&lab, "fresh").await;
    assert_eq!(made["meta_data"], "local-hostname: first\n", "{made:#}");
}

async fn a_copy_that_is_given_up_leaves_nothing(lab: Lab) {
    // Without tasks, an answered request is known to be over, and its record need not wait.
    lab.furnish(json!({"tasks": false, "work": {"clone": "2s"}})).await;
    lab.ready("web", json!({})).await;
    lab.create(clone("hasty", json!({}))).await;
    let begun = |object: &Value| object["status"]["targetRef"]["name"] == "hasty-vm";
    lab.until_of(INFRA, "VMClone", "hasty", "begun", begun).await.unwrap();
    let api = lab.api(INFRA, "VMClone");
    api.delete("hasty", &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "VMClone", "hasty", "gone", Value::is_null).await;
    lab.until_gone("hasty-vm").await;
    assert_eq!(lab.platform().len(), 1);
}

async fn what_cannot_be_copied_is_named(lab: Lab) {
    lab.furnish(json!({"without": ["linkedClones"]})).await;
    lab.ready("web", json!({})).await;
    lab.record("taken", json!({})).await;
    for (name, spec, field) in [
        ("linked", json!({"options": {"type": "LinkedClone"}}), "spec.options.type"),
        ("instant", json!({"options": {"type": "InstantClone"}}), "spec.options.type"),
        ("nowhere", json!({"source": {"vmRef": {"name": "nowhere"}}}), "spec.source.vmRef"),
        ("template", json!({"source": {"templateRef": {"name": "t"}}}), "templateRef"),
        ("clash", json!({"target": {"name": "taken"}}), "spec.target.name"),
    ] {
        lab.create(clone(name, spec)).await;
        let said = |object: &Value| {
            ready(object)["status"] == "False" && ready(object)["reason"] != "Cloning"
        };
        let found = lab.until_of(INFRA, "VMClone", name, "refused", said).await.unwrap();
        let message = ready(&found)["message"].as_str().unwrap();
        assert!(message.contains(field), "{name}: {message}");
    }
    lab.until("taken", "ready", is_ready).await;
    assert_eq!(lab.platform().len(), 2);
}
