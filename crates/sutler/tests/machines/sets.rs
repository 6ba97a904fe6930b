//! Sets of machines: how many there are, how they are replaced, and how they go.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready, ready};

both!(
    a_set_makes_its_machines_and_lets_them_go,
    an_update_replaces_a_few_at_a_time,
    a_failing_update_stops_at_its_floor,
    below_the_partition_machines_stay_as_they_are,
    scaling_goes_through_the_scale_subresource,
    what_a_set_cannot_do_is_said,
);

fn set(name: &str, replicas: u32, rolling: Value) -> Value {
    json!({"apiVersion": INFRA, "kind": "VMSet", "metadata": {"name": name}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "updateStrategy": {"rollingUpdate": rolling},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"providerRef": {"name": "sim"}, "classRef": {"name": "small"},
                "imageRef": {"name": "debian"}},
        },
    }})
}

impl Lab {
    async fn set_is(&self, name: &str, what: &str, done: fn(&Value) -> bool) -> Value {
        self.until_of(INFRA, "VMSet", name, what, done).await.unwrap_or_default()
    }

    /// Waits until a machine is there under a name that another one had.
    async fn made_anew(&self, name: &str, lost: &Value) {
        let anew = |vm: &Value| is_ready(vm) && vm["metadata"]["uid"] != *lost;
        self.until_of(INFRA, "VirtualMachine", name, "made anew", anew).await;
    }

    /// The records of a set, by name.
    async fn members(&self, set: &str) -> Vec<Value> {
        let ours = ListParams::default().labels(&format!("app={set}"));
        let list = self.api(INFRA, "VirtualMachine").list(&ours).await.unwrap();
        let mut all: Vec<Value> =
            list.items.iter().map(|vm| serde_json::to_value(vm).unwrap()).collect();
        all.sort_by_key(|vm| vm["metadata"]["name"].as_str().unwrap().to_owned());
        all
    }

    async fn names(&self, set: &str) -> Vec<String> {
        let name = |vm: &Value| vm["metadata"]["name"].as_str().unwrap().to_owned();
        self.members(set).await.iter().map(name).collect()
    }
}

async fn a_set_makes_its_machines_and_lets_them_go(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.create(set("web", 3, json!({}))).await;
    let web = lab.set_is("web", "ready", is_ready).await;
    let status = &web["status"];
    for count in ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"] {
        assert_eq!(status[count], 3, "{count}: {status:#}");
    }
    assert_eq!(status["selector"], "app=web");
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(lab.names("web").await, ["web-0", "web-1", "web-2"]);
    assert_eq!(lab.platform().len(), 3);

    // One that somebody deletes comes back under its name.
    let lost = lab.members("web").await[1]["metadata"]["uid"].clone();
    lab.delete("web-1").await;
    lab.made_anew("web-1", &lost).await;
    lab.set_is("web", "ready again", is_ready).await;

    lab.api(INFRA, "VMSet").delete("web", &DeleteParams::default()).await.unwrap();
    lab.set_is("web", "gone", Value::is_null).await;
    assert!(lab.names("web").await.is_empty() && lab.platform().is_empty());
}

async fn an_update_replaces_a_few_at_a_time(lab: Lab) {
    lab.furnish(json!({})).await;
    let rolling = json!({"maxUnavailable": 1, "maxSurge": 1, "podManagementPolicy": "Parallel"});
    lab.create(set("web", 6, rolling)).await;
    let first = lab.set_is("web", "ready", is_ready).await;
    let uids = |members: &[Value]| -> Vec<Value> {
        members.iter().map(|vm| vm["metadata"]["uid"].clone()).collect()
    };
    let before = uids(&lab.members("web").await);

    // Whoever watches the set sees at any time as many machines as there must be.
    let floor = tokio::spawn({
        let lab = lab.clone();
        async move {
            lab.set_is("web", "updated", |set| {
                let status = &set["status"];
                let available = status["availableReplicas"].as_i64().unwrap_or(0);
                let all = status["replicas"].as_i64().unwrap_or(0);
                assert!(available >= 5 && all <= 7, "{status:#}");
                is_ready(set)
                    && status["updatedReplicas"] == 6
                    && status["updateStatus"]["phase"] == "Completed"
            })
            .await
        }
    });
    let tags = json!({"spec": {"template": {"spec": {"tags": ["v2"]}}}});
    lab.patch_of("VMSet", "web", tags).await.unwrap();
    let done = floor.await.unwrap();
    assert_ne!(done["status"]["updateRevision"], first["status"]["updateRevision"]);
    assert_eq!(done["status"]["currentRevision"], done["status"]["updateRevision"]);
    let after = lab.members("web").await;
    assert_eq!(after.len(), 6);
    assert!(after.iter().all(|vm| vm["spec"]["tags"] == json!(["v2"])), "{after:#?}");
    assert!(uids(&after).iter().all(|uid| !before.contains(uid)));
    let machines = lab.platform();
    assert_eq!(machines.len(), 6, "{machines:#?}");

    // The templates that there were are kept.
    let kept = ListParams::default()
        .labels(&format!("sutler.dev/vmset-uid={}", done["metadata"]["uid"].as_str().unwrap()));
    let kept = lab.api("v1", "Secret").list(&kept).await.unwrap();
    assert_eq!(kept.items.len(), 2);
}

