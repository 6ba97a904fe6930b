//! Pods: the whole, what may change, and the status.

use std::collections::BTreeSet;

use serde_json::Value;
use sutler_schema::{
    error::FieldError,
    names::{is_dns1123_subdomain, range_error},
    path::Path,
};

use super::*;
use crate::json::{flag, remove, set};

/// The fields of a pod that can change, as the refusal names them.
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn create(pod: &Value, errors: &mut Errors) {
    metadata_and_spec(pod, errors);
    let (spec, path) = (get(pod, "spec"), Path::new("spec"));
    if !items(spec, "ephemeralContainers").is_empty() {
        let path = path.child("ephemeralContainers");
        errors.push(FieldError::forbidden(path, "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(path.child("nodeName"), detail));
    }
}

pub(super) fn update(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    names(kind, new, errors);
    metadata_and_spec(new, errors);
    let (spec, before, path) = (get(new, "spec"), get(old, "spec"), Path::new("spec"));
    for list in ["containers", "initContainers"] {
        if items(spec, list).len() != items(before, list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(path.child(list), detail));
            return;
        }
        for (i, container) in items(spec, list).iter().enumerate() {
            let path = path.child(list).index(i);
            required_text(errors, container, &path, "image");
            trimmed_image(container, &path, errors);
        }
    }
    if !deadline(spec, before, &path, errors) {
        return;
    }
    added_tolerations(spec, before, &path.child("tolerations"), errors);
    removed_gates(spec, before, &path.child("schedulingGates"), errors);
    if spec == before {
        return;
    }
    let mut rest = spec.clone();
    for list in ["containers", "initContainers"] {
        let images: Vec<&Value> = items(before, list).iter().map(|c| get(c, "image")).collect();
        for (container, image) in crate::json::items_mut(&mut rest, list).zip(images) {
            set(container, "image", image.clone());
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        crate::json::copy(&mut rest, before, key);
    }
    if !items(before, "schedulingGates").is_empty() {
        // A pod that is held back may still be narrowed to fewer nodes.
        let same = |key: &str| get(&rest, key) == get(before, key);
        let (selector, affinity) = (same("nodeSelector"), same("affinity"));
        if !selector && narrower(&rest, before) {
            crate::json::copy(&mut rest, before, "nodeSelector");
        }
        if !affinity {
            crate::json::copy(&mut rest, before, "affinity");
        }
    }
    if rest != *before {
        let detail = format!("pod updates may not change fields other than {UPDATABLE}\n");
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn narrower(new: &Value, old: &Value) -> bool {
    entries(old, "nodeSelector")
        .all(|(key, value)| get(new, "nodeSelector").get(key) == Some(value))
}

pub(super) fn status(new: &Value, old: &Value, errors: &mut Errors) {
    let (status, before, path) = (get(new, "status"), get(old, "status"), Path::new("status"));
    for (i, condition) in items(status, "conditions").iter().enumerate() {
        let path = path.child("conditions").index(i);
        if int(condition, "observedGeneration") < 0 {
            let value = int(condition, "observedGeneration");
            let detail = "must be a non-negative integer";
            errors.push(FieldError::invalid(path.child("observedGeneration"), value, detail));
        }
        let ty = text(condition, "type");
        if !matches!(ty, "PodScheduled" | "Ready" | "Initialized") {
            qualified_name(errors, &path.child("Type"), ty);
        }
    }
    if text(status, "qosClass") != text(before, "qosClass") {
        let class = text(status, "qosClass");
        errors.push(FieldError::invalid(path.child("qosClass"), class, "field is immutable"));
    }
    for (i, row) in items(status, "podIPs").iter().enumerate() {
        net::ip(errors, &path.child("podIPs").index(i), text(row, "ip"));
    }
}

fn metadata_and_spec(pod: &Value, errors: &mut Errors) {
    let name = text(get(pod, "metadata"), "name");
    let spec_path = Path::new("spec");
    let body = get(pod, "spec");
    spec(body, Some(name), &spec_path, errors);
    if text(body, "serviceAccountName").is_empty() {
        for (i, volume) in items(body, "volumes").iter().enumerate() {
            for (j, source) in items(get(volume, "projected"), "sources").iter().enumerate() {
                if has(source, "serviceAccountToken") {
                    let path = spec_path.child("volumes").index(i).child("projected");
                    let path = path.child("sources").index(j).child("serviceAccountToken");
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.push(FieldError::forbidden(path, detail));
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in items(body, list).iter().enumerate() {
            trimmed_image(container, &spec_path.child(list).index(i), errors);
        }
    }
}

fn trimmed_image(container: &Value, path: &Path, errors: &mut Errors) {
    let image = text(container, "image");
    if image.trim().len() != image.len() {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(path.child("image"), image, detail));
    }
}

/// The spec of a pod called `name`, or of a template.
pub(super) fn spec(spec: &Value, name: Option<&str>, path: &Path, errors: &mut Errors) {
    let volumes = volume::volumes(spec, name, &path.child("volumes"), errors);
    container::containers(spec, &volumes, path, errors);
    if flag(spec, "hostNetwork") {
        host_ports(spec, name.is_some(), path, errors);
    }
    let policy = text(spec, "restartPolicy");
    one_of(errors, &path.child("restartPolicy"), policy, &["Always", "OnFailure", "Never"]);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(errors, &path.child("dnsPolicy"), text(spec, "dnsPolicy"), &dns);
    validate_labels(get(spec, "nodeSelector"), &path.child("nodeSelector"), errors);
    ids(get(spec, "securityContext"), &path.child("securityContext"), errors);
    affinity(get(spec, "affinity"), &path.child("affinity"), errors);
    dns_config(spec, &path.child("dnsConfig"), errors);
    gates(spec, path, errors);
    spread(spec, &path.child("topologySpreadConstraints"), errors);
    for key in ["serviceAccountName", "nodeName"] {
        let value = text(spec, key);
        if !value.is_empty() {
            invalid(errors, &path.child(key), value, is_dns1123_subdomain(value));
        }
    }
    let limit = i64::from(i32::MAX);
    if let Some(deadline) = get(spec, "activeDeadlineSeconds").as_i64()
        && !(1..=limit).contains(&deadline)
    {
        let path = path.child("activeDeadlineSeconds");
        errors.push(FieldError::invalid(path, deadline, range_error(1, limit)));
    }
    for key in ["hostname", "subdomain"] {
        let value = text(spec, key);
        if !value.is_empty() {
            label(errors, &path.child(key), value);
        }
    }
    tolerations(spec, &path.child("tolerations"), errors);
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        let path = path.child("hostAliases").index(i);
        net::ip(errors, &path.child("ip"), text(alias, "ip"));
        for (j, name) in texts(alias, "hostnames").enumerate() {
            let path = path.child("hostnames").index(j);
            invalid(errors, &path, name, is_dns1123_subdomain(name));
        }
    }
    for key in ["priorityClassName", "runtimeClassName"] {
        let value = text(spec, key);
        if !value.is_empty() {
            invalid(errors, &path.child(key), value, is_dns1123_subdomain(value));
        }
    }
    if has(spec, "preemptionPolicy") {
        let policy = text(spec, "preemptionPolicy");
        one_of(errors, &path.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    if has(spec, "os") {
        let os = text(get(spec, "os"), "name");
        one_of(errors, &path.child("os"), os, &["linux", "windows"]);
    }
}

fn ids(context: &Value, path: &Path, errors: &mut Errors) {
    let limit = i64::from(i32::MAX);
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        if let Some(id) = get(context, key).as_i64().filter(|id| !(0..=limit).contains(id)) {
            errors.push(FieldError::invalid(path.child(key), id, range_error(0, limit)));
        }
    }
    let groups = path.child("supplementalGroups");
    for (i, group) in items(context, "supplementalGroups").iter().enumerate() {
        if let Some(id) = group.as_i64().filter(|id| !(0..=limit).contains(id)) {
            errors.push(FieldError::invalid(groups.index(i), id, range_error(0, limit)));
        }
    }
}

fn dns_config(spec: &Value, path: &Path, errors: &mut Errors) {
    let config = get(spec, "dnsConfig");
    let servers = path.child("nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(path, detail));
            return;
        }
        if items(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(&servers, detail));
        }
    }
    for (i, server) in texts(config, "nameservers").enumerate() {
        net::ip(errors, &servers.index(i), server);
    }
}

fn host_ports(spec: &Value, is_pod: bool, path: &Path, errors: &mut Errors) {
    for (i, container) in items(spec, "containers").iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let (host, inner) = (int(port, "hostPort"), int(port, "containerPort"));
            if (is_pod || host != 0) && host != inner {
                let path = path.child("containers").index(i).child("ports").index(j);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(path.child("hostPort"), host, detail));
            }
        }
    }
}

fn gates(spec: &Value, path: &Path, errors: &mut Errors) {
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let path = path.child("readinessGates").index(i).child("conditionType");
        qualified_name(errors, &path, text(gate, "conditionType"));
    }
    let mut seen = BTreeSet::new();
    for (i, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let path = path.child("schedulingGates").index(i);
        let name = text(gate, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        qualified_name(errors, &path, name);
    }
}

fn tolerations(spec: &Value, path: &Path, errors: &mut Errors) {
    for (i, row) in items(spec, "tolerations").iter().enumerate() {
        let path = path.index(i);
        let (key, operator) = (text(row, "key"), text(row, "operator"));
        let (value, effect) = (text(row, "value"), text(row, "effect"));
        let operator_path = path.child("operator");
        if !key.is_empty() {
            qualified_name(errors, &path.child("key"), key);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all \
                          values and all keys\"";
            errors.push(FieldError::invalid(&operator_path, operator, detail));
        }
        if has(row, "tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(path.child("effect"), effect, detail));
        }
        match operator {
            "Equal" | "" => {
                let messages = is_label_value(value);
                if !messages.is_empty() {
                    errors.push(FieldError::invalid(&operator_path, value, messages.join(";")));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(&operator_path, value, detail));
            }
            "Lt" | "Gt" => {
                let supported = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(&operator_path, operator, &supported));
            }
            other => {
                errors.push(FieldError::not_supported(&operator_path, other, &["Equal", "Exists"]));
            }
        }
        node::effect(effect, true, &path.child("effect"), errors);
    }
}

