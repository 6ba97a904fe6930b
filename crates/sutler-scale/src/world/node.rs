//! Nodes of the cluster.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use sutler_api::names::{annotations, labels};

use super::window::Window;
use super::{Key, Labels, MalformedError, Resources, Taint, quantity};

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its taints.
    pub taints: Arc<[Taint]>,
    /// What pods may have of it.
    pub allocatable: Resources,
    /// What it has in all, the part that it keeps for itself included.
    pub capacity: Resources,
    /// How many pods it takes.
    pub pods: i64,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// When it joined.
    pub created: Timestamp,
    /// The group that it is of; absent means that nobody here may remove it.
    pub group: Option<Key>,
    /// The size that it has of the group's sizes.
    pub size: Option<String>,
    /// The place that it is in of the group's places.
    pub place: Option<String>,
    /// Whether the platform may take it back.
    pub spot: bool,
    /// What it costs an hour.
    pub price: Option<super::Price>,
    /// What says that it must stay.
    pub keep: Keep,
    /// How busy it was.
    pub load: Window,
    /// Whether that is what was measured on it. Else it is what pods have asked for.
    pub measured: bool,
}

/// What is written on a node about its removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The label or annotation that forbids it.
    pub forbidden_by: Option<String>,
    /// Hours in which it is allowed, as they were written.
    pub hours: Option<String>,
}

impl Node {
    /// What its load is a share of: what is measured is the whole machine.
    pub fn whole(&self) -> &Resources {
        if self.measured { &self.capacity } else { &self.allocatable }
    }

    /// Reads a node of Kubernetes. Group, price and load are not known to it: they are the
    /// caller's to fill in.
    pub fn read(node: &core::Node) -> Result<Self, MalformedError> {
        let name = node.metadata.name.clone().unwrap_or_default();
        if name.is_empty() {
            return Err(MalformedError::new("metadata.name", "is missing"));
        }
        let created = node.metadata.creation_timestamp.as_ref();
        let created = created
            .ok_or_else(|| MalformedError::new("metadata.creationTimestamp", "is missing"))?;
        let own_labels = node.metadata.labels.clone().unwrap_or_default();
        let spec = node.spec.clone().unwrap_or_default();
        let mut taints = Vec::new();
        for (index, taint) in spec.taints.iter().flatten().enumerate() {
            taints.push(Taint::read(&format!("spec.taints[{index}]"), taint)?);
        }
        let status = node.status.clone().unwrap_or_default();
        let allocatable = status.allocatable.unwrap_or_default();
        let pods = match allocatable.get("pods") {
            None => 0,
            Some(amount) => quantity::units(amount).ok_or_else(|| {
                MalformedError::new(
                    "status.allocatable[pods]",
                    format!("{:?} is not a quantity", amount.0),
                )
            })?,
        };
        let capacity = status.capacity.as_ref().unwrap_or(&allocatable);
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready");
        Ok(Self {
            allocatable: Resources::read("status.allocatable", &allocatable)?.capped(),
            capacity: Resources::read("status.capacity", capacity)?.capped(),
            pods,
            ready: ready.is_some_and(|condition| condition.status == "True"),
            unschedulable: spec.unschedulable.unwrap_or(false),
            deleting: node.metadata.deletion_timestamp.is_some(),
            created: created.0,
            group: None,
            size: own_labels.get(labels::OFFERING).cloned(),
            place: own_labels.get(labels::DATACENTER).cloned(),
            spot: false,
            price: None,
            keep: keep(node),
            load: Window::default(),
            measured: false,
            labels: Arc::new(own_labels),
            taints: taints.into(),
            name,
        })
    }
}

fn keep(node: &core::Node) -> Keep {
    let is = |all: &Option<Labels>, key: &str, value: &str| {
        let own = all.as_ref().and_then(|all| all.get(key));
        own.is_some_and(|own| own.trim() == value).then(|| key.to_owned())
    };
    let own = &node.metadata.annotations;
    let hours = own.as_ref().and_then(|all| all.get(annotations::SCALE_DOWN_ALLOWED_HOURS));
    Keep {
        forbidden_by: is(own, annotations::PROTECTED, "true")
            .or_else(|| is(own, annotations::SCALE_DOWN, "disabled"))
            .or_else(|| is(own, "cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"))
            .or_else(|| is(&node.metadata.labels, labels::SCALE_DOWN_DISABLED, "true")),
        hours: hours.cloned(),
    }
}
