//! Requests and answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A request that came.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
    /// Its body, where it is JSON.
    pub body: Value,
}

/// A request, taken apart.
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) parts: Vec<&'a str>,
    pub(super) query: BTreeMap<&'a str, &'a str>,
    /// None where there is no body.
    pub(super) body: Option<&'a Value>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Text,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Text {
    Json(Value),
    /// A page for people.
    Page(String),
}

impl Reply {
    pub(super) fn ok(value: Value) -> Self {
        Self { status: 200, body: Text::Json(value) }
    }

    /// It was taken.
    pub(super) fn taken() -> Self {
        Self::ok(json!({"error": false, "data": true}))
    }

    pub(super) fn wrong(status: u16, message: &str) -> Self {
        let body = json!({"error": true, "code": status, "message": message});
        Self { status, body: Text::Json(body) }
    }

    pub(super) fn missing(what: &str) -> Self {
        Self::wrong(404, &format!("{what} not found"))
    }

    /// No such path, as servers of this kind say it.
    pub(super) fn no_route(method: &str, path: &str) -> Self {
        let page = format!("<!DOCTYPE html><pre>Cannot {method} {path}</pre>");
        Self { status: 404, body: Text::Page(page) }
    }
}

/// The fields of a body: all of `needed`, and others only of `may`.
pub(super) fn fields<'a>(
    body: Option<&'a Value>,
    needed: &[&str],
    may: &[&str],
) -> Result<&'a serde_json::Map<String, Value>, Reply> {
    let Some(map) = body.and_then(Value::as_object) else {
        return Err(Reply::wrong(400, "a JSON object is needed"));
    };
    if let Some(missing) = needed.iter().find(|name| !map.contains_key(**name)) {
        return Err(Reply::wrong(400, &format!("{missing} is required")));
    }
    let known = |name: &String| needed.contains(&name.as_str()) || may.contains(&name.as_str());
    match map.keys().find(|name| !known(name)) {
        Some(odd) => Err(Reply::wrong(400, &format!("{odd} is not allowed"))),
        None => Ok(map),
    }
}

pub(super) fn text(map: &serde_json::Map<String, Value>, name: &str) -> Result<String, Reply> {
    match map.get(name).and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(Reply::wrong(400, &format!("{name} must be a string"))),
    }
}
