//! Workers of managed clusters. VPSie answers that it was taken: no ID, no name of ours, no second answer
//! to a request that is sent twice.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use sutler_provider::{Accepted, CreateRequest, Error, ErrorKind, ManagedNode, Placement, Result};

use super::{Inner, group};
use crate::{client::NodeGroup, settings::is_plain};

const GROUP: &str = "spec.managedNode.group";
const SIZE: &str = "spec.managedNode.size";

/// When a worker was last asked for, by cluster and group: it may be there before it is seen.
#[derive(Debug, Default)]
pub(super) struct Added(Mutex<BTreeMap<(String, i64), Timestamp>>);

impl Added {
    fn note(&self, cluster: &str, group: i64, now: Timestamp) {
        let mut added = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        added.insert((cluster.to_owned(), group), now);
    }

    /// When a worker was last asked for here.
    pub(super) fn last(&self, cluster: &str, group: i64) -> Option<Timestamp> {
        let added = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        added.get(&(cluster.to_owned(), group)).copied()
    }
}

impl Inner {
    pub(super) async fn add_node(
        &self,
        request: &CreateRequest,
        wanted: &ManagedNode,
    ) -> Result<Accepted> {
        plain(request)?;
        let cluster = &wanted.cluster;
        if !is_plain(cluster) {
            let why = format!("{cluster:?} is no cluster's ID");
            return Err(Error::invalid("spec.managedNode.cluster", why));
        }
        if !self.looks_after(cluster) {
            let why = format!(
                "cluster {cluster} is not among the Provider's spec.options.clusters: its nodes would \
                 never be seen"
            );
            return Err(Error::invalid("spec.managedNode.cluster", why));
        }
        let group = {
            let _turn = self.turns.at(format!("groups {cluster}")).await?;
            self.group(cluster, wanted).await?
        };
        check_group(&group, wanted, &request.placement)?;
        let lost = || Error::internal(format!("VPSie tells no number of group {}", wanted.group));
        let id = group.id.ok_or_else(lost)?;
        self.added.note(cluster, id, self.clock.now());
        self.api.add_k8s_node(cluster, id).await?;
        Ok(Accepted::default())
    }

    /// The group that is asked for, which is made if there is none. No node was asked for until it is
    /// found, so whatever fails here has made no machine.
    async fn group(&self, cluster: &str, wanted: &ManagedNode) -> Result<NodeGroup> {
        let before = self.api.list_k8s_node_groups(cluster).await?;
        if let Some(group) = find(&before, &wanted.group)? {
            return Ok(group.clone());
        }
        let size = size(wanted)?;
        let live = before.iter().filter(|group| group::is_live(group));
        if let Some(other) = live.into_iter().find(|group| group.boxsize_id == Some(size)) {
            let name = other.group_name.as_deref().unwrap_or_default();
            let why = format!(
                "VPSie has one group of a size in a cluster, and {name:?} has size {size}: name that \
                 group, or another size"
            );
            return Err(Error::conflict(why).at(GROUP));
        }
        match self.api.create_k8s_node_group(cluster, &wanted.group, size).await {
            Ok(()) => {}
            // The group may have been made, and no node: the next request finds it, or VPSie refuses a
            // second one of its size.
            Err(error) if error.kind() == ErrorKind::Indeterminate => {
                return Err(Error::unavailable(format!(
                    "whether the group was made is open: {error}"
                )));
            }
            Err(error) => return Err(error),
        }
        let after = self.api.list_k8s_node_groups(cluster).await?;
        let late = || {
            let why = format!("group {:?} was made and is not listed yet", wanted.group);
            Error::unavailable(why)
        };
        find(&after, &wanted.group)?.cloned().ok_or_else(late)
    }
}

/// A group by its name, else by its number or UUID.
fn find<'a>(groups: &'a [NodeGroup], wanted: &str) -> Result<Option<&'a NodeGroup>> {
    let live: Vec<&NodeGroup> = groups.iter().filter(|group| group::is_live(group)).collect();
    let named: Vec<&NodeGroup> =
        live.iter().filter(|group| group.group_name.as_deref() == Some(wanted)).copied().collect();
    match named.as_slice() {
        [] => {}
        [one] => return Ok(Some(one)),
        several => {
            let why =
                format!("{} groups are called {wanted:?}: name one by its number", several.len());
            return Err(Error::conflict(why).at(GROUP));
        }
    }
    let by_id = |group: &&&NodeGroup| {
        group.id.is_some_and(|id| id.to_string() == wanted)
            || group.identifier.as_deref() == Some(wanted)
    };
    Ok(live.iter().find(by_id).copied())
}

