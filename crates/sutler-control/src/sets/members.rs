//! Which records belong to which set, and how they are: what a set is planned from, kept up to date
//! by what happens to machines, so that nothing is listed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Resource as _, ResourceExt as _};
use sutler_api::{
    conditions,
    infra::{VMSet, VirtualMachine, VirtualMachinePhase as Phase},
    names::{condition_types, labels},
};

use super::plan::{self, Member, State};
use crate::{fleet::Key, kit::version_of};

/// The members of all sets.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// By the set's UID and the member's name.
    sets: BTreeMap<String, BTreeMap<Key, Member>>,
    /// The set of a member: its UID and its name.
    of: BTreeMap<Key, (String, Key)>,
    /// The newest version that the watch has shown.
    seen: u64,
}

impl Members {
    /// Takes in a record as it was answered to who made it. Where the watch is past that already, it has
    /// told more of it: what it said is not undone, which nothing would ever put right.
    pub(crate) fn put_made(&mut self, vm: &VirtualMachine) -> Vec<Key> {
        match version_of(vm) > self.seen {
            true => self.take(vm),
            false => Vec::new(),
        }
    }

    /// Takes in a record that the watch shows, and tells the sets for which something changed.
    pub(crate) fn put(&mut self, vm: &VirtualMachine) -> Vec<Key> {
        self.seen = self.seen.max(version_of(vm));
        self.take(vm)
    }

    fn take(&mut self, vm: &VirtualMachine) -> Vec<Key> {
        let key = Key::new(vm.namespace().unwrap_or_default(), vm.name_any());
        let Some(owner) = set_of(vm) else { return self.remove(&key) };
        let set = Key::new(&key.namespace, &owner.name);
        let mut changed = match self.of.get(&key) {
            Some((uid, _)) if *uid == owner.uid => Vec::new(),
            _ => self.remove(&key),
        };
        let member = member(vm);
        let members = self.sets.entry(owner.uid.clone()).or_default();
        if members.get(&key) != Some(&member) {
            members.insert(key.clone(), member);
            changed.push(set.clone());
        }
        self.of.insert(key, (owner.uid.clone(), set));
        changed
    }

    /// Lets a record go, and tells the set that it was of.
    pub(crate) fn remove(&mut self, key: &Key) -> Vec<Key> {
        let Some((uid, set)) = self.of.remove(key) else { return Vec::new() };
        if let Some(members) = self.sets.get_mut(&uid) {
            members.remove(key);
            if members.is_empty() {
                self.sets.remove(&uid);
            }
        }
        vec![set]
    }

    /// Lets go what a whole list does not show, and tells the sets that it was of.
    pub(crate) fn keep(&mut self, listed: &BTreeSet<Key>) -> Vec<Key> {
        let gone: Vec<Key> = self.of.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter().flat_map(|key| self.remove(key)).collect()
    }

    /// The set that a record belongs to.
    pub(crate) fn set_of(&self, key: &Key) -> Option<&Key> {
        self.of.get(key).map(|(_, set)| set)
    }

    /// The members of a set by number. What it owns under another name is not among them.
    pub(crate) fn of_set(&self, set: &Key, uid: &str) -> plan::Members {
        let members = self.sets.get(uid).into_iter().flatten();
        members
            .filter_map(|(key, member)| Some((number(&set.name, &key.name)?, member.clone())))
            .collect()
    }
}

/// The set that a record belongs to.
pub(crate) fn set_of(vm: &VirtualMachine) -> Option<&OwnerReference> {
    let owners = vm.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| {
        owner.controller == Some(true)
            && owner.kind == VMSet::kind(&())
            && owner.api_version == VMSet::api_version(&())
    })
}

/// What a member of this number is called.
pub(crate) fn name(set: &str, number: u32) -> String {
    format!("{set}-{number}")
}

/// The number in a member's name.
pub(crate) fn number(set: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(set)?.strip_prefix('-')?;
    let number = digits.parse().ok()?;
    // A name is written in one way: `web-07` and `web-+7` are somebody else's.
    (digits == format!("{number}")).then_some(number)
}

