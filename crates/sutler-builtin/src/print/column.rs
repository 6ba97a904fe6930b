//! The columns of each kind's table.

use crate::Kind;

/// The head of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// The OpenAPI type of its cells.
    pub ty: &'static str,
    /// The OpenAPI format of its cells; `name` for the object's name.
    pub format: &'static str,
    /// Above 0 for columns that only `-o wide` shows.
    pub priority: i32,
    /// What it shows.
    pub description: &'static str,
}

/// The columns of a kind's table.
pub fn columns(kind: &Kind) -> &'static [Column] {
    match (kind.group, kind.kind) {
        ("", "Pod") => POD,
        ("", "Service") => SERVICE,
        ("" | "events.k8s.io", "Event") => EVENT,
        ("", "Namespace") => NAMESPACE,
        ("", "PersistentVolume") => PERSISTENT_VOLUME,
        ("", "ServiceAccount") => SERVICE_ACCOUNT,
        ("", "Secret") => SECRET,
        ("", "ConfigMap") => CONFIG_MAP,
        ("", "PersistentVolumeClaim") => PERSISTENT_VOLUME_CLAIM,
        ("", "Node") => NODE,
        ("apps", "Deployment") => DEPLOYMENT,
        ("apps", "ReplicaSet") => REPLICA_SET,
        ("apps", "DaemonSet") => DAEMON_SET,
        ("policy", "PodDisruptionBudget") => BUDGET,
        ("storage.k8s.io", "StorageClass") => STORAGE_CLASS,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => BINDING,
        ("coordination.k8s.io", "Lease") => LEASE,
        _ => OTHER,
    }
}

const fn text_column(name: &'static str, description: &'static str) -> Column {
    Column { name, ty: "string", format: "", priority: 0, description }
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { priority: 1, ..text_column(name, description) }
}

const fn number(name: &'static str, description: &'static str) -> Column {
    Column { ty: "integer", ..text_column(name, description) }
}

const NAME: Column = Column { format: "name", ..text_column("Name", "The name of the object.") };
const AGE: Column = text_column("Age", "The time since the object was created.");
const CREATED: Column =
    Column { ty: "date", ..text_column("Created At", "When the object was created.") };
const CONTAINERS: Column = wide("Containers", "The names of the template's containers.");
const IMAGES: Column = wide("Images", "The images of the template's containers.");
const SELECTOR: Column = wide("Selector", "The labels by which pods are selected.");

const POD: &[Column] = &[
    NAME,
    text_column("Ready", "Containers that are ready, and all of them."),
    text_column("Status", "The state of the pod as one word."),
    text_column("Restarts", "How often its containers were restarted, and when the last time."),
    AGE,
    wide("IP", "Its address."),
    wide("Node", "The node it runs on."),
    wide("Nominated Node", "The node it is going to run on."),
    wide("Readiness Gates", "Further conditions that hold, and all of them."),
];

const SERVICE: &[Column] = &[
    NAME,
    text_column("Type", "How the service is reached."),
    text_column("Cluster-IP", "The address inside the cluster."),
    text_column("External-IP", "The addresses outside the cluster."),
    text_column("Port(s)", "The ports."),
    AGE,
    SELECTOR,
];

const EVENT: &[Column] = &[
    text_column("Last Seen", "The time since it last happened."),
    text_column("Type", "Normal or Warning."),
    text_column("Reason", "What happened, in one word."),
    text_column("Object", "The object to which it happened."),
    wide("Subobject", "The part of the object to which it happened."),
    wide("Source", "Who reported it."),
    text_column("Message", "What happened."),
    wide("First Seen", "The time since it first happened."),
    wide("Count", "How often it happened."),
    Column { priority: 1, ..NAME },
];

const NAMESPACE: &[Column] = &[NAME, text_column("Status", "Whether it is going away."), AGE];

const SECRET: &[Column] = &[
    NAME,
    text_column("Type", "What the data is for."),
    text_column("Data", "The number of entries."),
    AGE,
];

const CONFIG_MAP: &[Column] = &[NAME, text_column("Data", "The number of entries."), AGE];

const SERVICE_ACCOUNT: &[Column] = &[NAME, AGE];

const PERSISTENT_VOLUME: &[Column] = &[
    NAME,
    text_column("Capacity", "The size."),
    text_column("Access Modes", "How it can be mounted."),
    text_column("Reclaim Policy", "What happens when its claim is gone."),
    text_column("Status", "Whether it is bound."),
    text_column("Claim", "The claim it is bound to."),
    text_column("StorageClass", "The class it belongs to."),
    text_column("VolumeAttributesClass", "The class of its attributes."),
    text_column("Reason", "Why it is in this state."),
    AGE,
    wide("VolumeMode", "Whether it is a file system or a device."),
];

const PERSISTENT_VOLUME_CLAIM: &[Column] = &[
    NAME,
    text_column("Status", "Whether it is bound."),
    text_column("Volume", "The volume it is bound to."),
    text_column("Capacity", "The size of that volume."),
    text_column("Access Modes", "How that volume can be mounted."),
    text_column("StorageClass", "The class it asks for."),
    text_column("VolumeAttributesClass", "The class of attributes it asks for."),
    AGE,
    wide("VolumeMode", "Whether it is a file system or a device."),
];

const NODE: &[Column] = &[
    NAME,
    text_column("Status", "Whether it is ready, and takes pods."),
    text_column("Roles", "What it is used for."),
    AGE,
    text_column("Version", "The version of its agent."),
    wide("Internal-IP", "Its address inside the cluster."),
    wide("External-IP", "Its address outside the cluster."),
    wide("OS-Image", "Its operating system."),
    wide("Kernel-Version", "Its kernel."),
    wide("Container-Runtime", "What runs its containers."),
];

const DEPLOYMENT: &[Column] = &[
    NAME,
    text_column("Ready", "Pods that are ready, and those that shall be."),
    text_column("Up-to-date", "Pods of the latest template."),
    text_column("Available", "Pods that have been ready long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SET: &[Column] = &[
    NAME,
    number("Desired", "Pods that shall be."),
    number("Current", "Pods that are."),
    number("Ready", "Pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const DAEMON_SET: &[Column] = &[
    NAME,
    number("Desired", "Nodes that shall have a pod."),
    number("Current", "Nodes that have one."),
    number("Ready", "Nodes on which it is ready."),
    number("Up-to-date", "Nodes on which it is of the latest template."),
    number("Available", "Nodes on which it has been ready long enough."),
    text_column("Node Selector", "The labels by which nodes are selected."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const BUDGET: &[Column] = &[
    NAME,
    text_column("Min Available", "Pods that must stay available."),
    text_column("Max Unavailable", "Pods that may be away."),
    number("Allowed Disruptions", "Pods that may be evicted now."),
    AGE,
];

const STORAGE_CLASS: &[Column] = &[
    NAME,
    text_column("Provisioner", "Who makes volumes of this class."),
    text_column("ReclaimPolicy", "What happens when a volume's claim is gone."),
    text_column("VolumeBindingMode", "When volumes are made."),
    text_column("AllowVolumeExpansion", "Whether volumes can grow."),
    AGE,
];

const BINDING: &[Column] = &[
    NAME,
    text_column("Role", "The role that is granted."),
    AGE,
    wide("Users", "The users it is granted to."),
    wide("Groups", "The groups it is granted to."),
    wide("ServiceAccounts", "The programs it is granted to."),
];

const LEASE: &[Column] = &[NAME, text_column("Holder", "Who holds it."), AGE];

const OTHER: &[Column] = &[NAME, CREATED];
