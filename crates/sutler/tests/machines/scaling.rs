//! Groups that grow and shrink with the pods, on a cluster that is played on simulated machines. Every case
//! has a server of its own: settings and limits of scaling are for all groups together.

use std::collections::BTreeSet;

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::lab::{INFRA, Lab};

const AUTOSCALER: &str = "autoscaler.vpsie.com/v1alpha1";

played!(
    pods_that_do_not_fit_are_counted_once_over_all_groups,
    idle_nodes_go_after_their_window_and_never_below_the_minimum,
    what_forbids_to_remove_a_node_is_said,
    a_group_rests_after_it_grew,
    all_groups_together_stay_below_their_limit,
    where_the_platform_has_no_room_another_group_is_tried,
    a_size_that_was_chosen_is_the_size_that_is_made,
    sizes_of_a_platforms_own_are_chosen_by_the_price_that_a_class_tells,
    nodes_are_spread_over_regions,
    what_no_platform_sells_is_said,
    a_busy_group_gets_one_node_more,
    a_machine_that_is_off_is_a_node_that_is_not_ready,
    pods_that_are_evicted_come_again_elsewhere,
);

/// A group on the class `small`, which takes one pod of [`set`].
pub(crate) fn group(name: &str, least: u32, more: Value) -> Value {
    let mut spec = json!({"minNodes": least, "maxNodes": 5, "providerRef": {"name": "sim"},
        "classRef": {"name": "small"}, "imageRef": {"name": "debian"},
        "bootstrap": {"kind": "k3s", "endpoint": "10.0.0.10:6443", "tokenSecretRef": {"name": "join"}},
        "scaleUpPolicy": {"stabilizationWindowSeconds": 0},
        "scaleDownPolicy": {"stabilizationWindowSeconds": 2, "cooldownSeconds": 0}});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    json!({"apiVersion": AUTOSCALER, "kind": "NodeGroup", "spec": spec,
        "metadata": {"name": name, "labels": {"autoscaler.vpsie.com/managed": "true"}}})
}

/// As many pods, of which a node of the class `small` takes one.
pub(crate) fn set(name: &str, pods: u32, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": {
        "replicas": pods, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {
            "terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}}}})
}

/// What a group says under a type of condition.
pub(crate) fn says<'a>(group: &'a Value, type_: &str) -> &'a str {
    let conditions = group["status"]["conditions"].as_array().map(Vec::as_slice);
    let mut all = conditions.unwrap_or_default().iter();
    let found = all.find(|condition| condition["type"] == type_ && condition["status"] == "True");
    found.and_then(|condition| condition["message"].as_str()).unwrap_or_default()
}

pub(crate) fn has(nodes: u32) -> impl Fn(&Value) -> bool {
    move |group| {
        let status = &group["status"];
        status["desiredNodes"] == nodes
            && status["currentNodes"] == nodes
            && status["readyNodes"] == nodes
    }
}

