//! What a decision to shrink says.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::filters::Refusal;
use crate::world::{Key, Price};

/// Which nodes go, and why the others stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShrinkPlan {
    /// Nodes to remove, in the order in which they were chosen.
    pub removals: Vec<Removal>,
    /// How many nodes each group that shrinks wants from now on.
    pub desired: BTreeMap<Key, u32>,
    /// What was found about every node of a group, by name.
    pub verdicts: BTreeMap<String, Verdict>,
}

impl ShrinkPlan {
    /// The earliest time at which time alone may change a verdict.
    pub fn retry_at(&self) -> Option<Timestamp> {
        let reasons = self.verdicts.values().flat_map(|verdict| match verdict {
            Verdict::Removable { .. } => &[][..],
            Verdict::Keep(reasons) => reasons.as_slice(),
        });
        reasons.filter_map(Reason::retry_at).min()
    }
}

/// A node to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The node.
    pub node: String,
    /// Its group.
    pub group: Key,
    /// Where its pods find room.
    pub moves: Vec<Move>,
    /// Whether the group is larger than it may be, so that it goes although it is in use.
    pub forced: bool,
    /// Seconds that a pod may take to leave.
    pub evict_within: i64,
    /// What is no longer paid.
    pub saves: Option<Price>,
}

/// A pod that moves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// The pod.
    pub pod: Key,
    /// A node that has room for it.
    pub to: String,
}

/// Whether a node may be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may, and every pod has another place.
    Removable {
        /// Where they find room.
        moves: Vec<Move>,
    },
    /// It stays.
    Keep(Vec<Reason>),
}

/// Why a node stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not ready.
    NotReady,
    /// It is on its way out already.
    Leaving,
    /// Changes of its group are held back on request.
    Paused,
    /// Its group does not shrink by itself.
    Disabled,
    /// A label or annotation of it forbids it.
    Forbidden {
        /// Which.
        by: String,
    },
    /// It may only be removed at other hours.
    Hours {
        /// When next.
        until: Timestamp,
    },
    /// The hours in which it may be removed cannot be read.
    HoursMalformed {
        /// What is written.
        text: String,
    },
    /// Its group is at its minimum.
    GroupMinimum {
        /// Which is this.
        min: u32,
    },
    /// Its group is at its minimum in this place.
    PlaceMinimum {
        /// The place.
        place: String,
        /// Which is this.
        min: u32,
    },
    /// Its group grows.
    GroupGrows,
    /// Its group grew a while ago.
    GrewRecently {
        /// Until when it stays for that.
        until: Timestamp,
    },
    /// Its group shrank a while ago.
    ShrankRecently {
        /// Until when it stays for that.
        until: Timestamp,
    },
    /// A removal in its group failed a while ago.
    FailedRecently {
        /// Until when it stays for that.
        until: Timestamp,
    },
    /// It was in use.
    Busy {
        /// Of a hundred readings, so many found it idle.
        idle: u32,
    },
    /// It has not been watched long enough.
    WatchedTooShort {
        /// Until when it is to be.
        until: Timestamp,
    },
    /// Its use was read less than twice.
    TooFewReadings,
    /// There are no readings of it for some time.
    NoReadings {
        /// Since when.
        from: Timestamp,
    },
    /// An annotation of a pod forbids to move it.
    PodForbids {
        /// The pod.
        pod: Key,
        /// The annotation.
        by: String,
    },
    /// A pod would not come back.
    NakedPod {
        /// The pod.
        pod: Key,
    },
    /// A pod would lose data.
    LocalStorage {
        /// The pod.
        pod: Key,
        /// Its volumes.
        volumes: Vec<String>,
    },
    /// A pod of the system has no disruption budget.
    SystemPod {
        /// The pod.
        pod: Key,
    },
    /// A disruption budget does not allow it.
    Budget {
        /// A pod.
        pod: Key,
        /// The budget.
        budget: Key,
    },
    /// A pod is covered by several disruption budgets, which the API refuses to weigh.
    SeveralBudgets {
        /// The pod.
        pod: Key,
        /// The budgets.
        budgets: Vec<Key>,
    },
    /// A pod fits nowhere else.
    NoPlace {
        /// The pod.
        pod: Key,
        /// How many nodes were tried.
        tried: usize,
        /// What speaks against most of them.
        because: Option<Refusal>,
    },
    /// The others would be too busy.
    TooBusyAfter {
        /// How busy in percent.
        share: u32,
        /// How busy they may be.
        limit: u32,
    },
    /// Waiting pods, or pods of another node that goes, find room here.
    ReceivesPods,
    /// As many nodes are on their way out as may at the same time.
    TooManyLeaving {
        /// How many those are.
        max: u32,
    },
}

