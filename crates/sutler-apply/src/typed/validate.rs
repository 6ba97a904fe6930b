//! Whether a value fits its schema, as far as apply needs it to.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Problem, item_element, item_problem};
use crate::{
    fieldset::PathElement,
    schema::{List, ListKind, MapType, Scalar, Shape, Ty},
    value,
};

/// What keeps the value from being walked along the type. An applied configuration may not have
/// two items with the same identity; stored objects may.
pub(crate) fn validate(ty: Ty, value: &Value, duplicates: bool) -> Vec<Problem> {
    match ty.atom().deduce(Some(value)).shape() {
        None => vec![Problem::new("schema error: invalid atom: inlined")],
        Some(Shape::Scalar(scalar)) => scalar_problem(scalar, value).into_iter().collect(),
        Some(Shape::List(list)) => match value {
            Value::Null => Vec::new(),
            Value::Array(items) => validate_items(&list, items, duplicates),
            other => {
                vec![Problem::new(format!("expected list, got &{{{}}}", value::printed(other)))]
            }
        },
        Some(Shape::Map(map)) => match value {
            Value::Null => Vec::new(),
            Value::Object(fields) => validate_fields(&map, fields, duplicates),
            other => {
                vec![Problem::new(format!("expected map, got &{{{}}}", value::printed(other)))]
            }
        },
    }
}

/// Why a value is no scalar of this kind. Null always is one.
pub(crate) fn scalar_problem(scalar: Scalar, value: &Value) -> Option<Problem> {
    let fits = match (scalar, value) {
        (_, Value::Null) => true,
        (Scalar::Numeric, value) => value.is_number(),
        (Scalar::String, value) => value.is_string(),
        (Scalar::Boolean, value) => value.is_boolean(),
        (Scalar::Untyped, value) => !value.is_object() && !value.is_array(),
    };
    if fits {
        return None;
    }
    let printed = || value::printed(value);
    Some(Problem::new(match scalar {
        Scalar::Numeric => {
            format!("expected numeric (int or float), got {}", value::type_name(value))
        }
        Scalar::String => {
            let mut text = String::from("expected string, got &value.valueUnstructured{Value:");
            value::syntax(value, &mut text);
            text.push('}');
            text
        }
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", printed()),
        Scalar::Untyped => format!("expected any scalar, got &{{{}}}", printed()),
    }))
}

fn validate_items(list: &List, items: &[Value], duplicates: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let atomic = matches!(list.kind, ListKind::Atomic);
    for (i, item) in items.iter().enumerate() {
        let below = validate(list.element, item, duplicates);
        if atomic {
            let element = || PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX));
            problems.extend(below.into_iter().map(|problem| problem.under(&element())));
            continue;
        }
        // The identity is made only where it is looked at.
        if let Some(reason) = item_problem(list, item) {
            problems.push(Problem::new(format!("element {i}: {reason}")));
            return problems;
        }
        if duplicates && below.is_empty() {
            continue;
        }
        let Ok(element) = item_element(list, item) else { continue };
        if !duplicates && seen.contains(&element) {
            problems.push(Problem::new(format!("duplicate entries for key {element}")));
        }
        problems.extend(below.into_iter().map(|problem| problem.under(&element)));
        seen.insert(element);
    }
    problems
}

fn validate_fields(
    map: &MapType,
    fields: &serde_json::Map<String, Value>,
    duplicates: bool,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, value) in fields {
        let ty = map.field(name);
        if matches!(ty, Ty::Undeclared) {
            let problem = Problem::new("field not declared in schema");
            problems.push(problem.under(&PathElement::field(name)));
            break;
        }
        let below = validate(ty, value, duplicates);
        if !below.is_empty() {
            let element = PathElement::field(name);
            problems.extend(below.into_iter().map(|problem| problem.under(&element)));
        }
    }
    problems
}
