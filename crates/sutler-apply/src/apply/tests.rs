use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    schema::Ty,
    testing::{VERSION, json_values, node, specs, stored, thing},
};

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:00:05Z";

/// The managers of a test object, applying one after the other.
struct Story {
    node: Node,
    live: Option<Value>,
}

impl Story {
    fn new() -> Self {
        Self { node: node(), live: None }
    }

    fn from(live: Value) -> Self {
        Self { live: Some(live), ..Self::new() }
    }

    fn request<'a>(&'a self, config: &'a Value, manager: &'a str, force: bool) -> Request<'a> {
        Request {
            live: self.live.as_ref(),
            config,
            node: &self.node,
            manager,
            api_version: VERSION,
            subresource: "",
            force,
            now: if self.live.is_some() { LATER } else { NOW },
            reset: &[&["status"]],
            zero: None,
        }
    }

    fn try_apply(&mut self, manager: &str, force: bool, config: &Value) -> Result<&Value, Error> {
        let object = apply(&self.request(config, manager, force))?;
        Ok(self.live.insert(stored(object)))
    }

    fn apply(&mut self, manager: &str, spec: Value) -> &Value {
        self.try_apply(manager, false, &thing(spec)).expect("no conflict")
    }

    fn force(&mut self, manager: &str, spec: Value) -> &Value {
        self.try_apply(manager, true, &thing(spec)).expect("conflicts are forced")
    }

    fn refused(&mut self, manager: &str, spec: Value) -> Error {
        self.try_apply(manager, false, &thing(spec)).expect_err("an error")
    }

    fn spec(&self) -> &Value {
        &self.live.as_ref().expect("an object")["spec"]
    }

    fn fields(&self, manager: &str) -> Value {
        let live = self.live.as_ref().expect("an object");
        let list = live["metadata"]["managedFields"].as_array().expect("managed fields");
        let entry = list.iter().find(|e| e["manager"] == manager);
        entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }
}

#[test]
fn a_manager_owns_what_it_applies() {
    let mut story = Story::new();
    let object = story.apply("m", json!({"a": "1", "gm": {"k": "v"}, "am": {"k": "v"}}));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "m", "operation": "Apply", "apiVersion": VERSION, "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:a": {}, "f:am": {}, "f:gm": {"f:k": {}}}},
        }])
    );
}

#[test]
fn what_is_no_longer_applied_goes() {
    let mut story = Story::new();
    story.apply("m", json!({"a": "1", "n": 1, "gm": {"k": "v", "l": "w"}}));
    story.apply("m", json!({"a": "1", "gm": {"k": "v"}}));
    assert_eq!(*story.spec(), json!({"a": "1", "gm": {"k": "v"}}));
    story.apply("m", json!({"a": "1"}));
    assert_eq!(*story.spec(), json!({"a": "1"}));
}

#[test]
fn what_others_own_stays() {
    let mut story = Story::new();
    story.apply("m1", json!({"a": "1", "n": 1}));
    story.apply("m2", json!({"a": "1"}));
    story.apply("m1", json!({"n": 1}));
    assert_eq!(*story.spec(), json!({"a": "1", "n": 1}));
    assert_eq!(story.fields("m1"), json!({"f:spec": {"f:n": {}}}));
    assert_eq!(story.fields("m2"), json!({"f:spec": {"f:a": {}}}));
}

#[test]
fn one_conflict_is_told_in_one_line() {
    let mut story = Story::new();
    story.apply("m1", json!({"a": "1"}));
    let error = story.refused("m2", json!({"a": "2"}));
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"m1\": .spec.a");
    let Error::Conflict(conflicts) = error else { panic!("{error}") };
    assert_eq!(conflicts[0].cause(), "conflict with \"m1\"");
    assert_eq!(conflicts[0].time.as_deref(), Some(NOW));
    assert_eq!(*story.spec(), json!({"a": "1"}));
}

