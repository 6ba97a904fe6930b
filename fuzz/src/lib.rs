//! What the targets share: JSON values and objects made of a fuzzer's bytes, and the kinds that
//! they are tried on.

use std::sync::{Arc, LazyLock};

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Number, Value, json};
use sutler_schema::{decode, node::Node, validate::Validator};

/// Names that mean something to the code under test; a fuzzer would take long to guess them.
const NAMES: [&str; 62] = [
    "a",
    "spec",
    "metadata",
    "status",
    "kind",
    "apiVersion",
    "name",
    "namespace",
    "labels",
    "annotations",
    "managedFields",
    "fieldsV1",
    "manager",
    "operation",
    "time",
    "finalizers",
    "ownerReferences",
    "uid",
    "items",
    "set",
    "list",
    "ports",
    "port",
    "protocol",
    "replicas",
    "selector",
    "matchLabels",
    "matchExpressions",
    "template",
    "containers",
    "volumes",
    "image",
    "resources",
    "limits",
    "cpu",
    "data",
    "stringData",
    "free",
    "properties",
    "type",
    "default",
    "$patch",
    "$retainKeys",
    "$setElementOrder/items",
    "$deleteFromPrimitiveList/set",
    "$setElementOrder/ports",
    "f:spec",
    "f:a",
    "k:{\"name\":\"x\"}",
    "v:1",
    "i:0",
    ".",
    "op",
    "path",
    "value",
    "from",
    "key",
    "values",
    "operator",
    "conditions",
    "rules",
    "nested",
];

/// Texts likewise.
const TEXTS: [&str; 40] = [
    "",
    "x",
    "a",
    "1",
    "-1",
    "100m",
    "1Gi",
    "1e3",
    "0.5",
    "10%",
    "true",
    "null",
    "delete",
    "replace",
    "merge",
    "add",
    "remove",
    "test",
    "move",
    "copy",
    "/",
    "/spec/a",
    "/spec/items/-",
    "/spec/items/0",
    "/metadata/labels/a~1b",
    "Apply",
    "Update",
    "FieldsV1",
    "v1",
    "apps/v1",
    "t.example/v1",
    "TCP",
    "UDP",
    "In",
    "Exists",
    "Always",
    "2024-01-01T00:00:00Z",
    "2024-02-30T25:00:00+99:99",
    "18446744073709551616",
    "é\u{0}\u{202e}",
];

/// Any JSON value of modest size.
pub fn value(u: &mut Unstructured, depth: usize) -> Result<Value> {
    let most = if depth == 0 { 5 } else { 9 };
    Ok(match u.int_in_range(0..=most)? {
        0 => Value::Null,
        1 => Value::Bool(u.arbitrary()?),
        2 => Value::from(u.int_in_range(-3i64..=300)?),
        3 => match u.arbitrary::<bool>()? {
            true => Value::from(u.arbitrary::<i64>()?),
            false => Number::from_f64(u.arbitrary()?).map_or(Value::Null, Value::Number),
        },
        4 | 5 => Value::String(text(u)?),
        6 | 7 => {
            let mut map = Map::new();
            for _ in 0..u.int_in_range(0..=5)? {
                map.insert(name(u)?, value(u, depth - 1)?);
            }
            Value::Object(map)
        }
        _ => {
            let mut list = Vec::new();
            for _ in 0..u.int_in_range(0..=4)? {
                list.push(value(u, depth - 1)?);
            }
            Value::Array(list)
        }
    })
}

fn name(u: &mut Unstructured) -> Result<String> {
    if u.ratio(7, 8)? { Ok((*u.choose(&NAMES)?).to_owned()) } else { text(u) }
}

fn text(u: &mut Unstructured) -> Result<String> {
    if u.ratio(5, 8)? { Ok((*u.choose(&TEXTS)?).to_owned()) } else { u.arbitrary() }
}

