//! What the reference implementation says of an object whose values do not fit, where it does not
//! read JSON: the outcome of a strategic merge is turned into its typed form value by value.

use serde_json::Value;

use crate::{
    Kind,
    types::{self, Type, Types},
};

/// The first value of an object that does not fit its type, in words.
pub fn misfit(kind: &Kind, object: &Value) -> Option<String> {
    let types = types::table();
    let root = types.named(kind.definition())?;
    check(types, &Type::Struct(root), None, object).err()
}

fn check(types: &Types, ty: &Type, shown: Option<&str>, value: &Value) -> Result<(), String> {
    let found = found(value);
    let simple = |name: &str, convertible: bool| match convertible {
        true => Err(format!("cannot convert {found} to {}", shown.unwrap_or(name))),
        false => Err(format!("unrecognized type: {name}")),
    };
    match (ty, value) {
        (_, Value::Null)
        | (Type::String, Value::String(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::Float64, Value::Number(_)) => Ok(()),
        (Type::Pointer(inner) | Type::Wrapped(inner), value) => check(types, inner, shown, value),
        (Type::Int32 | Type::Int64, Value::Number(n))
            if n.is_i64() || n.as_f64().is_some_and(|n| n.fract() == 0.0) =>
        {
            Ok(())
        }
        (Type::String, _) => simple("string", found == "int64"),
        (Type::Bool, _) => simple("bool", false),
        (Type::Int32, _) => simple("int32", found == "float64"),
        (Type::Int64, _) => simple("int64", found == "float64"),
        (Type::Float64, _) => simple("float64", false),
        (Type::Struct(index), Value::Object(map)) => {
            for field in &types.get(*index).fields {
                match field.name {
                    "" => check(types, &field.ty, field.shown, value)?,
                    name => {
                        let value = map.get(name).unwrap_or(&Value::Null);
                        check(types, &field.ty, field.shown, value)?;
                    }
                }
            }
            Ok(())
        }
        (Type::Struct(_), _) => Err(format!("cannot restore struct from: {found}")),
        (Type::List(inner), Value::Array(list)) => {
            let shown = shown.and_then(|shown| shown.strip_prefix("[]"));
            list.iter().try_for_each(|item| check(types, inner, shown, item))
        }
        (Type::List(_), _) => Err(format!("cannot restore slice from {found}")),
        (Type::Map(inner), Value::Object(map)) => {
            map.values().try_for_each(|item| check(types, inner, None, item))
        }
        (Type::Map(_), _) => Err(format!("cannot restore map from {found}")),
        // These read themselves, and from JSON.
        _ => Ok(()),
    }
}

/// What Go calls a value of unknown type.
fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_misfit_is_named() {
        let deployment = crate::lookup("apps", "v1", "Deployment").unwrap();
        let misfit = |spec: Value| misfit(deployment, &json!({"spec": spec}));
        assert_eq!(misfit(json!({"replicas": 3, "paused": true})), None);
        assert_eq!(misfit(json!({"replicas": "x"})).unwrap(), "unrecognized type: int32");
        assert_eq!(misfit(json!({"replicas": 1.5})).unwrap(), "cannot convert float64 to int32");
        assert_eq!(misfit(json!("x")).unwrap(), "cannot restore struct from: string");
        let labels = json!({"selector": {"matchLabels": {"a": 5}}});
        assert_eq!(misfit(labels).unwrap(), "cannot convert int64 to string");
    }
}
