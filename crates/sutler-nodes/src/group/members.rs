//! Which records belong to which group.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use sutler_api::autoscaler::{VPSieNode, VpsieNodePhase as Phase};
use sutler_control::kit::{Key, version_of};

use super::plan::{Leave, Member};
use crate::{context::key_of, node};

/// Records by group and by name.
#[derive(Debug, Default)]
pub struct Members {
    groups: BTreeMap<Key, BTreeMap<String, Member>>,
    /// The group of each record, and the version of it that is known.
    records: BTreeMap<Key, (Key, u64)>,
    names: BTreeMap<String, BTreeSet<Key>>,
    /// Records that went since all were listed, and the version that said so: the answer to a write of
    /// ours may come after the news that its record is gone.
    gone: BTreeMap<Key, u64>,
}

impl Members {
    /// Takes a record in, and tells which group that is of use to.
    pub fn put(&mut self, record: &VPSieNode) -> Option<Key> {
        let (key, group, version) = (key_of(record), node::owner_of(record), version_of(record));
        let known = self.records.get(&key).map(|(_, version)| *version);
        let gone = self.gone.get(&key).is_some_and(|gone| *gone >= version);
        if gone || known.is_some_and(|known| known > version) {
            return None;
        }
        self.gone.remove(&key);
        self.records.insert(key.clone(), (group.clone(), version));
        self.names.entry(key.name.clone()).or_default().insert(key.clone());
        let member = read(record);
        let before =
            self.groups.entry(group.clone()).or_default().insert(key.name.clone(), member.clone());
        (before != Some(member)).then_some(group)
    }

    /// Lets a record go that was deleted, and tells which group that is of use to. One of its name that
    /// was made since stays.
    pub fn delete(&mut self, record: &VPSieNode) -> Option<Key> {
        let (key, version) = (key_of(record), version_of(record));
        if self.records.get(&key).is_some_and(|(_, known)| *known > version) {
            return None;
        }
        self.gone.insert(key.clone(), version);
        self.remove(&key)
    }

    /// Lets all records go that are not among those that were listed, and tells which groups that is of
    /// use to. One that was made meanwhile comes again with the watch.
    pub fn keep(&mut self, listed: &BTreeSet<Key>) -> Vec<Key> {
        self.gone.clear();
        let lost = self.records.keys().filter(|key| !listed.contains(*key));
        let lost: Vec<Key> = lost.cloned().collect();
        lost.iter().filter_map(|key| self.remove(key)).collect()
    }

    fn remove(&mut self, key: &Key) -> Option<Key> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn record(version: u64) -> VPSieNode {
        serde_json::from_value(json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
            "metadata": { "name": "g-0001", "namespace": "ns",
                "resourceVersion": version.to_string() },
            "spec": { "nodeGroupName": "g" },
            "status": { "phase": if version >= 4 { "Ready" } else { "Pending" } },
        }))
        .unwrap()
    }

    proptest! {
        /// The watch tells in order, and the answers to our own writes come at any time between.
        #[test]
        fn who_is_gone_stays_gone_whenever_the_answer_to_a_write_comes(
            answers in prop::collection::vec((0..=4usize, 1..=2u64), 0..4),
        ) {
            let group = Key::new("ns", "g");
            let mut members = Members::default();
            for step in 0..=4 {
                for (_, version) in answers.iter().filter(|(when, _)| *when == step) {
                    members.put(&record(*version));
                }
                match step {
                    0 | 1 => { members.put(&record(step as u64 + 1)); }
                    2 => { members.delete(&record(3)); }
                    // One of the same name is another.
                    3 => {
                        prop_assert!(members.of_group(&group).is_empty());
                        members.put(&record(4));
                        // What was said of the first does not concern it.
                        members.delete(&record(3));
                    }
                    _ => {}
                }
            }
            prop_assert!(members.of_group(&group)["g-0001"].ready);
        }
    }

    #[test]
    fn a_list_shows_who_is_there() {
        let mut members = Members::default();
        members.put(&record(1));
        assert_eq!(members.keep(&BTreeSet::new()), [Key::new("ns", "g")]);
        // The list may have been begun before it was made: the watch brings it again.
        members.put(&record(1));
        assert!(members.keep(&BTreeSet::from([Key::new("ns", "g-0001")])).is_empty());
        assert_eq!(members.of_group(&Key::new("ns", "g")).len(), 1);
    }
}
