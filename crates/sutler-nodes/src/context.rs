//! What the controllers of nodes share.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt as _;
use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use sutler_api::{
    autoscaler::{AutoscalerConfig, NodeGroup, VPSieNode},
    infra::{VMClass, VirtualMachine},
};
use sutler_control::kit::{Key, Pace, Recorder, lock};
use sutler_provider::Clock;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};

use crate::{
    cluster::{ClusterConnector, Clusters, Id, Seen},
    group::Members,
    node::Memory,
    scale::Said,
};

/// How the controllers work.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Reconciles of one kind that may be under way at the same time.
    pub concurrency: u16,
    /// How long a machine may take to run once it was found.
    pub provisioning_timeout: Duration,
    /// How long a node may take to join once its machine runs.
    pub joining_timeout: Duration,
    /// Whether groups grow and shrink by themselves; not where another autoscaler drives them.
    pub scaling: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 64,
            provisioning_timeout: Duration::from_secs(15 * 60),
            joining_timeout: Duration::from_secs(15 * 60),
            scaling: true,
        }
    }
}

/// What the controllers of nodes share.
pub struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connector: Arc<dyn ClusterConnector>,
    pub(crate) settings: Settings,
    pub(crate) recorder: Recorder,
    pub(crate) groups: Store<NodeGroup>,
    pub(crate) records: Store<VPSieNode>,
    pub(crate) machines: Store<VirtualMachine>,
    pub(crate) configs: Store<AutoscalerConfig>,
    pub(crate) classes: Store<VMClass>,
    /// What groups may say of their own scaling.
    pub(crate) scaling: Mutex<BTreeMap<Key, Said>>,
    /// Something happened to a group or a record.
    pub(crate) groups_changed: Notify,
    pub(crate) clusters: Clusters,
    pub(crate) members: Mutex<Members>,
    /// What this process knows of records, by their UID. Forgetting it is safe.
    pub(crate) memory: Mutex<BTreeMap<String, Memory>>,
    /// The group as our last write left it, by its UID, until the cache has caught up.
    pub(crate) written_groups: Mutex<BTreeMap<String, Arc<NodeGroup>>>,
    /// How often the status of each group was written of late, by its UID.
    pub(crate) group_paces: Mutex<BTreeMap<String, Pace>>,
    /// Records that wait for a node, by its cluster.
    pub(crate) waiting: Mutex<BTreeMap<Id, BTreeSet<Key>>>,
    /// Records by the address of their machine.
    pub(crate) addresses: Mutex<BTreeMap<String, BTreeSet<Key>>>,
    pub(crate) wake_groups: mpsc::UnboundedSender<ObjectRef<NodeGroup>>,
    pub(crate) wake_records: mpsc::UnboundedSender<ObjectRef<VPSieNode>>,
    pub(crate) tasks: Tasks,
}

impl Context {
    /// Has a group looked at again.
    pub(crate) fn wake_group(&self, key: &Key) {
        // The receiver is gone only when the controllers stop.
        let _ = self.wake_groups.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Has a record looked at again.
    pub(crate) fn wake_record(&self, key: &Key) {
        let _ = self.wake_records.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Wakes the records that something which happened to a node is of use to: the one that has it, those
    /// whose machine has its address, and where nobody has it those who wait for one.
    pub(crate) fn wake_of_node(&self, id: &Id, seen: &Seen) {
        let mut woken = BTreeSet::new();
        match &seen.claim {
            Some((Some(namespace), name)) => {
                woken.insert(Key::new(namespace, name));
            }
            Some((None, name)) => woken.extend(lock(&self.members).called(name)),
            None => woken.extend(lock(&self.waiting).get(id).into_iter().flatten().cloned()),
        }
        let addresses = lock(&self.addresses);
        for ip in seen.internal.iter().chain(&seen.external) {
            woken.extend(addresses.get(ip).into_iter().flatten().cloned());
        }
        drop(addresses);
        for key in woken {
            self.wake_record(&key);
        }
    }

    /// Whether all groups are known.
    pub(crate) fn knows_groups(&self) -> bool {
        self.groups.wait_until_ready().now_or_never().is_some()
    }

    /// An object from a cache.
    pub(crate) fn cached<K>(store: &Store<K>, key: &Key) -> Option<Arc<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone,
    {
        store.get(&ObjectRef::new(&key.name).within(&key.namespace))
    }

    /// The settings of the autoscaler as a whole: those of the object called default.
    pub(crate) fn config(&self) -> sutler_api::autoscaler::GlobalSettings {
        let found = self.configs.get(&ObjectRef::new("default"));
        found.and_then(|config| config.spec.global_settings.clone()).unwrap_or_default()
    }

    /// What this process knows of a record.
    pub(crate) fn memory<R>(&self, uid: &str, read: impl FnOnce(&mut Memory) -> R) -> R {
        read(lock(&self.memory).entry(uid.to_owned()).or_default())
    }
}

/// The key of an object.
pub(crate) fn key_of<K: kube::Resource>(object: &K) -> Key {
    Key::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// Tasks that end when the controllers do.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Runs `task` beside everything else.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = lock(&self.0);
        while set.try_join_next().is_some() {}
        set.spawn(task);
    }

    /// Ends all of them.
    pub(crate) fn stop(&self) {
        lock(&self.0).abort_all();
    }
}
