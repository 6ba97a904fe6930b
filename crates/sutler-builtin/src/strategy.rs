//! What each kind changes in an object that is about to be created or updated: the status and other
//! fields that a request may not set, generations, and values that follow from others.

mod service;

use serde_json::{Value, json};

pub use service::{assign_cluster_ip, assign_node_ports, is_cluster_ip, needs_cluster_ip};

use crate::{
    Kind,
    defaults::{merge_label_keys, qos_class},
    json::{
        at, copy, ensure_object, get, has, int, items, items_mut, object_mut, remove, set, text,
        texts,
    },
};

/// The annotation under which a daemon set keeps the count of its template's changes.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Changes a defaulted object that a request creates, its system metadata already set.
pub fn prepare_for_create(kind: &Kind, object: &mut Value) {
    if kind.has_generation
        && let Some(meta) = ensure_object(object, "metadata")
    {
        set(meta, "generation", 1);
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => create_pod(object),
        ("", "Namespace") => {
            set(object, "status", json!({"phase": "Active"}));
            if let Some(spec) = ensure_object(object, "spec")
                && !texts(spec, "finalizers").any(|name| name == "kubernetes")
            {
                let mut all = items(spec, "finalizers").to_vec();
                all.push("kubernetes".into());
                set(spec, "finalizers", all);
            }
            label_namespace(object);
        }
        ("", "Service") => {
            set(object, "status", json!({"loadBalancer": {}}));
            service::create(object);
        }
        ("", "Node") => {
            forget(object, &["spec", "configSource"]);
            forget(object, &["status", "config"]);
        }
        ("", "PersistentVolume") => {
            let created = at(object, &["metadata", "creationTimestamp"]).clone();
            set(object, "status", json!({"phase": "Pending"}));
            if created.is_string() {
                set(&mut object["status"], "lastPhaseTransitionTime", created);
            }
        }
        ("", "PersistentVolumeClaim") => {
            set(object, "status", json!({"phase": "Pending"}));
            if let Some(spec) = object_mut(object, "spec") {
                drop_old_data_source(spec, &Value::Null);
                mirror_data_source(spec);
            }
        }
        ("", "ServiceAccount") => bare_secret_references(object),
        ("apps", "Deployment") => set(object, "status", json!({})),
        ("apps", "ReplicaSet") => set(object, "status", json!({"replicas": 0})),
        ("apps", "DaemonSet") => {
            set(object, "status", empty_daemon_set_status());
            let given = template_generation(object);
            set_template_generation(object, given.max(1));
        }
        ("policy", "PodDisruptionBudget") => set(object, "status", empty_budget_status()),
        ("coordination.k8s.io", "Lease") => drop_election(object, &Value::Null),
        _ => {}
    }
}

/// Changes a defaulted object that a request writes over `old`, whole or through a subresource.
pub fn prepare_for_update(kind: &Kind, new: &mut Value, old: &Value, subresource: Option<&str>) {
    if let Some(meta) = ensure_object(new, "metadata") {
        copy(meta, &old["metadata"], "generation");
    }
    match subresource {
        Some("status") => update_status(kind, new, old),
        Some("finalize") => copy(new, old, "status"),
        // A new scale is an update of the object in which only the number differs.
        _ => update_whole(kind, new, old),
    }
}

fn update_whole(kind: &Kind, new: &mut Value, old: &Value) {
    let keeps_status = !matches!(
        (kind.group, kind.kind),
        ("", "Event" | "Secret" | "ConfigMap" | "ServiceAccount")
            | ("events.k8s.io" | "coordination.k8s.io" | "storage.k8s.io", _)
            | ("rbac.authorization.k8s.io", _)
    );
    if keeps_status {
        copy(new, old, "status");
    }
    match (kind.group, kind.kind) {
        ("", "Namespace") => {
            let finalizers = &old["spec"];
            if let Some(spec) = ensure_object(new, "spec") {
                copy(spec, finalizers, "finalizers");
            }
            label_namespace(new);
        }
        ("", "Secret") if text(new, "type").is_empty() => copy(new, old, "type"),
        ("", "Service") => service::update(new, old),
        ("", "Node") if !has(get(old, "spec"), "configSource") => {
            forget(new, &["spec", "configSource"]);
        }
        ("", "PersistentVolumeClaim") => {
            if let Some(spec) = object_mut(new, "spec") {
                drop_old_data_source(spec, &old["spec"]);
                mirror_data_source(spec);
            }
        }
        ("", "ServiceAccount") => bare_secret_references(new),
        ("apps", "DaemonSet") => {
            let mut generation = template_generation(old);
            if new["spec"]["template"] != old["spec"]["template"] {
                generation += 1;
            }
            set_template_generation(new, generation);
        }
        ("coordination.k8s.io", "Lease") => drop_election(new, old),
        _ => {}
    }
    if kind.has_generation && spec_changed(kind, new, old) {
        let generation = int(&old["metadata"], "generation") + 1;
        set(&mut new["metadata"], "generation", generation);
    }
}