#[test]
fn several_conflicts_are_told_by_manager() {
    let live = stored(thing(json!({"a": "1", "n": 1, "items": [{"name": "x", "v": 1}]})));
    let mut story = Story::from(live);
    story.apply("m1", json!({"a": "1"}));
    let error = story.refused("m2", json!({"a": "2", "n": 2, "items": [{"name": "x", "v": 2}]}));
    assert_eq!(
        error.to_string(),
        "Apply failed with 4 conflicts: conflicts with \"before-first-apply\" using t.example/v1:\n\
         - .spec.a\n- .spec.n\n- .spec.items[name=\"x\"].v\nconflicts with \"m1\":\n- .spec.a"
    );
}

#[test]
fn force_takes_the_field() {
    let mut story = Story::new();
    story.apply("m1", json!({"a": "1", "n": 1}));
    story.force("m2", json!({"a": "2"}));
    assert_eq!(story.fields("m1"), json!({"f:spec": {"f:n": {}}}));
    assert_eq!(story.fields("m2"), json!({"f:spec": {"f:a": {}}}));
    // What was taken is not removed when its old owner lets go.
    story.apply("m1", json!({}));
    assert_eq!(*story.spec(), json!({"a": "2"}));
}

#[test]
fn sharing_a_value_is_no_conflict_and_no_change() {
    let mut story = Story::new();
    let before = story.apply("m1", json!({"a": "1"})).clone();
    let after = story.apply("m2", json!({"a": "1"}));
    assert_eq!(after["spec"], before["spec"]);
    // Nothing changed, so there is no time at which the second one changed it.
    assert_eq!(after["metadata"]["managedFields"][0]["manager"], "m2");
    assert_eq!(after["metadata"]["managedFields"][0].get("time"), None);
}

#[test]
fn items_of_set_and_map_lists_are_owned_one_by_one() {
    let mut story = Story::new();
    story.apply("m1", json!({"set": ["a", "b"], "items": [{"name": "x", "v": 1}]}));
    story.apply("m2", json!({"set": ["c", "a"], "items": [{"name": "y"}, {"name": "x"}]}));
    assert_eq!(
        *story.spec(),
        json!({"set": ["c", "a", "b"], "items": [{"name": "y"}, {"name": "x", "v": 1}]})
    );
    story.apply("m1", json!({"set": ["b"]}));
    assert_eq!(
        *story.spec(),
        json!({"set": ["c", "a", "b"], "items": [{"name": "y"}, {"name": "x"}]})
    );
}

#[test]
fn a_key_that_is_absent_has_its_default() {
    let mut story = Story::new();
    story.apply("m1", json!({"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}));
    story.apply("m2", json!({"ports": [{"port": 80, "protocol": "TCP", "name": "web"}]}));
    assert_eq!(
        *story.spec(),
        json!({"ports": [
            {"port": 80, "protocol": "TCP", "name": "web"}, {"port": 80, "protocol": "UDP"},
        ]})
    );
    let error =
        story.refused("m3", json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}));
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/x; t.example/v1, Kind=Thing): .spec.ports: \
         duplicate entries for key [port=1,protocol=\"TCP\"]"
    );
}

#[test]
fn atomic_values_are_owned_whole() {
    let mut story = Story::new();
    story.apply("m1", json!({"am": {"k": "1"}, "list": ["a"]}));
    story.refused("m2", json!({"am": {"l": "1"}}));
    story.force("m2", json!({"am": {"l": "1"}, "list": ["a"]}));
    assert_eq!(*story.spec(), json!({"am": {"l": "1"}, "list": ["a"]}));
    assert_eq!(story.fields("m1"), json!({"f:spec": {"f:list": {}}}));
}

#[test]
fn free_values_are_maps_of_parts_and_lists_in_one_piece() {
    let mut story = Story::new();
    story.apply("m1", json!({"free": {"a": {"b": 1}, "l": [1]}}));
    assert_eq!(
        story.fields("m1"),
        json!({"f:spec": {"f:free": {"f:a": {".": {}, "f:b": {}}, "f:l": {}}}})
    );
    story.apply("m2", json!({"free": {"a": {"c": 2}}}));
    story.refused("m2", json!({"free": {"l": [1, 2]}}));
    story.force("m2", json!({"free": {"a": 5}}));
    assert_eq!(*story.spec(), json!({"free": {"a": 5, "l": [1]}}));
}

