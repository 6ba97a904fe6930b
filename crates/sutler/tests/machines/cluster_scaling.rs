//! Groups that grow and shrink in a real cluster: the real kube-scheduler decides where pods go, the real
//! controllers make them and keep their budgets, and kwok plays the kubelets. What is played here is a
//! machine's first boot, with which it joins as a Node, and the metrics server (`measured.rs`).
//!
//! All cases share the cluster; `pool` keeps the nodes and pods of one from the others'.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use sutler_parity::peer::KWOK_NODE;

use crate::{
    lab::Lab,
    measured::{self, Busy},
    scaling::{group, has, says, set},
};

const AUTOSCALER: &str = "autoscaler.vpsie.com/v1alpha1";

/// Runs cases in the cluster, where its programs are there.
macro_rules! scheduled {
    ($($case:ident),* $(,)?) => {
        $(mod $case {
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn cluster() {
                crate::lab::run(crate::server::Form::Scheduled, super::$case).await;
            }
        })*
    };
}

scheduled!(
    pods_that_the_scheduler_finds_no_node_for_get_nodes_that_go_with_them,
    nodes_are_emptied_by_evictions_as_a_budget_allows,
    the_scheduler_places_pods_in_the_group_that_grew_for_them,
    pods_that_must_be_spread_get_as_many_nodes_as_the_scheduler_asks,
);

impl Lab {
    /// A quick platform whose machines join the cluster, and settings without pauses. What comes back says
    /// how busy nodes are.
    pub(crate) async fn joined(&self) -> Busy {
        let settings = json!({"maxClusterWorkers": 100, "maxConcurrentScaleUps": 20,
            "maxConcurrentScaleDowns": 20, "scaleUpCooldownSeconds": 0,
            "scaleDownCooldownSeconds": 0, "unschedulablePodGracePeriodSeconds": 0});
        let config = json!({"apiVersion": AUTOSCALER, "kind": "AutoscalerConfig",
            "metadata": {"name": "default"}, "spec": {"globalSettings": settings}});
        let kind = GroupVersionKind::gvk("autoscaler.vpsie.com", "v1alpha1", "AutoscalerConfig");
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let config = serde_json::from_value(config).unwrap();
        match api.create(&PostParams::default(), &config).await {
            Ok(_) => {}
            // Another case was first.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
        self.furnish(json!({"firstAddress": self.first_address(),
            "work": {"create": "200ms", "boot": "100ms"}}))
            .await;
        self.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "join"},
            "stringData": {"token": "abcdef.0123456789abcdef"}}))
            .await;
        tokio::spawn(join(self.clone()));
        measured::play(self).await
    }

    /// A name that no other case has: that of nodes comes of it.
    fn own(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// A group of this case's pool.
    pub(crate) async fn pool(
        &self,
        name: &str,
        least: u32,
        labels: Value,
        taints: Value,
    ) -> String {
        let name = self.own(name);
        let mut labels = labels;
        labels["pool"] = json!(self.namespace);
        self.create(group(&name, least, json!({"labels": labels, "taints": taints}))).await;
        name
    }

    /// A set of pods for this case's pool, with what else their specification says.
    pub(crate) async fn pods_of(&self, name: &str, pods: u32, cpu: &str, more: Value) {
        let mut set = set(name, pods, cpu);
        let spec = &mut set["spec"]["template"]["spec"];
        spec["nodeSelector"] = json!({"pool": self.namespace});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.create(set).await;
    }

    /// Pods that stay, by the node that they are on, with the name of their set.
    async fn placed(&self) -> BTreeMap<String, Vec<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut placed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            if let Some(node) = node.filter(|_| pod.metadata.deletion_timestamp.is_none()) {
                placed.entry(node).or_default().push(pod.labels()["app"].clone());
            }
        }
        placed
    }

    /// What the scheduler said of pods that it found no node for.
    async fn refusals(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let events = events.list(&ListParams::default()).await.unwrap();
        let refused = |event: &Event| {
            event.reason.as_deref() == Some("FailedScheduling")
                && event.reporting_component.as_deref() == Some("default-scheduler")
        };
        let refused = events.items.into_iter().filter(refused);
        refused.filter_map(|event| event.message).collect()
    }

    /// Waits for a pod of this set that leaves by an eviction.
    async fn evicted(&self, set: &str) -> Pod {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let config = watcher::Config::default().labels(&format!("app={set}"));
        let events = watcher(pods, config).default_backoff().touched_objects();
        let mut evicted = events
            .try_filter(|pod| {
                let conditions =
                    pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                let mut reasons = conditions.filter_map(|condition| condition.reason.clone());
                std::future::ready(reasons.any(|reason| reason == "EvictionByEvictionAPI"))
            })
            .boxed();
        evicted.next().await.unwrap().unwrap()
    }
}