fn added_tolerations(spec: &Value, before: &Value, path: &Path, errors: &mut Errors) {
    let bare = |row: &Value| {
        let mut row = row.clone();
        remove(&mut row, "tolerationSeconds");
        row
    };
    let new: Vec<Value> = items(spec, "tolerations").iter().map(bare).collect();
    if items(before, "tolerations").iter().any(|row| !new.contains(&bare(row))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    tolerations(spec, path, errors);
}

fn removed_gates(spec: &Value, before: &Value, path: &Path, errors: &mut Errors) {
    let known: Vec<&str> =
        items(before, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    for (i, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !known.contains(&name) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(path.index(i).child("name"), detail));
        }
    }
}

/// Whether the rest of the change is worth looking at.
fn deadline(spec: &Value, before: &Value, path: &Path, errors: &mut Errors) -> bool {
    let path = path.child("activeDeadlineSeconds");
    let limit = i64::from(i32::MAX);
    let new = get(spec, "activeDeadlineSeconds").as_i64();
    match (new, get(before, "activeDeadlineSeconds").as_i64()) {
        (Some(new), _) if !(0..=limit).contains(&new) => {
            errors.push(FieldError::invalid(path, new, range_error(0, limit)));
            false
        }
        (Some(new), Some(old)) if old < new => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(path, new, detail));
            false
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, Value::Null, detail));
            true
        }
        _ => true,
    }
}

