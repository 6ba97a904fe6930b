//! What cannot be done is refused or says why, and no machine is made of it.

use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready, machine, ready};

/// Our own kinds.
const SUTLER: &str = "sutler.dev/v1alpha1";

both!(
    what_is_not_there_is_named,
    what_does_not_fit_is_not_made,
    kinds_of_later_releases_say_so,
    other_platforms_say_that_they_are_not_in_this_build,
);

/// Whether a record has come to rest without a machine, or waits for a person or an object.
fn says_no(vm: &Value) -> bool {
    let ready = ready(vm);
    let passing = ["Pending", "Provisioning", "ProviderNotReady", "ImageNotReady", "Waiting"];
    ready["status"] == "False" && !passing.iter().any(|reason| ready["reason"] == *reason)
}

async fn what_is_not_there_is_named(lab: Lab) {
    lab.furnish(json!({})).await;
    for (name, spec, field) in [
        ("provider", json!({"providerRef": {"name": "nowhere"}}), "spec.providerRef"),
        ("class", json!({"classRef": {"name": "nowhere"}}), "spec.classRef"),
        ("image", json!({"imageRef": {"name": "nowhere"}}), "spec.imageRef"),
        (
            "network",
            json!({"networks": [{"name": "lan", "networkRef": {"name": "nowhere"}}]}),
            "spec.networks",
        ),
    ] {
        lab.record(name, spec).await;
        let vm = lab.until(name, "refused", says_no).await;
        assert_eq!(ready(&vm)["reason"], "ReferenceNotFound", "{vm:#}");
        let message = ready(&vm)["message"].as_str().unwrap();
        assert!(message.contains(field) && message.contains("nowhere"), "{message}");
        // Nothing was asked of the platform, so nothing holds the record back.
        lab.delete(name).await;
        lab.until_gone(name).await;
    }
    assert!(lab.platform().is_empty());
}

async fn what_does_not_fit_is_not_made(lab: Lab) {
    lab.furnish(json!({"hosts": [{"name": "h", "cpu": 4, "memoryMib": 4096}]})).await;
    let none = lab.try_create(machine("none", json!({"resources": {"memoryMiB": 0}}))).await;
    let error = none.unwrap_err().to_string();
    assert!(error.contains("spec.resources.memoryMiB"), "{error}");

    lab.record("large", json!({"resources": {"cpu": 64}})).await;
    let vm = lab.until("large", "refused", says_no).await;
    let reason = ready(&vm)["reason"].as_str().unwrap();
    assert!(["Exhausted", "Invalid"].contains(&reason), "{vm:#}");

    // Long names are cut where a hash keeps them apart; where they are to be exact, they cannot be.
    lab.patch_of("Provider", "sim", json!({"spec": {"naming": "Exact"}})).await.unwrap();
    lab.until_of(INFRA, "Provider", "sim", "ready", is_ready).await;
    let long = "a".repeat(200);
    lab.record(&long, json!({})).await;
    let vm = lab.until(&long, "refused", says_no).await;
    assert_eq!(ready(&vm)["reason"], "Invalid", "{vm:#}");
    assert!(lab.platform().is_empty());
    for name in ["large", &long] {
        lab.delete(name).await;
        lab.until_gone(name).await;
    }
}

async fn kinds_of_later_releases_say_so(lab: Lab) {
    let template = json!({"apiVersion": SUTLER, "kind": "VMTemplate", "metadata": {"name": "s"},
        "spec": {"imageRef": {"name": "debian"}, "classRef": {"name": "small"}}});
    lab.create(template).await;
    let set = |object: &Value| ready(object)["reason"] == "NotYetServed";
    let found = lab.until_of(SUTLER, "VMTemplate", "s", "told of", set).await.unwrap();
    assert!(ready(&found)["message"].as_str().unwrap().contains("VMTemplate"), "{found:#}");
}

async fn other_platforms_say_that_they_are_not_in_this_build(lab: Lab) {
    lab.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "vc"},
        "spec": {"type": "vsphere", "endpoint": "https://vc.example.org"}}))
        .await;
    let unsupported = |object: &Value| ready(object)["reason"] == "Unsupported";
    let found = lab.until_of(INFRA, "Provider", "vc", "refused", unsupported).await.unwrap();
    let message = ready(&found)["message"].as_str().unwrap();
    assert!(message.contains("vsphere") && message.contains("sim"), "{message}");
}
