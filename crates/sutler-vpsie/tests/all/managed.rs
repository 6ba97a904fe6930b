//! Workers of managed clusters.

use std::time::Duration;

use serde_json::json;
use sutler_provider::{
    Accepted, DeleteRequest, ErrorKind, Power, PowerOp, PowerRequest, Provider as _, TaskState,
};
use sutler_vpsie::{
    Dialect,
    fake::{Fault, Naming, Planned, Shape, When},
    raw,
};

use crate::lab::{BOTH, CLUSTER, Lab, proof, worker};

const ADD: &str = "/add/slave/group/";
const GROUP: &str = "/cluster/add/group";

async fn lab(dialect: Dialect) -> Lab {
    let lab = Lab::new(dialect).await;
    lab.fake.add_cluster(CLUSTER, "prod", 2);
    lab
}

#[tokio::test]
async fn a_worker_is_accepted_without_an_id_and_shows_with_all_that_is_known_of_it() {
    for dialect in BOTH {
        let lab = lab(dialect).await;
        let group = lab.fake.add_group(CLUSTER, "pool", 2);
        let accepted = lab.vpsie.create(worker("n-1", "pool", None)).await.unwrap();
        assert_eq!(accepted, Accepted::default());
        assert!(
            lab.machines().await.is_empty(),
            "it is not there yet, and masters are no machines"
        );
        lab.fake.tick(2);
        let machines = lab.machines().await;
        let [machine] = machines.as_slice() else { panic!("{machines:?}") };
        let node = lab.fake.nodes(CLUSTER).pop().unwrap().machine;
        assert_eq!(machine.hostname.as_ref(), Some(&node.hostname));
        assert_eq!(machine.group.as_deref(), Some("pool"));
        assert_eq!(machine.ips[0], format!("192.0.2.{}", node.id % 250));
        assert_eq!((machine.cpu, machine.memory_mib), (Some(2), Some(1024)));
        assert_eq!(machine.power, Power::On);
        let told = |key: &str| machine.raw.get(key).cloned();
        assert_eq!(told(raw::IDENTIFIER), Some(node.identifier));
        assert_eq!(told(raw::GROUP_ID), Some(group.to_string()));
        assert_eq!(told(raw::CLUSTER).as_deref(), Some(CLUSTER));
        if dialect == Dialect::Govpsie {
            assert_eq!(told(raw::ID), Some(node.id.to_string()));
            assert_eq!(machine.created_at.map(|at| at.as_second()), Some(node.created.as_second()));
        } else {
            assert_eq!(told(raw::STATUS).as_deref(), Some("running"));
        }
        let described = lab.vpsie.describe(&machine.id).await.unwrap();
        assert_eq!(described.as_ref(), Some(machine));
    }
}

#[tokio::test]
async fn a_list_takes_as_many_calls_for_a_thousand_machines_as_for_one_apart_from_pages() {
    for dialect in BOTH {
        let shape = Shape { page_size: 1000, ..Shape::new(dialect) };
        let lab = Lab::with(shape, json!({})).await;
        lab.fake.add_cluster(CLUSTER, "prod", 1);
        let group = lab.fake.add_group(CLUSTER, "pool", 1);
        let mut counts = Vec::new();
        for more in [1, 99] {
            for number in 0..more {
                lab.fake.add_vm(&format!("vm-{more}-{number}"));
                lab.fake.add_node(CLUSTER, Some(group), &format!("n-{more}-{number}-k8s-worker"));
            }
            lab.fake.forget_requests();
            lab.machines().await;
            counts.push(lab.fake.requests().len());
        }
        // The v2 pages are of a hundred rows at most, which is what there are.
        assert_eq!(counts[0], counts[1], "{dialect:?}");
        assert!(counts[0] <= 5, "{dialect:?}: {counts:?}");
    }
}

#[tokio::test]
async fn a_group_is_made_once_however_many_ask_for_it_at_once() {
    for dialect in BOTH {
        let lab = lab(dialect).await;
        let names = ["a", "b", "c", "d", "e"];
        let all = names.map(|name| lab.vpsie.create(worker(name, "pool", Some("1"))));
        for answer in futures::future::join_all(all).await {
            answer.unwrap();
        }
        assert_eq!(lab.fake.count("POST", GROUP), 1, "{dialect:?}");
        assert_eq!(lab.fake.groups(CLUSTER).len(), 1);
        lab.fake.tick(2);
        assert_eq!(lab.machines().await.len(), 5);
    }
}