impl Reason {
    /// When time alone may change it.
    pub fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::Hours { until }
            | Self::GrewRecently { until }
            | Self::ShrankRecently { until }
            | Self::FailedRecently { until }
            | Self::WatchedTooShort { until } => Some(*until),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => write!(f, "the node is not ready"),
            Self::Leaving => write!(f, "the node is on its way out already"),
            Self::Paused => write!(f, "changes of the group are held back on request"),
            Self::Disabled => write!(f, "scaleDownPolicy.enabled is false"),
            Self::Forbidden { by } => write!(f, "{by} on the node forbids it"),
            Self::Hours { until } => write!(f, "the node may be removed from {until} on"),
            Self::HoursMalformed { text } => write!(
                f,
                "scale-down-allowed-hours {text:?} cannot be read: write HH:MM-HH:MM, in UTC"
            ),
            Self::GroupMinimum { min } => write!(f, "the group is at its minimum of {min}"),
            Self::PlaceMinimum { place, min } => {
                write!(f, "the group is at its minimum of {min} in {place}")
            }
            Self::GroupGrows => write!(f, "the group grows at the moment"),
            Self::GrewRecently { until } => write!(f, "the group grew, and rests until {until}"),
            Self::ShrankRecently { until } => {
                write!(f, "the group shrank, and rests until {until}")
            }
            Self::FailedRecently { until } => {
                write!(f, "a removal failed, and the group rests until {until}")
            }
            Self::Busy { idle } => {
                write!(f, "the node was idle in {idle} % of the readings, and 80 % are needed")
            }
            Self::WatchedTooShort { until } => write!(f, "the node is watched until {until} first"),
            Self::TooFewReadings => write!(f, "the node's use was read less than twice so far"),
            Self::NoReadings { from } => {
                write!(f, "there are no readings of the node's use after {from}")
            }
            Self::PodForbids { pod, by } => write!(f, "{by} on pod {pod} forbids it"),
            Self::NakedPod { pod } => write!(f, "pod {pod} has no controller to bring it back"),
            Self::LocalStorage { pod, volumes } => {
                write!(f, "pod {pod} would lose its volumes {}", volumes.join(", "))
            }
            Self::SystemPod { pod } => {
                write!(f, "pod {pod} of the system has no disruption budget")
            }
            Self::Budget { pod, budget } => {
                write!(f, "disruption budget {budget} does not let pod {pod} go")
            }
            Self::SeveralBudgets { pod, budgets } => {
                write!(f, "pod {pod} is covered by {} disruption budgets", budgets.len())
            }
            Self::NoPlace { pod, tried, because } => {
                write!(f, "pod {pod} fits on none of the other nodes ({tried})")?;
                because.as_ref().map_or(Ok(()), |refusal| write!(f, ": mostly, {refusal}"))
            }
            Self::TooBusyAfter { share, limit } => {
                write!(f, "the group would be {share} % busy, and {limit} % is the limit")
            }
            Self::ReceivesPods => write!(f, "pods from elsewhere find room here"),
            Self::TooManyLeaving { max } => write!(
                f,
                "{max} nodes are on their way out, and no more may: raise maxConcurrentScaleDowns"
            ),
        }
    }
}
