//! A kind that has a bit of everything, and generators of its objects.

use proptest::{collection, option, prelude::*, sample};
use serde_json::{Map, Value, json};
use sutler_schema::node::Node;

pub(crate) const VERSION: &str = "t.example/v1";

pub(crate) fn node() -> Node {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    Node::parse(&json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "n": {"type": "integer"},
                    "b": {"type": "boolean"},
                    "replicas": {"type": "integer"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "set": {
                        "type": "array", "items": {"type": "string"},
                        "x-kubernetes-list-type": "set",
                    },
                    "list": {"type": "array", "items": {"type": "string"}},
                    "items": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "x-kubernetes-patch-strategy": "merge",
                        "x-kubernetes-patch-merge-key": "name",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "v": {"type": "integer"},
                                "sub": strings,
                            },
                        },
                    },
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "name": {"type": "string"},
                            },
                        },
                    },
                    "finalizers": {
                        "type": "array", "items": {"type": "string"},
                        "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
                    },
                    "gm": strings,
                    "am": {
                        "type": "object", "additionalProperties": {"type": "string"},
                        "x-kubernetes-map-type": "atomic",
                    },
                    "st": {
                        "type": "object",
                        "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "status": {
                "type": "object",
                "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
            },
        },
    }))
    .expect("a valid schema")
}

/// An object of the kind.
pub(crate) fn thing(spec: Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "x"}, "spec": spec})
}

/// The object as it is once stored.
pub(crate) fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("u1");
    object
}

/// Some of `spec`'s fields, with few different values so that objects often agree.
pub(crate) fn specs() -> impl Strategy<Value = Value> {
    let word = || sample::select(vec!["1", "2"]).prop_map(Value::from);
    let words = || {
        collection::btree_map(sample::select(vec!["k", "l", "m"]), word(), 0..3)
            .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>())
            .prop_map(Value::Object)
    };
    let set =
        || sample::subsequence(vec!["a", "b", "c", "d"], 0..4).prop_shuffle().prop_map(Value::from);
    let items = collection::btree_map(
        sample::select(vec!["x", "y", "z"]),
        (option::of(1..3), option::of(words())),
        0..4,
    )
    .prop_map(|map| map.into_iter().collect::<Vec<_>>())
    .prop_shuffle()
    .prop_map(|items| {
        let item = |(name, (v, sub)): (&str, (Option<i32>, Option<Value>))| {
            let mut item = Map::new();
            item.insert("name".into(), name.into());
            item.extend(v.map(|v| ("v".to_owned(), v.into())));
            item.extend(sub.map(|sub| ("sub".to_owned(), sub)));
            Value::Object(item)
        };
        items.into_iter().map(item).collect::<Vec<_>>().into()
    });
    let list = collection::vec(word(), 0..3).prop_map(Value::from);
    let fields = (
        option::of(word()),
        option::of((1..3).prop_map(Value::from)),
        option::of(set()),
        option::of(list),
        option::of(items),
        option::of(words()),
        option::of(words()),
        option::of(set()),
        option::of(json_values()),
    );
    fields.prop_map(|(a, n, set, list, items, gm, am, finalizers, free)| {
        let free = free.filter(Value::is_object);
        let all = [
            ("a", a),
            ("n", n),
            ("set", set),
            ("list", list),
            ("items", items),
            ("gm", gm),
            ("am", am),
            ("finalizers", finalizers),
            ("free", free),
        ];
        let present = all.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?)));
        Value::Object(present.collect())
    })
}

/// Any small JSON value, with names that mean something to the code under test.
pub(crate) fn json_values() -> impl Strategy<Value = Value> {
    let names = || {
        sample::select(vec![
            "a",
            "spec",
            "metadata",
            "items",
            "set",
            "name",
            "ports",
            "port",
            "free",
            "st",
            "kind",
            "$patch",
            "$retainKeys",
            "$setElementOrder/items",
            "$deleteFromPrimitiveList/set",
            "managedFields",
            "labels",
            "finalizers",
        ])
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        sample::select(vec!["", "x", "delete", "replace", "merge", "f:a"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(names(), inner, 0..4).prop_map(|map| {
                Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}
