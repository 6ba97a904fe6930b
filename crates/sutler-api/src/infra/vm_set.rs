//! Sets of machines that are alike.

mod status;

pub use status::*;

use crate::defaults;
use crate::infra::VirtualMachineSpec;
use crate::strings::string_enum;
use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use k8s_openapi::api::core::v1::TypedObjectReference;
use k8s_openapi::api::core::v1::VolumeResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many machines, and what each is like.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMSet",
    plural = "vmsets",
    namespaced,
    status = "VMSetStatus",
    derive = "PartialEq",
    doc = "A number of machines that are alike, replaced bit by bit when their template changes.",
    shortname = "vmset",
    category = "sutler",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "Current", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "Updated", "type": "integer", "jsonPath": ".status.updatedReplicas"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas", "description": "Ready for long enough", "priority": 1}"#,
    printcolumn = r#"{"name": "Revision", "type": "string", "jsonPath": ".status.updateRevision", "description": "Revision of the template", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VMSetSpec {
    /// How many.
    #[serde(default = "defaults::int::<1>")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// Labels by which the set knows its machines; the template must carry them.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: LabelSelector,
    /// What each is like.
    pub template: VMSetTemplate,
    /// How they are replaced when the template changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// How long a machine must be ready to count as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub min_ready_seconds: Option<i32>,
    /// Old revisions of the template that are kept.
    #[serde(default = "defaults::int::<10>")]
    #[schemars(range(min = 0, max = 100))]
    pub revision_history_limit: i32,
    /// How machines are numbered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<Ordinals>,
    /// The Service that gives them names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_name: Option<String>,
    /// Volumes that each machine gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// What becomes of these volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<VolumeRetention>,
}

/// What each machine of a set is like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMSetTemplate {
    /// Labels and annotations that it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The machine as it is wanted.
    pub spec: VirtualMachineSpec,
}

/// Metadata of an object that is made from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers that it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Its name; sets number their machines instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace; sets use their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// How machines are replaced when their template changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// In which way.
    #[serde(rename = "type", default)]
    pub type_: UpdateStrategyType,
    /// Details of RollingUpdate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

string_enum! {
    /// Ways of replacing machines.
    pub enum UpdateStrategyType {
        /// A few at a time.
        RollingUpdate = "RollingUpdate",
        /// When somebody deletes one.
        OnDelete = "OnDelete",
        /// All at once.
        Recreate = "Recreate",
    }
    default RollingUpdate
}

/// How machines are replaced a few at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// Machines above the wanted number, as a number or a share.
    pub max_surge: IntOrString,
    /// Machines that may be missing, as a number or a share.
    pub max_unavailable: IntOrString,
    /// Machines below this number keep the old template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub partition: Option<i32>,
    /// Whether order matters.
    pub pod_management_policy: ManagementPolicy,
}

impl Default for RollingUpdate {
    fn default() -> Self {
        Self {
            max_surge: IntOrString::String("25%".to_owned()),
            max_unavailable: IntOrString::String("25%".to_owned()),
            partition: None,
            pod_management_policy: ManagementPolicy::OrderedReady,
        }
    }
}

string_enum! {
    /// Whether the order of machines matters.
    pub enum ManagementPolicy {
        /// One after the other, each ready before the next.
        OrderedReady = "OrderedReady",
        /// All at once.
        Parallel = "Parallel",
    }
    default OrderedReady
}

/// How machines are numbered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ordinals {
    /// The first number.
    #[serde(default)]
    #[schemars(range(min = 0, max = 999999))]
    pub start: i32,
}

/// What becomes of the volumes of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRetention {
    /// When the set is deleted.
    #[serde(default)]
    pub when_deleted: VolumeRetentionPolicy,
    /// When it gets smaller.
    #[serde(default)]
    pub when_scaled: VolumeRetentionPolicy,
}

string_enum! {
    /// What becomes of a volume.
    pub enum VolumeRetentionPolicy {
        Retain = "Retain",
        Delete = "Delete",
    }
    default Retain
}

/// A volume that each machine gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimTemplate {
    /// Labels and annotations of its claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The claim.
    pub spec: VolumeClaimSpec,
}

/// A claim to a volume, as Kubernetes writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimSpec {
    /// How the volume may be mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// How large it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<VolumeResourceRequirements>,
    /// Volumes that may be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: Option<LabelSelector>,
    /// Storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Class of attributes, such as IOPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
    /// Filesystem or Block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// The volume that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_name: Option<String>,
    /// What it is filled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub data_source: Option<TypedLocalObjectReference>,
    /// What it is filled from, in any namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_source_ref: Option<TypedObjectReference>,
}
