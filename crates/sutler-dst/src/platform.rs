//! The platforms as one process sees them, and what the invariants want to know of its calls.

use std::sync::Arc;

use async_trait::async_trait;
use sutler_control::{
    fleet::{Connector, Target},
    rules::{Rule, broken},
};
use sutler_provider::{
    Accepted, Capabilities, CloneRequest, CreateRequest, DeleteRequest, DiskKey, Error, ErrorKind,
    EventStream, GuestCommand, GuestOutput, Host, KeptDisk, Listing, Machine, MachineId, Owner,
    PowerOp, PowerRequest, PrepareRequest, Prepared, Proof, Provider, ReconfigureRequest, Result,
    SnapshotId, SnapshotRequest, Snapshotted, Started, TaskId, TaskState, Token,
};

use crate::{
    images::NAME,
    process::Fuse,
    world::{MAIN, World},
};

/// Connects one process to the platforms of the world.
pub struct Platforms {
    world: Arc<World>,
    name: String,
    life: u64,
    fuse: Fuse,
}

impl Platforms {
    /// The platforms for the process of this name.
    pub fn new(world: Arc<World>, name: &str, life: u64, fuse: Fuse) -> Self {
        Self { world, name: name.to_owned(), life, fuse }
    }
}

#[async_trait]
impl Connector for Platforms {
    async fn connect(&self, target: &Target) -> Result<Arc<dyn Provider>> {
        let platform = target.endpoint.strip_prefix("sim://").unwrap_or_default().to_owned();
        if !self.world.sims.contains_key(&platform) {
            return Err(Error::invalid("spec.endpoint", "there is no such platform"));
        }
        let at: Arc<dyn Provider> = match &self.world.wire {
            Some(wire) if platform == MAIN => Arc::new(wire.remote()),
            _ => Arc::new(self.world.sims[&platform].clone()),
        };
        Ok(Arc::new(Watched {
            world: self.world.clone(),
            at,
            platform,
            process: self.name.clone(),
            life: self.life,
            fuse: self.fuse.clone(),
        }))
    }
}

/// A platform behind the fuse of a process, every call of which is told to the invariants.
struct Watched {
    world: Arc<World>,
    /// The platform itself, or its other end.
    at: Arc<dyn Provider>,
    platform: String,
    process: String,
    life: u64,
    fuse: Fuse,
}

impl Watched {
    fn sim(&self) -> &sutler_sim::Sim {
        &self.world.sims[&self.platform]
    }

    async fn through<T: std::fmt::Debug>(
        &self,
        what: String,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.fuse.burn("before", &what).await;
        let result = call.await;
        let said = match &result {
            Ok(value) => {
                let mut text = format!("{value:?}");
                if text.len() > 160 {
                    text = format!("{} …", text.chars().take(160).collect::<String>());
                }
                text
            }
            Err(error) => format!("{}: {}", error.kind(), error.message()),
        };
        self.world.log.line(&self.process, format_args!("{what} -> {said}"));
        self.world.check();
        self.fuse.burn("after", &what).await;
        result
    }
}

#[async_trait]
impl Provider for Watched {
    async fn validate(&self) -> Result<()> {
        self.through(format!("{} validate", self.platform), self.at.validate()).await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        self.fuse.burn("before", "capabilities").await;
        self.at.capabilities().await
    }

    async fn create(&self, request: CreateRequest) -> Result<Accepted> {
        let token = request.owner.token.clone();
        let host = request.placement.host.clone().unwrap_or_default();
        let what = format!("{} create {} {token} {host}", self.platform, request.name);
        self.asked_for_disks(&request);
        self.make(what, &token, self.at.create(request)).await
    }

    async fn clone_machine(&self, request: CloneRequest) -> Result<Accepted> {
        let token = request.target.owner.token.clone();
        let what = format!("{} copy {} {token}", self.platform, request.source);
        self.asked_for_disks(&request.target);
        self.make(what, &token, self.at.clone_machine(request)).await
    }

