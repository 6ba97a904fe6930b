//! The garbage collector of a cluster: a machine's record whose owner is gone goes too. Such a record comes
//! of a process that did not know yet that the owner was gone when it made it.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use sutler_api::infra::VirtualMachine;

use crate::{invariants::Judge, world::World};

/// Looks again and again.
pub async fn play(world: Arc<World>, client: Client, seed: u64) {
    let machines: Api<VirtualMachine> = Api::namespaced(client, "default");
    let mut rng = StdRng::seed_from_u64(seed ^ 0x6a4b);
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(500..5_000))).await;
        collect(&world, &machines).await;
    }
}

/// Looks once.
pub async fn collect(world: &World, machines: &Api<VirtualMachine>) {
    for (name, uid) in world.judge(|judge| ownerless(judge)) {
        let exactly = Preconditions { uid: Some(uid), resource_version: None };
        let _ = machines.delete(&name, &DeleteParams::default().preconditions(exactly)).await;
    }
}

/// Records of machines, by name and UID, all of whose owners are gone.
fn ownerless(judge: &Judge) -> Vec<(String, String)> {
    let lives = |uid: &str| judge.nodes.knows(uid) || judge.sets.knows(uid);
    let is_ownerless = |vm: &&VirtualMachine| {
        let owners = vm.owner_references();
        let collected = |kind: &str| matches!(kind, "VPSieNode" | "VMSet");
        !owners.is_empty() && owners.iter().all(|o| collected(&o.kind) && !lives(&o.uid))
    };
    let kept = |vm: &&VirtualMachine| vm.metadata.deletion_timestamp.is_none();
    let machines = judge.records.values().filter(kept).filter(is_ownerless);
    machines.map(|vm| (vm.name_any(), vm.uid().unwrap_or_default())).collect()
}
