//! What cannot work on a real host: it is said of the object that asks for it, and nothing is left.

use std::path::{Path, PathBuf};

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{
    lab::{self, INFRA, Lab, is_ready, ready},
    libvirt::{furnish, image, virsh, volumes},
    server::Form,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_not_there_is_named_and_nothing_is_left() {
    let Some(image) = image() else { return };
    lab::run(Form::Embedded, |lab| refused(lab, image)).await;
}

async fn refused(lab: Lab, image: PathBuf) {
    furnish(&lab, &image).await;
    machines(&lab).await;
    images(&lab, &image).await;
    providers(&lab).await;
    remove_image(&lab, "debian").await;
    assert_eq!(volumes(&lab.namespace), Vec::<String>::new());
}

/// Waits until an object is not ready for this reason.
async fn until_refused(lab: &Lab, kind: &str, name: &str, want: &str) {
    let fits = |object: &Value| {
        let ready = ready(object);
        ready["status"] == "False" && ready["message"].as_str().unwrap_or_default().contains(want)
    };
    lab.until_of(INFRA, kind, name, &format!("refused for {want:?}"), fits).await.unwrap();
}

async fn remove_image(lab: &Lab, name: &str) {
    lab.api(INFRA, "VMImage").delete(name, &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "VMImage", name, "gone", Value::is_null).await;
}

async fn machines(lab: &Lab) {
    lab.create(json!({"apiVersion": INFRA, "kind": "VMNetworkAttachment",
        "metadata": {"name": "nowhere"},
        "spec": {"network": {"libvirt": {"networkName": "nowhere"}}}}))
        .await;
    let nowhere = json!({"name": "lan", "networkRef": {"name": "nowhere"}});
    for (name, spec, want) in [
        ("pool", json!({"placement": {"datastore": "nowhere"}}), "no storage pool \"nowhere\""),
        ("net", json!({"networks": [nowhere]}), "no network \"nowhere\""),
        ("cpus", json!({"resources": {"cpu": 128}}), "128 CPUs are more than the host's"),
    ] {
        lab.record(name, spec).await;
        until_refused(lab, "VirtualMachine", name, want).await;
        assert!(!virsh(&["list", "--all", "--name"]).contains(&format!("{name}-")), "{name}");
        lab.delete(name).await;
        lab.until_gone(name).await;
    }
}

/// Images that are not what was said of them, and machines that wait for them.
async fn images(lab: &Lab, image: &Path) {
    // The Provider may read files from there.
    let folder = tempfile::tempdir_in(image.parent().unwrap()).unwrap();
    let broken = folder.path().join("broken.qcow2");
    std::fs::write(&broken, &std::fs::read(image).unwrap()[..70_000]).unwrap();
    let wrong = json!({"path": image, "checksumType": "sha256", "checksum": "00".repeat(32)});
    for (name, source, want) in [
        ("missing", json!({"path": folder.path().join("nothing.qcow2")}), "No such file"),
        ("broken", json!({"path": broken}), "it is cut off"),
        ("wrong", wrong, "its sha256 is"),
        (
            "outside",
            json!({"path": "/etc/passwd"}),
            "is in no folder that spec.options.folders has",
        ),
    ] {
        lab.create(json!({"apiVersion": INFRA, "kind": "VMImage", "metadata": {"name": name},
            "spec": {"source": {"libvirt": source}}}))
            .await;
        let machine = format!("of-{name}");
        lab.record(&machine, json!({"imageRef": {"name": name}})).await;
        until_refused(lab, "VMImage", name, want).await;
        until_refused(lab, "VirtualMachine", &machine, want).await;
        assert!(!virsh(&["list", "--all", "--name"]).contains(&machine), "{machine}");
        lab.delete(&machine).await;
        lab.until_gone(&machine).await;
        remove_image(lab, name).await;
    }
}

/// Providers whose host cannot be reached. The one that the first start made, of this host, can be.
async fn providers(lab: &Lab) {
    let usual = lab.in_namespace("default");
    usual.until_of(INFRA, "Provider", "libvirt", "ready", is_ready).await.unwrap();
    for (name, endpoint, want) in [
        ("scheme", "vbox:///session", "is of a kind that is not served"),
        ("path", "qemu:///nowhere", "qemu:///nowhere cannot be reached"),
        ("keyless", "qemu+ssh://root@127.0.0.1/system", "the Secret has no key \"ssh-privatekey\""),
    ] {
        lab.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": name},
            "spec": {"type": "libvirt", "endpoint": endpoint,
                "healthCheck": {"interval": "1s", "timeout": "20s", "failureThreshold": 1}}}))
            .await;
        until_refused(lab, "Provider", name, want).await;
        lab.api(INFRA, "Provider").delete(name, &DeleteParams::default()).await.unwrap();
        lab.until_of(INFRA, "Provider", name, "gone", Value::is_null).await;
    }
}