fn size(wanted: &ManagedNode) -> Result<i64> {
    let missing = || {
        let why = format!(
            "there is no group {:?}, and to make it takes the number of a size",
            wanted.group
        );
        Error::invalid(SIZE, why)
    };
    let text = wanted.size.as_ref().ok_or_else(missing)?;
    let number = text.parse().ok().filter(|number: &i64| *number > 0);
    number.ok_or_else(|| Error::invalid(SIZE, format!("{text:?} is no number of a size")))
}

/// Refuses a group that is not what was asked for.
fn check_group(group: &NodeGroup, wanted: &ManagedNode, placement: &Placement) -> Result<()> {
    if wanted.size.is_some()
        && let (asked, Some(has)) = (size(wanted)?, group.boxsize_id)
        && asked != has
    {
        let why = format!("group {:?} has nodes of size {has}, and not {asked}", wanted.group);
        return Err(Error::invalid(SIZE, why));
    }
    match (&placement.region, &group.datacenter) {
        (Some(region), Some(datacenter)) if region != datacenter => Err(Error::invalid(
            "spec.placement.region",
            format!("group {:?} is in data centre {datacenter}, and not in {region}", wanted.group),
        )),
        _ => Ok(()),
    }
}

/// Refuses what nobody can say about a node that VPSie sizes, installs and names.
fn plain(request: &CreateRequest) -> Result<()> {
    let CreateRequest {
        owner: _,
        name: _,
        hostname: _,
        class,
        image,
        nics,
        disks,
        user_data,
        ignition,
        meta_data,
        placement,
        tags,
        power_on,
        managed_node: _,
    } = request;
    let Placement { cluster, host, datastore, storage_pod, folder, resource_pool, region: _, zone } =
        placement;
    let place = [cluster, host, datastore, storage_pod, folder, resource_pool, zone];
    for (field, said) in [
        ("spec.classRef", class.is_some()),
        ("spec.imageRef", image.is_some()),
        ("spec.networks", !nics.is_empty()),
        ("spec.disks", !disks.is_empty()),
        ("spec.userData", user_data.is_some() || *ignition),
        ("spec.metaData", meta_data.is_some()),
        ("spec.placement", place.into_iter().any(Option::is_some)),
        ("spec.tags", !tags.is_empty()),
        ("spec.powerState", !*power_on),
    ] {
        if said {
            let why = "VPSie decides this for a node of a managed group: leave it out";
            return Err(Error::invalid(field, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: i64, name: &str) -> NodeGroup {
        NodeGroup {
            id: Some(id),
            group_name: Some(name.to_owned()),
            identifier: Some(format!("uuid-{id}")),
            boxsize_id: Some(id * 10),
            datacenter: Some("dc".to_owned()),
            ..NodeGroup::default()
        }
    }

    #[test]
    fn a_group_is_found_by_its_name_first() {
        let dead = NodeGroup { is_deleted: Some(true), ..group(4, "a") };
        let groups = [group(1, "a"), group(2, "1"), dead, group(5, "twice"), group(6, "twice")];
        let id = |wanted: &str| find(&groups, wanted).unwrap().and_then(|group| group.id);
        assert_eq!(id("a"), Some(1));
        assert_eq!(id("1"), Some(2), "a name counts before a number");
        assert_eq!(id("2"), Some(2));
        assert_eq!(id("uuid-5"), Some(5));
        assert_eq!(id("4"), None);
        assert_eq!(find(&groups, "twice").unwrap_err().kind(), ErrorKind::Conflict);
    }

    #[test]
    fn a_group_is_what_was_asked_for() {
        let wanted = |size: Option<&str>| ManagedNode {
            cluster: "c".to_owned(),
            group: "a".to_owned(),
            size: size.map(str::to_owned),
        };
        let place = |region: Option<&str>| Placement {
            region: region.map(str::to_owned),
            ..Placement::default()
        };
        let check = |size, region| check_group(&group(1, "a"), &wanted(size), &place(region));
        assert!(check(None, None).is_ok() && check(Some("10"), Some("dc")).is_ok());
        assert_eq!(check(Some("11"), None).unwrap_err().field(), Some(SIZE));
        assert_eq!(check(Some("big"), None).unwrap_err().field(), Some(SIZE));
        let error = check(None, Some("elsewhere")).unwrap_err();
        assert_eq!(error.field(), Some("spec.placement.region"));
    }
}
