//! Copies: users who ask for them and change their minds, and what must hold of them at every step.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use rand::{Rng as _, rngs::StdRng};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::{VMClone, VirtualMachine},
    names::{annotations, condition_types, finalizers, labels},
};

use crate::world::MAIN;

/// How many copies users ask for.
const COPIES: usize = 3;

/// Somebody asks for a copy, of a machine, a snapshot or an image, or wants one no more.
pub async fn act(client: &Client, machine: &str, rng: &mut StdRng) {
    let api: Api<VMClone> = Api::namespaced(client.clone(), "default");
    let name = format!("copy-{}", rng.random_range(0..COPIES));
    let target = format!("{name}-vm");
    if rng.random_bool(0.3) {
        if rng.random_bool(0.6) {
            let _ = api.delete(&name, &DeleteParams::default()).await;
        } else {
            let machines: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
            let _ = machines.delete(&target, &DeleteParams::default()).await;
        }
        return;
    }
    let mut spec = json!({ "target": { "name": target }, "options": {
        "type": if rng.random_bool(0.4) { "LinkedClone" } else { "FullClone" },
        "powerOn": rng.random_bool(0.5),
    } });
    match rng.random_range(0..4) {
        0 => {
            spec["source"] = json!({ "imageRef": { "name": "debian" } });
            spec["target"]["providerRef"] = json!({ "name": MAIN });
            spec["target"]["classRef"] = json!({ "name": "small" });
            spec["options"]["type"] = json!("FullClone");
        }
        1 => spec["source"] = json!({ "snapshotRef": { "name": "snap-0" } }),
        _ => spec["source"] = json!({ "vmRef": { "name": machine } }),
    }
    if rng.random_bool(0.3) {
        spec["options"]["timeout"] = json!("60s");
        spec["options"]["retryPolicy"] = json!({ "maxRetries": 2, "retryDelay": "10s" });
    }
    let copy = serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMClone",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec,
    }));
    let copy: VMClone = copy.expect("a manifest of ours can be read");
    let _ = api.create(&PostParams::default(), &copy).await;
}

/// What has been seen of copies so far.
#[derive(Default)]
pub struct Copies {
    /// Those on record, by UID.
    records: BTreeMap<String, VMClone>,
    /// Those that went before their copy was made.
    given_up: BTreeSet<String>,
}

impl Copies {
    /// A request was written.
    pub fn written(&mut self, copy: VMClone) {
        self.records.insert(copy.uid().unwrap_or_default(), copy);
    }

    /// Whether this is on record.
    pub fn knows(&self, uid: &str) -> bool {
        self.records.contains_key(uid)
    }

    /// The records that there are, by UID.
    pub fn uids(&self) -> Vec<String> {
        self.records.keys().cloned().collect()
    }

    /// A request went off the books.
    pub fn gone(&mut self, uid: &str) {
        let Some(copy) = self.records.remove(uid) else { return };
        let done = copy.status.as_ref().is_some_and(|status| status.completion_time.is_some());
        if !done {
            self.given_up.insert(uid.to_owned());
        }
    }

    /// A machine's record was written: one request is one record, and is written down before it.
    pub fn judge_record(
        &self,
        vm: &VirtualMachine,
        all: &BTreeMap<String, VirtualMachine>,
    ) -> Result<(), String> {
        let Some(request) = vm.labels().get(labels::CLONE_UID) else { return Ok(()) };
        let twin = all.values().find(|other| {
            other.uid() != vm.uid() && other.labels().get(labels::CLONE_UID) == Some(request)
        });
        if let Some(twin) = twin {
            let (one, two) = (twin.name_any(), vm.name_any());
            return Err(format!("copies: {one} and {two} are of one request"));
        }
        let Some(copy) = self.records.get(request) else { return Ok(()) };
        let on_record = copy.annotations().contains_key(annotations::CLONE_INTENT)
            && copy.finalizers().iter().any(|name| name == finalizers::VM_CLONE);
        match on_record {
            true => Ok(()),
            false => Err(format!("copies: {} was made, and nothing said so", vm.name_any())),
        }
    }

    /// What has not come to rest.
    pub fn unsettled(&self) -> Option<String> {
        self.records.values().find_map(|copy| {
            let name = copy.name_any();
            if copy.metadata.deletion_timestamp.is_some() {
                return Some(format!("copy {name} is still being deleted"));
            }
            let status = copy.status.as_ref();
            let ready =
                status.and_then(|s| conditions::find(&s.conditions, condition_types::READY));
            let Some(ready) = ready else { return Some(format!("copy {name} says nothing")) };
            let rests = ready.status == "True"
                || status.is_some_and(|s| {
                    conditions::is_true(&s.conditions, condition_types::STALLED)
                })
                // What it is a copy of is not there, and may never be.
                || ["ReferenceNotFound", "Waiting"].contains(&ready.reason.as_str());
            let (reason, message) = (&ready.reason, &ready.message);
            (!rests).then(|| format!("copy {name} has not settled: {reason} {message}"))
        })
    }

    /// After the calm: nothing is left of what was given up.
    pub fn judge_end(&self, all: &BTreeMap<String, VirtualMachine>) -> Result<(), String> {
        if let Some(open) = self.unsettled() {
            return Err(open);
        }
        let left = all.values().find(|vm| {
            let request = vm.labels().get(labels::CLONE_UID);
            // One that became a machine of its own in the last moment stays.
            let owned = vm.owner_references().iter().any(|owner| Some(&owner.uid) == request);
            owned && request.is_some_and(|request| self.given_up.contains(request))
        });
        match left {
            Some(vm) => Err(format!("copy {} was given up and is still there", vm.name_any())),
            None => Ok(()),
        }
    }
}
