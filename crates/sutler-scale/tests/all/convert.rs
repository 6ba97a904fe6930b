//! Objects of Kubernetes and ours, read.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1 as policy;
use serde_json::{Value, json};
use sutler_api::autoscaler::{GlobalSettings, NodeGroup};
use sutler_scale::world::{
    Budget, Claims, Group, GroupFacts, Node, Owner, Pod, PodPlace, RegionStrategy, Settings,
    VolumeNeed,
};

use crate::build::{ago, later, size};

fn pod(value: Value) -> core::Pod {
    serde_json::from_value(value).unwrap()
}

fn read(value: Value) -> Pod {
    Pod::read(&pod(value), &Claims::new()).unwrap().unwrap()
}

#[test]
fn where_pods_are() {
    let base = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}});
    assert_eq!(read(base.clone()).place, PodPlace::Waiting);
    let mut on = base.clone();
    on["spec"]["nodeName"] = json!("m");
    assert_eq!(read(on).place, PodPlace::On("m".into()));
    let mut unschedulable = base.clone();
    unschedulable["status"] = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": ago(5).to_string(),
    }]});
    assert_eq!(read(unschedulable.clone()).place, PodPlace::Unschedulable { since: ago(5) });
    unschedulable["status"]["conditions"][0]["reason"] = json!("SchedulingGated");
    assert_eq!(read(unschedulable.clone()).place, PodPlace::Waiting);
    unschedulable["status"]["nominatedNodeName"] = json!("m");
    assert_eq!(read(unschedulable).place, PodPlace::Nominated("m".into()));
    let mut ended = base;
    ended["status"] = json!({"phase": "Succeeded"});
    assert_eq!(Pod::read(&pod(ended), &Claims::new()), Ok(None));
}

#[test]
fn whose_pods_are_and_what_keeps_them() {
    let owned = |kind: &str| {
        json!({"metadata": {"name": "p", "namespace": "n", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true},
        ]}, "spec": {"containers": []}})
    };
    assert_eq!(read(owned("ReplicaSet")).owner, Owner::Controller);
    assert_eq!(read(owned("DaemonSet")).owner, Owner::DaemonSet);
    let mut naked = owned("ReplicaSet");
    naked["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    assert_eq!(read(naked.clone()).owner, Owner::Nobody);
    naked["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    assert_eq!(read(naked).owner, Owner::Mirror);
    let mut annotated = owned("ReplicaSet");
    annotated["spec"]["volumes"] = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "ram", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": "/x"}},
        {"name": "cache", "emptyDir": {}},
    ]);
    annotated["metadata"]["annotations"] = json!({
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "cache",
    });
    let eviction = read(annotated).eviction;
    assert_eq!(eviction.local_volumes, ["disk", "host"]);
    assert!(eviction.forbidden_by.is_some() && !eviction.allowed);
}

#[test]
fn claims_of_pods() {
    let wants = pod(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
        "containers": [],
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "known"}},
            {"name": "b", "ephemeral": {}},
        ],
    }}));
    let mut claims = Claims::new();
    let anywhere = VolumeNeed::Unbound { allowed: Vec::new() };
    claims.insert(("n".into(), "known".into()), anywhere.clone());
    let volumes =
        |claims: &Claims| Pod::read(&wants, claims).unwrap().unwrap().shape.volumes.clone();
    assert_eq!(volumes(&claims), [VolumeNeed::Unmet { why: "claim p-b is not there".into() }]);
    claims.insert(("n".into(), "p-b".into()), anywhere);
    assert!(volumes(&claims).is_empty());
}

#[test]
fn one_malformed_object_is_an_error_for_itself() {
    let bad = pod(json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "lots"}}},
    ]}}));
    let error = Pod::read(&bad, &Claims::new()).unwrap_err();
    let text = "spec.containers[0].resources.requests[cpu]: \"lots\" is not a quantity";
    assert_eq!(error.to_string(), text);
    let node: core::Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    assert_eq!(Node::read(&node).unwrap_err().field, "metadata.creationTimestamp");
    assert!(Pod::read(&core::Pod::default(), &Claims::new()).is_err());
    assert!(Budget::read(&policy::PodDisruptionBudget::default()).is_err());
}

