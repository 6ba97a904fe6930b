//! The Kubernetes clusters that nodes join: the one that this API is of, and those that kubeconfigs lead
//! to. Each is watched once, however many groups are of it.

mod index;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        reflector::{self, Store},
        watcher::{self, Event},
    },
};
use sha2::{Digest as _, Sha256};
use sutler_api::autoscaler::NodeGroup;
use sutler_control::kit::{Key, lock, reflect};

pub use index::{Index, Seen};

use crate::context::Context;

/// Which cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    /// The one that the groups themselves are in.
    Own,
    /// The one that this Secret's kubeconfig leads to, by its key there.
    Secret(Key, String),
}

impl Id {
    /// The cluster of a group's nodes.
    pub fn of(group: &NodeGroup) -> Self {
        match &group.spec.cluster_ref {
            None => Self::Own,
            Some(reference) => {
                let namespace = group.namespace().unwrap_or_default();
                Self::Secret(Key::new(namespace, &reference.name), reference.key.clone())
            }
        }
    }
}

/// Makes clients of other clusters.
#[async_trait]
pub trait ClusterConnector: Send + Sync + 'static {
    /// A client for the cluster that this kubeconfig leads to, or why there is none. What it says never
    /// holds anything of the kubeconfig but names.
    async fn connect(&self, kubeconfig: &str) -> Result<Client, String>;
}

/// Clients as kubeconfigs say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kubeconfigs;

#[async_trait]
impl ClusterConnector for Kubeconfigs {
    async fn connect(&self, kubeconfig: &str) -> Result<Client, String> {
        let config = Kubeconfig::from_yaml(kubeconfig)
            .map_err(|_| "it is no kubeconfig: write what kubectl config view --raw prints")?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(config, &options)
            .await
            .map_err(|error| format!("the kubeconfig cannot be used: {error}"))?;
        // A budget that forbids an eviction is an answer, not a reason to ask again and again.
        config.default_retry = false;
        Client::try_from(config).map_err(|error| format!("the kubeconfig cannot be used: {error}"))
    }
}

/// A cluster that is watched.
pub struct Cluster {
    /// A client of it.
    pub client: Client,
    /// Its nodes.
    pub nodes: Store<Node>,
    index: Mutex<Index>,
    /// Whether all of them were listed.
    listed: AtomicBool,
    /// What it was connected with.
    digest: String,
}

impl Cluster {
    /// Reads its nodes by what they can be known by.
    pub fn read<R>(&self, read: impl FnOnce(&Index) -> R) -> R {
        read(&lock(&self.index))
    }

    /// Whether all of its nodes are known: one that is not among them is not there.
    pub fn in_sight(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }
}

/// All clusters that are watched.
#[derive(Default)]
pub struct Clusters {
    known: Mutex<BTreeMap<Id, Arc<Cluster>>>,
    /// Why a newer kubeconfig is not in use.
    troubles: Mutex<BTreeMap<Id, String>>,
}

impl Clusters {
    /// The cluster of this ID, where it is connected.
    pub fn get(&self, id: &Id) -> Option<Arc<Cluster>> {
        lock(&self.known).get(id).cloned()
    }

    /// Why a newer kubeconfig of it is not in use.
    pub fn trouble(&self, id: &Id) -> Option<String> {
        lock(&self.troubles).get(id).cloned()
    }
}

/// The cluster of a group, connected where it was not; or why it cannot be. A kubeconfig that was changed
/// for a worse one leaves the connection as it was.
pub(crate) async fn of_group(
    context: &Arc<Context>,
    group: &NodeGroup,
) -> Result<Arc<Cluster>, String> {
    of(context, Id::of(group)).await
}

