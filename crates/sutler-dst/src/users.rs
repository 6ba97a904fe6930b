//! Users: they make machines, change their minds, and delete.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use sutler_api::infra::{Provider, VMClass, VMImage, VirtualMachine};

use crate::{
    api::{Dice, FaultyApi},
    copies, hooks, images, nodes,
    process::Fuse,
    scenario::Theme,
    sets, snapshots,
    world::{MAIN, NEIGHBOUR, World},
};
use std::sync::Mutex;

/// Users' way to the API: nothing ever happens to it.
pub fn client(world: &Arc<World>) -> Client {
    let dice = Dice { rng: StdRng::seed_from_u64(0), calls: 0.0, watches: 0.0, late: false };
    let fuse = Fuse::new(-1, "user", world.log.clone());
    let api = FaultyApi::new(world, "user", Arc::new(Mutex::new(dice)), fuse);
    Client::new(api, "default")
}

/// Which control plane this is.
pub async fn installation(client: &Client) -> String {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let system = api.get("kube-system").await.expect("every API server has it");
    system.uid().unwrap_or_default()
}

/// Makes what machines refer to.
pub async fn prepare(world: &Arc<World>, client: &Client) {
    let naming = if world.scenario.hashed { "Hashed" } else { "Exact" };
    for name in [MAIN, NEIGHBOUR] {
        let reap = world.scenario.reap;
        create::<Provider>(client, json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
            "metadata": { "name": name, "annotations": { "sutler.dev/reap-orphans": reap.to_string() } },
            "spec": {
                "type": "sim", "endpoint": format!("sim://{name}"),
                "naming": if name == MAIN { naming } else { "Hashed" },
                "rateLimit": { "qps": 1000, "burst": 1000 },
                "discovery": { "interval": "10s", "timeout": "5m" },
            },
        }))
        .await;
    }
    create::<VMClass>(
        client,
        json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMClass",
            "metadata": { "name": "small" }, "spec": { "cpu": 1, "memory": "1Gi" },
        }),
    )
    .await;
    create::<VMImage>(client, images::manifest("debian")).await;
    if world.scenario.placed {
        sets::prepare(client).await;
    }
    if world.scenario.theme == Theme::Nodes {
        nodes::prepare(world, client).await;
    }
}

async fn create<K>(client: &Client, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + serde::Serialize
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    let object: K = serde_json::from_value(object).expect("a manifest of ours can be read");
    api.create(&PostParams::default(), &object).await.expect("a manifest of ours is accepted");
}

/// Names of machines, some of which other names begin with.
const NAMES: [&str; 6] = ["vm-0", "vm-0-1", "vm", "vm-1", "vm-2", "vm-3"];

/// Users act until `end`.
pub async fn act(world: &Arc<World>, client: &Client, seed: u64, end: tokio::time::Instant) {
    let mut rng = StdRng::seed_from_u64(seed ^ 0x05e5);
    let api: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
    let mut made = 0;
    loop {
        if world.scenario.theme == Theme::Images && rng.random_bool(0.2) {
            images::act(client, &mut rng).await;
        }
        if world.scenario.theme == Theme::Nodes {
            let most = u32::try_from(world.scenario.machines).unwrap_or(u32::MAX);
            nodes::act(client, most, &mut rng).await;
            if !pause(world, &mut rng, end).await {
                return;
            }
            continue;
        }
        let name = NAMES[rng.random_range(0..world.scenario.machines)].to_owned();
        match world.scenario.theme {
            Theme::Snapshots if rng.random_bool(0.6) => {
                snapshots::act(client, &name, &mut rng).await;
            }
            Theme::Copies if rng.random_bool(0.2) => {
                snapshots::act(client, &name, &mut rng).await;
            }
            Theme::Copies if rng.random_bool(0.5) => copies::act(client, &name, &mut rng).await,
            Theme::Sets => {
                sets::act(client, world.scenario.placed, world.scenario.disks, &mut rng).await
            }
            _ => {}
        }
        let there = api.get_opt(&name).await.ok().flatten();
        match there {
            None => {
                let provider =
                    if rng.random_bool(world.scenario.on_main) { MAIN } else { NEIGHBOUR };
                let mut vm = machine(&name, provider, &mut rng);
                if world.scenario.theme == Theme::Hooks {
                    let lifecycle = serde_json::from_value(hooks::lifecycle(&mut rng));
                    vm.spec.lifecycle = Some(lifecycle.expect("a hook of ours can be read"));
                }
                let _ = api.create(&PostParams::default(), &vm).await;
                made += 1;
            }
            // What hangs on a machine needs one that stays for a while.
            Some(_) if world.scenario.theme.needs_machines() && rng.random_bool(0.7) => {}
            Some(vm) if made >= world.scenario.machines || rng.random_bool(0.3) => {
                change(&api, &vm, &mut rng).await;
            }
            Some(_) => {}
        }
        if !pause(world, &mut rng, end).await {
            if world.scenario.theme.needs_machines() {
                snapshots::finish(client).await;
            }
            return;
        }
    }
}

