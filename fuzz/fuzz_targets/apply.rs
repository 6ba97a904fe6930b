//! Apply on any object, configuration and schema: it never panics, and to apply the same again and
//! again comes to rest.
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
    let object = |u: &mut Unstructured| -> Result<Value> {
        let object = sutler_fuzz::fitting(u, &schema, 7)?;
        let object = if object.is_object() { object } else { json!({}) };
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
        // Where the last entry of a map or list goes, the first apply leaves nothing and the second
        // what was asked for. And where nobody owns anything any more, the next begins anew.
        let Ok(settled) = apply(&request(&applied, true)) else {
            panic!("what was applied is refused:\nschema {schema}\nlive {live}\nconfig {config}");
        };
        if settled.pointer("/metadata/managedFields").is_none() {
            live = settled;
            continue;
        }
        let again = apply(&request(&settled, false));
        assert!(
            again.as_ref().is_ok_and(|again| is_noop_besides_timestamps(&settled, again)),
            "not idempotent:\nschema {schema}\nlive {live}\nconfig {config} by {manager}\nonce {applied}\ntwice {settled}\nthen {again:?}"
        );
        live = settled;
    }
    Ok(())
}
