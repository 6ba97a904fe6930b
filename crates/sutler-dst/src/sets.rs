//! Sets and placement: users who scale, update and delete, and what must hold at every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rand::{Rng as _, rngs::StdRng};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::{VMPlacementPolicy, VMSet, VirtualMachine},
    names::{condition_types, labels},
};
use sutler_sim::{HostSettings, Sim};
use tokio::time::Instant;

use crate::world::MAIN;

/// The set of a run that is about sets.
const SET: &str = "web";
/// The policy that keeps its machines on hosts of their own.
pub const POLICY: &str = "apart";

/// How long a call can be under way after the look at the set that it is made for.
const MOMENT: Duration = Duration::from_secs(10);

/// As many hosts as a set can have machines, stand-ins included.
pub fn hosts() -> Vec<HostSettings> {
    ["h0", "h1", "h2", "h3"]
        .map(|name| HostSettings { name: name.to_owned(), ..HostSettings::default() })
        .into()
}

/// Makes the policy.
pub async fn prepare(client: &Client) {
    let policy: VMPlacementPolicy = serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMPlacementPolicy",
        "metadata": { "name": POLICY, "namespace": "default" },
        "spec": { "antiAffinity": { "hostAntiAffinity": { "enabled": true } } },
    }))
    .expect("a manifest of ours can be read");
    let api: Api<VMPlacementPolicy> = Api::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &policy).await.expect("a manifest of ours is accepted");
}

/// Somebody makes the set, scales it, updates it, deletes one of its machines or all of it.
pub async fn act(client: &Client, placed: bool, disks: bool, rng: &mut StdRng) {
    let api: Api<VMSet> = Api::namespaced(client.clone(), "default");
    let replicas = rng.random_range(1..4);
    let Ok(there) = api.get_opt(SET).await else { return };
    if there.is_none() {
        let _ = api.create(&PostParams::default(), &manifest(replicas, placed, disks, rng)).await;
        return;
    }
    if disks && rng.random_bool(0.2) {
        return crate::disks::act(client, SET, rng).await;
    }
    let patch = match rng.random_range(0..12) {
        0 => {
            let _ = api.delete(SET, &DeleteParams::default()).await;
            return;
        }
        1..4 => {
            let machines: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
            let member = format!("{SET}-{}", rng.random_range(0..3));
            let _ = machines.delete(&member, &DeleteParams::default()).await;
            return;
        }
        4..7 => json!({ "spec": { "replicas": replicas } }),
        _ => json!({ "spec": { "template": { "spec": {
            "tags": [format!("v{}", rng.random_range(0..4))],
        } } } }),
    };
    let _ = api.patch(SET, &PatchParams::default(), &Patch::Merge(patch)).await;
}

fn manifest(replicas: u32, placed: bool, disks: bool, rng: &mut StdRng) -> VMSet {
    let mut spec = json!({ "providerRef": { "name": MAIN }, "classRef": { "name": "small" },
        "imageRef": { "name": "debian" } });
    if placed {
        spec["placementRef"] = json!({ "name": POLICY });
    }
    let order = if rng.random_bool(0.5) { "Parallel" } else { "OrderedReady" };
    let mut set = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSet",
        "metadata": { "name": SET, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": SET } },
            "updateStrategy": { "rollingUpdate": {
                "maxUnavailable": 1, "maxSurge": rng.random_range(0..2),
                "podManagementPolicy": order,
            } },
            "template": { "metadata": { "labels": { "app": SET } }, "spec": spec },
        },
    });
    if disks {
        set["spec"]["volumeClaimTemplates"] = crate::disks::templates();
        set["spec"]["persistentVolumeClaimRetentionPolicy"] = crate::disks::retention(rng);
    }
    serde_json::from_value(set).expect("a manifest of ours can be read")
}

/// What a set may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    replicas: usize,
    unavailable: usize,
    surge: usize,
}

fn bounds(set: &VMSet) -> Bounds {
    let rolling = set.spec.update_strategy.clone().unwrap_or_default().rolling_update;
    let rolling = rolling.unwrap_or_default();
    let number = |value: &IntOrString| match value {
        IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
        IntOrString::String(_) => 0,
    };
    Bounds {
        replicas: usize::try_from(set.spec.replicas).unwrap_or(0),
        unavailable: number(&rolling.max_unavailable),
        surge: number(&rolling.max_surge),
    }
}

