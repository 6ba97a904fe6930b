//! Disks that outlive their machines: who may ask for them, and that none is lost, made twice, given
//! to two or left behind.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use rand::{Rng as _, rngs::StdRng};
use serde_json::{Value, json};
use sutler_api::{
    infra::{VMSet, VolumeRetentionPolicy},
    sutler::{DiskPhase, VMDisk},
};
use sutler_provider::{Disk, DiskKey, Owner};
use sutler_sim::Sim;

/// What each machine of a set has besides its root disk.
pub(crate) fn templates() -> Value {
    json!([{
        "metadata": { "name": "data" },
        "spec": { "resources": { "requests": { "storage": "2Gi" } } },
    }])
}

/// What becomes of a set's disks.
pub(crate) fn retention(rng: &mut StdRng) -> Value {
    let mut policy = || ["Retain", "Delete"][rng.random_range(0..2)];
    json!({ "whenScaled": policy(), "whenDeleted": policy() })
}

/// Somebody deletes a disk, or wants disks to be kept for another time.
pub(crate) async fn act(client: &Client, set: &str, rng: &mut StdRng) {
    if rng.random_bool(0.5) {
        let api: Api<VMDisk> = Api::namespaced(client.clone(), "default");
        let name = format!("data-{set}-{}", rng.random_range(0..3));
        let _ = api.delete(&name, &DeleteParams::default()).await;
    } else {
        let api: Api<VMSet> = Api::namespaced(client.clone(), "default");
        let policy = json!({ "spec": { "persistentVolumeClaimRetentionPolicy": retention(rng) } });
        let _ = api.patch(set, &PatchParams::default(), &Patch::Merge(policy)).await;
    }
}

/// What has been seen of disks so far.
#[derive(Default)]
pub struct Disks {
    /// Those on record, by UID.
    records: BTreeMap<String, VMDisk>,
    /// Those that are off the books and were to be removed.
    removed: BTreeSet<String>,
    /// Which disk on a platform each key stood for, while its record is there.
    numbers: BTreeMap<DiskKey, u64>,
    /// What a set ever said about its disks: whether they go when it shrinks, and when it goes.
    policies: BTreeMap<String, BTreeSet<(bool, bool)>>,
}

/// What the key of a disk begins with; its record's UID follows.
const OURS: &str = "sutler-";

fn key_of(uid: &str) -> DiskKey {
    DiskKey(format!("{OURS}{uid}"))
}

fn uid_of(key: &DiskKey) -> &str {
    key.0.trim_start_matches(OURS)
}

impl Disks {
    /// A set was written.
    pub fn set_written(&mut self, set: &VMSet) {
        let policy = set.spec.persistent_volume_claim_retention_policy.clone().unwrap_or_default();
        let goes = |policy| policy == VolumeRetentionPolicy::Delete;
        let said = (goes(policy.when_scaled), goes(policy.when_deleted));
        self.policies.entry(set.name_any()).or_default().insert(said);
    }

    /// A record was written: it goes with nothing that its set did not name.
    pub fn written(&mut self, disk: VMDisk) -> Result<(), String> {
        let name = disk.name_any();
        let said: Vec<(bool, bool)> = self.policies.values().flatten().copied().collect();
        for owner in disk.owner_references() {
            let meant = match owner.kind.as_str() {
                "VirtualMachine" => said.iter().any(|(scaled, _)| *scaled),
                _ => said.iter().any(|(_, deleted)| *deleted),
            };
            if !meant {
                return Err(format!("disks: {name} is to go with {} {}", owner.kind, owner.name));
            }
        }
        self.records.insert(disk.uid().unwrap_or_default(), disk);
        Ok(())
    }

    /// Whether this is on record.
    pub fn knows(&self, uid: &str) -> bool {
        self.records.contains_key(uid)
    }

    /// The records that there are, by UID.
    pub fn uids(&self) -> Vec<String> {
        self.records.keys().cloned().collect()
    }