fn spec_changed(kind: &Kind, new: &Value, old: &Value) -> bool {
    // The revision of a rollout is an annotation, so deployments count these as well.
    let annotations = |object: &'_ Value| at(object, &["metadata", "annotations"]).clone();
    get(new, "spec") != get(old, "spec")
        || (kind.is("apps", "Deployment") && annotations(new) != annotations(old))
}

fn update_status(kind: &Kind, new: &mut Value, old: &Value) {
    copy(new, old, "spec");
    match (kind.group, kind.kind) {
        ("", "Pod") => {
            let meta = &mut new["metadata"];
            copy(meta, &old["metadata"], "deletionTimestamp");
            copy(meta, &old["metadata"], "ownerReferences");
            let Some(status) = ensure_object(new, "status") else { return };
            if text(status, "qosClass").is_empty() {
                copy(status, &old["status"], "qosClass");
            }
            keep_observed_generations(status, &old["status"]);
        }
        ("", "Node") if !has(get(old, "status"), "config") => {
            forget(new, &["status", "config"]);
        }
        ("", "PersistentVolume") => {
            let Some(status) = ensure_object(new, "status") else { return };
            if !has(status, "lastPhaseTransitionTime") {
                copy(status, &old["status"], "lastPhaseTransitionTime");
            }
        }
        ("", "Namespace") => label_namespace(new),
        ("apps", "Deployment") => copy(&mut new["metadata"], &old["metadata"], "labels"),
        ("apps", "DaemonSet") => set_template_generation(new, template_generation(old)),
        _ => {}
    }
}

fn create_pod(pod: &mut Value) {
    let class = qos_class(pod);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if !items(&pod["spec"], "schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null,
            "lastTransitionTime": at(pod, &["metadata", "creationTimestamp"]).clone(),
        }]);
    }
    set(pod, "status", status);
    let labels = at(pod, &["metadata", "labels"]).clone();
    let Some(spec) = object_mut(pod, "spec") else { return };
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        merge_label_keys(constraint, &labels);
    }
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.pointer_mut(&format!("/affinity/{affinity}")) else { continue };
        for term in items_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_label_keys(term, &labels);
        }
        for weighted in items_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = object_mut(weighted, "podAffinityTerm") {
                merge_label_keys(term, &labels);
            }
        }
    }
}

/// Writers that do not know of observed generations shall not erase them.
fn keep_observed_generations(status: &mut Value, old: &Value) {
    if int(status, "observedGeneration") == 0 {
        copy(status, old, "observedGeneration");
    }
    let mut seen: Vec<(String, i64)> = items(old, "conditions")
        .iter()
        .map(|row| (text(row, "type").to_owned(), int(row, "observedGeneration")))
        .collect();
    for condition in items_mut(status, "conditions") {
        let ty = text(condition, "type").to_owned();
        let found = seen.iter().position(|(name, _)| *name == ty).map(|i| seen.remove(i).1);
        if int(condition, "observedGeneration") == 0
            && let Some(generation @ 1..) = found
        {
            set(condition, "observedGeneration", generation);
        }
    }
}

fn label_namespace(object: &mut Value) {
    let name = text(&object["metadata"], "name").to_owned();
    if let Some(meta) = ensure_object(object, "metadata")
        && let Some(labels) = ensure_object(meta, "labels")
    {
        set(labels, "kubernetes.io/metadata.name", name);
    }
}

fn empty_daemon_set_status() -> Value {
    json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
        "numberReady": 0})
}

fn empty_budget_status() -> Value {
    json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
}

