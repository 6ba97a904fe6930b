//! Rules that hold for every object and every schema.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sutler_schema::{
    defaults::{apply_defaults, drop_nulls},
    meta::{NameKind, validate_object_meta, validate_object_meta_update},
    node::Node,
    prune::{coerce, prune, unknown_fields},
    selector::LabelSelector,
    validate::{Validator, validate},
};

/// Any JSON value of modest size, with keys that schemas below know.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-10i64..10).prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no NaN", |f| f.is_finite()).prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::String),
        "\\PC{0,4}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            proptest::collection::btree_map("[a-f]|metadata|kind|apiVersion|spec", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A structural schema over the same keys.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^a"})),
        Just(json!({"type": "string", "enum": ["a", "b"], "default": "a"})),
        Just(json!({"type": "string", "format": "date-time", "nullable": true})),
        Just(json!({"type": "integer", "minimum": 0, "maximum": 5, "default": 1})),
        Just(json!({"type": "integer", "format": "int32", "multipleOf": 2})),
        Just(json!({"type": "number", "minimum": 0.5, "exclusiveMinimum": true})),
        Just(json!({"type": "boolean", "default": true, "nullable": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf"}, {"rule": "self.size() > 1 || self.matches('^[a-z]$')"},
        ]})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let fields = proptest::collection::btree_map("[a-f]", inner.clone(), 0..4);
        prop_oneof![
            (fields.clone(), proptest::collection::vec("[a-f]", 0..2)).prop_map(
                |(fields, required)| json!({
                    "type": "object", "properties": fields, "required": required, "default": {},
                    "x-kubernetes-validations": [{"rule": "has(self.a) ? true : self.b == self.b"}],
                })
            ),
            inner.clone().prop_map(|child| json!({
                "type": "object", "additionalProperties": child, "maxProperties": 3,
            })),
            inner.clone().prop_map(|child| json!({"type": "array", "items": child, "maxItems": 3})),
            fields.prop_map(|fields| json!({
                "type": "array", "items": {"type": "object", "properties": fields},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                "x-kubernetes-validations": [{"rule": "self.all(i, has(i.a))"}],
            })),
            inner.prop_map(|child| json!({
                "type": "object", "properties": {"a": child.clone(), "b": child},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "oneOf": [{"required": ["c"]}, {"required": ["a"]}],
                "not": {"required": ["d"]},
            })),
        ]
    })
}

fn object(value: Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": value})
}

fn node(schema: Value) -> Node {
    let root = json!({"type": "object", "properties": {"spec": schema}});
    Node::parse(&root).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn defaults_are_idempotent(value in value(), schema in schema()) {
        let node = node(schema);
        let mut once = object(value);
        apply_defaults(&mut once, &node);
        let mut twice = once.clone();
        apply_defaults(&mut twice, &node);
        prop_assert_eq!(&once, &twice);
        drop_nulls(&mut once, &node);
        let mut twice = once.clone();
        drop_nulls(&mut twice, &node);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn pruning_is_idempotent(value in value(), schema in schema()) {
        let node = node(schema);
        let mut object = object(value);
        let dropped = prune(&mut object, &node);
        prop_assert!(dropped.is_sorted());
        let mut again = object.clone();
        prop_assert_eq!(prune(&mut again, &node), Vec::<String>::new());
        prop_assert_eq!(object, again);
    }

    #[test]
    fn coercion_is_idempotent(value in value(), schema in schema()) {
        let node = node(schema);
        let mut object = object(value);
        if coerce(&mut object, &node).is_ok() {
            let mut again = object.clone();
            prop_assert_eq!(coerce(&mut again, &node), Ok(vec![]));
            prop_assert_eq!(object, again);
        }
    }

    #[test]
    fn validation_is_total(new in value(), old in value(), schema in schema()) {
        let text = schema.to_string();
        let uncorrelated = text.contains("list-map-keys") || text.contains("preserve-unknown");
        let validator = Validator::new(Arc::new(node(schema))).unwrap();
        let (new, old) = (object(new), object(old));
        let created = validate(&new, None, &validator);
        let updated = validate(&new, Some(&old), &validator);
        validate(&new["spec"], Some(&old["spec"]), &validator);
        for error in created.iter().chain(&updated) {
            prop_assert!(!error.to_string().is_empty());
        }
        // An object that does not change is never refused, except by a rule about change, by one
        // that fails, and by what it embeds. Items of list maps need keys to be recognised, and
        // fields that no schema describes count as changed, as on the real server.
        let mut pruned = new.clone();
        if coerce(&mut pruned, validator.node()).is_err() || uncorrelated {
            return Ok(());
        }
        let same = validate(&pruned, Some(&pruned), &validator);
        let excused = |text: String| {
            let embedded = ["metadata", "kind", "apiVersion"].iter().any(|f| text.contains(f));
            text.contains("self == oldSelf") || text.contains(" rule: ") || embedded
        };
        prop_assert!(same.iter().all(|e| excused(e.to_string())), "{:?}", same);
    }

    #[test]
    fn metadata_checks_are_total(new in value(), old in value()) {
        validate_object_meta(&new, true, NameKind::Subdomain);
        validate_object_meta(&new, false, NameKind::PathSegment);
        validate_object_meta_update(&new, &old);
    }

    #[test]
    fn unknown_fields_are_those_that_pruning_drops(value in value(), schema in schema()) {
        let node = node(schema);
        let spec = node.properties["spec"].clone();
        let mut pruned = value.clone();
        let unknown = unknown_fields(&value, &spec);
        let dropped = prune(&mut pruned, &spec);
        // Pruning also looks into what has the wrong type.
        prop_assert!(unknown.iter().all(|path| {
            dropped.contains(path) || path.contains("metadata") || path.contains("kind")
                || path.contains("apiVersion")
        }), "{:?} {:?}", unknown, dropped);
    }

    #[test]
    fn selectors_are_total(text in "[a-z=!<>(), in]{0,20}|\\PC{0,12}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            let again = LabelSelector::parse(&selector.to_string());
            prop_assert_eq!(again, Ok(selector));
        }
    }
}
