//! Answers in protobuf, written by the type table from the JSON that the same object has.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{MAGIC, ProtobufError, wire};
use crate::{
    kind, time,
    types::{self, Type, Types},
};

/// Writes an object, a list of objects or a `Status` in its envelope.
pub fn encode_protobuf(value: &Value) -> Result<Vec<u8>, ProtobufError> {
    let api_version = text(value, "apiVersion");
    let kind = text(value, "kind");
    let raw = match (api_version, kind) {
        ("v1", "Status") => status(value),
        _ => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let unknown = || ProtobufError::UnknownKind {
                api_version: api_version.into(),
                kind: kind.into(),
            };
            match (kind::lookup(group, version, kind), kind.strip_suffix("List")) {
                (Some(row), _) => object(row, value)?,
                (None, Some(single)) => {
                    let row = kind::lookup(group, version, single).ok_or_else(unknown)?;
                    list(row, value)?
                }
                (None, None) => return Err(unknown()),
            }
        }
    };
    let mut names = Vec::new();
    put_bytes(&mut names, 1, api_version.as_bytes());
    put_bytes(&mut names, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &names);
    put_bytes(&mut out, 2, &raw);
    // Neither encoded nor of another type than the request's.
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    Ok(out)
}

/// One event of a watch, framed: `event` is its JSON.
pub fn encode_protobuf_event(event: &Value) -> Result<Vec<u8>, ProtobufError> {
    let mut object = Vec::new();
    put_bytes(&mut object, 1, &encode_protobuf(&event["object"])?);
    let mut raw = Vec::new();
    put_bytes(&mut raw, 1, text(event, "type").as_bytes());
    put_bytes(&mut raw, 2, &object);
    let length = u32::try_from(raw.len()).map_err(|_| ProtobufError::Malformed("too large"))?;
    let mut out = length.to_be_bytes().to_vec();
    out.append(&mut raw);
    Ok(out)
}

fn object(row: &kind::Kind, value: &Value) -> Result<Vec<u8>, ProtobufError> {
    let types = types::table();
    let root = types.named(row.definition()).expect("every kind of the table has a type");
    let mut out = Vec::new();
    if let Some(map) = value.as_object() {
        message(types, root, map, &mut out)?;
    }
    Ok(out)
}

fn list(row: &kind::Kind, value: &Value) -> Result<Vec<u8>, ProtobufError> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, &list_meta(&value["metadata"]));
    for item in value["items"].as_array().into_iter().flatten() {
        put_bytes(&mut out, 2, &object(row, item)?);
    }
    Ok(out)
}

fn list_meta(meta: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, text(meta, "selfLink").as_bytes());
    put_bytes(&mut out, 2, text(meta, "resourceVersion").as_bytes());
    put_bytes(&mut out, 3, text(meta, "continue").as_bytes());
    if let Some(remaining) = meta["remainingItemCount"].as_i64() {
        put_varint(&mut out, 4, remaining);
    }
    out
}

fn status(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, &list_meta(&value["metadata"]));
    put_bytes(&mut out, 2, text(value, "status").as_bytes());
    put_bytes(&mut out, 3, text(value, "message").as_bytes());
    put_bytes(&mut out, 4, text(value, "reason").as_bytes());
    if value["details"].is_object() {
        let given = &value["details"];
        let mut details = Vec::new();
        for (number, key) in [(1, "name"), (2, "group"), (3, "kind")] {
            put_bytes(&mut details, number, text(given, key).as_bytes());
        }
        for cause in given["causes"].as_array().into_iter().flatten() {
            let mut one = Vec::new();
            for (number, key) in [(1, "reason"), (2, "message"), (3, "field")] {
                put_bytes(&mut one, number, text(cause, key).as_bytes());
            }
            put_bytes(&mut details, 4, &one);
        }
        put_varint(&mut details, 5, given["retryAfterSeconds"].as_i64().unwrap_or(0));
        put_bytes(&mut details, 6, text(given, "uid").as_bytes());
        put_bytes(&mut out, 5, &details);
    }
    put_varint(&mut out, 6, value["code"].as_i64().unwrap_or(0));
    out
}

