//! Nodes by what they can be known by.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use sutler_api::names::{annotations, labels};
use sutler_control::kit::Key;

/// Labels of nodes that run the cluster itself: never ours.
const CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// What is known of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The VPSieNode that claims it, where one does: its namespace where that is said, and its name.
    pub claim: Option<(Option<String>, String)>,
    /// The group that it is labelled with.
    pub group: Option<String>,
    /// Its addresses within the cluster's network.
    pub internal: Vec<String>,
    /// Its addresses beyond it.
    pub external: Vec<String>,
    /// The names that it calls itself.
    pub hostnames: Vec<String>,
    /// Whether it takes pods, and why not.
    pub ready: Result<(), String>,
    /// Whether new pods are kept off it.
    pub cordoned: bool,
    /// When we began to drain it.
    pub draining: Option<Timestamp>,
    /// Whether it runs the cluster itself.
    pub control_plane: bool,
    /// When it joined.
    pub created_at: Option<Timestamp>,
}

impl Seen {
    /// Reads a node.
    pub fn read(node: &Node) -> Self {
        let status = node.status.as_ref();
        let of_type = |type_: &str| -> Vec<String> {
            let all = status.and_then(|status| status.addresses.as_ref()).into_iter().flatten();
            all.filter(|address| address.type_ == type_).map(|a| a.address.clone()).collect()
        };
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
        let label = |name: &str| node.labels().get(name).filter(|v| !v.is_empty()).cloned();
        let namespace = label(labels::NODE_GROUP_NAMESPACE);
        Self {
            name: node.name_any(),
            uid: node.uid().unwrap_or_default(),
            claim: label(labels::VPSIE_NODE).map(|name| (namespace, name)),
            group: label(labels::NODE_GROUP),
            internal: of_type("InternalIP"),
            external: of_type("ExternalIP"),
            hostnames: of_type("Hostname").into_iter().map(|name| name.to_lowercase()).collect(),
            ready: match ready {
                Some(ready) if ready.status == "True" => Ok(()),
                Some(ready) => Err(ready
                    .message
                    .clone()
                    .unwrap_or_else(|| format!("its condition Ready is {}", ready.status))),
                None => Err("it has not said yet whether it is ready".to_owned()),
            },
            cordoned: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
            draining: node
                .annotations()
                .get(annotations::DRAIN_START_TIME)
                .and_then(|at| at.parse().ok()),
            control_plane: CONTROL_PLANE.iter().any(|name| node.labels().contains_key(*name)),
            created_at: node.creation_timestamp().map(|at| at.0),
        }
    }

    /// Whether the record with this key has it. A claim that names no namespace was made by others, and
    /// is any record's of that name.
    pub fn is_claimed_by(&self, key: &Key) -> bool {
        self.claim.as_ref().is_some_and(|(namespace, name)| {
            *name == key.name && namespace.as_ref().is_none_or(|space| *space == key.namespace)
        })
    }

    /// Whether nobody has it, and somebody may.
    pub fn is_free(&self) -> bool {
        self.claim.is_none() && !self.control_plane
    }
}

/// Nodes of one cluster by what they can be known by.
#[derive(Debug, Default)]
pub struct Index {
    nodes: BTreeMap<String, Seen>,
    internal: BTreeMap<String, BTreeSet<String>>,
    external: BTreeMap<String, BTreeSet<String>>,
    hostnames: BTreeMap<String, BTreeSet<String>>,
    claims: BTreeMap<String, BTreeSet<String>>,
    free: BTreeSet<String>,
}

impl Index {
    /// Takes a node in; what was known of it before comes back.
    pub fn put(&mut self, node: &Node) -> Option<Seen> {
        let seen = Seen::read(node);
        let before = self.remove(&seen.name);
        let name = || seen.name.clone();
        for ip in &seen.internal {
            self.internal.entry(ip.clone()).or_default().insert(name());
        }
        for ip in &seen.external {
            self.external.entry(ip.clone()).or_default().insert(name());
        }
        for hostname in &seen.hostnames {
            self.hostnames.entry(hostname.clone()).or_default().insert(name());
        }
        if let Some((_, claim)) = &seen.claim {
            self.claims.entry(claim.clone()).or_default().insert(name());
        }
        if seen.is_free() {
            self.free.insert(name());
        }
        self.nodes.insert(name(), seen);
        before
    }

    /// Lets a node go.
    pub fn remove(&mut self, name: &str) -> Option<Seen> {
        let seen = self.nodes.remove(name)?;
        for (map, keys) in [
            (&mut self.internal, &seen.internal),
            (&mut self.external, &seen.external),
            (&mut self.hostnames, &seen.hostnames),
        ] {
            for key in keys {
                unlink(map, key, name);
            }
        }
        if let Some((_, claim)) = &seen.claim {
            unlink(&mut self.claims, claim, name);
        }
        self.free.remove(name);
        Some(seen)
    }

    /// A node by its name.
    pub fn get(&self, name: &str) -> Option<&Seen> {
        self.nodes.get(name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }

    /// The node that a record has.
    pub fn of_record(&self, key: &Key) -> Option<&Seen> {
        let mut claimed = self.of(&self.claims, &key.name);
        claimed.find(|seen| seen.is_claimed_by(key))
    }

    /// Nodes with this address: within the cluster's network first.
    pub fn at(&self, ip: &str) -> impl Iterator<Item = &Seen> {
        self.of(&self.internal, ip).chain(self.of(&self.external, ip))
    }

    /// Nodes that are or call themselves this.
    pub fn called(&self, name: &str) -> impl Iterator<Item = &Seen> {
        let own = self.nodes.get(&name.to_lowercase());
        own.into_iter().chain(self.of(&self.hostnames, &name.to_lowercase()))
    }

    /// Nodes that nobody has.
    pub fn free(&self) -> impl Iterator<Item = &Seen> {
        self.free.iter().filter_map(|name| self.nodes.get(name))
    }

    fn of<'a>(
        &'a self,
        map: &'a BTreeMap<String, BTreeSet<String>>,
        key: &str,
    ) -> impl Iterator<Item = &'a Seen> + use<'a> {
        map.get(key).into_iter().flatten().filter_map(|name| self.nodes.get(name))
    }
}

fn unlink(map: &mut BTreeMap<String, BTreeSet<String>>, key: &str, name: &str) {
    if let Some(names) = map.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
}
