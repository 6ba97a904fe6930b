//! Answers in the encoding that was agreed upon. Everything is made as JSON on one line, which is
//! also what nearly everybody asks for and passes through untouched; what people and other clients
//! want instead is made of it here.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{accept::Media, body::Body, codec, status::ApiError};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Smaller answers are not worth compressing.
const GZIP_FROM: usize = 128 * 1024;
/// How much is compressed in one go.
const GZIP_STEP: usize = 256 * 1024;

/// Whether the body is JSON, and so can be anything else.
fn is_json(response: &Response<Body>) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == JSON)
}

/// Turns a whole answer into another encoding.
pub(crate) async fn encode(
    response: Response<Body>,
    media: Media,
) -> Result<Response<Body>, ApiError> {
    if media == Media::Json || !is_json(&response) {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let json = body.collect().await?.to_bytes();
    if json.is_empty() {
        return Ok(Response::from_parts(parts, Body::whole(json)));
    }
    let (kind, bytes) = match media {
        Media::Json | Media::Pretty => (JSON, Bytes::from(indented(&json))),
        Media::Yaml => (YAML, Bytes::from(yaml(&codec::parse(&json)?)?)),
        Media::Protobuf => {
            let bytes = sutler_builtin::encode_protobuf(&codec::parse(&json)?);
            (PROTOBUF, Bytes::from(bytes.map_err(ApiError::internal)?))
        }
    };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(Response::from_parts(parts, Body::whole(bytes)))
}

/// Turns the events of a watch into protobuf.
pub(crate) fn encode_events(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let kind = HeaderValue::from_static(PROTOBUF_STREAM);
    parts.headers.insert(header::CONTENT_TYPE, kind);
    let frames = body.into_data_stream().map(|line| {
        let event = codec::parse(&line?)?;
        let frame = sutler_builtin::encode_protobuf_event(&event);
        frame.map(Bytes::from).map_err(ApiError::internal)
    });
    Response::from_parts(parts, Body::stream(frames))
}

fn yaml(value: &Value) -> Result<String, ApiError> {
    let options = serde_saphyr::ser_options! {
        // Long lines stay whole: they are easier to search, edit and paste.
        folded_wrap_chars: 1 << 20,
    };
    let mut text =
        serde_saphyr::to_string_with_options(value, options).map_err(ApiError::internal)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// JSON with line breaks, fields in the order in which they came.
pub(crate) fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut last = b' ';
    for &byte in json {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            last = byte;
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let closing = matches!(byte, b'}' | b']');
        if closing {
            depth = depth.saturating_sub(1);
        }
        // Nothing stands in an empty object, and so on one line.
        let opened = matches!(last, b'{' | b'[');
        if opened != closing && (opened || closing) {
            new_line(&mut out, depth);
        }
        out.push(byte);
        match byte {
            b'{' | b'[' => depth += 1,
            b',' => new_line(&mut out, depth),
            b':' => out.push(b' '),
            b'"' => in_string = true,
            _ => {}
        }
        last = if in_string { b' ' } else { byte };
    }
    out.push(b'\n');
    out
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

/// Compresses an answer that is large, for who can read that.
pub(crate) fn compress(asked: &HeaderMap, response: Response<Body>) -> Response<Body> {
    let worth_it = response.body().size().is_none_or(|size| size > GZIP_FROM);
    if !worth_it || !takes_gzip(asked) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let steps = body.into_data_stream().flat_map(|part| {
        let steps: Vec<Result<Bytes, ApiError>> = match part {
            Ok(part) => pieces(part).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        futures::stream::iter(steps)
    });
    // The least effort: answers are read once, and by somebody who waits.
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed = futures::stream::unfold(
        (Some(encoder), Box::pin(steps)),
        |(encoder, mut steps)| async move {
            let mut encoder = encoder?;
            match steps.next().await {
                Some(Ok(step)) => {
                    if let Err(error) = encoder.write_all(&step) {
                        return Some((Err(ApiError::internal(error)), (None, steps)));
                    }
                    let done = std::mem::take(encoder.get_mut());
                    Some((Ok(Bytes::from(done)), (Some(encoder), steps)))
                }
                Some(Err(error)) => Some((Err(error), (None, steps))),
                None => {
                    let rest = encoder.finish().map(Bytes::from).map_err(ApiError::internal);
                    Some((rest, (None, steps)))
                }
            }
        },
    );
    let not_empty = |part: &Result<Bytes, ApiError>| {
        std::future::ready(!part.as_ref().is_ok_and(Bytes::is_empty))
    };
    Response::from_parts(parts, Body::stream(compressed.filter(not_empty)))
}

fn pieces(mut part: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!part.is_empty()).then(|| part.split_to(part.len().min(GZIP_STEP))))
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let value = asked.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.split(',').any(|token| token.trim() == "gzip"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_json_is_the_same_json() {
        let json = br#"{"a":[1,{}],"b":"x\\\"{,","c":{},"d":[]}"#;
        let text = String::from_utf8(indented(json)).unwrap();
        assert_eq!(
            text,
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x\\\\\\\"{,\",\n  \"c\": {},\n  \"d\": []\n}\n"
        );
    }

    #[test]
    fn yaml_keeps_words_apart_from_booleans() {
        let text = yaml(&serde_json::json!({"a": "on", "b": "5", "c": true})).unwrap();
        assert!(!text.contains("a: on\n") && !text.contains("b: 5\n"), "{text}");
    }

    #[tokio::test]
    async fn what_is_compressed_can_be_read_again() {
        use std::io::Read;
        let mut asked = HeaderMap::new();
        asked.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"));
        let text = "x".repeat(3 * GZIP_STEP);
        let response = compress(&asked, Response::new(Body::whole(text.clone())));
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut plain = String::new();
        flate2::read::GzDecoder::new(bytes.as_ref()).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, text);
        let small = compress(&asked, Response::new(Body::whole("x")));
        assert!(small.headers().get(header::CONTENT_ENCODING).is_none());
    }
}
