//! Events, in the stored form of the core group whichever group they were sent to.

use serde_json::Value;
use sutler_schema::{error::FieldError, path::Path};

use super::*;

/// `new_form` for events that were sent to `events.k8s.io`, which asks for more.
pub(super) fn create(event: &Value, new_form: bool, errors: &mut Errors) {
    // The metadata comes last there, and not at all in the core group.
    let meta = std::mem::take(errors);
    common(event, new_form, errors);
    if !new_form {
        return;
    }
    errors.extend(meta);
    series(event, errors);
    if !has(event, "eventTime") {
        errors.push(FieldError::required("eventTime", ""));
    }
    let ty = text(event, "type");
    if !matches!(ty, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {ty}")));
    }
    let source = get(event, "source");
    let unset = [
        ("firstTimestamp", !has(event, "firstTimestamp")),
        ("lastTimestamp", !has(event, "lastTimestamp")),
        ("count", int(event, "count") == 0),
        ("source", text(source, "component").is_empty() && text(source, "host").is_empty()),
    ];
    for (field, _) in unset.into_iter().filter(|(_, unset)| !unset) {
        errors.push(FieldError::invalid(field, "", "needs to be unset"));
    }
}

pub(super) fn update(new: &Value, old: &Value, new_form: bool, errors: &mut Errors) {
    let meta = std::mem::take(errors);
    common(new, new_form, errors);
    if !new_form {
        return;
    }
    errors.extend(meta);
    if get(new, "series") != get(old, "series") {
        series(new, errors);
    }
    let fields = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (field, shown) in fields {
        if get(new, field) != get(old, field) {
            let value = get(new, field).clone();
            errors.push(FieldError::invalid(shown, value, "field is immutable"));
        }
    }
}

fn series(event: &Value, errors: &mut Errors) {
    if !has(event, "series") {
        return;
    }
    if int(&event["series"], "count") < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if !has(&event["series"], "lastObservedTime") {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn common(event: &Value, new_form: bool, errors: &mut Errors) {
    let namespace = text(get(event, "metadata"), "namespace");
    let involved = text(get(event, "involvedObject"), "namespace");
    let timed = has(event, "eventTime");
    let fits = match (timed, involved.is_empty()) {
        (false, true) => matches!(namespace, "" | "default"),
        (false, false) => namespace == involved,
        (true, true) => matches!(namespace, "default" | "kube-system"),
        (true, false) => true,
    };
    if !fits {
        let path = Path::new("involvedObject").child("namespace");
        errors.push(FieldError::invalid(path, involved, "does not match event.namespace"));
    }
    if timed {
        let controller = if new_form { "reportingController" } else { "reportingComponent" };
        let value = text(event, "reportingComponent");
        if value.is_empty() {
            errors.push(FieldError::required(controller, ""));
        }
        qualified_name(errors, &Path::new(controller), value);
        for (field, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
            let value = text(event, field);
            if value.is_empty() {
                errors.push(FieldError::required(field, ""));
            }
            limited(field, value, most, errors);
        }
        limited("message", text(event, "message"), 1024, errors);
    }
    let messages = sutler_schema::names::is_dns1123_subdomain(namespace);
    invalid(errors, &Path::new("namespace"), namespace, messages);
}

fn limited(field: &str, value: &str, most: usize, errors: &mut Errors) {
    if value.len() > most {
        let detail = format!("can have at most {most} characters");
        errors.push(FieldError::invalid(field, "", detail));
    }
}
