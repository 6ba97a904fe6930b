//! Connections to platforms: one per Provider object, shared by everything that uses it.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};
use sutler_api::infra::Unmanaged;
use sutler_provider::{
    Capabilities, Clock, Credentials, Error, EventStream, Listing, MachineId, Provider, Result,
    guard::{Gate, Limits},
    inventory::{Inventory, Settings as InventorySettings, Source},
};
use tokio::sync::watch;

use crate::{
    orphans::Sighting,
    rules::{Rule, broken},
};

/// Namespace and name of an object. A copy costs nothing: many places keep one of each object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<Names>);

/// Namespace and name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of this object.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self(Arc::new(Names { namespace: namespace.into(), name: name.into() }))
    }
}

impl Deref for Key {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a connection is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Which Provider object it is.
    pub key: Key,
    /// That object's UID.
    pub uid: String,
    /// Which provider serves it.
    pub type_: String,
    /// Where the platform is.
    pub endpoint: String,
    /// Whether its certificate goes unchecked.
    pub insecure_skip_verify: bool,
    /// Settings of this provider alone.
    pub options: Map<String, Value>,
    /// How to log in.
    pub credentials: Credentials,
    /// Where its provider is dialled; none where it runs in this process.
    pub dial: Option<Dial>,
}

impl Target {
    /// Whether this is `other`, but for the certificates that its provider is dialled with.
    pub(crate) fn differs_in_certificates(&self, other: &Self) -> bool {
        let plain = |target: &Self| {
            let mut plain = target.clone();
            if let Some(Dial { certificates: Some(shown), .. }) = &mut plain.dial {
                shown.pem = Credentials::default();
            }
            plain
        };
        self != other && plain(self) == plain(other)
    }

    /// Whether this is `other`, but for the credentials.
    pub(crate) fn differs_in_credentials(&self, other: &Self) -> bool {
        let plain = |target: &Self| Self { credentials: Credentials::default(), ..target.clone() };
        self != other && plain(self) == plain(other)
    }
}

/// A try of new credentials beside those that are in use.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The target with the new ones.
    pub target: Target,
    /// When it began.
    pub begun: Timestamp,
    /// What the platform says of them, once it did.
    pub outcome: Option<Result<()>>,
}

/// How a provider is reached that runs elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Dial {
    /// `host:port` or `unix:path`.
    pub address: String,
    /// What is shown and trusted; none where plaintext was asked for, or where the address is a
    /// socket of this host.
    pub certificates: Option<Certificates>,
    /// Whether we deployed it, so that its options reach it with its pod.
    pub deployed: bool,
    /// How long it may take to connect, where that was said.
    pub timeout: Option<Duration>,
}

/// What is shown to a provider, and whom we trust.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificates {
    /// The Secret's `tls.crt`, `tls.key` and `ca.crt`.
    pub pem: Credentials,
    /// Whether the provider may be anybody.
    pub skip_verify: bool,
}

/// Makes providers. What runs in this process is known to whoever wires it up, not here.
#[async_trait]
pub trait Connector: Send + Sync + 'static {
    /// A provider for this target. An error of kind [`Unsupported`](sutler_provider::ErrorKind::Unsupported)
    /// says that no provider of this type is here.
    ///
    /// A target that differs from the last one of its key in certificates alone is the same provider
    /// with others: calls go on meanwhile.
    async fn connect(&self, target: &Target) -> Result<Arc<dyn Provider>>;

    /// Whether it makes another provider beside the one that is there, which can be tried before it takes
    /// that one's place.
    fn makes_another(&self, _target: &Target) -> bool {
        false
    }

    /// Lets go of what it keeps for a Provider that is not connected any more.
    fn release(&self, _key: &Key) {}
}

/// A connection to one platform.
pub struct Connection {
    /// Which Provider object it is.
    pub key: Key,
    /// All calls go through here.
    pub gate: Arc<Gate>,
    /// What is on the platform.
    pub inventory: Arc<Inventory>,
    state: Mutex<State>,
    closed: watch::Sender<bool>,
}

