//! Operations of the documents.

use serde_json::{Map, Value, json};

use super::schemas::definition_name;
use crate::registry::Resource;

/// Which form of document is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V2,
    V3,
}

/// Adds a resource's paths.
pub(super) fn add(paths: &mut Map<String, Value>, resource: &Resource, version: Version) {
    let root = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let scoped = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    };
    let verbs = crate::discovery::verbs(resource);
    let make = Operations { resource, version };
    let mut collection = Map::new();
    let mut single = Map::new();
    for verb in verbs {
        match *verb {
            "list" => make.put(&mut collection, "get", "list", LIST),
            "create" => make.put(&mut collection, "post", "post", WRITE),
            "deletecollection" => make.put(&mut collection, "delete", "deletecollection", LIST),
            "get" => make.put(&mut single, "get", "get", &[]),
            "update" => make.put(&mut single, "put", "put", WRITE),
            "patch" => make.put(&mut single, "patch", "patch", PATCH),
            "delete" => make.put(&mut single, "delete", "delete", DELETE),
            _ => {}
        }
    }
    let mut add = |path: String, mut operations: Map<String, Value>| {
        operations.insert("parameters".to_owned(), make.shared(&path));
        paths.insert(path, Value::Object(operations));
    };
    add(format!("{scoped}/{{name}}"), single);
    add(scoped.clone(), collection);
    // The scale of a built-in kind is of another kind than its own.
    let scale = resource.scale.is_some() && resource.custom().is_some();
    for (there, subresource) in [(resource.status, "status"), (scale, "scale")] {
        if there {
            let mut part = Map::new();
            make.put(&mut part, "get", "get", &[]);
            make.put(&mut part, "put", "put", WRITE);
            make.put(&mut part, "patch", "patch", PATCH);
            add(format!("{scoped}/{{name}}/{subresource}"), part);
        }
    }
    if resource.namespaced {
        let mut all = Map::new();
        make.put(&mut all, "get", "list", LIST);
        add(format!("{root}/{}", resource.plural), all);
    }
}

const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];

struct Operations<'a> {
    resource: &'a Resource,
    version: Version,
}

impl Operations<'_> {
    fn put(&self, path: &mut Map<String, Value>, method: &str, action: &str, query: &[&str]) {
        let resource = self.resource;
        let parameters: Vec<Value> = query.iter().map(|name| self.parameter(name)).collect();
        let refs = match self.version {
            Version::V2 => "#/definitions/",
            Version::V3 => "#/components/schemas/",
        };
        let schema = json!({"$ref": format!("{refs}{}", definition_name(resource))});
        let answer = match self.version {
            Version::V2 => json!({"description": "OK", "schema": schema}),
            Version::V3 => {
                json!({"description": "OK", "content": {"application/json": {"schema": schema}}})
            }
        };
        let mut operation = json!({
            "operationId": self.id(action, path.len()),
            "parameters": parameters,
            "responses": {"200": answer, "401": {"description": "Unauthorized"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": resource.group, "version": resource.version, "kind": resource.kind,
            },
        });
        if self.version == Version::V3 && matches!(method, "post" | "put") {
            operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
        }
        path.insert(method.to_owned(), operation);
    }

    /// What all operations of a path take: what stands in the path, and how the answer looks.
    fn shared(&self, path: &str) -> Value {
        let mut all = Vec::new();
        for name in ["name", "namespace"] {
            if path.contains(&format!("{{{name}}}")) {
                let mut parameter = self.parameter(name);
                parameter["in"] = "path".into();
                parameter["required"] = true.into();
                all.push(parameter);
            }
        }
        all.push(self.parameter("pretty"));
        Value::Array(all)
    }

    fn id(&self, action: &str, nth: usize) -> String {
        let group: String = self.resource.group.split(['.', '-']).flat_map(capitalized).collect();
        let version: String = capitalized(&self.resource.version).collect();
        format!("{action}{group}{version}{}{nth}", self.resource.kind)
    }

    fn parameter(&self, name: &str) -> Value {
        let ty = match name {
            "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
            "watch"
            | "allowWatchBookmarks"
            | "sendInitialEvents"
            | "force"
            | "orphanDependents" => "boolean",
            _ => "string",
        };
        match self.version {
            Version::V2 => json!({"name": name, "in": "query", "type": ty, "uniqueItems": true}),
            Version::V3 => {
                json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}})
            }
        }
    }
}

fn capitalized(word: &str) -> impl Iterator<Item = char> + '_ {
    let mut chars = word.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars)
}