    async fn snapshot_create(&self, request: SnapshotRequest) -> Result<Snapshotted> {
        let what = format!("{} snapshot {} {}", self.platform, request.id, request.name);
        self.fuse.burn("before", &what).await;
        self.world.log.line(&self.process, format_args!("{what} is sent"));
        let number = self.world.judge(|judge| {
            let sent = judge.snapshots.take_sent(&request, self.sim());
            let number = sent.as_ref().ok().copied();
            judge.insist(sent.map(|_| ()));
            number
        });
        let call = async {
            let result = self.at.snapshot_create(request).await;
            self.world.judge(|judge| {
                if let Some(number) = number {
                    judge.snapshots.take_answered(number, &result);
                }
            });
            result
        };
        self.through(what, call).await
    }

    async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let what = format!("{} delete snapshot {snapshot} of {id}", self.platform);
        self.world.judge(|judge| {
            let judged = judge.snapshots.delete_sent(id, snapshot, self.sim());
            judge.insist(judged);
        });
        self.through(what, self.at.snapshot_delete(id, proof, snapshot)).await
    }

    async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let what = format!("{} revert {id} to {snapshot}", self.platform);
        self.fuse.burn("before", &what).await;
        self.world.log.line(&self.process, format_args!("{what} is sent"));
        let uid = &proof.owner.token.uid;
        let number = self.world.judge(|judge| {
            let vm = judge.records.get(uid).cloned()?;
            let sent = judge.snapshots.revert_sent(&vm, snapshot, self.sim());
            let number = sent.as_ref().ok().copied();
            judge.insist(sent.map(|_| ()));
            number
        });
        let call = async {
            let result = self.at.snapshot_revert(id, proof, snapshot).await;
            self.world.judge(|judge| {
                if let Some(number) = number {
                    judge.snapshots.revert_answered(uid, number, &result);
                }
            });
            result
        };
        self.through(what, call).await
    }

    async fn hosts(&self) -> Result<Vec<Host>> {
        self.through(format!("{} hosts", self.platform), self.at.hosts()).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Started> {
        let what = format!("{} delete {} {}", self.platform, request.id, request.proof.owner.token);
        self.judge_stop(&request.id, &request.proof);
        self.through(what, self.at.delete(request)).await
    }

    async fn power(&self, request: PowerRequest) -> Result<Started> {
        let what = format!("{} power {} {:?}", self.platform, request.id, request.op);
        if matches!(request.op, PowerOp::Off | PowerOp::Shutdown { .. }) {
            self.judge_stop(&request.id, &request.proof);
        }
        self.through(what, self.at.power(request)).await
    }

    async fn reconfigure(&self, request: ReconfigureRequest) -> Result<Started> {
        let what = format!("{} reconfigure {}", self.platform, request.id);
        self.asked_for_disks(&request.desired);
        self.through(what, self.at.reconfigure(request)).await
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        self.through(format!("{} describe {id}", self.platform), self.at.describe(id)).await
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState> {
        self.through(format!("{} task {id}", self.platform), self.at.task(id)).await
    }

    async fn list(&self) -> Result<Listing> {
        let what = format!("{} list", self.platform);
        self.fuse.burn("before", &what).await;
        let result = self.at.list().await;
        if result.is_ok() {
            let reader = format!("{}-{}", self.process, self.life);
            self.world.judge(|judge| judge.listed(&self.platform, &reader));
        }
        let said = match &result {
            Ok(listing) => {
                let ids: Vec<&str> = listing.machines.iter().map(|m| m.id.0.as_str()).collect();
                format!("{} complete={}", ids.join(","), listing.complete)
            }
            Err(error) => format!("{}: {}", error.kind(), error.message()),
        };
        self.world.log.line(&self.process, format_args!("{what} -> {said}"));
        self.fuse.burn("after", &what).await;
        result
    }

    async fn events(&self) -> Result<EventStream> {
        self.through_events().await
    }

    async fn disown(&self, id: &MachineId, proof: &Proof) -> Result<()> {
        self.through(format!("{} disown {id}", self.platform), self.at.disown(id, proof)).await
    }

    async fn adopt(&self, id: &MachineId, owner: &Owner) -> Result<()> {
        self.through(format!("{} adopt {id}", self.platform), self.at.adopt(id, owner)).await
    }

    async fn image_prepare(&self, request: PrepareRequest) -> Result<Prepared> {
        let what = format!("{} prepare {}", self.platform, request.target);
        self.world.judge(|judge| {
            let (target, force) = (&request.target, request.force);
            let judged = judge.images.prepare_sent(&self.platform, target, force, self.sim());
            judge.insist(judged);
        });
        self.through(what, self.at.image_prepare(request)).await
    }

    async fn image_remove(&self, target: &str) -> Result<Started> {
        let what = format!("{} remove image {target}", self.platform);
        self.world.judge(|judge| {
            let used = judge.records.values().any(|vm| {
                let named = vm.spec.image_ref.as_ref().is_some_and(|image| image.name == NAME);
                let made = vm.status.as_ref().is_some_and(|status| status.id.is_some());
                // One that was asked for afterwards cannot hold the removal up.
                let made = made && judge.images.outlives(vm);
                named && made && vm.spec.provider_ref.name == self.platform
            });
            let judged = judge.images.remove_sent(&self.platform, target, used);
            judge.insist(judged);
        });
        self.through(what, self.at.image_remove(target)).await
    }

    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        self.through(format!("{} kept disks", self.platform), self.at.kept_disks()).await
    }

    async fn kept_disk_remove(&self, key: &DiskKey) -> Result<Started> {
        let what = format!("{} remove kept disk {key}", self.platform);
        self.world.judge(|judge| {
            let judged = judge.disks.remove_sent(key);
            judge.insist(judged);
        });
        self.through(what, self.at.kept_disk_remove(key)).await
    }

    async fn guest_exec(&self, command: GuestCommand) -> Result<GuestOutput> {
        let what = format!("{} exec {} {:?}", self.platform, command.id, command.command);
        let reader = (self.process.clone(), self.life);
        self.world.judge(|judge| judge.hooks.executed(&reader, &command.id, &command.command));
        self.through(what, self.at.guest_exec(command)).await
    }
}

