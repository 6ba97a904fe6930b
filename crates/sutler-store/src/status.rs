//! Refusals as Kubernetes clients know them: `Status` objects with the codes, reasons, messages
//! and causes of the real API server.

use http::StatusCode;
use serde_json::{Map, Value, json};
use sutler_schema::error::FieldError;

use crate::auth::gofmt::quote;

/// A request that was refused or failed, on its way to a `Status` body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason; empty where the real server gives none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// Name, group, kind, uid, causes, retryAfterSeconds.
    pub details: Option<Value>,
    /// A token with which an expired list can go on, inconsistently.
    pub continue_token: Option<String>,
}

/// The group and plural name that a refusal is about.
#[derive(Debug, Clone, Copy)]
pub struct GroupResource<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The plural resource name; the kind for `Invalid`.
    pub resource: &'a str,
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group {
            "" => f.write_str(self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl ApiError {
    /// An error with details that name an object.
    fn about(
        code: StatusCode,
        reason: &'static str,
        gr: GroupResource<'_>,
        name: &str,
        message: String,
    ) -> Self {
        let mut details = Map::new();
        put_text(&mut details, "name", name);
        put_text(&mut details, "group", gr.group);
        put_text(&mut details, "kind", gr.resource);
        Self {
            code: code.as_u16(),
            reason,
            message,
            details: Some(Value::Object(details)),
            continue_token: None,
        }
    }

    /// 404: the object is not there.
    pub fn not_found(gr: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{gr} {} not found", quote(name));
        Self::about(StatusCode::NOT_FOUND, "NotFound", gr, name, message)
    }

    /// 409: the name is taken.
    pub fn already_exists(gr: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{gr} \"{name}\" already exists");
        Self::about(StatusCode::CONFLICT, "AlreadyExists", gr, name, message)
    }

    /// 409: the object is not as the request assumed.
    pub fn conflict(gr: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {gr} \"{name}\": {why}");
        Self::about(StatusCode::CONFLICT, "Conflict", gr, name, message)
    }

    /// 409: somebody wrote in between.
    pub fn modified(gr: GroupResource<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(gr, name, why)
    }

    /// 403: understood and refused.
    pub fn forbidden(gr: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{gr} is forbidden: {why}")
        } else {
            format!("{gr} \"{name}\" is forbidden: {why}")
        };
        Self::about(StatusCode::FORBIDDEN, "Forbidden", gr, name, message)
    }

    /// 422: fields are wrong; `gr.resource` is the kind.
    pub fn invalid(gr: GroupResource<'_>, name: &str, errors: &[FieldError]) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            // The real server joins distinct texts only.
            many => {
                let mut seen = std::collections::BTreeSet::new();
                let distinct: Vec<&str> =
                    many.iter().filter(|t| seen.insert(*t)).map(String::as_str).collect();
                match distinct.as_slice() {
                    [one] => (*one).to_owned(),
                    distinct => format!("[{}]", distinct.join(", ")),
                }
            }
        };
        let message = format!("{gr} \"{name}\" is invalid: {list}");
        let mut error = Self::about(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", gr, name, message);
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.reason(), "message": e.body(), "field": e.field}))
            .collect();
        if let Some(Value::Object(details)) = &mut error.details
            && !causes.is_empty()
        {
            details.insert("causes".into(), Value::Array(causes));
        }
        error
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401: who is asking is not known.
    pub fn unauthorized() -> Self {
        Self::plain(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 405: the resource has no such verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::plain(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        error.details = Some(json!({}));
        error
    }

    /// 406: the answer cannot be given in the form that was asked for.
    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::plain(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 415: the body's form is not understood.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {accepted}"
        );
        Self::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 413: the body is over the limit.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::plain(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 410: the version or the continue token is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::plain(StatusCode::GONE, "Expired", message)
    }

    /// 504: the version that was asked for is not there yet.
    pub fn version_too_large(asked: u64, newest: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {newest}");
        let mut error = Self::plain(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message);
        error.details = Some(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1
        }));
        error.message = format!("Timeout: {message}");
        error
    }

    /// 429: not now; `causes` say why.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u64, causes: Value) -> Self {
        let mut error = Self::plain(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        let mut details = json!({});
        if causes.as_array().is_some_and(|c| !c.is_empty()) {
            details["causes"] = causes;
        }
        if retry_after > 0 {
            details["retryAfterSeconds"] = retry_after.into();
        }
        error.details = Some(details);
        error
    }

    /// 422 for a patch that fits the form and not the object.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::plain(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// 500: our fault or the disk's.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        let mut error = Self::plain(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message);
        error.details = Some(json!({"causes": [{"message": message
            .trim_start_matches("Internal error occurred: ")}]}));
        error
    }

    /// 503: the store cannot be used now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::plain(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// An error without details.
    pub fn plain(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: code.as_u16(),
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    /// Adds a cause to the details.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        let mut cause = Map::new();
        put_text(&mut cause, "reason", reason);
        put_text(&mut cause, "message", message);
        put_text(&mut cause, "field", field);
        match details.get_mut("causes").and_then(Value::as_array_mut) {
            Some(causes) => causes.push(Value::Object(cause)),
            None => details["causes"] = Value::Array(vec![Value::Object(cause)]),
        }
        self
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.clone().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }

    /// How long a client should wait before it tries again.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }
}

impl From<sutler_kv::engine::Error> for ApiError {
    fn from(error: sutler_kv::engine::Error) -> Self {
        use sutler_kv::engine::Error;
        match error {
            Error::Compacted { .. } => Self::expired(
                "The provided continue parameter is too old to display a consistent \
                               list result.",
            ),
            Error::Unavailable(why) => {
                Self::unavailable(format!("the store is unavailable: {why}"))
            }
            // Every writer handles its own conflicts; one that gets here is a bug.
            error @ (Error::Conflict { .. } | Error::Corrupt(_)) => Self::internal(error),
        }
    }
}

fn put_text(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.into(), text.into());
    }
}
