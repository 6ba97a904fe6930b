//! Groups of nodes: users who scale and delete them, and machines that join the cluster.

mod judge;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode},
    infra::VirtualMachine,
};
use sutler_provider::{MachineId, Power};
use sutler_sim::{Foreign, Truth};

use crate::{
    garbage,
    world::{MAIN, World},
};

pub use judge::Nodes;

/// The groups of a run that is about nodes.
const GROUPS: [&str; 2] = ["web", "db"];

/// The label of groups that are ours to look after.
const MANAGED: &str = "autoscaler.vpsie.com/managed";

/// What is there before anything is asked for: somebody else's nodes, one of which is called as one of
/// ours might be, and a member of a group that somebody else added to it.
pub async fn prepare(world: &Arc<World>, client: &Client) {
    let foreign = Foreign { group: Some(GROUPS[0].to_owned()), ..Foreign::named("worker-0") };
    let id = world.sims[MAIN].appear(foreign).expect("there is room");
    world.judge(|judge| judge.nodes.is_foreign_machine(&id));
    let api: Api<Node> = Api::all(client.clone());
    // Where machines are called as they should be, nobody else can have that name.
    let count = if world.scenario.platform.own_names { 2 } else { 1 };
    for (name, address) in [("stranger", "192.0.2.1"), ("db-0001", "192.0.2.2")].iter().take(count)
    {
        world.judge(|judge| judge.nodes.is_foreign(name));
        join(&api, name, address).await;
    }
    // What is made within a second of a request cannot be told from what was made for it.
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Somebody makes a group, scales it, deletes one of its nodes, that one's machine, or all of it.
pub async fn act(client: &Client, most: u32, rng: &mut StdRng) {
    let api: Api<NodeGroup> = Api::namespaced(client.clone(), "default");
    let name = GROUPS[rng.random_range(0..GROUPS.len())];
    let desired = rng.random_range(0..=most);
    let Ok(there) = api.get_opt(name).await else { return };
    if there.is_none() {
        let _ = api.create(&PostParams::default(), &manifest(name, desired.max(1), most)).await;
        return;
    }
    match rng.random_range(0..12) {
        0 => {
            let _ = api.delete(name, &DeleteParams::default()).await;
        }
        1..4 => {
            let records: Api<VPSieNode> = Api::namespaced(client.clone(), "default");
            let record = format!("{name}-{:04}", rng.random_range(1..=most));
            let _ = records.delete(&record, &DeleteParams::default()).await;
        }
        4 => {
            let machines: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
            let machine = format!("{name}-{:04}", rng.random_range(1..=most));
            let _ = machines.delete(&machine, &DeleteParams::default()).await;
        }
        _ => {
            let patch = Patch::Merge(json!({ "spec": { "desiredNodes": desired } }));
            let _ = api.patch(name, &PatchParams::default(), &patch).await;
        }
    }
}

fn manifest(name: &str, desired: u32, most: u32) -> NodeGroup {
    serde_json::from_value(json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": { "name": name, "namespace": "default", "labels": { MANAGED: "true" } },
        "spec": { "minNodes": 0, "maxNodes": most, "desiredNodes": desired,
            "providerRef": { "name": MAIN }, "resourceIdentifier": "c-1", "project": "p",
            "datacenterID": "dc-1", "offeringIDs": ["small"], "kubernetesVersion": "v1.34.1",
            "kubeSizeID": 3, "labels": { "pool": name },
            "taints": [{ "key": "dedicated", "value": name, "effect": "NoSchedule" }] },
    }))
    .expect("a manifest of ours can be read")
}

/// What a cluster's own programs do: its garbage collector, and the kubelets of all machines. Each joins some
/// time after its machine runs, and its node is no longer ready once that machine is gone.
pub async fn play_cluster(world: Arc<World>, client: Client, seed: u64) {
    let machines: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
    let api: Api<Node> = Api::all(client);
    let mut rng = StdRng::seed_from_u64(seed ^ 0x4b1e);
    let mut due: BTreeMap<MachineId, tokio::time::Instant> = BTreeMap::new();
    let mut joined: BTreeMap<MachineId, String> = BTreeMap::new();
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(500..5_000))).await;
        garbage::collect(&world, &machines).await;
        let now = tokio::time::Instant::now();
        let running: BTreeMap<MachineId, Truth> = world.sims[MAIN]
            .machines()
            .into_iter()
            .filter(|truth| !truth.hidden && truth.machine.power == Power::On)
            .filter(|truth| truth.machine.group.is_some() && !truth.machine.ips.is_empty())
            .map(|truth| (truth.machine.id.clone(), truth))
            .collect();
        for (id, truth) in &running {
            let patience = *[0, 2, 30, 300].choose(&mut rng).expect("there are some");
            let wait = Duration::from_secs(rng.random_range(0..=patience));
            if *due.entry(id.clone()).or_insert(now + wait) > now || joined.contains_key(id) {
                continue;
            }
            let name = truth.machine.hostname.clone().unwrap_or_else(|| truth.machine.name.clone());
            world.log.line("kubelet", format_args!("{name} of {id} joins"));
            world.judge(|judge| judge.nodes.joins(&name, id));
            join(&api, &name, &truth.machine.ips[0]).await;
            joined.insert(id.clone(), name);
        }
        let gone: Vec<MachineId> =
            joined.keys().filter(|id| !running.contains_key(*id)).cloned().collect();
        for id in gone {
            due.remove(&id);
            let Some(name) = joined.remove(&id) else { continue };
            // Another machine may have taken over its name.
            if !joined.values().any(|other| *other == name) {
                let status = json!({ "status": { "conditions": conditions(false) } });
                let _ =
                    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
            }
        }
    }
}

/// A node joins, or takes over the object of its name.
async fn join(api: &Api<Node>, name: &str, address: &str) {
    let node: Node = serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name }, "spec": {} }))
    .expect("a manifest of ours can be read");
    let _ = api.create(&PostParams::default(), &node).await;
    let addresses = json!([{ "type": "Hostname", "address": name },
        { "type": "InternalIP", "address": address }]);
    let status = json!({ "status": { "addresses": addresses, "conditions": conditions(true) } });
    let _ = api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
}

fn conditions(ready: bool) -> Value {
    let (status, at) = (if ready { "True" } else { "Unknown" }, "2026-01-01T00:00:00Z");
    json!([{ "type": "Ready", "status": status, "reason": "Kubelet", "message": "says so",
        "lastHeartbeatTime": at, "lastTransitionTime": at }])
}

/// Everything about nodes that the API has.
#[derive(Debug, Clone, Default)]
pub struct Books {
    groups: Vec<NodeGroup>,
    records: Vec<VPSieNode>,
    nodes: BTreeMap<String, Node>,
}

impl Books {
    /// Reads it.
    pub async fn read(client: &Client) -> Self {
        let (all, most) = (ListParams::default(), "users can list");
        let groups: Api<NodeGroup> = Api::namespaced(client.clone(), "default");
        let records: Api<VPSieNode> = Api::namespaced(client.clone(), "default");
        let nodes: Api<Node> = Api::all(client.clone());
        let nodes = nodes.list(&all).await.expect(most).items;
        Self {
            groups: groups.list(&all).await.expect(most).items,
            records: records.list(&all).await.expect(most).items,
            nodes: nodes.into_iter().map(|node| (node.name_any(), node)).collect(),
        }
    }

    /// The UIDs of all records.
    fn uids(&self) -> BTreeSet<String> {
        self.records.iter().filter_map(|record| record.metadata.uid.clone()).collect()
    }
}
