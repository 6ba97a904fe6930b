//! The fields of `metadata` and their types. A custom resource's metadata is read as strictly as
//! that of built-in kinds: unknown fields are dropped, a field of the wrong type is an error.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::{
    node::Node,
    path::push_index,
    text::go_scalar,
    time::{self, TimeError},
};

/// The schema of `metadata`.
pub fn node() -> &'static Node {
    static NODE: LazyLock<Node> = LazyLock::new(|| {
        Node::parse(&schema_of(&OBJECT_META)).expect("the schema of metadata is well-formed")
    });
    &NODE
}

/// Normalises metadata that stands at `path`: known fields only, empty ones left out, times in
/// UTC. Paths of unknown fields go to `unknown`; the error is the text of the 400 answer.
pub fn coerce(meta: &Value, path: &str, unknown: &mut Vec<String>) -> Result<Value, String> {
    if meta.is_null() {
        return Ok(Value::Object(Map::new()));
    }
    let mut reader = Reader { path: path.to_owned(), stack: Vec::new(), unknown };
    reader.object(meta, &OBJECT_META).map(Value::Object)
}

/// The type of a field, with the name that error messages give to it.
enum Kind {
    Text(&'static str),
    Int,
    Bool,
    Time,
    TextMap,
    TextList,
    List(&'static Struct),
    Raw,
}

struct Field {
    name: &'static str,
    kind: Kind,
    /// Whether the field is written even when empty.
    keep: bool,
    /// Whether zero differs from absent.
    pointer: bool,
}

struct Struct {
    name: &'static str,
    fields: &'static [Field],
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, keep: false, pointer: false }
}

const fn kept(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, keep: true, pointer: false }
}

const fn pointer(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, keep: false, pointer: true }
}

const TEXT: Kind = Kind::Text("string");

static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    fields: &[
        field("name", TEXT),
        field("generateName", TEXT),
        field("namespace", TEXT),
        field("selfLink", TEXT),
        field("uid", Kind::Text("types.UID")),
        field("resourceVersion", TEXT),
        field("generation", Kind::Int),
        field("creationTimestamp", Kind::Time),
        field("deletionTimestamp", Kind::Time),
        pointer("deletionGracePeriodSeconds", Kind::Int),
        field("labels", Kind::TextMap),
        field("annotations", Kind::TextMap),
        field("ownerReferences", Kind::List(&OWNER_REFERENCE)),
        field("finalizers", Kind::TextList),
        field("managedFields", Kind::List(&MANAGED_FIELDS)),
    ],
};

static OWNER_REFERENCE: Struct = Struct {
    name: "OwnerReference",
    fields: &[
        kept("apiVersion", TEXT),
        kept("kind", TEXT),
        kept("name", TEXT),
        kept("uid", Kind::Text("types.UID")),
        pointer("controller", Kind::Bool),
        pointer("blockOwnerDeletion", Kind::Bool),
    ],
};

static MANAGED_FIELDS: Struct = Struct {
    name: "ManagedFieldsEntry",
    fields: &[
        field("manager", TEXT),
        field("operation", Kind::Text("v1.ManagedFieldsOperationType")),
        field("apiVersion", TEXT),
        field("time", Kind::Time),
        field("fieldsType", TEXT),
        field("fieldsV1", Kind::Raw),
        field("subresource", TEXT),
    ],
};

fn schema_of(object: &Struct) -> Value {
    let properties: Map<String, Value> = object
        .fields
        .iter()
        .map(|field| {
            let schema = match &field.kind {
                Kind::Text(_) => json!({"type": "string"}),
                Kind::Int => json!({"type": "integer", "format": "int64"}),
                Kind::Bool => json!({"type": "boolean"}),
                Kind::Time => json!({"type": "string", "format": "date-time"}),
                Kind::TextMap => {
                    json!({"type": "object", "additionalProperties": {"type": "string"}})
                }
                Kind::TextList => json!({
                    "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
                }),
                Kind::List(inner) if inner.name == OWNER_REFERENCE.name => json!({
                    "type": "array",
                    "items": schema_of(inner),
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                }),
                Kind::List(inner) => json!({"type": "array", "items": schema_of(inner)}),
                Kind::Raw => {
                    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
                }
            };
            (field.name.to_owned(), schema)
        })
        .collect();
    json!({"type": "object", "properties": properties})
}

struct Reader<'u> {
    path: String,
    /// Names of the fields on the way down, for messages.
    stack: Vec<&'static str>,
    unknown: &'u mut Vec<String>,
}

