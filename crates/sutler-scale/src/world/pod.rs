//! Pods, and what stands in the way of moving them.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;

use super::volume::Claims;
use super::{Key, MalformedError, Shape};

/// A pod that takes room on a node, or waits for some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace and name.
    pub key: Key,
    /// What the scheduler sees of it.
    pub shape: Arc<Shape>,
    /// Where it is.
    pub place: PodPlace,
    /// Whose it is.
    pub owner: Owner,
    /// What says that it must stay where it is, or need not.
    pub eviction: Eviction,
    /// Whether it is on its way out.
    pub terminating: bool,
    /// Whether it runs and is ready.
    pub ready: bool,
    /// Whether its containers have been started.
    pub started: bool,
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPlace {
    /// On this node.
    On(String),
    /// Nowhere, and the scheduler has not looked at it yet or must not.
    Waiting,
    /// Nowhere: the scheduler found no node for it.
    Unschedulable {
        /// Since when.
        since: Timestamp,
    },
    /// Nowhere: it gets the room of others on this node, who are made to leave.
    Nominated(String),
}

/// Whose a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody's: once it is gone it does not come back.
    Nobody,
    /// A controller's, which makes another one.
    Controller,
    /// A DaemonSet's: it belongs to its node.
    DaemonSet,
    /// The kubelet's own: it belongs to its node.
    Mirror,
}

impl Owner {
    /// Whether the pod belongs to its node and goes with it.
    pub fn goes_with_node(self) -> bool {
        matches!(self, Self::DaemonSet | Self::Mirror)
    }
}

/// What says that a pod must stay where it is, or need not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// The annotation that forbids it.
    pub forbidden_by: Option<String>,
    /// An annotation allows it, whatever else speaks against it.
    pub allowed: bool,
    /// Volumes whose data is lost when it leaves.
    pub local_volumes: Vec<String>,
}

const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

impl Pod {
    /// Reads a pod of Kubernetes; one that has ended takes no room and is `None`.
    pub fn read(pod: &core::Pod, claims: &Claims) -> Result<Option<Self>, MalformedError> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            return Err(MalformedError::new("metadata.name", "is missing"));
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return Ok(None);
        }
        let shape = Shape::read(pod, claims)?;
        Ok(Some(Self {
            key: Key::new(&shape.namespace, name),
            place: place(pod)?,
            owner: owner(pod),
            eviction: eviction(pod),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            ready: condition(pod, "Ready").is_some_and(|ready| ready.status == "True"),
            started: phase == Some("Running"),
            shape: Arc::new(shape),
        }))
    }

    /// The pod that a DaemonSet puts on a node, to reckon with on nodes that are not there yet:
    /// the DaemonSet's template, and what its controller tolerates for it.
    pub fn daemon(
        namespace: &str,
        name: &str,
        template: &core::PodTemplateSpec,
    ) -> Result<Shape, MalformedError> {
        let mut pod = core::Pod {
            metadata: template.metadata.clone().unwrap_or_default(),
            spec: template.spec.clone(),
            status: None,
        };
        pod.metadata.namespace = Some(namespace.to_owned());
        pod.metadata.name = Some(name.to_owned());
        let mut shape = Shape::read(&pod, &Claims::new())?;
        // A claim of its own on each node is not a reason to leave the pod out.
        shape.volumes.clear();
        let own = [
            "not-ready",
            "unreachable",
            "disk-pressure",
            "memory-pressure",
            "pid-pressure",
            "unschedulable",
            "network-unavailable",
        ];
        for key in own {
            shape.tolerations.push(super::Toleration {
                key: format!("node.kubernetes.io/{key}"),
                value: None,
                effect: None,
            });
        }
        shape.tolerations.sort();
        Ok(shape)
    }
}

fn condition<'a>(pod: &'a core::Pod, type_: &str) -> Option<&'a core::PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn place(pod: &core::Pod) -> Result<PodPlace, MalformedError> {
    let spec = pod.spec.as_ref();
    if let Some(node) = spec.and_then(|spec| spec.node_name.as_ref()).filter(|n| !n.is_empty()) {
        return Ok(PodPlace::On(node.clone()));
    }
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_ref());
    if let Some(node) = nominated.filter(|node| !node.is_empty()) {
        return Ok(PodPlace::Nominated(node.clone()));
    }
    match condition(pod, "PodScheduled") {
        Some(scheduled)
            if scheduled.status == "False"
                && scheduled.reason.as_deref() == Some("Unschedulable") =>
        {
            let since = scheduled.last_transition_time.as_ref();
            let since = since.or(pod.metadata.creation_timestamp.as_ref()).ok_or_else(|| {
                MalformedError::new(
                    "status.conditions[PodScheduled].lastTransitionTime",
                    "is missing, and so is metadata.creationTimestamp",
                )
            })?;
            Ok(PodPlace::Unschedulable { since: since.0 })
        }
        _ => Ok(PodPlace::Waiting),
    }
}

fn owner(pod: &core::Pod) -> Owner {
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")) {
        return Owner::Mirror;
    }
    let owners = pod.metadata.owner_references.iter().flatten();
    match owners.into_iter().find(|owner| owner.controller == Some(true)) {
        None => Owner::Nobody,
        Some(owner) if owner.kind == "DaemonSet" => Owner::DaemonSet,
        Some(_) => Owner::Controller,
    }
}

fn eviction(pod: &core::Pod) -> Eviction {
    let annotation =
        |name: &str| Some(pod.metadata.annotations.as_ref()?.get(name)?.trim().to_owned());
    let safe = annotation(SAFE_TO_EVICT);
    let forbidden_by = if safe.as_deref() == Some("false") {
        Some(SAFE_TO_EVICT.to_owned())
    } else if annotation(DO_NOT_DISRUPT).as_deref() == Some("true") {
        Some(DO_NOT_DISRUPT.to_owned())
    } else {
        None
    };
    let safe_volumes = annotation(SAFE_VOLUMES).unwrap_or_default();
    let safe_volumes: Vec<&str> = safe_volumes.split(',').map(str::trim).collect();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    let local = volumes.into_iter().flatten().filter(|volume| {
        let memory = |dir: &core::EmptyDirVolumeSource| dir.medium.as_deref() == Some("Memory");
        volume.host_path.is_some() || volume.empty_dir.as_ref().is_some_and(|dir| !memory(dir))
    });
    Eviction {
        forbidden_by,
        allowed: safe.as_deref() == Some("true"),
        local_volumes: local
            .map(|volume| volume.name.clone())
            .filter(|name| !safe_volumes.contains(&name.as_str()))
            .collect(),
    }
}
