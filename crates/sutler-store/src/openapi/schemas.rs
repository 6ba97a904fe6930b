//! Schemas of the documents.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::registry::Resource;

/// The definition name of a kind: `dev.sutler.v1alpha1.Agent`.
pub(super) fn definition_name(resource: &Resource) -> String {
    match resource.builtin() {
        Some(kind) => kind.definition().to_owned(),
        None => {
            let group: Vec<&str> = resource.group.rsplit('.').collect();
            format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
        }
    }
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// A custom kind and its list, in the form of version 3.
pub(super) fn add_custom(components: &mut Map<String, Value>, resource: &Resource, schema: &Value) {
    let mut schema = schema.clone();
    to_v3(&mut schema);
    add(components, resource, &schema, "#/components/schemas/");
}

/// A custom kind and its list, in the form of version 2.
pub(super) fn add_custom_v2(
    definitions: &mut Map<String, Value>,
    resource: &Resource,
    schema: &Value,
) {
    let mut schema = schema.clone();
    to_v2(&mut schema);
    add(definitions, resource, &schema, "#/definitions/");
}

fn add(out: &mut Map<String, Value>, resource: &Resource, schema: &Value, refs: &str) {
    let name = definition_name(resource);
    let mut schema = schema.clone();
    let properties = &mut schema["properties"];
    let text = |description: &str| json!({"type": "string", "description": description});
    properties["apiVersion"] = text("The group and version of this object's kind.");
    properties["kind"] = text("What this object is.");
    properties["metadata"] = reference(refs, META, "Name, namespace, labels and the like.");
    schema["x-kubernetes-group-version-kind"] = gvk(resource, &resource.kind);
    let mut list = json!({
        "type": "object", "required": ["items"],
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "properties": {
            "apiVersion": text("The group and version of this list's kind."),
            "kind": text("What this list is."),
            "metadata": reference(refs, LIST_META, "Version and continuation."),
            "items": {"type": "array", "items": {"$ref": format!("{refs}{name}")}},
        },
        "x-kubernetes-group-version-kind": gvk(resource, &resource.list_kind),
    });
    let selectable: Vec<Value> = resource
        .custom()
        .into_iter()
        .flat_map(|custom| &custom.selectable)
        .map(|(path, _)| json!({"fieldPath": path.trim_start_matches('.')}))
        .collect();
    if !selectable.is_empty() {
        for document in [&mut schema, &mut list] {
            document["x-kubernetes-selectable-fields"] = json!(selectable);
        }
    }
    out.insert(format!("{name}List"), list);
    out.insert(name, schema);
}

fn reference(refs: &str, name: &str, description: &str) -> Value {
    json!({"allOf": [{"$ref": format!("{refs}{name}")}], "description": description})
}

fn gvk(resource: &Resource, kind: &str) -> Value {
    json!([{"group": resource.group, "version": resource.version, "kind": kind}])
}

/// Adds the built-in definitions that are wanted, and all that these and `components` refer to.
pub(super) fn add_referenced(components: &mut Map<String, Value>, wanted: Vec<String>) {
    let all = sutler_builtin::definitions();
    let mut queue: BTreeSet<String> = wanted.into_iter().collect();
    for name in queue.clone() {
        let list = format!("{name}List");
        if all.contains_key(&list) {
            queue.insert(list);
        }
    }
    for fixed in ["Status", "DeleteOptions", "WatchEvent"] {
        queue.insert(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{fixed}"));
    }
    components.values().for_each(|schema| references(schema, &mut queue));
    while let Some(name) = queue.pop_first() {
        if components.contains_key(&name) {
            continue;
        }
        if let Some(schema) = all.get(&name) {
            references(schema, &mut queue);
            components.insert(name, schema.clone());
        }
    }
}

fn references(schema: &Value, out: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                out.extend(target.rsplit('/').next().map(str::to_owned));
            }
            map.values().for_each(|value| references(value, out));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, out)),
        _ => {}
    }
}

/// Writes out what a schema means: a number or a text, and the fields of any object.
fn to_v3(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        map.values_mut().for_each(to_v3);
        let is = |map: &Map<String, Value>, key: &str| map.get(key) == Some(&Value::Bool(true));
        if is(map, "x-kubernetes-int-or-string") && !map.contains_key("anyOf") {
            map.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
        }
        if is(map, "x-kubernetes-embedded-resource") {
            let conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/\
                               api-conventions.md";
            let text = |words: &str, part: &str| {
                json!({
                    "type": "string",
                    "description": format!("{words} More info: {conventions}#{part}"),
                })
            };
            let meta = format!("Standard object's metadata. More info: {conventions}#metadata");
            let known = [
                (
                    "apiVersion",
                    text(
                        "apiVersion defines the versioned schema of this representation of an \
                         object.",
                        "resources",
                    ),
                ),
                (
                    "kind",
                    text(
                        "kind is a string value representing the type of this object. In \
                         CamelCase.",
                        "types-kinds",
                    ),
                ),
                ("metadata", reference("#/components/schemas/", META, &meta)),
            ];
            let properties = map.entry("properties").or_insert_with(|| json!({}));
            for (key, schema) in known {
                properties[key] = schema;
            }
            map.insert("required".into(), json!(["kind", "apiVersion"]));
        }
    } else if let Some(items) = schema.as_array_mut() {
        items.iter_mut().for_each(to_v3);
    }
}

/// Version 2 knows neither nullable nor oneOf, anyOf and not, and no `x-kubernetes-int-or-string`
/// beside a type.
fn to_v2(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        for unknown in ["nullable", "oneOf", "anyOf", "not", "allOf"] {
            map.remove(unknown);
        }
        if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
            map.remove("type");
        }
        map.values_mut().for_each(to_v2);
    } else if let Some(items) = schema.as_array_mut() {
        items.iter_mut().for_each(to_v2);
    }
}
