//! What is known of the API, kept up to date by one watch for each kind.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::ListParams,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store},
        watcher::{self, watcher},
    },
};
use serde::de::DeserializeOwned;
use sutler_api::{
    autoscaler::{AutoscalerConfig, NodeGroup, VPSieNode},
    infra::VMClass,
    names::{annotations, labels},
};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{Cluster, Error};

/// How long a call waits for a watch. cluster-autoscaler itself waits for five seconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// The AutoscalerConfig that counts.
pub(crate) const CONFIG: &str = "default";

/// The caches of all kinds that are read. Their watches end with them.
pub(crate) struct Caches {
    pub(crate) client: Client,
    pub(crate) groups: Store<NodeGroup>,
    pub(crate) records: Store<VPSieNode>,
    pub(crate) nodes: Store<Node>,
    pub(crate) classes: Store<VMClass>,
    pub(crate) configs: Store<AutoscalerConfig>,
    /// Groups as this process wrote them, until the watch has seen as much.
    written: Mutex<BTreeMap<Key, Arc<NodeGroup>>>,
    /// Told of every event of a group.
    changes: watch::Receiver<()>,
    _watching: JoinSet<()>,
}

impl Caches {
    /// Begins to watch.
    pub(crate) fn begin(client: Client, cluster: &Cluster) -> Self {
        let mut tasks = JoinSet::new();
        let (changed, changes) = watch::channel(());
        let managed = watcher::Config::default().labels(&managed());
        let only = watcher::Config::default().fields(&format!("metadata.name={CONFIG}"));
        let plain = watcher::Config::default;
        let node_client = match cluster {
            Cluster::Own => client.clone(),
            Cluster::Other { nodes, .. } => nodes.clone(),
        };
        let changed = move || changed.send_replace(());
        Self {
            groups: follow(&mut tasks, Api::all(client.clone()), managed, |_| {}, changed),
            records: follow(&mut tasks, Api::all(client.clone()), plain(), |_| {}, || {}),
            nodes: follow(&mut tasks, Api::all(node_client), plain(), trim_node, || {}),
            classes: follow(&mut tasks, Api::all(client.clone()), plain(), |_| {}, || {}),
            configs: follow(&mut tasks, Api::all(client.clone()), only, |_| {}, || {}),
            written: Mutex::default(),
            changes,
            client,
            _watching: tasks,
        }
    }

    /// Waits until every kind was listed once.
    pub(crate) async fn ready(&self) -> Result<(), Error> {
        async fn one<K: Resource<DynamicType = ()> + Clone + 'static>(
            store: &Store<K>,
            name: &'static str,
        ) -> Result<(), Error> {
            match timeout(PATIENCE, store.wait_until_ready()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(Error::Behind(name)),
            }
        }
        tokio::try_join!(
            one(&self.groups, "NodeGroups"),
            one(&self.records, "VPSieNodes"),
            one(&self.nodes, "Nodes"),
            one(&self.classes, "VMClasses"),
            one(&self.configs, "AutoscalerConfigs"),
        )?;
        Ok(())
    }

    /// Waits until groups are known as they are now. Only their metadata are read, and there are few
    /// of them; what else is read changes by itself at any time, and a moment's delay of it decides
    /// nothing: what is written is decided on what the API holds.
    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        self.ready().await?;
        let params = ListParams::default().labels(&managed());
        let now = Api::<NodeGroup>::all(self.client.clone())
            .list_metadata(&params)
            .await
            .map_err(Error::api("list NodeGroups"))?;
        let listed_at = now.metadata.resource_version.as_deref().map_or(0, number);
        let there: BTreeMap<_, _> =
            now.items.iter().map(|item| (key(item), version(item))).collect();
        let caught_up = || {
            let known: BTreeMap<_, _> = self
                .groups
                .state()
                .iter()
                .map(|group| (key(&**group), version(&**group)))
                .collect();
            there.iter().all(|(key, version)| known.get(key).is_some_and(|known| known >= version))
                // One that is known and was not listed was made since, or is gone.
                && known.iter().all(|(key, version)| there.contains_key(key) || *version > listed_at)
        };
        let mut changes = self.changes.clone();
        let wait = async {
            while !caught_up() {
                if changes.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        };
        timeout(PATIENCE, wait).await.map_err(|_| Error::Behind("NodeGroups"))
    }

    /// A group: as the watch knows it, or as this process wrote it since.
    pub(crate) fn group(&self, namespace: &str, name: &str) -> Option<Arc<NodeGroup>> {
        let group = self.groups.get(&ObjectRef::new(name).within(namespace))?;
        Some(self.newest(group))
    }

    /// All groups, by namespace and name.
    pub(crate) fn all_groups(&self) -> Vec<Arc<NodeGroup>> {
        let mut groups: Vec<_> =
            self.groups.state().into_iter().map(|group| self.newest(group)).collect();
        groups.sort_by_cached_key(|group| (group.namespace(), group.name_any()));
        groups
    }

    /// A group was written.
    pub(crate) fn wrote(&self, mut group: NodeGroup) {
        group.managed_fields_mut().clear();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are gone are not asked for any more.
        written.retain(|(namespace, name), _| {
            let group = ObjectRef::new(name).within(namespace.as_deref().unwrap_or_default());
            self.groups.get(&group).is_some()
        });
        written.insert(key(&group), Arc::new(group));
    }

    fn newest(&self, known: Arc<NodeGroup>) -> Arc<NodeGroup> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(&*known);
        match written.get(&key) {
            Some(ours) if version(&**ours) > version(&*known) => ours.clone(),
            Some(_) => {
                written.remove(&key);
                known
            }
            None => known,
        }
    }
}

fn follow<K>(
    tasks: &mut JoinSet<()>,
    api: Api<K>,
    config: watcher::Config,
    trim: fn(&mut K),
    tell: impl Fn() + Send + Sync + 'static,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(api, config)
        .default_backoff()
        .modify(move |object| {
            object.managed_fields_mut().clear();
            object.annotations_mut().remove(annotations::LAST_APPLIED);
            trim(object);
        })
        .reflect(writer);
    tasks.spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            if let Err(error) = event {
                tracing::warn!(%error, kind = %K::kind(&()), "a watch broke and is begun anew");
            }
            tell();
        }
    });
    store
}

/// What nobody asks for here and takes the most room.
fn trim_node(node: &mut Node) {
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
}

fn managed() -> String {
    format!("{}=true", labels::MANAGED)
}

/// Namespace and name.
type Key = (Option<String>, String);

fn key(object: &impl kube::ResourceExt) -> Key {
    (object.namespace(), object.name_any())
}

/// Versions of one API's objects can be compared; one that is no number is older than any other.
fn version(object: &impl kube::ResourceExt) -> u64 {
    object.resource_version().as_deref().map_or(0, number)
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}
