//! Changes of a group's size, each of them one write over the version that it was decided on.
//!
//! When the answer to a write is lost, it may have had its effect. Every write here changes the spec,
//! and the API counts changes of the spec in `metadata.generation`: so a look at the group tells
//! whether the write was carried out, can no longer be, or cannot be told from somebody else's.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    autoscaler::{
        NodeGroup, VPSieNode, VpsieNodePhase,
        removal::{REMOVING, is_leaving, is_of, removing, set_removing, target_size},
    },
    names::{annotations, labels},
};

use crate::{
    Cluster, Error,
    cache::Caches,
    groups::{is_driven, may_grow, split, told_name},
    owner::is_made_up,
    pb::ExternalGrpcNode,
};

/// How often a write is tried that others get in the way of.
const ATTEMPTS: usize = 8;

/// The name under which fields are owned.
const MANAGER: &str = "sutler-externalgrpc";

/// A change that was asked for.
#[derive(Debug)]
pub(crate) enum Change {
    /// This many more.
    Grow(i32),
    /// This many fewer of those that are not there yet.
    TakeBack(i32),
    /// These are to go.
    Remove(Vec<ExternalGrpcNode>),
}

/// What a change comes to, for the group as it is.
#[derive(Debug)]
struct Write {
    desired: i32,
    removing: Option<BTreeSet<String>>,
}

/// Writes sizes.
pub(crate) struct Resizer {
    caches: Arc<Caches>,
    cluster: Cluster,
    /// One change of a group at a time, so that ours do not get into each other's way.
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Resizer {
    pub(crate) fn new(caches: Arc<Caches>, cluster: Cluster) -> Self {
        Self { caches, cluster, turns: Mutex::default() }
    }

    /// Carries a change out, or says why not.
    pub(crate) async fn change(&self, id: &str, change: Change) -> Result<(), Error> {
        match change {
            Change::Grow(delta) if delta <= 0 => {
                return Err(Error::Invalid(format!("delta is {delta}: it must be above 0")));
            }
            Change::TakeBack(delta) if delta >= 0 => {
                return Err(Error::Invalid(format!("delta is {delta}: it must be below 0")));
            }
            _ => {}
        }
        self.caches.driven(id, &self.cluster)?;
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody waits for the others any more.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(id.to_owned()).or_default().clone()
        };
        let _turn = turn.lock().await;
        self.attempt(id, &change).await
    }

    async fn attempt(&self, id: &str, change: &Change) -> Result<(), Error> {
        let (namespace, name) = split(id)?;
        let groups = Api::<NodeGroup>::namespaced(self.caches.client.clone(), namespace);
        // The group before the first write whose answer was lost, and what was written.
        let mut lost: Option<(NodeGroup, Write)> = None;
        let indeterminate = || Error::Indeterminate { group: id.to_owned() };
        for _ in 0..ATTEMPTS {
            let group = match groups.get_opt(name).await {
                Ok(group) => group,
                Err(_) if lost.is_some() => return Err(indeterminate()),
                Err(error) => return Err(Error::api("read a NodeGroup")(error)),
            };
            let group = group
                .filter(|group| is_driven(group, &self.cluster))
                .ok_or_else(|| Error::NoGroup(id.to_owned()))?;
            if let Some((before, write)) = &lost {
                match (outcome(before, write, &group), change) {
                    // It may still arrive. Only one write over this version can.
                    (Outcome::Open, _) => {}
                    // Who is on the list or gone is not counted again, so this needs no answer.
                    (_, Change::Remove(_)) | (Outcome::Never, _) => lost = None,
                    (Outcome::Done, _) => {
                        self.caches.wrote(group);
                        return Ok(());
                    }
                    (Outcome::Unknown, _) => return Err(indeterminate()),
                }
            }
            let write = match self.decide(change, &group).await {
                Ok(Some(write)) => write,
                Ok(None) => {
                    self.caches.wrote(group);
                    return Ok(());
                }
                Err(_) if lost.is_some() => return Err(indeterminate()),
                Err(error) => return Err(error),
            };
            let patch = Patch::Merge(write.patch(&group));
            let params =
                PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            match groups.patch(name, &params, &patch).await {
                Ok(written) => {
                    tracing::info!(group = id, nodes = write.desired, "a group's size was changed");
                    self.caches.wrote(written);
                    return Ok(());
                }
                // What was lost before may be what is in the way: that is looked at first.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(_) if lost.is_some() => {}
                Err(error) if is_refusal(&error) => {
                    return Err(Error::api("write a NodeGroup")(error));
                }
                Err(error) => {
                    tracing::warn!(group = id, %error, "the answer to a write was lost");
                    lost = Some((group, write));
                }
            }
        }
        Err(match lost {
            Some(_) => indeterminate(),
            None => Error::Contended { group: id.to_owned(), attempts: ATTEMPTS },
        })
    }

