//! The rules of the ready-made roles.

use serde_json::{Value, json};

const CORE: &str = "";
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Kinds of this system whose objects a person writes, with those of their subresources that an
/// editor writes too.
const OWN: &[(&str, &[&str], &[&str])] = &[
    (
        "infra.virtrigaud.io",
        &[
            "providers",
            "virtualmachines",
            "vmclasses",
            "vmclones",
            "vmimages",
            "vmmigrations",
            "vmnetworkattachments",
            "vmplacementpolicies",
            "vmsets",
            "vmsnapshots",
        ],
        &["virtualmachines/scale", "vmsets/scale"],
    ),
    ("autoscaler.vpsie.com", &["nodegroups", "vpsienodes"], &["nodegroups/scale"]),
    ("sutler.dev", &["agents", "applications", "pendingadoptions", "vmdisks", "vmtemplates"], &[]),
];
/// Kinds that an editor only reads: settings of the whole cluster, and records that the
/// controllers keep of what was done.
const OWN_READ_ONLY: &[(&str, &[&str])] =
    &[("autoscaler.vpsie.com", &["autoscalerconfigs"]), ("sutler.dev", &["operations"])];

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

fn paths(paths: &[&str]) -> Vec<Value> {
    vec![json!({"verbs": ["get"], "nonResourceURLs": paths})]
}

pub(super) fn cluster_admin() -> Vec<Value> {
    vec![rule(&["*"], &["*"], &["*"]), json!({"verbs": ["*"], "nonResourceURLs": ["*"]})]
}

pub(super) fn discovery() -> Vec<Value> {
    paths(&[
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ])
}

pub(super) fn public_info() -> Vec<Value> {
    paths(&["/healthz", "/livez", "/readyz", "/version", "/version/"])
}

pub(super) fn basic_user() -> Vec<Value> {
    let reviews = &["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
    vec![
        rule(&["create"], &["authorization.k8s.io"], reviews),
        rule(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
    ]
}

pub(super) fn kubernetes_admin() -> Vec<Value> {
    vec![
        rule(&["create"], &["authorization.k8s.io"], &["localsubjectaccessreviews"]),
        rule(READ_WRITE, &["rbac.authorization.k8s.io"], &["rolebindings", "roles"]),
    ]
}

/// As in Kubernetes 1.36, kinds that are not served here included: the rules are part of what
/// clients see, and a role copied from here to a cluster should mean the same there.
pub(super) fn kubernetes_edit() -> Vec<Value> {
    let streams = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy"];
    vec![
        rule(READ, &[CORE], &[&streams[..], &["secrets", "services/proxy"]].concat()),
        rule(&["impersonate"], &[CORE], &["serviceaccounts"]),
        rule(WRITE, &[CORE], &[&["pods"][..], &streams].concat()),
        rule(&["create"], &[CORE], &["pods/eviction"]),
        rule(
            WRITE,
            &[CORE],
            &[
                "configmaps",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
        ),
        rule(&["create"], &[CORE], &["serviceaccounts/token"]),
        rule(WRITE, &[CORE, "events.k8s.io"], &["events"]),
        rule(
            WRITE,
            &["apps"],
            &[
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "replicasets",
                "replicasets/scale",
                "statefulsets",
                "statefulsets/scale",
            ],
        ),
        rule(WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
        rule(WRITE, &["batch"], &["cronjobs", "jobs"]),
        rule(
            WRITE,
            &["extensions"],
            &[
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "ingresses",
                "networkpolicies",
                "replicasets",
                "replicasets/scale",
                "replicationcontrollers/scale",
            ],
        ),
        rule(WRITE, &["policy"], &["poddisruptionbudgets"]),
        rule(WRITE, &["networking.k8s.io"], &["ingresses", "networkpolicies"]),
        rule(READ_WRITE, &["coordination.k8s.io"], &["leases"]),
        rule(WRITE, &["resource.k8s.io"], &["resourceclaims", "resourceclaimtemplates"]),
    ]
}

/// As in Kubernetes 1.36: everything in a namespace that gives no power beyond reading, so no
/// Secrets.
pub(super) fn kubernetes_view() -> Vec<Value> {
    vec![
        rule(
            READ,
            &[CORE],
            &[
                "configmaps",
                "endpoints",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "serviceaccounts",
                "services",
                "services/status",
            ],
        ),
        rule(
            READ,
            &[CORE],
            &[
                "bindings",
                "limitranges",
                "namespaces/status",
                "pods/log",
                "pods/status",
                "replicationcontrollers/status",
                "resourcequotas",
                "resourcequotas/status",
            ],
        ),
        rule(READ, &[CORE], &["namespaces"]),
        rule(READ, &[CORE, "events.k8s.io"], &["events"]),
        rule(READ, &["discovery.k8s.io"], &["endpointslices"]),
        rule(
            READ,
            &["apps"],
            &[
                "controllerrevisions",
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "statefulsets",
                "statefulsets/scale",
                "statefulsets/status",
            ],
        ),
        rule(
            READ,
            &["autoscaling"],
            &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
        ),
        rule(READ, &["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
        rule(
            READ,
            &["extensions"],
            &[
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "ingresses",
                "ingresses/status",
                "networkpolicies",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "replicationcontrollers/scale",
            ],
        ),
        rule(READ, &["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
        rule(READ, &["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"]),
        rule(
            READ,
            &["resource.k8s.io"],
            &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"],
        ),
    ]
}

pub(super) fn sutler_edit() -> Vec<Value> {
    let editable = |(group, resources, subresources): &(&str, &[&str], &[&str])| {
        rule(WRITE, &[group], &[*resources, *subresources].concat())
    };
    OWN.iter().map(editable).collect()
}

pub(super) fn sutler_view() -> Vec<Value> {
    let with_status = |resources: &[&str]| -> Vec<String> {
        resources.iter().flat_map(|r| [(*r).to_owned(), format!("{r}/status")]).collect()
    };
    let readable = |group: &str, mut resources: Vec<String>| {
        resources.sort_unstable();
        json!({"verbs": READ, "apiGroups": [group], "resources": resources})
    };
    let own = OWN.iter().map(|(group, resources, subresources)| {
        let mut all = with_status(resources);
        all.extend(subresources.iter().map(|r| (*r).to_owned()));
        readable(group, all)
    });
    let read_only =
        OWN_READ_ONLY.iter().map(|(group, resources)| readable(group, with_status(resources)));
    own.chain(read_only).collect()
}
