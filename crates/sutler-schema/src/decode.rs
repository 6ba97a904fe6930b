//! Strict decoding of request bodies, with the words of the API for what is wrong.

use serde_json::Value;

use crate::node::Node;

mod json;
mod yaml;

/// How deep a body may be nested: far more than any object needs, and as much as everything that
/// walks an object by recursion can take on a thread with two megabytes of stack, several times
/// over.
pub const MAX_DEPTH: usize = 500;

/// How deep a stored object may be nested: its owners are written down within it, and a few levels
/// deeper than what they own.
const MAX_STORED_DEPTH: usize = MAX_DEPTH + 16;

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

/// Reads an object that was stored, however deep it was allowed to be.
pub fn stored(bytes: &[u8]) -> Result<Value, DecodeError> {
    json::decode(bytes, None, MAX_STORED_DEPTH).map(|(value, _)| value)
}

/// As [`json()`], with the fields that `node` does not know among the strict errors, in the order
/// of the text, which is how the API reports them for built-in kinds.
pub fn json_known(bytes: &[u8], node: &Node) -> Result<Decoded, DecodeError> {
    decode_json(bytes, Some(node))
}

fn decode_json(bytes: &[u8], node: Option<&Node>) -> Result<Decoded, DecodeError> {
    let (value, strict) = json::decode(bytes, node, MAX_DEPTH)?;
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
