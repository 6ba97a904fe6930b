//! What there is, and what comes about with every step.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use sutler_provider::Clock;
use tokio::sync::watch;

use super::{CLIENT, Naming, Shape, faults::Planned, reply::Request};

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its number.
    pub id: i64,
    /// Its UUID.
    pub identifier: String,
    /// Its host name.
    pub hostname: String,
    /// Whether it is on.
    pub on: bool,
    /// Virtual CPUs.
    pub cpu: i64,
    /// Memory in MiB.
    pub ram: i64,
    /// The root disk in GiB.
    pub ssd: i64,
    /// The number of its size.
    pub size: i64,
    /// Notes.
    pub notes: String,
    /// Tags.
    pub tags: Vec<String>,
    /// What its guest was given.
    pub user_data: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// Steps until it is gone.
    pub(super) leaves: Option<u32>,
    /// What its power will be, and steps until then.
    pub(super) turns: Option<(bool, u32)>,
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The machine that it is.
    pub machine: Machine,
    /// Whether it is a master.
    pub master: bool,
    /// The number of its group.
    pub group: Option<i64>,
}

/// A group of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: i64,
    /// Its UUID.
    pub identifier: String,
    /// Its name.
    pub name: String,
    /// The number of its size.
    pub size: i64,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its UUID.
    pub identifier: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub note: String,
    /// The UUID of its machine.
    pub vm: String,
    /// When it was taken.
    pub created: Timestamp,
    /// Steps until it is listed.
    pub(super) due: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Vec<Group>,
}

#[derive(Debug, Clone)]
pub(super) enum Coming {
    Vm(Box<Machine>),
    Node { cluster: String, group: i64 },
}

/// Sizes that there are: number, ID, CPUs, MiB, GiB.
pub(super) const SIZES: [(i64, &str, i64, i64, i64); 3] =
    [(1, "plan-1", 1, 512, 20), (2, "plan-2", 2, 1024, 40), (3, "plan-3", 4, 4096, 80)];

/// Operating systems that there are.
pub(super) const IMAGES: [&str; 2] = ["debian-13", "ubuntu-24"];

/// The data centre that there is.
pub(super) const DATACENTER: &str = "dc-1";

#[derive(Debug)]
pub(super) struct World {
    pub(super) shape: Shape,
    pub(super) clock: Arc<dyn ClockDebug>,
    next: i64,
    pub(super) vms: Vec<Machine>,
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) coming: Vec<(u32, Coming)>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) faults: Vec<Planned>,
    pub(super) log: Vec<Request>,
    pub(super) tokens: BTreeMap<String, Timestamp>,
    pub(super) frozen: Option<(Vec<Machine>, BTreeMap<String, Cluster>)>,
    /// Requests that had their effect, or will have none.
    pub(super) settled: watch::Sender<usize>,
}

/// A clock of which there is nothing to print.
pub(super) trait ClockDebug: Send + Sync {
    fn now(&self) -> Timestamp;
}

impl std::fmt::Debug for dyn ClockDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

struct Plain(Arc<dyn Clock>);

impl ClockDebug for Plain {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl World {
    pub(super) fn new(shape: Shape, clock: Arc<dyn Clock>) -> Self {
        Self {
            shape,
            clock: Arc::new(Plain(clock)),
            next: 100,
            vms: Vec::new(),
            clusters: BTreeMap::new(),
            coming: Vec::new(),
            snapshots: Vec::new(),
            faults: Vec::new(),
            log: Vec::new(),
            tokens: BTreeMap::new(),
            frozen: None,
            settled: watch::Sender::new(0),
        }
    }

    /// One step.
    pub(super) fn tick(&mut self) {
        for vm in &mut self.vms {
            step(vm);
        }
        self.vms.retain(|vm| vm.leaves != Some(0));
        for cluster in self.clusters.values_mut() {
            cluster.nodes.iter_mut().for_each(|node| step(&mut node.machine));
            cluster.nodes.retain(|node| node.machine.leaves != Some(0));
        }
        for snapshot in &mut self.snapshots {
            snapshot.due = snapshot.due.saturating_sub(1);
        }
        let mut due = Vec::new();
        for (left, coming) in std::mem::take(&mut self.coming) {
            match left.saturating_sub(1) {
                0 => due.push(coming),
                left => self.coming.push((left, coming)),
            }
        }
        for coming in due {
            match coming {
                Coming::Vm(vm) => self.vms.push(*vm),
                Coming::Node { cluster, group } => {
                    self.add_node(&cluster, Some(group), None, false);
                }
            }
        }
    }