/// What has been seen of sets so far.
#[derive(Default)]
pub struct Sets {
    /// Those on record, by UID.
    records: BTreeMap<String, VMSet>,
    /// What each was to be like, and since when.
    history: BTreeMap<String, Vec<(Instant, Bounds)>>,
    /// When each machine's record was first seen.
    made: BTreeMap<String, Instant>,
    /// When each machine's record was last seen to be ready.
    ready: BTreeMap<String, Instant>,
    /// Records that somebody else than a set deleted, and when.
    deleted: BTreeMap<String, Instant>,
    /// Where machines are to be kept apart: records that have the policy.
    apart: BTreeSet<String>,
}

/// The set that a record belongs to.
fn set_of(vm: &VirtualMachine) -> Option<String> {
    let owner = vm.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == "VMSet").then(|| owner.uid.clone())
}

fn number(vm: &VirtualMachine) -> Option<usize> {
    vm.name_any().rsplit('-').next()?.parse().ok()
}

impl Sets {
    /// A set was written.
    pub fn written(&mut self, set: VMSet) {
        let uid = set.uid().unwrap_or_default();
        let (bounds, history) = (bounds(&set), self.history.entry(uid.clone()).or_default());
        if history.last().is_none_or(|(_, last)| *last != bounds) {
            history.push((Instant::now(), bounds));
        }
        self.records.insert(uid, set);
    }

    /// Whether this is on record.
    pub fn knows(&self, uid: &str) -> bool {
        self.records.contains_key(uid)
    }

    /// The records that there are, by UID.
    pub fn uids(&self) -> Vec<String> {
        self.records.keys().cloned().collect()
    }

    /// A set went off the books: its machines did before. What another process made in the very moment in
    /// which this one let the set go, no look could have prevented: the garbage collector removes it.
    pub fn gone(
        &mut self,
        uid: &str,
        all: &BTreeMap<String, VirtualMachine>,
        overlap: bool,
    ) -> Result<(), String> {
        if self.records.remove(uid).is_none() {
            return Ok(());
        }
        let now = Instant::now();
        let just_made = |vm: &&VirtualMachine| {
            let made = self.made.get(&vm.uid().unwrap_or_default());
            overlap && made.is_some_and(|made| now - *made <= MOMENT)
        };
        let mut members = all.values().filter(|vm| set_of(vm).as_deref() == Some(uid));
        match members.find(|vm| !just_made(vm)) {
            Some(vm) => Err(format!("sets: {} outlives its set", vm.name_any())),
            None => Ok(()),
        }
    }

    /// A machine's record was written: a set has no more than it ever might.
    pub fn judge_record(
        &mut self,
        vm: &VirtualMachine,
        all: &BTreeMap<String, VirtualMachine>,
    ) -> Result<(), String> {
        let uid = vm.uid().unwrap_or_default();
        self.made.entry(uid.clone()).or_insert_with(Instant::now);
        let status = vm.status.as_ref();
        if status.is_some_and(|s| conditions::is_true(&s.conditions, condition_types::READY)) {
            self.ready.insert(uid.clone(), Instant::now());
        }
        if vm.spec.placement_ref.is_some() {
            self.apart.insert(uid);
        }
        let Some(set) = set_of(vm) else { return Ok(()) };
        let Some(history) = self.history.get(&set) else { return Ok(()) };
        let most = history.iter().map(|(_, bounds)| bounds.replicas + bounds.surge).max();
        let members: Vec<String> = all
            .values()
            .filter(|other| set_of(other).as_ref() == Some(&set))
            .map(|vm| vm.name_any())
            .collect();
        match members.len() > most.unwrap_or(0) {
            true => Err(format!("sets: {members:?} are more than {most:?}")),
            false => Ok(()),
        }
    }

    /// A machine's record was deleted by somebody else than us.
    pub fn deleted_by_others(&mut self, uid: &str) {
        self.deleted.insert(uid.to_owned(), Instant::now());
    }

