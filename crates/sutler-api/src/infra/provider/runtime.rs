//! How a provider runs and how it is reached.

use crate::patterns;
use crate::refs::CoreLocalRef;
use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use k8s_openapi::api::core::v1::Affinity;
use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::api::core::v1::SecurityContext;
use k8s_openapi::api::core::v1::Toleration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a provider runs and how it is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.mode != 'Remote' || has(self.image) || has(self.endpoint)",
        "message": "mode Remote needs image (to deploy the provider) or endpoint (to dial one that runs already)",
        "reason": "FieldValueRequired",
        "fieldPath": ".image",
    },
    {
        "rule": "self.mode != 'Agent' || has(self.agentRef)",
        "message": "mode Agent needs agentRef: the Agent whose connection is used",
        "reason": "FieldValueRequired",
        "fieldPath": ".agentRef",
    },
]))]
pub struct ProviderRuntime {
    /// Where the provider runs.
    pub mode: RuntimeMode,
    /// host:port or unix:path of a provider that runs already; nothing is deployed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DIAL), length(max = 2048))]
    pub endpoint: Option<String>,
    /// The connected agent through which the provider is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_ref: Option<LocalObjectRef>,
    /// Container image of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::CONTAINER_IMAGE))]
    pub image: Option<String>,
    /// When the image is pulled.
    pub image_pull_policy: PullPolicy,
    /// Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub image_pull_secrets: Vec<CoreLocalRef>,
    /// How many copies run.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,
    /// The gRPC service of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ProviderService>,
    /// CPU and memory of the provider's pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Labels of the nodes that the pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub tolerations: Vec<Toleration>,
    /// Where the pods would rather run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Privileges of the provider's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// Environment of the provider's container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub env: Vec<EnvVar>,
    /// How Kubernetes sees that the container lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// How Kubernetes sees that the container is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// How much the provider logs.
    pub log_level: LogLevel,
    /// How it logs.
    pub log_format: LogFormat,
}

impl Default for ProviderRuntime {
    fn default() -> Self {
        Self {
            mode: RuntimeMode::Remote,
            endpoint: None,
            agent_ref: None,
            image: None,
            image_pull_policy: PullPolicy::IfNotPresent,
            image_pull_secrets: Vec::new(),
            replicas: 1,
            service: None,
            resources: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            affinity: None,
            security_context: None,
            env: Vec::new(),
            liveness_probe: None,
            readiness_probe: None,
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
        }
    }
}

string_enum! {
    /// Where a provider runs.
    pub enum RuntimeMode {
        /// Inside the control plane.
        InProcess = "InProcess",
        /// Behind gRPC.
        Remote = "Remote",
        /// On a hypervisor host, reached through its agent.
        Agent = "Agent",
    }
    default Remote
}

string_enum! {
    /// When a container image is pulled.
    pub enum PullPolicy {
        Always = "Always",
        Never = "Never",
        IfNotPresent = "IfNotPresent",
    }
    default IfNotPresent
}

string_enum! {
    /// How much is logged.
    pub enum LogLevel {
        Debug = "debug",
        Info = "info",
        Warn = "warn",
        Error = "error",
    }
    default Info
}

string_enum! {
    /// How log lines are written.
    pub enum LogFormat {
        Text = "text",
        Json = "json",
    }
    default Text
}

/// The gRPC service of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderService {
    /// Port that it listens on.
    #[schemars(range(min = 1024, max = 65535))]
    pub port: i32,
    /// Certificates for mutual TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ProviderTls>,
}

impl Default for ProviderService {
    fn default() -> Self {
        Self { port: 9443, tls: None }
    }
}

/// Certificates for mutual TLS between control plane and provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderTls {
    /// Whether TLS is used; plaintext must be asked for with false.
    pub enabled: bool,
    /// Secret with tls.crt, tls.key and ca.crt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<CoreLocalRef>,
    /// Do not check the other side's certificate.
    pub insecure_skip_verify: bool,
}

impl Default for ProviderTls {
    fn default() -> Self {
        Self { enabled: true, secret_ref: None, insecure_skip_verify: false }
    }
}