fn affinity(affinity: &Value, path: &Path, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = get(affinity, "nodeAffinity");
    let node_path = path.child("nodeAffinity");
    if has(node, REQUIRED) {
        let terms = items(&node[REQUIRED], "nodeSelectorTerms");
        let path = node_path.child(REQUIRED).child("nodeSelectorTerms");
        if terms.is_empty() {
            let detail = "must have at least one node selector term";
            errors.push(FieldError::required(&path, detail));
        }
        for (i, term) in terms.iter().enumerate() {
            storage::node_term(term, &path.index(i), errors);
        }
    }
    for (i, weighted) in items(node, PREFERRED).iter().enumerate() {
        let path = node_path.child(PREFERRED).index(i);
        weight(weighted, &path, errors);
        storage::node_term(get(weighted, "preference"), &path.child("preference"), errors);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let (body, path) = (get(affinity, key), path.child(key));
        for (i, term) in items(body, REQUIRED).iter().enumerate() {
            pod_term(term, &path.child(REQUIRED).index(i), errors);
        }
        for (i, weighted) in items(body, PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(i);
            weight(weighted, &path, errors);
            pod_term(get(weighted, "podAffinityTerm"), &path.child("podAffinityTerm"), errors);
        }
    }
}

fn weight(weighted: &Value, path: &Path, errors: &mut Errors) {
    let weight = int(weighted, "weight");
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(
            path.child("weight"),
            weight,
            "must be in the range 1-100",
        ));
    }
}

fn pod_term(term: &Value, path: &Path, errors: &mut Errors) {
    label_selector(errors, get(term, "labelSelector"), &path.child("labelSelector"));
    label_selector(errors, get(term, "namespaceSelector"), &path.child("namespaceSelector"));
    for namespace in texts(term, "namespaces") {
        label(errors, &path.child("namespace"), namespace);
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
    }
    qualified_name(errors, &path.child("topologyKey"), key);
}

fn topology_key(term: &Value, path: &Path, errors: &mut Errors) {
    match text(term, "topologyKey") {
        "" => errors.push(FieldError::required(path.child("topologyKey"), "can not be empty")),
        key => qualified_name(errors, &path.child("topologyKey"), key),
    }
}

fn spread(spec: &Value, path: &Path, errors: &mut Errors) {
    for (i, row) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = path.index(i);
        let skew = int(row, "maxSkew");
        if skew <= 0 {
            errors.push(FieldError::invalid(
                path.child("maxSkew"),
                skew,
                "must be greater than zero",
            ));
        }
        topology_key(row, &path, errors);
        let action = text(row, "whenUnsatisfiable");
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(FieldError::not_supported(
                path.child("whenUnsatisfiable"),
                action,
                &supported,
            ));
        }
        label_selector(errors, get(row, "labelSelector"), &path.child("labelSelector"));
    }
}