/// What a set sees of a record.
pub(crate) fn member(vm: &VirtualMachine) -> Member {
    let status = vm.status.as_ref();
    let ready = status.and_then(|s| conditions::find(&s.conditions, condition_types::READY));
    let ready = ready.filter(|ready| ready.status == "True");
    let phase = status.and_then(|status| status.phase);
    let state = match (ready, phase) {
        _ if vm.metadata.deletion_timestamp.is_some() => State::Leaving,
        (Some(ready), _) => {
            let Time(since) = ready.last_transition_time;
            State::Ready(since)
        }
        (None, None | Some(Phase::Pending | Phase::Provisioning)) => State::Coming,
        (None, Some(Phase::Failed)) => State::Failed,
        (None, Some(Phase::Running | Phase::Stopped | Phase::Reconfiguring | Phase::Deleting)) => {
            State::Unsure
        }
    };
    Member {
        uid: vm.uid().unwrap_or_default(),
        revision: vm.labels().get(labels::REVISION).cloned(),
        state,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vm(name: &str, owner: &str, ready: &str) -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": "ns", "uid": name, "ownerReferences": [{
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSet", "controller": true,
                "name": "web", "uid": owner }] },
            "spec": { "providerRef": { "name": "p" } },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready,
                "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        }))
        .unwrap()
    }

    /// The first of a set, as it was at this version.
    fn at(version: u64, ready: &str) -> VirtualMachine {
        let mut vm = vm("web-1", "s", ready);
        vm.metadata.resource_version = Some(version.to_string());
        vm
    }

    #[test]
    fn a_set_is_told_what_matters_and_only_that() {
        let set = Key::new("ns", "web");
        let mut members = Members::default();
        assert_eq!(members.put(&vm("web-1", "s", "True")), vec![set.clone()]);
        assert!(members.put(&vm("web-1", "s", "True")).is_empty());
        assert_eq!(members.put(&vm("web-1", "s", "False")), vec![set.clone()]);
        members.put(&vm("web-07", "s", "True"));
        members.put(&vm("other", "s", "True"));
        members.put(&vm("web-2", "another", "True"));
        let of_set = members.of_set(&set, "s");
        assert_eq!(of_set.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(of_set[&1].state, State::Unsure);
        // It belongs to another set of the same name now, which was made after this one.
        assert_eq!(members.put(&vm("web-1", "another", "False")).len(), 2);
        assert!(members.of_set(&set, "s").is_empty());
        assert_eq!(members.remove(&Key::new("ns", "web-1")), [set]);
    }

    /// The answer to the request that made a record may come after the watch has shown it, and what
    /// became of it.
    #[test]
    fn an_answer_that_comes_late_undoes_nothing_that_the_watch_told() {
        let set = Key::new("ns", "web");
        let mut members = Members::default();
        assert_eq!(members.put_made(&at(5, "False")).len(), 1);
        members.put(&at(5, "False"));
        members.put(&at(9, "True"));
        assert!(members.put_made(&at(5, "False")).is_empty());
        assert!(matches!(members.of_set(&set, "s")[&1].state, State::Ready(_)));
        // Nor does one bring back what is gone.
        members.remove(&Key::new("ns", "web-1"));
        assert!(members.put_made(&at(5, "False")).is_empty());
        assert!(members.of_set(&set, "s").is_empty());
    }

    /// What was made and deleted while there was no watch is in no list.
    #[test]
    fn what_a_list_does_not_show_is_gone() {
        let set = Key::new("ns", "web");
        let mut members = Members::default();
        members.put_made(&at(7, "False"));
        members.put(&vm("web-2", "s", "True"));
        assert_eq!(members.keep(&BTreeSet::from([Key::new("ns", "web-2")])).len(), 1);
        assert_eq!(members.of_set(&set, "s").keys().collect::<Vec<_>>(), [&2]);
    }
}