    /// A machine's record was deleted by a process: an update leaves as many as it must. What a view
    /// that is `behind` by so much may still show to be well counts; what a set itself let go does not.
    pub fn deleted_by_us(
        &self,
        vm: &VirtualMachine,
        all: &BTreeMap<String, VirtualMachine>,
        behind: Duration,
    ) -> Result<(), String> {
        let Some(uid) = set_of(vm) else { return Ok(()) };
        let Some(set) = self.records.get(&uid) else { return Ok(()) };
        let well = |vm: &VirtualMachine| {
            let status = vm.status.as_ref();
            status.is_some_and(|s| conditions::is_true(&s.conditions, condition_types::READY))
        };
        if set.metadata.deletion_timestamp.is_some() || !well(vm) {
            return Ok(());
        }
        let now = Instant::now();
        let lately = |at: &Instant| now - *at <= behind;
        // What counted for a view that is behind: all that was wanted since then.
        let history = self.history.get(&uid).into_iter().flatten();
        let mut current: Vec<Bounds> = Vec::new();
        for (since, bounds) in history {
            if !lately(since) {
                current.clear();
            }
            current.push(*bounds);
        }
        let fewest = current.iter().map(|bounds| bounds.replicas).min().unwrap_or(0);
        if number(vm).is_none_or(|number| number >= fewest) {
            return Ok(());
        }
        let floor = current.iter().map(|b| b.replicas.saturating_sub(b.unavailable)).min();
        let others = all.values().filter(|other| {
            let own = other.uid().unwrap_or_default();
            let left = other.metadata.deletion_timestamp.is_none();
            set_of(other).as_ref() == Some(&uid)
                && other.uid() != vm.uid()
                && (left || self.deleted.get(&own).is_some_and(lately))
                && (well(other) || self.ready.get(&own).is_some_and(lately))
        });
        let gone = self.deleted.iter().filter(|(own, at)| {
            lately(at) && !all.contains_key(*own) && self.ready.get(*own).is_some_and(lately)
        });
        let left = others.count() + gone.count();
        match left < floor.unwrap_or(0) {
            true => Err(format!(
                "sets: {} was let go, which leaves {left} of at least {floor:?}",
                vm.name_any()
            )),
            false => Ok(()),
        }
    }

    /// Machines that are to be kept apart are on hosts of their own. What a platform makes a second time
    /// after its record is gone is an orphan, and where it stands nobody could know.
    pub fn judge_places(
        &self,
        sim: &Sim,
        records: &BTreeMap<String, VirtualMachine>,
    ) -> Result<(), String> {
        if self.apart.is_empty() {
            return Ok(());
        }
        let mut on: BTreeMap<String, String> = BTreeMap::new();
        for truth in sim.machines() {
            let (Some(token), Some(host)) = (&truth.machine.token, &truth.machine.host) else {
                continue;
            };
            if !self.apart.contains(&token.uid) || !records.contains_key(&token.uid) {
                continue;
            }
            let other = on.insert(host.clone(), token.uid.clone());
            if let Some(other) = other.filter(|other| *other != token.uid) {
                return Err(format!("placement: {other} and {} are both on {host}", token.uid));
            }
        }
        Ok(())
    }

    /// After the calm: as many as wanted are there, all of the present template.
    pub fn judge_end(&self, all: &BTreeMap<String, VirtualMachine>) -> Result<(), String> {
        let is_gone = |uid: &String| !self.records.contains_key(uid);
        if let Some(vm) = all.values().find(|vm| set_of(vm).as_ref().is_some_and(is_gone)) {
            return Err(format!("sets: {} is still there, and its set is gone", vm.name_any()));
        }
        for (uid, set) in &self.records {
            let name = set.name_any();
            if set.metadata.deletion_timestamp.is_some() {
                return Err(format!("set {name} is still being deleted"));
            }
            let status = set.status.clone().unwrap_or_default();
            let members: Vec<&VirtualMachine> =
                all.values().filter(|vm| set_of(vm).as_ref() == Some(uid)).collect();
            let well = members.iter().all(|vm| {
                let status = vm.status.as_ref();
                status.is_some_and(|s| conditions::is_true(&s.conditions, condition_types::READY))
            });
            let ready = conditions::find(&status.conditions, condition_types::READY);
            let is_ready = ready.is_some_and(|ready| ready.status == "True");
            let bounds = bounds(set);
            if well && !is_ready {
                let ready = ready.map(|ready| format!("{} {}", ready.reason, ready.message));
                return Err(format!("set {name} has not settled: {ready:?}"));
            }
            if is_ready && members.len() != bounds.replicas {
                return Err(format!("set {name} has {} of {bounds:?}", members.len()));
            }
            let revision = status.update_revision.as_ref();
            let old = |vm: &&VirtualMachine| vm.labels().get(labels::REVISION) != revision;
            if is_ready && members.iter().any(old) {
                return Err(format!("set {name} is ready and not updated"));
            }
        }
        Ok(())
    }
}
