//! Walks over a schema, alone and beside a value.

use std::collections::BTreeSet;

use serde_json::Value;

/// One step from a value to a value in it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A known field of an object.
    Field(String),
    /// A key of a map.
    Key(String),
    /// An item of a list.
    Item(usize),
}

/// A value in an object, with its schema.
pub(super) struct Place<'a> {
    /// Where it is in the schema: `spec.disks[].name`, `spec.labels{}`; empty at the root.
    pub(super) schema_path: String,
    /// Where it is in the object.
    pub(super) steps: Vec<Step>,
    /// Its schema.
    pub(super) schema: &'a Value,
    /// The value.
    pub(super) value: &'a Value,
}

/// Calls `visit` for every value in `root` that the schema knows, parents first.
pub(super) fn walk(schema: &Value, root: &Value, visit: &mut dyn FnMut(&Place<'_>)) {
    walk_from(Place { schema_path: String::new(), steps: Vec::new(), schema, value: root }, visit);
}

fn walk_from(place: Place<'_>, visit: &mut dyn FnMut(&Place<'_>)) {
    visit(&place);
    let Place { schema_path, steps, schema, value } = place;
    let step_into = |step: Step| {
        let mut steps = steps.clone();
        steps.push(step);
        steps
    };
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                if let Some(schema) = schema.pointer("/properties").and_then(|p| p.get(name)) {
                    let steps = step_into(Step::Field(name.clone()));
                    let schema_path = join(&schema_path, name);
                    walk_from(Place { schema_path, steps, schema, value: inner }, visit);
                } else if let Some(schema) = schema.get("additionalProperties") {
                    let steps = step_into(Step::Key(name.clone()));
                    let schema_path = format!("{schema_path}{{}}");
                    walk_from(Place { schema_path, steps, schema, value: inner }, visit);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, inner) in items.iter().enumerate() {
                    let steps = step_into(Step::Item(index));
                    let schema_path = format!("{schema_path}[]");
                    walk_from(Place { schema_path, steps, schema, value: inner }, visit);
                }
            }
        }
        _ => {}
    }
}

/// Every place of a schema.
pub(super) fn paths(schema: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    visit_schema(schema, &mut |path, _| {
        paths.insert(path.to_owned());
    });
    paths
}

/// Calls `visit` for every place of a schema, parents first.
pub(super) fn visit_schema<'a>(schema: &'a Value, visit: &mut dyn FnMut(&str, &'a Value)) {
    fn inner<'a>(path: &str, schema: &'a Value, visit: &mut dyn FnMut(&str, &'a Value)) {
        visit(path, schema);
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, schema) in properties {
                inner(&join(path, name), schema, visit);
            }
        }
        if let Some(schema) = schema.get("items") {
            inner(&format!("{path}[]"), schema, visit);
        }
        if let Some(schema) = schema.get("additionalProperties") {
            inner(&format!("{path}{{}}"), schema, visit);
        }
    }
    inner("", schema, visit);
}

/// The CEL rules at a place.
pub(super) fn cel(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
}

/// The place as refusals name it: `spec.disks[0].name`.
pub(super) fn field(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Field(name) | Step::Key(name) => path = join(&path, name),
            Step::Item(index) => path = format!("{path}[{index}]"),
        }
    }
    path
}

/// A copy of `root` with the value at `steps` replaced.
pub(super) fn with(root: &Value, steps: &[Step], value: Value) -> Value {
    let mut copy = root.clone();
    let mut node = &mut copy;
    for step in steps {
        node = match step {
            Step::Field(name) | Step::Key(name) => &mut node[name.as_str()],
            Step::Item(index) => &mut node[*index],
        };
    }
    *node = value;
    copy
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
