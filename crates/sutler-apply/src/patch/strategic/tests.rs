use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{json_values, node, specs, thing};

fn patched(spec: Value, patch: Value) -> Result<Value, PatchError> {
    let mut doc = thing(spec);
    strategic(&mut doc, &json!({"spec": patch}), &node())?;
    Ok(doc["spec"].clone())
}

#[test]
fn lists_are_merged_by_key() {
    let spec = json!({"items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]});
    let cases = [
        (
            json!({"items": [{"name": "b", "v": 3}]}),
            json!([{"name": "a", "v": 1}, {"name": "b", "v": 3}]),
        ),
        (
            json!({"items": [{"name": "c"}, {"name": "b", "$patch": "delete"}]}),
            json!([{"name": "c"}, {"name": "a", "v": 1}]),
        ),
        (json!({"items": [{"$patch": "replace"}, {"name": "z"}]}), json!([{"name": "z"}])),
        (
            json!({"items": [{"name": "c"}], "$setElementOrder/items": [{"name": "c"}, {"name": "a"}]}),
            json!([{"name": "c"}, {"name": "a", "v": 1}, {"name": "b", "v": 2}]),
        ),
        (
            json!({"$setElementOrder/items": [{"name": "b"}, {"name": "a"}]}),
            json!([{"name": "b", "v": 2}, {"name": "a", "v": 1}]),
        ),
        (
            json!({"items": [{"name": "a", "v": null, "sub": {"k": "v"}}]}),
            json!([{"name": "a", "sub": {"k": "v"}}, {"name": "b", "v": 2}]),
        ),
    ];
    for (patch, want) in cases {
        assert_eq!(patched(spec.clone(), patch.clone()), Ok(json!({"items": want})), "{patch}");
    }
}

#[test]
fn a_new_item_takes_the_place_of_a_deleted_one() {
    let spec = json!({"items": [{"name": "d"}, {"name": "e"}]});
    let patch = json!({
        "items": [{"name": "f"}, {"name": "e", "$patch": "delete"}],
        "$setElementOrder/items": [{"name": "f"}],
    });
    assert_eq!(patched(spec, patch), Ok(json!({"items": [{"name": "d"}, {"name": "f"}]})));
}

#[test]
fn lists_of_scalars_are_sets() {
    let spec = json!({"finalizers": ["a", "b"], "list": ["x"]});
    let want = |finalizers: Value| Ok(json!({"finalizers": finalizers, "list": ["x"]}));
    let patch = json!({"finalizers": ["c", "a"]});
    assert_eq!(patched(spec.clone(), patch), want(json!(["c", "a", "b"])));
    let patch = json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]});
    assert_eq!(patched(spec.clone(), patch), want(json!(["b"])));
    let patch = json!({"list": ["y"]});
    assert_eq!(patched(spec, patch), Ok(json!({"finalizers": ["a", "b"], "list": ["y"]})));
}

#[test]
fn directives_of_maps() {
    let spec = json!({"st": {"x": "1", "y": "2"}, "gm": {"k": "v"}});
    let cases = [
        (
            json!({"st": {"$patch": "replace", "x": "3"}}),
            json!({"st": {"x": "3"}, "gm": {"k": "v"}}),
        ),
        (json!({"st": {"$patch": "delete"}}), json!({"st": {}, "gm": {"k": "v"}})),
        (
            json!({"st": {"$retainKeys": ["x"], "x": "9"}}),
            json!({"st": {"x": "9"}, "gm": {"k": "v"}}),
        ),
        (json!({"gm": null, "st": {"y": null}}), json!({"st": {"x": "1"}})),
        (
            json!({"free": {"a": null, "b": {"$patch": "replace"}, "c": [{"$patch": "delete"}, 1]}}),
            json!({"st": {"x": "1", "y": "2"}, "gm": {"k": "v"}, "free": {"c": [1]}}),
        ),
    ];
    for (patch, want) in cases {
        assert_eq!(patched(spec.clone(), patch.clone()), Ok(want), "{patch}");
    }
}

