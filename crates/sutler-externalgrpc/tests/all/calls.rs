//! What cluster-autoscaler asks in one of its rounds, and what it is told.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use sutler_api::{
    autoscaler::{ClusterRef, NodeGroup},
    infra::VMClass,
};
use sutler_externalgrpc::{Cluster, pb};
use tonic::Code;

use crate::support::{
    Fault, GROUP, NAMESPACE, World, api, client_of, create, made_up, node, patch,
};

async fn ids(world: &World) -> Vec<String> {
    world.refresh().await;
    let answer = world.wire.clone().node_groups(pb::NodeGroupsRequest {}).await.unwrap();
    answer.into_inner().node_groups.into_iter().map(|group| group.id).collect()
}

async fn group_of(world: &World, node: pb::ExternalGrpcNode) -> String {
    let request = pb::NodeGroupForNodeRequest { node: Some(node) };
    let answer = world.wire.clone().node_group_for_node(request).await.unwrap().into_inner();
    answer.node_group.unwrap().id
}

#[tokio::test(start_paused = true)]
async fn only_groups_that_are_to_be_driven_are_shown() {
    let world = World::begin().await;
    world.group("b", json!({})).await;
    world.group("a", json!({ "minNodes": 2, "desiredNodes": 3 })).await;
    world.group("unmanaged", json!({})).await;
    let off = json!({ "metadata": { "labels": { "autoscaler.vpsie.com/managed": "false" } } });
    patch::<NodeGroup>(&world.admin, "unmanaged", off).await;
    world.group("elsewhere", json!({ "clusterRef": { "name": "kubeconfig" } })).await;
    world.group("going", json!({})).await;
    let hold = json!({ "metadata": { "finalizers": ["sutler.dev/test"] } });
    patch::<NodeGroup>(&world.admin, "going", hold).await;
    let groups = Api::<NodeGroup>::namespaced(world.admin.clone(), NAMESPACE);
    groups.delete("going", &DeleteParams::default()).await.unwrap();

    assert_eq!(ids(&world).await, ["default/a", "default/b"]);
    let answer = world.wire.clone().node_groups(pb::NodeGroupsRequest {}).await.unwrap();
    let first = &answer.into_inner().node_groups[0];
    assert_eq!((first.min_size, first.max_size), (2, 5));
    for id in ["default/unmanaged", "default/elsewhere", "default/going", "default/none", "a", ""] {
        let error = world.increase(id, 1).await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_for_another_cluster_shows_its_groups_and_looks_for_nodes_there() {
    let other = api().await;
    let cluster = Cluster::Other {
        namespace: NAMESPACE.to_owned(),
        secret: ClusterRef { name: "kubeconfig".to_owned(), key: "kubeconfig".to_owned() },
        nodes: client_of(&other),
    };
    let world = World::for_cluster(cluster).await;
    world.group("own", json!({})).await;
    world.group("g", json!({ "clusterRef": { "name": "kubeconfig" } })).await;
    world.group("third", json!({ "clusterRef": { "name": "kubeconfig", "key": "x" } })).await;
    assert_eq!(ids(&world).await, [GROUP]);

    world.record("g", "n").await;
    world.status("n", json!({ "phase": "Ready", "nodeName": "there" })).await;
    let there = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "there" },
        "spec": { "providerID": "cloud://1" },
    });
    let nodes = Api::<Node>::all(client_of(&other));
    nodes.create(&PostParams::default(), &serde_json::from_value(there).unwrap()).await.unwrap();
    let expected = vec![("cloud://1".to_owned(), "instanceRunning")];
    world.until(|| async { world.instances(GROUP).await == expected }).await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_knows_what_was_there_before_it() {
    let world = World::begin().await;
    for round in 1..=20 {
        let name = format!("g{round}");
        world.create_group(&name, json!({ "desiredNodes": 2 })).await;
        let more = json!({ "spec": { "desiredNodes": 3 } });
        patch::<NodeGroup>(&world.admin, &name, more).await;
        world.refresh().await;
        assert_eq!(world.target(&format!("default/{name}")).await, 3);
        let groups = Api::<NodeGroup>::namespaced(world.admin.clone(), NAMESPACE);
        groups.delete(&name, &DeleteParams::default()).await.unwrap();
        assert!(ids(&world).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_cannot_know_says_so() {
    let world = World::begin().await;
    world.group("g", json!({})).await;
    world.faults.on_lists([Fault::Refused]);
    let error = world.wire.clone().refresh(pb::RefreshRequest {}).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    world.refresh().await;

    // The watch is silent, and the list knows a group that it never told of.
    let world = World::begin_blind().await;
    world.refresh().await;
    world.create_group("h", json!({})).await;
    let error = world.wire.clone().refresh(pb::RefreshRequest {}).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("NodeGroups"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn instances_are_known_by_the_ids_of_their_nodes() {
    let world = World::begin().await;
    world.group("g", json!({ "desiredNodes": 5 })).await;
    for name in ["a", "b", "c", "d", "e"] {
        world.record("g", name).await;
    }
    world.record("another", "x").await;
    world.join("g", "b", Some("cloud://7")).await;
    world.join("g", "c", None).await;
    let failed = json!({ "phase": "Failed", "reason": "Exhausted", "lastError": "no room" });
    world.status("d", failed).await;
    world.delete(GROUP, vec![made_up("sutler://default/e")]).await.unwrap();
    let expected = vec![
        ("sutler://default/a".to_owned(), "instanceCreating"),
        ("cloud://7".to_owned(), "instanceRunning"),
        // cluster-autoscaler would wait in vain for a node of this ID, and then delete it.
        ("sutler://default/c".to_owned(), "unspecified"),
        ("sutler://default/d".to_owned(), "instanceCreating"),
        ("sutler://default/e".to_owned(), "instanceDeleting"),
    ];
    world.until(|| async { world.instances(GROUP).await == expected }).await;
    let request = pb::NodeGroupNodesRequest { id: GROUP.to_owned() };
    let answer = world.wire.clone().node_group_nodes(request).await.unwrap().into_inner();
    let error = answer.instances[3].status.clone().unwrap().error_info.unwrap();
    assert_eq!((error.error_code.as_str(), error.instance_error_class), ("Exhausted", 1));
    assert_eq!(error.error_message, "no room");
}

#[tokio::test(start_paused = true)]
async fn a_node_leads_to_its_group() {
    let world = World::begin().await;
    world.group("g", json!({ "desiredNodes": 2 })).await;
    world.group("h", json!({ "desiredNodes": 2 })).await;
    world.record("g", "a").await;
    world.join("g", "a", Some("cloud://a")).await;
    world.record("h", "b").await;
    world.until(|| async { world.instances(GROUP).await.len() == 1 }).await;
    world.until(|| async { world.instances("default/h").await.len() == 1 }).await;

    assert_eq!(group_of(&world, node("g", "a", "cloud://a")).await, GROUP);
    let mut bare = node("g", "a", "cloud://a");
    bare.labels.clear();
    let seen = || async { group_of(&world, bare.clone()).await == GROUP };
    world.until(seen).await;
    let by_id = pb::ExternalGrpcNode { name: String::new(), ..bare.clone() };
    assert_eq!(group_of(&world, by_id).await, GROUP);
    let by_name = pb::ExternalGrpcNode { provider_id: String::new(), ..bare };
    assert_eq!(group_of(&world, by_name).await, GROUP);
    assert_eq!(group_of(&world, made_up("sutler://default/b")).await, "default/h");
    // Its record is gone, its label is not.
    assert_eq!(group_of(&world, node("h", "was", "")).await, "default/h");
    for stranger in [made_up("sutler://default/none"), made_up("aws:///z/i-1"), node("x", "z", "")]
    {
        assert_eq!(group_of(&world, stranger).await, "");
    }
}

async fn template(world: &World) -> Result<Vec<u8>, tonic::Status> {
    let request = pb::NodeGroupTemplateNodeInfoRequest { id: GROUP.to_owned() };
    let answer = world.wire.clone().node_group_template_node_info(request).await?;
    Ok(answer.into_inner().node_bytes)
}

#[tokio::test(start_paused = true)]
async fn a_template_is_made_of_what_is_known() {
    let world = World::begin().await;
    world.group("g", json!({ "desiredNodes": 2, "labels": { "tier": "web" } })).await;
    assert_eq!(template(&world).await.unwrap_err().code(), Code::Unimplemented);

    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    world.record("g", "n").await;
    world.status("n", json!({ "resources": { "cpu": 6, "memoryMB": 1000, "diskGB": 1 } })).await;
    world.until(|| async { template(&world).await.is_ok() }).await;
    let from_record = template(&world).await.unwrap();
    assert!(has(&from_record, &(1000u64 << 20).to_string()));

    let class = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMClass",
        "metadata": { "name": "c", "namespace": NAMESPACE },
        "spec": { "cpu": 3, "memory": "2Gi" },
    });
    create::<VMClass>(&world.admin, class).await;
    let memory = (2u64 << 30).to_string();
    world.until(|| async { has(&template(&world).await.unwrap(), &memory) }).await;
    assert!(has(&template(&world).await.unwrap(), "template-g"));
    assert!(has(&template(&world).await.unwrap(), "tier"));

    world.join("g", "n", Some("cloud://n")).await;
    world.until(|| async { has(&template(&world).await.unwrap(), "1900m") }).await;
    assert!(!has(&template(&world).await.unwrap(), "node-n"));
}

#[tokio::test(start_paused = true)]
async fn options_come_from_the_group() {
    let world = World::begin().await;
    world
        .group("g", json!({ "scaleDownPolicy": { "cpuThreshold": 20, "memoryThreshold": 60 } }))
        .await;
    let request = pb::NodeGroupAutoscalingOptionsRequest { id: GROUP.to_owned(), defaults: None };
    let answer = world.wire.clone().node_group_get_options(request).await.unwrap().into_inner();
    let options = answer.node_group_autoscaling_options.unwrap();
    assert!((options.scale_down_utilization_threshold - 0.2).abs() < 1e-9);
    assert_eq!(options.scale_down_unneeded_duration.unwrap().seconds, 600);
}

#[tokio::test(start_paused = true)]
async fn the_rest_is_answered_as_it_is_expected() {
    let world = World::begin().await;
    let mut wire = world.wire.clone();
    let prices = wire.pricing_node_price(pb::PricingNodePriceRequest::default()).await;
    assert_eq!(prices.unwrap_err().code(), Code::Unimplemented);
    let prices = wire.pricing_pod_price(pb::PricingPodPriceRequest::default()).await;
    assert_eq!(prices.unwrap_err().code(), Code::Unimplemented);
    let label = wire.gpu_label(pb::GpuLabelRequest {}).await.unwrap().into_inner().label;
    assert_eq!(label, sutler_externalgrpc::GPU_LABEL);
    let types = wire.get_available_gpu_types(pb::GetAvailableGpuTypesRequest {}).await.unwrap();
    assert!(types.into_inner().gpu_types.is_empty());
    wire.cleanup(pb::CleanupRequest {}).await.unwrap();
    // It goes on: another autoscaler may come.
    world.refresh().await;
}
