//! What decisions are made on: nodes, pods, budgets, groups and settings.
//!
//! A [`World`] is kept up to date object by object. Pods of one workload share one [`Shape`], so
//! that whatever is found out about one of them is found out about all.

mod budget;
mod group;
mod node;
mod pod;
mod policy;
mod price;
mod quantity;
mod requests;
mod resources;
mod selector;
mod settings;
mod shape;
mod taint;
mod terms;
mod volume;
mod window;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

pub use budget::Budget;
pub use group::{Group, GroupFacts, Place, Size, Upcoming};
pub use node::{Keep, Node};
pub use pod::{Eviction, Owner, Pod, PodPlace};
pub use policy::{
    CostPolicy, CostStrategy, DownPolicy, RegionStrategy, Regions, SpotPolicy, UpPolicy,
};
pub use price::{HOURS_PER_MONTH, Price};
pub use resources::{Lack, Resources};
pub use selector::{Labels, NodeTerm, Requirement, Selector, Test};
pub use settings::Settings;
pub use shape::{HostPort, Shape, Unmodelled};
pub use taint::{Effect, Taint, Toleration};
pub use terms::{Spread, Term};
pub use volume::{Claims, VolumeNeed};
pub use window::{Judgement, Load, Window};

/// The namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// A key.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Why an object cannot be read. It concerns that object alone; trying again without a change of
/// the object gives the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct MalformedError {
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl MalformedError {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// Everything that a decision is made on.
#[derive(Clone, Debug, Default)]
pub struct World {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<Key, Entry>,
    shapes: Shapes,
    /// Disruption budgets.
    pub budgets: BTreeMap<Key, Budget>,
    /// Node groups.
    pub groups: BTreeMap<Key, Group>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<String, Labels>,
    /// What each DaemonSet puts on a node.
    pub daemons: BTreeMap<Key, Arc<Shape>>,
    /// Settings for all groups together.
    pub settings: Settings,
}

/// A pod and the number of its shape.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) pod: Pod,
    pub(crate) shape: usize,
}

impl World {
    /// Adds a node, or replaces the one of its name.
    pub fn set_node(&mut self, node: Node) {
        self.nodes.insert(node.name.clone(), node);
    }

    /// Takes a node away.
    pub fn remove_node(&mut self, name: &str) -> Option<Node> {
        self.nodes.remove(name)
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> &BTreeMap<String, Node> {
        &self.nodes
    }

    /// A node, to change what is known of it; its name stays.
    pub fn node_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.nodes.get_mut(name)
    }

    /// Adds a pod, or replaces the one of its name.
    pub fn set_pod(&mut self, mut pod: Pod) {
        let shape = self.shapes.take(&mut pod.shape);
        if let Some(old) = self.pods.insert(pod.key.clone(), Entry { pod, shape }) {
            self.shapes.release(old.shape);
        }
    }

    /// Takes a pod away.
    pub fn remove_pod(&mut self, key: &Key) -> Option<Pod> {
        let entry = self.pods.remove(key)?;
        self.shapes.release(entry.shape);
        Some(entry.pod)
    }

    /// The pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(|entry| &entry.pod)
    }

    /// The pod of this key.
    pub fn pod(&self, key: &Key) -> Option<&Pod> {
        self.pods.get(key).map(|entry| &entry.pod)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.pods.values()
    }

    pub(crate) fn shapes(&self) -> &Shapes {
        &self.shapes
    }
}

/// The shapes that pods have, each once. Their numbers depend on the order of coming and never
/// show in a decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    numbers: HashMap<Arc<Shape>, usize>,
    all: Vec<Option<Arc<Shape>>>,
    users: Vec<usize>,
    free: Vec<usize>,
}

impl Shapes {
    /// One more pod has this shape; its own copy is swapped for the common one.
    fn take(&mut self, shape: &mut Arc<Shape>) -> usize {
        if let Some((common, number)) = self.numbers.get_key_value(shape) {
            *shape = common.clone();
            self.users[*number] += 1;
            return *number;
        }
        let number = self.free.pop().unwrap_or(self.all.len());
        if number == self.all.len() {
            self.all.push(None);
            self.users.push(0);
        }
        self.all[number] = Some(shape.clone());
        self.users[number] = 1;
        self.numbers.insert(shape.clone(), number);
        number
    }

    fn release(&mut self, number: usize) {
        self.users[number] -= 1;
        if self.users[number] == 0
            && let Some(shape) = self.all[number].take()
        {
            self.numbers.remove(&shape);
            self.free.push(number);
        }
    }

    /// All of them by number; numbers that nobody has are empty.
    pub(crate) fn all(&self) -> &[Option<Arc<Shape>>] {
        &self.all
    }
}