/// The cluster of this ID, as [`of_group`].
pub(crate) async fn of(context: &Arc<Context>, id: Id) -> Result<Arc<Cluster>, String> {
    let (kubeconfig, digest) = match &id {
        Id::Own => (None, String::new()),
        Id::Secret(key, entry) => match kubeconfig(context, key, entry).await {
            Ok(text) => {
                let digest = Sha256::digest(text.as_bytes());
                (Some(text), digest.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            Err(why) => return kept(context, &id, why),
        },
    };
    if let Some(known) = context.clusters.get(&id)
        && known.digest == digest
    {
        lock(&context.clusters.troubles).remove(&id);
        return Ok(known);
    }
    let client = match &kubeconfig {
        None => context.client.clone(),
        Some(text) => match connect(context, text).await {
            Ok(client) => client,
            Err(why) => return kept(context, &id, why),
        },
    };
    lock(&context.clusters.troubles).remove(&id);
    let (nodes, writer) = reflector::store();
    let cluster = Arc::new(Cluster {
        client,
        nodes,
        index: Mutex::default(),
        listed: AtomicBool::new(false),
        digest,
    });
    lock(&context.clusters.known).insert(id.clone(), cluster.clone());
    let watched = watch(context.clone(), id.clone(), cluster.clone(), writer);
    context.tasks.spawn(watched);
    if context.settings.scaling {
        context.tasks.spawn(crate::scale::run(context.clone(), id, cluster.clone()));
    }
    Ok(cluster)
}

fn kept(context: &Context, id: &Id, why: String) -> Result<Arc<Cluster>, String> {
    match context.clusters.get(id) {
        Some(known) => {
            lock(&context.clusters.troubles).insert(id.clone(), why);
            Ok(known)
        }
        None => Err(why),
    }
}

async fn connect(context: &Context, kubeconfig: &str) -> Result<Client, String> {
    let client = context.connector.connect(kubeconfig).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let one = kube::api::ListParams::default().limit(1);
    let tried = nodes.list_metadata(&one).await;
    tried.map_err(|error| format!("the cluster's nodes cannot be listed: {error}"))?;
    Ok(client)
}

async fn kubeconfig(context: &Context, key: &Key, entry: &str) -> Result<String, String> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &key.namespace);
    let secret = api.get_opt(&key.name).await;
    let secret = secret.map_err(|error| format!("spec.clusterRef: Secret {key}: {error}"))?;
    let secret =
        secret.ok_or_else(|| format!("spec.clusterRef: Secret {key} is not there: create it"))?;
    let data = secret.data.as_ref().and_then(|data| data.get(entry));
    let data =
        data.ok_or_else(|| format!("spec.clusterRef: Secret {key} has no key {entry:?}: add it"))?;
    String::from_utf8(data.0.clone())
        .map_err(|_| format!("spec.clusterRef: key {entry:?} of Secret {key} is no text"))
}

/// Keeps what is known of a cluster's nodes until another connection takes its place.
async fn watch(
    context: Arc<Context>,
    id: Id,
    cluster: Arc<Cluster>,
    writer: reflector::store::Writer<Node>,
) {
    let api: Api<Node> = Api::all(cluster.client.clone());
    let events = reflect(api, watcher::Config::default(), writer, trim);
    let mut events = std::pin::pin!(events);
    let mut listed: std::collections::BTreeSet<String> = Default::default();
    while let Some(event) = events.next().await {
        if context.clusters.get(&id).is_none_or(|known| !Arc::ptr_eq(&known, &cluster)) {
            return;
        }
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(node)) => {
                listed.insert(node.name_any());
                put(&context, &id, &cluster, &node);
            }
            Ok(Event::Apply(node)) => put(&context, &id, &cluster, &node),
            Ok(Event::Delete(node)) => remove(&context, &id, &cluster, &node.name_any()),
            Ok(Event::InitDone) => {
                let gone: Vec<String> = cluster.read(|index| {
                    index.names().filter(|name| !listed.contains(*name)).cloned().collect()
                });
                for name in gone {
                    remove(&context, &id, &cluster, &name);
                }
                // Those that waited for the first look.
                if !cluster.listed.swap(true, Ordering::AcqRel) {
                    let keys: Vec<Key> = lock(&context.members).keys().cloned().collect();
                    for key in keys {
                        context.wake_record(&key);
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "the watch of nodes begins anew"),
        }
    }
}

/// What is of no use here and takes memory.
fn trim(node: &mut Node) {
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
}

fn put(context: &Context, id: &Id, cluster: &Cluster, node: &Node) {
    let before = lock(&cluster.index).put(node);
    let now = cluster.read(|index| index.get(&node.name_any()).cloned());
    if before == now {
        return;
    }
    for seen in before.iter().chain(&now) {
        context.wake_of_node(id, seen);
    }
}

fn remove(context: &Context, id: &Id, cluster: &Cluster, name: &str) {
    let gone = lock(&cluster.index).remove(name);
    if let Some(seen) = gone {
        context.wake_of_node(id, &seen);
    }
}
