//! Disks that outlive their machines: given to one at a time, kept, and removed with their records.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready, ready};

both!(
    a_disk_outlives_its_machine,
    a_disk_is_one_machines_at_a_time,
    a_sets_disks_stay_with_their_numbers,
    a_sets_disks_go_when_it_says_so,
);

const SUTLER: &str = "sutler.dev/v1alpha1";

fn brisk() -> Value {
    json!({"work": {"create": "50ms", "start": "20ms", "boot": "20ms", "delete": "20ms"}})
}

fn naming(disk: &str) -> Value {
    json!({"disks": [{"name": "data", "sizeGiB": 4, "diskRef": {"name": disk}}]})
}

/// Where the platform has the disk that a record names.
fn place(object: &Value) -> String {
    let disks = object["status"]["disks"].as_array().cloned().unwrap_or_default();
    let data = disks.iter().find(|disk| disk["name"] == "data");
    let path = data.and_then(|data| data["path"].as_str().map(str::to_owned));
    path.unwrap_or_else(|| panic!("no disk: {object:#}"))
}

impl Lab {
    async fn disk(&self, name: &str) {
        let spec = json!({"providerRef": {"name": "sim"}});
        self.create(json!({"apiVersion": SUTLER, "kind": "VMDisk",
            "metadata": {"name": name}, "spec": spec}))
            .await;
    }

    async fn disk_is(&self, name: &str, what: &str, done: fn(&Value) -> bool) -> Value {
        self.until_of(SUTLER, "VMDisk", name, what, done).await.unwrap_or_default()
    }

    async fn delete_disk(&self, name: &str) {
        self.api(SUTLER, "VMDisk").delete(name, &DeleteParams::default()).await.unwrap();
    }
}

fn attached(disk: &Value) -> bool {
    disk["status"]["phase"] == "Attached"
}

fn detached(disk: &Value) -> bool {
    disk["status"]["phase"] == "Detached" && disk["status"]["vmRef"].is_null()
}

async fn a_disk_outlives_its_machine(lab: Lab) {
    lab.furnish(brisk()).await;
    lab.disk("shop").await;
    let waits = lab.disk_is("shop", "taken on record", |disk| !ready(disk).is_null()).await;
    assert_eq!(
        (&ready(&waits)["status"], &waits["status"]["phase"]),
        (&json!("False"), &json!("Pending"))
    );
    let first = place(&lab.ready("one", naming("shop")).await);
    let disk = lab.disk_is("shop", "attached", attached).await;
    assert_eq!(disk["status"]["vmRef"]["name"], "one");
    assert_eq!(disk["status"]["sizeGiB"], 4);
    assert!(is_ready(&disk), "{disk:#}");

    lab.delete("one").await;
    lab.until_gone("one").await;
    let kept = lab.disk_is("shop", "detached", detached).await;
    assert!(is_ready(&kept) && kept["status"]["sizeGiB"] == 4, "{kept:#}");
    assert_eq!(lab.kept().len(), 1);

    // The next machine has the very same disk.
    assert_eq!(place(&lab.ready("two", naming("shop")).await), first);

    // It goes when nobody has it any more, and not before.
    lab.delete_disk("shop").await;
    let waits = lab.disk_is("shop", "waiting", |disk| disk["status"]["phase"] == "Deleting").await;
    let said = ready(&waits)["message"].as_str().unwrap();
    assert!(said.starts_with("VirtualMachine two has it"), "{waits:#}");
    assert_eq!(ready(&waits)["reason"], "Deleting");
    lab.delete("two").await;
    lab.disk_is("shop", "gone", Value::is_null).await;
    lab.until_gone("two").await;
    assert!(lab.kept().is_empty() && lab.platform().is_empty());
}

