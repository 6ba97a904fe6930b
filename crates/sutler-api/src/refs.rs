//! References to other objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::patterns;

/// A reference to an object, by default in the same namespace.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(length(max = 253), regex(pattern = patterns::DNS_LABEL))]
    pub name: String,
    /// Namespace of the object; that of the referring one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = patterns::DNS_LABEL))]
    pub namespace: Option<String>,
}

impl ObjectRef {
    /// A reference within the same namespace.
    pub fn local(name: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: None }
    }

    /// The namespace that is meant when the reference stands in an object of `own`.
    pub fn namespace_or<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(own)
    }
}

/// A reference to an object in the same namespace.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// Name of the object.
    #[schemars(length(max = 253), regex(pattern = patterns::DNS_LABEL))]
    pub name: String,
}

impl LocalObjectRef {
    /// A reference to `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// A reference to an object in the same namespace, as the core types of Kubernetes write it: the
/// name may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct CoreLocalRef {
    /// Name of the object.
    pub name: String,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = patterns::DNS_SUBDOMAIN))]
    pub name: String,
    /// Key in it.
    #[serde(default = "token_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = patterns::SECRET_KEY))]
    pub key: String,
}

fn token_key() -> String {
    "token".to_owned()
}

/// A reference to an object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Group and version of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,
    /// The kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object; that of the referring one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// UID of the object, so that a new one of the same name is not meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub uid: Option<String>,
}
