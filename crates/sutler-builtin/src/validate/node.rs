//! Nodes.

use serde_json::Value;
use sutler_schema::{error::FieldError, path::Path};

use super::*;
use crate::quantity;

pub(super) fn create(node: &Value, errors: &mut Errors) {
    taints(node, errors);
    resources(node, errors);
    for (i, cidr) in texts(get(node, "spec"), "podCIDRs").enumerate() {
        net::cidr(errors, &Path::new("spec").child("podCIDRs").index(i), cidr);
    }
}

pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    resources(new, errors);
    let path = Path::new("status").child("addresses");
    let addresses = items(get(new, "status"), "addresses");
    for (i, address) in addresses.iter().enumerate() {
        if addresses[..i].contains(address) {
            let shown = format!(
                "{{\"Type\":{},\"Address\":{}}}",
                get(address, "type"),
                get(address, "address")
            );
            let mut error = FieldError::duplicate(path.index(i), "");
            error.bad_value = None;
            error.detail = shown;
            errors.push(error);
        }
    }
    let (spec, before) = (get(new, "spec"), get(old, "spec"));
    let path = Path::new("spec");
    if !items(before, "podCIDRs").is_empty() && items(before, "podCIDRs") != items(spec, "podCIDRs")
    {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden(path.child("podCIDRs"), detail));
    }
    if !text(before, "providerID").is_empty()
        && text(before, "providerID") != text(spec, "providerID")
    {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(path.child("providerID"), detail));
    }
    taints(new, errors);
    if text(spec, "externalID") != text(before, "externalID") {
        errors.push(FieldError::forbidden(path.child("externalID"), "may not be updated"));
    }
}

fn resources(node: &Value, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in entries(get(node, "status"), list) {
            let path = Path::new("status").child(list).child(name);
            container::quantity_value(name, amount.as_str().unwrap_or("0"), &path, errors);
        }
    }
}

/// Taints are a part of the spec but are reported below the metadata.
fn taints(node: &Value, errors: &mut Errors) {
    let taints = items(get(node, "spec"), "taints");
    for (i, taint) in taints.iter().enumerate() {
        let path = Path::new("metadata").child("taints").index(i);
        qualified_name(errors, &path.child("key"), text(taint, "key"));
        let value = text(taint, "value");
        let messages = is_label_value(value);
        if !messages.is_empty() {
            errors.push(FieldError::invalid(path.child("value"), value, messages.join(";")));
        }
        effect(text(taint, "effect"), false, &path.child("effect"), errors);
        let same = |other: &Value| {
            text(other, "key") == text(taint, "key")
                && text(other, "effect") == text(taint, "effect")
        };
        if taints[..i].iter().any(same) {
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                get(taint, "key"),
                Value::from(value),
                get(taint, "effect"),
                get(taint, "timeAdded")
            );
            let mut error = FieldError::duplicate(path, "");
            error.bad_value = None;
            error.detail = format!("{shown}: taints must be unique by key and effect pair");
            errors.push(error);
        }
    }
}

/// What a taint does to pods.
pub(super) fn effect(value: &str, may_be_empty: bool, path: &Path, errors: &mut Errors) {
    let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !(may_be_empty && value.is_empty()) {
        one_of(errors, path, value, &supported);
    }
}

/// Whether one amount is less than another.
pub(super) fn less(a: &str, b: &str) -> bool {
    quantity::compare(a, b).is_some_and(std::cmp::Ordering::is_lt)
}