#[tokio::test]
async fn a_group_whose_making_is_not_known_to_have_ended_makes_no_second_one() {
    for dialect in BOTH {
        let lab = lab(dialect).await;
        lab.fake.plan(Planned::once("POST", GROUP, Fault::Cut(When::After)));
        let error = lab.vpsie.create(worker("a", "pool", Some("1"))).await.unwrap_err();
        // No node was asked for, so that the same request can be sent again.
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(lab.fake.count("POST", ADD), 0);
        lab.vpsie.create(worker("a", "pool", Some("1"))).await.unwrap();
        assert_eq!((lab.fake.groups(CLUSTER).len(), lab.fake.count("POST", ADD)), (1, 1));
    }
}

#[tokio::test]
async fn what_a_group_is_not_is_refused_by_name() {
    for dialect in BOTH {
        let lab = lab(dialect).await;
        lab.fake.add_group(CLUSTER, "pool", 2);
        let refused = async |request| lab.vpsie.create(request).await.unwrap_err();
        for (request, field) in [
            (worker("a", "other", None), "spec.managedNode.size"),
            (worker("a", "other", Some("large")), "spec.managedNode.size"),
            (worker("a", "pool", Some("1")), "spec.managedNode.size"),
        ] {
            let error = refused(request).await;
            assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some(field)), "{error}");
        }
        let mut request = worker("a", "pool", None);
        request.tags = vec!["x".to_owned()];
        assert_eq!(refused(request).await.field(), Some("spec.tags"));
        let mut request = worker("a", "pool", None);
        request.power_on = false;
        assert_eq!(refused(request).await.field(), Some("spec.powerState"));
        assert_eq!(lab.fake.count("POST", ""), 0, "something was asked for");
    }
}

#[tokio::test]
async fn a_cluster_that_options_leave_out_is_refused_and_not_listed() {
    for dialect in BOTH {
        let lab = Lab::with(Shape::new(dialect), json!({"clusters": ["c2"]})).await;
        for (cluster, name) in [(CLUSTER, "prod"), ("c2", "other")] {
            lab.fake.add_cluster(cluster, name, 1);
            let group = lab.fake.add_group(cluster, "pool", 1);
            lab.fake.add_node(cluster, Some(group), &format!("{name}-1-k8s-worker"));
        }
        let error = lab.vpsie.create(worker("a", "pool", None)).await.unwrap_err();
        assert_eq!(error.field(), Some("spec.managedNode.cluster"));
        let names: Vec<String> = lab.machines().await.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["other-1-k8s-worker"]);
        lab.vpsie.validate().await.unwrap();
        lab.fake.remove_cluster("c2");
        let error = lab.vpsie.validate().await.unwrap_err();
        assert_eq!(error.field(), Some("spec.options.clusters"));
        assert!(lab.machines().await.is_empty(), "a cluster that is gone has no nodes");
    }
}

