//! Built-in kinds: any value goes through decoding, defaults, preparation, validation and printing
//! without a panic, and to decode and default it again changes nothing.
#![no_main]

use arbitrary::{Result, Unstructured};
use chrono::DateTime;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sutler_builtin as builtin;

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

fn run(u: &mut Unstructured) -> Result<()> {
    let kind = u.choose(builtin::kinds())?;
    let (new, old) = (object(u, kind)?, object(u, kind)?);
    let (Some(mut new), Some(old)) = (shaped(kind, new), shaped(kind, old)) else { return Ok(()) };
    let now = DateTime::from_timestamp(1_700_000_000, 0).expect("it is a time");
    builtin::validate_create(kind, &new);
    builtin::validate_update(kind, &new, &old, None);
    builtin::cells(kind, &new, now);
    builtin::row_conditions(kind, &new);
    let mut created = new.clone();
    builtin::prepare_for_create(kind, &mut created);
    builtin::validate_create(kind, &created);
    let subresource = *u.choose(&[None, Some("status"), Some("scale"), Some("finalize")])?;
    builtin::prepare_for_update(kind, &mut new, &old, subresource);
    builtin::validate_update(kind, &new, &old, subresource);
    builtin::cells(kind, &new, now);
    Ok(())
}

/// A value that follows the published schema, as far as it is in line.
fn object(u: &mut Unstructured, kind: &builtin::Kind) -> Result<Value> {
    let object = follow(u, kind.definition(), 8)?;
    Ok(sutler_fuzz::dress(object, &kind.api_version(), kind.kind))
}

fn follow(u: &mut Unstructured, definition: &str, depth: usize) -> Result<Value> {
    use std::sync::LazyLock;
    static ALL: LazyLock<serde_json::Map<String, Value>> = LazyLock::new(builtin::definitions_v2);
    fn resolve(schema: &Value, depth: usize) -> Value {
        let mut schema = schema.clone();
        if depth == 0 {
            return schema;
        }
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        if let Some(name) = reference.and_then(|r| r.strip_prefix("#/definitions/")) {
            schema = ALL.get(name).cloned().unwrap_or(Value::Null);
        }
        if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for field in fields.values_mut() {
                *field = resolve(field, depth - 1);
            }
        }
        for inner in ["items", "additionalProperties"] {
            if schema.get(inner).is_some() {
                schema[inner] = resolve(&schema[inner], depth - 1);
            }
        }
        schema
    }
    static RESOLVED: LazyLock<std::collections::BTreeMap<&'static str, Value>> =
        LazyLock::new(|| {
            let kinds = builtin::kinds().iter();
            kinds.map(|kind| (kind.definition(), resolve(&ALL[kind.definition()], 8))).collect()
        });
    match RESOLVED.get(definition) {
        Some(schema) => sutler_fuzz::fitting(u, schema, depth),
        None => sutler_fuzz::value(u, 5),
    }
}

fn shaped(kind: &builtin::Kind, object: Value) -> Option<Value> {
    let mut object = builtin::decode(kind, object).ok()?;
    builtin::apply_defaults(kind, &mut object);
    let mut again = builtin::decode(kind, object.clone()).expect("what was decoded can be decoded");
    builtin::apply_defaults(kind, &mut again);
    assert_eq!(again, object, "{}", kind.kind);
    Some(object)
}
