//! Requests that change something: decode, shape, own, prepare, validate, admit, commit.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod guard;
pub(crate) mod patch;
pub(crate) mod scale;
pub(crate) mod update;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::{
    auth::User,
    negotiate::{self, Decoded},
    options::WriteOptions,
    registry::Resource,
    request::{Query, RequestInfo},
    server::Inner,
    status::ApiError,
    strategy,
};

/// What every handler knows of its request.
pub(crate) struct Ctx<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) user: &'a User,
    pub(crate) info: &'a RequestInfo,
    pub(crate) query: &'a Query,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Ctx<'_> {
    pub(crate) fn warn(&self, texts: impl IntoIterator<Item = String>) {
        self.warnings.lock().unwrap_or_else(|e| e.into_inner()).extend(texts);
    }
}

/// What a write came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// 200, 201 or 202.
    pub(crate) code: StatusCode,
    /// The object as it is now.
    pub(crate) object: Value,
    /// Its wire form, where it is at hand.
    pub(crate) wire: Option<Bytes>,
    /// Whether `object` is a `Status` and no object of the resource.
    pub(crate) status: bool,
}

impl Outcome {
    pub(crate) fn ok(object: Value) -> Self {
        Self { code: StatusCode::OK, object, wire: None, status: false }
    }

    pub(crate) fn success(code: StatusCode, details: Value) -> Self {
        let mut object = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        });
        match details {
            Value::Null => object["code"] = code.as_u16().into(),
            details => object["details"] = details,
        }
        Self { code, object, wire: None, status: true }
    }
}

/// Decodes the body of a create or update into an object of `resource`, shaped by its type.
pub(crate) fn decode_body(
    ctx: &Ctx<'_>,
    resource: &Resource,
    options: &WriteOptions,
    body: &[u8],
) -> Result<Value, ApiError> {
    let Decoded { mut value, findings } = negotiate::decode_object(ctx.headers, body)?;
    check_type(resource, &mut value)?;
    shape(ctx, resource, options, &mut value, findings).map_err(|mut error| {
        if error.message.starts_with(strategy::STRICT) {
            let Resource { kind, version, .. } = resource;
            error.message =
                format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
        }
        error
    })?;
    Ok(if resource.converted { sutler_builtin::event_from_v1(value) } else { value })
}

/// Shapes an object and judges what did not fit.
pub(crate) fn shape(
    ctx: &Ctx<'_>,
    resource: &Resource,
    options: &WriteOptions,
    value: &mut Value,
    mut findings: Vec<String>,
) -> Result<(), ApiError> {
    findings.extend(strategy::shape(resource, value)?);
    let mut warnings = Vec::new();
    strategy::judge(options.validation, findings, &mut warnings)?;
    ctx.warn(warnings);
    Ok(())
}

/// The body must be of the kind that the path names; what it leaves out is filled in for built-in
/// kinds, as the real server's decoder does.
fn check_type(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    let Some(map) = value.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; \
             json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }} ({})",
            resource.kind,
            json_type(value),
            go_bytes(value),
        )));
    };
    for key in ["apiVersion", "kind"] {
        if let Some(other) = map.get(key).filter(|v| !v.is_string() && !v.is_null()) {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get \
                 version/kind; json parse error: json: cannot unmarshal {} into Go struct field \
                 .{key} of type string ({})",
                resource.kind,
                json_type(other),
                go_bytes(value),
            )));
        }
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if resource.custom().is_some() {
        if kind.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'Kind' is missing in '{}'",
                serde_json::to_string(map).unwrap_or_default()
            )));
        }
        if api_version.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'apiVersion' is missing in '{}'",
                serde_json::to_string(map).unwrap_or_default()
            )));
        }
    }
    if !api_version.is_empty() && api_version != resource.api_version {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version \
             ({})",
            resource.api_version
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: no kind {kind:?} is registered for \
             version {:?}",
            resource.version, resource.kind, resource.api_version,
        )));
    }
    map.insert("apiVersion".into(), resource.api_version.clone().into());
    map.insert("kind".into(), resource.kind.clone().into());
    Ok(())
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The beginning of a body as hexadecimal, the way Go prints bytes.
fn go_bytes(value: &Value) -> String {
    let text = value.to_string();
    text.bytes().take(32).map(|b| format!("{b:x}")).collect()
}