#[tokio::test]
async fn deleting_a_worker_deletes_that_one_and_ends_when_it_is_gone() {
    for dialect in BOTH {
        let lab = lab(dialect).await;
        let group = lab.fake.add_group(CLUSTER, "pool", 1);
        lab.fake.add_node(CLUSTER, Some(group), "a-k8s-worker");
        lab.fake.add_node(CLUSTER, Some(group), "b-k8s-worker");
        let machines = lab.machines().await;
        let b = machines.iter().find(|one| one.name == "b-k8s-worker").unwrap();
        let delete = |called: &str| DeleteRequest { id: b.id.clone(), proof: proof("b", called) };
        let error = lab.vpsie.delete(delete("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let task = lab.vpsie.delete(delete("b")).await.unwrap().task.unwrap();
        let running = TaskState::Running { percent: None, message: None };
        assert_eq!(lab.vpsie.task(&task).await.unwrap(), running);
        lab.fake.tick(1);
        assert_eq!(lab.vpsie.task(&task).await.unwrap(), TaskState::Done { id: None });
        let left: Vec<String> = lab.machines().await.into_iter().map(|one| one.name).collect();
        assert_eq!(left, ["a-k8s-worker"]);
        // A second time there is nothing to do.
        assert_eq!(lab.vpsie.delete(delete("b")).await.unwrap().task, None);
        assert_eq!(lab.fake.count("DELETE", "/delete/slave"), 1);
    }
}

#[tokio::test]
async fn a_worker_without_a_uuid_goes_only_as_the_last_of_its_group() {
    let shape = Shape { nodes_among_all: false, ..Shape::new(Dialect::Govpsie) };
    let lab = Lab::with(shape, json!({})).await;
    lab.fake.add_cluster(CLUSTER, "prod", 1);
    let group = lab.fake.add_group(CLUSTER, "pool", 1);
    lab.fake.add_node(CLUSTER, Some(group), "a-k8s-worker");
    let first = lab.machines().await.remove(0);
    assert_eq!(first.group.as_deref(), Some("pool"), "the one group has all the workers");
    let delete = DeleteRequest { id: first.id.clone(), proof: proof("a", "a") };
    lab.fake.add_node(CLUSTER, Some(group), "b-k8s-worker");
    let error = lab.vpsie.delete(delete.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(lab.fake.count("DELETE", ""), 0, "VPSie would have picked one");
    // Somebody else removes the other one.
    let other = lab.machines().await.into_iter().find(|one| one.id != first.id).unwrap();
    let number = other.raw[raw::ID].parse::<i64>().unwrap();
    lab.fake.remove_node(CLUSTER, number);
    // One that was asked for may be on its way, unseen.
    lab.fake.plan(Planned::once("POST", ADD, Fault::Cut(When::Before)));
    drop(lab.vpsie.create(worker("c", "pool", None)).await.unwrap_err());
    let error = lab.vpsie.delete(delete.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(lab.fake.count("DELETE", ""), 0);
    lab.clock.advance(Duration::from_secs(16 * 60));
    lab.vpsie.delete(delete).await.unwrap();
    lab.fake.tick(1);
    assert!(lab.machines().await.is_empty());
    assert_eq!(lab.fake.nodes(CLUSTER).len(), 1, "the master is there");
}

#[tokio::test]
async fn what_may_be_a_master_is_neither_shown_nor_gone() {
    let shape = Shape { naming: Naming::Arbitrary, ..Shape::new(Dialect::Govpsie) };
    for (options, workers, complete) in
        [(json!({}), 0, false), (json!({"workerNodeTypes": [2]}), 1, true)]
    {
        let lab = Lab::with(shape.clone(), options).await;
        lab.fake.add_cluster(CLUSTER, "prod", 1);
        let group = lab.fake.add_group(CLUSTER, "pool", 1);
        lab.vpsie.create(worker("a", "pool", None)).await.unwrap();
        lab.fake.tick(2);
        let listing = lab.vpsie.list().await.unwrap();
        assert_eq!((listing.machines.len(), listing.complete), (workers, complete));
        let node = lab.fake.nodes(CLUSTER).into_iter().find(|one| one.group == Some(group));
        let id = format!("node.{CLUSTER}.{}", node.unwrap().machine.id);
        match lab.vpsie.describe(&id.as_str().into()).await {
            Ok(found) => assert!(found.is_some() && complete),
            Err(error) => {
                assert!(!complete && error.message().contains("workerNodeTypes"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn the_power_of_a_worker_is_vpsies() {
    for dialect in BOTH {
        let lab = lab(dialect).await;
        lab.fake.add_node(CLUSTER, None, "a-k8s-worker");
        let id = lab.machines().await.remove(0).id;
        let request = PowerRequest { id, proof: proof("a", "a"), op: PowerOp::Off };
        let error = lab.vpsie.power(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

#[tokio::test]
async fn a_list_that_lags_shows_what_was() {
    for dialect in BOTH {
        let lab = lab(dialect).await;
        lab.fake.add_group(CLUSTER, "pool", 1);
        lab.fake.freeze();
        lab.vpsie.create(worker("a", "pool", None)).await.unwrap();
        lab.fake.tick(5);
        assert!(lab.machines().await.is_empty());
        lab.fake.thaw();
        assert_eq!(lab.machines().await.len(), 1);
    }
}