fn template_generation(object: &Value) -> i64 {
    let annotation = at(object, &["metadata", "annotations", TEMPLATE_GENERATION]);
    annotation.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(meta) = ensure_object(object, "metadata")
        && let Some(annotations) = ensure_object(meta, "annotations")
    {
        set(annotations, TEMPLATE_GENERATION, generation.to_string());
    }
}

fn bare_secret_references(object: &mut Value) {
    for secret in items_mut(object, "secrets") {
        *secret = match text(secret, "name") {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}

fn drop_election(lease: &mut Value, old: &Value) {
    for name in ["strategy", "preferredHolder"] {
        if !has(&old["spec"], name) {
            forget(lease, &["spec", name]);
        }
    }
}

/// Only claims and snapshots can be data sources in the old field; anything else was ignored.
fn drop_old_data_source(spec: &mut Value, old: &Value) {
    if has(old, "dataSource") || has(old, "dataSourceRef") || has(spec, "dataSourceRef") {
        return;
    }
    let source = &spec["dataSource"];
    let claim =
        text(source, "apiGroup").is_empty() && text(source, "kind") == "PersistentVolumeClaim";
    let snapshot = text(source, "apiGroup") == "snapshot.storage.k8s.io"
        && text(source, "kind") == "VolumeSnapshot";
    if !claim && !snapshot {
        remove(spec, "dataSource");
    }
}

fn mirror_data_source(spec: &mut Value) {
    match (has(spec, "dataSource"), has(spec, "dataSourceRef")) {
        (true, false) => {
            let source = spec["dataSource"].clone();
            set(spec, "dataSourceRef", source);
        }
        (false, true) if text(&spec["dataSourceRef"], "namespace").is_empty() => {
            let mut source = spec["dataSourceRef"].clone();
            remove(&mut source, "namespace");
            set(spec, "dataSource", source);
        }
        _ => {}
    }
}

fn forget(object: &mut Value, path: &[&str; 2]) {
    if let Some(outer) = object_mut(object, path[0]) {
        remove(outer, path[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn generations_count_changes_of_the_spec() {
        let kind = lookup("apps", "v1", "Deployment").unwrap();
        let old = json!({"metadata": {"generation": 4}, "spec": {"replicas": 1}, "status": {"replicas": 1}});
        let mut new = json!({"metadata": {"generation": 9}, "spec": {"replicas": 2}, "status": {}});
        prepare_for_update(kind, &mut new, &old, None);
        assert_eq!(new["metadata"]["generation"], 5);
        assert_eq!(new["status"], old["status"]);
        let mut same = old.clone();
        same["metadata"]["labels"] = json!({"a": "b"});
        prepare_for_update(kind, &mut same, &old, None);
        assert_eq!(same["metadata"]["generation"], 4);
        same["metadata"]["annotations"] = json!({"a": "b"});
        prepare_for_update(kind, &mut same, &old, None);
        assert_eq!(same["metadata"]["generation"], 5);
    }

    #[test]
    fn the_status_path_keeps_the_rest() {
        let kind = lookup("apps", "v1", "Deployment").unwrap();
        let old =
            json!({"metadata": {"generation": 1, "labels": {"a": "b"}}, "spec": {"replicas": 1}});
        let mut new =
            json!({"metadata": {"labels": {}}, "spec": {"replicas": 3}, "status": {"replicas": 1}});
        prepare_for_update(kind, &mut new, &old, Some("status"));
        assert_eq!(new["spec"], old["spec"]);
        assert_eq!(new["metadata"], old["metadata"]);
        assert_eq!(new["status"]["replicas"], 1);
    }

    #[test]
    fn daemon_sets_count_templates() {
        let kind = lookup("apps", "v1", "DaemonSet").unwrap();
        let mut object = json!({"metadata": {}, "spec": {"template": {"a": 1}}});
        prepare_for_create(kind, &mut object);
        assert_eq!(object["metadata"]["annotations"][TEMPLATE_GENERATION], "1");
        let old = object.clone();
        object["spec"]["template"]["a"] = 2.into();
        remove(&mut object["metadata"], "annotations");
        prepare_for_update(kind, &mut object, &old, None);
        assert_eq!(object["metadata"]["annotations"][TEMPLATE_GENERATION], "2");
        assert_eq!(object["metadata"]["generation"], 2);
    }
}