    async fn decide(&self, change: &Change, group: &NodeGroup) -> Result<Option<Write>, Error> {
        let size = target_size(group);
        match change {
            Change::Grow(delta) => grow(group, size, *delta).map(Some),
            Change::TakeBack(delta) => {
                let staying = self.staying(group).await?;
                take_back(group, size, *delta, &staying).map(Some)
            }
            Change::Remove(nodes) => self.remove(group, size, nodes).await,
        }
    }

    /// The records that are not leaving, as the API holds them: a view that is behind would let a
    /// node go that has just joined.
    async fn staying(&self, group: &NodeGroup) -> Result<Vec<Staying>, Error> {
        let leaving = removing(group)?;
        let records = self
            .records_in(group)
            .list(&ListParams::default())
            .await
            .map_err(Error::api("list VPSieNodes"))?;
        let claimed = self.caches.claimed_nodes();
        let staying = records
            .items
            .into_iter()
            .filter(|record| is_of(record, group) && !is_leaving(record, &leaving));
        Ok(staying
            .map(|record| Staying {
                has_node: told_name(&record).is_some()
                    || self.caches.node_of(&record, &claimed).is_some(),
                failed: record.status.as_ref().and_then(|status| status.phase.as_ref())
                    == Some(&VpsieNodePhase::Failed),
                made: record.creation_timestamp().map(|time| time.0.to_string()),
                name: record.name_any(),
            })
            .collect())
    }

    async fn remove(
        &self,
        group: &NodeGroup,
        size: i32,
        nodes: &[ExternalGrpcNode],
    ) -> Result<Option<Write>, Error> {
        let mut list = removing(group)?;
        let before = list.len();
        for node in nodes {
            let stranger = || {
                let group = group.name_any();
                let node = shown(node);
                Error::Refused(format!(
                    "node {node} is not of node group {group}: nothing is removed"
                ))
            };
            let name = self.caches.record_name(group, node).ok_or_else(stranger)?;
            if list.contains(&name) {
                continue;
            }
            // Read after the group was. A name that was on the list and came off again since then has
            // changed the group, so that the write will not be taken; one that came off before has no
            // record any more.
            let record = self
                .records_in(group)
                .get_opt(&name)
                .await
                .map_err(Error::api("read a VPSieNode"))?;
            let Some(record) = record else { continue };
            if !is_of(&record, group) {
                return Err(stranger());
            }
            if record.metadata.deletion_timestamp.is_some() {
                continue;
            }
            self.check_node(&record, node)?;
            list.insert(name);
        }
        let more = i32::try_from(list.len() - before).unwrap_or(i32::MAX);
        if more == 0 {
            return Ok(None);
        }
        let desired = size - more;
        let least = group.spec.min_nodes;
        if desired < least {
            return Err(Error::Refused(format!(
                "removing {more} of {size} nodes would leave fewer than spec.minNodes, which is \
                 {least}: nothing is removed"
            )));
        }
        Ok(Some(Write { desired, removing: Some(list) }))
    }