impl Watched {
    /// A machine is about to be made or changed: its disks are its own.
    fn asked_for_disks(&self, request: &CreateRequest) {
        self.world.judge(|judge| {
            let judged = judge.disks.asked(&request.owner, &request.disks);
            judge.insist(judged);
        });
    }

    /// A request that makes a machine, by itself or as a copy of another.
    async fn make(
        &self,
        what: String,
        token: &Token,
        call: impl Future<Output = Result<Accepted>>,
    ) -> Result<Accepted> {
        self.fuse.burn("before", &what).await;
        self.world.log.line(&self.process, format_args!("{what} is sent"));
        let number = self.world.create_sent(&self.platform, token);
        let result = self.heard(call.await);
        self.world.judge(|judge| judge.create_answered(number, &result));
        let said = match &result {
            Ok(accepted) => format!("{accepted:?}"),
            Err(error) => format!("{}: {}", error.kind(), error.message()),
        };
        self.world.log.line(&self.process, format_args!("{what} -> {said}"));
        self.world.check();
        self.fuse.burn("after", &what).await;
        result
    }

    /// An answer of the line, or what one that breaks the rule would make of its loss.
    fn heard<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(error)
                if self.world.wire.is_some()
                    && error.kind() == ErrorKind::Indeterminate
                    && broken(Rule::LostCallsAreUnknown) =>
            {
                Err(Error::unavailable(error.message()))
            }
            result => result,
        }
    }

    /// A machine is about to be stopped: its guest was told, where that is wanted.
    fn judge_stop(&self, id: &MachineId, proof: &Proof) {
        let reader = (self.process.clone(), self.life);
        self.world.judge(|judge| {
            let token = &proof.owner.token;
            let Some(vm) = judge.records.get(&token.uid).cloned() else { return };
            let judged = judge.hooks.judge_stop(&reader, id, token, &vm, self.sim());
            judge.insist(judged);
        });
    }

    async fn through_events(&self) -> Result<EventStream> {
        let what = format!("{} events", self.platform);
        self.fuse.burn("before", &what).await;
        let stream = self.at.events().await;
        self.world.log.line(&self.process, format_args!("{what} {}", stream.is_ok()));
        stream
    }
}
