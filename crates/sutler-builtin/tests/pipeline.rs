//! The steps that the server takes with an object.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use sutler_builtin::{
    Kind, admit_create, admit_update, apply_defaults, assign_cluster_ip, decode, event_from_v1,
    event_to_v1, kinds, lookup, needs_cluster_ip, prepare_for_create, prepare_for_update,
    validate_create, validate_update,
};
use sutler_schema::error::FieldError;

/// The folder of the tests.
pub(crate) fn folder(name: &str) -> PathBuf {
    std::path::absolute("tests").unwrap().join(name)
}

/// All manifests, by name.
pub(crate) fn manifests() -> Vec<(String, Value)> {
    objects("manifests")
}

/// All objects of a folder, by name.
pub(crate) fn objects(name: &str) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

pub(crate) fn kind_of(object: &Value) -> &'static Kind {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    lookup(group, version, object["kind"].as_str().unwrap()).unwrap()
}

/// Reads an object into its stored form.
pub(crate) fn read(object: Value) -> Result<Value, String> {
    let kind = kind_of(&object);
    let mut object = decode(kind, object).map_err(|error| error.to_string())?;
    if kind.stored_as.is_some() {
        object = decode(kind.storage(), event_from_v1(object)).unwrap();
    }
    apply_defaults(kind.storage(), &mut object);
    Ok(object)
}

/// What is stored of a new object, and what is wrong with it.
pub(crate) fn create(kind: &Kind, mut object: Value) -> (Value, Vec<FieldError>) {
    object["metadata"]["uid"] = "00000000-0000-0000-0000-000000000001".into();
    object["metadata"]["creationTimestamp"] = "2024-01-01T00:00:00Z".into();
    admit_create(kind, &mut object);
    prepare_for_create(kind, &mut object);
    let errors = validate_create(kind, &object);
    object["metadata"]["resourceVersion"] = "1".into();
    if kind.is("", "Service") && needs_cluster_ip(&object) {
        assign_cluster_ip(&mut object, "10.0.0.5");
    }
    (object, errors)
}

/// What is stored after a merge patch of a stored object, and what is wrong with it.
pub(crate) fn update(
    kind: &Kind,
    old: &Value,
    patch: &Value,
    subresource: Option<&str>,
) -> Result<(Value, Vec<FieldError>), String> {
    let shown = show(kind, old.clone());
    let mut new = read(merge(&shown, patch))?;
    if subresource.is_none() {
        admit_update(kind, &mut new, old);
    }
    prepare_for_update(kind, &mut new, old, subresource);
    let errors = validate_update(kind, &new, old, subresource);
    Ok((new, errors))
}

/// The form in which clients see a stored object.
pub(crate) fn show(kind: &Kind, object: Value) -> Value {
    match kind.stored_as {
        Some(_) => decode(kind, event_to_v1(object)).unwrap(),
        None => object,
    }
}

pub(crate) fn merge(base: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut out = base.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        match value {
            Value::Null => drop(out.remove(key)),
            value => {
                let inner = merge(out.get(key).unwrap_or(&Value::Null), value);
                out.insert(key.clone(), inner);
            }
        }
    }
    Value::Object(out)
}

#[test]
fn every_stored_kind_has_a_manifest() {
    let all = manifests();
    for kind in kinds().iter().filter(|kind| kind.role == sutler_builtin::Role::Stored) {
        let found = all.iter().any(|(_, object)| std::ptr::eq(kind_of(object), kind));
        assert!(found, "no manifest for {} of {:?}", kind.kind, kind.group);
    }
}

#[test]
fn merging() {
    let merged = merge(&json!({"a": 1, "b": {"c": 2}}), &json!({"a": null, "b": {"d": 3}}));
    assert_eq!(merged, json!({"b": {"c": 2, "d": 3}}));
}