    /// Whether the record's node is the one that is meant, and may go.
    fn check_node(&self, record: &VPSieNode, node: &ExternalGrpcNode) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::Refused(format!("{why}: nothing is removed")));
        let name = record.name_any();
        let own = self.caches.node_of(record, &self.caches.claimed_nodes());
        if is_made_up(node) {
            // The autoscaler takes it for a machine that never registered, and has drained nothing.
            if let Some(own) = &own {
                let own = own.name_any();
                return refuse(format!("VPSieNode {name} has joined as node {own}"));
            }
        } else if let Some(told) = told_name(record)
            && told != node.name
        {
            return refuse(format!("VPSieNode {name} has node {told} and not {}", node.name));
        }
        let is = |map: &BTreeMap<String, String>, key: &str, value: &str| {
            map.get(key).is_some_and(|found| found == value)
        };
        let mut annotated = vec![&node.annotations, record.annotations()];
        let mut labelled = vec![&node.labels, record.labels()];
        if let Some(own) = &own {
            annotated.push(own.annotations());
            labelled.push(own.labels());
        }
        if annotated.iter().any(|map| is(map, annotations::PROTECTED, "true")) {
            return refuse(format!(
                "{} is protected by annotation {}",
                shown(node),
                annotations::PROTECTED
            ));
        }
        if !is_made_up(node)
            && (annotated.iter().any(|map| is(map, annotations::SCALE_DOWN, "disabled"))
                || labelled.iter().any(|map| is(map, labels::SCALE_DOWN_DISABLED, "true")))
        {
            return refuse(format!(
                "{} is kept from being removed by {} or {}",
                shown(node),
                annotations::SCALE_DOWN,
                labels::SCALE_DOWN_DISABLED
            ));
        }
        Ok(())
    }

    fn records_in(&self, group: &NodeGroup) -> Api<VPSieNode> {
        let namespace = group.namespace().unwrap_or_default();
        Api::namespaced(self.caches.client.clone(), &namespace)
    }
}

impl Write {
    fn patch(&self, group: &NodeGroup) -> serde_json::Value {
        let mut metadata = json!({ "resourceVersion": group.resource_version() });
        if let Some(list) = &self.removing {
            let mut after = group.clone();
            set_removing(&mut after, list);
            metadata["annotations"] = json!({ REMOVING: after.annotations().get(REMOVING) });
        }
        json!({ "metadata": metadata, "spec": { "desiredNodes": self.desired } })
    }
}

fn grow(group: &NodeGroup, size: i32, delta: i32) -> Result<Write, Error> {
    let most = group.spec.max_nodes;
    if !may_grow(group) {
        return Err(Error::Refused(
            "spec.scaleUpPolicy.enabled is false: the group does not grow by itself".to_owned(),
        ));
    }
    match size.checked_add(delta) {
        Some(desired) if desired <= most => Ok(Write { desired, removing: None }),
        _ => Err(Error::Invalid(format!(
            "{delta} more than {size} nodes is above spec.maxNodes, which is {most}"
        ))),
    }
}

/// A record that is not leaving.
#[derive(Clone, Debug)]
struct Staying {
    name: String,
    has_node: bool,
    failed: bool,
    made: Option<String>,
}

/// Fewer of those that are not there yet. Where some of these have records, those that go are named:
/// one that joins a moment later must not leave the choice to chance.
fn take_back(
    group: &NodeGroup,
    size: i32,
    delta: i32,
    staying: &[Staying],
) -> Result<Write, Error> {
    let least = group.spec.min_nodes;
    let desired = size.saturating_add(delta);
    if desired < least {
        return Err(Error::Refused(format!(
            "{} fewer than {size} nodes is below spec.minNodes, which is {least}",
            delta.unsigned_abs()
        )));
    }
    let keep = usize::try_from(desired).unwrap_or(0);
    let with_nodes = staying.iter().filter(|record| record.has_node).count();
    if keep < with_nodes {
        return Err(Error::Refused(format!(
            "{with_nodes} of {size} nodes are there: a size of {desired} would remove some; name \
             those that are to go in NodeGroupDeleteNodes"
        )));
    }
    let mut without: Vec<&Staying> = staying.iter().filter(|record| !record.has_node).collect();
    // First those that come to nothing, then those that have been made for the shortest time.
    without.sort_by(|a, b| (b.failed, &b.made, &b.name).cmp(&(a.failed, &a.made, &a.name)));
    let mut list = removing(group)?;
    let surplus = staying.len().saturating_sub(keep);
    list.extend(without.into_iter().take(surplus).map(|record| record.name.clone()));
    Ok(Write { desired, removing: (surplus > 0).then_some(list) })
}