#[test]
fn a_number_may_become_a_string_where_both_are_allowed() {
    let mut story = Story::new();
    story.apply("m1", json!({"port": 80}));
    story.apply("m1", json!({"port": "http"}));
    story.refused("m2", json!({"port": 80}));
    assert_eq!(*story.spec(), json!({"port": "http"}));
}

#[test]
fn what_does_not_fit_the_schema() {
    let mut story = Story::new();
    let prefix = "failed to create typed patch object (/x; t.example/v1, Kind=Thing): ";
    let cases = [
        (json!({"nope": 1}), ".spec.nope: field not declared in schema"),
        (json!({"a": 1}), ".spec.a: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"n": "1"}), ".spec.n: expected numeric (int or float), got string"),
        (json!({"b": 1}), ".spec.b: expected boolean, got &{1}"),
        (json!({"list": {"a": 1}}), ".spec.list: expected list, got &{map[a:1]}"),
        (json!({"gm": [1]}), ".spec.gm: expected map, got &{[1]}"),
        (json!({"set": ["a", "a"]}), ".spec.set: duplicate entries for key [=\"a\"]"),
        (
            json!({"items": [{"name": "a", "v": "x"}, {"name": "b", "v": true}]}),
            "errors:\n  .spec.items[name=\"a\"].v: expected numeric (int or float), got string\n  \
             .spec.items[name=\"b\"].v: expected numeric (int or float), got bool",
        ),
    ];
    for (spec, text) in cases {
        assert_eq!(story.refused("m", spec), Error::Internal(format!("{prefix}{text}")));
    }
}

#[test]
fn requests_that_can_never_work() {
    let mut story = Story::new();
    let mut config = thing(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    let bad = |text: &str| Err(Error::BadRequest(text.into()));
    let outcome = story.try_apply("m", false, &config).cloned();
    assert_eq!(outcome, bad("metadata.managedFields must be nil"));
    config["apiVersion"] = json!("t.example/v2");
    let outcome = story.try_apply("m", false, &config).cloned();
    assert_eq!(outcome, bad("invalid object type: t.example/v2, Kind=Thing"));
}

#[test]
fn status_is_not_owned_through_the_main_endpoint() {
    let mut story = Story::new();
    let mut config = thing(json!({"a": "1"}));
    config["status"] = json!({"phase": "Done"});
    story.try_apply("m", false, &config).unwrap();
    assert_eq!(story.fields("m"), json!({"f:spec": {"f:a": {}}}));
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn kubectl_takes_over_its_own_client_side_applies() {
    let node = node();
    let mut object = thing(json!({"a": "1", "n": 1}));
    let text = object.to_string();
    object["metadata"]["annotations"] = json!({LAST_APPLIED: text});
    let about = update::Track {
        old: None,
        node: &node,
        manager: "kubectl-client-side-apply",
        api_version: VERSION,
        subresource: "",
        now: NOW,
        reset: &[],
        zero: None,
    };
    update::track(&mut object, &about);
    let mut story = Story::from(stored(object));
    story.refused("other", json!({"a": "2"}));
    let object = story.apply("kubectl", json!({"a": "2", "n": 1}));
    assert_eq!(object["spec"], json!({"a": "2", "n": 1}));
    let text = object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(text, format!("{}\n", thing(json!({"a": "2", "n": 1}))));
    // What somebody else has changed since is not kubectl's.
    story.force("other", json!({"a": "3"}));
    let error = story.refused("kubectl", json!({"a": "2", "n": 1}));
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"other\": .spec.a");
}

/// Whether the value has everything that the configuration says.
fn contains(value: Option<&Value>, config: &Value, path: &str) -> bool {
    let empty = match config {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    // An empty map or list of parts says nothing.
    if empty && !matches!(path, "am" | "list") && !path.starts_with("free.") {
        return true;
    }
    match (value, config) {
        (Some(value), config) if matches!(path, "am" | "list") => value == config,
        (Some(Value::Object(value)), Value::Object(config)) => {
            config.iter().all(|(name, config)| {
                let below = if path.starts_with("free") { "free.x" } else { name };
                contains(value.get(name), config, below)
            })
        }
        (Some(Value::Array(items)), Value::Array(config)) if path == "items" => {
            config.iter().all(|config| {
                let item = items.iter().find(|item| item["name"] == config["name"]);
                contains(item, config, "item")
            })
        }
        (Some(Value::Array(items)), Value::Array(config)) if !path.starts_with("free") => {
            config.iter().all(|item| items.contains(item))
        }
        // A map whose parts all say nothing says nothing either.
        (None, Value::Object(config)) if !empty && !path.starts_with("free") => {
            config.iter().all(|(name, config)| contains(None, config, name))
        }
        (value, config) => value == Some(config) || config.is_null() || empty,
    }
}

#[test]
fn what_says_nothing_need_not_be_there() {
    assert!(contains(None, &json!({"items": []}), "spec"));
    assert!(!contains(None, &json!({"items": [{"name": "a"}]}), "spec"));
    assert!(!contains(None, &json!({"a": "1"}), "spec"));
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(before in specs(), spec in specs()) {
        let mut story = Story::new();
        story.apply("other", before);
        let once = story.force("m", spec.clone()).clone();
        prop_assert_eq!(story.force("m", spec), &once);
    }

    #[test]
    fn the_object_has_what_was_applied(a in specs(), b in specs(), c in specs()) {
        let mut story = Story::new();
        story.apply("m1", a);
        story.force("m2", b);
        story.force("m1", c.clone());
        let spec = story.spec();
        let spec = (!spec.is_null()).then_some(spec);
        prop_assert!(contains(spec, &c, "spec"), "{spec:?} lacks some of {c}");
    }

    #[test]
    fn disjoint_managers_never_conflict(left in specs(), right in specs()) {
        let keep = |spec: &Value, names: &[&str]| {
            let spec = spec.as_object().unwrap().clone();
            let kept = spec.into_iter().filter(|(name, _)| names.contains(&name.as_str()));
            Value::Object(kept.collect())
        };
        let left = keep(&left, &["a", "items", "set", "am"]);
        let right = keep(&right, &["n", "gm", "list", "free"]);
        let mut story = Story::new();
        story.apply("l", left.clone());
        story.apply("r", right.clone());
        let managed = Managed::of_object(story.live.as_ref().unwrap()).unwrap();
        for (manager, spec) in [("l", left), ("r", right)] {
            let mut fields = typed::field_set(Ty::root(&story.node), &thing(spec));
            engine::strip(&mut fields);
            let id = ManagerId::new(manager, Operation::Apply, VERSION, "");
            let owned = managed.entries.get(&id).map(|owned| owned.fields.clone());
            prop_assert_eq!(owned.unwrap_or_default(), fields);
        }
    }

    #[test]
    fn without_force_nobody_loses_a_field(a in specs(), b in specs()) {
        let mut story = Story::new();
        let before = Managed::of_object(story.apply("m1", a)).unwrap();
        if let Ok(after) = story.try_apply("m2", false, &thing(b)) {
            let after = Managed::of_object(after).unwrap();
            for (id, owned) in before.entries {
                prop_assert_eq!(after.entries.get(&id).map(|o| &o.fields), Some(&owned.fields));
            }
        }
    }

    #[test]
    fn nothing_panics(live in json_values(), config in json_values(), create in any::<bool>()) {
        let mut story = Story::new();
        story.live = (!create).then_some(live);
        let mut config = config;
        if let Some(config) = config.as_object_mut() {
            config.insert("apiVersion".into(), json!(VERSION));
        }
        let _ = apply(&story.request(&config, "kubectl", true));
        let _ = apply(&story.request(&thing(config.clone()), "m", false));
    }
}
