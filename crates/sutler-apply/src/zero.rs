//! The object of a built-in kind before anything is set.
//!
//! Built-in kinds are structs: parts that are not optional are there before anybody sets them, so
//! whoever creates the object does not come to own them. Custom resources have nothing of that.

use serde_json::{Map, Value};
use sutler_schema::node::{Node, Type};

/// The zero object of a kind whose schema is that of the real server: a field that is always there
/// is required, or defaults to an empty object.
pub fn object(node: &Node, api_version: &str, kind: &str) -> Value {
    let mut zero = fields(node);
    zero.remove("apiVersion");
    zero.remove("kind");
    zero.insert("apiVersion".to_owned(), api_version.into());
    zero.insert("kind".to_owned(), kind.into());
    zero.insert("metadata".to_owned(), Map::new().into());
    Value::Object(zero)
}

fn fields(node: &Node) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, field) in &node.properties {
        let required = node.required.contains(name);
        let value = match &field.default {
            Some(Value::Object(default)) if default.is_empty() => {
                // A scalar that is written as an object in the schema's language stays null.
                if field.ty == Type::Object || !field.properties.is_empty() {
                    Value::Object(fields(field))
                } else {
                    Value::Null
                }
            }
            Some(default) if required => default.clone(),
            None if required => Value::Null,
            _ => continue,
        };
        out.insert(name.clone(), value);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_always_there() {
        let node = Node::parse(&json!({
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "default": {}},
                "spec": {
                    "type": "object", "default": {}, "required": ["selector", "name", "items"],
                    "properties": {
                        "selector": {"type": "object"},
                        "name": {"type": "string", "default": ""},
                        "items": {"type": "array", "items": {"type": "string"}},
                        "protocol": {"type": "string", "default": "TCP"},
                        "strategy": {"type": "object", "default": {}},
                    },
                },
                "data": {"type": "object"},
            },
        }))
        .unwrap();
        assert_eq!(
            object(&node, "v1", "Thing"),
            json!({
                "apiVersion": "v1", "kind": "Thing", "metadata": {},
                "spec": {"selector": null, "name": "", "items": null, "strategy": {}},
            })
        );
    }
}
