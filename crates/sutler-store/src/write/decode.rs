//! From a request's body to an object of the resource: what it is, whether it fits, and what is
//! said when it does not.

use serde_json::Value;
use sutler_schema::error::FieldError;

use super::Ctx;
use crate::{
    negotiate::{self, Decoded},
    options::WriteOptions,
    registry::Resource,
    status::{ApiError, GroupResource},
    strategy,
};

/// Decodes the body of a create or update into an object of `resource`, shaped by its type.
pub(crate) fn decode_body(
    ctx: &Ctx<'_>,
    resource: &Resource,
    options: &WriteOptions,
    body: &[u8],
) -> Result<Value, ApiError> {
    let media = negotiate::content_type(ctx.headers);
    let unrecognized = |error: &ApiError| {
        let prefix = match media.as_str() {
            "application/yaml" | "application/vnd.kubernetes.protobuf" => "",
            _ => "couldn't get version/kind; json parse error: ",
        };
        unrecognized(resource, &format!("{prefix}{}", error.message), body)
    };
    let Decoded { mut value, findings } =
        negotiate::decode_object(ctx.headers, body).map_err(|error| match error.code {
            400 => unrecognized(&error),
            _ => error,
        })?;
    // A built-in kind's body that says nothing says nothing wrong.
    if value.is_null() && resource.builtin().is_some() {
        value = Value::Object(serde_json::Map::new());
    }
    check_type(ctx, resource, &mut value, body)?;
    shape(ctx, resource, options, &mut value, findings).map_err(|error| {
        if error.code == 400 && !error.message.contains(" cannot be handled as a ") {
            return handled_as(resource, &resource.version, &resource.kind, &error.message);
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
fn check_type(
    ctx: &Ctx<'_>,
    resource: &Resource,
    value: &mut Value,
    body: &[u8],
) -> Result<(), ApiError> {
    let unrecognized = |why: &str| Err(unrecognized(resource, why, body));
    let Some(map) = value.as_object_mut() else {
        let why = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value \
             of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}",
            json_type(value),
        );
        return unrecognized(&why);
    };
    for key in ["apiVersion", "kind"] {
        if let Some(other) = map.get(key).filter(|v| !v.is_string() && !v.is_null()) {
            return unrecognized(&format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go \
                 struct field .{key} of type string",
                json_type(other),
            ));
        }
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.matches('/').count() > 1 {
        return unrecognized(&format!("unexpected GroupVersion string: {api_version}"));
    }
    if resource.custom().is_some() {
        if kind.is_empty() {
            let json = serde_json::to_string(map).unwrap_or_default();
            return unrecognized(&format!("Object 'Kind' is missing in '{json}'"));
        }
        if api_version != resource.api_version {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API \
                 version ({})",
                resource.api_version
            )));
        }
        if kind != resource.kind {
            let name = map.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str);
            return Err(wrong_kind(resource, &kind, name.unwrap_or_default()));
        }
    } else {
        let (sent_version, sent_kind) = (
            if api_version.is_empty() { &resource.api_version } else { &api_version },
            if kind.is_empty() { &resource.kind } else { &kind },
        );
        if *sent_version != resource.api_version || *sent_kind != resource.kind {
            return Err(mismatch(ctx, resource, sent_version, sent_kind));
        }
        map.insert("apiVersion".into(), resource.api_version.clone().into());
        map.insert("kind".into(), resource.kind.clone().into());
    }
    Ok(())
}

/// A custom kind that was sent to the address of another.
pub(crate) fn wrong_kind(resource: &Resource, kind: &str, name: &str) -> ApiError {
    let error = FieldError::invalid("kind", kind, format!("must be {}", resource.kind));
    let gk = GroupResource { group: &resource.group, resource: kind };
    ApiError::invalid(gk, name, &[error])
}

/// A built-in kind that was sent to the address of another.
pub(crate) fn mismatch(
    ctx: &Ctx<'_>,
    resource: &Resource,
    api_version: &str,
    kind: &str,
) -> ApiError {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let single = kind.strip_suffix("List").unwrap_or(kind);
    let known =
        ctx.inner.registry.find_kind(api_version, single).is_some_and(|r| r.builtin().is_some())
            || (api_version == "v1" && kind == "List");
    let why = if known {
        let package = |group: &str| match group {
            "" | "events.k8s.io" => "core".to_owned(),
            group => group.split('.').next().unwrap_or_default().to_owned(),
        };
        format!(
            "converting ({version}.{kind}) to ({}.{}): unknown conversion",
            package(&resource.group),
            resource.kind
        )
    } else {
        not_registered(api_version, kind)
    };
    handled_as(resource, version, kind, &why)
}

/// What is said of a kind that nobody knows.
pub(crate) fn not_registered(api_version: &str, kind: &str) -> String {
    format!("no kind {kind:?} is registered for version {api_version:?} in scheme \"sutler\"")
}

fn handled_as(resource: &Resource, version: &str, kind: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: {why}",
        resource.kind
    ))
}

fn unrecognized(resource: &Resource, why: &str, body: &[u8]) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        resource.kind,
        summary(body)
    ))
}

/// How much of a body a refusal shows.
const SHOWN: usize = 30;

/// The beginning of a body: as text if it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    let more = if body.len() > SHOWN { " ..." } else { "" };
    let head = &body[..body.len().min(SHOWN)];
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex: String = head.iter().map(|b| format!("{b:02x}")).collect();
            format!("{hex}{more}")
        }
    }
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

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn a_refusal_shows_the_beginning_of_the_body() {
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"{'a': 1}"), "{'a': 1}");
        assert_eq!(summary(b"x\x00"), "7800");
        assert!(summary(&[b'{'; 31]).ends_with(" ..."));
    }
}
