//! What there is: plain machines, and the workers of clusters, which VPSie lists apart.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sutler_provider::{Error, ErrorKind, Listing, Machine, MachineId, Result};

use super::{
    Inner,
    group::{self, Worker},
    id::Which,
    show,
};
use crate::client::{Node, NodeGroup, Role, Vm};

/// Clusters that are read at the same time.
const AT_ONCE: usize = 4;

/// A cluster as it is.
pub(super) struct Cluster {
    pub(super) id: String,
    pub(super) workers: Vec<Worker>,
    pub(super) groups: Vec<NodeGroup>,
    masters: Vec<Node>,
    /// Nodes of which it cannot be told whether they are masters.
    unclear: Vec<Node>,
}

impl Cluster {
    /// Workers with the groups that they are in.
    pub(super) fn members(&self) -> impl Iterator<Item = (&Worker, Option<&NodeGroup>)> {
        self.workers.iter().zip(group::of_all(&self.workers, &self.groups))
    }
}

/// What is known of one worker.
pub(super) enum Found {
    /// It is not there.
    Nowhere,
    /// It is there.
    Worker(Box<Member>),
}

/// A worker among its like.
pub(super) struct Member {
    pub(super) machine: Machine,
    pub(super) worker: Worker,
    pub(super) group: Option<NodeGroup>,
    /// How many workers its group has, as far as they can be seen.
    pub(super) fellows: usize,
}

impl Inner {
    /// All machines. Any part that fails fails the whole: what lacks something must not look complete.
    pub(super) async fn list(&self) -> Result<Listing> {
        let (vms, clusters) = futures::try_join!(self.api.list_vms(), self.clusters())?;
        // Of clusters that nobody has there is nothing to join.
        let all = match clusters.is_empty() {
            true => Vec::new(),
            false => self.all_nodes().await?,
        };
        let clusters: Vec<Cluster> = stream::iter(clusters)
            .map(|cluster| self.cluster_listed(cluster, &all))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut listing = Listing { machines: Vec::new(), complete: true };
        for vm in vms.iter().filter(|vm| vm.is_deleted != Some(true)) {
            if clusters.iter().any(|cluster| cluster.has(vm)) {
                continue;
            }
            match show::vm(self.settings.dialect, vm) {
                Some(machine) => listing.machines.push(self.off.mark(machine)),
                None => {
                    tracing::warn!(hostname = vm.hostname, "VPSie lists a machine without an ID");
                    listing.complete = false;
                }
            }
        }
        for cluster in &clusters {
            if !cluster.unclear.is_empty() {
                warn_unclear(cluster);
                listing.complete = false;
            }
            for (worker, group) in cluster.members() {
                match show::node(self.settings.dialect, &cluster.id, worker, group) {
                    Some(machine) => listing.machines.push(machine),
                    None => {
                        let hostname = worker.node.hostname.as_deref();
                        tracing::warn!(cluster = cluster.id, hostname, "a worker has no ID");
                        listing.complete = false;
                    }
                }
            }
        }
        Ok(listing)
    }

