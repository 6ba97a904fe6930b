//! Definitions of the kinds, as they are served.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::CustomResourceExt;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::{autoscaler, infra, sutler};

/// All definitions, sorted by name.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        crd::<infra::Provider>(&[]),
        crd::<infra::VirtualMachine>(infra::virtual_machine::UPDATE_RULES),
        crd::<infra::VMClass>(&[]),
        crd::<infra::VMClone>(&[]),
        crd::<infra::VMImage>(&[]),
        crd::<infra::VMMigration>(&[]),
        crd::<infra::VMNetworkAttachment>(&[]),
        crd::<infra::VMPlacementPolicy>(&[]),
        crd::<infra::VMSet>(&[]),
        crd::<infra::VMSnapshot>(&[]),
        crd::<autoscaler::AutoscalerConfig>(&[]),
        crd::<autoscaler::NodeGroup>(&[]),
        crd::<autoscaler::VPSieNode>(&[]),
        crd::<sutler::Agent>(&[]),
        crd::<sutler::Application>(&[]),
        crd::<sutler::Operation>(&[]),
        crd::<sutler::PendingAdoption>(sutler::pending_adoption::UPDATE_RULES),
        crd::<sutler::VMDisk>(sutler::vm_disk::UPDATE_RULES),
        crd::<sutler::VMTemplate>(&[]),
    ];
    crds.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    crds
}

/// All definitions as one YAML stream that kubectl can apply.
pub fn crd_yaml() -> String {
    crds().iter().map(to_yaml).collect::<Vec<_>>().join("---\n")
}

/// One definition as JSON, with whole numbers written without a fraction.
pub fn to_value(crd: &CustomResourceDefinition) -> Value {
    let mut value = serde_json::to_value(crd).expect("a definition is plain data");
    write_whole_numbers(&mut value);
    value
}

/// One definition as a YAML document.
pub fn to_yaml(crd: &CustomResourceDefinition) -> String {
    serde_saphyr::to_string(&to_value(crd)).expect("a definition is plain data")
}

/// The file name of a definition in `deploy/crds`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// A rule for one kind's use of a type that other kinds use without it.
pub(crate) struct PathRule {
    /// Fields from the root to the value that the rule is for; `[]` stands for the items of a list.
    pub(crate) path: &'static [&'static str],
    /// The CEL expression.
    pub(crate) rule: &'static str,
    /// What is said when it is false.
    pub(crate) message: &'static str,
    /// The reason of the error.
    pub(crate) reason: &'static str,
}

/// The definition of `K`, with its schema made structural and `rules` added.
fn crd<K: CustomResourceExt + JsonSchema>(rules: &[PathRule]) -> CustomResourceDefinition {
    let mut crd = K::crd();
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<K>().to_value();
    make_structural(&mut schema);
    relax_root(&mut schema);
    for rule in rules {
        add_rule(&mut schema, rule);
    }
    let schema: JSONSchemaProps =
        serde_json::from_value(schema).expect("a structural schema is a JSONSchemaProps");
    for version in &mut crd.spec.versions {
        version.schema =
            Some(CustomResourceValidation { open_api_v3_schema: Some(schema.clone()) });
    }
    crd
}

/// Turns what schemars generates into what Kubernetes calls structural. An `Option` is a field that
/// may be absent, not one that may be null.
fn make_structural(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for key in ["$schema", "title", "nullable", "examples"] {
        map.remove(key);
    }
    hoist_optional(map);
    if let Some(Value::Array(types)) = map.get("type") {
        let stated = types.iter().find(|ty| *ty != "null").cloned();
        map.insert("type".to_owned(), stated.unwrap_or(Value::Null));
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
    // Structs have fixed fields; what is not known is pruned or reported, not refused.
    if map.get("additionalProperties").is_some_and(Value::is_boolean) {
        map.remove("additionalProperties");
    }
    if let Some(Value::String(text)) = map.get_mut("description") {
        *text = unwrap_lines(text);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(make_structural);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key) {
            make_structural(inner);
        }
    }
}

