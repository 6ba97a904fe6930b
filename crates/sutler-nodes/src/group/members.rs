//! Which records belong to which group.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use sutler_api::autoscaler::{VPSieNode, VpsieNodePhase as Phase};
use sutler_control::kit::Key;

use super::plan::{Leave, Member};
use crate::{context::key_of, node};

/// Records by group and by name.
#[derive(Debug, Default)]
pub struct Members {
    groups: BTreeMap<Key, BTreeMap<String, Member>>,
    /// The group of each record, and the version of it that is known.
    records: BTreeMap<Key, (Key, u64)>,
    names: BTreeMap<String, BTreeSet<Key>>,
}

impl Members {
    /// Takes a record in, and tells which group that is of use to.
    pub fn put(&mut self, record: &VPSieNode) -> Option<Key> {
        let (key, group) = (key_of(record), node::owner_of(record));
        let version: u64 =
            record.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0);
        let known = self.records.get(&key).map(|(_, version)| *version);
        if known.is_some_and(|known| known > version) {
            return None;
        }
        self.records.insert(key.clone(), (group.clone(), version));
        self.names.entry(key.name.clone()).or_default().insert(key.clone());
        let member = read(record);
        let before =
            self.groups.entry(group.clone()).or_default().insert(key.name.clone(), member.clone());
        (before != Some(member)).then_some(group)
    }

    /// Lets a record go.
    pub fn remove(&mut self, key: &Key) -> Option<Key> {
        let (group, _) = self.records.remove(key)?;
        if let Some(keys) = self.names.get_mut(&key.name) {
            keys.remove(key);
            if keys.is_empty() {
                self.names.remove(&key.name);
            }
        }
        if let Some(members) = self.groups.get_mut(&group) {
            members.remove(&key.name);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
        Some(group)
    }

    /// The records of a group.
    pub fn of_group(&self, group: &Key) -> BTreeMap<String, Member> {
        self.groups.get(group).cloned().unwrap_or_default()
    }

    /// Records of this name, in any namespace.
    pub fn called(&self, name: &str) -> BTreeSet<Key> {
        self.names.get(name).cloned().unwrap_or_default()
    }

    /// All records.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.records.keys()
    }
}

fn read(record: &VPSieNode) -> Member {
    let status = record.status.as_ref();
    let phase = status.and_then(|status| status.phase.clone());
    let reason = status.and_then(|status| status.reason.as_deref());
    let leave = match (&phase, reason) {
        (Some(Phase::Terminating), Some(node::DRAINED)) => Leave::Drained,
        (Some(phase), Some(sutler_api::names::reasons::DRAIN_FAILED))
            if *phase != Phase::Terminating =>
        {
            Leave::GivenUp
        }
        _ => Leave::Open,
    };
    Member {
        deleting: record.metadata.deletion_timestamp.is_some(),
        failed: phase == Some(Phase::Failed),
        ready: phase == Some(Phase::Ready),
        joined: status.is_some_and(|status| status.node_name.is_some()),
        leave,
        made: record.creation_timestamp().map_or(0, |at| at.0.as_second()),
    }
}
