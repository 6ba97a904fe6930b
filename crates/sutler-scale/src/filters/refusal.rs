//! Why a pod cannot be on a node.

use std::fmt;

use crate::world::{HostPort, Lack, Taint, Unmodelled};

/// Why a pod cannot be on a node, in the order in which the scheduler looks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The node is not ready.
    NotReady,
    /// The node is cordoned.
    Unschedulable,
    /// The node has a taint that the pod does not tolerate.
    Taint(Taint),
    /// The node lacks a label of the pod's `nodeSelector`.
    NodeSelector {
        /// The label.
        key: String,
        /// The value that it should have.
        value: String,
    },
    /// The node matches none of the alternatives of the pod's node affinity.
    NodeAffinity,
    /// A port of the node is taken.
    Port(HostPort),
    /// The node has too little left of something.
    Lacks(Lack),
    /// The node takes no more pods.
    TooManyPods {
        /// How many it takes.
        most: i64,
    },
    /// A volume of the pod cannot be used on the node.
    Volume {
        /// Why, where it is not its place.
        why: Option<String>,
    },
    /// The node lacks the label by which the pod must be spread.
    SpreadLabel {
        /// The label.
        key: String,
    },
    /// The node's place would have too many of the pods that are to be spread.
    Spread {
        /// The label that tells places apart.
        key: String,
        /// How many more it would have than the emptiest.
        skew: i64,
        /// How many it may.
        most: i32,
    },
    /// No pod is near that the pod must be near.
    Affinity {
        /// The label that tells what is near.
        key: String,
    },
    /// A pod is near that the pod must not be near.
    AntiAffinity {
        /// The label that tells what is near.
        key: String,
    },
    /// A pod is near that must not be near this one.
    KeptAway {
        /// The label that tells what is near.
        key: String,
    },
    /// The pod asks for something that only the scheduler can judge.
    Unmodelled(Unmodelled),
    /// Another pod would leave too little room: the node would be fuller than it should.
    TooFull {
        /// The share, in percent, that it should not pass.
        limit: u32,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => write!(f, "the node is not ready"),
            Self::Unschedulable => write!(f, "the node is cordoned"),
            Self::Taint(taint) => {
                write!(f, "the node has the taint {}", taint.key)?;
                if !taint.value.is_empty() {
                    write!(f, "={}", taint.value)?;
                }
                write!(f, ":{}, which is not tolerated", taint.effect.as_str())
            }
            Self::NodeSelector { key, value } => {
                write!(f, "the node has no label {key}={value}, which nodeSelector asks for")
            }
            Self::NodeAffinity => write!(f, "the node does not match the pod's node affinity"),
            Self::Port(port) => {
                write!(f, "port {}/{} of the node is taken", port.port, port.protocol)
            }
            Self::Lacks(lack) => write!(
                f,
                "the node has {} of {} left, and {} is asked for",
                Amount(&lack.name, lack.free),
                lack.name,
                Amount(&lack.name, lack.wanted)
            ),
            Self::TooManyPods { most } => write!(f, "the node takes no more than {most} pods"),
            Self::Volume { why: None } => {
                write!(f, "a volume of the pod cannot be used on the node")
            }
            Self::Volume { why: Some(why) } => write!(f, "{why}"),
            Self::SpreadLabel { key } => {
                write!(f, "the node has no label {key}, by which the pod is to be spread")
            }
            Self::Spread { key, skew, most } => write!(
                f,
                "by {key} the pods would be spread with a skew of {skew}, and {most} is allowed"
            ),
            Self::Affinity { key } => {
                write!(f, "no pod is near by {key} that the pod must be near")
            }
            Self::AntiAffinity { key } => {
                write!(f, "a pod is near by {key} that the pod must not be near")
            }
            Self::KeptAway { key } => {
                write!(f, "a pod is near by {key} that must not be near this one")
            }
            Self::Unmodelled(Unmodelled::ResourceClaims) => {
                write!(
                    f,
                    "the pod asks for devices by resource claims, which are not reckoned with"
                )
            }
            Self::Unmodelled(Unmodelled::SchedulingGroup) => {
                write!(f, "the pod is scheduled together with others, which is not reckoned with")
            }
            Self::TooFull { limit } => {
                write!(f, "the node would be more than {limit} % full")
            }
        }
    }
}

/// An amount as people write it.
struct Amount<'a>(&'a str, i64);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "cpu" => write!(f, "{}m", self.1),
            "memory" | "ephemeral-storage" => write!(f, "{}Mi", self.1 >> 20),
            _ => write!(f, "{}", self.1),
        }
    }
}
