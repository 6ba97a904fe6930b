//! What VPSie tells, in whichever dialect. Every field may be absent: the dialects differ, and so do
//! answers within one.

use jiff::Timestamp;
use serde::Deserialize;

use super::wire;

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Vm {
    /// Its number.
    #[serde(deserialize_with = "wire::number")]
    pub id: Option<i64>,
    /// Its UUID.
    #[serde(deserialize_with = "wire::text")]
    pub identifier: Option<String>,
    /// Its name, which only one dialect has.
    #[serde(deserialize_with = "wire::text")]
    pub name: Option<String>,
    /// Its host name.
    #[serde(deserialize_with = "wire::text")]
    pub hostname: Option<String>,
    /// What it does, in one word, which only one dialect has.
    #[serde(deserialize_with = "wire::text")]
    pub status: Option<String>,
    /// Whether it is on.
    #[serde(deserialize_with = "wire::flag")]
    pub power: Option<bool>,
    /// Whether it is in use.
    #[serde(deserialize_with = "wire::flag")]
    pub is_active: Option<bool>,
    /// Whether it is suspended.
    #[serde(deserialize_with = "wire::flag")]
    pub is_suspended: Option<bool>,
    /// Whether it is locked.
    #[serde(deserialize_with = "wire::flag")]
    pub is_locked: Option<bool>,
    /// Whether it was deleted: the row is history.
    #[serde(deserialize_with = "wire::flag")]
    pub is_deleted: Option<bool>,
    /// Virtual CPUs.
    #[serde(deserialize_with = "wire::number")]
    pub cpu: Option<i64>,
    /// Memory in MiB.
    #[serde(deserialize_with = "wire::number")]
    pub ram: Option<i64>,
    /// The root disk in GiB.
    #[serde(deserialize_with = "wire::number")]
    pub ssd: Option<i64>,
    /// Traffic in GB.
    #[serde(deserialize_with = "wire::number")]
    pub traffic: Option<i64>,
    /// Its address.
    #[serde(deserialize_with = "wire::text")]
    pub default_ip: Option<String>,
    /// Its IPv6 address.
    #[serde(deserialize_with = "wire::text")]
    pub default_ipv6: Option<String>,
    /// Its address in a private network.
    #[serde(deserialize_with = "wire::text")]
    pub private_ip: Option<String>,
    /// The number of its size.
    #[serde(deserialize_with = "wire::number")]
    pub boxsize_id: Option<i64>,
    /// When it was made.
    #[serde(deserialize_with = "wire::time")]
    pub created_on: Option<Timestamp>,
    /// Tags that it carries.
    #[serde(deserialize_with = "wire::texts")]
    pub tags: Vec<String>,
    /// Notes that somebody made.
    #[serde(deserialize_with = "wire::text")]
    pub notes: Option<String>,
}

/// What a node of a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It runs the control plane, and is never touched.
    Master,
    /// It runs pods.
    Worker,
    /// VPSie does not say.
    Unknown,
}

/// A node of a managed cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its number, which only one dialect has.
    #[serde(deserialize_with = "wire::number")]
    pub id: Option<i64>,
    /// Its UUID, which only one dialect has.
    #[serde(deserialize_with = "wire::text")]
    pub identifier: Option<String>,
    /// Its host name.
    #[serde(deserialize_with = "wire::text")]
    pub hostname: Option<String>,
    /// Its address.
    #[serde(deserialize_with = "wire::text", alias = "ip")]
    pub default_ip: Option<String>,
    /// Its address in a private network.
    #[serde(deserialize_with = "wire::text")]
    pub private_ip: Option<String>,
    /// What it does, in one word.
    #[serde(deserialize_with = "wire::text")]
    pub status: Option<String>,
    /// What it is, in one word.
    #[serde(deserialize_with = "wire::text")]
    pub role: Option<String>,
    /// What it is, as a number whose meaning VPSie does not tell.
    #[serde(deserialize_with = "wire::number")]
    pub node_type: Option<i64>,
    /// Virtual CPUs.
    #[serde(deserialize_with = "wire::number")]
    pub cpu: Option<i64>,
    /// Memory in MiB.
    #[serde(deserialize_with = "wire::number")]
    pub ram: Option<i64>,
    /// The root disk in GiB.
    #[serde(deserialize_with = "wire::number", alias = "ssd")]
    pub disk: Option<i64>,
    /// The number of its size.
    #[serde(deserialize_with = "wire::number")]
    pub boxsize_id: Option<i64>,
    /// The number of the group that it is a member of, where VPSie tells.
    #[serde(deserialize_with = "wire::number", alias = "groupId")]
    pub group_id: Option<i64>,
    /// When it was made.
    #[serde(deserialize_with = "wire::time")]
    pub created_on: Option<Timestamp>,
    /// Which of VPSie's lists it was in: masters or workers.
    #[serde(skip)]
    pub listed_as: Option<ListedAs>,
}