/// Waits for the next thing to do, and tells whether there is one before the end.
async fn pause(world: &World, rng: &mut StdRng, end: tokio::time::Instant) -> bool {
    let mean = world.scenario.user_pause.as_millis() as u64;
    let next = tokio::time::Instant::now() + Duration::from_millis(rng.random_range(0..mean * 2));
    tokio::time::sleep_until(next.min(end)).await;
    next < end
}

/// One machine is made, changed, switched off and on, and deleted.
pub async fn one_life(client: &Client, pause: Duration) {
    let api: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
    let vm = machine("vm-0", MAIN, &mut StdRng::seed_from_u64(2));
    let _ = api.create(&PostParams::default(), &vm).await;
    for change in [
        json!({ "spec": { "resources": { "cpu": 3 } } }),
        json!({ "spec": { "powerState": "Off" } }),
        json!({ "spec": { "powerState": "On" } }),
    ] {
        tokio::time::sleep(pause).await;
        let _ = api.patch("vm-0", &PatchParams::default(), &Patch::Merge(change)).await;
    }
    tokio::time::sleep(pause).await;
    let _ = api.delete("vm-0", &DeleteParams::default()).await;
    tokio::time::sleep(pause).await;
}

fn machine(name: &str, provider: &str, rng: &mut StdRng) -> VirtualMachine {
    let mut spec = json!({
        "providerRef": { "name": provider },
        "classRef": { "name": "small" },
        "imageRef": { "name": "debian" },
    });
    if rng.random_bool(0.3) {
        spec["disks"] = json!([{ "name": "data", "sizeGiB": rng.random_range(1..5) }]);
    }
    if rng.random_bool(0.2) {
        spec["powerState"] = json!(["On", "Off", "OffGraceful"][rng.random_range(0..3)]);
    }
    if rng.random_bool(0.1) {
        spec["deletionPolicy"] = json!("Retain");
    }
    if rng.random_bool(0.1) {
        spec["lifecycle"] = json!({ "postStart": { "exec": { "command": ["true"] } } });
    }
    serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec,
    }))
    .expect("a manifest of ours can be read")
}

async fn change(api: &Api<VirtualMachine>, vm: &VirtualMachine, rng: &mut StdRng) {
    let name = vm.name_any();
    let patch = match rng.random_range(0..10) {
        0..4 => {
            let _ = api.delete(&name, &DeleteParams::default()).await;
            return;
        }
        4 => json!({ "spec": { "resources": { "cpu": rng.random_range(1..9) } } }),
        5 => json!({ "spec": { "powerState": "Off" } }),
        6 => json!({ "spec": { "powerState": "On" } }),
        7 => json!({ "spec": { "powerState": "OffGraceful" } }),
        8 => json!({ "metadata": { "annotations": {
            "sutler.dev/restart-requested-at": rng.random_range(0..1000).to_string(),
        } } }),
        _ => json!({ "metadata": { "labels": { "touched": rng.random_range(0..9).to_string() } } }),
    };
    let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
}
