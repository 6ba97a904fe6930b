//! Forms of bodies: what a request is sent in, and what its answer may be.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use sutler_schema::{decode, node::Node};

use crate::status::ApiError;

/// The largest body, as the real server has it.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// How long a client may take to send a body.
const BODY_TIME: std::time::Duration = std::time::Duration::from_secs(60);

/// How much of a body that is too large is taken and thrown away, and for how long.
const DRAIN_LIMIT: usize = 4 * BODY_LIMIT;
const DRAIN_TIME: std::time::Duration = std::time::Duration::from_secs(2);

/// What the real server lists when it refuses a body's type.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Reads a whole body, within the limit.
pub(crate) async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body.map_err(|e| e.to_string()));
    // One that says that it is too large is not waited for.
    if body.size_hint().lower() <= BODY_LIMIT as u64 {
        let limited = Limited::new(body.as_mut(), BODY_LIMIT);
        match tokio::time::timeout(BODY_TIME, limited.collect()).await {
            Ok(Ok(collected)) => return Ok(collected.to_bytes()),
            Ok(Err(e)) if e.is::<LengthLimitError>() => {}
            Ok(Err(e)) => {
                let message = format!("the body could not be read: {e}");
                return Err(ApiError::bad_request(message));
            }
            Err(_) => {
                return Err(ApiError::plain(
                    http::StatusCode::REQUEST_TIMEOUT,
                    "Timeout",
                    "the body did not arrive in time",
                ));
            }
        }
    }
    // A connection that closes with bytes unread is reset, and the client may never see why: what
    // is on its way is let in, within bounds.
    let rest = async {
        let mut taken = 0;
        while let Some(Ok(frame)) = body.frame().await {
            taken += frame.data_ref().map_or(0, Bytes::len);
            if taken > DRAIN_LIMIT {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
    Err(ApiError::too_large(BODY_LIMIT))
}

/// The media type of a body, without parameters and in lower case; empty if none is named. What
/// names none though it is there stays as it is, and no decoder takes it.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return String::new() };
    let value = String::from_utf8_lossy(value.as_bytes());
    match value.split(';').next().map(str::trim) {
        Some("") | None => value.trim().to_owned(),
        Some(media) => media.to_ascii_lowercase(),
    }
}

/// As [`content_type`], in the letters that were sent.
pub(crate) fn content_type_as_sent(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or_default().trim().to_owned()
}

/// A body that was understood.
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// What strict decoding has against it so far.
    pub(crate) findings: Vec<String>,
    /// Whether unknown fields are among the findings.
    pub(crate) unknown_told: bool,
}

/// Whether a body of this type is read as JSON.
pub(crate) fn is_json(media: &str) -> bool {
    matches!(media, "" | "application/json" | "*/*" | "application/*")
}

/// Decodes JSON of a built-in kind, and finds the fields that it does not have on the way.
pub(crate) fn from_json_of(node: &Node, body: &[u8]) -> Result<Decoded, ApiError> {
    let found = decode::json_known(body, node);
    let found = found.map_err(|e| ApiError::bad_request(e.to_string()))?;
    Ok(Decoded { unknown_told: true, ..decoded(found) })
}

/// Decodes an object's body by its type.
pub(crate) fn decode_object(headers: &HeaderMap, body: &[u8]) -> Result<Decoded, ApiError> {
    match content_type(headers).as_str() {
        media if is_json(media) => from_json(body),
        "application/yaml" => from_yaml(body),
        "application/vnd.kubernetes.protobuf" => {
            let value = sutler_builtin::decode_protobuf(body, None)
                .map_err(|e| ApiError::bad_request(e.to_string()))?;
            Ok(Decoded { value, findings: Vec::new(), unknown_told: false })
        }
        _ => Err(ApiError::unsupported_media_type(ACCEPTED)),
    }
}

/// Decodes JSON.
pub(crate) fn from_json(body: &[u8]) -> Result<Decoded, ApiError> {
    decode::json(body).map(decoded).map_err(|e| ApiError::bad_request(e.to_string()))
}

/// Decodes YAML (or JSON, which is YAML).
pub(crate) fn from_yaml(body: &[u8]) -> Result<Decoded, ApiError> {
    decode::yaml(body).map(decoded).map_err(|e| ApiError::bad_request(e.to_string()))
}

fn decoded(decoded: decode::Decoded) -> Decoded {
    Decoded { value: decoded.value, findings: decoded.strict_errors, unknown_told: false }
}
