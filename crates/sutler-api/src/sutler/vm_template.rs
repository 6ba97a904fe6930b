//! Templates: what a person picks when they want a machine.

use crate::conditions;
use crate::duration::Duration;
use crate::infra::DiskSpec;
use crate::infra::MachineResources;
use crate::infra::MetaData;
use crate::infra::NetworkRef;
use crate::infra::UserData;
use crate::patterns;
use crate::refs::ObjectRef;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a machine made from the template is like, and what it needs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sutler.dev",
    version = "v1alpha1",
    kind = "VMTemplate",
    plural = "vmtemplates",
    namespaced,
    status = "VMTemplateStatus",
    derive = "PartialEq",
    doc = "What a person picks when they want a machine: an image, a size, commands, and what it needs of its host.",
    shortname = "vmt",
    category = "sutler",
    printcolumn = r#"{"name": "Name", "type": "string", "jsonPath": ".spec.displayName"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.imageRef.name"}"#,
    printcolumn = r#"{"name": "Class", "type": "string", "jsonPath": ".spec.classRef.name"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Used By", "type": "integer", "jsonPath": ".status.usedByVMs", "description": "Machines made from it", "priority": 1}"#,
    printcolumn = r#"{"name": "Providers", "type": "string", "jsonPath": ".status.providers[*].name", "description": "Providers that were looked at", "priority": 1}"#,
    printcolumn = r#"{"name": "Description", "type": "string", "jsonPath": ".spec.description", "description": "What it is for", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.imageRef) || has(self.providerTemplates)",
        "message": "imageRef or providerTemplates is required: say what machines are made from",
        "reason": "FieldValueRequired",
        "fieldPath": ".imageRef",
    },
    {
        "rule": "has(self.classRef) || has(self.resources)",
        "message": "classRef or resources is required: say how large machines are",
        "reason": "FieldValueRequired",
        "fieldPath": ".classRef",
    },
]))]
pub struct VMTemplateSpec {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Name of the picture that the console shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(max = 63))]
    pub icon: Option<String>,
    /// The VMImage that machines are made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
    /// The VMClass that machines get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ObjectRef>,
    /// CPU and memory where they differ from the class, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// Size of the root disk in GiB.
    #[serde(rename = "diskGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub disk_gib: Option<i32>,
    /// The template on each provider, where it is not reached through the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["provider"]))]
    pub provider_templates: Vec<ProviderTemplate>,
    /// Network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub networks: Vec<NetworkRef>,
    /// Disks besides the root disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub disks: Vec<DiskSpec>,
    /// What the guest is given on its first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserData>,
    /// Metadata for the guest's first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,
    /// Commands on the hypervisor host before the machine is made; they run only where the agent's
    /// own configuration allows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub pre_provision: Vec<ProvisionCommand>,
    /// Commands in the guest once it has a network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub post_provision: Vec<ProvisionCommand>,
    /// Features that a provider must have switched on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub required_features: Vec<String>,
    /// Hardware that a provider's administrator must vouch for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub required_hardware: Vec<String>,
    /// Tags that machines carry on the platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 255)))]
    pub tags: Vec<String>,
}

/// A template on one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.templateID) || has(self.templateName)",
        "message": "set templateID or templateName: say which template on the provider is meant",
        "reason": "FieldValueRequired",
        "fieldPath": ".templateID",
    },
]))]
pub struct ProviderTemplate {
    /// The Provider.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 253))]
    pub provider: String,
    /// The template's ID there, such as 9000.
    #[serde(rename = "templateID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub template_id: Option<String>,
    /// The template's name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub template_name: Option<String>,
    /// The host that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// The storage that machines are made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage: Option<String>,
    /// The bridge or network of the first card.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub network_bridge: Option<String>,
    /// The lowest ID that a new machine may get, where IDs are numbers.
    #[serde(rename = "minVMID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_vmid: Option<i64>,
}

/// A command that runs while a machine is provisioned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionCommand {
    /// What it does, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// The program, or a line for the shell when there are no arguments.
    #[schemars(length(min = 1, max = 4096))]
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 4096)))]
    pub arguments: Vec<String>,
    /// As whom it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub run_as_user: Option<String>,
    /// How long it may take.
    #[serde(default = "default_timeout")]
    #[schemars(regex(pattern = patterns::DURATION), length(max = 63))]
    pub timeout: Duration,
    /// Go on when it fails; the machine then counts as partly provisioned.
    #[serde(default)]
    pub continue_on_error: bool,
}

/// What is known of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMTemplateStatus {
    /// Machines that were made from it.
    #[serde(rename = "usedByVMs", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub used_by_vms: Option<i32>,
    /// Whether each provider can make it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub providers: Vec<TemplateOnProvider>,
    /// Ready and the staged conditions behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether a provider can make machines from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateOnProvider {
    /// The provider, as namespace/name.
    #[schemars(length(max = 317))]
    pub name: String,
    /// Whether it can.
    pub compatible: bool,
    /// Features that it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub missing_features: Vec<String>,
    /// Hardware that it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub missing_hardware: Vec<String>,
    /// Why not, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

fn default_timeout() -> Duration {
    Duration::from("5m")
}
