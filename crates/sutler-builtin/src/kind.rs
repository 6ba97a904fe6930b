//! What a kind is, and how one is found.

mod table;

use std::sync::Arc;

use sutler_schema::{meta::NameKind, node::Node};

use crate::{schema, types};

/// One kind, as discovery shows it and as requests treat it.
#[derive(Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The API version.
    pub version: &'static str,
    /// The kind: `Pod`.
    pub kind: &'static str,
    /// The name in paths: `pods`. Empty for kinds that have no path of their own.
    pub plural: &'static str,
    /// The name that kubectl also takes: `pod`.
    pub singular: &'static str,
    /// Further names that kubectl takes: `po`.
    pub short_names: &'static [&'static str],
    /// The sets that kubectl lists together: `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// What can be reached below an object, sorted by name.
    pub subresources: &'static [Subresource],
    /// Whether `metadata.generation` counts the changes of the spec.
    pub has_generation: bool,
    /// What may be in `metadata.name`.
    pub name_kind: NameKind,
    /// What requests may do with it.
    pub role: Role,
    /// Whether a whole collection can be deleted at once.
    pub deletecollection: bool,
    /// The group whose kind of the same name holds the objects, if not this one.
    pub stored_as: Option<&'static str>,
}

/// What requests may do with a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything: its objects are stored.
    Stored,
    /// Objects can be read, and are made by the server itself.
    ReadOnly,
    /// A question that is created, answered and forgotten.
    Review,
    /// Only the body of some request.
    Body,
}

/// Where objects live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster as a whole.
    Cluster,
}

/// What can be reached below an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    /// `binding`: puts a pod on a node.
    Binding,
    /// `eviction`: deletes a pod if its disruption budgets allow.
    Eviction,
    /// `finalize`: changes the finalizers of a namespace's spec.
    Finalize,
    /// `scale`: the number of replicas alone.
    Scale,
    /// `status`: the status alone.
    Status,
}

impl Subresource {
    /// The last segment of its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::Status => "status",
        }
    }
}

/// The kinds that have objects: those of [`Role::Stored`] and [`Role::ReadOnly`].
pub fn kinds() -> &'static [Kind] {
    let objects =
        table::KINDS.partition_point(|kind| matches!(kind.role, Role::Stored | Role::ReadOnly));
    &table::KINDS[..objects]
}

/// The kinds that are only asked and answered.
pub fn reviews() -> &'static [Kind] {
    let rest = &table::KINDS[kinds().len()..];
    &rest[..rest.partition_point(|kind| kind.role == Role::Review)]
}

/// The kind of an object or of a request's body. `DeleteOptions` belongs to every group.
pub fn lookup(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    let found = |row: &&Kind| {
        row.kind == kind
            && (row.kind == "DeleteOptions" || (row.group == group && row.version == version))
    };
    table::KINDS.iter().find(found)
}

impl Kind {
    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        scope: Scope,
        name_kind: NameKind,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            singular: singular_of(plural),
            short_names: &[],
            categories: &[],
            namespaced: matches!(scope, Scope::Namespaced),
            subresources: &[],
            has_generation: false,
            name_kind,
            role: Role::Stored,
            deletecollection: true,
            stored_as: None,
        }
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn all(self) -> Self {
        self.categories(&["all"])
    }

    const fn categories(mut self, names: &'static [&'static str]) -> Self {
        self.categories = names;
        self
    }

    const fn sub(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    const fn generation(mut self) -> Self {
        self.has_generation = true;
        self
    }

    const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    const fn without_deletecollection(mut self) -> Self {
        self.deletecollection = false;
        self
    }

    const fn stored_as(mut self, group: &'static str) -> Self {
        self.stored_as = Some(group);
        self
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether it is the kind `kind` of `group`.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// Whether it has this subresource.
    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// The name of its schema in the OpenAPI documents: `io.k8s.api.core.v1.Pod`.
    pub fn definition(&self) -> &'static str {
        types::table().name_of(self.group, self.version, self.kind)
    }

    /// The type of its objects. Parsed at the first call and shared afterwards.
    pub fn node(&self) -> Arc<Node> {
        schema::node(self.definition())
    }

    /// The kind whose objects hold the objects of this one: itself, unless `stored_as` is set.
    pub fn storage(&'static self) -> &'static Kind {
        let other = self.stored_as.and_then(|group| lookup(group, self.version, self.kind));
        other.unwrap_or(self)
    }
}

const fn singular_of(plural: &'static str) -> &'static str {
    let bytes = plural.as_bytes();
    let cut = match bytes {
        [] => 0,
        [.., b's', b's', b'e', b's'] => 2,
        _ => 1,
    };
    plural.split_at(bytes.len() - cut).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        let ranks: Vec<u8> =
            table::KINDS.iter().map(|kind| kind.role as u8 / 2 + (kind.role as u8 / 3)).collect();
        assert!(ranks.is_sorted(), "objects, then reviews, then bodies: {ranks:?}");
        assert_eq!(kinds().len(), 22);
        assert_eq!(reviews().len(), 5);
        let rows: Vec<_> = kinds().iter().map(|kind| (kind.group, kind.plural)).collect();
        assert!(rows.is_sorted());
        for kind in table::KINDS {
            assert!(kind.subresources.is_sorted_by_key(|sub| sub.name()), "{}", kind.kind);
        }
    }

    #[test]
    fn every_row_has_a_type_and_a_singular() {
        for kind in table::KINDS {
            assert!(kind.definition().ends_with(kind.kind), "{}", kind.definition());
            let expected =
                if kind.plural.is_empty() { String::new() } else { kind.kind.to_lowercase() };
            assert_eq!(kind.singular, expected);
        }
    }

    #[test]
    fn lookups() {
        assert_eq!(lookup("", "v1", "Pod").unwrap().plural, "pods");
        assert_eq!(lookup("meta.k8s.io", "v1", "DeleteOptions").unwrap().role, Role::Body);
        assert!(lookup("", "v1", "StatefulSet").is_none());
        let event = lookup("events.k8s.io", "v1", "Event").unwrap();
        assert_eq!(event.storage().group, "");
    }
}
