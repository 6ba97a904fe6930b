//! Operations: changes in progress, and what became of them.

use crate::conditions;
use crate::duration::Duration;
use crate::free_form::FreeForm;
use crate::patterns;
use crate::progress::Stage;
use crate::progress::Waiting;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::refs::TargetRef;
use crate::strings::open_enum;
use crate::strings::string_enum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is to be done, to what, and who asked for it. Only cancel can change.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sutler.dev",
    version = "v1alpha1",
    kind = "Operation",
    plural = "operations",
    namespaced,
    status = "OperationStatus",
    derive = "PartialEq",
    doc = "One change in progress or done: its stages, how far it has come, who asked for it, and what became of it.",
    shortname = "op",
    category = "sutler",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.type"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.targetRef.name"}"#,
    printcolumn = r#"{"name": "State", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Stage", "type": "string", "jsonPath": ".status.stage"}"#,
    printcolumn = r#"{"name": "Percent", "type": "integer", "jsonPath": ".status.percent"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Kind", "type": "string", "jsonPath": ".spec.targetRef.kind", "description": "Kind of the target", "priority": 1}"#,
    printcolumn = r#"{"name": "Agent", "type": "string", "jsonPath": ".spec.agentRef.name", "description": "Agent that carries it out", "priority": 1}"#,
    printcolumn = r#"{"name": "By", "type": "string", "jsonPath": ".spec.requestedBy.user", "description": "Who asked for it", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "What is happening", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.targetRef) || has(self.providerRef) || has(self.agentRef)",
        "message": "set targetRef, providerRef or agentRef: say what the operation is about",
        "reason": "FieldValueRequired",
        "fieldPath": ".targetRef",
    },
    {
        "rule": "self.type == oldSelf.type",
        "message": "type cannot change: create another Operation",
        "reason": "FieldValueInvalid",
        "fieldPath": ".type",
    },
    {
        "rule": "has(self.targetRef) == has(oldSelf.targetRef) && (!has(self.targetRef) || self.targetRef == oldSelf.targetRef)",
        "message": "targetRef cannot change: create another Operation",
        "reason": "FieldValueInvalid",
        "fieldPath": ".targetRef",
    },
    {
        "rule": "has(self.providerRef) == has(oldSelf.providerRef) && (!has(self.providerRef) || self.providerRef == oldSelf.providerRef)",
        "message": "providerRef cannot change: create another Operation",
        "reason": "FieldValueInvalid",
        "fieldPath": ".providerRef",
    },
    {
        "rule": "has(self.agentRef) == has(oldSelf.agentRef) && (!has(self.agentRef) || self.agentRef == oldSelf.agentRef)",
        "message": "agentRef cannot change: create another Operation",
        "reason": "FieldValueInvalid",
        "fieldPath": ".agentRef",
    },
    {
        "rule": "!oldSelf.cancel || self.cancel",
        "message": "a cancelled operation cannot be resumed: create another Operation",
        "reason": "FieldValueForbidden",
        "fieldPath": ".cancel",
    },
]))]
pub struct OperationSpec {
    /// What is to be done, such as provision, start or list_templates.
    #[serde(rename = "type")]
    #[schemars(regex(pattern = patterns::SNAKE), length(min = 1, max = 63))]
    pub type_: OperationType,
    /// The object that it is done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The Provider that it is done on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// The Agent that carries it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_ref: Option<LocalObjectRef>,
    /// Parameters, in the form that the type has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<FreeForm>,
    /// A word that two equal requests share, so that only one is carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub idempotency_key: Option<String>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<Requester>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Time>,
    /// How long it may take.
    #[serde(default = "default_timeout")]
    #[schemars(regex(pattern = patterns::DURATION), length(max = 63))]
    pub timeout: Duration,
    /// Seconds after its end until it is deleted; absent keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Stop it where that is still possible.
    #[serde(default)]
    pub cancel: bool,
}

open_enum! {
    /// What can be done; other words are allowed.
    pub enum OperationType {
        Provision = "provision",
        ListTemplates = "list_templates",
        Start = "start",
        Stop = "stop",
        Restart = "restart",
        Destroy = "destroy",
        Reconfigure = "reconfigure",
        Snapshot = "snapshot",
        Revert = "revert",
        Clone = "clone",
        Migrate = "migrate",
        Adopt = "adopt",
        Forget = "forget",
        PrepareImage = "prepare_image",
        RunCommand = "run_command",
    }
    default Provision
}

/// Who asked for an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub user: Option<String>,
    /// The user's groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(max = 255)))]
    pub groups: Vec<String>,
    /// By which way: cli, rest, console, kubectl, controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub source: Option<String>,
    /// From where.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub address: Option<String>,
}

/// How far an operation has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// In one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<OperationState>,
    /// The stage that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub stage: Option<String>,
    /// How much is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<i32>,
    /// What is happening, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// All its stages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Vec<Stage>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// How often it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub attempts: Option<i32>,
    /// The platform's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub task_ref: Option<String>,
    /// What it brought about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<OperationResult>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<OperationError>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

string_enum! {
    /// How an operation stands.
    pub enum OperationState {
        /// Not begun.
        Pending = "Pending",
        /// Under way.
        Running = "Running",
        /// Done.
        Completed = "Completed",
        /// The machine is there, but not all stages succeeded.
        Partial = "Partial",
        /// Ended with an error.
        Failed = "Failed",
        /// Stopped on request.
        Cancelled = "Cancelled",
    }
}

/// What an operation brought about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    /// The machine's ID on the platform.
    #[serde(rename = "vmID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub vm_id: Option<String>,
    /// The host that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub ip_address: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Whether everything was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResultStatus>,
    /// Stages that were done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 63)))]
    pub stages_completed: Vec<String>,
    /// Everything else, in the form that the type has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<FreeForm>,
}

string_enum! {
    /// Whether everything was done.
    pub enum ResultStatus {
        Completed = "completed",
        Partial = "partial",
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationError {
    /// What kind of error.
    pub kind: ErrorKind,
    /// A stable word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::REASON), length(max = 128))]
    pub reason: Option<String>,
    /// The error, for people, without secrets.
    #[schemars(length(max = 4096))]
    pub message: String,
    /// Whether trying again can help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The stage that it happened in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub stage: Option<String>,
}

string_enum! {
    /// Kinds of errors.
    pub enum ErrorKind {
        /// The request can never work.
        Invalid = "Invalid",
        /// The platform refused us.
        Denied = "Denied",
        /// What was named is not there.
        NotFound = "NotFound",
        /// It exists already, or is in the wrong state.
        Conflict = "Conflict",
        /// The platform cannot do it.
        Unsupported = "Unsupported",
        /// Capacity or quota is used up.
        Exhausted = "Exhausted",
        /// It was not applied.
        Unavailable = "Unavailable",
        /// It was sent, and the outcome is not known.
        Indeterminate = "Indeterminate",
        /// The platform tried and failed.
        Failed = "Failed",
        /// An error of ours.
        Internal = "Internal",
    }
}

fn default_timeout() -> Duration {
    Duration::from("30m")
}
