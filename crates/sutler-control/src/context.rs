//! What all controllers share.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource,
    runtime::reflector::{ObjectRef, Store},
};
use sutler_api::{
    infra::{Provider, VMClass, VMClone, VMImage, VMNetworkAttachment, VMSnapshot, VirtualMachine},
    sutler::{Operation, VMDisk},
};
use sutler_provider::{BreakerLimits, Clock, Machine};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    events::Recorder,
    fleet::{Connector, Fleet, Key, Target, lock},
    index::Index,
    links::Links,
    machine::pace::Pace,
    plan::{Claims, Group, Memory, Row},
    recent::Recent,
};

/// The least pause between two writes of one status by one process: two that see things differently
/// must not answer each other without end.
pub(crate) const SPACING: Duration = Duration::from_millis(200);

/// How the controllers work.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who this process is among those that could lead.
    pub identity: String,
    /// Where the Lease of the leader is.
    pub namespace: String,
    /// How long a leader that falls silent stays the leader.
    pub lease: Duration,
    /// How long status changes that only tell of progress are gathered.
    pub coalesce: Duration,
    /// The pause between two health checks of a provider that names none.
    pub health_interval: Duration,
    /// Reconciles of one kind that may be under way at the same time.
    pub concurrency: u16,
    /// The seed of everything that is random.
    pub seed: u64,
    /// How long finished Operations of ours are kept.
    pub operation_ttl: Duration,
    /// How long a platform is left alone after repeated failures.
    pub breaker_pause: Duration,
    /// Whether the API is that of a cluster, which runs what is deployed there.
    pub cluster: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            identity: "sutler".to_owned(),
            namespace: "sutler-system".to_owned(),
            lease: Duration::from_secs(15),
            coalesce: Duration::from_secs(1),
            health_interval: Duration::from_secs(60),
            concurrency: 64,
            seed: 0,
            operation_ttl: Duration::from_secs(3600),
            breaker_pause: BreakerLimits::default().open,
            cluster: false,
        }
    }
}

/// What comes in from outside.
#[derive(Clone)]
pub struct Outside {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes providers.
    pub connector: Arc<dyn Connector>,
    /// Sends the requests that lifecycle hooks ask for.
    pub web: Arc<dyn crate::machine::hooks::Web>,
}

/// What all controllers share.
pub struct Context {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) outside: Outside,
    pub(crate) sets: crate::sets::Shared,
    pub(crate) placement: crate::placement::Shared,
    /// Which control plane this is: several may share a platform.
    pub(crate) installation: String,
    pub(crate) fleet: Fleet,
    pub(crate) machines: Store<VirtualMachine>,
    pub(crate) providers: Store<Provider>,
    pub(crate) classes: Store<VMClass>,
    pub(crate) images: Store<VMImage>,
    pub(crate) networks: Store<VMNetworkAttachment>,
    pub(crate) operations: Store<Operation>,
    pub(crate) disks: Store<VMDisk>,
    /// Each in a place of its own: they are large, and a tree leaves room for more than it holds.
    pub(crate) slots: Mutex<BTreeMap<String, Box<Slot>>>,
    pub(crate) index: Mutex<Index>,
    /// All records as the API has them, for those who must not trust a cache.
    pub(crate) fresh: crate::fresh::Fresh<crate::index::Index>,
    /// Whether all records are in the index.
    pub(crate) indexed: AtomicBool,
    pub(crate) operations_index: Mutex<crate::operations::Operations>,
    /// Images on their way to a Provider, by the image's UID.
    pub(crate) imports: Mutex<BTreeMap<(String, Key), crate::images::Import>>,
    /// How often a platform was asked for an image with the request that this process may send now.
    pub(crate) asks: Mutex<BTreeMap<(String, Key), u32>>,
    pub(crate) snapshots: Store<VMSnapshot>,
    pub(crate) clones: Store<VMClone>,
    /// What snapshots hang on.
    pub(crate) snapshot_links: Mutex<Links>,
    /// What copies hang on.
    pub(crate) clone_links: Mutex<Links>,
    /// What this process knows of snapshots.
    pub(crate) desk: Mutex<crate::snapshots::Desk>,
    /// Images and disks on their way off a Provider.
    pub(crate) removals: Mutex<crate::removal::Removals>,
    /// Disks that are looked for on their platforms.
    pub(crate) disk_looks: Mutex<crate::disks::Looks>,
    /// When the status of an object was last written, by its UID.
    pub(crate) writes: Mutex<Recent<String, jiff::Timestamp>>,
    pub(crate) secrets: Mutex<BTreeMap<Key, Arc<Secret>>>,
    /// Calls that reconciles wait for, where a test broke the rule that they never do.
    pub(crate) held_up: Mutex<Vec<futures::future::BoxFuture<'static, ()>>>,
    /// What each connection was made from.
    pub(crate) targets: Mutex<BTreeMap<Key, Target>>,
    /// When each Provider's status was last written.
    pub(crate) provider_status_at: Mutex<BTreeMap<Key, jiff::Timestamp>>,
    /// Records that wait for a list, by Provider.
    pub(crate) lookers: Mutex<BTreeMap<Key, BTreeSet<Key>>>,
    pub(crate) wakes: Wakes,
    pub(crate) recorder: Recorder,
    pub(crate) tasks: Tasks,
    pub(crate) counters: crate::metrics::Counters,
}