/// Writes the fields of struct `index`. What is absent has the value that its type begins with.
fn message(
    types: &Types,
    index: usize,
    map: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    for known in &types.get(index).fields {
        match (known.name, &known.ty) {
            ("", Type::Struct(inner)) => {
                let mut embedded = Vec::new();
                message(types, *inner, map, &mut embedded)?;
                if known.number > 0 && !embedded.is_empty() {
                    put_bytes(out, known.number, &embedded);
                }
            }
            // Both are the envelope's.
            ("apiVersion" | "kind", _) if known.number == 0 => {}
            (name, ty) if known.number > 0 => {
                if let Some(value) = map.get(name).filter(|value| !value.is_null()) {
                    field(types, known.number, ty, value, out)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn field(
    types: &Types,
    number: u32,
    ty: &Type,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let unfit = || ProtobufError::Malformed("a stored value does not fit its type");
    let string = || value.as_str().ok_or_else(unfit);
    match ty {
        Type::Pointer(inner) => field(types, number, inner, value, out)?,
        Type::String => put_bytes(out, number, string()?.as_bytes()),
        Type::Bool => put_varint(out, number, value.as_bool().ok_or_else(unfit)?.into()),
        Type::Int32 | Type::Int64 => put_varint(out, number, value.as_i64().ok_or_else(unfit)?),
        Type::Float64 => put_double(out, number, value.as_f64().ok_or_else(unfit)?),
        Type::Bytes => {
            let bytes = STANDARD.decode(string()?).map_err(|_| unfit())?;
            put_bytes(out, number, &bytes);
        }
        Type::Time | Type::MicroTime => {
            let (seconds, nanos) = time::to_unix(string()?).ok_or_else(unfit)?;
            let mut stamp = Vec::new();
            put_varint(&mut stamp, 1, seconds);
            put_varint(&mut stamp, 2, nanos.into());
            put_bytes(out, number, &stamp);
        }
        Type::Quantity => {
            let mut quantity = Vec::new();
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            put_bytes(&mut quantity, 1, text.as_bytes());
            put_bytes(out, number, &quantity);
        }
        Type::IntOrString => {
            let mut either = Vec::new();
            match value.as_str() {
                Some(text) => {
                    put_varint(&mut either, 1, 1);
                    put_varint(&mut either, 2, 0);
                    put_bytes(&mut either, 3, text.as_bytes());
                }
                None => {
                    put_varint(&mut either, 1, 0);
                    put_varint(&mut either, 2, value.as_i64().ok_or_else(unfit)?);
                    put_bytes(&mut either, 3, b"");
                }
            }
            put_bytes(out, number, &either);
        }
        Type::RawExtension | Type::FieldsV1 => {
            let mut raw = Vec::new();
            put_bytes(&mut raw, 1, value.to_string().as_bytes());
            put_bytes(out, number, &raw);
        }
        Type::Struct(index) => {
            let mut inner = Vec::new();
            message(types, *index, value.as_object().ok_or_else(unfit)?, &mut inner)?;
            put_bytes(out, number, &inner);
        }
        Type::List(inner) => {
            for item in value.as_array().ok_or_else(unfit)? {
                field(types, number, inner, item, out)?;
            }
        }
        Type::Map(inner) => {
            for (key, value) in value.as_object().ok_or_else(unfit)? {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                field(types, 2, inner, value, &mut entry)?;
                put_bytes(out, number, &entry);
            }
        }
        Type::Wrapped(inner) => {
            let mut wrapper = Vec::new();
            field(types, 1, inner, value, &mut wrapper)?;
            put_bytes(out, number, &wrapper);
        }
        Type::Duration | Type::Any => {
            return Err(ProtobufError::Malformed("a field is not written in protobuf"));
        }
    }
    Ok(())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_raw(out, u64::from(number) << 3 | u64::from(wire));
}

fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, wire::BYTES);
    put_raw(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Negative numbers take ten bytes, as they always did.
fn put_varint(out: &mut Vec<u8>, number: u32, value: i64) {
    put_tag(out, number, wire::VARINT);
    put_raw(out, value.cast_unsigned());
}

fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_tag(out, number, wire::FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_raw(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
