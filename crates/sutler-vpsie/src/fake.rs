//! A stand-in for VPSie's API on the loopback interface, for tests.
//!
//! It speaks either dialect, and is strict: what VPSie would not take is answered as VPSie would. Nothing
//! happens by itself: what is asked for comes about after a number of steps ([`Fake::tick`]), or with every
//! request, where [`Shape::auto`] says so. [`Fault`]s happen by script.

mod faults;
mod govpsie;
mod reply;
mod server;
mod v2;
mod world;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sutler_provider::{Clock, Credentials};
use tokio::net::TcpListener;

pub use faults::{Fault, Planned, When};
pub use reply::Request;
pub use world::{Group, Machine, Node, Snapshot};

use crate::settings::Dialect;
use world::World;

/// What kind of VPSie it is.
#[derive(Debug, Clone)]
pub struct Shape {
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Rows on a page of a list.
    pub page_size: usize,
    /// Steps until what was asked for is there.
    pub made_after: u32,
    /// Steps until what was deleted is gone, and what was switched is on or off.
    pub changed_after: u32,
    /// What workers are called.
    pub naming: Naming,
    /// Whether every request is a step.
    pub auto: bool,
    /// How long a token lasts that somebody logged in for.
    pub token_life: Duration,
    /// Whether workers are in the list of all machines of an account.
    pub nodes_among_all: bool,
    /// Whether a machine has to be off before it can be deleted.
    pub delete_only_off: bool,
}

impl Shape {
    /// A VPSie of few surprises, in which everything takes two steps.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            page_size: 3,
            made_after: 2,
            changed_after: 1,
            naming: Naming::Telling,
            auto: false,
            token_life: Duration::from_secs(3600),
            nodes_among_all: true,
            delete_only_off: false,
        }
    }
}

/// What workers are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By their cluster, with `k8s-worker` behind.
    Telling,
    /// By a number that tells nothing.
    Arbitrary,
}

/// The token that always works.
const TOKEN: &str = "fake-static-token";
/// What one logs in with.
const CLIENT: (&str, &str) = ("fake-client", "fake-client-secret");

/// A running stand-in. It ends when it is dropped.
#[derive(Debug)]
pub struct Fake {
    world: Arc<Mutex<World>>,
    address: SocketAddr,
    server: tokio::task::AbortHandle,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Fake {
    /// Starts one.
    pub async fn start(shape: Shape, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let world = Arc::new(Mutex::new(World::new(shape, clock)));
        let server = tokio::spawn(server::serve(listener, world.clone())).abort_handle();
        Ok(Self { world, address, server })
    }

    /// The same world over a connection that the caller has accepted, such as one with TLS.
    pub async fn serve<I>(&self, io: I)
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        server::one(io, self.world.clone()).await;
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A Secret with a token that always works.
    pub fn credentials(&self) -> Credentials {
        [("token", TOKEN.as_bytes().to_vec())].into_iter().collect()
    }

    /// A Secret that one has to log in with.
    pub fn login(&self) -> Credentials {
        let (id, secret) = CLIENT;
        let pairs = [("clientId", id), ("clientSecret", secret)];
        pairs.into_iter().map(|(key, value)| (key, value.as_bytes().to_vec())).collect()
    }

    /// Lets this many steps pass.
    pub fn tick(&self, steps: u32) {
        for _ in 0..steps {
            self.lock().tick();
        }
    }

    /// Has something go wrong.
    pub fn plan(&self, planned: Planned) {
        self.lock().faults.push(planned);
    }

    /// Takes back all that is to go wrong.
    pub fn calm(&self) {
        self.lock().faults.clear();
    }

    /// Requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().log.clone()
    }

    /// How many requests had this method and a path with this in it.
    pub fn count(&self, method: &str, path: &str) -> usize {
        let fits = |seen: &&Request| seen.method == method && seen.path.contains(path);
        self.lock().log.iter().filter(fits).count()
    }

    /// Waits until this many requests, since it was started, had their effect or will have none.
    pub async fn settled(&self, count: usize) {
        let mut settled = self.lock().settled.subscribe();
        // The sender lives as long as this does.
        drop(settled.wait_for(|have| *have >= count).await);
    }

    /// Forgets requests so far.
    pub fn forget_requests(&self) {
        self.lock().log.clear();
    }

    /// From now on lists show what there is at this moment, until [`Fake::thaw`].
    pub fn freeze(&self) {
        self.lock().freeze();
    }

    /// From now on lists show what there is.
    pub fn thaw(&self) {
        self.lock().frozen = None;
    }

    /// Makes all tokens worthless that somebody logged in for.
    pub fn revoke(&self) {
        self.lock().tokens.clear();
    }

    /// Adds a cluster with this many masters.
    pub fn add_cluster(&self, id: &str, name: &str, masters: usize) {
        self.lock().add_cluster(id, name, masters);
    }

    /// Removes a cluster with all that it has.
    pub fn remove_cluster(&self, id: &str) {
        self.lock().clusters.remove(id);
    }

    /// Adds a group, and tells its number.
    pub fn add_group(&self, cluster: &str, name: &str, size: i64) -> i64 {
        self.lock().add_group(cluster, name, size).unwrap_or_default()
    }

    /// Adds a node that somebody else made, and tells its number.
    pub fn add_node(&self, cluster: &str, group: Option<i64>, hostname: &str) -> i64 {
        self.lock().add_node(cluster, group, Some(hostname), false)
    }

    /// Removes a node at once, by its number.
    pub fn remove_node(&self, cluster: &str, number: i64) {
        if let Some(cluster) = self.lock().clusters.get_mut(cluster) {
            cluster.nodes.retain(|node| node.machine.id != number);
        }
    }

    /// Adds a machine that somebody else made, and tells its number.
    pub fn add_vm(&self, hostname: &str) -> i64 {
        self.lock().add_vm(hostname)
    }

    /// Puts all nodes into the list of machines too.
    pub fn list_nodes_as_vms(&self) {
        let mut world = self.lock();
        let nodes = world.clusters.values().flat_map(|cluster| &cluster.nodes);
        let more: Vec<Machine> = nodes.map(|node| node.machine.clone()).collect();
        world.vms.extend(more);
    }

    /// Machines as they are, pending ones not among them.
    pub fn vms(&self) -> Vec<Machine> {
        self.lock().vms.clone()
    }

    /// Nodes of a cluster as they are.
    pub fn nodes(&self, cluster: &str) -> Vec<Node> {
        self.lock().clusters.get(cluster).map(|one| one.nodes.clone()).unwrap_or_default()
    }

    /// Groups of a cluster as they are.
    pub fn groups(&self, cluster: &str) -> Vec<Group> {
        self.lock().clusters.get(cluster).map(|one| one.groups.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