    /// One machine; none where VPSie says that it is not there.
    pub(super) async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        match Which::read(id) {
            Which::Nothing => Ok(None),
            Which::Vm(id) => self.vm(&id).await,
            Which::Node { cluster, key } => match self.worker(&cluster, &key).await? {
                Found::Nowhere => Ok(None),
                Found::Worker(member) => Ok(Some(member.machine)),
            },
        }
    }

    /// One plain machine.
    pub(super) async fn vm(&self, id: &str) -> Result<Option<Machine>> {
        let Some(vm) = self.api.get_vm(id).await? else { return Ok(None) };
        if vm.is_deleted == Some(true) {
            return Ok(None);
        }
        let shown = show::vm(self.settings.dialect, &vm);
        let shown = shown.ok_or_else(|| {
            Error::internal(format!("VPSie tells neither name nor ID of machine {id}"))
        })?;
        Ok(Some(self.off.mark(shown)))
    }

    /// One worker. A cluster that cannot be read proves nothing about its workers.
    pub(super) async fn worker(&self, cluster: &str, key: &str) -> Result<Found> {
        let all = self.all_nodes().await?;
        let Some(cluster) = self.cluster(cluster, &all).await? else {
            // Only the list of all clusters tells that one is gone.
            let clusters = self.api.list_k8s_clusters().await?;
            let there = clusters.iter().any(|one| one.identifier.as_deref() == Some(cluster));
            return match there {
                true => Err(Error::unavailable(format!(
                    "cluster {cluster} is listed, and cannot be read"
                ))),
                false => Ok(Found::Nowhere),
            };
        };
        let dialect = self.settings.dialect;
        let key_of =
            |node: &Node| show::node_key(dialect, &Worker { node: node.clone(), vm: None });
        let is_it = |node: &Node| key_of(node).as_deref() == Some(key);
        if cluster.masters.iter().any(is_it) {
            return Err(Error::conflict(format!(
                "node {key} of cluster {} is a master, which is never touched",
                cluster.id
            )));
        }
        if cluster.unclear.iter().any(is_it) {
            return Err(Error::conflict(format!(
                "VPSie does not say whether node {key} of cluster {} is a worker: name the node_type of \
                 workers in spec.options.workerNodeTypes",
                cluster.id
            )));
        }
        let Some((worker, group)) = cluster.members().find(|(worker, _)| is_it(&worker.node))
        else {
            let nameless = |node: &Node| key_of(node).is_none();
            // It may be the one that has no ID just now.
            return match cluster.workers.iter().any(|worker| nameless(&worker.node)) {
                true => Err(Error::unavailable(format!(
                    "VPSie lists a worker of cluster {} without an ID, which may be {key}",
                    cluster.id
                ))),
                false => Ok(Found::Nowhere),
            };
        };
        let group_id = group.and_then(|group| group.id);
        let fellow = |(_, other): &(&Worker, Option<&NodeGroup>)| {
            group_id.is_some() && other.and_then(|other| other.id) == group_id
        };
        let fellows = cluster.members().filter(fellow).count();
        let nameless = || Error::internal(format!("VPSie tells no ID of worker {key}"));
        let machine = show::node(dialect, &cluster.id, worker, group).ok_or_else(nameless)?;
        let (worker, group) = (worker.clone(), group.cloned());
        Ok(Found::Worker(Box::new(Member { machine, worker, group, fellows })))
    }

    /// The IDs of clusters that are looked after. Those that options name and VPSie does not have are not
    /// there, and neither are their nodes.
    pub(super) async fn clusters(&self) -> Result<Vec<String>> {
        let listed = self.api.list_k8s_clusters().await?;
        let mut ids = BTreeSet::new();
        for cluster in listed {
            let Some(id) = cluster.identifier.filter(|id| crate::settings::is_plain(id)) else {
                let why = "VPSie lists a cluster without an ID, of which nothing can be known";
                return Err(Error::internal(why));
            };
            ids.insert(id);
        }
        Ok(ids.into_iter().filter(|id| self.looks_after(id)).collect())
    }

    /// Whether a cluster is one of those that options name.
    pub(super) fn looks_after(&self, cluster: &str) -> bool {
        self.settings.clusters.as_ref().is_none_or(|named| named.contains(cluster))
    }

    async fn cluster_listed(&self, id: String, all: &[Vm]) -> Result<Cluster> {
        let gone = || Error::unavailable(format!("cluster {id} is listed, and cannot be read"));
        self.cluster(&id, all).await?.ok_or_else(gone)
    }

    async fn cluster(&self, id: &str, all: &[Vm]) -> Result<Option<Cluster>> {
        let Some(nodes) = self.api.list_k8s_nodes(id).await? else { return Ok(None) };
        let groups = self.api.list_k8s_node_groups(id).await?;
        let mut cluster = Cluster {
            id: id.to_owned(),
            workers: Vec::new(),
            groups,
            masters: Vec::new(),
            unclear: Vec::new(),
        };
        for node in nodes {
            match node.role(&self.settings.worker_node_types) {
                Role::Master => cluster.masters.push(node),
                Role::Unknown => cluster.unclear.push(node),
                Role::Worker => {
                    let vm = all.iter().find(|vm| is_same(&node, vm)).cloned();
                    cluster.workers.push(Worker { node, vm });
                }
            }
        }
        Ok(Some(cluster))
    }

    /// The list of all machines, with managed nodes among them. An API that does not have it lacks only
    /// details.
    async fn all_nodes(&self) -> Result<Vec<Vm>> {
        match self.api.list_all_nodes().await {
            Err(error) if [ErrorKind::NotFound, ErrorKind::Unsupported].contains(&error.kind()) => {
                Ok(Vec::new())
            }
            other => other,
        }
    }
}

impl Cluster {
    /// Whether a machine is one of the cluster's nodes, of whichever kind.
    fn has(&self, vm: &Vm) -> bool {
        let workers = self.workers.iter().map(|worker| &worker.node);
        let nodes = workers.chain(&self.masters).chain(&self.unclear);
        nodes.into_iter().any(|node| is_same(node, vm))
    }
}

/// Whether a node and a machine are the same. Numbers alone prove nothing: nobody says that nodes are
/// counted together with machines.
fn is_same(node: &Node, vm: &Vm) -> bool {
    let same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    same(&node.identifier, &vm.identifier)
        || (same(&node.hostname, &vm.hostname)
            && ((node.id.is_some() && node.id == vm.id) || same(&node.default_ip, &vm.default_ip)))
}

fn warn_unclear(cluster: &Cluster) {
    let names: Vec<&str> =
        cluster.unclear.iter().filter_map(|node| node.hostname.as_deref()).collect();
    let types: BTreeSet<i64> = cluster.unclear.iter().filter_map(|node| node.node_type).collect();
    tracing::warn!(
        cluster = cluster.id,
        ?names,
        ?types,
        "VPSie does not say whether these nodes are workers: name the node_type of workers in \
         spec.options.workerNodeTypes"
    );
}
