//! The stored form of an object, and its way to the wire without parsing.
//!
//! What is stored has no `apiVersion`, `kind` or `metadata.resourceVersion`: the first two are the
//! resource's, the last is the engine's to assign. The bytes are
//! `<offset: u32 little endian><json>`, where the offset is the place in the JSON at which the
//! version belongs. An answer is then three slices put together, whether for a get, a list or a
//! thousand watchers.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;
use sutler_kv::engine::{Record, Version};

use crate::status::ApiError;

const HEAD: usize = 4;

/// Encodes an object for the store.
pub(crate) fn encode(object: &Value) -> Result<Bytes, ApiError> {
    let map = object.as_object().ok_or_else(|| ApiError::internal("an object is not a map"))?;
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(&[0; HEAD]);
    out.extend_from_slice(b"{\"metadata\":{");
    let at = out.len() - HEAD;
    let metadata = map.get("metadata").and_then(Value::as_object);
    let fields = metadata.into_iter().flatten().filter(|(k, _)| *k != "resourceVersion");
    for (n, (key, value)) in fields.enumerate() {
        write_field(&mut out, n > 0, key, value)?;
    }
    out.push(b'}');
    for (key, value) in map {
        if !matches!(key.as_str(), "metadata" | "apiVersion" | "kind") {
            write_field(&mut out, true, key, value)?;
        }
    }
    out.push(b'}');
    let at = u32::try_from(at).map_err(ApiError::internal)?;
    out[..HEAD].copy_from_slice(&at.to_le_bytes());
    Ok(Bytes::from(out))
}

fn write_field(out: &mut Vec<u8>, comma: bool, key: &str, value: &Value) -> Result<(), ApiError> {
    if comma {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, key).map_err(ApiError::internal)?;
    out.push(b':');
    serde_json::to_writer(&mut *out, value).map_err(ApiError::internal)
}

/// The two names that every object of a resource begins with, as JSON:
/// `{"apiVersion":"v1","kind":"Pod",`.
pub(crate) fn type_prefix(api_version: &str, kind: &str) -> Bytes {
    Bytes::from(format!("{{\"apiVersion\":{api_version:?},\"kind\":{kind:?},"))
}

/// Puts an object's JSON after `prefix` (`{` or a [`type_prefix`]).
pub(crate) fn write_wire(
    out: &mut BytesMut,
    prefix: &[u8],
    stored: &Bytes,
    version: Version,
) -> Result<(), ApiError> {
    let (before, after) = split(stored)?;
    out.reserve(prefix.len() + stored.len() + 48);
    out.put_slice(prefix);
    out.put_slice(before.get(1..).ok_or_else(damaged)?);
    out.put_slice(b"\"resourceVersion\":\"");
    let mut digits = [0u8; 20];
    out.put_slice(decimal(version, &mut digits));
    out.put_slice(if after.first() == Some(&b'}') { b"\"" } else { b"\"," });
    out.put_slice(after);
    Ok(())
}

/// One object's JSON, and the end of its line.
pub(crate) fn wire(prefix: &[u8], stored: &Bytes, version: Version) -> Result<Bytes, ApiError> {
    let mut out = BytesMut::with_capacity(prefix.len() + stored.len() + 48);
    write_wire(&mut out, prefix, stored, version)?;
    out.put_u8(b'\n');
    Ok(out.freeze())
}

/// Decodes a stored object, with its names and version put back.
pub(crate) fn decode(
    api_version: &str,
    kind: &str,
    stored: &Bytes,
    version: Version,
) -> Result<Value, ApiError> {
    let json = stored.get(HEAD..).ok_or_else(damaged)?;
    let mut object = parse(json)?;
    if !object.is_object() {
        return Err(damaged());
    }
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    Ok(object)
}

/// Parses JSON of ours. The common reader gives up at some depth; what is deeper takes another.
pub(crate) fn parse(json: &[u8]) -> Result<Value, ApiError> {
    match serde_json::from_slice(json) {
        Ok(value) => Ok(value),
        Err(_) => sutler_schema::decode::stored(json).map_err(|_| damaged()),
    }
}

/// What selectors and owners need of a stored object, without the rest of it.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Glance {
    #[serde(default)]
    pub(crate) metadata: GlanceMeta,
}

/// The borrowed part of `metadata`.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct GlanceMeta {
    #[serde(default)]
    pub(crate) labels: Option<serde_json::Map<String, Value>>,
    #[serde(rename = "ownerReferences", default)]
    pub(crate) owners: Vec<Owner>,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(rename = "deletionTimestamp", default)]
    pub(crate) deleting: Option<String>,
    #[serde(default)]
    pub(crate) finalizers: Vec<String>,
}

/// One owner reference.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) block_owner_deletion: Option<bool>,
}

/// Reads the part of a stored object that selectors and owners need.
pub(crate) fn glance(stored: &Bytes) -> Result<Glance, ApiError> {
    let json = stored.get(HEAD..).ok_or_else(damaged)?;
    serde_json::from_slice(json).map_err(|_| damaged())
}

/// [`decode`] of a record.
pub(crate) fn decode_record(
    api_version: &str,
    kind: &str,
    record: &Record,
) -> Result<Value, ApiError> {
    decode(api_version, kind, &record.value, record.version)
}

fn split(stored: &Bytes) -> Result<(&[u8], &[u8]), ApiError> {
    let (head, json) = stored.split_at_checked(HEAD).ok_or_else(damaged)?;
    let at = u32::from_le_bytes(head.try_into().map_err(|_| damaged())?) as usize;
    json.split_at_checked(at).ok_or_else(damaged)
}

fn damaged() -> ApiError {
    ApiError::internal("a stored object cannot be read")
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_survives_the_store_and_gets_its_version() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"},
            "data": {"metadata": "\"x\""}
        });
        let stored = encode(&object).unwrap();
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = "18446744073709551615".into();
        let decoded = decode("v1", "ConfigMap", &stored, u64::MAX).unwrap();
        assert_eq!(decoded, expected);
        let wire = wire(&type_prefix("v1", "ConfigMap"), &stored, u64::MAX).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&wire).unwrap(), expected);
    }

    #[test]
    fn empty_metadata_still_makes_valid_json() {
        let stored = encode(&json!({"metadata": {}})).unwrap();
        let wire = wire(b"{", &stored, 0).unwrap();
        let value: Value = serde_json::from_slice(&wire).unwrap();
        assert_eq!(value, json!({"metadata": {"resourceVersion": "0"}}));
    }

    #[test]
    fn damaged_bytes_are_an_error_and_no_panic() {
        for bytes in [&b""[..], b"\x01", b"\xff\xff\xff\xff{}", b"\0\0\0\0{}"] {
            assert!(wire(b"{", &Bytes::copy_from_slice(bytes), 1).is_err());
        }
        for bytes in [&b""[..], b"\x01", b"\0\0\0\0{", b"\0\0\0\0[]"] {
            assert!(decode("v1", "X", &Bytes::copy_from_slice(bytes), 1).is_err());
        }
    }
}