/// Plays the first boot of a case's machines: as soon as one runs, its kubelet registers a Node. From
/// there on kwok is the kubelet.
async fn join(lab: Lab) {
    let records = lab.api(AUTOSCALER, "VPSieNode");
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let changes = watcher(records, watcher::Config::default()).default_backoff().applied_objects();
    let mut changes = changes.boxed();
    while let Some(record) = changes.next().await {
        let Ok(record) = record else { continue };
        let name = record.name_any();
        let record = serde_json::to_value(record).unwrap();
        let runs = !record["status"]["provisionedAt"].is_null();
        let goes = !record["metadata"]["deletionTimestamp"].is_null();
        let Some(address) = record["spec"]["ipAddress"].as_str().filter(|_| runs && !goes) else {
            continue;
        };
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {KWOK_NODE.0: KWOK_NODE.1},
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
            "status": {
                "addresses": [{"type": "InternalIP", "address": address},
                    {"type": "Hostname", "address": name}],
                "capacity": {"cpu": "1", "memory": "1Gi", "pods": "110"},
                "allocatable": {"cpu": "1", "memory": "924Mi", "pods": "110"}}});
        let node = serde_json::from_value(node).unwrap();
        match nodes.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{name} does not join: {error}"),
        }
    }
}

async fn pods_that_the_scheduler_finds_no_node_for_get_nodes_that_go_with_them(lab: Lab) {
    lab.joined().await;
    let workers = lab.pool("workers", 0, json!({}), json!([])).await;
    lab.pods_of("web", 3, "600m", json!({})).await;
    lab.serving("web", 3).await;
    lab.grown(&workers, "as large as needed", has(3)).await;
    let placed = lab.placed().await;
    assert_eq!(placed.len(), 3, "one pod a node: {placed:?}");
    assert!(placed.keys().all(|node| node.starts_with(&workers)), "{placed:?}");
    assert!(!lab.refusals().await.is_empty(), "the scheduler refused nothing");
    // One pod less leaves a node idle; the others stay with their pods.
    lab.scale_set("web", 2).await;
    lab.grown(&workers, "smaller", has(2)).await;
    lab.scale_set("web", 0).await;
    lab.grown(&workers, "empty", has(0)).await;
    for number in 1..=3 {
        let name = format!("{workers}-{number:04}");
        lab.until_of(AUTOSCALER, "VPSieNode", &name, "gone", Value::is_null).await;
    }
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let pool = ListParams::default().labels(&format!("pool={}", lab.namespace));
    assert!(nodes.list(&pool).await.unwrap().items.is_empty());
}

async fn nodes_are_emptied_by_evictions_as_a_budget_allows(lab: Lab) {
    lab.joined().await;
    let workers = lab.pool("workers", 0, json!({}), json!([])).await;
    // The large ones need a node each, and leave room there for a small one each.
    lab.pods_of("large", 2, "600m", json!({})).await;
    lab.serving("large", 2).await;
    lab.pods_of("web", 2, "400m", json!({})).await;
    lab.create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "held"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}))
        .await;
    lab.serving("web", 2).await;
    lab.grown(&workers, "as large as needed", has(2)).await;
    lab.scale_set("large", 0).await;
    let told = format!("disruption budget {}/held", lab.namespace);
    let held =
        lab.grown(&workers, "held", |group| says(group, "ScaleDownHeld").contains(&told)).await;
    assert!(has(2)(&held), "{held:#}");
    assert_eq!(lab.placed().await.len(), 2);
    // Once one of them may go, its node does.
    let leaves = lab.evicted("web");
    let allowed = async {
        let less = json!({"spec": {"minAvailable": 1}});
        lab.change("policy/v1", "PodDisruptionBudget", "held", less).await;
        lab.grown(&workers, "smaller", has(1)).await;
    };
    let (evicted, ()) =
        tokio::time::timeout(Duration::from_secs(300), futures::future::join(leaves, allowed))
            .await
            .unwrap();
    assert!(evicted.name_any().starts_with("web-"), "{evicted:?}");
    lab.serving("web", 2).await;
    let placed = lab.placed().await;
    assert_eq!(placed.len(), 1, "{placed:?}");
}

