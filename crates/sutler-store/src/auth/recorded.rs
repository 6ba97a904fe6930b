//! Answers of a kube-apiserver 1.36.3 to requests about a fixed set of roles and bindings, which
//! stands on top of the ready-made one. Tests hold the answers given here against them.

use serde_json::Value;

use super::User;
use super::bootstrap;
use super::rbac::Policy;

/// The recording: `objects`, and under each further key a list of requests with their answers.
pub(super) fn load() -> Value {
    serde_json::from_str(include_str!("testdata/recorded.json")).unwrap()
}

/// The policy that the real server had.
pub(super) fn policy(recorded: &Value) -> Policy {
    let mut objects = bootstrap::objects();
    objects.extend(list(recorded, "objects").iter().cloned());
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    Policy::build(of("ClusterRole"), of("Role"), of("ClusterRoleBinding"), of("RoleBinding"))
}

pub(super) fn list<'v>(recorded: &'v Value, key: &str) -> &'v [Value] {
    let list = recorded[key].as_array().unwrap();
    assert!(!list.is_empty());
    list
}

pub(super) fn text<'v>(case: &'v Value, key: &str) -> &'v str {
    case[key].as_str().unwrap_or_default()
}

pub(super) fn user(case: &Value) -> User {
    let groups = case["groups"].as_array().into_iter().flatten();
    User {
        name: text(case, "user").to_owned(),
        groups: groups.map(|group| group.as_str().unwrap().to_owned()).collect(),
        ..User::default()
    }
}