async fn a_failing_update_stops_at_its_floor(lab: Lab) {
    lab.furnish(json!({})).await;
    let rolling = json!({"maxUnavailable": 2, "maxSurge": 0, "podManagementPolicy": "Parallel"});
    lab.create(set("web", 5, rolling)).await;
    lab.set_is("web", "ready", is_ready).await;
    let broken = json!({"spec": {"template": {"spec": {"classRef": {"name": "nowhere"}}}}});
    lab.patch_of("VMSet", "web", broken).await.unwrap();
    let stuck = |set: &Value| {
        let status = &set["status"];
        assert!(status["availableReplicas"].as_i64().unwrap_or(5) >= 3, "{status:#}");
        status["updatedReplicas"] == 2 && status["availableReplicas"] == 3
    };
    let set = lab.set_is("web", "stuck", stuck).await;
    assert_eq!(ready(&set)["reason"], "Updating", "{set:#}");
    assert!(set["status"]["waiting"]["since"].is_string(), "{set:#}");
    assert_eq!(lab.platform().len(), 3);
    // What is mended goes on: the machines that could not be made go first.
    let mended =
        json!({"spec": {"template": {"spec": {"classRef": {"name": "small"}, "tags": ["v3"]}}}});
    lab.patch_of("VMSet", "web", mended).await.unwrap();
    lab.set_is("web", "updated", |set| {
        let status = &set["status"];
        assert!(status["availableReplicas"].as_i64().unwrap_or(5) >= 3, "{status:#}");
        is_ready(set) && status["updatedReplicas"] == 5
    })
    .await;
    assert_eq!(lab.platform().len(), 5);
}

/// A hundred machines on a platform where making one often fails: at no time are fewer available than
/// must be, nor more there than may be. Tasks fail seldom: one that fails three times waits for a person.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_update_of_a_hundred_keeps_its_floor_while_machines_fail() {
    crate::lab::run(crate::server::Form::Embedded, |lab| async move {
        lab.furnish(json!({"faults": {"refuse": 0.05, "errorAfter": 0.05, "taskFails": 0.01}}))
            .await;
        let rolling =
            json!({"maxUnavailable": "10%", "maxSurge": "5%", "podManagementPolicy": "Parallel"});
        lab.create(set("web", 100, rolling)).await;
        lab.set_is("web", "ready", is_ready).await;
        let tags = json!({"spec": {"template": {"spec": {"tags": ["v2"]}}}});
        lab.patch_of("VMSet", "web", tags).await.unwrap();
        lab.set_is("web", "updated", |set| {
            let status = &set["status"];
            let available = status["availableReplicas"].as_i64().unwrap_or(0);
            let all = status["replicas"].as_i64().unwrap_or(0);
            assert!(available >= 90 && all <= 105, "{available} of {all}: {status:#}");
            is_ready(set) && status["updatedReplicas"] == 100
        })
        .await;
        let members = lab.members("web").await;
        assert!(members.len() == 100 && members.iter().all(|vm| vm["spec"]["tags"][0] == "v2"));
        assert_eq!(lab.platform().len(), 100);
    })
    .await;
}

