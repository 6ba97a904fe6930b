//! What must hold of nodes and their groups at every step.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode, VpsieNodePhase as Phase, removal},
    infra::VirtualMachine,
    names::{annotations, labels},
};
use sutler_nodes::group::REPLACED;
use sutler_provider::MachineId;
use sutler_sim::{Sim, Truth};

use super::Books;
use crate::world::MAIN;

/// What has been seen of nodes so far.
#[derive(Default)]
pub struct Nodes {
    /// Whether machines are told by nothing but their group, so that any record of it may have any of
    /// them: then they are whose record claimed them.
    pub members: bool,
    /// Which record has, or last had, a machine.
    claims: BTreeMap<MachineId, String>,
    /// Machines that were ever made for a record, with the record, and those that each record ever had.
    made: BTreeMap<MachineId, Option<String>>,
    had: BTreeMap<String, BTreeSet<MachineId>>,
    /// Somebody else's nodes and members.
    foreign: BTreeSet<String>,
    foreign_machines: BTreeSet<MachineId>,
    /// Which machine is which node.
    joined: BTreeMap<String, MachineId>,
    /// The most nodes that each group was ever to have, by its UID.
    most: BTreeMap<String, usize>,
    /// The records that each group sends away.
    removing: BTreeMap<String, BTreeSet<String>>,
    /// Records by UID.
    records: BTreeMap<String, VPSieNode>,
    /// Everything, as it was last read.
    books: Option<Books>,
}

impl Nodes {
    /// A node of somebody else.
    pub fn is_foreign(&mut self, name: &str) {
        self.foreign.insert(name.to_owned());
    }

    /// A member of somebody else.
    pub fn is_foreign_machine(&mut self, id: &MachineId) {
        self.foreign_machines.insert(id.clone());
    }

    /// A machine joins as this node.
    pub fn joins(&mut self, name: &str, id: &MachineId) {
        self.joined.insert(name.to_owned(), id.clone());
    }

    /// Whose a machine is that is told by its group alone.
    pub fn owner(&self, platform: &str, truth: &Truth) -> Option<Option<String>> {
        truth.machine.group.as_ref().and_then(|_| self.owner_of(platform, &truth.machine.id))
    }

    /// The same of one that is gone.
    pub fn owner_of(&self, platform: &str, id: &MachineId) -> Option<Option<String>> {
        (self.members && platform == MAIN).then(|| self.claims.get(id).cloned())
    }

    /// A machine was made for a record.
    pub fn made(&mut self, platform: &str, id: &MachineId, uid: Option<&String>) {
        if platform == MAIN {
            self.made.insert(id.clone(), uid.cloned());
        }
    }

    /// Whether a machine was made for any of the records that may have it.
    pub fn was_made(&self, id: &str) -> bool {
        self.members && self.made.contains_key(&MachineId(id.to_owned()))
    }

    /// A machine is about to be asked for whose record was ready: for a node that is done once.
    pub fn judge_create(&self, uid: &str) -> Result<(), String> {
        match self.had.get(uid).filter(|had| !had.is_empty()) {
            Some(had) => Err(format!("nodes: {uid} had {had:?} and is made again")),
            None => Ok(()),
        }
    }

    /// The record of a machine was written.
    pub fn machine_written(&mut self, vm: &VirtualMachine) -> Result<(), String> {
        let node = vm.labels().contains_key(labels::VPSIE_NODE);
        let id = vm.status.as_ref().and_then(|status| status.id.clone());
        let (true, Some(id), Some(uid)) = (node, id, vm.uid()) else { return Ok(()) };
        let id = MachineId(id);
        self.had.entry(uid.clone()).or_default().insert(id.clone());
        // Where machines carry tokens, one that was made for us may have been given the ID.
        if self.members && self.foreign_machines.contains(&id) {
            return Err(format!("nodes: {} took {id}, which is another's", vm.name_any()));
        }
        self.claims.insert(id, uid);
        Ok(())
    }

    /// A group was written.
    pub fn group_written(&mut self, group: &NodeGroup) {
        let target = usize::try_from(removal::target_size(group)).unwrap_or(0);
        let most = self.most.entry(group.uid().unwrap_or_default()).or_default();
        *most = target.max(*most);
        let removing = removal::removing(group).unwrap_or_default();
        self.removing.insert(group.uid().unwrap_or_default(), removing);
    }

    /// Whether this node's record is there.
    pub fn knows(&self, uid: &str) -> bool {
        self.records.contains_key(uid)
    }

    /// A group went off the books: its records did before.
    pub fn group_gone(&self, uid: &str) -> Result<(), String> {
        match self.records.values().find(|record| group_of(record).as_deref() == Some(uid)) {
            Some(record) => Err(format!("nodes: {} outlives its group", record.name_any())),
            None => Ok(()),
        }
    }

    /// A record was written: a group has no more than it ever might.
    pub fn record_written(&mut self, record: VPSieNode) -> Result<(), String> {
        let group = group_of(&record);
        self.records.insert(record.uid().unwrap_or_default(), record);
        let Some(most) = group.as_ref().and_then(|group| self.most.get(group)) else {
            return Ok(());
        };
        let removing = group.as_ref().and_then(|group| self.removing.get(group));
        let stays = |name: &String| removing.is_none_or(|names| !names.contains(name));
        let live: Vec<String> = self
            .records
            .values()
            .filter(|other| other.metadata.deletion_timestamp.is_none())
            .filter(|other| group_of(other) == group)
            .map(|other| other.name_any())
            .filter(stays)
            .collect();
        match live.len() > most + REPLACED {
            true => Err(format!("nodes: {live:?} are more than {most}")),
            false => Ok(()),
        }
    }

