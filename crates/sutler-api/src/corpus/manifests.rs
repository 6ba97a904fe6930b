//! The files of the corpus.

use serde::Deserialize;
use serde_json::Value;

/// A manifest that every server must accept.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file's name without its extension.
    pub name: &'static str,
    /// The object.
    pub object: Value,
}

/// A value that breaks a CEL rule.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Breaker {
    /// The rule's message.
    pub(super) rule: String,
    /// The value of `self` before, for a rule that compares with it.
    #[serde(default)]
    pub(super) before: Option<Value>,
    /// The value of `self` that breaks the rule.
    pub(super) value: Value,
    /// The kind that it is for, where a message stands in several.
    #[serde(default)]
    pub(super) only: Option<String>,
}

macro_rules! files {
    ($($name:literal,)+) => {
        &[$(($name, include_str!(concat!("../../tests/corpus/valid/", $name, ".yaml")))),+]
    };
}

const VALID: &[(&str, &str)] = files![
    "agent-full",
    "agent-small",
    "application-draft",
    "application-full",
    "application-ignition",
    "autoscalerconfig-default",
    "autoscalerconfig-full",
    "nodegroup-any-provider",
    "nodegroup-custom-bootstrap",
    "nodegroup-full",
    "nodegroup-vpsie",
    "operation-full",
    "operation-provision",
    "pendingadoption-found",
    "pendingadoption-full",
    "provider-agent",
    "provider-deployed",
    "provider-dialled",
    "provider-full",
    "provider-sim",
    "virtualmachine-copy",
    "virtualmachine-from-template",
    "virtualmachine-full",
    "virtualmachine-imported",
    "virtualmachine-managed-node",
    "virtualmachine-small",
    "virtualmachine-typical",
    "vmclass-full",
    "vmclass-small",
    "vmclone-from-snapshot",
    "vmclone-full",
    "vmclone-image",
    "vmclone-template",
    "vmdisk-data",
    "vmdisk-full",
    "vmimage-bearer",
    "vmimage-custom",
    "vmimage-full",
    "vmimage-several-platforms",
    "vmmigration-full",
    "vmmigration-nfs",
    "vmmigration-s3",
    "vmnetworkattachment-full",
    "vmnetworkattachment-proxmox",
    "vmplacementpolicy-empty",
    "vmplacementpolicy-full",
    "vmset-copies",
    "vmset-full",
    "vmset-imported",
    "vmset-small",
    "vmsnapshot-full",
    "vmsnapshot-nightly",
    "vmsnapshot-small",
    "vmtemplate-by-provider",
    "vmtemplate-full",
    "vmtemplate-ignition",
    "vpsienode-any-provider",
    "vpsienode-full",
    "vpsienode-looked-for",
];

const RULES: &str = include_str!("../../tests/corpus/rules.yaml");

/// Every manifest that servers must accept.
pub fn valid() -> Vec<Manifest> {
    VALID
        .iter()
        .map(|(name, text)| Manifest {
            name,
            object: serde_saphyr::from_str(text).expect("the corpus is YAML"),
        })
        .collect()
}

/// What breaks the CEL rules.
pub(super) fn breakers() -> Vec<Breaker> {
    serde_saphyr::from_str(RULES).expect("the corpus is YAML")
}
