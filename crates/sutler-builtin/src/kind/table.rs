//! The table itself. One row a kind; `tools/generate` reads the first three columns of each row.

use sutler_schema::meta::NameKind::{self, *};

use super::{Kind, Role::*, Scope::*, Subresource::*};

/// The kinds that are stored, then those that are only read from requests.
pub(super) static KINDS: &[Kind] = &[
    row("", "v1", "ConfigMap", "configmaps", Namespaced, Subdomain).short(&["cm"]),
    row("", "v1", "Event", "events", Namespaced, Subdomain).short(&["ev"]),
    row("", "v1", "Namespace", "namespaces", Cluster, Label)
        .short(&["ns"])
        .sub(&[Finalize, Status])
        .without_deletecollection(),
    row("", "v1", "Node", "nodes", Cluster, Subdomain).short(&["no"]).sub(&[Status]),
    row("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Namespaced, Subdomain)
        .short(&["pvc"])
        .sub(&[Status]),
    row("", "v1", "PersistentVolume", "persistentvolumes", Cluster, Subdomain)
        .short(&["pv"])
        .sub(&[Status]),
    row("", "v1", "Pod", "pods", Namespaced, Subdomain)
        .short(&["po"])
        .all()
        .generation()
        .sub(&[Binding, Eviction, Status]),
    row("", "v1", "Secret", "secrets", Namespaced, Subdomain),
    row("", "v1", "ServiceAccount", "serviceaccounts", Namespaced, Subdomain).short(&["sa"]),
    row("", "v1", "Service", "services", Namespaced, Label).short(&["svc"]).all().sub(&[Status]),
    row(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        Cluster,
        Subdomain,
    )
    .short(&["crd", "crds"])
    .categories(&["api-extensions"])
    .generation()
    .sub(&[Status])
    .role(ReadOnly),
    row("apps", "v1", "DaemonSet", "daemonsets", Namespaced, Subdomain)
        .short(&["ds"])
        .all()
        .generation()
        .sub(&[Status]),
    row("apps", "v1", "Deployment", "deployments", Namespaced, Subdomain)
        .short(&["deploy"])
        .all()
        .generation()
        .sub(&[Scale, Status]),
    row("apps", "v1", "ReplicaSet", "replicasets", Namespaced, Subdomain)
        .short(&["rs"])
        .all()
        .generation()
        .sub(&[Scale, Status]),
    row("coordination.k8s.io", "v1", "Lease", "leases", Namespaced, Subdomain),
    row("events.k8s.io", "v1", "Event", "events", Namespaced, Subdomain)
        .short(&["ev"])
        .stored_as(""),
    row("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", Namespaced, Subdomain)
        .short(&["pdb"])
        .generation()
        .sub(&[Status]),
    row(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        Cluster,
        PathSegment,
    ),
    row("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", Cluster, PathSegment),
    row("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", Namespaced, PathSegment),
    row("rbac.authorization.k8s.io", "v1", "Role", "roles", Namespaced, PathSegment),
    row("storage.k8s.io", "v1", "StorageClass", "storageclasses", Cluster, Subdomain)
        .short(&["sc"]),
    row(
        "authentication.k8s.io",
        "v1",
        "SelfSubjectReview",
        "selfsubjectreviews",
        Cluster,
        Subdomain,
    )
    .role(Review),
    row(
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        Namespaced,
        Subdomain,
    )
    .role(Review),
    row(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        Cluster,
        Subdomain,
    )
    .role(Review),
    row(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        Cluster,
        Subdomain,
    )
    .role(Review),
    row(
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        Cluster,
        Subdomain,
    )
    .role(Review),
    row("", "v1", "DeleteOptions", "", Cluster, Subdomain).role(Body),
    row("", "v1", "Binding", "bindings", Namespaced, Subdomain).role(Body),
    row("autoscaling", "v1", "Scale", "", Namespaced, Subdomain).role(Body),
    row("policy", "v1", "Eviction", "", Namespaced, Subdomain).role(Body),
];

const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    scope: super::Scope,
    name: NameKind,
) -> Kind {
    Kind::new(group, version, kind, plural, scope, name)
}