    /// A record went off the books: the record of its machine did before, unless another process makes
    /// that one at the same moment. Nothing was asked for then, and the garbage collector removes it.
    pub fn record_gone(
        &mut self,
        uid: &str,
        machines: &BTreeMap<String, VirtualMachine>,
    ) -> Result<(), String> {
        if self.records.remove(uid).is_none() {
            return Ok(());
        }
        let owned = |vm: &&VirtualMachine| vm.owner_references().iter().any(|o| o.uid == uid);
        let asked = |vm: &&VirtualMachine| vm.annotations().contains_key(annotations::TOKEN);
        match machines.values().filter(owned).find(asked) {
            Some(vm) => Err(format!("nodes: machine {} outlives its node's record", vm.name_any())),
            None => Ok(()),
        }
    }

    /// A node was written: only the one that is a record's machine is claimed for it.
    pub fn node_written(
        &self,
        node: &Node,
        machines: &BTreeMap<String, VirtualMachine>,
    ) -> Result<(), String> {
        let (name, Some(record)) = (node.name_any(), node.labels().get(labels::VPSIE_NODE)) else {
            return Ok(());
        };
        if self.foreign.contains(&name) {
            return Err(format!("nodes: {name} is another's and was claimed for {record}"));
        }
        let Some(id) = self.joined.get(&name) else {
            return Err(format!("nodes: {name} was claimed for {record} and is no machine"));
        };
        // A second effect of its request may have come up in the place of its own.
        let maker = self.made.get(id).cloned().flatten();
        let has = |vm: &VirtualMachine| {
            let uid = vm.uid().unwrap_or_default();
            let had = self.had.get(&uid).is_some_and(|had| had.contains(id));
            vm.name_any() == *record && (had || !self.members && maker.as_ref() == Some(&uid))
        };
        // A machine's record may be off the books a moment before its node is.
        let known = machines.values().any(|vm| vm.name_any() == *record);
        match known && !machines.values().any(has) {
            true => Err(format!("nodes: {name} is {id} and was claimed for {record}")),
            false => Ok(()),
        }
    }

    /// Everything was read again.
    pub fn read(&mut self, books: Books) {
        let there = books.uids();
        self.records.retain(|uid, _| there.contains(uid));
        self.books = Some(books);
    }

    /// After the calm: groups have what they should, nodes are whose they say, and no machine is left.
    pub fn judge_end(
        &self,
        sims: &BTreeMap<String, Sim>,
        machines: &BTreeMap<String, VirtualMachine>,
    ) -> Result<(), String> {
        let Some(books) = &self.books else { return Ok(()) };
        for group in &books.groups {
            judge_group(group, books)?;
        }
        for record in &books.records {
            let name = record.name_any();
            if record.metadata.deletion_timestamp.is_some() {
                return Err(format!("nodes: {name} is still being deleted"));
            }
            let phase = phase(record);
            if !matches!(phase, Some(Phase::Ready | Phase::Failed)) {
                return Err(format!("nodes: {name} has not settled: {phase:?}"));
            }
            let node = record.status.as_ref().and_then(|status| status.node_name.clone());
            let own = node.as_ref().and_then(|node| books.nodes.get(node));
            let labelled = own.and_then(|node| node.labels().get(labels::VPSIE_NODE));
            if phase == Some(Phase::Ready) && labelled != Some(&name) {
                return Err(format!(
                    "nodes: {name} is ready, and its node {node:?} is not its own"
                ));
            }
        }
        for (name, node) in &books.nodes {
            let Some(record) = node.labels().get(labels::VPSIE_NODE) else { continue };
            if !books.records.iter().any(|own| own.name_any() == *record) {
                return Err(format!("nodes: {name} is claimed for {record}, which is gone"));
            }
        }
        if !self.members {
            return Ok(());
        }
        for truth in sims[MAIN].machines() {
            let id = &truth.machine.id;
            let owner = self.claims.get(id).and_then(|uid| machines.get(uid));
            if owner.is_none() && self.made.contains_key(id) {
                let (token, power) = (&truth.machine.token, truth.machine.power);
                return Err(format!("nodes: member {id} was left behind: {token:?} {power:?}"));
            }
        }
        Ok(())
    }
}

fn judge_group(group: &NodeGroup, books: &Books) -> Result<(), String> {
    let name = group.name_any();
    if group.metadata.deletion_timestamp.is_some() {
        return Err(format!("nodes: group {name} is still being deleted"));
    }
    let of = |phase_is: fn(&Phase) -> bool| {
        let own = books.records.iter().filter(|record| removal::is_of(record, group));
        own.filter(|record| phase(record).is_some_and(|phase| phase_is(&phase))).count()
    };
    let ready = of(|phase| *phase == Phase::Ready);
    let failed = of(|phase| *phase == Phase::Failed);
    let target = usize::try_from(removal::target_size(group)).unwrap_or(0);
    if ready != target && (failed <= REPLACED || ready > target) {
        return Err(format!("nodes: group {name} has {ready} of {target}, and {failed} failed"));
    }
    let said = group.status.as_ref().map(|status| status.ready_nodes);
    match said == i32::try_from(ready).ok() {
        true => Ok(()),
        false => Err(format!("nodes: group {name} says {said:?} are ready, and {ready} are")),
    }
}

fn group_of(record: &VPSieNode) -> Option<String> {
    let owner = record.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == "NodeGroup").then(|| owner.uid.clone())
}

fn phase(record: &VPSieNode) -> Option<Phase> {
    record.status.as_ref().and_then(|status| status.phase.clone())
}
