//! Defaults of pods and of what they are made of.

use super::*;
use crate::json::{at, items, texts};

/// What only a pod has, and not a template of one.
pub(super) fn pod(value: &mut Value) {
    let Some(spec) = ensure_object(value, "spec") else { return };
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            if let Some(resources) = object_mut(container, "resources") {
                requests_from_limits(resources);
            }
        }
    }
    pod_requests(spec);
    default(spec, "enableServiceLinks", true);
    if flag(spec, "hostNetwork") {
        for list in ["containers", "initContainers"] {
            for container in items_mut(spec, list) {
                for port in items_mut(container, "ports") {
                    let number = int(port, "containerPort");
                    default_int(port, "hostPort", number);
                }
            }
        }
    }
}

/// Requests of the pod as a whole, where it states limits as a whole: what its containers request
/// together, otherwise the limits.
fn pod_requests(spec: &mut Value) {
    let limits = at(spec, &["resources", "limits"]).as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let mut sums: Map<String, Value> = Map::new();
    for container in items(spec, "containers") {
        let requests = at(container, &["resources", "requests"]);
        for (name, amount) in requests.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "cpu" | "memory") {
                continue;
            }
            let sum = sums.get(name).and_then(Value::as_str).unwrap_or("0");
            if let Some(sum) = quantity::add(sum, amount.as_str().unwrap_or("0")) {
                sums.insert(name.clone(), sum.into());
            }
        }
    }
    let Some(resources) = object_mut(spec, "resources") else { return };
    let Some(requests) = ensure_object(resources, "requests") else { return };
    merge_missing(requests, sums);
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    merge_missing(requests, limits.into_iter().filter(|(name, _)| supported(name)).collect());
}

pub(super) fn spec(value: &mut Value) {
    default_text(value, "dnsPolicy", "ClusterFirst");
    default_text(value, "restartPolicy", "Always");
    default(value, "securityContext", json!({}));
    default(value, "terminationGracePeriodSeconds", 30);
    default_text(value, "schedulerName", "default-scheduler");
}

pub(super) fn container(value: &mut Value) {
    if text(value, "imagePullPolicy").is_empty() {
        let policy = pull_policy(text(value, "image"));
        set(value, "imagePullPolicy", policy);
    }
    default_text(value, "terminationMessagePath", "/dev/termination-log");
    default_text(value, "terminationMessagePolicy", "File");
}

pub(super) fn probe(value: &mut Value) {
    default_int(value, "timeoutSeconds", 1);
    default_int(value, "periodSeconds", 10);
    default_int(value, "successThreshold", 1);
    default_int(value, "failureThreshold", 3);
}

pub(super) fn volume(value: &mut Value) {
    if value.as_object().is_some_and(|map| map.keys().all(|key| key == "name")) {
        set(value, "emptyDir", json!({}));
    }
    if let Some(image) = object_mut(value, "image")
        && text(image, "pullPolicy").is_empty()
    {
        let policy = pull_policy(text(image, "reference"));
        set(image, "pullPolicy", policy);
    }
}

/// Which quality of service the containers' requests and limits amount to.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let whole = at(spec, &["resources"]);
    let has_amounts = |resources: &Value, key: &str| {
        let amounts = resources.get(key).and_then(Value::as_object);
        amounts.into_iter().flatten().any(|(name, amount)| compute(name, amount))
    };
    if has_amounts(whole, "requests") || has_amounts(whole, "limits") {
        let guaranteed = guaranteed(whole);
        return if guaranteed { "Guaranteed" } else { "Burstable" };
    }
    let all = ["containers", "initContainers"];
    let mut resources =
        all.iter().flat_map(|list| items(spec, list)).map(|c| at(c, &["resources"]));
    let (mut any, mut every) = (false, true);
    for resources in &mut resources {
        any |= has_amounts(resources, "requests") || has_amounts(resources, "limits");
        every &= guaranteed(resources);
    }
    match (any, every) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn compute(name: &str, amount: &Value) -> bool {
    matches!(name, "cpu" | "memory") && !quantity::is_zero(amount.as_str().unwrap_or("0"))
}

fn guaranteed(resources: &Value) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let limit = at(resources, &["limits", name]);
        let request = at(resources, &["requests", name]);
        compute(name, limit) && (request.is_null() || quantity::same(request, limit))
    })
}

/// The names of a template's or pod's labels' keys that a term copies into its selector.
pub(crate) fn merge_label_keys(term: &mut Value, labels: &Value) {
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys: Vec<String> = texts(term, list).map(str::to_owned).collect();
        let Some(selector) = object_mut(term, "labelSelector") else { return };
        for key in keys {
            let Some(value) = labels.get(&key).and_then(Value::as_str) else { continue };
            let row = json!({"key": key, "operator": operator, "values": [value]});
            default(selector, "matchExpressions", json!([]));
            if let Some(rows) = selector["matchExpressions"].as_array_mut() {
                rows.push(row);
            }
        }
    }
}
