//! What goes wrong, and how often.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sutler_provider::Error;

use super::{duration, options};

/// How likely each fault is for one call, from 0 to 1. At most one of those that touch the call
/// itself happens to it; [`tamper`](Self::tamper) and what follows it happen besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Chances {
    /// The call is refused and nothing is applied.
    pub refuse: f64,
    /// It is applied, and an error is answered.
    pub error_after: f64,
    /// It is applied, and nothing is ever answered.
    pub lost_reply: f64,
    /// It is applied long after its caller gave up.
    pub late: f64,
    /// It is executed twice.
    pub duplicate: f64,
    /// A create tells neither ID nor task.
    pub no_id: f64,
    /// Its task fails and leaves nothing.
    pub task_fails: f64,
    /// Its task fails and leaves a machine that is half made.
    pub task_breaks: f64,
    /// A list is anything between fresh and as old as allowed; without this it is always that old.
    pub lag: f64,
    /// A list lacks machines and says so.
    pub partial: f64,
    /// A machine is changed behind our back.
    pub tamper: f64,
    /// A machine is deleted behind our back.
    pub vanish: f64,
    /// Somebody else's machine appears.
    pub foreign: f64,
    /// The platform goes away for a while.
    pub outage: OutageChance,
}

/// How likely it is that a call finds the platform gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct OutageChance {
    /// How likely it begins with a call.
    pub chance: f64,
    /// How long it is.
    #[serde(with = "duration")]
    pub lasts: Duration,
    /// Whether calls hang in it rather than being refused.
    pub hang: bool,
}

impl Chances {
    pub(super) fn check(&self) -> Result<(), Error> {
        let all = [
            ("refuse", self.refuse),
            ("errorAfter", self.error_after),
            ("lostReply", self.lost_reply),
            ("late", self.late),
            ("duplicate", self.duplicate),
            ("noId", self.no_id),
            ("taskFails", self.task_fails),
            ("taskBreaks", self.task_breaks),
            ("lag", self.lag),
            ("partial", self.partial),
            ("tamper", self.tamper),
            ("vanish", self.vanish),
            ("foreign", self.foreign),
            ("outage.chance", self.outage.chance),
        ];
        match all.iter().find(|(_, chance)| !(0.0..=1.0).contains(chance)) {
            Some((name, _)) => {
                Err(options::wrong(&format!("faults.{name}"), "not between 0 and 1"))
            }
            None => Ok(()),
        }
    }
}
