use proptest::prelude::*;
use serde_json::json as j;

use super::*;
use crate::{patch::merge, testing::json_values};

fn patched(doc: Value, patch: Value) -> Result<Value, PatchError> {
    let mut doc = doc;
    json(&mut doc, &patch).map(|()| doc)
}

#[test]
fn operations() {
    let doc = j!({"a": {"b": 1}, "l": [1, 2, 3], "x/y~z": 0});
    let cases = [
        (j!({"op": "add", "path": "/a/c", "value": 2}), j!({"a": {"b": 1, "c": 2}})),
        (j!({"op": "add", "path": "/a/c"}), j!({"a": {"b": 1, "c": null}})),
        (j!({"op": "add", "path": "/l/1", "value": 9}), j!({"l": [1, 9, 2, 3]})),
        (j!({"op": "add", "path": "/l/-", "value": 9}), j!({"l": [1, 2, 3, 9]})),
        (j!({"op": "add", "path": "/l/-1", "value": 9}), j!({"l": [1, 2, 3, 9]})),
        (j!({"op": "remove", "path": "/l/-1"}), j!({"l": [1, 2]})),
        (j!({"op": "replace", "path": "/a/new", "value": 1}), j!({"a": {"b": 1, "new": 1}})),
        (j!({"op": "replace", "path": "/l/0", "value": 7}), j!({"l": [7, 2, 3]})),
        (j!({"op": "replace", "path": "/x~1y~0z", "value": 5}), j!({"x/y~z": 5})),
        (j!({"op": "move", "from": "/a/b", "path": "/l/0"}), j!({"a": {}, "l": [1, 1, 2, 3]})),
        (j!({"op": "copy", "from": "/l", "path": "/a/b"}), j!({"a": {"b": [1, 2, 3]}})),
        (j!({"op": "copy", "from": "/none", "path": "/a/b"}), j!({"a": {"b": null}})),
        (j!({"op": "test", "path": "/a", "value": {"b": 1}}), j!({})),
        (j!({"op": "test", "path": "/none", "value": null}), j!({})),
    ];
    for (operation, changes) in cases {
        let mut want = doc.clone();
        for (name, value) in changes.as_object().unwrap() {
            want[name] = value.clone();
        }
        assert_eq!(patched(doc.clone(), j!([operation])), Ok(want), "{operation}");
    }
    let whole = j!([{"op": "replace", "path": "", "value": {"n": 1}}]);
    assert_eq!(patched(doc, whole), Ok(j!({"n": 1})));
}

#[test]
fn operations_that_do_not_apply() {
    let cases = [
        j!({"op": "test", "path": "/a", "value": 2}),
        j!({"op": "remove", "path": "/none"}),
        j!({"op": "add", "path": "/none/x", "value": 1}),
        j!({"op": "add", "path": "/a/x", "value": 1}),
        j!({"op": "add", "path": "", "value": 1}),
        j!({"op": "add", "path": "/l/9", "value": 1}),
        j!({"op": "replace", "path": "/l/9", "value": 1}),
        j!({"op": "remove", "path": "/l/-9"}),
        j!({"op": "move", "from": "/none", "path": "/x"}),
        j!({"op": "copy", "path": "/x"}),
        j!({"op": "add"}),
        j!({"op": "jump", "path": "/a"}),
        j!({}),
        j!(null),
    ];
    for operation in cases {
        let error = patched(j!({"a": 1, "l": [1]}), j!([operation])).unwrap_err();
        assert!(matches!(error, PatchError::Unprocessable(_)), "{operation}: {error}");
        assert_eq!(error.message(), PatchError::UNPROCESSABLE);
    }
}

#[test]
fn what_is_no_patch() {
    let text = |patch: Value| patched(j!({}), patch).unwrap_err().to_string();
    let prefix = "error decoding patch: json: cannot unmarshal";
    assert_eq!(
        text(j!({})),
        format!("{prefix} object into Go value of type []handlers.jsonPatchOp")
    );
    assert_eq!(
        text(j!(["x"])),
        format!("{prefix} string into Go value of type handlers.jsonPatchOp")
    );
    assert_eq!(
        text(j!([{"op": 1}])),
        format!("{prefix} number into Go struct field jsonPatchOp.op of type string")
    );
    let many = vec![j!({"op": "test", "path": "/x"}); OPERATIONS_MOST + 1];
    assert_eq!(
        text(many.into()),
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn merge_patches() {
    let cases = [
        (j!({"a": {"b": 1}}), j!({"a": {"b": null, "c": 2}}), j!({"a": {"c": 2}})),
        (j!({"a": 1}), j!({"a": {"b": null, "c": 1}}), j!({"a": {"c": 1}})),
        (j!({}), j!({"a": [{"b": null}, null]}), j!({"a": [{}, null]})),
        (j!({"a": {"b": 1}}), j!({"a": [{"b": null}]}), j!({"a": [{"b": null}]})),
        (j!({"a": null}), j!({"a": {"b": 1}}), j!({"a": {"b": 1}})),
    ];
    for (mut doc, patch, want) in cases {
        merge(&mut doc, &patch);
        assert_eq!(doc, want, "{patch}");
    }
    assert!(crate::patch::check_merge(&j!({})).is_ok());
    assert_eq!(
        crate::patch::check_merge(&j!([])).unwrap_err().message(),
        "error decoding patch: json: cannot unmarshal array into Go value of type \
         map[string]interface {}"
    );
    assert_eq!(crate::patch::check_merge(&j!(null)).unwrap_err().message(), "Invalid JSON Patch");
}

proptest! {
    #[test]
    fn nothing_panics(doc in json_values(), patch in json_values(), path in "(/(a|spec|0|-|-1|9)){0,3}") {
        let _ = patched(doc.clone(), patch.clone());
        for op in ["add", "remove", "replace", "move", "copy", "test"] {
            let op = j!([{"op": op, "path": path, "from": "/a", "value": patch}]);
            let _ = patched(doc.clone(), op);
        }
        let mut doc = doc;
        merge(&mut doc, &patch);
    }

    #[test]
    fn added_fields_can_be_read_and_removed(doc in json_values(), value in json_values()) {
        let doc = j!({"doc": doc});
        let add = j!({"op": "add", "path": "/new", "value": value});
        let test = j!({"op": "test", "path": "/new", "value": value});
        let remove = j!({"op": "remove", "path": "/new"});
        prop_assert_eq!(patched(doc.clone(), j!([add, test, remove])), Ok(doc));
    }
}

#[test]
fn copies_cannot_blow_a_document_up() {
    let mut operations = vec![j!({"op": "add", "path": "/a", "value": {"x": "y".repeat(1000)}})];
    for n in 0..40 {
        operations.push(j!({"op": "copy", "from": "/a", "path": format!("/a/{n}")}));
    }
    let refused = patched(j!({}), Value::Array(operations.clone())).unwrap_err();
    let PatchError::Unprocessable(why) = &refused else { panic!("{refused:?}") };
    assert!(why.starts_with("Unable to complete the copy"), "{why}");
    assert!(why.ends_with("exceeding the limit 3145728"), "{why}");
    operations.truncate(8);
    assert!(patched(j!({}), Value::Array(operations)).is_ok());
}
