//! Answers as HTTP responses.

use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{body::Body, registry::Resource, status::ApiError, write::Ctx};

/// An answer with a JSON body that is there already.
pub(crate) fn response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    set(&mut response, header::CONTENT_TYPE, "application/json");
    set(&mut response, header::CACHE_CONTROL, "no-cache, private");
    response
}

/// An answer of one JSON value.
pub(crate) fn json_response(code: StatusCode, body: &Value) -> Response<Body> {
    let mut text = body.to_string();
    text.push('\n');
    response(code, Body::whole(text))
}

pub(crate) fn typed_response(content_type: &'static str, body: &Value) -> Response<Body> {
    let mut response = json_response(StatusCode::OK, body);
    set(&mut response, header::CONTENT_TYPE, content_type);
    response
}

pub(crate) fn set(response: &mut Response<Body>, name: header::HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

pub(crate) fn refused(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(code, &error.to_status());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// An answer of plain text.
pub(crate) fn plain(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = response(code, Body::whole(text.into()));
    set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    response
}

/// What an address that leads nowhere is answered with.
pub(crate) fn page_not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// An address that leads nowhere: within the built-in groups that is a `Status`.
pub(crate) fn nowhere(ctx: &Ctx<'_>) -> Response<Body> {
    let info = ctx.info;
    let parts: Vec<&str> = info.path.split('/').filter(|p| !p.is_empty()).collect();
    let group = match parts.as_slice() {
        ["api", ..] => "",
        ["apis", group, ..] => group,
        _ => return page_not_found(),
    };
    let builtin = |r: &Arc<Resource>| r.builtin().is_some() && r.group == group;
    if !ctx.inner.registry.iter().any(builtin) {
        return page_not_found();
    }
    let message = "the server could not find the requested resource";
    let mut error = ApiError::plain(StatusCode::NOT_FOUND, "NotFound", message);
    error.details = Some(json!({}));
    refused(&error)
}

/// Says on an answer what was accepted with reservations.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: impl Iterator<Item = String>) {
    for warning in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// A quoted string of an HTTP header: control characters have no place in it.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}