/// `anyOf: [T, null]` becomes `T`; what is said at the field wins over what is said at the type.
fn hoist_optional(map: &mut Map<String, Value>) {
    let is_null = |schema: &Value| schema.get("type").is_some_and(|ty| ty == "null");
    let Some(Value::Array(choices)) = map.get("anyOf") else { return };
    let [Value::Object(inner), null] = choices.as_slice() else { return };
    if !is_null(null) {
        return;
    }
    let inner = inner.clone();
    map.remove("anyOf");
    for (key, value) in inner {
        map.entry(key).or_insert(value);
    }
}

/// Joins the lines of each paragraph.
fn unwrap_lines(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "))
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// A kind whose spec asks for nothing may be written without one.
fn relax_root(root: &mut Value) {
    let Some(spec) = root.pointer_mut("/properties/spec") else { return };
    if spec.get("required").is_some() || spec.get("x-kubernetes-validations").is_some() {
        return;
    }
    spec["default"] = Value::Object(Map::new());
    if let Some(map) = root.as_object_mut() {
        map.remove("required");
    }
}

fn add_rule(root: &mut Value, rule: &PathRule) {
    let mut node = root;
    for field in rule.path {
        let next = match *field {
            "[]" => node.get_mut("items"),
            field => node.get_mut("properties").and_then(|properties| properties.get_mut(field)),
        };
        node = next.expect("a rule is for a field that exists");
    }
    let json = serde_json::json!({
        "rule": rule.rule,
        "message": rule.message,
        "reason": rule.reason,
    });
    let map = node.as_object_mut().expect("a schema is an object");
    let rules = map.entry("x-kubernetes-validations").or_insert_with(|| Value::Array(Vec::new()));
    rules.as_array_mut().expect("rules are a list").push(json);
}

/// Bounds are floating-point in the typed form; `128.0` is written `128`.
fn write_whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers),
        Value::Object(map) => map.values_mut().for_each(write_whole_numbers),
        Value::Number(number) => {
            // Beyond 2^53 a float is not exact, and nothing here comes near.
            let whole = number.as_f64().filter(|float| {
                number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0
            });
            if let Some(float) = whole {
                *value = Value::from(float as i64);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_values_are_absent_not_null() {
        for crd in crds() {
            assert_no_null(&to_value(&crd));
        }
    }

    fn assert_no_null(value: &Value) {
        match value {
            Value::Null => panic!("a null"),
            Value::Array(items) => items.iter().for_each(assert_no_null),
            Value::Object(map) => {
                assert!(!map.contains_key("nullable"));
                map.values().for_each(assert_no_null);
            }
            _ => {}
        }
    }

    #[test]
    fn yaml_comes_back_as_it_went_out() {
        let stream = crd_yaml();
        let documents: Vec<&str> = stream.split("---\n").collect();
        assert_eq!(documents.len(), 19);
        for (document, crd) in documents.iter().zip(crds()) {
            let read: Value = serde_saphyr::from_str(document).unwrap();
            assert_eq!(read, to_value(&crd));
        }
        // YAML 1.1, which kubectl reads, takes these for booleans unless they are quoted.
        for bare in ["- On\n", "- Off\n", "- on\n", "- off\n", "default: Off\n"] {
            assert!(!stream.contains(bare), "{bare} is not quoted");
        }
    }

    #[test]
    fn what_is_said_at_a_field_wins_over_its_type() {
        let mut schema = serde_json::json!({
            "description": "of the field",
            "anyOf": [{ "description": "of the type", "x-kubernetes-int-or-string": true }, { "type": "null" }],
        });
        make_structural(&mut schema);
        assert_eq!(
            schema,
            serde_json::json!({ "description": "of the field", "x-kubernetes-int-or-string": true })
        );
    }
}