async fn a_disk_is_one_machines_at_a_time(lab: Lab) {
    lab.furnish(brisk()).await;
    lab.record("early", naming("shop")).await;
    let missing = |vm: &Value| ready(vm)["reason"] == "ReferenceNotFound";
    let early = lab.until("early", "refused", missing).await;
    assert!(ready(&early)["message"].as_str().unwrap().starts_with("spec.disks[data].diskRef"));
    lab.disk("shop").await;
    lab.until("early", "ready", is_ready).await;
    lab.record("late", naming("shop")).await;
    let waits = |vm: &Value| {
        ready(vm)["reason"] == "Waiting"
            && ready(vm)["message"]
                .as_str()
                .is_some_and(|said| said.contains("VirtualMachine early"))
    };
    lab.until("late", "waiting", waits).await;
    assert_eq!(lab.platform().len(), 1);

    // Whoever lets go of it while it runs makes room for the next.
    lab.patch("early", json!({"spec": {"powerState": "Off"}})).await;
    lab.patch("early", json!({"spec": {"disks": []}})).await;
    lab.until("late", "ready", is_ready).await;
    lab.disk_is("shop", "the other's", |disk| disk["status"]["vmRef"]["name"] == "late").await;
}

fn set(replicas: u32) -> Value {
    json!({"apiVersion": INFRA, "kind": "VMSet", "metadata": {"name": "db"}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "db"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}}],
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"providerRef": {"name": "sim"}, "classRef": {"name": "small"},
                "imageRef": {"name": "debian"}},
        },
    }})
}

impl Lab {
    async fn db(&self, what: &str, done: fn(&Value) -> bool) {
        self.until_of(INFRA, "VMSet", "db", what, done).await;
    }

    async fn places(&self) -> Vec<String> {
        let mut places = Vec::new();
        for name in ["db-0", "db-1"] {
            places.push(place(&self.until(name, "ready", is_ready).await));
        }
        places
    }
}

fn one(set: &Value) -> bool {
    is_ready(set) && set["spec"]["replicas"] == 1 && set["status"]["replicas"] == 1
}

fn two(set: &Value) -> bool {
    is_ready(set) && set["spec"]["replicas"] == 2 && set["status"]["replicas"] == 2
}

async fn a_sets_disks_stay_with_their_numbers(lab: Lab) {
    lab.furnish(brisk()).await;
    lab.create(set(2)).await;
    lab.db("ready", two).await;
    let before = lab.places().await;
    assert_ne!(before[0], before[1]);

    lab.patch_of("VMSet", "db", json!({"spec": {"replicas": 1}})).await.unwrap();
    lab.db("smaller", one).await;
    lab.disk_is("data-db-1", "detached", detached).await;
    lab.patch_of("VMSet", "db", json!({"spec": {"replicas": 2}})).await.unwrap();
    lab.db("larger", two).await;
    assert_eq!(lab.places().await, before);

    // New machines of an update have the disks of those that they replace.
    let tags = json!({"spec": {"template": {"spec": {"tags": ["v2"]}}}});
    lab.patch_of("VMSet", "db", tags).await.unwrap();
    lab.db("updated", |set| {
        let status = &set["status"];
        two(set) && status["updatedReplicas"] == 2 && status["updateStatus"]["phase"] == "Completed"
    })
    .await;
    assert_eq!(lab.places().await, before);

    lab.api(INFRA, "VMSet").delete("db", &DeleteParams::default()).await.unwrap();
    lab.db("gone", Value::is_null).await;
    for disk in ["data-db-0", "data-db-1"] {
        lab.disk_is(disk, "kept", detached).await;
    }
    assert_eq!(lab.kept().len(), 2);
    for disk in ["data-db-0", "data-db-1"] {
        lab.delete_disk(disk).await;
        lab.disk_is(disk, "gone", Value::is_null).await;
    }
    assert!(lab.kept().is_empty());
}

async fn a_sets_disks_go_when_it_says_so(lab: Lab) {
    lab.furnish(brisk()).await;
    let mut set = set(2);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    lab.create(set).await;
    lab.db("ready", two).await;
    lab.patch_of("VMSet", "db", json!({"spec": {"replicas": 1}})).await.unwrap();
    lab.disk_is("data-db-1", "gone", Value::is_null).await;
    assert_eq!(lab.kept().len(), 1);
    lab.disk_is("data-db-0", "still there", attached).await;
    lab.api(INFRA, "VMSet").delete("db", &DeleteParams::default()).await.unwrap();
    lab.disk_is("data-db-0", "gone", Value::is_null).await;
    assert!(lab.kept().is_empty() && lab.platform().is_empty());
}
