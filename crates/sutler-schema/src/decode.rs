//! Strict decoding of request bodies, with the words of the API for what is wrong.

use serde_json::Value;

use crate::node::Node;

mod json;
mod yaml;

/// How deep a body may be nested. Far more than any object needs, and less than the limit of
/// `serde_json`, so that what was accepted can be read back.
pub const MAX_DEPTH: usize = 100;

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The value; of duplicate keys the last one counts.
    pub value: Value,
    /// Paths of duplicate keys: `spec.x`.
    pub duplicates: Vec<String>,
    /// What strict decoding says: `duplicate field "spec.x"`.
    pub strict_errors: Vec<String>,
}

/// Why a body cannot be decoded; the text is part of the message of the 400 answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// Decodes JSON. Integers that fit stay integers; other numbers are floats, also whole ones:
/// [`crate::prune::coerce`] makes integers of those.
pub fn json(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode_json(bytes, None)
}

/// As [`json()`], with the fields that `node` does not know among the strict errors, in the order
/// of the text, which is how the API reports them for built-in kinds.
pub fn json_known(bytes: &[u8], node: &Node) -> Result<Decoded, DecodeError> {
    decode_json(bytes, Some(node))
}

fn decode_json(bytes: &[u8], node: Option<&Node>) -> Result<Decoded, DecodeError> {
    let (value, strict) = json::decode(bytes, node)?;
    let (mut duplicates, mut strict_errors) = (Vec::new(), Vec::new());
    for fault in strict {
        match fault {
            json::Strict::Duplicate(path) => {
                strict_errors.push(format!("duplicate field \"{path}\""));
                duplicates.push(path);
            }
            json::Strict::Unknown(path) => strict_errors.push(format!("unknown field \"{path}\"")),
        }
    }
    Ok(Decoded { value, duplicates, strict_errors })
}

/// Decodes the first YAML document, with the scalars of YAML 1.1: a bare `yes` or `on` is true.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    yaml::decode(bytes)
}

/// The integer that a float is, if JSON carries it exactly.
pub(crate) fn whole(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}

#[cfg(test)]
mod tests;