/// Which of VPSie's lists a node was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedAs {
    /// That of the masters.
    Master,
    /// That of the workers.
    Worker,
}

impl Node {
    /// What it is. The list that it is in counts first, then its role, then the last word of its name
    /// that tells, then its number, if `worker_types` says what that means.
    pub fn role(&self, worker_types: &std::collections::BTreeSet<i64>) -> Role {
        match self.listed_as {
            Some(ListedAs::Master) => return Role::Master,
            Some(ListedAs::Worker) if !self.is_called_master() => return Role::Worker,
            Some(ListedAs::Worker) | None => {}
        }
        let role = self.role.as_deref().map(word).unwrap_or(Role::Unknown);
        if role != Role::Unknown {
            return role;
        }
        if let Some(number) = self.node_type
            && !worker_types.is_empty()
        {
            return match worker_types.contains(&number) {
                true => Role::Worker,
                false => Role::Master,
            };
        }
        let name = self.hostname.as_deref().unwrap_or_default();
        let words = name
            .split(['-', '.', '_'])
            .map(|part| word(part.trim_end_matches(|c: char| c.is_ascii_digit())));
        words.rev().find(|role| *role != Role::Unknown).unwrap_or(Role::Unknown)
    }

    fn is_called_master(&self) -> bool {
        self.role.as_deref().is_some_and(|role| word(role) == Role::Master)
    }
}

/// What one word says.
fn word(text: &str) -> Role {
    match text.to_lowercase().as_str() {
        "master" | "manager" | "control-plane" | "controlplane" | "etcd" => Role::Master,
        "worker" | "slave" => Role::Worker,
        _ => Role::Unknown,
    }
}

/// A managed cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// Its UUID.
    #[serde(deserialize_with = "wire::text")]
    pub identifier: Option<String>,
    /// Its name.
    #[serde(deserialize_with = "wire::text")]
    pub cluster_name: Option<String>,
}

/// A group of a cluster's workers, which are all of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeGroup {
    /// Its number.
    #[serde(deserialize_with = "wire::number")]
    pub id: Option<i64>,
    /// Its name.
    #[serde(deserialize_with = "wire::text")]
    pub group_name: Option<String>,
    /// Its UUID.
    #[serde(deserialize_with = "wire::text")]
    pub identifier: Option<String>,
    /// The number of its size.
    #[serde(deserialize_with = "wire::number")]
    pub boxsize_id: Option<i64>,
    /// The data centre that it is in.
    #[serde(rename = "dcIdentifier", deserialize_with = "wire::text")]
    pub datacenter: Option<String>,
    /// Virtual CPUs of each node.
    #[serde(deserialize_with = "wire::number")]
    pub cpu: Option<i64>,
    /// Memory of each node in MiB.
    #[serde(deserialize_with = "wire::number")]
    pub ram: Option<i64>,
    /// The root disk of each node in GiB.
    #[serde(deserialize_with = "wire::number")]
    pub ssd: Option<i64>,
    /// How many nodes it has.
    #[serde(deserialize_with = "wire::number")]
    pub nodes_count: Option<i64>,
    /// Whether it was deleted: the row is history.
    #[serde(deserialize_with = "wire::flag")]
    pub is_deleted: Option<bool>,
}

/// A machine that is being made, of which there is no ID yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// The host name that was asked for.
    pub hostname: Option<String>,
}

