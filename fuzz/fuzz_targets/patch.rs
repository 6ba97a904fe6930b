//! Patches of the three types: never a panic; a merge patch comes to rest.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sutler_apply::patch;
use sutler_schema::node::Node;

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

fn run(u: &mut Unstructured) -> Result<()> {
    let schema = sutler_fuzz::schema(u, 4)?;
    let doc = sutler_fuzz::fitting(u, &schema, 6)?;
    let changes = sutler_fuzz::fitting(u, &schema, 6)?;

    let mut operations = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        operations.push(json!({
            "op": sutler_fuzz::value(u, 0)?, "path": sutler_fuzz::value(u, 0)?,
            "from": sutler_fuzz::value(u, 0)?, "value": sutler_fuzz::value(u, 2)?,
        }));
    }
    let operations = if u.ratio(7, 8)? { operations.into() } else { sutler_fuzz::value(u, 3)? };
    let _ = patch::json(&mut doc.clone(), &operations);

    let mut once = doc.clone();
    let _ = patch::check_merge(&changes);
    patch::merge(&mut once, &changes);
    // A list in the place of an object keeps its nulls the first time, as the API does it.
    patch::merge(&mut once, &changes);
    let mut again = once.clone();
    patch::merge(&mut again, &changes);
    assert_eq!(once, again, "{doc} {changes}");

    for schema in [&schema, &Value::Null] {
        if let Ok(node) = Node::parse(schema) {
            let _ = patch::strategic(&mut doc.clone(), &changes, &node);
        }
    }
    let pod = sutler_builtin::lookup("", "v1", "Pod").expect("there are pods").node();
    let _ = patch::strategic(&mut json!({"metadata": {"name": "x"}, "spec": doc}), &changes, &pod);
    Ok(())
}
