//! How far something has come: stages, and what a waiting object waits for.

use crate::patterns;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One step of a longer change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// Name of the step, such as clone_template or wait_network.
    #[schemars(regex(pattern = patterns::SNAKE), length(max = 63))]
    pub name: String,
    /// How far the step has come.
    #[serde(default)]
    pub state: StageState,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended, well or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// How much of it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<i32>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

string_enum! {
    /// How far a stage has come.
    pub enum StageState {
        /// Not begun.
        Pending = "Pending",
        /// Under way.
        Running = "Running",
        /// Done.
        Completed = "Completed",
        /// Not needed here.
        Skipped = "Skipped",
        /// Ended with an error.
        Failed = "Failed",
    }
    default Pending
}

/// What an object waits for, since when, and when it is tried next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// A stable word for the cause.
    #[schemars(regex(pattern = patterns::REASON), length(max = 128))]
    pub reason: String,
    /// The cause, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// When the waiting began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
}
