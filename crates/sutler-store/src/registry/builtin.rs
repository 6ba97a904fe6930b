//! Resources from the table of built-in kinds.

use sutler_builtin::{Kind, Role, Subresource, kinds};

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
        unconditional_update: true,
        converted: kind.stored_as.is_some(),
        zero: Some(sutler_apply::zero::object(&node, &api_version, kind.kind)),
        flavor: Flavor::Builtin(kind),
        api_version,
        node,
    }
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
                | ("coordination.k8s.io", "Lease")
                | ("rbac.authorization.k8s.io", _)
        )
}
