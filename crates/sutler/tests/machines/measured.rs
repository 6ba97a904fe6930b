//! Scaling by what nodes use, in the cluster of `cluster_scaling.rs`. The metrics server is played: what it
//! serves is a kind like any other here, and each case writes the readings of its nodes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{
    lab::Lab,
    scaling::{has, says},
};

const METRICS: &str = "metrics.k8s.io";

/// Thousandths of a CPU that each node of a case uses; with zero, what its pods ask for.
pub(crate) type Busy = Arc<AtomicU32>;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_nodes_use_counts_and_not_what_pods_ask_for() {
    crate::lab::run(crate::server::Form::Scheduled, measured).await;
}

async fn measured(lab: Lab) {
    let busy = lab.joined().await;
    let workers = lab.pool("workers", 1, json!({}), json!([])).await;
    let policy = json!({"spec": {
        "scaleUpPolicy": {"stabilizationWindowSeconds": 4, "cpuThreshold": 80},
        "scaleDownPolicy": {"stabilizationWindowSeconds": 4, "cpuThreshold": 50}}});
    lab.change("autoscaler.vpsie.com/v1alpha1", "NodeGroup", &workers, policy).await;
    lab.pods_of("web", 1, "600m", json!({})).await;
    lab.serving("web", 1).await;
    let known = |group: &Value| has(1)(group) && is_measured(group);
    lab.grown(&workers, "judged by what nodes use", known).await;
    // Pods ask for 60 % and use 95 %: that is above the threshold.
    busy.store(950, Ordering::Relaxed);
    lab.grown(&workers, "larger", |group| group["spec"]["desiredNodes"] == 2).await;
    // That is below what makes the group grow, and above what lets its nodes go, although nothing on the
    // new one asks for anything.
    busy.store(700, Ordering::Relaxed);
    let used = |group: &Value| {
        has(2)(group) && says(group, "ScaleDownHeld").contains("idle in 0 % of the readings")
    };
    lab.grown(&workers, "told that its nodes are used", used).await;
    busy.store(100, Ordering::Relaxed);
    lab.grown(&workers, "smaller", has(1)).await;
}

fn is_measured(group: &Value) -> bool {
    let conditions = group["status"]["conditions"].as_array().map(Vec::as_slice);
    let mut all = conditions.unwrap_or_default().iter();
    all.any(|condition| condition["type"] == "LoadMeasured" && condition["status"] == "True")
}

/// Serves the kind of a metrics server, and measures the nodes of a case every second.
pub(crate) async fn play(lab: &Lab) -> Busy {
    let text = json!({"type": "string"});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("nodes.{METRICS}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"}},
        "spec": {"group": METRICS, "scope": "Cluster",
            "names": {"plural": "nodes", "kind": "NodeMetrics"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "timestamp": text, "window": text,
                    "usage": {"type": "object", "additionalProperties": text}}}}}]}});
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(lab.client.clone(), &ApiResource::from_gvk(&kind));
    match api.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await {
        Ok(_) => {}
        // Another case was first.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
    let busy = Busy::default();
    tokio::spawn(measure(lab.clone(), busy.clone()));
    busy
}

async fn measure(lab: Lab, busy: Busy) {
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let own = ListParams::default().labels(&format!("pool={}", lab.namespace));
    let kind = GroupVersionKind::gvk(METRICS, "v1beta1", "NodeMetrics");
    let kind = ApiResource::from_gvk_with_plural(&kind, "nodes");
    let readings: Api<DynamicObject> = Api::all_with(lab.client.clone(), &kind);
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        let asked = asked(&lab).await;
        for node in nodes.list(&own).await.unwrap() {
            let name = node.name_any();
            let used = match busy.load(Ordering::Relaxed) {
                0 => asked.get(&name).copied().unwrap_or_default(),
                used => used,
            };
            let reading = json!({"apiVersion": format!("{METRICS}/v1beta1"), "kind": "NodeMetrics",
                "metadata": {"name": name}, "timestamp": Timestamp::now().to_string(), "window": "1s",
                "usage": {"cpu": format!("{used}m"), "memory": "64Mi"}});
            let params = PatchParams::apply("metrics").force();
            match readings.patch(&name, &params, &Patch::Apply(reading)).await {
                Ok(_) => {}
                // The kind is served a moment after it was made.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// What the pods of a case ask for, by node, in thousandths of a CPU.
async fn asked(lab: &Lab) -> BTreeMap<String, u32> {
    let pods: Api<Pod> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let mut asked = BTreeMap::new();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let Some(spec) = pod.spec else { continue };
        let requests = spec.containers[0].resources.clone().and_then(|it| it.requests);
        let cpu = requests.unwrap_or_default().remove("cpu").unwrap_or_default().0;
        let cpu: u32 = cpu.trim_end_matches('m').parse().unwrap_or_default();
        *asked.entry(spec.node_name.unwrap_or_default()).or_default() += cpu;
    }
    asked
}
