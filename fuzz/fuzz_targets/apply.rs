//! Apply on any object, configuration and schema: it never panics, and to apply the same twice
//! changes nothing the second time.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sutler_apply::{
    apply::{Request, apply},
    update::{Track, is_noop_besides_timestamps, track},
};
use sutler_schema::node::Node;

const VERSION: &str = "t.example/v1";

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

fn run(u: &mut Unstructured) -> Result<()> {
    let schema = json!({"type": "object", "properties": {
        "spec": sutler_fuzz::schema(u, 4)?, "status": sutler_fuzz::schema(u, 2)?,
    }});
    let Ok(node) = Node::parse(&schema) else { return Ok(()) };
    // An object that is emptied of a null becomes null itself, and may then be in conflict. The
    // merge is known to be so; with nulls, it is only tried.
    let nulls = u.ratio(1, 8)?;
    let object = |u: &mut Unstructured| -> Result<Value> {
        let object = sutler_fuzz::fitting(u, &schema, 7)?;
        let mut object = if object.is_object() { object } else { json!({}) };
        if !nulls {
            drop_nulls(&mut object);
        }
        Ok(sutler_fuzz::dress(object, VERSION, "Thing"))
    };
    let mut live = object(u)?;
    // Somebody may have taken the list of managers away.
    if u.ratio(7, 8)? {
        let created = Track {
            old: None,
            node: &node,
            manager: "creator",
            api_version: VERSION,
            subresource: "",
            now: "2024-01-01T00:00:00Z",
            reset: &[],
            zero: None,
        };
        track(&mut live, &created);
    }
    match live.get_mut("metadata").and_then(Value::as_object_mut) {
        Some(metadata) => metadata.insert("uid".into(), "u1".into()),
        None => return Ok(()),
    };
    for _ in 0..u.int_in_range(1..=4)? {
        let config = object(u)?;
        let manager = *u.choose(&["one", "two"])?;
        let request = |live, force| Request {
            live: Some(live),
            config: &config,
            node: &node,
            manager,
            api_version: VERSION,
            subresource: "",
            force,
            now: "2024-01-01T00:00:01Z",
            reset: &[],
            zero: None,
        };
        let force = u.arbitrary()?;
        let Ok(applied) = apply(&request(&live, force)) else {
            // What conflicts can be forced; what is malformed stays so.
            let _ = apply(&request(&live, true));
            continue;
        };
        if nulls || applied.pointer("/metadata/managedFields").is_none() {
            // Nobody owns anything any more: the next one to apply begins anew.
            live = applied;
            continue;
        }
        let again = match apply(&request(&applied, false)) {
            Ok(again) => again,
            Err(error) => panic!(
                "not idempotent:\nschema {schema}\nlive {live}\nconfig {config} by {manager}, {force}\nonce {applied}\nthen {error}"
            ),
        };
        // A map whose last entry goes is null at first and empty afterwards; neither holds anything.
        assert!(
            is_noop_besides_timestamps(&dense(&applied), &dense(&again)),
            "not idempotent:\nschema {schema}\nlive {live}\nconfig {config}\nonce {applied}\ntwice {again}"
        );
        live = applied;
    }
    Ok(())
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

/// The value without fields that hold nothing; who owns them still counts.
fn dense(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let dense = fields.iter().filter(|(name, _)| *name != "metadata");
    let dense = dense.map(|(name, field)| (name.clone(), dense_field(field)));
    let mut dense: serde_json::Map<String, Value> =
        dense.filter(|(_, field)| !field.is_null()).collect();
    dense.extend(fields.get("metadata").map(|metadata| ("metadata".to_owned(), metadata.clone())));
    Value::Object(dense)
}

fn dense_field(value: &Value) -> Value {
    let dense = dense(value);
    if dense.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { dense }
}
