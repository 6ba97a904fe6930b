//! Values for fields that were not given. Defaults belong to types, not to kinds: the type table is
//! walked once, and every struct that has rules of its own gets them, wherever it stands.

mod convert;
mod pod;

use serde_json::{Map, Value, json};

pub(crate) use pod::{merge_label_keys, qos_class};

use crate::{
    Kind, image,
    json::{
        default, default_int, default_text, ensure_object, flag, has, int, items_mut, object_mut,
        set, text,
    },
    quantity,
    strategy::TEMPLATE_GENERATION,
    types::{self, Type, Types},
};

/// Fills in what was not given, as the reference implementation does when it reads an object.
/// `object` is what [`crate::decode()`] returned. Applying it again changes nothing.
pub fn apply_defaults(kind: &Kind, object: &mut Value) {
    let types = types::table();
    let root = types.named(kind.definition()).expect("every kind of the table has a type");
    fill(types, root, object);
    convert::settle(kind, object);
}

fn fill(types: &Types, index: usize, value: &mut Value) {
    if !value.is_object() {
        return;
    }
    let ty = types.get(index);
    own_rules(ty.name, value);
    for field in &ty.fields {
        match (&field.ty, field.name) {
            (Type::Struct(inner), "") => fill(types, *inner, value),
            (_, "metadata") => {}
            (ty, name) => {
                if let Some(content) = &field.default
                    && is_unset(value.get(name))
                {
                    set(value, name, content.clone());
                }
                if let Some(inner) = value.get_mut(name) {
                    descend(types, ty, inner);
                }
            }
        }
    }
}

fn descend(types: &Types, ty: &Type, value: &mut Value) {
    match (ty, value) {
        (Type::Struct(index), value) => fill(types, *index, value),
        (Type::Pointer(inner), value) => descend(types, inner, value),
        (Type::List(inner), Value::Array(list)) => {
            list.iter_mut().for_each(|item| descend(types, inner, item));
        }
        // Amounts are kept to a thousandth, rounded up.
        (Type::Map(inner), Value::Object(map)) if **inner == Type::Quantity => {
            for amount in map.values_mut() {
                if let Some(rounded) = amount.as_str().and_then(quantity::round_to_milli) {
                    *amount = rounded.into();
                }
            }
        }
        (Type::Map(inner), Value::Object(map)) => {
            map.values_mut().for_each(|item| descend(types, inner, item));
        }
        _ => {}
    }
}

fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// The rules of one struct type.
fn own_rules(name: &str, value: &mut Value) {
    let Some(name) = name.strip_prefix("io.k8s.api.") else { return };
    match name {
        "core.v1.Pod" => pod::pod(value),
        "core.v1.PodSpec" => pod::spec(value),
        "core.v1.Container" | "core.v1.EphemeralContainer" => pod::container(value),
        "core.v1.Probe" => pod::probe(value),
        "core.v1.Volume" => pod::volume(value),
        "core.v1.HTTPGetAction" => {
            default_text(value, "path", "/");
            default_text(value, "scheme", "HTTP");
        }
        "core.v1.SecretVolumeSource"
        | "core.v1.ConfigMapVolumeSource"
        | "core.v1.DownwardAPIVolumeSource"
        | "core.v1.ProjectedVolumeSource" => default(value, "defaultMode", 0o644),
        "core.v1.HostPathVolumeSource" => default(value, "type", ""),
        "core.v1.ServiceAccountTokenProjection" => default(value, "expirationSeconds", 3600),
        "core.v1.ObjectFieldSelector" => default_text(value, "apiVersion", "v1"),
        "core.v1.Secret" => default_text(value, "type", "Opaque"),
        "core.v1.Namespace" => namespace(value),
        "core.v1.NamespaceStatus" => default_text(value, "phase", "Active"),
        "core.v1.NodeStatus" if !has(value, "allocatable") && has(value, "capacity") => {
            let capacity = value["capacity"].clone();
            set(value, "allocatable", capacity);
        }
        "core.v1.PersistentVolume" => persistent_volume(value),
        "core.v1.PersistentVolumeClaim" => {
            if let Some(status) = ensure_object(value, "status") {
                default_text(status, "phase", "Pending");
            }
        }
        "core.v1.PersistentVolumeClaimSpec" => default(value, "volumeMode", "Filesystem"),
        "core.v1.Service" => service(value),
        "storage.v1.StorageClass" => {
            default(value, "reclaimPolicy", "Delete");
            default(value, "volumeBindingMode", "Immediate");
        }
        "apps.v1.Deployment" => deployment(value),
        "apps.v1.DaemonSet" => daemon_set(value),
        "apps.v1.ReplicaSet" => {
            if let Some(spec) = ensure_object(value, "spec") {
                default(spec, "replicas", 1);
            }
        }
        "rbac.v1.RoleBinding" | "rbac.v1.ClusterRoleBinding" => {
            if let Some(role) = object_mut(value, "roleRef") {
                default_text(role, "apiGroup", RBAC);
            }
        }
        "rbac.v1.Subject" => {
            if matches!(text(value, "kind"), "User" | "Group") {
                default_text(value, "apiGroup", RBAC);
            }
        }
        _ => {}
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn namespace(value: &mut Value) {
    let name = text(&value["metadata"], "name").to_owned();
    if !name.is_empty()
        && let Some(meta) = ensure_object(value, "metadata")
        && let Some(labels) = ensure_object(meta, "labels")
    {
        set(labels, "kubernetes.io/metadata.name", name);
    }
}

fn persistent_volume(value: &mut Value) {
    if let Some(status) = ensure_object(value, "status") {
        default_text(status, "phase", "Pending");
    }
    if let Some(spec) = ensure_object(value, "spec") {
        default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        default(spec, "volumeMode", "Filesystem");
    }
}

fn service(value: &mut Value) {
    let Some(spec) = ensure_object(value, "spec") else { return };
    default_text(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            crate::json::remove(spec, "sessionAffinityConfig");
        }
        "ClientIP" => {
            let given = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
            if given.is_null() {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                set(spec, "sessionAffinityConfig", config);
            }
        }
        _ => {}
    }
    default_text(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        default_text(port, "protocol", "TCP");
        let target = &port["targetPort"];
        if target == 0 || target == "" || target.is_null() {
            let number = int(port, "port");
            set(port, "targetPort", number);
        }
    }
    let ty = text(spec, "type").to_owned();
    let external = matches!(ty.as_str(), "LoadBalancer" | "NodePort")
        || (ty == "ClusterIP" && has(spec, "externalIPs"));
    if external {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(ty.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if ty == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = value.pointer_mut("/status/loadBalancer") {
            for ingress in items_mut(balancer, "ingress") {
                if !text(ingress, "ip").is_empty() {
                    default(ingress, "ipMode", "VIP");
                }
            }
        }
    }
}

fn deployment(value: &mut Value) {
    let Some(spec) = ensure_object(value, "spec") else { return };
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    rolling_update(spec, "strategy", &"25%".into(), &"25%".into());
}

fn daemon_set(value: &mut Value) {
    // It stands where a field stood once: whoever writes the object writes it, too.
    if let Some(meta) = ensure_object(value, "metadata")
        && let Some(annotations) = ensure_object(meta, "annotations")
    {
        default(annotations, TEMPLATE_GENERATION, "0");
    }
    let Some(spec) = ensure_object(value, "spec") else { return };
    default(spec, "revisionHistoryLimit", 10);
    rolling_update(spec, "updateStrategy", &1.into(), &0.into());
}

fn rolling_update(spec: &mut Value, key: &str, unavailable: &Value, surge: &Value) {
    let Some(strategy) = ensure_object(spec, key) else { return };
    default_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(update) = ensure_object(strategy, "rollingUpdate")
    {
        default(update, "maxUnavailable", unavailable.clone());
        default(update, "maxSurge", surge.clone());
    }
}

/// The pull policy that an image's tag implies.
fn pull_policy(name: &str) -> &'static str {
    if image::tag(name) == "latest" { "Always" } else { "IfNotPresent" }
}

/// Requests that are not given equal the limits.
fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(requests) = ensure_object(resources, "requests") else { return };
    merge_missing(requests, limits);
}