/// What this process knows of one record.
#[derive(Default)]
pub(crate) struct Slot {
    /// What the planner remembers.
    pub(crate) memory: Memory,
    /// The record as our last write left it, until the cache has caught up.
    pub(crate) written: Option<Arc<VirtualMachine>>,
    /// Whether the record is known to be off the books, though a cache may still show it.
    pub(crate) gone: bool,
    /// Since when a status that only tells of progress waits to be written.
    pub(crate) unwritten_since: Option<jiff::Timestamp>,
    /// When its status was last written, and may be again.
    pub(crate) pace: Pace,
    /// When each stage began and ended.
    pub(crate) stages: [Option<(jiff::Timestamp, Option<jiff::Timestamp>)>; 6],
    /// The operation that is under way, and what it is for.
    pub(crate) operation: Option<crate::operations::Running>,
}

/// Ways to have an object looked at again.
pub(crate) struct Wakes {
    pub(crate) machines: mpsc::UnboundedSender<ObjectRef<VirtualMachine>>,
    pub(crate) providers: mpsc::UnboundedSender<ObjectRef<Provider>>,
    pub(crate) classes: mpsc::UnboundedSender<ObjectRef<VMClass>>,
    pub(crate) images: mpsc::UnboundedSender<ObjectRef<VMImage>>,
    pub(crate) networks: mpsc::UnboundedSender<ObjectRef<VMNetworkAttachment>>,
    pub(crate) operations: mpsc::UnboundedSender<ObjectRef<Operation>>,
    pub(crate) disks: mpsc::UnboundedSender<ObjectRef<VMDisk>>,
    pub(crate) snapshots: mpsc::UnboundedSender<ObjectRef<VMSnapshot>>,
    pub(crate) clones: mpsc::UnboundedSender<ObjectRef<VMClone>>,
}

impl Context {
    /// Has a machine's record looked at again.
    pub(crate) fn wake(&self, key: &Key) {
        // The receiver is gone only when the controllers stop.
        let _ = self.wakes.machines.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Has records looked at again.
    pub(crate) fn wake_all<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        for key in keys {
            self.wake(key);
        }
    }

    /// Has a Provider looked at again.
    pub(crate) fn wake_provider(&self, key: &Key) {
        let _ = self.wakes.providers.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Has an Operation looked at again.
    pub(crate) fn wake_operation(&self, key: &Key) {
        let _ = self.wakes.operations.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Has a VMDisk looked at again.
    pub(crate) fn wake_disk(&self, key: &Key) {
        let _ = self.wakes.disks.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Has a VMSnapshot looked at again.
    pub(crate) fn wake_snapshot(&self, key: &Key) {
        let _ = self.wakes.snapshots.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Has a VMClone looked at again.
    pub(crate) fn wake_clone(&self, key: &Key) {
        let _ = self.wakes.clones.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// How long to wait before anything is said about who uses what: until all records were seen.
    pub(crate) fn not_indexed(&self) -> Option<Duration> {
        let indexed = self.indexed.load(Ordering::Relaxed);
        (!indexed).then_some(Duration::from_millis(100))
    }

    /// How long to wait before the status of the object with this UID may be written again, where
    /// that can wait.
    pub(crate) fn too_soon(&self, uid: &str, pause: Duration) -> Option<Duration> {
        let last = lock(&self.writes).get(uid).copied()?;
        let since = Duration::try_from(self.clock.now().duration_since(last)).unwrap_or_default();
        pause.checked_sub(since).filter(|rest| !rest.is_zero())
    }

    /// Notes that the status of the object with this UID was written.
    pub(crate) fn wrote(&self, uid: &str) {
        let now = self.clock.now();
        lock(&self.writes).insert(uid.to_owned(), now);
    }

    /// What this process knows of the record with this UID.
    pub(crate) fn slot<R>(&self, uid: &str, read: impl FnOnce(&mut Slot) -> R) -> R {
        read(lock(&self.slots).entry(uid.to_owned()).or_default())
    }

    /// An object from a cache.
    pub(crate) fn cached<K>(store: &Store<K>, key: &Key) -> Option<Arc<K>>
    where
        K: Resource<DynamicType = ()> + Clone,
    {
        store.get(&ObjectRef::new(&key.name).within(&key.namespace))
    }

    /// A Secret, read when it is first asked for and again after it changed.
    pub(crate) async fn secret(&self, key: &Key) -> Result<Option<Arc<Secret>>, kube::Error> {
        if let Some(known) = lock(&self.secrets).get(key).cloned() {
            return Ok(Some(known));
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = api.get_opt(&key.name).await?.map(Arc::new);
        if let Some(secret) = &found {
            lock(&self.secrets).insert(key.clone(), secret.clone());
        }
        Ok(found)
    }

    /// The keys of the records that use a Provider.
    pub(crate) fn users_of(&self, provider: &Key) -> BTreeSet<Key> {
        lock(&self.index).of_provider(provider)
    }
}

/// What other records claim on one provider.
pub(crate) struct ProviderClaims<'a> {
    pub(crate) context: &'a Context,
    pub(crate) provider: &'a Key,
}

impl Claims for ProviderClaims<'_> {
    fn claimed(&self, machine: &Machine, uid: &str) -> bool {
        lock(&self.context.index).claimed(self.provider, machine, uid)
    }

    fn better(&self, name: &str, wanted: &str, uid: &str) -> bool {
        lock(&self.context.index).better(self.provider, name, wanted, uid)
    }

    fn meant(&self, machine: &Machine, uid: &str) -> bool {
        lock(&self.context.index).meant(self.provider, machine, uid)
    }

    fn misclaimed(&self, machine: &Machine, uid: &str) -> bool {
        lock(&self.context.index).misclaimed(self.provider, machine, uid)
    }

    fn kept(&self, machine: &Machine) -> bool {
        lock(&self.context.index).kept(self.provider, machine)
    }

    fn row(&self, group: &Group<'_>) -> Arc<Row> {
        lock(&self.context.index).row(self.provider, group)
    }
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
