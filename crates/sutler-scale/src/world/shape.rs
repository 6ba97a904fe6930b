//! What the scheduler sees of a pod. Pods of one workload share one shape.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;

use super::volume::{Claims, VolumeNeed};
use super::{Labels, MalformedError, NodeTerm, Resources, Spread, Term, Toleration, requests};

/// What the scheduler sees of a pod: two pods of equal shape fit the same nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: Labels,
    /// What it asks for in all.
    pub requests: Resources,
    /// Labels that its node must have.
    pub node_selector: Labels,
    /// Alternatives of which its node must match one; absent means all nodes.
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// Nodes that it would rather be on, and how much.
    pub node_preferences: Vec<(i32, NodeTerm)>,
    /// Taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Pods that it must be near.
    pub affinity: Vec<Term>,
    /// Pods that it must not be near.
    pub anti_affinity: Vec<Term>,
    /// How it must be spread.
    pub spread: Vec<Spread>,
    /// Ports of the node that it takes.
    pub ports: Vec<HostPort>,
    /// What its volumes ask.
    pub volumes: Vec<VolumeNeed>,
    /// Its rank among pods.
    pub priority: i32,
    /// What it asks for that is not modelled here: no promise is made for such pods.
    pub unmodelled: BTreeSet<Unmodelled>,
}

/// A port of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// The address; 0.0.0.0 means all.
    pub ip: String,
    /// The number.
    pub port: i32,
}

impl HostPort {
    /// Whether both cannot be taken on one node.
    pub fn clashes(&self, other: &Self) -> bool {
        let all = |ip: &str| ip == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || all(&self.ip) || all(&other.ip))
    }
}

/// A demand that only the scheduler itself can judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unmodelled {
    /// Devices by resource claims.
    ResourceClaims,
    /// Pods that are placed together or not at all.
    SchedulingGroup,
}

impl Shape {
    /// Reads the shape of a pod whose claims are known.
    pub fn read(pod: &core::Pod, claims: &Claims) -> Result<Self, MalformedError> {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let requests = requests::effective(pod)?;
        let Some(spec) = &pod.spec else {
            return Err(MalformedError::new("spec", "is missing"));
        };
        let mut shape = Self {
            labels,
            requests,
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            priority: spec.priority.unwrap_or(0),
            ports: ports(spec),
            volumes: volumes(pod, spec, &namespace, claims),
            namespace,
            ..Self::default()
        };
        if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
            shape.unmodelled.insert(Unmodelled::ResourceClaims);
        }
        if spec.scheduling_group.is_some() {
            shape.unmodelled.insert(Unmodelled::SchedulingGroup);
        }
        for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
            let field = format!("spec.tolerations[{index}]");
            shape.tolerations.extend(Toleration::read(&field, toleration)?);
        }
        shape.tolerations.sort();
        shape.tolerations.dedup();
        for (index, spread) in spec.topology_spread_constraints.iter().flatten().enumerate() {
            let field = format!("spec.topologySpreadConstraints[{index}]");
            shape.spread.extend(Spread::read(&field, spread, &shape.labels)?);
        }
        shape.read_affinity(spec.affinity.as_ref())?;
        Ok(shape)
    }

    fn read_affinity(&mut self, affinity: Option<&core::Affinity>) -> Result<(), MalformedError> {
        let Some(affinity) = affinity else { return Ok(()) };
        if let Some(node) = &affinity.node_affinity {
            self.node_affinity = node
                .required_during_scheduling_ignored_during_execution
                .as_ref()
                .map(|required| required.node_selector_terms.iter().map(NodeTerm::read).collect());
            self.node_preferences = node
                .preferred_during_scheduling_ignored_during_execution
                .iter()
                .flatten()
                .map(|term| (term.weight, NodeTerm::read(&term.preference)))
                .collect();
        }
        let (namespace, labels) = (&self.namespace, &self.labels);
        let read = |name: &str, terms: Option<&Vec<core::PodAffinityTerm>>| {
            let terms = terms.into_iter().flatten().enumerate();
            let read = terms.map(|(index, term)| {
                let list = "requiredDuringSchedulingIgnoredDuringExecution";
                let field = format!("spec.affinity.{name}.{list}[{index}]");
                Term::read(&field, term, namespace, labels)
            });
            read.collect::<Result<Vec<_>, _>>()
        };
        let near = affinity.pod_affinity.as_ref();
        let near =
            near.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let near = read("podAffinity", near)?;
        let away = affinity.pod_anti_affinity.as_ref();
        let away =
            away.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        self.anti_affinity = read("podAntiAffinity", away)?;
        self.affinity = near;
        Ok(())
    }

    /// How much nodes with these labels are what the pod would rather have.
    pub fn preference(&self, name: &str, labels: &Labels) -> i64 {
        let liked = self.node_preferences.iter().filter(|(_, term)| term.matches(name, labels));
        liked.map(|(weight, _)| i64::from(*weight)).sum()
    }
}

fn ports(spec: &core::PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| requests::is_sidecar(c));
    let mut ports: Vec<HostPort> = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let text = |own: &Option<String>, default: &str| match own.as_deref() {
                None | Some("") => default.to_owned(),
                Some(own) => own.to_owned(),
            };
            Some(HostPort {
                protocol: text(&port.protocol, "TCP"),
                ip: text(&port.host_ip, "0.0.0.0"),
                port: number,
            })
        })
        .collect();
    ports.sort();
    ports.dedup();
    ports
}

fn volumes(
    pod: &core::Pod,
    spec: &core::PodSpec,
    namespace: &str,
    claims: &Claims,
) -> Vec<VolumeNeed> {
    let mut needs = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => source.claim_name.clone(),
            (None, Some(_)) => {
                format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name)
            }
            (None, None) => continue,
        };
        let need = claims.get(&(namespace.to_owned(), claim.clone()));
        needs.push(match need {
            None => VolumeNeed::Unmet { why: format!("claim {claim} is not there") },
            Some(VolumeNeed::Unmet { why }) => {
                VolumeNeed::Unmet { why: format!("claim {claim} {why}") }
            }
            // Volumes that ask nothing do not make shapes differ.
            Some(VolumeNeed::Unbound { allowed }) if allowed.is_empty() => continue,
            Some(VolumeNeed::Bound { places, affinity: None }) if places.is_empty() => continue,
            Some(need) => need.clone(),
        });
    }
    needs.sort();
    needs.dedup();
    needs
}