impl Lab {
    /// A quick platform, settings without pauses, and what groups refer to.
    pub(crate) async fn played(&self, options: Value, settings: Value) {
        let mut quick = json!({"work": {"create": "200ms", "boot": "100ms"}});
        quick.as_object_mut().unwrap().extend(options.as_object().cloned().unwrap());
        let mut global = json!({"maxClusterWorkers": 20, "maxConcurrentScaleUps": 5,
            "maxConcurrentScaleDowns": 5, "scaleUpCooldownSeconds": 0,
            "scaleDownCooldownSeconds": 0, "unschedulablePodGracePeriodSeconds": 0});
        global.as_object_mut().unwrap().extend(settings.as_object().cloned().unwrap());
        let config = json!({"apiVersion": AUTOSCALER, "kind": "AutoscalerConfig",
            "metadata": {"name": "default"}, "spec": {"globalSettings": global}});
        let config = serde_json::from_value(config).unwrap();
        self.configs().create(&PostParams::default(), &config).await.unwrap();
        // The first start has made a Provider, classes and an image of these names.
        for (kind, name) in [("Provider", "sim"), ("VMClass", "small"), ("VMImage", "debian")] {
            self.api(INFRA, kind).delete(name, &DeleteParams::default()).await.unwrap();
            self.until_of(INFRA, kind, name, "gone", Value::is_null).await;
        }
        self.furnish(quick).await;
        self.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "join"},
            "stringData": {"token": "abcdef.0123456789abcdef"}}))
            .await;
    }

    pub(crate) fn configs(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("autoscaler.vpsie.com", "v1alpha1", "AutoscalerConfig");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    pub(crate) async fn grown(
        &self,
        name: &str,
        what: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_of(AUTOSCALER, "NodeGroup", name, what, done).await.unwrap()
    }

    pub(crate) async fn serving(&self, set: &str, pods: u32) {
        let done = |set: &Value| set["status"]["readyReplicas"] == pods;
        self.until_of("apps/v1", "ReplicaSet", set, "serving", done).await;
    }

    pub(crate) async fn change(&self, version: &str, kind: &str, name: &str, patch: Value) {
        let api = self.api(version, kind);
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn scale_set(&self, name: &str, pods: u32) {
        let size = json!({"spec": {"replicas": pods}});
        self.change("apps/v1", "ReplicaSet", name, size).await;
    }

    pub(crate) async fn all(&self, version: &str, kind: &str) -> Vec<Value> {
        let all = self.api(version, kind).list(&ListParams::default()).await.unwrap();
        all.items.iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }
}

async fn pods_that_do_not_fit_are_counted_once_over_all_groups(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(group("a", 0, json!({}))).await;
    lab.create(group("b", 0, json!({}))).await;
    lab.create(set("web", 3, "600m")).await;
    lab.serving("web", 3).await;
    lab.grown("a", "as large as needed", has(3)).await;
    let records = lab.all(AUTOSCALER, "VPSieNode").await;
    assert_eq!(records.len(), 3, "{records:#?}");
    // Each is on a node of its own, which carries what the group says.
    let pods = lab.all("v1", "Pod").await;
    let nodes: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!(nodes.len(), 3, "{pods:#?}");
}

async fn idle_nodes_go_after_their_window_and_never_below_the_minimum(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(group("workers", 1, json!({}))).await;
    lab.create(set("web", 3, "600m")).await;
    lab.serving("web", 3).await;
    lab.grown("workers", "as large as needed", has(3)).await;
    lab.scale_set("web", 0).await;
    lab.grown("workers", "at its minimum", has(1)).await;
    let least = |group: &Value| says(group, "ScaleDownHeld").contains("at its minimum of 1");
    lab.grown("workers", "told why it stays", least).await;
    let records = lab.all(AUTOSCALER, "VPSieNode").await;
    let stay = records.iter().filter(|record| record["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(stay.count(), 1, "{records:#?}");
}

async fn what_forbids_to_remove_a_node_is_said(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(group("workers", 0, json!({}))).await;
    // They keep each other off their nodes, which stand idle otherwise.
    for name in ["budget", "pinned", "local"] {
        let mut set = set(name, 1, "100m");
        let template = &mut set["spec"]["template"];
        template["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        match name {
            "pinned" => {
                template["metadata"]["annotations"] =
                    json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"});
            }
            "local" => template["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]),
            _ => {}
        }
        lab.create(set).await;
    }
    lab.create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "held"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "budget"}}}}))
        .await;
    for name in ["budget", "pinned", "local"] {
        lab.serving(name, 1).await;
    }
    let told = lab
        .grown("workers", "told what forbids it", |group| {
            let why = says(group, "ScaleDownHeld");
            why.contains("disruption budget default/held")
                && why.contains("safe-to-evict")
                && why.contains("would lose its volumes scratch")
        })
        .await;
    assert!(has(3)(&told), "{told:#}");
    // Once a budget allows it, only the port is in the way; with room for it the node goes.
    let budgets = lab.api("policy/v1", "PodDisruptionBudget");
    budgets.delete("held", &DeleteParams::default()).await.unwrap();
    let nowhere = |group: &Value| {
        says(group, "ScaleDownHeld").contains("fits on none of the other nodes (2)")
    };
    lab.grown("workers", "told that there is no place", nowhere).await;
    lab.scale_set("budget", 0).await;
    lab.grown("workers", "smaller", has(2)).await;
}

async fn a_group_rests_after_it_grew(lab: Lab) {
    lab.played(json!({}), json!({"scaleUpCooldownSeconds": 3600})).await;
    lab.create(group("workers", 0, json!({}))).await;
    lab.create(set("web", 1, "600m")).await;
    lab.grown("workers", "grown", has(1)).await;
    lab.scale_set("web", 3).await;
    let rests = |group: &Value| says(group, "ScaleUpHeld").contains("grew a moment ago");
    let held = lab.grown("workers", "told to rest", rests).await;
    assert_eq!(held["spec"]["desiredNodes"], 1, "{held:#}");
}

async fn all_groups_together_stay_below_their_limit(lab: Lab) {
    lab.played(json!({}), json!({"maxClusterWorkers": 2})).await;
    lab.create(group("a", 0, json!({}))).await;
    lab.create(group("b", 1, json!({}))).await;
    lab.grown("b", "at its minimum", has(1)).await;
    lab.create(set("web", 4, "600m")).await;
    lab.serving("web", 2).await;
    let held = |group: &Value| says(group, "ScaleUpHeld").contains("maxClusterWorkers");
    for name in ["a", "b"] {
        lab.grown(name, "held back", held).await;
    }
    assert_eq!(lab.all(AUTOSCALER, "VPSieNode").await.len(), 2);
}

