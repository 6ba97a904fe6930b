//! Continue tokens: where the next page of a list begins. They come back from clients, and may come
//! from anywhere.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sutler_kv::engine::Version;

use crate::status::ApiError;

struct Token {
    v: String,
    rv: i64,
    start: String,
}

impl Token {
    fn read(value: &Value) -> Result<Self, String> {
        let found = |value: &Value| match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(n) => format!("number {n}"),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        if !value.is_object() && !value.is_null() {
            let found = found(value);
            let found = found.split(' ').next().unwrap_or_default();
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type storage.continueToken"
            ));
        }
        let unfit = |key: &str, ty: &str| {
            let found = found(&value[key]);
            format!(
                "json: cannot unmarshal {found} into Go struct field continueToken.{key} of type {ty}"
            )
        };
        let text = |key: &str| match &value[key] {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            _ => Err(unfit(key, "string")),
        };
        let rv = match &value["rv"] {
            Value::Null => 0,
            rv => rv.as_i64().ok_or_else(|| unfit("rv", "int64"))?,
        };
        Ok(Self { v: text("v")?, rv, start: text("start")? })
    }
}

/// The last key that a list from `start` on does not show. Keys are of ASCII, so that nothing comes
/// between a character and what follows the one before it.
pub(super) fn just_before(start: &str) -> String {
    if let Some(last) = start.strip_suffix('\0') {
        return last.to_owned();
    }
    let mut chars = start.chars();
    let before = chars.next_back().and_then(|c| char::from_u32(u32::from(c).saturating_sub(1)));
    format!("{}{}{}", chars.as_str(), before.unwrap_or_default(), char::MAX)
}

/// The token with which a list goes on after `key`.
pub(super) fn token(prefix: &str, key: &str, version: Version) -> String {
    encode_token(prefix, key, i64::try_from(version).unwrap_or(i64::MAX))
}

/// As [`token`], of whatever is there then.
pub(super) fn inconsistent_token(prefix: &str, key: &str) -> String {
    encode_token(prefix, key, -1)
}

fn encode_token(prefix: &str, key: &str, rv: i64) -> String {
    let start = format!("{}\0", key.strip_prefix(prefix).unwrap_or(key));
    let token = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": start});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

/// The version that a token is for, and the key that its list begins with.
pub(super) fn decode_token(text: &str) -> Result<(Option<Version>, String), ApiError> {
    let bad = |why: &str| ApiError::bad_request(format!("invalid continue token: {why}"));
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| {
        let alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let at = text.bytes().position(|b| !alphabet(b)).unwrap_or(text.len());
        bad(&format!("continue key is not valid: illegal base64 data at input byte {at}"))
    })?;
    let value = sutler_schema::decode::json(&bytes)
        .map_err(|e| bad(&format!("continue key is not valid: {e}")))?
        .value;
    let token =
        Token::read(&value).map_err(|why| bad(&format!("continue key is not valid: {why}")))?;
    if token.v != "meta.k8s.io/v1" {
        return Err(bad(&format!(
            "continue key is not valid: server does not recognize this encoded version {}",
            token.v
        )));
    }
    if token.rv == 0 {
        return Err(bad(
            "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ));
    }
    if token.start.is_empty() {
        return Err(bad(
            "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
        ));
    }
    // The key is appended to the prefix that the path allows; it must not lead out of it.
    let path = token.start.trim_end_matches('\0');
    let path = path.strip_prefix('/').unwrap_or(path);
    let clean = path.split('/').all(|p| !matches!(p, "" | "." | ".."));
    if !clean {
        return Err(bad(&format!("continue key is not valid: {}", token.start)));
    }
    let start = token.start.strip_prefix('/').map_or(token.start.clone(), str::to_owned);
    Ok((Version::try_from(token.rv).ok(), start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_begins_where_its_token_says() {
        assert_eq!(just_before("ns/x\0"), "ns/x");
        let before = just_before("b");
        for (key, shown) in [("a", false), ("az", false), ("b", true), ("b-1", true), ("c", true)] {
            assert_eq!(key > before.as_str(), shown, "{key}");
        }
    }

    #[test]
    fn tokens_survive_and_cannot_leave_their_prefix() {
        let (version, start) = decode_token(&token("a/b/", "a/b/ns/x", 7)).unwrap();
        assert_eq!((version, start.as_str()), (Some(7), "ns/x\0"));
        assert_eq!(decode_token(&inconsistent_token("a/b/", "a/b/x")).unwrap().0, None);
        for start in ["../secrets", "ns/../../x", "//x", ""] {
            let token = json!({"v": "meta.k8s.io/v1", "rv": 1, "start": start}).to_string();
            assert!(decode_token(&URL_SAFE_NO_PAD.encode(token)).is_err(), "{start}");
        }
        assert!(decode_token("%%%").is_err());
        assert!(decode_token("e30").is_err());
    }
}
