//! Deployments, replica sets and daemon sets.

use serde_json::{Map, Value};
use sutler_schema::{
    error::FieldError, meta::validate_annotations, path::Path, selector::LabelSelector,
};

use super::*;
use crate::json::at;

pub(super) fn deployment(object: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    not_negative(errors, spec, &path, &["replicas"]);
    selector_and_template(spec, &path, errors);
    strategy(get(spec, "strategy"), &path.child("strategy"), errors);
    not_negative(errors, spec, &path, &["minReadySeconds", "revisionHistoryLimit"]);
    if let Some(deadline) = get(spec, "progressDeadlineSeconds").as_i64() {
        not_negative(errors, spec, &path, &["progressDeadlineSeconds"]);
        if deadline <= int(spec, "minReadySeconds") {
            let path = path.child("progressDeadlineSeconds");
            errors.push(FieldError::invalid(
                path,
                deadline,
                "must be greater than minReadySeconds",
            ));
        }
    }
}

pub(super) fn replica_set(object: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    not_negative(errors, spec, &path, &["replicas", "minReadySeconds"]);
    selector_and_template(spec, &path, errors);
}

/// What deployments and replica sets have in common. The words are those of deployments for both.
fn selector_and_template(spec: &Value, path: &Path, errors: &mut Errors) {
    let selector = get(spec, "selector");
    let selector_path = path.child("selector");
    if selector.is_null() {
        errors.push(FieldError::required(&selector_path, ""));
    } else {
        label_selector(errors, selector, &selector_path);
        empty_selector(selector, &selector_path, "deployment", errors);
    }
    let template = get(spec, "template");
    let template_path = path.child("template");
    match parsed(selector) {
        None => {
            let text = selector_text(selector);
            errors.push(FieldError::invalid_json(selector_path, &text, "invalid label selector"));
        }
        // A selector that is missing or empty was reported above.
        Some(parsed) => {
            if selector.is_null() || !parsed.is_empty() {
                matches_labels(&parsed, template, &template_path, errors);
            }
            pod_template(template, &template_path, errors);
            always_restarts(template, &template_path, "ReplicaSet", errors);
        }
    }
}

pub(super) fn daemon_set(object: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    let (selector, template) = (get(spec, "selector"), get(spec, "template"));
    let template_path = path.child("template");
    label_selector(errors, selector, &path.child("selector"));
    if let Some(parsed) = parsed(selector) {
        matches_labels(&parsed, template, &template_path, errors);
    }
    empty_selector(selector, &path.child("selector"), "daemonset", errors);
    pod_template(template, &template_path, errors);
    always_restarts(template, &template_path, "DaemonSet", errors);
    not_negative(errors, spec, &path, &["minReadySeconds"]);
    update_strategy(get(spec, "updateStrategy"), &path.child("updateStrategy"), errors);
    not_negative(errors, spec, &path, &["revisionHistoryLimit"]);
}

pub(super) fn status(kind: &str, new: &Value, old: &Value, errors: &mut Errors) {
    let (status, path) = (get(new, "status"), Path::new("status"));
    if kind == "DaemonSet" {
        let keys = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        not_negative(errors, status, &path, &keys);
    } else {
        let deployment = kind == "Deployment";
        let keys: &[&str] = match deployment {
            true => &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            false => &[
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ],
        };
        not_negative(errors, status, &path, keys);
        let first = if deployment { "updatedReplicas" } else { "fullyLabeledReplicas" };
        let all = int(status, "replicas");
        for key in [first, "readyReplicas", "availableReplicas"] {
            if int(status, key) > all {
                let detail = "cannot be greater than status.replicas";
                errors.push(FieldError::invalid(path.child(key), int(status, key), detail));
            }
        }
        let available = int(status, "availableReplicas");
        if available > int(status, "readyReplicas") {
            let detail = "cannot be greater than readyReplicas";
            errors.push(FieldError::invalid(path.child("availableReplicas"), available, detail));
        }
    }
    let before = get(get(old, "status"), "collisionCount");
    if kind != "ReplicaSet" && before.as_i64().is_some_and(|n| int(status, "collisionCount") < n) {
        let value = int(status, "collisionCount");
        errors.push(FieldError::invalid(
            path.child("collisionCount"),
            value,
            "cannot be decremented",
        ));
    }
}

