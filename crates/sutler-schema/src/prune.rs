//! Unknown fields, and the metadata of resources, which has a schema of its own.

use serde_json::{Map, Value};

use crate::{
    decode::whole,
    defaults::drop_nulls,
    error::FieldError,
    node::{Node, Type},
    object_meta,
    path::{Path, push_index},
};

/// Why the metadata of an object cannot be used; the text is the message of the 400 answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CoerceError(pub String);

/// Makes a decoded custom resource fit its schema: drops unknown fields, drops nulls that are not
/// admitted, and normalises the metadata at the root and in embedded resources. Returns the paths
/// of the dropped fields in the order in which the API lists them.
pub fn coerce(value: &mut Value, node: &Node) -> Result<Vec<String>, CoerceError> {
    for name in ["kind", "apiVersion"] {
        match value.get(name) {
            None | Some(Value::String(_)) => {}
            Some(other) => {
                return Err(CoerceError(format!(
                    ".{name} accessor error: {} is of the type {}, expected string",
                    crate::text::go_json(other),
                    go_type(other)
                )));
            }
        }
    }
    let mut unknown = Vec::new();
    let meta = match value.get("metadata") {
        None => None,
        Some(meta) => {
            let meta = object_meta::coerce(meta, "metadata", &mut unknown).map_err(CoerceError)?;
            Some(meta)
        }
    };
    let mut pruned = Vec::new();
    prune_root(value, node, &mut pruned);
    unknown.append(&mut pruned);
    drop_nulls(value, node);
    whole_floats(value, Some(node));
    let mut embedded = Vec::new();
    coerce_embedded(value, node, &Path::root(), &mut embedded)
        .map_err(|error| CoerceError(error.to_string()))?;
    embedded.sort_unstable();
    unknown.append(&mut embedded);
    if let (Some(meta), Value::Object(fields)) = (meta, value) {
        fields.insert("metadata".into(), meta);
    }
    Ok(unknown)
}

/// Drops the unknown fields of a custom resource and returns their paths, sorted. `apiVersion`,
/// `kind` and `metadata` stay, at the root and in embedded resources; of the metadata, only the
/// known fields stay. Types are not looked at: see [`coerce`] for that.
pub fn prune(value: &mut Value, node: &Node) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_root(value, node, &mut unknown);
    prune_meta(value, node, &mut String::new(), true, &mut unknown);
    unknown.sort_unstable();
    unknown
}

/// The paths of the fields that `node` does not know, by name at every level; for built-in kinds,
/// whose node describes the whole object. The order of the text is in
/// [`crate::decode::json_known`].
pub fn unknown_fields(value: &Value, node: &Node) -> Vec<String> {
    let mut unknown = Vec::new();
    find_unknown(value, node, &mut String::new(), &mut unknown);
    unknown
}

fn prune_root(value: &mut Value, node: &Node, unknown: &mut Vec<String>) {
    let mut path = String::new();
    let mut walk = Prune { path: &mut path, unknown };
    walk.value(value, Some(node), true);
    unknown.sort_unstable();
}

fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

struct Prune<'p> {
    path: &'p mut String,
    unknown: &'p mut Vec<String>,
}

