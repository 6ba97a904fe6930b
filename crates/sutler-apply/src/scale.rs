//! Ownership of the replica count, which is one field of an object and another one of its scale
//! subresource.

use serde_json::Value;

use crate::{
    fieldset::{FieldSet, PathElement},
    managed::{Managed, ManagedError, Owned},
};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where one version of a kind keeps its replica count.
#[derive(Debug, Clone, Copy)]
pub struct ReplicasPath<'a> {
    /// The version, with its group: `apps/v1`.
    pub api_version: &'a str,
    /// The fields that lead to the count; empty for a version without scale subresource.
    pub path: &'a [&'a str],
}

fn elements(path: &[&str]) -> Vec<PathElement> {
    path.iter().map(|name| PathElement::field(name)).collect()
}

fn path_of(mappings: &[ReplicasPath], version: &str) -> Option<Vec<PathElement>> {
    mappings.iter().find(|m| m.api_version == version).map(|m| elements(m.path))
}

fn scale_path() -> FieldSet {
    FieldSet::of_fields(&[&["spec", "replicas"]])
}

/// The managed fields of the scale object, from those of its parent: only owners of the count are
/// left, and they own `.spec.replicas`.
pub fn to_scale(
    parent: Option<&Value>,
    mappings: &[ReplicasPath],
) -> Result<Option<Value>, ManagedError> {
    let mut scale = Managed::default();
    for (id, owned) in Managed::decode(parent)?.entries {
        let Some(path) = path_of(mappings, &owned.api_version) else { continue };
        if owned.fields.has(&path) {
            let fields = scale_path();
            let api_version = SCALE_VERSION.to_owned();
            scale.entries.insert(id, Owned { api_version, fields, time: owned.time });
        }
    }
    Ok(scale.encode())
}

/// The managed fields of the parent after a write to its scale object: who no longer owns the
/// count there loses it here, and who owns it there gains it here.
pub fn from_scale(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    mappings: &[ReplicasPath],
) -> Result<Option<Value>, ManagedError> {
    let parents = Managed::decode(parent)?;
    let mut scales = Managed::decode(scale)?;
    let mut out = Managed::default();
    for (id, owned) in &parents.entries {
        let Some(path) = path_of(mappings, &owned.api_version) else { continue };
        if !owned.fields.has(&path) || scales.entries.remove(id).is_some() {
            out.entries.insert(id.clone(), owned.clone());
            continue;
        }
        let mut replicas = FieldSet::new();
        replicas.insert(&path);
        let fields = owned.fields.difference(&replicas);
        if !fields.is_empty() {
            out.entries.insert(id.clone(), Owned { fields, ..owned.clone() });
        }
    }
    let own_path = path_of(mappings, api_version).unwrap_or_default();
    for (id, owned) in scales.entries {
        if owned.fields.has(&elements(&["spec", "replicas"])) {
            let mut fields = FieldSet::new();
            fields.insert(&own_path);
            let time = parents.entries.get(&id).and_then(|parent| parent.time);
            let api_version = api_version.to_owned();
            out.entries.insert(id, Owned { api_version, fields, time });
        }
    }
    Ok(out.encode())
}