fn parsed(selector: &Value) -> Option<LabelSelector> {
    LabelSelector::from_object(selector).ok()
}

fn empty_selector(selector: &Value, path: &Path, kind: &str, errors: &mut Errors) {
    let labels = get(selector, "matchLabels").as_object().is_none_or(Map::is_empty);
    if !selector.is_null() && labels && items(selector, "matchExpressions").is_empty() {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid_json(path, &selector_text(selector), &detail));
    }
}

fn matches_labels(selector: &LabelSelector, template: &Value, path: &Path, errors: &mut Errors) {
    if !selector.matches_object(template) {
        let labels = at(template, &["metadata", "labels"]).clone();
        let path = path.child("metadata").child("labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(path, labels, detail));
    }
}

fn pod_template(template: &Value, path: &Path, errors: &mut Errors) {
    let meta = get(template, "metadata");
    validate_labels(get(meta, "labels"), &path.child("labels"), errors);
    validate_annotations(get(meta, "annotations"), &path.child("annotations"), errors);
    let spec = get(template, "spec");
    pod::spec(spec, None, &path.child("spec"), errors);
    if !items(spec, "ephemeralContainers").is_empty() {
        let path = path.child("spec").child("ephemeralContainers");
        errors
            .push(FieldError::forbidden(path, "ephemeral containers not allowed in pod template"));
    }
}

fn always_restarts(template: &Value, path: &Path, kind: &str, errors: &mut Errors) {
    let (spec, path) = (get(template, "spec"), path.child("spec"));
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        let path = path.child("restartPolicy");
        errors.push(FieldError::not_supported(path, policy, &["Always"]));
    }
    if has(spec, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(path.child("activeDeadlineSeconds"), detail));
    }
}

fn strategy(strategy: &Value, path: &Path, errors: &mut Errors) {
    let update = get(strategy, "rollingUpdate");
    let update_path = path.child("rollingUpdate");
    match text(strategy, "type") {
        "Recreate" => {
            if !update.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden(update_path, detail));
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (get(update, "maxUnavailable"), get(update, "maxSurge"));
            let path = update_path.child("maxUnavailable");
            int_or_percent(errors, unavailable, &path);
            int_or_percent(errors, surge, &update_path.child("maxSurge"));
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid_json(&path, &unavailable.to_string(), detail));
            }
            at_most_all(errors, unavailable, &path);
        }
        other => unknown_strategy(other, update, path, &["Recreate", "RollingUpdate"], errors),
    }
}

fn update_strategy(strategy: &Value, path: &Path, errors: &mut Errors) {
    let update = get(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let (unavailable, surge) = (get(update, "maxUnavailable"), get(update, "maxSurge"));
            let (first, second) = (path.child("maxUnavailable"), path.child("maxSurge"));
            int_or_percent(errors, unavailable, &first);
            int_or_percent(errors, surge, &second);
            at_most_all(errors, unavailable, &first);
            at_most_all(errors, surge, &second);
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => errors.push(FieldError::invalid_json(
                    second,
                    &surge.to_string(),
                    "may not be set when maxUnavailable is non-zero",
                )),
                (false, false) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(first, detail));
                }
                _ => {}
            }
        }
        other => unknown_strategy(other, update, path, &["RollingUpdate", "OnDelete"], errors),
    }
}

fn unknown_strategy(
    ty: &str,
    update: &Value,
    path: &Path,
    supported: &[&str],
    errors: &mut Errors,
) {
    // The value is shown whole, with the names that its fields have inside the server.
    let update = match update {
        Value::Null => "null".to_owned(),
        update => format!(
            "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
            get(update, "maxUnavailable"),
            get(update, "maxSurge")
        ),
    };
    let shown = format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", Value::from(ty));
    let mut error = FieldError::not_supported(path, "", supported);
    error.bad_value = None;
    error.detail = format!("{shown}: {}", error.detail);
    errors.push(error);
}
