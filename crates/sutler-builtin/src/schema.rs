//! The schemas of the built-in kinds: as OpenAPI components, and parsed into [`Node`]s.

mod descriptions;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use serde_json::{Map, Value, json};
use sutler_schema::node::{Node, SchemaError};

use self::descriptions::DESCRIPTIONS;
use crate::kind;

/// The component schemas of OpenAPI v3 by name, with references as `#/components/schemas/…`:
/// every kind and its list, what they are made of, and the types of the API itself (`Status`,
/// `DeleteOptions`, `WatchEvent`, `Patch`, discovery).
pub fn definitions() -> Map<String, Value> {
    let mut all = raw().clone();
    for schema in all.values_mut() {
        publish(schema, "#/components/schemas/");
    }
    all
}

/// The same for OpenAPI v2, with references as `#/definitions/…`; v2 has neither defaults nor
/// alternatives.
pub fn definitions_v2() -> Map<String, Value> {
    let mut all = raw().clone();
    for schema in all.values_mut() {
        simplify(schema);
        publish(schema, "#/definitions/");
    }
    all
}

/// The node of a definition, parsed once.
pub(crate) fn node(name: &str) -> Arc<Node> {
    static NODES: Mutex<BTreeMap<String, Arc<Node>>> = Mutex::new(BTreeMap::new());
    // Entries are inserted whole, so the map is good even if a holder of the lock panicked.
    let mut nodes = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut open = Vec::new();
    resolve(name, &mut nodes, &mut open).expect("the generated schemas parse: a test parses all")
}

fn resolve(
    name: &str,
    nodes: &mut BTreeMap<String, Arc<Node>>,
    open: &mut Vec<String>,
) -> Result<Arc<Node>, SchemaError> {
    if let Some(node) = nodes.get(name) {
        return Ok(Arc::clone(node));
    }
    if open.iter().any(|outer| outer == name) {
        // The schema of schemas contains itself; below its first level anything goes.
        return Ok(Arc::new(Node { preserve_unknown: true, ..Node::default() }));
    }
    let missing = || SchemaError { path: name.to_owned(), reason: "no such definition".into() };
    let schema = raw().get(name).ok_or_else(missing)?;
    open.push(name.to_owned());
    let mut node = Node::parse_with(schema, &mut |inner| resolve(inner, nodes, open))?;
    node.name = name.rsplit('.').next().map(str::to_owned);
    open.pop();
    let node = Arc::new(node);
    nodes.insert(name.to_owned(), Arc::clone(&node));
    Ok(node)
}

fn raw() -> &'static Map<String, Value> {
    static SCHEMAS: OnceLock<Map<String, Value>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let text = include_str!("../data/schemas.json");
        let mut all: Map<String, Value> =
            serde_json::from_str(text).expect("the generated schemas are JSON: a test reads them");
        for (name, description) in DESCRIPTIONS {
            let (definition, field) = name.split_once('#').unwrap_or((name, ""));
            let schema = all.get_mut(definition);
            let target = match field {
                "" => schema,
                field => {
                    schema.and_then(|schema| schema.pointer_mut(&format!("/properties/{field}")))
                }
            };
            if let Some(Value::Object(target)) = target {
                target.insert("description".into(), (*description).into());
            }
        }
        all
    })
}

/// Writes references in full and names the groups that are served.
fn publish(schema: &mut Value, prefix: &str) {
    if let Value::Object(map) = schema
        && let Some(kind) = map.remove("x-every-group")
    {
        map.insert("x-kubernetes-group-version-kind".into(), every_group(&kind));
    }
    walk(schema, &mut |map| {
        if let Some(Value::String(name)) = map.get_mut("$ref") {
            name.insert_str(0, prefix);
        }
    });
}

fn every_group(kind: &Value) -> Value {
    let mut versions: Vec<_> =
        kind::kinds().iter().chain(kind::reviews()).map(|k| (k.group, k.version)).collect();
    versions.sort_unstable();
    versions.dedup();
    let row = |(group, version)| json!({"group": group, "version": version, "kind": kind});
    versions.into_iter().map(row).collect()
}

fn simplify(schema: &mut Value) {
    walk(schema, &mut |map| {
        map.remove("default");
        if map.remove("oneOf").is_some() {
            map.insert("type".into(), "string".into());
        }
        let single = map.get("allOf").and_then(|all| all.get(0)).and_then(|one| one.get("$ref"));
        if let Some(target) = single.cloned() {
            map.remove("allOf");
            map.insert("$ref".into(), target);
        }
    });
}

/// Calls `visit` on every schema inside `schema`, the outermost first. Field names are not schemas.
fn walk(schema: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(map) = schema else { return };
    visit(map);
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.values_mut().for_each(|field| walk(field, visit));
            }
            ("items" | "additionalProperties", inner) => walk(inner, visit),
            ("allOf" | "oneOf", Value::Array(list)) => {
                list.iter_mut().for_each(|inner| walk(inner, visit));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use sutler_schema::node::{ListType, Type};

    use super::*;

    #[test]
    fn all_schemas_parse() {
        for name in raw().keys() {
            node(name);
        }
        for (name, _) in DESCRIPTIONS {
            let (definition, field) = name.split_once('#').unwrap_or((name, ""));
            assert!(
                field.is_empty() || raw()[definition]["properties"][field].is_object(),
                "{name}"
            );
            assert!(raw().contains_key(definition), "{name}");
        }
    }

    #[test]
    fn a_pod_has_its_list_types_and_patch_strategies() {
        let pod = node("io.k8s.api.core.v1.Pod");
        let spec = &pod.properties["spec"];
        let containers = &spec.properties["containers"];
        assert_eq!(containers.list_type, ListType::Map(vec!["name".into()]));
        assert!(containers.patch.merge);
        assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
        assert!(spec.properties["volumes"].patch.retain_keys);
        assert_eq!(spec.required, ["containers"]);
        let ports = &containers.items.as_ref().unwrap().properties["ports"];
        assert_eq!(ports.list_type, ListType::Map(vec!["containerPort".into(), "protocol".into()]));
        let item = ports.items.as_ref().unwrap();
        assert_eq!(item.properties["protocol"].default, Some("TCP".into()));
        let probe = &containers.items.as_ref().unwrap().properties["livenessProbe"];
        assert_eq!(probe.properties["httpGet"].properties["port"].ty, Type::IntOrString);
        assert!(pod.properties["metadata"].properties["labels"].additional.is_some());
    }

    #[test]
    fn references_are_written_for_each_version() {
        let v3 = definitions();
        let v2 = definitions_v2();
        assert_eq!(v2.len(), v3.len());
        let pod = "io.k8s.api.core.v1.Pod";
        assert_eq!(
            v3[pod]["properties"]["spec"],
            json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}],
                "default": {}, "description": "How the pod shall run."})
        );
        assert_eq!(
            v2[pod]["properties"]["spec"],
            json!({"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec",
                "description": "How the pod shall run."})
        );
        let quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity";
        assert_eq!(v2[quantity], json!({"type": "string"}));
        let options = &v3["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"];
        let groups = options["x-kubernetes-group-version-kind"].as_array().unwrap();
        assert!(
            groups.contains(&json!({"group": "apps", "version": "v1", "kind": "DeleteOptions"}))
        );
        let text = serde_json::to_string(&v2).unwrap();
        assert!(!text.contains("x-every-group"));
        assert!(!text.contains("components"));
    }
}