/// A value that mostly fits its type, with something else here and there.
pub fn fitting(u: &mut Unstructured, node: &Value, depth: usize) -> Result<Value> {
    if depth == 0 || u.ratio(1, 24)? {
        return value(u, depth.min(2));
    }
    if let Some(known) = node["enum"].as_array()
        && u.ratio(3, 4)?
    {
        return Ok(u.choose(known)?.clone());
    }
    Ok(match node["type"].as_str() {
        Some("object") => {
            let mut map = Map::new();
            if let Some(fields) = node["properties"].as_object() {
                for (name, field) in fields {
                    if u.ratio(1, 2)? {
                        map.insert(name.clone(), fitting(u, field, depth - 1)?);
                    }
                }
            }
            if node["properties"].is_null() || u.ratio(1, 16)? {
                for _ in 0..u.int_in_range(0..=2)? {
                    map.insert(name(u)?, fitting(u, &node["additionalProperties"], depth - 1)?);
                }
            }
            Value::Object(map)
        }
        Some("array") => {
            let mut list = Vec::new();
            for _ in 0..u.int_in_range(0..=3)? {
                list.push(fitting(u, &node["items"], depth - 1)?);
            }
            Value::Array(list)
        }
        Some("integer") => u.int_in_range(-2i64..=70_000)?.into(),
        Some("number") => Number::from_f64(u.arbitrary()?).map_or(Value::Null, Value::Number),
        Some("boolean") => Value::Bool(u.arbitrary()?),
        Some("string") => Value::String(text(u)?),
        _ => value(u, depth - 1)?,
    })
}

/// A structural schema over the names above.
pub fn schema(u: &mut Unstructured, depth: usize) -> Result<Value> {
    let most = if depth == 0 { 6 } else { 13 };
    Ok(match u.int_in_range(0..=most)? {
        0 => json!({"type": "string"}),
        1 => json!({"type": "string", "default": "x"}),
        2 => json!({"type": "integer"}),
        3 => json!({"type": "boolean", "nullable": true}),
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        6 => json!({"x-kubernetes-preserve-unknown-fields": true}),
        7..=9 => {
            let mut fields = Map::new();
            for _ in 0..u.int_in_range(0..=5)? {
                fields.insert(name(u)?, schema(u, depth - 1)?);
            }
            let mut node = json!({"type": "object", "properties": fields});
            if u.ratio(1, 4)? {
                node["x-kubernetes-map-type"] = "atomic".into();
            }
            if u.ratio(1, 4)? {
                node["default"] = json!({});
            }
            node
        }
        10 => json!({"type": "object", "additionalProperties": schema(u, depth - 1)?}),
        11 => json!({
            "type": "array", "items": schema(u, depth - 1)?,
            "x-kubernetes-list-type": u.choose(&["atomic", "set"])?,
            "x-kubernetes-patch-strategy": "merge",
        }),
        _ => {
            let mut item = json!({"type": "object", "properties": {
                "name": {"type": "string"},
                "port": {"type": "integer", "default": 1},
                "value": schema(u, depth - 1)?,
            }});
            if u.ratio(1, 4)? {
                item["x-kubernetes-map-type"] = "atomic".into();
            }
            let keys: &[&str] = if u.arbitrary()? { &["name"] } else { &["name", "port"] };
            json!({
                "type": "array", "items": item,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
                "x-kubernetes-patch-strategy": u.choose(&["merge", "merge,retainKeys", "replace"])?,
                "x-kubernetes-patch-merge-key": "name",
            })
        }
    })
}

/// One of our kinds.
pub struct Custom {
    /// Its CRD.
    pub definition: Value,
    /// The schema of its first version.
    pub schema: Value,
    /// That schema, ready to judge objects.
    pub validator: Validator,
}

/// Kinds of ours that have all that schemas can have.
pub static CUSTOM: LazyLock<Vec<Custom>> = LazyLock::new(|| {
    let files = [
        include_str!("../../deploy/crds/infra.virtrigaud.io_virtualmachines.yaml"),
        include_str!("../../deploy/crds/infra.virtrigaud.io_providers.yaml"),
        include_str!("../../deploy/crds/infra.virtrigaud.io_vmsets.yaml"),
        include_str!("../../deploy/crds/autoscaler.vpsie.com_nodegroups.yaml"),
        include_str!("../../deploy/crds/sutler.dev_applications.yaml"),
    ];
    let custom = |text: &&str| {
        let definition = decode::yaml(text.as_bytes()).expect("our CRDs are YAML").value;
        let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let node = Node::parse(&schema).expect("our schemas are structural");
        let validator = Validator::new(Arc::new(node)).expect("our rules compile");
        Custom { definition, schema, validator }
    };
    files.iter().map(custom).collect()
});

/// What an object needs to be taken for one: a type and a name.
pub fn dress(mut object: Value, api_version: &str, kind: &str) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), api_version.into());
        fields.insert("kind".into(), kind.into());
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("name".into(), "x".into());
        }
    }
    object
}
