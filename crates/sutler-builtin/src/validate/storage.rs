//! Volumes, claims and storage classes.

use serde_json::Value;
use sutler_schema::{error::FieldError, names::is_dns1123_subdomain, path::Path};

use super::*;
use crate::{
    json::{at, copy, set},
    quantity,
};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RECLAIM: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// The sources of a volume that stands by itself, in the order in which they are looked at.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn access_modes(spec: &Value, path: &Path, missing: &str, errors: &mut Errors) {
    let path = path.child("accessModes");
    if items(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(&path, missing));
    }
    unsupported_modes(spec, &path, errors);
}

fn unsupported_modes(spec: &Value, path: &Path, errors: &mut Errors) {
    let (mut single, mut other) = (false, false);
    for mode in texts(spec, "accessModes") {
        if !MODES.contains(&mode) {
            errors.push(FieldError::not_supported(path, mode, &MODES));
        }
        single |= mode == "ReadWriteOncePod";
        other |= mode != "ReadWriteOncePod" && MODES.contains(&mode);
    }
    if single && other {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn class_name(spec: &Value, path: &Path, errors: &mut Errors) {
    let name = text(spec, "storageClassName");
    if !name.is_empty() {
        invalid(errors, &path.child("storageClassName"), name, is_dns1123_subdomain(name));
    }
}

fn volume_mode(spec: &Value, path: &Path, errors: &mut Errors) {
    if has(spec, "volumeMode") && !matches!(text(spec, "volumeMode"), "Block" | "Filesystem") {
        let mode = text(spec, "volumeMode");
        let path = path.child("volumeMode");
        errors.push(FieldError::not_supported(path, mode, &["Block", "Filesystem"]));
    }
}

fn positive(amount: &str, path: &Path, errors: &mut Errors) {
    if quantity::compare(amount, "0").is_some_and(std::cmp::Ordering::is_le) {
        errors.push(FieldError::invalid(path, amount, "must be greater than zero"));
    }
}

pub(super) fn claim(object: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    if items(spec, "accessModes").is_empty() {
        let detail = "at least 1 access mode is required";
        errors.push(FieldError::required(path.child("accessModes"), detail));
    }
    label_selector(errors, get(spec, "selector"), &path.child("selector"));
    unsupported_modes(spec, &path.child("accessModes"), errors);
    let storage = path.child("resources").key("storage");
    match at(spec, &["resources", "requests", "storage"]).as_str() {
        None => errors.push(FieldError::required(storage, "")),
        Some(amount) => positive(amount, &storage, errors),
    }
    class_name(spec, &path, errors);
    volume_mode(spec, &path, errors);
    for key in ["dataSource", "dataSourceRef"] {
        if has(spec, key) {
            let (source, path) = (&spec[key], path.child(key));
            required_text(errors, source, &path, "name");
            required_text(errors, source, &path, "kind");
            if text(source, "apiGroup").is_empty()
                && !matches!(text(source, "kind"), "PersistentVolumeClaim" | "")
            {
                let detail =
                    "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                errors.push(FieldError::invalid(path, text(source, "kind"), detail));
            }
        }
    }
}

pub(super) fn claim_update(new: &Value, old: &Value, errors: &mut Errors) {
    claim(new, errors);
    let (spec, before) = (get(new, "spec"), get(old, "spec"));
    let path = Path::new("spec");
    let mut allowed = spec.clone();
    if text(before, "volumeName").is_empty() {
        copy(&mut allowed, before, "volumeName");
    }
    if get(before, "storageClassName").is_null() && has(spec, "storageClassName") {
        copy(&mut allowed, before, "storageClassName");
    }
    let size = |spec: &Value| at(spec, &["resources", "requests", "storage"]).clone();
    if text(get(new, "status"), "phase") == "Bound" {
        if let Some(requests) = allowed.pointer_mut("/resources/requests") {
            set(requests, "storage", size(before));
        }
        copy(&mut allowed, before, "volumeAttributesClassName");
    }
    if allowed != *before {
        let detail = "spec is immutable after creation except resources.requests and \
                      volumeAttributesClassName for bound claims\n";
        errors.push(FieldError::forbidden(&path, detail));
    }
    let (new_size, old_size) = (size(spec), size(before));
    let (new_size, old_size) = (new_size.as_str().unwrap_or("0"), old_size.as_str().unwrap_or("0"));
    if node::less(new_size, old_size) {
        let capacity = at(old, &["status", "capacity", "storage"]).as_str().unwrap_or("0");
        if !node::less(capacity, new_size) {
            let path = path.child("resources").child("requests").child("storage");
            errors.push(FieldError::forbidden(path, "field can not be less than status.capacity"));
        }
    }
    immutable_mode(spec, before, errors);
}

fn immutable_mode(spec: &Value, before: &Value, errors: &mut Errors) {
    if get(spec, "volumeMode") != get(before, "volumeMode") {
        let mode = get(spec, "volumeMode").clone();
        errors.push(FieldError::invalid("volumeMode", mode, "field is immutable"));
    }
}

pub(super) fn volume(object: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    access_modes(spec, &path, "", errors);
    let capacity = path.child("capacity");
    let amounts = get(spec, "capacity").as_object();
    let count = amounts.map_or(0, serde_json::Map::len);
    if count == 0 {
        errors.push(FieldError::required(&capacity, ""));
    }
    if count != 1 || amounts.is_none_or(|amounts| !amounts.contains_key("storage")) {
        let value = get(spec, "capacity").clone();
        errors.push(FieldError::not_supported(&capacity, value, &["storage"]));
    }
    for (name, amount) in entries(spec, "capacity") {
        let (amount, path) = (amount.as_str().unwrap_or("0"), capacity.key(name));
        if let Some(whole) = quantity::whole(amount).filter(|whole| *whole < 0) {
            errors.push(FieldError::invalid(&path, whole, "must be a valid resource quantity"));
        }
        positive(amount, &path, errors);
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !RECLAIM.contains(&policy) {
        let path = path.child("persistentVolumeReclaimPolicy");
        errors.push(FieldError::not_supported(path, policy, &RECLAIM));
    }
    let pinned = node_affinity(spec, &path.child("nodeAffinity"), errors);
    let mut found = 0;
    for key in SOURCES.into_iter().filter(|key| has(spec, key)) {
        found += 1;
        let (body, path_of) = (&spec[key], path.child(key));
        if found > 1 && key != "flexVolume" {
            errors.push(FieldError::forbidden(path_of, "may not specify more than 1 volume type"));
            continue;
        }
        match key {
            "hostPath" => super::volume::host_path(body, &path_of, errors),
            "nfs" => super::volume::nfs(body, &path_of, errors),
            "csi" => {
                required_text(errors, body, &path_of, "driver");
                required_text(errors, body, &path_of, "volumeHandle");
            }
            "local" => {
                required_text(errors, body, &path_of, "path");
                if !pinned {
                    let detail = "Local volume requires node affinity";
                    errors.push(FieldError::required(path.child("nodeAffinity"), detail));
                }
            }
            _ => {}
        }
    }
    if found == 0 {
        errors.push(FieldError::required(&path, "must specify a volume type"));
    }
    let host = text(get(spec, "hostPath"), "path");
    if !host.is_empty() && host.chars().all(|c| c == '/') && policy == "Recycle" {
        let path = path.child("persistentVolumeReclaimPolicy");
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(path, detail));
    }
    class_name(spec, &path, errors);
    volume_mode(spec, &path, errors);
}

pub(super) fn volume_update(new: &Value, old: &Value, errors: &mut Errors) {
    volume(new, errors);
    let (spec, before) = (get(new, "spec"), get(old, "spec"));
    if SOURCES.iter().any(|key| get(spec, key) != get(before, key)) {
        let path = Path::new("spec").child("persistentvolumesource");
        let detail = "spec.persistentvolumesource is immutable after creation\n";
        errors.push(FieldError::forbidden(path, detail));
    }
    immutable_mode(spec, before, errors);
}

fn node_affinity(spec: &Value, path: &Path, errors: &mut Errors) -> bool {
    if !has(spec, "nodeAffinity") {
        return false;
    }
    let required = get(&spec["nodeAffinity"], "required");
    let path = path.child("required");
    if required.is_null() {
        errors.push(FieldError::required(path, "must specify required node constraints"));
        return true;
    }
    let path = path.child("nodeSelectorTerms");
    let terms = items(required, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(FieldError::required(&path, "must have at least one node selector term"));
    }
    for (i, term) in terms.iter().enumerate() {
        node_term(term, &path.index(i), errors);
    }
    true
}

/// One alternative of a selection of nodes.
pub(super) fn node_term(term: &Value, path: &Path, errors: &mut Errors) {
    for (i, row) in items(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let values = items(row, "values").len();
        let values_path = path.child("values");
        match text(row, "operator") {
            "In" | "NotIn" if values == 0 => errors.push(FieldError::required(
                values_path,
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if values > 0 => errors.push(FieldError::forbidden(
                values_path,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if values != 1 => errors.push(FieldError::required(
                values_path,
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(FieldError::invalid(
                path.child("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        qualified_name(errors, &path.child("key"), text(row, "key"));
    }
}

pub(super) fn class(object: &Value, errors: &mut Errors) {
    let provisioner = text(object, "provisioner");
    match provisioner {
        "" => errors.push(FieldError::required("provisioner", "")),
        name => qualified_name(errors, &Path::new("provisioner"), &name.to_lowercase()),
    }
    let parameters = get(object, "parameters").as_object();
    if parameters.is_some_and(|all| all.len() > 512) {
        errors.push(FieldError::too_long("parameters", 512));
    } else {
        let mut bytes = 0;
        for (key, value) in parameters.into_iter().flatten() {
            if key.is_empty() {
                errors.push(FieldError::invalid("parameters", "", "field can not be empty."));
            }
            bytes += key.len() + value.as_str().map_or(0, str::len);
        }
        if bytes > 256 << 10 {
            errors.push(FieldError::too_long("parameters", 256 << 10));
        }
    }
    let policy = text(object, "reclaimPolicy");
    if !policy.is_empty() && !matches!(policy, "Delete" | "Retain") {
        errors.push(FieldError::not_supported("reclaimPolicy", policy, &["Delete", "Retain"]));
    }
    let mode = text(object, "volumeBindingMode");
    let supported = ["Immediate", "WaitForFirstConsumer"];
    one_of(errors, &Path::new("volumeBindingMode"), mode, &supported);
    for (i, term) in items(object, "allowedTopologies").iter().enumerate() {
        let path = Path::new("allowedTopologies").index(i).child("matchLabelExpressions");
        for (j, row) in items(term, "matchLabelExpressions").iter().enumerate() {
            let path = path.index(j);
            if items(row, "values").is_empty() {
                errors.push(FieldError::required(path.child("values"), ""));
            }
            qualified_name(errors, &path.child("key"), text(row, "key"));
        }
    }
}

pub(super) fn class_update(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    let change = std::mem::take(errors);
    names(kind, new, errors);
    class(new, errors);
    errors.extend(change);
    for key in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if get(new, key) != get(old, key) {
            errors.push(FieldError::invalid(key, get(new, key).clone(), "field is immutable"));
        }
    }
}