async fn where_the_platform_has_no_room_another_group_is_tried(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "tiny"},
        "spec": {"type": "sim", "endpoint": "sim://tiny", "options": {
            "firstAddress": 2540, "hosts": [{"name": "only", "cpu": 1, "memoryMib": 4096}]}}}))
        .await;
    for (name, price) in [("cheap", "0.01"), ("dear", "1")] {
        lab.create(json!({"apiVersion": INFRA, "kind": "VMClass",
            "metadata": {"name": name, "annotations": {"sutler.dev/price-per-hour": price}},
            "spec": {"cpu": 1, "memory": "1Gi"}}))
            .await;
    }
    let cheap = json!({"providerRef": {"name": "tiny"}, "classRef": {"name": "cheap"}});
    lab.create(group("cheap", 0, cheap)).await;
    lab.create(group("dear", 0, json!({"classRef": {"name": "dear"}}))).await;
    // Both are known before there is anything to choose.
    for name in ["cheap", "dear"] {
        lab.grown(name, "known", has(0)).await;
    }
    lab.create(set("web", 3, "600m")).await;
    // The cheap one is asked for all, and has room for one.
    let full =
        |group: &Value| group["status"]["desiredNodes"] == 3 && group["status"]["readyNodes"] == 1;
    lab.grown("cheap", "full", full).await;
    lab.serving("web", 3).await;
    lab.grown("dear", "grown instead", has(2)).await;
}

async fn a_size_that_was_chosen_is_the_size_that_is_made(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(json!({"apiVersion": INFRA, "kind": "VMClass", "metadata": {"name": "large"},
        "spec": {"cpu": 4, "memory": "8Gi"}}))
        .await;
    let sizes = json!({"offeringIDs": ["small", "large"], "preferredInstanceType": "small"});
    lab.create(group("mixed", 0, sizes)).await;
    lab.create(set("huge", 1, "3")).await;
    lab.create(set("web", 1, "600m")).await;
    lab.serving("huge", 1).await;
    lab.serving("web", 1).await;
    let mut classes: Vec<String> = lab
        .all(INFRA, "VirtualMachine")
        .await
        .iter()
        .map(|vm| vm["spec"]["classRef"]["name"].as_str().unwrap().to_owned())
        .collect();
    classes.sort();
    assert!(classes.contains(&"large".to_owned()), "{classes:?}");
    let wishes =
        |group: &Value| group["metadata"]["annotations"]["sutler.dev/next-nodes"].is_null();
    lab.grown("mixed", "without open wishes", wishes).await;
}

async fn sizes_of_a_platforms_own_are_chosen_by_the_price_that_a_class_tells(lab: Lab) {
    lab.played(json!({"uniqueBy": "None", "token": false, "returnsId": false}), json!({})).await;
    // As upstream's groups are: the platform installs their nodes, and nobody tells what they have.
    for (name, number) in [("dear", 1), ("cheap", 2)] {
        let mut own = group(
            name,
            0,
            json!({"resourceIdentifier": "c-1", "project": "p",
            "datacenterID": "dc-1", "kubernetesVersion": "v1.34.1", "kubeSizeID": number,
            "offeringIDs": [format!("{name}-size")], "costOptimization": {"enabled": true}}),
        );
        for field in ["classRef", "imageRef", "bootstrap"] {
            own["spec"].as_object_mut().unwrap().remove(field);
        }
        lab.create(own).await;
        let unknown = |group: &Value| says(group, "NotScaled").contains("make a VMClass");
        lab.grown(name, "told that its size is not known", unknown).await;
    }
    for (name, notes) in
        [("dear-size", json!({})), ("cheap-size", json!({"sutler.dev/price-per-hour": "0.1"}))]
    {
        lab.create(json!({"apiVersion": INFRA, "kind": "VMClass",
            "metadata": {"name": name, "annotations": notes}, "spec": {"cpu": 2, "memory": "4Gi"}}))
            .await;
    }
    let unpriced = |group: &Value| says(group, "PartlyServed").contains("what dear-size costs");
    lab.grown("dear", "told that its price is not known", unpriced).await;
    let price = json!({"metadata": {"annotations": {"sutler.dev/price-per-hour": "2"}}});
    lab.patch_of("VMClass", "dear-size", price).await.unwrap();
    let priced = |group: &Value| !says(group, "PartlyServed").contains("costOptimization");
    lab.grown("dear", "with a price", priced).await;
    let known = |group: &Value| has(0)(group) && says(group, "NotScaled").is_empty();
    lab.grown("cheap", "known", known).await;
    lab.create(set("web", 1, "600m")).await;
    lab.grown("cheap", "larger", |group| group["spec"]["desiredNodes"] == 1).await;
    let dear = lab.api(AUTOSCALER, "NodeGroup").get("dear").await.unwrap();
    assert!(dear.data["spec"]["desiredNodes"].as_i64().unwrap_or_default() == 0, "{dear:?}");
}

