//! Tables for `kubectl get`, and metadata-only answers.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{
    accept::MetaVersion,
    object,
    registry::{Column, Flavor, Resource},
    status::ApiError,
    time,
};

/// What each row carries beside its cells (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, ApiError> {
        match text {
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            None | Some("Metadata") => Ok(Self::Metadata),
            Some(other) => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// A table of one object.
pub(crate) fn of_object(
    resource: &Resource,
    object: &Value,
    include: Include,
    now: SystemTime,
    headers: bool,
    version: MetaVersion,
) -> Value {
    let metadata = json!({"resourceVersion": object::meta_str(object, "resourceVersion")});
    let rows = vec![row(resource, object, include, now, version)];
    table(resource, metadata, rows, headers, version)
}

/// A table of the scale of an object.
pub(crate) fn of_scale(
    scale: &Value,
    include: Include,
    now: SystemTime,
    version: MetaVersion,
) -> Value {
    let column = |name: &str, ty: &str, description: &str| json!({"name": name, "type": ty, "format": "", "description": description, "priority": 0});
    let number = |path: &str| scale.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let age = time::parse(object::meta_str(scale, "creationTimestamp"))
        .map(|then| time::human(now.duration_since(then).unwrap_or_default()));
    let object = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(scale, version),
        Include::Object => scale.clone(),
    };
    json!({
        "kind": "Table", "apiVersion": version.api_version(),
        "metadata": {"resourceVersion": object::meta_str(scale, "resourceVersion")},
        "columnDefinitions": [
            column("Name", "string", NAME),
            column("Desired", "integer", "How many there are to be."),
            column("Available", "integer", "How many there are."),
            column("Age", "string", "The time since the object was created."),
        ],
        "rows": [{
            "cells": [
                object::name(scale), number("/spec/replicas"), number("/status/replicas"), age,
            ],
            "object": object,
        }],
    })
}

/// A table of many.
pub(crate) fn of_objects<'a>(
    resource: &Resource,
    metadata: Value,
    objects: impl Iterator<Item = &'a Value>,
    include: Include,
    now: SystemTime,
    version: MetaVersion,
) -> Value {
    let rows = objects.map(|object| row(resource, object, include, now, version)).collect();
    table(resource, metadata, rows, true, version)
}

fn table(
    resource: &Resource,
    metadata: Value,
    rows: Vec<Value>,
    headers: bool,
    version: MetaVersion,
) -> Value {
    let columns = if headers { columns(resource) } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn columns(resource: &Resource) -> Value {
    match &resource.flavor {
        Flavor::Builtin(kind) => sutler_builtin::columns(kind)
            .iter()
            .map(|c| {
                json!({
                    "name": c.name, "type": c.ty, "format": c.format,
                    "description": c.description, "priority": c.priority,
                })
            })
            .collect(),
        Flavor::Custom(custom) => {
            let name = json!({
                "name": "Name", "type": "string", "format": "name", "description": NAME,
                "priority": 0,
            });
            let rest = custom.columns.iter().map(|c| {
                json!({
                    "name": c.name, "type": c.ty, "format": c.format,
                    "description": c.description, "priority": c.priority,
                })
            });
            std::iter::once(name).chain(rest).collect()
        }
    }
}

/// The wire's description of a name column.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, \
                    although some resources may allow a client to request the generation of an \
                    appropriate name automatically. Name is primarily intended for creation \
                    idempotence and configuration definition. Cannot be updated. More info: \
                    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

fn row(
    resource: &Resource,
    object: &Value,
    include: Include,
    now: SystemTime,
    version: MetaVersion,
) -> Value {
    let cells: Vec<Value> = match &resource.flavor {
        Flavor::Builtin(kind) => sutler_builtin::cells(kind, object, now.into()),
        Flavor::Custom(custom) => {
            let name = Value::String(object::name(object).into());
            let rest = custom.columns.iter().map(|column| cell(column, object, now));
            std::iter::once(name).chain(rest).collect()
        }
    };
    let mut row = json!({"cells": cells});
    match include {
        Include::None => row["object"] = Value::Null,
        Include::Metadata => row["object"] = partial(object, version),
        Include::Object if resource.converted => {
            row["object"] = sutler_builtin::event_to_v1(object.clone());
        }
        Include::Object => row["object"] = object.clone(),
    }
    if let Some(kind) = resource.builtin() {
        let conditions = sutler_builtin::row_conditions(kind, object);
        if !conditions.is_empty() {
            row["conditions"] = conditions.into();
        }
    }
    row
}

fn cell(column: &Column, object: &Value, now: SystemTime) -> Value {
    let found = column.path.find(object);
    let Some(value) = found.first() else { return Value::Null };
    match (column.ty.as_str(), value) {
        (_, Value::Null) if column.ty != "string" => Value::Null,
        ("integer", Value::Number(n)) => match n.as_i64() {
            Some(n) => n.into(),
            None => n.as_f64().map_or(Value::Null, |f| (f as i64).into()),
        },
        ("number" | "boolean", value @ (Value::Number(_) | Value::Bool(_))) => (*value).clone(),
        ("date", Value::String(text)) => match time::parse(text) {
            Some(then) => {
                let age = now.duration_since(then).unwrap_or_default();
                time::human(age).into()
            }
            None => "<invalid>".into(),
        },
        // A list column shows all its items, not the first alone.
        ("string", _) if found.len() > 1 => {
            found.iter().map(|v| text(v)).collect::<Vec<_>>().join(",").into()
        }
        ("string", value) => text(value).into(),
        _ => Value::Null,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".into(),
        other => other.to_string(),
    }
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value, version: MetaVersion) -> Value {
    let mut metadata = object["metadata"].clone();
    // Of a daemon set, this one stands for a field and is no annotation in truth.
    if object["kind"] == "DaemonSet"
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            metadata.as_object_mut().map(|metadata| metadata.remove("annotations"));
        }
    }
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": version.api_version(),
        "metadata": metadata,
    })
}

/// `PartialObjectMetadataList` of many.
pub(crate) fn partial_list<'a>(
    metadata: Value,
    objects: impl Iterator<Item = &'a Value>,
    version: MetaVersion,
) -> Value {
    let items: Vec<Value> = objects.map(|object| partial(object, version)).collect();
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": version.api_version(),
        "metadata": metadata, "items": items,
    })
}
