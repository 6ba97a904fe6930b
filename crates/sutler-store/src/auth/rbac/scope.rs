//! Roles and bindings of one scope (the cluster, or one namespace), indexed for lookup by subject.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::Rule;
use crate::auth::{SERVICE_ACCOUNT_PREFIX, User, gofmt};

/// The rules of one role, shared by all that refer to it.
pub(super) type Rules = Arc<[Rule]>;

/// What a binding refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RoleKind {
    ClusterRole,
    Role,
    Other(String),
}

impl RoleKind {
    pub(super) fn parse(kind: &str) -> Self {
        match kind {
            "ClusterRole" => Self::ClusterRole,
            "Role" => Self::Role,
            other => Self::Other(other.to_owned()),
        }
    }

    fn kind(&self) -> &str {
        match self {
            Self::ClusterRole => "ClusterRole",
            Self::Role => "Role",
            Self::Other(kind) => kind,
        }
    }

    pub(super) fn singular(&self) -> &str {
        match self {
            Self::ClusterRole => "clusterrole",
            Self::Role => "role",
            Self::Other(kind) => kind,
        }
    }

    pub(super) fn plural(&self) -> &'static str {
        match self {
            Self::ClusterRole => "clusterroles",
            Self::Role | Self::Other(_) => "roles",
        }
    }
}

/// One entry of a binding's `subjects`.
#[derive(Debug)]
pub(super) struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// A ClusterRoleBinding (empty namespace) or a RoleBinding.
#[derive(Debug)]
pub(super) struct Binding {
    name: String,
    pub(super) namespace: String,
    pub(super) role_kind: RoleKind,
    pub(super) role_name: String,
    subjects: Vec<Subject>,
}

impl Binding {
    fn parse(namespace: &str, object: &Value) -> Self {
        let subjects = object.get("subjects").and_then(Value::as_array);
        let subjects = subjects.into_iter().flatten().map(|subject| Subject {
            kind: text(subject, "kind").to_owned(),
            name: text(subject, "name").to_owned(),
            namespace: text(subject, "namespace").to_owned(),
        });
        let role = object.get("roleRef").unwrap_or(&Value::Null);
        Self {
            name: name_of(object).to_owned(),
            namespace: namespace.to_owned(),
            role_kind: RoleKind::parse(text(role, "kind")),
            role_name: text(role, "name").to_owned(),
            subjects: subjects.collect(),
        }
    }

    /// The binding and the subject by which it applies, as the reason for an allowance names them.
    pub(super) fn describe(&self, subject: &Subject) -> String {
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", gofmt::quote(&self.name)),
            namespace => ("RoleBinding", gofmt::quote(&format!("{}/{namespace}", self.name))),
        };
        let who = match subject.kind.as_str() {
            "ServiceAccount" if subject.namespace.is_empty() => {
                gofmt::quote(&format!("{}/{}", subject.name, self.namespace))
            }
            "ServiceAccount" => gofmt::quote(&format!("{}/{}", subject.name, subject.namespace)),
            _ => gofmt::quote(&subject.name),
        };
        let (role, role_name) = (self.role_kind.kind(), gofmt::quote(&self.role_name));
        format!("{kind} {name} of {role} {role_name} to {} {who}", subject.kind)
    }
}

/// Where a subject is named: the position of the binding, then of the subject in it.
type Place = (u32, u32);

/// All bindings of one scope, by name, with the places at which each user and group is named.
#[derive(Debug, Default)]
pub(super) struct BindingIndex {
    bindings: Vec<Binding>,
    users: HashMap<String, Vec<Place>>,
    groups: HashMap<String, Vec<Place>>,
}

impl BindingIndex {
    pub(super) fn build<'v>(namespace: &str, objects: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut bindings: Vec<Binding> =
            objects.into_iter().map(|object| Binding::parse(namespace, object)).collect();
        bindings.sort_by(|a, b| a.name.cmp(&b.name));
        let mut index = Self::default();
        for (b, binding) in (0u32..).zip(&bindings) {
            for (s, subject) in (0u32..).zip(&binding.subjects) {
                let places = match subject.kind.as_str() {
                    "User" => index.users.entry(subject.name.clone()).or_default(),
                    "Group" => index.groups.entry(subject.name.clone()).or_default(),
                    "ServiceAccount" => {
                        // Without a namespace of its own, the binding's is meant.
                        let place = match subject.namespace.as_str() {
                            "" => namespace,
                            own => own,
                        };
                        if place.is_empty() {
                            continue;
                        }
                        let user = format!("{SERVICE_ACCOUNT_PREFIX}{place}:{}", subject.name);
                        index.users.entry(user).or_default()
                    }
                    _ => continue,
                };
                places.push((b, s));
            }
        }
        index.bindings = bindings;
        index
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// The bindings that name the user or one of the groups, in order, each once with the first
    /// subject that does.
    pub(super) fn applying_to(&self, user: &User) -> impl Iterator<Item = (&Binding, &Subject)> {
        let mut places: Vec<Place> = Vec::new();
        places.extend(self.users.get(&user.name).into_iter().flatten());
        for group in &user.groups {
            places.extend(self.groups.get(group).into_iter().flatten());
        }
        places.sort_unstable();
        places.dedup_by_key(|(binding, _)| *binding);
        places.into_iter().map(|(binding, subject)| {
            let binding = &self.bindings[binding as usize];
            (binding, &binding.subjects[subject as usize])
        })
    }
}

/// The rules of Roles, by name.
pub(super) fn roles_by_name<'v>(
    objects: impl IntoIterator<Item = &'v Value>,
) -> HashMap<String, Rules> {
    let entry = |role: &Value| (name_of(role).to_owned(), Rule::list_of(role).into());
    objects.into_iter().map(entry).collect()
}

/// `metadata.name`, or nothing.
pub(super) fn name_of(object: &Value) -> &str {
    object.get("metadata").map_or("", |metadata| text(metadata, "name"))
}

/// `metadata.namespace`, or nothing.
pub(super) fn namespace_of(object: &Value) -> &str {
    object.get("metadata").map_or("", |metadata| text(metadata, "namespace"))
}

pub(super) fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}