async fn the_scheduler_places_pods_in_the_group_that_grew_for_them(lab: Lab) {
    lab.joined().await;
    let taint = json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]);
    let plain = lab.pool("plain", 0, json!({"kind": "plain"}), json!([])).await;
    let other = lab.pool("other", 0, json!({"kind": "other", "disk": "slow"}), json!([])).await;
    let gpu = lab.pool("gpu", 0, json!({"kind": "gpu"}), taint).await;
    for name in [&plain, &other, &gpu] {
        lab.grown(name, "known", has(0)).await;
    }
    let wants = |operator: &str, key: &str, values: Value| {
        let mut wish = json!({"key": key, "operator": operator});
        if values != json!([]) {
            wish["values"] = values;
        }
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [wish]}]}}})
    };
    // Its taint keeps everybody off who does not know it; the labels of the others do not match.
    let tolerated =
        json!([{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]);
    let gpu_pods =
        json!({"affinity": wants("In", "kind", json!(["gpu", "npu"])), "tolerations": tolerated});
    lab.pods_of("tensor", 1, "600m", gpu_pods).await;
    lab.pods_of("archive", 1, "600m", json!({"affinity": wants("Exists", "disk", json!([]))}))
        .await;
    // It may not be where the others are: what is left is one group.
    lab.pods_of("web", 1, "600m", json!({"affinity": wants("NotIn", "kind", json!(["other"]))}))
        .await;
    for (set, group) in [("tensor", &gpu), ("archive", &other), ("web", &plain)] {
        lab.serving(set, 1).await;
        lab.grown(group, "as large as needed", has(1)).await;
    }
    let placed = lab.placed().await;
    let expected: BTreeMap<String, Vec<String>> =
        [("tensor", &gpu), ("archive", &other), ("web", &plain)]
            .map(|(set, group)| (format!("{group}-0001"), vec![set.to_owned()]))
            .into();
    assert_eq!(placed, expected);
}

async fn pods_that_must_be_spread_get_as_many_nodes_as_the_scheduler_asks(lab: Lab) {
    lab.joined().await;
    let east = lab.pool("east", 0, json!({"place": "east"}), json!([])).await;
    let west = lab.pool("west", 0, json!({"place": "west"}), json!([])).await;
    for name in [&east, &west] {
        lab.grown(name, "known", has(0)).await;
    }
    let spread = |key: &str, domains: u32, app: &str| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
            "minDomains": domains, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}}}]})
    };
    // They are small: one node would take all of them.
    lab.pods_of("web", 4, "200m", spread("place", 2, "web")).await;
    lab.serving("web", 4).await;
    for name in [&east, &west] {
        lab.grown(name, "as large as needed", has(1)).await;
    }
    let placed = lab.placed().await;
    assert_eq!(placed.len(), 2, "{placed:?}");
    assert!(placed.values().all(|pods| pods.len() == 2), "{placed:?}");
    // A node each, so two nodes more, in whichever group.
    lab.pods_of("db", 4, "100m", spread("kubernetes.io/hostname", 4, "db")).await;
    lab.serving("db", 4).await;
    let placed = lab.placed().await;
    let alone = placed.values().filter(|pods| pods.iter().filter(|app| *app == "db").count() == 1);
    assert_eq!((alone.count(), placed.len()), (4, 4), "{placed:?}");
}
