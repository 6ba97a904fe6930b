//! The volumes of a pod.

use std::collections::BTreeSet;

use serde_json::Value;
use sutler_schema::{error::FieldError, path::Path};

use super::*;

/// The sources of a volume, in the order in which they are looked at.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks the volumes, and returns the names of the good ones: those that containers may mount.
pub(super) fn volumes<'s>(
    spec: &'s Value,
    pod: Option<&str>,
    path: &Path,
    errors: &mut Errors,
) -> BTreeSet<&'s str> {
    let list = items(spec, "volumes");
    let created: BTreeSet<String> = match pod {
        Some(pod) if !pod.is_empty() => list
            .iter()
            .filter(|volume| has(volume, "ephemeral"))
            .map(|volume| format!("{pod}-{}", text(volume, "name")))
            .collect(),
        _ => BTreeSet::new(),
    };
    let mut names = BTreeSet::new();
    for (i, volume) in list.iter().enumerate() {
        let path = path.index(i);
        let name = text(volume, "name");
        let before = errors.len();
        source(volume, &path, errors);
        match name {
            "" => errors.push(FieldError::required(path.child("name"), "")),
            name => label(errors, &path.child("name"), name),
        }
        if names.contains(name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
        if errors.len() == before {
            names.insert(name);
        }
        let claim = text(get(volume, "persistentVolumeClaim"), "claimName");
        if created.contains(claim) {
            let path = path.child("persistentVolumeClaim").child("claimName");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid(path, claim, detail));
        }
    }
    names
}

fn source(volume: &Value, path: &Path, errors: &mut Errors) {
    let mut found = 0;
    for key in SOURCES.into_iter().filter(|key| has(volume, key)) {
        found += 1;
        let (body, path) = (&volume[key], path.child(key));
        if found > 1 {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 volume type"));
            continue;
        }
        match key {
            "hostPath" => host_path(body, &path, errors),
            "secret" => {
                required_text(errors, body, &path, "secretName");
                files(body, &path, errors);
            }
            "configMap" => {
                required_text(errors, body, &path, "name");
                files(body, &path, errors);
            }
            "persistentVolumeClaim" => required_text(errors, body, &path, "claimName"),
            "nfs" => nfs(body, &path, errors),
            "csi" => required_text(errors, body, &path, "driver"),
            "projected" => projected(body, &path, errors),
            "downwardAPI" => mode(body, "defaultMode", &path, errors),
            _ => {}
        }
    }
    if found == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

pub(super) fn host_path(body: &Value, path: &Path, errors: &mut Errors) {
    let target = text(body, "path");
    if target.is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
        return;
    }
    no_backsteps(errors, &path.child("path"), target);
    let ty = text(body, "type");
    let supported = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    if !supported.contains(&ty) {
        errors.push(FieldError::not_supported(path.child("type"), ty, &supported));
    }
}

pub(super) fn nfs(body: &Value, path: &Path, errors: &mut Errors) {
    required_text(errors, body, path, "server");
    required_text(errors, body, path, "path");
    if !text(body, "path").starts_with('/') {
        let detail = "must be an absolute path";
        errors.push(FieldError::invalid(path.child("path"), text(body, "path"), detail));
    }
}

fn projected(body: &Value, path: &Path, errors: &mut Errors) {
    mode(body, "defaultMode", path, errors);
    for (i, source) in items(body, "sources").iter().enumerate() {
        let source_path = path.child("sources").index(i);
        for key in ["secret", "configMap"] {
            if has(source, key) {
                let path = source_path.child(key);
                required_text(errors, &source[key], &path, "name");
                key_paths(&source[key], &path, errors);
            }
        }
        if has(source, "serviceAccountToken") {
            let token = &source["serviceAccountToken"];
            let seconds = int(token, "expirationSeconds");
            let detail = match seconds {
                ..600 => Some("may not specify a duration less than 10 minutes"),
                4_294_967_297.. => Some("may not specify a duration larger than 2^32 seconds"),
                _ => None,
            };
            if let Some(detail) = detail {
                let path = source_path.child("serviceAccountToken").child("expirationSeconds");
                errors.push(FieldError::invalid(path, seconds, detail));
            }
            required_text(errors, token, path, "path");
        }
        let count =
            source.as_object().map_or(0, |map| map.values().filter(|v| !v.is_null()).count());
        if count > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(source_path, detail));
        }
    }
}

fn files(body: &Value, path: &Path, errors: &mut Errors) {
    mode(body, "defaultMode", path, errors);
    key_paths(body, path, errors);
}

fn key_paths(body: &Value, path: &Path, errors: &mut Errors) {
    for (i, item) in items(body, "items").iter().enumerate() {
        let path = path.child("items").index(i);
        required_text(errors, item, &path, "key");
        required_text(errors, item, &path, "path");
        let target = text(item, "path");
        let field = path.child("path");
        descending(errors, &field, target);
        if target.starts_with("..") && !target.starts_with("../") && target != ".." {
            errors.push(FieldError::invalid(field, target, "must not start with '..'"));
        }
        mode(item, "mode", &path, errors);
    }
}

fn mode(body: &Value, key: &str, path: &Path, errors: &mut Errors) {
    if let Some(mode) = get(body, key).as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(FieldError::invalid(path.child(key), mode, MODE));
    }
}

/// A path that is relative and does not leave its folder.
pub(super) fn descending(errors: &mut Errors, path: &Path, target: &str) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(path, target, "must be a relative path"));
    }
    no_backsteps(errors, path, target);
}

fn no_backsteps(errors: &mut Errors, path: &Path, target: &str) {
    if target.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, target, "must not contain '..'"));
    }
}
