use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    fieldset::FieldSet,
    schema::Ty,
    testing::{VERSION, json_values, node, specs, stored, thing},
};

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:00:05Z";

fn tracked(old: Option<&Value>, mut new: Value, manager: &str, now: &str) -> Value {
    let node = node();
    let reset: &[&[&str]] = &[&["status"]];
    let about = Track {
        old,
        node: &node,
        manager,
        api_version: VERSION,
        subresource: "",
        now,
        reset,
        zero: None,
    };
    track(&mut new, &about);
    new
}

fn fields(object: &Value, manager: &str) -> Value {
    let list = object["metadata"]["managedFields"].as_array().expect("managed fields");
    let entry = list.iter().find(|e| e["manager"] == manager).expect("an entry");
    entry["fieldsV1"].clone()
}

#[test]
fn a_creator_owns_all_it_sets() {
    let mut object = thing(json!({"a": "1", "gm": {"k": "v"}, "items": [{"name": "x", "v": 1}]}));
    object["status"] = json!({"phase": "ignored here"});
    object["metadata"]["labels"] = json!({"l": "1"});
    let object = tracked(None, object, "c", NOW);
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "c", "operation": "Update", "apiVersion": VERSION, "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                "f:spec": {
                    ".": {}, "f:a": {}, "f:gm": {".": {}, "f:k": {}},
                    "f:items": {".": {}, "k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:v": {}}},
                },
            },
        }])
    );
}

#[test]
fn a_creator_does_not_own_what_the_kind_always_has() {
    let node = node();
    let zero =
        json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {}, "spec": {"items": null}});
    let mut object = thing(json!({"a": "1", "items": [{"name": "x"}]}));
    let about = Track {
        old: None,
        node: &node,
        manager: "c",
        api_version: VERSION,
        subresource: "",
        now: NOW,
        reset: &[],
        zero: Some(&zero),
    };
    track(&mut object, &about);
    assert_eq!(
        fields(&object, "c"),
        json!({"f:spec": {
            "f:a": {}, "f:items": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}}},
        }})
    );
}

#[test]
fn who_changes_a_field_takes_it() {
    let old = stored(tracked(None, thing(json!({"a": "1", "n": 1})), "c", NOW));
    let new = tracked(Some(&old), stored(thing(json!({"a": "2", "n": 1}))), "u", LATER);
    assert_eq!(fields(&new, "c"), json!({"f:spec": {".": {}, "f:n": {}}}));
    assert_eq!(fields(&new, "u"), json!({"f:spec": {"f:a": {}}}));
    assert_eq!(new["metadata"]["managedFields"][1]["time"], LATER);
    // Removing a field takes it from its owner without owning anything.
    let gone = tracked(Some(&new), stored(thing(json!({"a": "2"}))), "r", LATER);
    assert_eq!(fields(&gone, "c"), json!({"f:spec": {}}));
    assert_eq!(gone["metadata"]["managedFields"].as_array().unwrap().len(), 2);
}

#[test]
fn managed_fields_of_the_client() {
    let old = stored(tracked(None, thing(json!({"a": "1"})), "c", NOW));
    let with = |list: Value, zero: Option<&Value>| {
        let node = node();
        let mut new = old.clone();
        new["metadata"]["managedFields"] = list;
        let about = Track {
            old: Some(&old),
            node: &node,
            manager: "u",
            api_version: VERSION,
            subresource: "",
            now: LATER,
            reset: &[],
            zero,
        };
        track(&mut new, &about);
        new["metadata"].get("managedFields").cloned()
    };
    let before = old["metadata"].get("managedFields").cloned();
    let zero = json!({});
    assert_eq!(with(json!([]), Some(&zero)), None);
    assert_eq!(with(json!([]), None), before);
    assert_eq!(with(json!([{}]), None), None);
    assert_eq!(with(Value::Null, None), before);
    assert_eq!(with(json!([{"manager": "x", "operation": "Bad"}]), None), before);
    let own = json!([{
        "manager": "hand", "operation": "Apply", "apiVersion": VERSION, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:a": {}}},
    }]);
    assert_eq!(with(own.clone(), None), Some(own));
}

#[test]
fn an_object_without_managers_stays_so_until_it_is_applied() {
    let old = stored(thing(json!({"a": "1"})));
    let new = tracked(Some(&old), stored(thing(json!({"a": "2"}))), "u", NOW);
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn an_object_that_does_not_fit_is_not_tracked() {
    let new = tracked(None, thing(json!({"a": 5, "nope": 1})), "u", NOW);
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn sets_written_under_an_older_schema_are_adapted() {
    let mut old = stored(thing(json!({"am": {"k": "1"}, "n": 1})));
    old["metadata"]["managedFields"] = json!([{
        "manager": "m", "operation": "Apply", "apiVersion": VERSION, "time": NOW,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:am": {".": {}, "f:k": {}}}},
    }]);
    let new = tracked(Some(&old), stored(thing(json!({"am": {"k": "1"}, "n": 2}))), "u", LATER);
    assert_eq!(fields(&new, "m"), json!({"f:spec": {"f:am": {}}}));
}

#[test]
fn only_times_changed() {
    let old = stored(tracked(None, thing(json!({"a": "1"})), "c", NOW));
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = json!(LATER);
    new["metadata"]["resourceVersion"] = json!("7");
    assert!(is_noop_besides_timestamps(&old, &new));
    new["metadata"]["managedFields"][0]["manager"] = json!("d");
    assert!(!is_noop_besides_timestamps(&old, &new));
    let mut other = old.clone();
    other["spec"]["n"] = json!(1);
    assert!(!is_noop_besides_timestamps(&old, &other));
}

proptest! {
    #[test]
    fn every_leaf_has_its_creator(spec in specs()) {
        let object = thing(spec);
        let node = node();
        let mut all = crate::typed::field_set(Ty::root(&node), &object);
        crate::engine::strip(&mut all);
        let created = tracked(None, object, "c", NOW);
        let owned = match created["metadata"].get("managedFields") {
            Some(list) => FieldSet::from_value(&list[0]["fieldsV1"]).unwrap(),
            None => FieldSet::new(),
        };
        prop_assert!(all.difference(&owned).is_empty(), "{all:?} is not in {owned:?}");
    }

    #[test]
    fn a_field_has_one_updater(a in specs(), b in specs()) {
        let old = stored(tracked(None, thing(a), "c", NOW));
        let new = tracked(Some(&old), stored(thing(b)), "u", LATER);
        let managed = Managed::of_object(&new).unwrap();
        let mut sets = managed.entries.values().map(|owned| owned.fields.leaves());
        if let (Some(left), Some(right)) = (sets.next(), sets.next()) {
            prop_assert!(left.intersection(&right).is_empty());
        }
    }

    #[test]
    fn an_update_without_change_is_none(spec in specs()) {
        let old = stored(tracked(None, thing(spec), "c", NOW));
        let new = tracked(Some(&old), old.clone(), "u", LATER);
        prop_assert_eq!(new, old);
    }

    #[test]
    fn nothing_panics(old in json_values(), new in json_values(), create in any::<bool>()) {
        let _ = is_noop_besides_timestamps(&old, &new);
        let _ = tracked((!create).then_some(&old), new, "u", NOW);
    }
}
