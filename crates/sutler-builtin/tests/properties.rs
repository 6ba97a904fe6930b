//! Rules that hold for any input.

use std::{fs, sync::OnceLock};

use chrono::DateTime;
use proptest::prelude::*;
use serde_json::{Map, Value};
use sutler_builtin::{
    apply_defaults, cells, columns, decode, decode_protobuf, field_value, kinds,
    prepare_for_create, prepare_for_update, selectable_fields, validate_create, validate_update,
};

use crate::pipeline::{folder, kind_of, manifests, read};

fn bodies() -> &'static [Vec<u8>] {
    static BODIES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    BODIES.get_or_init(|| {
        let folder = fs::read_dir(folder("fixtures/protobuf")).unwrap();
        folder.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
    })
}

/// Values that stand where others are expected.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9:./%=\\-]{0,12}".prop_map(Value::from),
        Just(Value::from("2024-01-01T00:00:00Z")),
        Just(Value::from("10%")),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A manifest in which something, somewhere, is replaced.
fn damaged() -> impl Strategy<Value = Value> {
    let all = manifests();
    (0..all.len(), any::<prop::sample::Index>(), any_value()).prop_map(
        move |(which, spot, value)| {
            let mut object = all[which].1.clone();
            let mut paths = Vec::new();
            walk(&object, String::new(), &mut paths);
            let path = &paths[spot.index(paths.len())];
            *object.pointer_mut(path).unwrap() = value;
            object
        },
    )
}

fn walk(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                walk(inner, format!("{path}/{key}"), paths);
            }
        }
        Value::Array(list) => {
            for (i, inner) in list.iter().enumerate() {
                walk(inner, format!("{path}/{i}"), paths);
            }
        }
        _ => {}
    }
    // Type and version choose the kind, and stay.
    if path.len() > 1 && path != "/kind" && path != "/apiVersion" {
        paths.push(path);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_protobuf(&bytes, None);
        let mut body = b"k8s\0".to_vec();
        body.extend(bytes);
        let _ = decode_protobuf(&body, None);
    }

    #[test]
    fn changed_bodies_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = bodies()[which.index(bodies().len())].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(object) = decode_protobuf(&bytes, None) {
            prop_assert!(object.is_object());
        }
    }

    #[test]
    fn reading_and_defaults_are_stable(object in damaged()) {
        let kind = kind_of(&object);
        if let Ok(once) = decode(kind, object) {
            prop_assert_eq!(&decode(kind, once.clone()).unwrap(), &once);
            let mut filled = once;
            apply_defaults(kind, &mut filled);
            let mut again = filled.clone();
            apply_defaults(kind, &mut again);
            prop_assert_eq!(again, filled);
        }
    }

    #[test]
    fn every_object_that_can_be_read_is_judged(object in damaged(), old in 0..32_usize) {
        let kind = kind_of(&object);
        let Ok(mut object) = read(object) else { return Ok(()) };
        prepare_for_create(kind, &mut object);
        validate_create(kind, &object);
        let all = manifests();
        let old = &all[old % all.len()].1;
        for subresource in [None, Some("status"), Some("scale"), Some("finalize")] {
            let mut new = object.clone();
            prepare_for_update(kind, &mut new, old, subresource);
            validate_update(kind, &new, old, subresource);
        }
        prop_assert_eq!(cells(kind, &object, DateTime::UNIX_EPOCH).len(), columns(kind).len());
        for path in selectable_fields(kind) {
            prop_assert!(field_value(kind, &object, path).is_some());
        }
    }

    #[test]
    fn no_shape_is_too_odd(value in any_value()) {
        // The server hands over what it decoded, but a mistake there must not end the process.
        for kind in kinds() {
            let mut object = value.clone();
            apply_defaults(kind, &mut object);
            let mut object = value.clone();
            if object.is_object() {
                prepare_for_create(kind, &mut object);
                validate_create(kind, &object);
                cells(kind, &object, DateTime::UNIX_EPOCH);
            }
        }
    }
}