/// What became of a write whose answer was lost.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It was carried out.
    Done,
    /// The group is as it was: the write may still arrive.
    Open,
    /// The group has changed otherwise, so that the write can no longer be carried out.
    Never,
    /// The group has changed more than once.
    Unknown,
}

fn outcome(before: &NodeGroup, write: &Write, now: &NodeGroup) -> Outcome {
    let generation = |group: &NodeGroup| group.metadata.generation.unwrap_or(0);
    if before.uid() != now.uid() {
        return Outcome::Unknown;
    }
    if before.resource_version() == now.resource_version() {
        return Outcome::Open;
    }
    match generation(now) - generation(before) {
        0 => Outcome::Never,
        1 if now.spec.desired_nodes == write.desired => Outcome::Done,
        1 => Outcome::Never,
        _ => Outcome::Unknown,
    }
}

/// Whether the API said that a write was not carried out.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if (400..500).contains(&status.code) && status.code != 408)
}

fn shown(node: &ExternalGrpcNode) -> &str {
    if node.name.is_empty() { &node.provider_id } else { &node.name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(version: &str, generation: i64, desired: i32) -> NodeGroup {
        let spec = json!({ "minNodes": 1, "maxNodes": 9, "desiredNodes": desired });
        let mut group = NodeGroup::new("g", serde_json::from_value(spec).unwrap());
        group.metadata.resource_version = Some(version.to_owned());
        group.metadata.generation = Some(generation);
        group
    }

    #[test]
    fn a_look_tells_what_became_of_a_write() {
        let before = group("5", 2, 3);
        let write = Write { desired: 4, removing: None };
        for (now, expected) in [
            (group("5", 2, 3), Outcome::Open),
            // Somebody wrote the status: the version that was written over is gone.
            (group("6", 2, 3), Outcome::Never),
            (group("6", 3, 4), Outcome::Done),
            (group("8", 3, 4), Outcome::Done),
            (group("6", 3, 7), Outcome::Never),
            (group("7", 4, 4), Outcome::Unknown),
        ] {
            assert_eq!(outcome(&before, &write, &now), expected, "{now:?}");
        }
        let mut another = group("6", 3, 4);
        another.metadata.uid = Some("another".to_owned());
        assert_eq!(outcome(&before, &write, &another), Outcome::Unknown);
    }

    #[test]
    fn sizes_stay_within_their_bounds() {
        let group = group("1", 1, 3);
        assert_eq!(grow(&group, 3, 6).unwrap().desired, 9);
        assert!(matches!(grow(&group, 3, 7), Err(Error::Invalid(_))));
        assert!(matches!(grow(&group, 3, i32::MAX), Err(Error::Invalid(_))));
        assert!(matches!(take_back(&group, 3, -3, &[]), Err(Error::Refused(_))));
        assert!(matches!(take_back(&group, 3, i32::MIN, &[]), Err(Error::Refused(_))));
    }

    #[test]
    fn what_is_taken_back_has_no_node() {
        let record = |name: &str, has_node, failed, made: &str| Staying {
            name: name.to_owned(),
            has_node,
            failed,
            made: Some(made.to_owned()),
        };
        let staying = [
            record("node", true, false, "2026-01-09"),
            record("old", false, false, "2026-01-01"),
            record("new", false, false, "2026-01-02"),
            record("failed", false, true, "2026-01-01"),
        ];
        let mut group = group("1", 1, 5);
        set_removing(&mut group, &BTreeSet::from(["before".to_owned()]));
        for (delta, named) in [
            // One has no record yet.
            (-1, None),
            (-2, Some(vec!["before", "failed"])),
            (-3, Some(vec!["before", "failed", "new"])),
            (-4, Some(vec!["before", "failed", "new", "old"])),
        ] {
            let write = take_back(&group, 5, delta, &staying).unwrap();
            assert_eq!(write.desired, 5 + delta);
            let list = write.removing.map(|list| list.into_iter().collect::<Vec<_>>());
            let named = named.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(list, named);
        }
        let there = [record("a", true, false, ""), record("b", true, true, "")];
        assert!(matches!(take_back(&group, 3, -2, &there), Err(Error::Refused(_))));
    }
}
