//! Nobody grants what they do not hold: checks on writes of roles and bindings.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::scope::{RoleKind, name_of, text};
use super::{Attributes, GROUP, Policy, Rule, cover};
use crate::auth::{MASTERS, User, gofmt};

/// A write of a Role, ClusterRole, RoleBinding or ClusterRoleBinding that is about to happen.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Who writes.
    pub user: &'a User,
    /// The plural resource name of the kind.
    pub resource: &'static str,
    /// The namespace of the URL; empty at the cluster scope.
    pub namespace: &'a str,
    /// The name in the URL; empty for a create.
    pub url_name: &'a str,
    /// The object as it will be stored.
    pub new: &'a Value,
    /// The object as it is, unless this creates it.
    pub old: Option<&'a Value>,
}

/// Why a write of roles or bindings is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// 403: it would grant more than the writer holds.
    #[error("{resource}.{GROUP} {} is forbidden: {why}", gofmt::quote(.name))]
    Forbidden {
        /// The plural name of the resource that was to be written.
        resource: &'static str,
        /// The name of the object that was to be written.
        name: String,
        /// What stands behind `is forbidden: `.
        why: String,
    },
    /// 404: the role that a binding refers to is not there, so nobody knows what it grants.
    #[error("{resource}.{GROUP} {} not found", gofmt::quote(.name))]
    RoleNotFound {
        /// The plural name of the resource that was to be written: the real server, too, names
        /// that one and not the role's.
        resource: &'static str,
        /// The name of the role.
        name: String,
    },
    /// 500: the binding refers to a kind that is no role.
    #[error("unsupported role reference kind: {}", gofmt::quote(.0))]
    UnknownRoleKind(String),
}

/// Checks a create or update of a `roles` or `clusterroles` object.
pub fn check_role(policy: &Policy, write: &Write<'_>) -> Result<(), Refusal> {
    if write.user.is_in(MASTERS) || may_escalate(policy, write) || changes_only_ownership(write) {
        return Ok(());
    }
    let forbidden = |why: String| Refusal::Forbidden {
        resource: write.resource,
        name: name_of(write.new).to_owned(),
        why,
    };
    let rules = Rule::list_of(write.new);
    confirm(policy, write, &rules).map_err(forbidden)?;
    let aggregates = write.resource == "clusterroles"
        && (has_aggregation(write.new) || write.old.is_some_and(has_aggregation));
    // A selector can collect anything, so setting one takes power over everything.
    if aggregates && confirm(policy, write, &full_authority()).is_err() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(forbidden(why.to_owned()));
    }
    Ok(())
}

/// Checks a create or update of a `rolebindings` or `clusterrolebindings` object.
pub fn check_binding(policy: &Policy, write: &Write<'_>) -> Result<(), Refusal> {
    if write.user.is_in(MASTERS) || changes_only_ownership(write) {
        return Ok(());
    }
    let role = write.new.get("roleRef").unwrap_or(&Value::Null);
    let kind = RoleKind::parse(text(role, "kind"));
    let name = text(role, "name");
    if let RoleKind::Other(kind) = kind {
        return Err(Refusal::UnknownRoleKind(kind));
    }
    let bind = Attributes {
        version: "*",
        name,
        namespace: write.namespace,
        ..Attributes::resource(write.user, "bind", text(role, "apiGroup"), kind.plural())
    };
    if policy.allows(&bind) {
        return Ok(());
    }
    let rules = policy
        .role_rules(&kind, name, write.namespace)
        .map_err(|_| Refusal::RoleNotFound { resource: write.resource, name: name.to_owned() })?;
    confirm(policy, write, rules).map_err(|why| Refusal::Forbidden {
        resource: write.resource,
        name: name_of(write.new).to_owned(),
        why,
    })
}

/// Whether the writer holds all of `rules` in the namespace; if not, the text that lists the rest.
fn confirm(policy: &Policy, write: &Write<'_>, rules: &[Rule]) -> Result<(), String> {
    let (held, unresolved) = policy.collect(write.user, write.namespace);
    let missing = cover::uncovered(&held, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let mut text = refusal_text(write.user, missing);
    if !unresolved.is_empty() {
        let errors: Vec<String> =
            unresolved.iter().map(|error| error.registry_text(write.resource)).collect();
        text.push_str(&format!("; resolution errors: [{}]", gofmt::join_errors(&errors)));
    }
    Err(text)
}

/// The refusal of a grant, from what [`Policy::missing`] returned.
pub fn refusal_text(user: &User, missing: Vec<Rule>) -> String {
    let lines: BTreeSet<String> = cover::compact(missing).iter().map(Rule::compact).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        gofmt::quote(&user.name),
        gofmt::quote_list(&user.groups),
        lines.join("\n")
    )
}

fn may_escalate(policy: &Policy, write: &Write<'_>) -> bool {
    policy.allows(&Attributes {
        version: "*",
        name: write.url_name,
        namespace: write.namespace,
        ..Attributes::resource(write.user, "escalate", GROUP, write.resource)
    })
}

fn has_aggregation(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

fn full_authority() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { api_groups: all(), resources: all(), verbs: all(), ..Rule::default() },
        Rule { non_resource_urls: all(), verbs: all(), ..Rule::default() },
    ]
}

/// Whether an update changes nothing but what garbage collection writes: owner references and
/// finalizers. The collector needs no rights over what the role grants.
fn changes_only_ownership<'a>(write: &Write<'a>) -> bool {
    const OWNERSHIP: [&str; 4] = ["finalizers", "managedFields", "ownerReferences", "selfLink"];
    let (Some(old), Some(new)) = (write.old.and_then(Value::as_object), write.new.as_object())
    else {
        return false;
    };
    let others = |object: &'a Map<String, Value>| object.iter().filter(|(k, _)| *k != "metadata");
    let metadata = |object: &'a Map<String, Value>| {
        let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
        metadata.filter(|(key, _)| !OWNERSHIP.contains(&key.as_str()))
    };
    others(old).eq(others(new)) && metadata(old).eq(metadata(new))
}
