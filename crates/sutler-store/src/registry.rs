//! The kinds that are served: built-in ones from a table, ours from CRDs. Everything downstream
//! works on a [`Resource`], whichever it came from.

mod builtin;
mod crd;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use sutler_schema::{node::Node, validate::Validator};

use crate::{codec, jsonpath::JsonPath, status::GroupResource};

pub use crd::CrdError;

/// One served resource.
#[derive(Debug)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// The served version.
    pub version: String,
    /// `version` or `group/version`.
    pub api_version: String,
    /// The kind of one object.
    pub kind: String,
    /// The kind of a list of them.
    pub list_kind: String,
    /// The name in paths.
    pub plural: String,
    /// The name that kubectl also takes.
    pub singular: String,
    /// Further names that kubectl takes.
    pub short_names: Vec<String>,
    /// Sets of kinds that kubectl lists together.
    pub categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether there is a `/status`.
    pub status: bool,
    /// Whether there is a `/scale`, and where its numbers are.
    pub scale: Option<Scale>,
    /// Whether a `PUT` to a name that does not exist creates it.
    pub create_on_update: bool,
    /// Whether an update without a resourceVersion overwrites.
    pub unconditional_update: bool,
    /// Whether the wire form differs from the stored one (`events.k8s.io` is stored as core).
    pub(crate) converted: bool,
    /// The type, for apply, patches, defaults and explain.
    pub node: Arc<Node>,
    /// What is there before anybody sets it; built-in kinds only.
    pub(crate) zero: Option<Value>,
    /// What differs between built-in and custom kinds.
    pub flavor: Flavor,
    /// `{"apiVersion":…,"kind":…,`.
    pub(crate) type_prefix: Bytes,
    /// Where its objects are in the store: `group/plural/`.
    pub(crate) prefix: String,
}

/// Where a scale subresource reads and writes.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Path of the desired number, as JSON pointer segments.
    pub spec_replicas: Vec<String>,
    /// Path of the observed number.
    pub status_replicas: Vec<String>,
    /// Path of the selector, as a string (custom kinds) or a `LabelSelector` (built-in kinds).
    pub selector: Option<Vec<String>>,
}

/// Where a resource comes from.
#[derive(Debug)]
pub enum Flavor {
    /// From the table of built-in kinds.
    Builtin(&'static sutler_builtin::Kind),
    /// From a CRD.
    Custom(Box<Custom>),
}

/// What only custom kinds have.
#[derive(Debug)]
pub struct Custom {
    /// The compiled schema.
    pub validator: Validator,
    /// Printer columns.
    pub columns: Vec<Column>,
    /// Paths that field selectors may name, beside name and namespace.
    pub selectable: Vec<(String, JsonPath)>,
    /// The schema as it was given: JSON text, which takes a tenth of the memory.
    schema: Box<str>,
}

impl Custom {
    /// The schema as it was given, for OpenAPI.
    pub(crate) fn schema(&self) -> Value {
        serde_json::from_str(&self.schema).unwrap_or_default()
    }

    /// The same as JSON text.
    pub(crate) fn schema_text(&self) -> &str {
        &self.schema
    }
}

/// One printer column of a CRD.
#[derive(Debug)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: String,
    /// OpenAPI format.
    pub format: String,
    /// For people.
    pub description: String,
    /// Columns above 0 are shown by `-o wide`.
    pub priority: i64,
    /// Where the value is.
    pub path: JsonPath,
}

impl Resource {
    /// Group and plural, for refusals.
    pub fn gr(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.plural }
    }

    /// Group and kind, for `Invalid`.
    pub fn gk(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.kind }
    }

    /// Whether it is a custom kind.
    pub fn custom(&self) -> Option<&Custom> {
        match &self.flavor {
            Flavor::Custom(custom) => Some(custom),
            Flavor::Builtin(_) => None,
        }
    }

    /// The built-in kind, if it is one.
    pub fn builtin(&self) -> Option<&'static sutler_builtin::Kind> {
        match &self.flavor {
            Flavor::Builtin(kind) => Some(kind),
            Flavor::Custom(_) => None,
        }
    }

    /// Whether it is this built-in resource.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.builtin().is_some() && self.group == group && self.plural == plural
    }

    /// Whether `metadata.generation` counts changes of it.
    pub fn has_generation(&self) -> bool {
        self.builtin().is_none_or(|kind| kind.has_generation)
    }

    /// The key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Arc<str> {
        if self.namespaced {
            format!("{}{namespace}/{name}", self.prefix).into()
        } else {
            format!("{}{name}", self.prefix).into()
        }
    }

    /// The prefix of all objects, or of those of one namespace.
    pub(crate) fn range(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    /// The store's topic of its changes.
    pub(crate) fn topic(&self) -> &str {
        self.prefix.trim_end_matches('/')
    }

    /// Decodes a record of it.
    pub(crate) fn decode(
        &self,
        record: &sutler_kv::engine::Record,
    ) -> Result<Value, crate::status::ApiError> {
        codec::decode_record(&self.api_version, &self.kind, record)
    }
}

/// All served resources.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
}

impl Registry {
    /// The built-in kinds, and those of the given CRDs.
    pub fn new(crds: &[Value]) -> Result<Self, CrdError> {
        let mut registry = Self::default();
        registry.resources.extend(builtin::resources().map(Arc::new));
        for definition in crds {
            registry.resources.extend(crd::resources(definition)?.into_iter().map(Arc::new));
        }
        Ok(registry)
    }

    /// All of them, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    /// The resource of a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        // A few dozen short comparisons; a map of owned keys would allocate for every request.
        let mut resources = self.resources.iter();
        resources.find(|r| r.plural == plural && r.group == group && r.version == version)
    }

    /// The resource of an object's apiVersion and kind.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.kind == kind && r.api_version == api_version)
    }

    /// A built-in resource that is always there.
    pub(crate) fn builtin(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.is(group, plural))
    }

    /// Whether anything of this group and version is served.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.resources.iter().any(|r| r.group == group && r.version == version)
    }

    /// Whether anything of this group is served.
    pub fn has_group(&self, group: &str) -> bool {
        self.resources.iter().any(|r| r.group == group)
    }
}

/// `group/plural/` in the store; the core group has a name there.
pub(crate) fn prefix(group: &str, plural: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    format!("{group}/{plural}/")
}