#[test]
fn patches_that_are_refused() {
    let spec = || json!({"items": [{"name": "a"}], "st": {"x": "1"}, "finalizers": ["a"]});
    let bad = |text: &str| PatchError::BadRequest(text.into());
    let internal = |text: &str| PatchError::Internal(text.into());
    let cases = [
        (json!({"$retainKeys": "x"}), bad("invalid patch format of retainKeys")),
        (json!({"$retainKeys": ["a"], "n": 1}), bad("invalid patch format of retainKeys")),
        (json!({"$deleteFromPrimitiveList": ["x"]}), bad("invalid patch format of primitive list")),
        (json!({"$setElementOrder": ["x"]}), bad("invalid patch format of setElementOrder list")),
        (
            json!({"items": [{"v": 1}]}),
            internal("map: map[v:1] does not contain declared merge key: name"),
        ),
        (
            json!({"items": [1]}),
            internal("list element types are not identical: [[map[name:a]] [1]]"),
        ),
        (
            json!({"items": [{"name": "a", "$patch": "zap"}]}),
            internal("unknown patch type: zap in map: map[$patch:zap name:a]"),
        ),
        (
            json!({"finalizers": [["a"]]}),
            internal("list element types are not identical: [[a] [[a]]]"),
        ),
        (
            json!({
                "items": [{"name": "a"}, {"$patch": "replace"}],
                "$setElementOrder/items": [{"name": "a"}],
            }),
            internal(
                "The order in patch list:\n[map[name:a] map[$patch:replace]]\n doesn't match \
                 $setElementOrder list:\n[map[name:a]]\n",
            ),
        ),
        (
            json!({"items": [{"name": "c"}], "$setElementOrder/items": [{"name": "a"}]}),
            internal(
                "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder \
                 list:\n[map[name:a]]\n",
            ),
        ),
    ];
    for (patch, want) in cases {
        assert_eq!(patched(spec(), patch.clone()), Err(want), "{patch}");
    }
    let error = strategic(&mut thing(json!({})), &json!([1]), &node()).unwrap_err();
    assert_eq!(
        error,
        bad("json: cannot unmarshal array into Go value of type map[string]interface {}")
    );
}

/// The patch that leads from one object to the other.
fn diff(from: &Value, to: &Value) -> Value {
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else { return to.clone() };
    let mut patch = Fields::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, new) in new {
        match old.get(name) {
            Some(old) if old == new => {}
            Some(Value::Array(old)) if name == "items" && !new.as_array().unwrap().is_empty() => {
                let new = new.as_array().unwrap();
                let find = |items: &[Value], item: &Value| {
                    items.iter().find(|other| other["name"] == item["name"]).cloned()
                };
                let mut changes = Vec::new();
                for item in new {
                    let mut change = find(old, item).map_or(item.clone(), |old| diff(&old, item));
                    change["name"] = item["name"].clone();
                    changes.push(change);
                }
                for gone in old.iter().filter(|item| find(new, item).is_none()) {
                    changes.push(json!({"name": gone["name"], "$patch": "delete"}));
                }
                let order: Vec<Value> = new.iter().map(|i| json!({"name": i["name"]})).collect();
                patch.insert(name.clone(), changes.into());
                patch.insert(format!("{SET_ORDER}/{name}"), order.into());
            }
            Some(Value::Array(old)) if name == "finalizers" => {
                let new = new.as_array().unwrap();
                let gone: Vec<Value> =
                    old.iter().filter(|item| !new.contains(item)).cloned().collect();
                if !gone.is_empty() {
                    patch.insert(format!("{DELETE_FROM}/{name}"), gone.into());
                }
                if !new.is_empty() {
                    patch.insert(format!("{SET_ORDER}/{name}"), new.clone().into());
                    patch.insert(name.clone(), new.clone().into());
                }
            }
            Some(old) if old.is_object() && name != "free" => {
                patch.insert(name.clone(), diff(old, new));
            }
            _ => {
                patch.insert(name.clone(), new.clone());
            }
        }
    }
    Value::Object(patch)
}

proptest! {
    #[test]
    fn a_diff_leads_to_its_target(mut from in specs(), mut to in specs()) {
        for spec in [&mut from, &mut to] {
            let spec = spec.as_object_mut().unwrap();
            // Free values have no merge keys, and an empty merge list cannot be asked for.
            spec.remove("free");
            spec.retain(|_, value| *value != json!([]));
        }
        let patch = diff(&from, &to);
        prop_assert_eq!(patched(from, patch), Ok(to));
    }

    #[test]
    fn nothing_panics(doc in json_values(), patch in json_values(), spec in specs()) {
        let node = node();
        let mut doc = doc;
        let _ = strategic(&mut doc, &patch, &node);
        let _ = patched(spec, patch);
    }
}