fn merge_missing(target: &mut Value, entries: Map<String, Value>) {
    for (name, amount) in entries {
        default(target, &name, amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, lookup};

    fn defaulted(group: &str, kind: &str, object: Value) -> Value {
        let kind = lookup(group, "v1", kind).unwrap();
        let mut object = decode(kind, object).unwrap();
        apply_defaults(kind, &mut object);
        let once = object.clone();
        apply_defaults(kind, &mut object);
        assert_eq!(object, once, "defaults are idempotent");
        assert_eq!(decode(kind, once.clone()).unwrap(), once, "defaults are in written form");
        object
    }

    #[test]
    fn a_minimal_deployment() {
        let spec = json!({"selector": {}, "template": {"spec": {"containers": [{"name": "c",
            "image": "i", "ports": [{"containerPort": 80}]}]}}});
        let object = defaulted("apps", "Deployment", json!({"spec": spec}));
        let template = &object["spec"]["template"]["spec"];
        assert_eq!(template["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(template["containers"][0]["ports"][0]["protocol"], "TCP");
        assert_eq!(template["dnsPolicy"], "ClusterFirst");
        assert_eq!(template["securityContext"], json!({}));
        assert_eq!(template.get("enableServiceLinks"), None, "only pods have it");
        assert_eq!(object["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    }

    #[test]
    fn the_account_is_mirrored_and_text_data_moves() {
        let pod = defaulted("", "Pod", json!({"spec": {"serviceAccount": "a", "containers": []}}));
        assert_eq!(pod["spec"]["serviceAccountName"], "a");
        let secret = defaulted(
            "",
            "Secret",
            json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"a": "new"}}),
        );
        assert_eq!(secret["data"], json!({"a": "bmV3", "b": "eQ=="}));
        assert_eq!(secret.get("stringData"), None);
        assert_eq!(secret["type"], "Opaque");
    }

    #[test]
    fn a_service_of_each_type() {
        let spec = |ty: &str| {
            let spec = json!({"type": ty, "ports": [{"port": 80}]});
            defaulted("", "Service", json!({"spec": spec}))["spec"].clone()
        };
        assert_eq!(spec("")["type"], "ClusterIP");
        assert_eq!(spec("")["ports"][0]["targetPort"], 80);
        assert_eq!(spec("").get("externalTrafficPolicy"), None);
        assert_eq!(spec("NodePort")["externalTrafficPolicy"], "Cluster");
        assert_eq!(spec("LoadBalancer")["allocateLoadBalancerNodePorts"], true);
        assert_eq!(spec("ExternalName").get("internalTrafficPolicy"), None);
    }
}