    pub(super) fn freeze(&mut self) {
        self.frozen = Some((self.vms.clone(), self.clusters.clone()));
    }

    /// Machines as lists show them.
    pub(super) fn listed_vms(&self) -> &[Machine] {
        self.frozen.as_ref().map_or(&self.vms, |(vms, _)| vms)
    }

    /// Clusters as lists show them.
    pub(super) fn listed_clusters(&self) -> &BTreeMap<String, Cluster> {
        self.frozen.as_ref().map_or(&self.clusters, |(_, clusters)| clusters)
    }

    pub(super) fn number(&mut self) -> i64 {
        self.next += 1;
        self.next
    }

    pub(super) fn machine(&mut self, hostname: &str, size: i64) -> Machine {
        let id = self.number();
        let (_, _, cpu, ram, ssd) =
            SIZES.into_iter().find(|(number, ..)| *number == size).unwrap_or(SIZES[0]);
        Machine {
            id,
            identifier: uuid(id),
            hostname: hostname.to_owned(),
            on: true,
            cpu,
            ram,
            ssd,
            size,
            notes: String::new(),
            tags: Vec::new(),
            user_data: None,
            created: self.clock.now(),
            leaves: None,
            turns: None,
        }
    }

    pub(super) fn add_vm(&mut self, hostname: &str) -> i64 {
        let vm = self.machine(hostname, 1);
        let id = vm.id;
        self.vms.push(vm);
        id
    }

    pub(super) fn add_cluster(&mut self, id: &str, name: &str, masters: usize) {
        let cluster = Cluster { name: name.to_owned(), nodes: Vec::new(), groups: Vec::new() };
        self.clusters.insert(id.to_owned(), cluster);
        for _ in 0..masters {
            self.add_node(id, None, None, true);
        }
    }

    pub(super) fn add_group(&mut self, cluster: &str, name: &str, size: i64) -> Option<i64> {
        let id = self.number();
        let group = Group { id, identifier: uuid(id), name: name.to_owned(), size };
        self.clusters.get_mut(cluster)?.groups.push(group);
        Some(id)
    }

    pub(super) fn add_node(
        &mut self,
        cluster: &str,
        group: Option<i64>,
        hostname: Option<&str>,
        master: bool,
    ) -> i64 {
        let Some(known) = self.clusters.get(cluster) else { return 0 };
        let of = known.groups.iter().find(|one| Some(one.id) == group);
        let size = of.map_or(3, |group| group.size);
        let name = known.name.clone();
        let mut machine = self.machine("", size);
        let word = if master { "master" } else { "worker" };
        machine.hostname = match (hostname, self.shape.naming) {
            (Some(hostname), _) => hostname.to_owned(),
            (None, Naming::Telling) => format!("{name}-{}-k8s-{word}", machine.id),
            (None, Naming::Arbitrary) => format!("v{}", machine.id),
        };
        let id = machine.id;
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.nodes.push(Node { machine, master, group });
        }
        id
    }

    /// A token for whoever logs in, and when it ends.
    pub(super) fn log_in(&mut self, id: &str, secret: &str) -> Option<(String, Timestamp)> {
        ((id, secret) == CLIENT).then_some(())?;
        let token = format!("token-{}", self.number());
        let life: Duration = self.shape.token_life;
        let expires = self.clock.now().saturating_add(life).unwrap_or(Timestamp::MAX);
        self.tokens.insert(token.clone(), expires);
        Some((token, expires))
    }

    pub(super) fn knows(&self, token: &str) -> bool {
        let now = self.clock.now();
        token == super::TOKEN || self.tokens.get(token).is_some_and(|expires| *expires > now)
    }
}

fn step(machine: &mut Machine) {
    machine.leaves = machine.leaves.map(|left| left.saturating_sub(1));
    if let Some((on, left)) = machine.turns {
        match left.saturating_sub(1) {
            0 => (machine.on, machine.turns) = (on, None),
            left => machine.turns = Some((on, left)),
        }
    }
}

pub(super) fn uuid(number: i64) -> String {
    format!("{number:08x}-0000-4000-8000-{number:012x}")
}
