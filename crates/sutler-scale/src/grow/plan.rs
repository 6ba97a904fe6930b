//! What a decision to grow says.

use std::fmt;

use jiff::Timestamp;

use crate::filters::Refusal;
use crate::world::{Key, Labels, Taint, Upcoming};

/// Which groups grow by what, and what is not done and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowPlan {
    /// Groups that grow, by key.
    pub growths: Vec<Growth>,
    /// Groups to be made.
    pub new_groups: Vec<NewGroup>,
    /// Waiting pods that fit on nodes that are there or on their way and need nothing, with a node
    /// that has room; one on its way has a name in angle brackets.
    pub placed: Vec<(Key, String)>,
    /// Pods that nothing is done for now, by their first pod.
    pub unhelped: Vec<Unhelped>,
    /// What groups should have grown by besides and did not, by key.
    pub held: Vec<Held>,
}

impl GrowPlan {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.growths.is_empty() && self.new_groups.is_empty()
    }

    /// The earliest time at which something that was not done is tried again.
    pub fn retry_at(&self) -> Option<Timestamp> {
        let pods = self.unhelped.iter().filter_map(|unhelped| unhelped.retry_at);
        let groups = self.held.iter().filter_map(|held| held.why.retry_at());
        pods.chain(groups).min()
    }
}

/// A group that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The group.
    pub group: Key,
    /// How many nodes are wanted from now on.
    pub desired: u32,
    /// The nodes to ask for.
    pub nodes: Vec<NewNode>,
}

/// A node to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Its size, its place, and the pods that it is for.
    pub node: Upcoming,
    /// Why it is asked for.
    pub cause: Cause,
}

/// Why a node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The group is below its minimum.
    Minimum,
    /// A place of the group is below its minimum.
    PlaceMinimum,
    /// Pods need it.
    Pods,
    /// The group was busier than it should be.
    Headroom,
}

/// A group to be made for pods that fit none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    /// Its namespace and name; equal demands give equal names.
    pub key: Key,
    /// The size of its nodes.
    pub size: String,
    /// Their place.
    pub place: String,
    /// Labels that the pods ask for.
    pub labels: Labels,
    /// Taints that the pods show they are to have for themselves.
    pub taints: Vec<Taint>,
    /// Fewest nodes.
    pub min: u32,
    /// Most nodes.
    pub max: u32,
    /// Nodes that are wanted now, each with its pods.
    pub nodes: Vec<Upcoming>,
}

/// Pods of one shape that nothing is done for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhelped {
    /// The pods.
    pub pods: Vec<Key>,
    /// Why no group grows for them, by group; empty when it is not about groups.
    pub groups: Vec<(Key, WhyNot)>,
    /// Why nothing at all is done, where it is not about groups.
    pub why: Option<WhyNot>,
    /// When something may change by time alone.
    pub retry_at: Option<Timestamp>,
}

/// Something that a group should have grown by and did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The group.
    pub group: Key,
    /// What it was about.
    pub cause: Cause,
    /// Why it was not done.
    pub why: WhyNot,
}

/// Why a group does not grow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyNot {
    /// The pod would not fit even on an empty node of it.
    Refused(Refusal),
    /// Changes are held back on request.
    Paused,
    /// It does not grow by itself.
    Disabled,
    /// It stopped after too many failures, until a person acts.
    Stopped,
    /// The platform refused a node.
    Backoff {
        /// Until when none is asked for.
        until: Timestamp,
    },
    /// It grew a moment ago.
    Cooldown {
        /// Until when.
        until: Timestamp,
    },
    /// The need has not lasted long enough.
    Window {
        /// Until when it must.
        until: Timestamp,
    },
    /// The pod has not waited long enough.
    Grace {
        /// Until when it must.
        until: Timestamp,
    },
    /// It is as large as it may be.
    AtMaximum {
        /// How large that is.
        max: u32,
    },
    /// All groups together are as large as they may be.
    ClusterFull {
        /// How large that is.
        max: u32,
    },
    /// As many groups grow as may at the same time.
    TooManyGrowing {
        /// How many those are.
        max: u32,
    },
    /// There is no size or place left for now.
    Exhausted {
        /// Until when.
        until: Timestamp,
    },
    /// Only machines that the platform may take back are allowed, and there are none.
    NoSpot {
        /// Until when, where it is known.
        until: Option<Timestamp>,
    },
    /// The pods that it could help are better helped by others, or do not fit beside each other.
    NotChosen,
    /// Groups are not made by themselves.
    DynamicDisabled,
}

impl WhyNot {
    /// When time alone may change it.
    pub fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::Backoff { until }
            | Self::Cooldown { until }
            | Self::Window { until }
            | Self::Grace { until }
            | Self::Exhausted { until } => Some(*until),
            Self::NoSpot { until } => *until,
            _ => None,
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "even on an empty node, {refusal}"),
            Self::Paused => write!(f, "changes of the group are held back on request"),
            Self::Disabled => write!(f, "scaleUpPolicy.enabled is false"),
            Self::Stopped => {
                write!(f, "the group stopped after too many failures: look at its failed nodes")
            }
            Self::Backoff { until } => {
                write!(f, "the platform refused a node, and is not asked again before {until}")
            }
            Self::Cooldown { until } => write!(f, "the group grew a moment ago; next at {until}"),
            Self::Window { until } => {
                write!(f, "the need must last until {until} before the group grows")
            }
            Self::Grace { until } => write!(f, "the pod must wait until {until} first"),
            Self::AtMaximum { max } => {
                write!(f, "the group is at its maximum of {max}: raise maxNodes")
            }
            Self::ClusterFull { max } => {
                write!(
                    f,
                    "all groups together are at their maximum of {max}: raise maxClusterWorkers"
                )
            }
            Self::TooManyGrowing { max } => write!(
                f,
                "{max} groups grow at the moment, and no more may: raise maxConcurrentScaleUps"
            ),
            Self::Exhausted { until } => {
                write!(f, "the platform has no size or place left for it before {until}")
            }
            Self::NoSpot { until: Some(until) } => write!(
                f,
                "no machine that may be taken back is to be had before {until}, and \
                 fallbackToOnDemand is false"
            ),
            Self::NoSpot { until: None } => write!(
                f,
                "no machine that may be taken back is to be had, and fallbackToOnDemand is false"
            ),
            Self::NotChosen => write!(f, "the pods are helped better in another way first"),
            Self::DynamicDisabled => {
                write!(f, "no group fits, and enableDynamicNodeGroupCreation is false")
            }
        }
    }
}
