//! Changes of a group's size, with failures in the middle: sizes always add up.

use kube::ResourceExt as _;
use serde_json::json;
use sutler_api::autoscaler::{
    NodeGroup,
    removal::{REMOVING, removing},
};
use sutler_externalgrpc::pb::{ExternalGrpcNode, NodeGroupsRequest};
use tonic::Code;

use crate::support::{Fault, GROUP, World, made_up, node, patch};

async fn sized(desired: i32, records: &[&str]) -> World {
    let world = World::begin().await;
    world.group("g", json!({ "desiredNodes": desired })).await;
    for record in records {
        world.record("g", record).await;
        world.join("g", record, Some(&format!("sutler://default/{record}"))).await;
    }
    world
        .until(|| async {
            let instances = world.instances(GROUP).await;
            instances.len() == records.len() && instances.iter().all(|i| i.1 == "instanceRunning")
        })
        .await;
    world
}

fn nodes(names: &[&str]) -> Vec<ExternalGrpcNode> {
    names.iter().map(|name| node("g", name, &format!("sutler://default/{name}"))).collect()
}

async fn list(world: &World) -> Vec<String> {
    removing(&world.stored("g").await).unwrap().into_iter().collect()
}

/// What is stored and what is told are the same, at once.
async fn agreed(world: &World, size: i32) {
    assert_eq!(world.stored("g").await.spec.desired_nodes, size);
    assert_eq!(world.target(GROUP).await, size);
}