impl Reader<'_> {
    fn object(
        &mut self,
        value: &Value,
        object: &'static Struct,
    ) -> Result<Map<String, Value>, String> {
        let Value::Object(given) = value else {
            return Err(self.mismatch(value, &format!("v1.{}", object.name), None));
        };
        let mut out = Map::new();
        let length = self.path.len();
        for (name, value) in given {
            self.path.push('.');
            self.path.push_str(name);
            match object.fields.iter().find(|field| field.name == name) {
                None => self.unknown.push(self.path.clone()),
                Some(field) => {
                    self.stack.push(field.name);
                    if let Some(value) = self.field(value, field, object)? {
                        out.insert(name.clone(), value);
                    }
                    self.stack.pop();
                }
            }
            self.path.truncate(length);
        }
        for field in object.fields.iter().filter(|field| field.keep) {
            out.entry(field.name).or_insert_with(|| Value::String(String::new()));
        }
        Ok(out)
    }

    /// The normalised value, or nothing when it is empty.
    fn field(
        &mut self,
        value: &Value,
        field: &Field,
        object: &'static Struct,
    ) -> Result<Option<Value>, String> {
        if value.is_null() {
            return Ok(None);
        }
        let owner = Some(object.name);
        Ok(match &field.kind {
            Kind::Text(ty) => {
                let text = value.as_str().ok_or_else(|| self.mismatch(value, ty, owner))?;
                (field.keep || !text.is_empty()).then(|| value.clone())
            }
            Kind::Bool => {
                value.as_bool().ok_or_else(|| self.mismatch(value, "bool", owner))?;
                Some(value.clone())
            }
            Kind::Int => match value.as_i64() {
                Some(int) => (field.pointer || int != 0).then(|| value.clone()),
                None => return Err(self.mismatch(value, "int64", owner)),
            },
            Kind::Time => Some(self.time(value, owner)?.into()),
            Kind::TextMap => {
                let ty = "map[string]string";
                let map = value.as_object().ok_or_else(|| self.mismatch(value, ty, owner))?;
                let mut out = Map::new();
                for (key, value) in map {
                    out.insert(key.clone(), self.text(value, owner)?);
                }
                (!out.is_empty()).then_some(Value::Object(out))
            }
            Kind::TextList => {
                let list =
                    value.as_array().ok_or_else(|| self.mismatch(value, "[]string", owner))?;
                let list: Result<Vec<Value>, String> =
                    list.iter().map(|value| self.text(value, owner)).collect();
                let list = list?;
                (!list.is_empty()).then_some(Value::Array(list))
            }
            Kind::List(inner) => {
                let Some(list) = value.as_array() else {
                    return Err(self.mismatch(value, &format!("[]v1.{}", inner.name), owner));
                };
                let (mut out, length) = (Vec::with_capacity(list.len()), self.path.len());
                for (i, item) in list.iter().enumerate() {
                    push_index(&mut self.path, i);
                    let empty = Value::Object(Map::new());
                    let item = if item.is_null() { &empty } else { item };
                    let item = match item {
                        Value::Object(_) => self.object(item, inner)?,
                        _ => {
                            return Err(self.mismatch(item, &format!("v1.{}", inner.name), owner));
                        }
                    };
                    out.push(Value::Object(item));
                    self.path.truncate(length);
                }
                (!out.is_empty()).then_some(Value::Array(out))
            }
            Kind::Raw => Some(value.clone()),
        })
    }

    fn text(&self, value: &Value, owner: Option<&str>) -> Result<Value, String> {
        match value {
            Value::String(_) => Ok(value.clone()),
            Value::Null => Ok(Value::String(String::new())),
            other => Err(self.mismatch(other, "string", owner)),
        }
    }

    fn time(&self, value: &Value, owner: Option<&str>) -> Result<String, String> {
        let Value::String(text) = value else {
            // Only a time that may be absent knows where it stands.
            if matches!(self.stack.last(), Some(&("deletionTimestamp" | "time"))) {
                return Err(self.mismatch(value, "string", owner));
            }
            let given = json_kind(value);
            return Err(format!("json: cannot unmarshal {given} into Go value of type string"));
        };
        match time::parse_rfc3339(text) {
            Ok(time) => Ok(time::format_seconds(&time)),
            Err(TimeError(message)) => Err(message),
        }
    }

    fn mismatch(&self, value: &Value, ty: &str, owner: Option<&str>) -> String {
        // A number names itself only where a number was wanted.
        let given = match value {
            Value::Number(_) if ty == "int64" => format!("number {}", go_scalar(value)),
            _ => json_kind(value).to_owned(),
        };
        match owner {
            Some(owner) => {
                let field = self.stack.join(".");
                format!(
                    "json: cannot unmarshal {given} into Go struct field {owner}.{field} of type {ty}"
                )
            }
            None => format!("json: cannot unmarshal {given} into Go value of type {ty}"),
        }
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises() {
        let mut unknown = Vec::new();
        let given = json!({
            "name": "a", "namespace": "", "generation": 0, "labels": {"x": null}, "annotations": {},
            "creationTimestamp": "2026-01-02T05:04:05.5+02:00", "deletionGracePeriodSeconds": 0,
            "finalizers": [], "foo": 1,
            "ownerReferences": [{"kind": "K", "bar": 1, "controller": false}],
        });
        let wanted = json!({
            "name": "a", "labels": {"x": ""}, "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionGracePeriodSeconds": 0,
            "ownerReferences": [
                {"apiVersion": "", "kind": "K", "name": "", "uid": "", "controller": false},
            ],
        });
        assert_eq!(coerce(&given, "metadata", &mut unknown).unwrap(), wanted);
        assert_eq!(unknown, ["metadata.foo", "metadata.ownerReferences[0].bar"]);
    }

    #[test]
    fn refuses() {
        let cases = [
            (json!(1), "number into Go value of type v1.ObjectMeta"),
            (json!({"name": 1}), "number into Go struct field ObjectMeta.name of type string"),
            (json!({"uid": []}), "array into Go struct field ObjectMeta.uid of type types.UID"),
            (
                json!({"generation": 1.5}),
                "number 1.5 into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"generation": "1"}),
                "string into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"labels": []}),
                "array into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (
                json!({"labels": {"a": 1}}),
                "number into Go struct field ObjectMeta.labels of type string",
            ),
            (
                json!({"ownerReferences": [{"name": true}]}),
                "bool into Go struct field OwnerReference.ownerReferences.name of type string",
            ),
            (json!({"creationTimestamp": 1}), "number into Go value of type string"),
        ];
        for (meta, message) in cases {
            let error = coerce(&meta, "metadata", &mut Vec::new()).unwrap_err();
            assert_eq!(error, format!("json: cannot unmarshal {message}"));
        }
        let error = coerce(&json!({"deletionTimestamp": "x"}), "metadata", &mut Vec::new());
        assert_eq!(
            error.unwrap_err(),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#
        );
    }
}
