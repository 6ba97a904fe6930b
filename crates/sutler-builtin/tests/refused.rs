//! Bad requests, compared with the refusals of a real server (`tests/fixtures/refused.json`: the
//! requests are ours, codes and causes were recorded by `tools/record.py`).

use std::fs;

use serde_json::{Value, json};
use sutler_schema::error::FieldError;

use crate::pipeline::{create, folder, kind_of, manifests, merge, read, update};

#[test]
fn what_the_real_server_refuses_is_refused_with_the_same_causes() {
    let text = fs::read_to_string(folder("fixtures/refused.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let bases = manifests();
    let mut failures = Vec::new();
    for case in &cases {
        let (_, base) = bases.iter().find(|(name, _)| *name == case["base"]).unwrap();
        let found = outcome(base, case);
        let expected = match case["code"].as_u64().unwrap() {
            400 => json!({"message": case["message"]}),
            201 => json!({"causes": []}),
            _ => json!({"causes": sorted(case["causes"].as_array().unwrap().clone())}),
        };
        if found != expected {
            let request =
                json!({"base": case["base"], "create": case["create"], "update": case["update"]});
            failures.push(format!("{request}\n  real: {expected}\n  ours: {found}"));
        }
    }
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), cases.len(), failures.join("\n"));
}

fn outcome(base: &Value, case: &Value) -> Value {
    let manifest = merge(base, case.get("create").unwrap_or(&json!({})));
    let kind = kind_of(&manifest);
    let bad = |message: String| {
        let name = kind.kind;
        json!({"message": format!("{name} in version \"v1\" cannot be handled as a {name}: {message}")})
    };
    let object = match read(manifest) {
        Ok(object) => object,
        Err(message) => return bad(message),
    };
    let (mut object, errors) = create(kind, object);
    let Some(patch) = case.get("update") else { return causes(&errors) };
    assert_eq!(errors, [], "{case}");
    if let Some(status) = case.get("before") {
        object["status"] = status.clone();
    }
    match update(kind, &object, patch, case["subresource"].as_str()) {
        Ok((_, errors)) => causes(&errors),
        Err(message) => bad(message),
    }
}

fn causes(errors: &[FieldError]) -> Value {
    let rows = errors.iter().map(|error| {
        let body = error.body();
        let message = body.lines().next().unwrap_or_default();
        json!({"reason": error.reason(), "field": error.field, "message": message})
    });
    json!({"causes": sorted(rows.collect())})
}

/// The real server walks maps in random order, so the order of causes is not compared.
fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(ToString::to_string);
    rows
}
