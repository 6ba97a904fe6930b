//! Defaults of custom resources, and the nulls that they replace.
//!
//! The order on a request is: decode, [`apply_defaults`], then [`crate::prune::coerce`], which
//! also calls [`drop_nulls`].

use serde_json::Value;

use crate::node::Node;

/// Sets the default of every absent field, and of every null that is not admitted.
pub fn apply_defaults(value: &mut Value, node: &Node) {
    match value {
        Value::Object(fields) => {
            for (name, child) in &node.properties {
                let Some(default) = default_of(child) else { continue };
                match fields.get_mut(name) {
                    None => {
                        fields.insert(name.clone(), default.clone());
                    }
                    Some(field) if field.is_null() && !child.nullable => *field = default.clone(),
                    Some(_) => {}
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = node.properties.get(name) {
                    apply_defaults(field, child);
                } else if let Some(child) = &node.additional {
                    replace_null(field, child);
                    apply_defaults(field, child);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for item in items {
                replace_null(item, child);
                apply_defaults(item, child);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Drops nulls of fields that neither admit null nor have a default.
pub fn drop_nulls(value: &mut Value, node: &Node) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| match node.field(name) {
                Some(child) if field.is_null() => child.nullable || default_of(child).is_some(),
                Some(child) => {
                    drop_nulls(field, child);
                    true
                }
                None => true,
            });
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for item in items {
                drop_nulls(item, child);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(value: &mut Value, node: &Node) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = default_of(node)
    {
        *value = default.clone();
    }
}

/// The default, unless it is null, which counts as none.
fn default_of(node: &Node) -> Option<&Value> {
    node.default.as_ref().filter(|default| !default.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Node {
        Node::parse(&json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "default": 1},
                "n": {"type": "integer", "default": 1, "nullable": true},
                "plain": {"type": "string"},
                "o": {"type": "object", "default": {}, "properties": {
                    "b": {"type": "string", "default": "x"},
                }},
                "m": {"type": "object", "additionalProperties": {
                    "type": "object", "default": {"z": 1},
                    "properties": {"c": {"type": "integer", "default": 2}},
                }},
                "l": {"type": "array", "items": {
                    "type": "object", "properties": {"d": {"type": "integer", "default": 3}},
                }},
            },
        }))
        .unwrap()
    }

    #[test]
    fn table() {
        let cases = [
            (json!({}), json!({"a": 1, "n": 1, "o": {"b": "x"}})),
            (json!({"a": null, "n": null, "o": null}), json!({"a": 1, "n": null, "o": {"b": "x"}})),
            (
                json!({"a": 5, "n": 5, "o": {"b": "y"}, "m": {"k": {}, "v": null}}),
                json!({"a": 5, "n": 5, "o": {"b": "y"}, "m": {"k": {"c": 2}, "v": {"z": 1, "c": 2}}}),
            ),
            (
                json!({"a": 5, "n": 5, "o": {"b": "y"}, "l": [{}, null, {"d": 4}], "plain": null}),
                json!({"a": 5, "n": 5, "o": {"b": "y"}, "l": [{"d": 3}, null, {"d": 4}], "plain": null}),
            ),
        ];
        for (mut given, wanted) in cases {
            apply_defaults(&mut given, &node());
            assert_eq!(given, wanted);
        }
    }

    #[test]
    fn nulls() {
        let mut given = json!({"a": null, "n": null, "plain": null, "unknown": null,
            "l": [null, {"d": null}], "m": {"k": null, "j": {"c": null}}});
        drop_nulls(&mut given, &node());
        assert_eq!(
            given,
            json!({"a": null, "n": null, "unknown": null, "l": [null, {"d": null}],
                "m": {"k": null, "j": {"c": null}}})
        );
    }
}
