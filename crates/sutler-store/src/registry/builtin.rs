//! Resources from the table of built-in kinds.

use serde_json::{Value, json};
use sutler_builtin::{Kind, Role, Subresource, kinds};
use sutler_schema::node::Node;

use super::{Flavor, Resource, Scale, prefix};
use crate::codec;

/// One resource per kind that has objects.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    kinds().iter().map(resource)
}

fn resource(kind: &'static Kind) -> Resource {
    let api_version = kind.api_version();
    let node = kind.storage().node();
    Resource {
        type_prefix: codec::type_prefix(&api_version, kind.kind),
        prefix: prefix(kind.storage().group, kind.plural),
        group: kind.group.into(),
        version: kind.version.into(),
        kind: kind.kind.into(),
        list_kind: format!("{}List", kind.kind),
        plural: kind.plural.into(),
        singular: kind.singular.into(),
        short_names: kind.short_names.iter().map(|&s| s.into()).collect(),
        categories: kind.categories.iter().map(|&s| s.into()).collect(),
        namespaced: kind.namespaced,
        status: kind.has(Subresource::Status),
        scale: kind.has(Subresource::Scale).then(scale),
        create_on_update: creates_on_update(kind),
        unconditional_update: !kind.is("coordination.k8s.io", "Lease"),
        converted: kind.stored_as.is_some(),
        zero: Some(zero(kind, &node, &api_version)),
        flavor: Flavor::Builtin(kind),
        api_version,
        node,
    }
}

/// What an object of a kind holds before anybody sets it: what the decoder makes of nothing.
fn zero(kind: &'static Kind, node: &Node, api_version: &str) -> Value {
    let mut zero = sutler_apply::zero::object(node, api_version, kind.kind);
    // Of the kinds here, only events write out times that nobody has set.
    if kind.kind != "Event" {
        return zero;
    }
    let nothing = json!({"apiVersion": api_version, "kind": kind.kind, "metadata": {}});
    let decoded = sutler_builtin::decode(kind.storage(), nothing).unwrap_or_default();
    let (Value::Object(fields), Some(map)) = (decoded, zero.as_object_mut()) else { return zero };
    for (key, value) in fields {
        if key != "metadata" {
            map.entry(key).or_insert(value);
        }
    }
    zero
}

fn scale() -> Scale {
    let path = |fields: [&str; 2]| fields.map(str::to_owned).to_vec();
    Scale {
        spec_replicas: path(["spec", "replicas"]),
        status_replicas: path(["status", "replicas"]),
        selector: Some(path(["spec", "selector"])),
    }
}

/// The few kinds that a `PUT` may create.
fn creates_on_update(kind: &Kind) -> bool {
    kind.role == Role::Stored
        && matches!(
            (kind.group, kind.kind),
            ("", "Event")
                | ("events.k8s.io", "Event")
                | ("", "Service")
                | ("coordination.k8s.io", "Lease")
                | ("rbac.authorization.k8s.io", _)
        )
}