    /// A record went off the books: its disk did before.
    pub fn gone(&mut self, uid: &str, sims: &BTreeMap<String, Sim>) -> Result<(), String> {
        let Some(disk) = self.records.remove(uid) else { return Ok(()) };
        self.removed.insert(uid.to_owned());
        let key = key_of(uid);
        self.numbers.remove(&key);
        match sims.values().any(|sim| sim.kept().iter().any(|kept| kept.key == key)) {
            true => Err(format!("disks: {} is off the books and still there", disk.name_any())),
            false => Ok(()),
        }
    }

    /// A machine is about to be made or changed: its disks were given to its record.
    pub fn asked(&self, owner: &Owner, disks: &[Disk]) -> Result<(), String> {
        for key in disks.iter().filter_map(|disk| disk.kept.as_ref()) {
            let Some(record) = self.records.get(uid_of(key)) else {
                return Err(format!("disks: {key} is asked for, and no record says so"));
            };
            let user = record.status.as_ref().and_then(|status| status.vm_ref.as_ref());
            if user.is_none_or(|user| user.uid != owner.token.uid) {
                let name = record.name_any();
                return Err(format!("disks: {name} is asked for by {}: {user:?}", owner.name));
            }
        }
        Ok(())
    }

    /// A disk is about to be removed: its record is going, and nobody has it.
    pub fn remove_sent(&self, key: &DiskKey) -> Result<(), String> {
        let Some(record) = self.records.get(uid_of(key)) else {
            // A view that is behind removes it once more: the key is that record's alone.
            return match self.removed.contains(uid_of(key)) {
                true => Ok(()),
                false => Err(format!("disks: {key} is removed, and no record says so")),
            };
        };
        let user = record.status.as_ref().and_then(|status| status.vm_ref.as_ref());
        match record.metadata.deletion_timestamp.is_some() && user.is_none() {
            true => Ok(()),
            false => Err(format!("disks: {} is removed and was {user:?}'s", record.name_any())),
        }
    }

    /// A key stands for one disk as long as its record is there: what is on it is never lost.
    pub fn judge_platform(&mut self, sim: &Sim) -> Result<(), String> {
        for kept in sim.kept() {
            let going = |record: &VMDisk| record.metadata.deletion_timestamp.is_some();
            let first = *self.numbers.entry(kept.key.clone()).or_insert(kept.number);
            if first != kept.number
                && self.records.get(uid_of(&kept.key)).is_some_and(|record| !going(record))
            {
                return Err(format!("disks: {} was made a second time", kept.key));
            }
        }
        Ok(())
    }

    /// After the calm: what is on the platforms is what is on record, and where that says.
    pub fn judge_end(&self, sims: &BTreeMap<String, Sim>) -> Result<(), String> {
        let kept: BTreeMap<DiskKey, _> =
            sims.values().flat_map(Sim::kept).map(|kept| (kept.key.clone(), kept)).collect();
        if let Some(left) = kept.keys().find(|key| !self.knows(uid_of(key))) {
            return Err(format!("disks: {left} was left behind"));
        }
        for (uid, record) in &self.records {
            let name = record.name_any();
            let status = record.status.clone().unwrap_or_default();
            let there = kept.get(&key_of(uid));
            let attached = there.is_some_and(|kept| kept.machine.is_some());
            let as_said = match status.phase {
                Some(DiskPhase::Pending) => there.is_none(),
                Some(DiskPhase::Attached) => attached,
                Some(DiskPhase::Detached) => there.is_some() && !attached,
                // One that a machine has waits for that.
                Some(DiskPhase::Deleting) => status.vm_ref.is_some(),
                None => false,
            };
            if !as_said {
                return Err(format!(
                    "disks: {name} says {:?}, and there is {there:?}",
                    status.phase
                ));
            }
        }
        Ok(())
    }
}
