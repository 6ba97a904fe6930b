//! Walks over values along their schema.

mod compare;
mod merge;
mod remove;
mod sets;
mod validate;

use serde_json::Value;

pub(crate) use self::{
    compare::{Comparison, compare},
    merge::merge,
    remove::remove,
    sets::{ensure_named, field_set, reconcile},
    validate::validate,
};
use crate::{
    fieldset::PathElement,
    schema::{List, ListKind},
    value,
};

/// A value that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    path: String,
    message: String,
}

impl Problem {
    fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    fn under(mut self, element: &PathElement) -> Self {
        self.path.insert_str(0, &element.to_string());
        self
    }
}

/// One line for one problem, a list for several.
pub(crate) fn problems_text(problems: &[Problem]) -> String {
    let line = |problem: &Problem| match problem.path.as_str() {
        "" => problem.message.clone(),
        path => format!("{path}: {}", problem.message),
    };
    match problems {
        [one] => line(one),
        many => {
            let mut out = String::from("errors:");
            for problem in many {
                out.push_str("\n  ");
                out.push_str(&line(problem));
            }
            out
        }
    }
}

/// Why an item of a list that is made of parts has no identity.
fn item_problem(list: &List, item: &Value) -> Option<String> {
    let text = match (list.kind, item) {
        (ListKind::Atomic, _) => "invalid indexing of non-associative list",
        (ListKind::Set, Value::Object(_)) => {
            "associative list without keys has an element that's a map type"
        }
        (ListKind::Set, Value::Array(_)) => {
            "not supported: associative list with lists as elements"
        }
        (ListKind::Set, Value::Null) => {
            "associative list without keys has an element that's an explicit null"
        }
        (ListKind::Set, _) => return None,
        (ListKind::Map(keys), Value::Object(map)) => {
            let has =
                |key: &String| map.contains_key(key) || list.element.field_default(key).is_some();
            if keys.iter().any(has) {
                return None;
            }
            let keys: Vec<String> = keys.iter().map(|key| value::quoted(key)).collect();
            return Some(format!(
                "associative list with keys has an element that omits all key fields [{}] \
                 (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        (ListKind::Map(_), Value::Null) => "associative list with keys may not have a null element",
        (ListKind::Map(_), _) => "associative list with keys may not have non-map elements",
    };
    Some(text.to_owned())
}

/// How an item of a list that is made of parts is identified.
fn item_element(list: &List, item: &Value) -> Result<PathElement, String> {
    if let Some(problem) = item_problem(list, item) {
        return Err(problem);
    }
    let ListKind::Map(keys) = list.kind else { return Ok(PathElement::Value(item.clone())) };
    let mut fields = Vec::with_capacity(keys.len());
    for key in keys {
        // A key that is absent and has no default is not part of the identity.
        if let Some(value) = item.get(key).or_else(|| list.element.field_default(key)) {
            fields.push((key.clone(), value.clone()));
        }
    }
    fields.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(PathElement::Key(fields))
}
