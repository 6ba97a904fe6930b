//! From a request's body to an object of the resource: what it is, whether it fits, and what is
//! said when it does not.

use serde_json::Value;
use sutler_schema::error::FieldError;

use super::Ctx;
use crate::{
    negotiate::{self, Decoded},
    object,
    options::WriteOptions,
    registry::Resource,
    status::{ApiError, GroupResource},
    strategy::{self, FieldValidation},
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
    let decoded = match (media.as_str(), resource.builtin()) {
        ("application/vnd.kubernetes.protobuf", Some(kind)) => from_protobuf(resource, kind, body),
        // Where the stored form is another one, the sent form is what is judged.
        (media, Some(kind)) if negotiate::is_json(media) => {
            let read = match resource.converted {
                true => negotiate::from_json_of(&kind.node(), body),
                false => negotiate::from_json_of(&resource.node, body),
            };
            read.map_err(|error| unread(resource, error, unrecognized))
        }
        _ => negotiate::decode_object(ctx.headers, body)
            .map_err(|error| unread(resource, error, unrecognized)),
    };
    let Decoded { mut value, findings, unknown_told } = decoded?;
    // A built-in kind's body that says nothing says nothing wrong.
    if value.is_null() && resource.builtin().is_some() {
        value = Value::Object(serde_json::Map::new());
    }
    check_type(ctx, resource, options, &mut value, body)?;
    let anew = resets_owners(&value);
    shape_told(ctx, resource, options, &mut value, findings, unknown_told).map_err(|error| {
        if error.code == 400 && !error.message.contains(" cannot be handled as a ") {
            return handled_as(resource, &resource.version, &resource.kind, &error.message);
        }
        error
    })?;
    if anew && resource.builtin().is_some() {
        object::set_meta(&mut value, "managedFields", Some(Value::Array(Vec::new())));
    }
    Ok(if resource.converted { sutler_builtin::event_from_v1(value) } else { value })
}

/// Whether owners are to be forgotten: an empty list says so, and is lost with other empty values.
fn resets_owners(value: &Value) -> bool {
    let given = value.pointer("/metadata/managedFields").and_then(Value::as_array);
    given.is_some_and(Vec::is_empty)
}

/// What is said of a body that cannot be read.
fn unread(
    resource: &Resource,
    error: ApiError,
    unrecognized: impl Fn(&ApiError) -> ApiError,
) -> ApiError {
    if error.code != 400 {
        return error;
    }
    // A number beyond all bounds is found when the rest has been understood.
    if error.message.starts_with("json: cannot unmarshal number") {
        return handled_as(resource, &resource.version, &resource.kind, &error.message);
    }
    unrecognized(&error)
}

fn from_protobuf(
    resource: &Resource,
    kind: &sutler_builtin::Kind,
    body: &[u8],
) -> Result<Decoded, ApiError> {
    use sutler_builtin::ProtobufError;
    let last = |api_version: &str| api_version.rsplit('/').next().unwrap_or_default().to_owned();
    match sutler_builtin::decode_protobuf(body, Some(kind)) {
        Ok(value) => Ok(Decoded { value, findings: Vec::new(), unknown_told: false }),
        Err(ProtobufError::UnknownKind { api_version, kind }) => {
            let why = not_registered(&api_version, &kind);
            Err(handled_as(resource, &last(&api_version), &kind, &why))
        }
        Err(ProtobufError::Unfit { api_version, kind, why }) => {
            Err(handled_as(resource, &last(&api_version), &kind, &why))
        }
        Err(error) => Err(unrecognized(resource, &error.to_string(), body)),
    }
}

/// Shapes an object and judges what did not fit.
pub(crate) fn shape(
    ctx: &Ctx<'_>,
    resource: &Resource,
    options: &WriteOptions,
    value: &mut Value,
    findings: Vec<String>,
) -> Result<(), ApiError> {
    shape_told(ctx, resource, options, value, findings, false)
}

/// As [`shape`], where `told` says that the unknown fields are among the findings already.
fn shape_told(
    ctx: &Ctx<'_>,
    resource: &Resource,
    options: &WriteOptions,
    value: &mut Value,
    mut findings: Vec<String>,
    told: bool,
) -> Result<(), ApiError> {
    let unknown = strategy::shape(resource, value, !told)?;
    findings.extend(unknown);
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
    options: &WriteOptions,
    value: &mut Value,
    body: &[u8],
) -> Result<(), ApiError> {
    let unrecognized = |why: &str| Err(unrecognized(resource, why, body));
    if value.is_null() {
        return unrecognized("Object 'Kind' is missing in 'null'");
    }
    let untyped = no_type(value);
    let Some(map) = value.as_object_mut() else { return unrecognized(&untyped) };
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
            warn_of_other_version(ctx, resource, options, map);
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API \
                 version ({})",
                resource.api_version
            )));
        }
        // An update is told that later, after what its version says.
        if kind != resource.kind && ctx.info.verb == "create" {
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

/// What is said of a body that is no object, and so has no type.
pub(crate) fn no_type(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of \
         type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }}",
        json_type(value),
    )
}

/// A version that is not served has no schema, and so no field but those of every object.
pub(crate) fn warn_of_other_version(
    ctx: &Ctx<'_>,
    resource: &Resource,
    options: &WriteOptions,
    map: &serde_json::Map<String, Value>,
) {
    let version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if options.validation == FieldValidation::Warn && group == resource.group {
        let known = |key: &&String| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
        ctx.warn(map.keys().filter(known).map(|key| format!("unknown field {key:?}")));
    }
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
    let wanted = (go_package(&resource.group), resource.kind.as_str());
    let why = why_another(ctx, wanted, api_version, kind);
    handled_as(resource, api_version.rsplit('/').next().unwrap_or_default(), kind, &why)
}

/// Why a built-in kind is none that is wanted, which has a Go package and a name.
pub(crate) fn why_another(
    ctx: &Ctx<'_>,
    (package, wanted): (&str, &str),
    api_version: &str,
    kind: &str,
) -> String {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let single = kind.strip_suffix("List").unwrap_or(kind);
    let known =
        ctx.inner.registry.find_kind(api_version, single).is_some_and(|r| r.builtin().is_some())
            || (api_version == "v1" && kind == "List");
    if known {
        format!("converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion")
    } else {
        not_registered(api_version, kind)
    }
}

/// Where the real server keeps the types of a group.
pub(crate) fn go_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    }
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