async fn below_the_partition_machines_stay_as_they_are(lab: Lab) {
    lab.furnish(json!({})).await;
    let rolling = json!({"maxUnavailable": 2, "maxSurge": 0, "partition": 2,
        "podManagementPolicy": "Parallel"});
    lab.create(set("web", 4, rolling)).await;
    let first = lab.set_is("web", "ready", is_ready).await;
    let old = first["status"]["updateRevision"].clone();
    let tags = json!({"spec": {"template": {"spec": {"tags": ["v2"]}}}});
    lab.patch_of("VMSet", "web", tags).await.unwrap();
    lab.set_is("web", "half updated", |set| is_ready(set) && set["status"]["updatedReplicas"] == 2)
        .await;
    // One that is lost below it is made from the old template again.
    let lost = lab.members("web").await[0]["metadata"]["uid"].clone();
    lab.delete("web-0").await;
    lab.made_anew("web-0", &lost).await;
    lab.set_is("web", "ready again", is_ready).await;
    let members = lab.members("web").await;
    let revision = |vm: &Value| vm["metadata"]["labels"]["sutler.dev/revision"].clone();
    assert_eq!([revision(&members[0]), revision(&members[1])], [old.clone(), old.clone()]);
    assert!(members[0]["spec"]["tags"].is_null());
    assert!(revision(&members[2]) != old && revision(&members[3]) != old);
}

async fn scaling_goes_through_the_scale_subresource(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.create(set("web", 1, json!({"podManagementPolicy": "Parallel"}))).await;
    lab.set_is("web", "ready", is_ready).await;
    let sets = lab.api(INFRA, "VMSet");
    for replicas in [4_usize, 2, 0] {
        // What an autoscaler reads, and what it writes.
        let scale = sets.get_scale("web").await.unwrap();
        assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=web"));
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        sets.patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
        lab.set_is("web", "scaled", |set| {
            is_ready(set) && set["status"]["replicas"] == set["spec"]["replicas"]
        })
        .await;
        assert_eq!(lab.names("web").await.len(), replicas);
        let told = sets.get_scale("web").await.unwrap().status.unwrap().replicas;
        assert_eq!(usize::try_from(told).unwrap(), replicas);
        assert_eq!(lab.platform().len(), replicas);
    }
}

/// The autoscaler of Kubernetes itself, which is only there with the real server. Below its least
/// number it scales without any metric.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_real_autoscaler_scales_a_set() {
    crate::lab::run(crate::server::Form::Cluster, |lab| async move {
        lab.furnish(json!({})).await;
        lab.create(set("web", 1, json!({"podManagementPolicy": "Parallel"}))).await;
        lab.set_is("web", "ready", is_ready).await;
        lab.create(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"}, "spec": {"minReplicas": 3, "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": INFRA, "kind": "VMSet", "name": "web"}}}))
            .await;
        lab.set_is("web", "scaled", |set| is_ready(set) && set["status"]["replicas"] == 3).await;
        assert_eq!(lab.platform().len(), 3);
    })
    .await;
}

async fn what_a_set_cannot_do_is_said(lab: Lab) {
    lab.furnish(json!({})).await;
    lab.record("web-0", json!({})).await;
    lab.create(set("web", 1, json!({}))).await;
    let taken = |set: &Value| ready(set)["reason"] == "NameTaken";
    let web = lab.set_is("web", "refused", taken).await;
    assert!(ready(&web)["message"].as_str().unwrap().contains("web-0"), "{web:#}");

    let mut wrong = set("wrong", 1, json!({}));
    wrong["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    lab.create(wrong).await;
    let invalid = |set: &Value| ready(set)["reason"] == "Invalid";
    let wrong = lab.set_is("wrong", "refused", invalid).await;
    assert!(ready(&wrong)["message"].as_str().unwrap().contains("labels"), "{wrong:#}");

    let mut volumes = set("volumes", 1, json!({}));
    volumes["spec"]["volumeClaimTemplates"] =
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteMany"]}}]);
    lab.create(volumes).await;
    let volumes = lab.set_is("volumes", "refused", invalid).await;
    assert!(ready(&volumes)["message"].as_str().unwrap().contains("accessModes"), "{volumes:#}");
    assert!(lab.names("wrong").await.is_empty() && lab.names("volumes").await.is_empty());
}
