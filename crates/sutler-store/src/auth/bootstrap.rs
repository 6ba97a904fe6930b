//! The roles and bindings that are there from the first start, and how later starts bring them
//! up to date without taking away what a person added.

use serde_json::{Map, Value, json};

use super::rbac::GROUP;
use super::{AUTHENTICATED, MASTERS, UNAUTHENTICATED};

mod reconcile;
mod rules;

pub use reconcile::{Action, reconcile};

/// Set to `"false"` on an object, it keeps [`reconcile()`] away from it.
pub const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Every ClusterRole and ClusterRoleBinding that a new server starts with.
///
/// `admin`, `edit` and `view` collect their rules by label, so a person extends them by adding a
/// ClusterRole with the label. What Kubernetes gives them stands in `system:aggregate-to-*`, what
/// belongs to this system's own kinds in `sutler:aggregate-to-*`.
pub fn objects() -> Vec<Value> {
    vec![
        role("cluster-admin", &[], rules::cluster_admin()),
        role("system:discovery", &[], rules::discovery()),
        role("system:basic-user", &[], rules::basic_user()),
        role("system:public-info-viewer", &[], rules::public_info()),
        aggregated("admin", None),
        aggregated("edit", Some("admin")),
        aggregated("view", Some("edit")),
        role("system:aggregate-to-admin", &["admin"], rules::kubernetes_admin()),
        role("system:aggregate-to-edit", &["edit"], rules::kubernetes_edit()),
        role("system:aggregate-to-view", &["view"], rules::kubernetes_view()),
        role("sutler:aggregate-to-edit", &["edit"], rules::sutler_edit()),
        role("sutler:aggregate-to-view", &["view"], rules::sutler_view()),
        binding("cluster-admin", &[MASTERS]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
    ]
}

fn metadata(name: &str, aggregate_to: &[&str]) -> Value {
    let mut labels = Map::new();
    labels.insert(BOOTSTRAPPING.to_owned(), "rbac-defaults".into());
    for role in aggregate_to {
        labels.insert(format!("{AGGREGATE_TO}{role}"), "true".into());
    }
    json!({"name": name, "labels": labels, "annotations": {AUTOUPDATE: "true"}})
}

fn role(name: &str, aggregate_to: &[&str], rules: Vec<Value>) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": metadata(name, aggregate_to),
        "rules": rules,
    })
}

/// A role that collects those labelled with its name, and that may itself be collected.
fn aggregated(name: &str, into: Option<&str>) -> Value {
    let mut object = role(name, into.as_slice(), Vec::new());
    object["rules"] = Value::Null;
    let label = format!("{AGGREGATE_TO}{name}");
    let selector = json!({"matchLabels": {label: "true"}});
    object["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
    object
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subject = |group: &&str| json!({"kind": "Group", "apiGroup": GROUP, "name": group});
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata(role, &[]),
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
    })
}

#[cfg(test)]
mod tests {
    use super::super::User;
    use super::super::rbac::{Attributes, Policy};
    use super::*;

    fn policy(role: &str) -> (Policy, User) {
        let objects = objects();
        let of = |kind: &'static str| objects.iter().filter(move |o| o["kind"] == kind);
        let mine = json!({
            "metadata": {"name": "mine", "namespace": "team"},
            "subjects": [{"kind": "User", "name": "jane"}],
            "roleRef": {"kind": "ClusterRole", "name": role},
        });
        let policy = Policy::build(of("ClusterRole"), [], of("ClusterRoleBinding"), [&mine]);
        let user = User { name: "jane".into(), ..User::default() }.authenticated();
        (policy, user)
    }

    #[test]
    fn the_ready_made_roles_mean_what_they_say() {
        const VM: (&str, &str) = ("infra.virtrigaud.io", "virtualmachines");
        const GROUPS: (&str, &str) = ("autoscaler.vpsie.com", "nodegroups");
        const APPS: (&str, &str) = ("sutler.dev", "applications");
        const SECRETS: (&str, &str) = ("", "secrets");
        const ROLES: (&str, &str) = (GROUP, "roles");
        // Resource, verb, and whether view, edit, admin and cluster-admin may do it.
        for ((group, resource), verb, want) in [
            (VM, "get", [true, true, true, true]),
            (VM, "watch", [true, true, true, true]),
            (VM, "create", [false, true, true, true]),
            (VM, "delete", [false, true, true, true]),
            (GROUPS, "list", [true, true, true, true]),
            (GROUPS, "patch", [false, true, true, true]),
            (APPS, "get", [true, true, true, true]),
            (APPS, "update", [false, true, true, true]),
            (("sutler.dev", "operations"), "get", [true, true, true, true]),
            (("sutler.dev", "operations"), "create", [false, false, false, true]),
            (("autoscaler.vpsie.com", "autoscalerconfigs"), "get", [true, true, true, true]),
            (("autoscaler.vpsie.com", "autoscalerconfigs"), "update", [false, false, false, true]),
            (SECRETS, "get", [false, true, true, true]),
            (SECRETS, "create", [false, true, true, true]),
            (("", "configmaps"), "get", [true, true, true, true]),
            (("", "namespaces"), "get", [true, true, true, true]),
            (("", "namespaces"), "delete", [false, false, false, true]),
            (("coordination.k8s.io", "leases"), "update", [false, true, true, true]),
            (ROLES, "get", [false, false, true, true]),
            (ROLES, "create", [false, false, true, true]),
            (ROLES, "escalate", [false, false, false, true]),
            ((GROUP, "clusterroles"), "get", [false, false, false, true]),
        ] {
            for (role, want) in ["view", "edit", "admin", "cluster-admin"].iter().zip(want) {
                let (policy, user) = policy(role);
                let request = Attributes {
                    namespace: "team",
                    ..Attributes::resource(&user, verb, group, resource)
                };
                assert_eq!(policy.allows(&request), want, "{role}: {verb} {resource}.{group}");
                // None of it reaches beyond the namespace of the binding.
                let elsewhere = Attributes { namespace: "other", ..request };
                assert!(!policy.allows(&elsewhere), "{role}: {verb} {resource} elsewhere");
            }
        }
    }

    #[test]
    fn status_is_read_by_all_and_written_by_none_of_them() {
        for role in ["view", "edit", "admin"] {
            let (policy, user) = policy(role);
            let request = |verb, subresource| {
                policy.allows(&Attributes {
                    namespace: "team",
                    subresource,
                    ..Attributes::resource(&user, verb, "infra.virtrigaud.io", "virtualmachines")
                })
            };
            assert!(request("get", "status") && request("get", "scale"));
            assert!(!request("update", "status"));
            assert_eq!(request("update", "scale"), role != "view");
        }
    }

    #[test]
    fn everybody_may_discover_and_ask_about_themselves() {
        let (policy, user) = policy("none");
        for path in ["/version", "/api", "/apis/apps/v1", "/openapi/v3", "/healthz"] {
            assert!(policy.allows(&Attributes::path(&user, "get", path)), "{path}");
        }
        assert!(!policy.allows(&Attributes::path(&user, "get", "/metrics")));
        assert!(!policy.allows(&Attributes::path(&user, "post", "/api")));
        let reviews = [
            ("authorization.k8s.io", "selfsubjectaccessreviews", true),
            ("authorization.k8s.io", "selfsubjectrulesreviews", true),
            ("authentication.k8s.io", "selfsubjectreviews", true),
            ("authorization.k8s.io", "subjectaccessreviews", false),
        ];
        for (group, resource, want) in reviews {
            let request = Attributes::resource(&user, "create", group, resource);
            assert_eq!(policy.allows(&request), want, "{resource}");
        }
    }
}