async fn nodes_are_spread_over_regions(lab: Lab) {
    let host =
        |region: &str| json!({"name": region, "cpu": 16, "memoryMib": 65536, "region": region});
    lab.played(json!({"hosts": [host("east"), host("west")]}), json!({})).await;
    let regions = json!({"multiRegion": {"enabled": true, "datacenterIDs": ["east", "west"],
        "distributionStrategy": "balanced"}});
    lab.create(group("spread", 0, regions)).await;
    lab.create(set("web", 2, "600m")).await;
    lab.serving("web", 2).await;
    let machines = lab.all(INFRA, "VirtualMachine").await;
    let hosts: BTreeSet<&str> =
        machines.iter().filter_map(|vm| vm["status"]["host"].as_str()).collect();
    assert_eq!(hosts, BTreeSet::from(["east", "west"]), "{machines:#?}");
}

async fn what_no_platform_sells_is_said(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    let spot = json!({"spotConfig": {"enabled": true, "maxSpotPercentage": 100,
        "fallbackToOnDemand": false}});
    lab.create(group("spot", 0, spot)).await;
    let said = |group: &Value| says(group, "PartlyServed").contains("spotConfig");
    lab.grown("spot", "told of it", said).await;
    lab.create(set("web", 1, "600m")).await;
    let held = |group: &Value| says(group, "ScaleUpHeld").contains("fallbackToOnDemand is false");
    lab.grown("spot", "held back", held).await;
    lab.change(
        AUTOSCALER,
        "NodeGroup",
        "spot",
        json!({"spec": {"spotConfig": {"fallbackToOnDemand": true}}}),
    )
    .await;
    lab.serving("web", 1).await;
}

async fn a_busy_group_gets_one_node_more(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    let busy = json!({"scaleUpPolicy": {"stabilizationWindowSeconds": 2, "cpuThreshold": 80}});
    lab.create(group("busy", 0, busy)).await;
    lab.create(set("web", 1, "900m")).await;
    lab.serving("web", 1).await;
    let one_more = lab.grown("busy", "with one more", has(2)).await;
    // Nobody measures anything here.
    let conditions = one_more["status"]["conditions"].as_array().unwrap();
    let load = conditions.iter().find(|condition| condition["type"] == "LoadMeasured").unwrap();
    assert_eq!(load["status"], "False", "{load}");
    let why = "what pods ask for counts as load: the cluster does not serve metrics.k8s.io";
    assert_eq!(load["message"], why);
    // It stays, since the group would be as busy without it.
    let stays = |group: &Value| says(group, "ScaleDownHeld").contains("would be 90 % busy");
    lab.grown("busy", "told why it stays", stays).await;
}

async fn a_machine_that_is_off_is_a_node_that_is_not_ready(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(group("workers", 1, json!({}))).await;
    lab.grown("workers", "there", has(1)).await;
    let node = |wanted: &'static str| {
        move |node: &Value| {
            let ready = node["status"]["conditions"][0]["status"].as_str().unwrap_or_default();
            let tainted =
                node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
            ready == wanted && tainted == (wanted != "True")
        }
    };
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
    let nodes: Api<DynamicObject> = Api::all_with(lab.client.clone(), &kind);
    let until = async |wanted: &'static str| {
        let done = node(wanted);
        let condition = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| done(&serde_json::to_value(object).unwrap()))
        };
        kube::runtime::wait::await_condition(nodes.clone(), "workers-0001", condition)
            .await
            .unwrap();
    };
    until("True").await;
    for (power, ready) in [("Off", "Unknown"), ("On", "True")] {
        lab.patch("workers-0001", json!({"spec": {"powerState": power}})).await;
        until(ready).await;
    }
    lab.grown("workers", "there again", has(1)).await;
}

async fn pods_that_are_evicted_come_again_elsewhere(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(group("workers", 0, json!({}))).await;
    lab.create(set("web", 2, "400m")).await;
    lab.create(set("big", 1, "600m")).await;
    lab.serving("web", 2).await;
    lab.serving("big", 1).await;
    lab.grown("workers", "as large as needed", has(2)).await;
    // Without the big one, a node stands idle; what is left on it moves to the other one.
    lab.scale_set("big", 0).await;
    lab.grown("workers", "smaller", has(1)).await;
    lab.serving("web", 2).await;
    let pods = lab.all("v1", "Pod").await;
    let nodes: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!(nodes.len(), 1, "{pods:#?}");
}
