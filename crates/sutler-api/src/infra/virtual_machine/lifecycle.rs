//! What happens after a machine's start and before its stop.

use crate::duration::Duration;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens after a machine's start and before its stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    /// Done once the machine is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_start: Option<LifecycleHandler>,
    /// Done before it goes down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<LifecycleHandler>,
    /// How long the guest may take to shut down before it is switched off.
    pub graceful_shutdown_timeout: Duration,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { post_start: None, pre_stop: None, graceful_shutdown_timeout: Duration::from("60s") }
    }
}

/// Something to do at a turning point; all parts that are set are done, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHandler {
    /// A command in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// A request to the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// A snapshot of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotAction>,
}

/// A command in the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecAction {
    /// Program and arguments.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

/// A GET request to the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// Host name; the machine's own address when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// HTTP or HTTPS.
    #[serde(default)]
    pub scheme: UriScheme,
}

string_enum! {
    /// Scheme of a request.
    pub enum UriScheme {
        Http = "HTTP",
        Https = "HTTPS",
    }
    default Http
}

/// A snapshot of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotAction {
    /// Name of the snapshot.
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether memory is saved too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_memory: Option<bool>,
}