/// A machine to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewVm {
    /// Its name and host name.
    pub hostname: String,
    /// The ID of its size.
    pub plan: String,
    /// The ID of its operating system.
    pub image: String,
    /// The ID of its data centre.
    pub datacenter: String,
    /// The ID of its project.
    pub project: Option<String>,
    /// SSH keys by ID.
    pub ssh_keys: Vec<String>,
    /// A script by ID.
    pub script: Option<String>,
    /// What the guest is given on its first boot.
    pub user_data: Option<String>,
    /// Tags that it carries.
    pub tags: Vec<String>,
    /// Notes for people.
    pub notes: String,
}

/// What is done to a machine's power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Switch it on.
    Start,
    /// Switch it off.
    Stop,
    /// Switch it off and on.
    Restart,
}

impl Action {
    /// The word for it in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }
}

/// A snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Its UUID.
    #[serde(deserialize_with = "wire::text")]
    pub identifier: Option<String>,
    /// Its name.
    #[serde(deserialize_with = "wire::text")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(deserialize_with = "wire::text")]
    pub note: Option<String>,
    /// When it was taken.
    #[serde(deserialize_with = "wire::time")]
    pub created_on: Option<Timestamp>,
    /// Bytes that it takes.
    #[serde(deserialize_with = "wire::number")]
    pub backup_size: Option<i64>,
}

/// A size that VPSie offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Offering {
    /// Its ID.
    #[serde(deserialize_with = "wire::text")]
    pub id: Option<String>,
    /// Virtual CPUs.
    #[serde(deserialize_with = "wire::number")]
    pub cpu: Option<i64>,
    /// Memory in MiB.
    #[serde(deserialize_with = "wire::number")]
    pub ram: Option<i64>,
    /// The root disk in GiB.
    #[serde(deserialize_with = "wire::number")]
    pub disk: Option<i64>,
    /// Whether machines can be made of it.
    #[serde(deserialize_with = "wire::flag")]
    pub available: Option<bool>,
    /// The data centre that offers it; all of them when absent.
    #[serde(deserialize_with = "wire::text")]
    pub datacenter_id: Option<String>,
}

/// An operating system that VPSie offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OsImage {
    /// Its ID.
    #[serde(deserialize_with = "wire::text")]
    pub id: Option<String>,
    /// Its name.
    #[serde(deserialize_with = "wire::text")]
    pub name: Option<String>,
    /// Its version.
    #[serde(deserialize_with = "wire::text")]
    pub version: Option<String>,
    /// The least disk that it needs, in GiB.
    #[serde(deserialize_with = "wire::number")]
    pub min_disk: Option<i64>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn node(hostname: &str) -> Node {
        Node { hostname: Some(hostname.to_owned()), ..Node::default() }
    }

    #[test]
    fn the_last_word_that_tells_counts() {
        let none = BTreeSet::new();
        for (name, role) in [
            ("web-k8s-worker", Role::Worker),
            ("web-k8s-worker2", Role::Worker),
            ("worker-k8s-master", Role::Master),
            ("master-k8s-slave-1", Role::Worker),
            ("web.manager.example", Role::Master),
            ("v-4711", Role::Unknown),
            ("", Role::Unknown),
        ] {
            assert_eq!(node(name).role(&none), role, "{name}");
        }
    }

    #[test]
    fn a_master_is_a_master_whatever_it_is_called() {
        let none = BTreeSet::new();
        let mut called = node("a-worker");
        called.listed_as = Some(ListedAs::Master);
        assert_eq!(called.role(&none), Role::Master);
        called.listed_as = Some(ListedAs::Worker);
        called.role = Some("Manager".to_owned());
        assert_eq!(called.role(&none), Role::Master);
    }

    #[test]
    fn numbers_tell_once_somebody_said_what_they_mean() {
        let numbered = |node_type| Node { node_type: Some(node_type), ..node("v-1") };
        assert_eq!(numbered(2).role(&BTreeSet::new()), Role::Unknown);
        assert_eq!(numbered(2).role(&BTreeSet::from([2])), Role::Worker);
        assert_eq!(numbered(1).role(&BTreeSet::from([2])), Role::Master);
    }
}