/// What is known of a platform beside its machines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// What it can do, once it told.
    pub capabilities: Option<Arc<Capabilities>>,
    /// When it told.
    pub capabilities_at: Option<Timestamp>,
    /// Whether the last health checks succeeded.
    pub healthy: Option<bool>,
    /// The last error of a health check.
    pub error: Option<Error>,
    /// The last error of a list.
    pub list_error: Option<Error>,
    /// Whether the last health check succeeded.
    pub last_result: Option<bool>,
    /// Failures or successes in a row.
    pub streak: u32,
    /// When its health was last asked after.
    pub checked_at: Option<Timestamp>,
    /// Whether that is under way.
    pub checking: bool,
    /// How long a machine may take to show up whose ID was not told.
    pub discovery_timeout: Duration,
    /// Whether machines' names carry a hash.
    pub hashed: bool,
    /// Placement for machines that name none, and other parts of the Provider's spec.
    pub defaults: sutler_api::infra::ProviderDefaults,
    /// Which provider serves it.
    pub type_: String,
    /// Machines on it that carry our token and have no record.
    pub orphans: Arc<BTreeMap<MachineId, Sighting>>,
    /// Whether they are being looked for.
    pub sweeping: bool,
    /// Machines on it that are not of this control plane.
    pub unmanaged: Arc<Vec<Unmanaged>>,
    /// New credentials that are or were tried.
    pub trial: Option<Trial>,
}

impl Connection {
    /// A connection through `provider`.
    pub fn new(
        key: Key,
        provider: Arc<dyn Provider>,
        limits: Limits,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Arc<Self> {
        let gate = Gate::new(provider, limits, clock.clone(), seed);
        let inventory = Inventory::new(InventorySettings::default(), clock);
        let closed = watch::Sender::new(false);
        Arc::new(Self { key, gate, inventory, state: Mutex::default(), closed })
    }

    /// Ends with the connection's place in the fleet.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as this does.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// What is known of the platform.
    pub fn state(&self) -> State {
        lock(&self.state).clone()
    }

    /// What the platform can do, once it told.
    pub fn capabilities(&self) -> Option<Arc<Capabilities>> {
        lock(&self.state).capabilities.clone()
    }

    /// Changes what is known.
    pub fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut lock(&self.state))
    }
}

/// The gate as the source of an inventory.
pub(crate) struct GateSource(pub(crate) Arc<Gate>);

#[async_trait]
impl Source for GateSource {
    async fn list(&self) -> Result<Listing> {
        let listing = self.0.list().await?;
        match broken(Rule::UnknownIsNotAbsent) {
            true => Ok(Listing { complete: true, ..listing }),
            false => Ok(listing),
        }
    }

    async fn events(&self) -> Result<EventStream> {
        self.0.events().await
    }
}

/// All connections, by Provider.
#[derive(Default)]
pub struct Fleet {
    connections: Mutex<BTreeMap<Key, Arc<Connection>>>,
}

impl Fleet {
    /// The connection of a Provider.
    pub fn get(&self, key: &Key) -> Option<Arc<Connection>> {
        lock(&self.connections).get(key).cloned()
    }

    /// All connections, in the order of their keys.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).values().cloned().collect()
    }

    /// Takes a connection in.
    pub fn insert(&self, connection: Arc<Connection>) {
        let old = lock(&self.connections).insert(connection.key.clone(), connection.clone());
        if let Some(old) = old.filter(|old| !Arc::ptr_eq(old, &connection)) {
            old.closed.send_replace(true);
        }
    }

    /// Lets a connection go.
    pub fn remove(&self, key: &Key) -> Option<Arc<Connection>> {
        let old = lock(&self.connections).remove(key);
        if let Some(old) = &old {
            old.closed.send_replace(true);
        }
        old
    }
}

/// What a mutex holds, whatever happened to its last holder.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A holder that panicked has at worst left a cache behind that the next reconcile corrects.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