#[test]
fn nodes() {
    let node: core::Node = serde_json::from_value(json!({
        "metadata": {
            "name": "n", "creationTimestamp": ago(9).to_string(),
            "labels": {"autoscaler.vpsie.com/offering": "o", "autoscaler.vpsie.com/datacenter": "d"},
            "annotations": {
                "autoscaler.vpsie.com/protected": "true",
                "autoscaler.vpsie.com/scale-down-allowed-hours": "22:00-06:00",
            },
        },
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]},
        "status": {
            "allocatable": {"cpu": "3900m", "memory": "7Gi", "pods": "110", "example.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
    .unwrap();
    let node = Node::read(&node).unwrap();
    assert_eq!((node.allocatable.cpu, node.allocatable.memory, node.pods), (3900, 7 << 30, 110));
    assert_eq!(node.allocatable.other["example.com/gpu"], 2);
    assert_eq!((node.size.as_deref(), node.place.as_deref()), (Some("o"), Some("d")));
    assert_eq!((node.ready, node.unschedulable, node.created), (true, true, ago(9)));
    assert_eq!(node.keep.forbidden_by.as_deref(), Some("autoscaler.vpsie.com/protected"));
    assert_eq!(node.keep.hours.as_deref(), Some("22:00-06:00"));
}

#[test]
fn budgets_that_are_behind_allow_nothing() {
    let budget = |observed: i64| {
        let value = json!({
            "metadata": {"name": "b", "namespace": "n", "generation": 2},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {
                "disruptionsAllowed": 3, "observedGeneration": observed,
                "currentHealthy": 4, "desiredHealthy": 1, "expectedPods": 4,
            },
        });
        Budget::read(&serde_json::from_value(value).unwrap()).unwrap()
    };
    assert_eq!((budget(2).allowed, budget(1).allowed), (3, 0));
    assert!(budget(2).healthy);
}

fn node_group(spec: Value) -> Result<Group, String> {
    let mut all = json!({
        "minNodes": 1, "maxNodes": 5, "datacenterID": "d1", "offeringIDs": ["medium", "gone"],
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object: NodeGroup = serde_json::from_value(json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": "g", "namespace": "n", "annotations": {"sutler.dev/paused": "true"}},
        "spec": all,
        "status": {
            "currentNodes": 3, "desiredNodes": 3, "readyNodes": 2, "failedNodes": 1,
            "lastScaleUpTime": ago(5).to_string(),
            "conditions": [{"type": "Error", "status": "True", "reason": "TooManyFailures"}],
        },
    }))
    .unwrap();
    let facts = GroupFacts {
        sizes: vec![size("medium", 4, 1), size("large", 8, 2)],
        backoff_until: Some(later(1)),
        ..GroupFacts::default()
    };
    Group::read(&object, facts).map_err(|error| error.field)
}

#[test]
fn node_groups() {
    let group = node_group(json!({})).unwrap();
    assert_eq!((group.min, group.max, group.healthy(), group.failed), (1, 5, 2, 1));
    assert_eq!((group.paused, group.stopped, group.last_up), (true, true, Some(ago(5))));
    assert_eq!(group.sizes.iter().map(|size| &size.id).collect::<Vec<_>>(), ["medium"]);
    assert_eq!((group.up.cpu, group.down.cooldown), (80, 600));
    assert!(group.cost.is_some() && group.spot.is_none());
    let regions = node_group(json!({"multiRegion": {
        "enabled": true, "datacenterIDs": ["d1", "d2"], "distributionStrategy": "weighted",
        "weightedDistribution": {"d1": 1, "d2": 2},
    }}))
    .unwrap();
    assert_eq!(regions.places.len(), 2);
    let weights = [("d1".to_owned(), 1), ("d2".to_owned(), 2)].into();
    assert_eq!(regions.regions.unwrap().strategy, RegionStrategy::Weighted(weights));
}

#[test]
fn what_a_node_group_says_is_carried_out_or_refused() {
    for (spec, field) in [
        (json!({"minNodes": 6}), "spec.minNodes"),
        (json!({"offeringIDs": ["gone"]}), "spec.offeringIDs"),
        (json!({"preferredInstanceType": "large"}), "spec.preferredInstanceType"),
        (json!({"taints": [{"key": "k", "effect": "Never"}]}), "spec.taints[0].effect"),
        (
            json!({"multiRegion": {"enabled": true, "distributionStrategy": "random"}}),
            "spec.multiRegion.distributionStrategy",
        ),
        (
            json!({"multiRegion": {"enabled": true, "distributionStrategy": "primary-backup"}}),
            "spec.multiRegion.primaryDatacenter",
        ),
        (
            json!({"multiRegion": {"enabled": true, "distributionStrategy": "weighted"}}),
            "spec.multiRegion.weightedDistribution",
        ),
        (json!({"costOptimization": {"strategy": "bold"}}), "spec.costOptimization.strategy"),
        (
            json!({"costOptimization": {"optimizationInterval": "daily"}}),
            "spec.costOptimization.optimizationInterval",
        ),
        (
            json!({"spotConfig": {"enabled": true, "interruptionGracePeriod": "soon"}}),
            "spec.spotConfig.interruptionGracePeriod",
        ),
        (json!({"scaleUpPolicy": {"cpuThreshold": 101}}), "spec.scaleUpPolicy.cpuThreshold"),
    ] {
        assert_eq!(node_group(spec).unwrap_err(), field);
    }
}

#[test]
fn settings() {
    assert_eq!(Settings::read(&GlobalSettings::default()), Ok(Settings::default()));
    let none = GlobalSettings { max_cluster_workers: 0, ..GlobalSettings::default() };
    assert_eq!(Settings::read(&none).unwrap().max_workers, None);
    let bad = GlobalSettings { max_concurrent_scale_ups: 0, ..GlobalSettings::default() };
    let error = Settings::read(&bad).unwrap_err();
    assert_eq!(error.to_string(), "spec.globalSettings.maxConcurrentScaleUps: 0 is below 1");
}