impl Prune<'_> {
    /// Drops what `node` does not know; without a node, everything. `resource` where the type and
    /// object metadata are implied.
    fn value(&mut self, value: &mut Value, node: Option<&Node>, resource: bool) {
        if let Some(node) = node.filter(|node| node.preserve_unknown) {
            return self.preserved(value, node, resource);
        }
        let length = self.path.len();
        match value {
            Value::Object(fields) => fields.retain(|name, field| {
                let Some(node) = node else {
                    self.record(name);
                    return false;
                };
                if (resource || node.embedded_resource) && is_meta_field(name) {
                    return true;
                }
                if let Some(child) = node.field(name) {
                    push_key(self.path, name);
                    self.value(field, Some(child), false);
                    self.path.truncate(length);
                    return true;
                }
                if !is_meta_field(name) || length > 0 {
                    self.record(name);
                }
                false
            }),
            Value::Array(items) => {
                let child = node.and_then(|node| node.items.as_deref());
                for (i, item) in items.iter_mut().enumerate() {
                    push_index(self.path, i);
                    self.value(item, child, false);
                    self.path.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Keeps unknown fields, but goes on below the known ones.
    fn preserved(&mut self, value: &mut Value, node: &Node, resource: bool) {
        let length = self.path.len();
        match value {
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    if (resource || node.embedded_resource) && is_meta_field(name) {
                        continue;
                    }
                    let child = node.field(name).map(|child| &**child);
                    if child.is_some() || node.additional_any {
                        push_key(self.path, name);
                        self.value(field, child, false);
                        self.path.truncate(length);
                    }
                }
            }
            Value::Array(items) => {
                let Some(child) = &node.items else { return };
                for (i, item) in items.iter_mut().enumerate() {
                    push_index(self.path, i);
                    self.preserved(item, child, false);
                    self.path.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn record(&mut self, name: &str) {
        let length = self.path.len();
        push_key(self.path, name);
        self.unknown.push(self.path.clone());
        self.path.truncate(length);
    }
}

/// Drops unknown fields of the metadata of every resource in `value`.
fn prune_meta(
    value: &mut Value,
    node: &Node,
    path: &mut String,
    resource: bool,
    unknown: &mut Vec<String>,
) {
    let length = path.len();
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let is_meta = (resource || node.embedded_resource) && name == "metadata";
                let child = if is_meta { None } else { node.field(name) };
                push_key(path, name);
                if is_meta {
                    let mut walk = Prune { path, unknown };
                    walk.value(field, Some(object_meta::node()), false);
                } else if let Some(child) = child {
                    prune_meta(field, child, path, false, unknown);
                }
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for (i, item) in items.iter_mut().enumerate() {
                push_index(path, i);
                prune_meta(item, child, path, false, unknown);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Makes integers of whole floats, which is how they are written. Only where a number has a limit
/// that is no integer does it matter how it was given.
fn whole_floats(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let limits = node.into_iter().flat_map(|n| [n.minimum, n.maximum, n.multiple_of]);
            let fractional = limits.flatten().any(|limit| limit.fract() != 0.0);
            if let Some(int) = number.as_f64().and_then(whole).filter(|_| !fractional) {
                *value = int.into();
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                whole_floats(field, node.and_then(|node| node.field(name)).map(|child| &**child));
            }
        }
        Value::Array(items) => {
            let child = node.and_then(|node| node.items.as_deref());
            for item in items {
                whole_floats(item, child);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Normalises the metadata of embedded resources.
fn coerce_embedded(
    value: &mut Value,
    node: &Node,
    path: &Path,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    match value {
        Value::Object(fields) => {
            if node.embedded_resource {
                coerce_resource(fields, path, unknown)?;
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = node.properties.get(name) {
                    coerce_embedded(field, child, &path.child(name), unknown)?;
                } else if let Some(child) = &node.additional {
                    coerce_embedded(field, child, &path.key(name), unknown)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return Ok(()) };
            for (i, item) in items.iter_mut().enumerate() {
                coerce_embedded(item, child, &path.index(i), unknown)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn coerce_resource(
    fields: &mut Map<String, Value>,
    path: &Path,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(other) = fields.get(name).filter(|field| !field.is_string()) {
            return Err(FieldError::invalid(path.child(name), other.clone(), "must be a string"));
        }
    }
    if let Some(meta) = fields.get_mut("metadata") {
        let at = path.child("metadata");
        match object_meta::coerce(meta, &at.to_string(), unknown) {
            Ok(coerced) => *meta = coerced,
            Err(message) => return Err(FieldError::invalid(at, meta.clone(), message)),
        }
    }
    Ok(())
}

fn find_unknown(value: &Value, node: &Node, path: &mut String, unknown: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Object(fields) => {
            // A scalar node given an object is a type error, not an object of unknown fields.
            if !matches!(node.ty, Type::Object | Type::Any) {
                return;
            }
            for (name, field) in fields {
                push_key(path, name);
                match node.field(name) {
                    Some(child) => find_unknown(field, child, path, unknown),
                    None if is_open(node) => {}
                    None => unknown.push(path.clone()),
                }
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for (i, item) in items.iter().enumerate() {
                push_index(path, i);
                find_unknown(item, child, path, unknown);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether an object of this schema may have fields that it does not name.
pub(crate) fn is_open(node: &Node) -> bool {
    // An object about which the schema says nothing, such as `fieldsV1`, is opaque.
    let opaque = node.properties.is_empty() && node.additional.is_none();
    node.preserve_unknown || node.ty != Type::Object || opaque
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Node {
        Node::parse(&json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "known": {"type": "string"},
                "list": {"type": "array", "items": {
                    "type": "object", "properties": {"a": {"type": "integer"}},
                }},
                "map": {"type": "object", "additionalProperties": {
                    "type": "object", "properties": {"b": {"type": "integer"}},
                }},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"inner": {"type": "object", "properties": {}}}},
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}},
                "anything": {"type": "object", "additionalProperties": true},
            },
        }}}))
        .unwrap()
    }

    #[test]
    fn drops_and_reports() {
        let mut object = json!({
            "apiVersion": "g/v1", "kind": "K", "extra": 1,
            "metadata": {"name": "a", "zone": 1},
            "spec": {
                "known": "x", "other": {"deep": 1},
                "list": [{"a": 1, "c": 2}, {}],
                "map": {"k.x": {"b": 1, "d": 2}},
                "open": {"free": {"y": 1}, "inner": {"z": 1}},
                "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "e", "q": 1},
                    "spec": {"w": 1}, "status": {}},
                "anything": {"x": {"y": 1}, "l": [{"z": 1}, 2], "s": "t"},
            },
        });
        let wanted = json!({
            "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"},
            "spec": {
                "known": "x", "list": [{"a": 1}, {}], "map": {"k.x": {"b": 1}},
                "open": {"free": {"y": 1}, "inner": {}},
                "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "e"}, "spec": {}},
                "anything": {"x": {}, "l": [{}, 2], "s": "t"},
            },
        });
        let paths = [
            "extra",
            "metadata.zone",
            "spec.anything.l[0].z",
            "spec.anything.x.y",
            "spec.embedded.metadata.q",
            "spec.embedded.spec.w",
            "spec.embedded.status",
            "spec.list[0].c",
            "spec.map.k.x.d",
            "spec.open.inner.z",
            "spec.other",
        ];
        let mut coerced = object.clone();
        assert_eq!(prune(&mut object, &node()), paths);
        assert_eq!(object, wanted);
        let mut reported = coerce(&mut coerced, &node()).unwrap();
        reported.sort();
        assert_eq!(reported, paths);
        assert_eq!(coerced, wanted);
    }

    #[test]
    fn refuses_wrong_metadata() {
        let refused = |object: Value| coerce(&mut object.clone(), &node()).unwrap_err().0;
        assert_eq!(
            refused(json!({"metadata": {"labels": 1}})),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type \
             map[string]string"
        );
        assert_eq!(
            refused(json!({"spec": {"embedded": {"kind": 1}}})),
            "spec.embedded.kind: Invalid value: 1: must be a string"
        );
        assert_eq!(
            refused(json!({"kind": 1})),
            ".kind accessor error: 1 is of the type int64, expected string"
        );
    }

    #[test]
    fn built_in_kinds() {
        let node = Node::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "containers": {"type": "array", "items": {"type": "object", "properties": {
                    "name": {"type": "string"}}}},
                "selector": {"type": "object", "additionalProperties": {"type": "string"}},
            }},
        }}))
        .unwrap();
        let object = json!({"foo": 1, "spec": {
            "containers": [{"name": "a"}, {"Name": "b"}], "selector": {"x": "y"}, "bar": {"baz": 1},
        }});
        let unknown = unknown_fields(&object, &node);
        assert_eq!(unknown, ["foo", "spec.bar", "spec.containers[1].Name"]);
    }

    #[test]
    fn whole_floats_become_integers() {
        let node = Node::parse(&json!({"type": "object", "properties": {
            "i": {"type": "integer"}, "n": {"type": "number"},
            "limited": {"type": "number", "multipleOf": 0.25},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
        }}))
        .unwrap();
        let mut object = json!({"i": 1.0, "n": 2.0, "limited": 1.0, "any": [3.0, 1e300, 1.5]});
        coerce(&mut object, &node).unwrap();
        assert_eq!(object, json!({"i": 1, "n": 2, "limited": 1.0, "any": [3, 1e300, 1.5]}));
    }
}