#[tokio::test(start_paused = true)]
async fn a_group_grows_up_to_its_bound() {
    let world = sized(2, &[]).await;
    world.increase(GROUP, 2).await.unwrap();
    agreed(&world, 4).await;
    let above = world.increase(GROUP, 2).await.unwrap_err();
    assert_eq!(above.code(), Code::InvalidArgument);
    assert!(above.message().contains("spec.maxNodes"), "{above}");
    for delta in [0, -1, i32::MIN, i32::MAX] {
        let error = world.increase(GROUP, delta).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{delta}");
    }
    agreed(&world, 4).await;
    assert_eq!(world.stored("g").await.metadata.generation, Some(2), "one write, and no other");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_must_not_grow_does_not() {
    let world = World::begin().await;
    world.group("g", json!({ "desiredNodes": 2, "scaleUpPolicy": { "enabled": false } })).await;
    let error = world.increase(GROUP, 1).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let groups = world.wire.clone().node_groups(NodeGroupsRequest {}).await.unwrap().into_inner();
    assert_eq!(groups.node_groups[0].max_size, 2);
    agreed(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_size_that_nobody_decided_on_is_the_least() {
    let world = World::begin().await;
    world.group("g", json!({ "minNodes": 2 })).await;
    assert_eq!(world.target(GROUP).await, 2);
    world.increase(GROUP, 1).await.unwrap();
    agreed(&world, 3).await;
}

#[tokio::test(start_paused = true)]
async fn growth_is_never_counted_twice() {
    use Fault::{Fine, Lost, Overtaken, Refused};
    for (writes, grows) in [
        (vec![Lost], true),
        (vec![Refused], true),
        (vec![Overtaken], true),
        (vec![Overtaken, Lost], true),
        (vec![Refused, Refused, Lost], true),
        (vec![Lost, Lost, Lost], true),
        (vec![Overtaken, Fine], true),
        (vec![Overtaken; 20], false),
    ] {
        let world = sized(1, &[]).await;
        world.faults.on_writes(writes.clone());
        let answer = world.increase(GROUP, 2).await;
        world.faults.clear();
        if grows {
            answer.unwrap_or_else(|error| panic!("{writes:?}: {error}"));
        } else {
            assert_eq!(answer.unwrap_err().code(), Code::Aborted);
        }
        agreed(&world, if grows { 3 } else { 1 }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_known_is_not_guessed() {
    for lost in [true, false] {
        let world = sized(1, &[]).await;
        world.faults.on_writes([if lost { Fault::Lost } else { Fault::Refused }]);
        // The group is read once to decide, and cannot be looked at afterwards.
        world.faults.on_reads([Fault::Fine, Fault::Refused]);
        let error = world.increase(GROUP, 2).await.unwrap_err();
        assert_eq!(error.code(), Code::Unknown);
        world.refresh().await;
        agreed(&world, if lost { 3 } else { 1 }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_away_changes_nothing() {
    let world = sized(1, &[]).await;
    world.faults.on_reads([Fault::Refused]);
    let error = world.increase(GROUP, 1).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    agreed(&world, 1).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_go_take_their_places_with_them() {
    let world = sized(4, &["a", "b", "c", "d"]).await;
    world.delete(GROUP, nodes(&["c", "a", "c"])).await.unwrap();
    agreed(&world, 2).await;
    assert_eq!(world.stored("g").await.annotations()[REMOVING], r#"["a","c"]"#);
    let deleting = world.instances(GROUP).await;
    let deleting: Vec<_> = deleting.iter().filter(|i| i.1 == "instanceDeleting").collect();
    assert_eq!(deleting.len(), 2);

    // Again: the answer was lost on its way to the caller.
    world.delete(GROUP, nodes(&["a", "c"])).await.unwrap();
    agreed(&world, 2).await;
    // In part.
    world.delete(GROUP, nodes(&["a", "b"])).await.unwrap();
    agreed(&world, 1).await;
    assert_eq!(list(&world).await, ["a", "b", "c"]);
    // No more than the least.
    let error = world.delete(GROUP, nodes(&["d"])).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains("spec.minNodes"), "{error}");
    agreed(&world, 1).await;
    assert_eq!(list(&world).await, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn removal_is_never_counted_twice() {
    use Fault::{Lost, Overtaken, Refused};
    for writes in [
        vec![Lost],
        vec![Refused],
        vec![Overtaken],
        vec![Overtaken, Lost],
        vec![Refused, Lost],
        vec![Lost, Lost],
    ] {
        let world = sized(4, &["a", "b"]).await;
        world.faults.on_writes(writes.clone());
        let answer = world.delete(GROUP, nodes(&["a", "b"])).await;
        answer.unwrap_or_else(|error| panic!("{writes:?}: {error}"));
        world.faults.clear();
        agreed(&world, 2).await;
        assert_eq!(list(&world).await, ["a", "b"]);
    }
}

/// The watch lags behind for ever; what was written here is told all the same.
#[tokio::test(start_paused = true)]
async fn what_was_written_is_read() {
    let world = World::begin_blind().await;
    world.increase(GROUP, 2).await.unwrap();
    agreed(&world, 4).await;
    world.faults.on_writes([Fault::Lost]);
    world.increase(GROUP, 1).await.unwrap();
    agreed(&world, 5).await;
    world.record("g", "a").await;
    world.faults.on_writes([Fault::Lost]);
    world.delete(GROUP, vec![made_up("sutler://default/a")]).await.unwrap();
    agreed(&world, 4).await;
    world.decrease(GROUP, -1).await.unwrap();
    agreed(&world, 3).await;
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_add_up() {
    let world = sized(1, &[]).await;
    world.faults.on_writes([Fault::Lost, Fault::Overtaken, Fault::Refused]);
    let calls = (0..4).map(|_| world.increase(GROUP, 1));
    for answer in futures::future::join_all(calls).await {
        answer.unwrap();
    }
    agreed(&world, 5).await;
    assert_eq!(world.stored("g").await.metadata.generation, Some(5));
}

/// The list is worked off between the call and its repetition.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_not_removed_again() {
    let world = sized(4, &["a", "b"]).await;
    world.delete(GROUP, nodes(&["a"])).await.unwrap();
    world.gone("a").await;
    let off = json!({ "metadata": { "annotations": { REMOVING: null } } });
    patch::<NodeGroup>(&world.admin, "g", off).await;
    // No refresh: what the watch of records knows is of no account.
    world.delete(GROUP, nodes(&["a"])).await.unwrap();
    world.delete(GROUP, vec![made_up("sutler://default/a")]).await.unwrap();
    assert_eq!(world.stored("g").await.spec.desired_nodes, 3);
    assert!(list(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_being_deleted_is_not_counted() {
    let world = sized(4, &["a", "b"]).await;
    let records =
        kube::Api::<sutler_api::autoscaler::VPSieNode>::namespaced(world.admin.clone(), "default");
    records.delete("a", &Default::default()).await.unwrap();
    world.delete(GROUP, nodes(&["a"])).await.unwrap();
    agreed(&world, 4).await;
    assert!(list(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_when_one_node_may_not_go() {
    let world = sized(5, &["a", "b", "c"]).await;
    world.group("h", json!({ "desiredNodes": 2 })).await;
    world.record("h", "x").await;
    world.join("h", "x", Some("sutler://default/x")).await;
    world.until(|| async { world.instances("default/h").await.len() == 1 }).await;
    let mut protected = node("g", "b", "sutler://default/b");
    protected.annotations.insert("autoscaler.vpsie.com/protected".into(), "true".into());
    let mut kept = node("g", "b", "sutler://default/b");
    kept.labels.insert("autoscaler.vpsie.com/scale-down-disabled".into(), "true".into());
    let mut mixed_up = node("g", "b", "sutler://default/b");
    mixed_up.name = "node-c".into();
    let mut relabelled = node("g", "x", "sutler://default/x");
    relabelled.name = "node-x".into();
    for other in [
        node("h", "x", "sutler://default/x"),
        relabelled,
        made_up("sutler://default/x"),
        made_up("sutler://elsewhere/a"),
        made_up("aws:///z/i-1"),
        // It registered after all, and nobody has drained it.
        made_up("sutler://default/b"),
        protected,
        kept,
        mixed_up,
    ] {
        let mut all = nodes(&["a"]);
        all.push(other.clone());
        let error = world.delete(GROUP, all).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{other:?}");
        assert!(error.message().contains(&other.name) || error.message().contains("b"), "{error}");
        agreed(&world, 5).await;
        assert!(list(&world).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_failed_can_be_given_up() {
    let world = sized(3, &["a"]).await;
    world.record("g", "f").await;
    world.status("f", json!({ "phase": "Failed", "reason": "Exhausted" })).await;
    world.delete(GROUP, vec![made_up("sutler://default/f")]).await.unwrap();
    agreed(&world, 2).await;
    assert_eq!(list(&world).await, ["f"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_stops_everything() {
    let world = sized(4, &["a"]).await;
    let broken = json!({ "metadata": { "annotations": { REMOVING: "a, b" } } });
    patch::<NodeGroup>(&world.admin, "g", broken).await;
    let error = world.delete(GROUP, nodes(&["a"])).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains(REMOVING), "{error}");
    assert_eq!(world.stored("g").await.spec.desired_nodes, 4);
    assert_eq!(world.stored("g").await.annotations()[REMOVING], "a, b");
}

#[tokio::test(start_paused = true)]
async fn only_what_is_not_there_is_taken_back() {
    let world = sized(5, &["a", "b"]).await;
    world.record("g", "coming").await;
    let error = world.decrease(GROUP, -4).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    agreed(&world, 5).await;
    for delta in [0, 1] {
        let error = world.decrease(GROUP, delta).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    world.faults.on_writes([Fault::Lost]);
    world.decrease(GROUP, -3).await.unwrap();
    agreed(&world, 2).await;
    assert_eq!(list(&world).await, ["coming"]);
    // What leaves anyhow is not counted as being there.
    world.increase(GROUP, 1).await.unwrap();
    world.delete(GROUP, nodes(&["a"])).await.unwrap();
    agreed(&world, 2).await;
    world.decrease(GROUP, -1).await.unwrap();
    agreed(&world, 1).await;
    let error = world.decrease(GROUP, -1).await.unwrap_err();
    assert!(error.message().contains("spec.minNodes"), "{error}");
}

/// What has joined a moment ago counts, whether the watch has seen it or not.
#[tokio::test(start_paused = true)]
async fn a_node_that_just_joined_is_not_taken_back() {
    let world = sized(2, &["a"]).await;
    world.record("g", "b").await;
    world.status("b", json!({ "nodeName": "node-b" })).await;
    let error = world.decrease(GROUP, -1).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    agreed(&world, 2).await;
}
