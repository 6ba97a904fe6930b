//! Field errors: one cause of a `422 Invalid` answer, worded as the Kubernetes API words it.

use std::fmt;

use serde_json::Value;

use crate::text::{go_json, go_quote, go_scalar};

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A value that the field refers to does not exist.
    NotFound,
    /// The field must be set.
    Required,
    /// The value is already there and must be unique.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value is not one of the admitted ones.
    NotSupported,
    /// The value is well-formed but not permitted here.
    Forbidden,
    /// The value is too long; it is not repeated in the message.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// The fault is not in the input.
    Internal,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The value is too short; it is not repeated in the message.
    TooShort,
}

impl FieldErrorKind {
    /// The `reason` of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooShort => "FieldValueTooShort",
        }
    }

    /// The kind of a cause reason that a CEL rule may name; `None` for any other text.
    pub fn of_rule_reason(reason: &str) -> Option<Self> {
        match reason {
            "FieldValueRequired" => Some(Self::Required),
            "FieldValueInvalid" => Some(Self::Invalid),
            "FieldValueForbidden" => Some(Self::Forbidden),
            "FieldValueDuplicate" => Some(Self::Duplicate),
            _ => None,
        }
    }

    /// The words with which the message starts.
    fn lead(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
            Self::TooShort => "Too short",
        }
    }

    fn shows_value(self) -> bool {
        match self {
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal => {
                false
            }
            Self::Invalid
            | Self::TypeInvalid
            | Self::NotSupported
            | Self::NotFound
            | Self::Duplicate
            | Self::TooMany
            | Self::TooFew => true,
        }
    }
}

/// One fault of one field. `Display` gives `field: body`.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub kind: FieldErrorKind,
    /// Where, as a [`crate::path::Path`] prints it.
    pub field: String,
    /// The value at fault; `None` leaves it out of the message.
    pub bad_value: Option<Value>,
    /// What would be right.
    pub detail: String,
}

impl FieldError {
    /// A fault of any kind.
    pub fn new(
        kind: FieldErrorKind,
        field: impl ToString,
        bad_value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        let (field, detail) = (field.to_string(), detail.into());
        Self { kind, field, bad_value: Some(bad_value.into()), detail }
    }

    /// A malformed value.
    pub fn invalid(
        field: impl ToString,
        bad_value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::Invalid, field, bad_value, detail)
    }

    /// A malformed value whose JSON text is given, for objects whose fields the API prints in
    /// declaration order and not sorted.
    pub fn invalid_json(field: impl ToString, json: &str, detail: &str) -> Self {
        let detail = format!("{json}: {detail}");
        Self { kind: FieldErrorKind::Invalid, field: field.to_string(), bad_value: None, detail }
    }

    /// A value of the wrong JSON type.
    pub fn type_invalid(
        field: impl ToString,
        bad_value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, field, bad_value, detail)
    }

    /// A field that must be set.
    pub fn required(field: impl ToString, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, "", detail)
    }

    /// A value that is there twice.
    pub fn duplicate(field: impl ToString, bad_value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, bad_value, "")
    }

    /// A reference to nothing.
    pub fn not_found(field: impl ToString, bad_value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, field, bad_value, "")
    }

    /// A value that is not permitted here.
    pub fn forbidden(field: impl ToString, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, "", detail)
    }

    /// A value outside an enumeration.
    pub fn not_supported<S: AsRef<str>>(
        field: impl ToString,
        bad_value: impl Into<Value>,
        supported: &[S],
    ) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| go_quote(value.as_ref())).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        Self::new(FieldErrorKind::NotSupported, field, bad_value, detail)
    }

    /// More bytes than `max`.
    pub fn too_long(field: impl ToString, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self::new(FieldErrorKind::TooLong, field, "<value omitted>", detail)
    }

    /// More characters than `max`.
    pub fn too_long_characters(field: impl ToString, max: usize) -> Self {
        let unit = if max == 1 { "character" } else { "characters" };
        let detail = format!("may not be more than {max} {unit}");
        Self::new(FieldErrorKind::TooLong, field, "<value omitted>", detail)
    }

    /// Fewer characters than `min`.
    pub fn too_short(field: impl ToString, bad_value: impl Into<Value>, min: usize) -> Self {
        let unit = if min == 1 { "character" } else { "characters" };
        let detail = format!("must be at least {min} {unit}");
        Self::new(FieldErrorKind::TooShort, field, bad_value, detail)
    }

    /// More items than `max`.
    pub fn too_many(field: impl ToString, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::new(FieldErrorKind::TooMany, field, actual, detail)
    }

    /// Fewer items than `min`.
    pub fn too_few(field: impl ToString, actual: usize, min: usize) -> Self {
        let unit = if min == 1 { "item" } else { "items" };
        let detail = format!("must have at least {min} {unit}");
        Self::new(FieldErrorKind::TooFew, field, actual, detail)
    }

    /// A fault that is not the client's.
    pub fn internal(field: impl ToString, detail: impl Into<String>) -> Self {
        let (field, detail) = (field.to_string(), detail.into());
        Self { kind: FieldErrorKind::Internal, field, bad_value: None, detail }
    }

    /// The `reason` of the Status cause.
    pub fn reason(&self) -> &'static str {
        self.kind.reason()
    }

    /// The `message` of the Status cause: everything but the field.
    pub fn body(&self) -> String {
        let mut text = self.kind.lead().to_owned();
        if let Some(value) = self.bad_value.as_ref().filter(|_| self.kind.shows_value()) {
            text.push_str(": ");
            match value {
                Value::String(string) => text.push_str(&go_quote(string)),
                Value::Number(_) | Value::Bool(_) => text.push_str(&go_scalar(value)),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    text.push_str(&go_json(value));
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// The text of several faults as one message: each distinct one once, in brackets when there
/// are more than one.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    let mut seen = std::collections::BTreeSet::new();
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match texts.len() {
        1 => texts.remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies() {
        let cases = [
            (FieldError::invalid("a", "x", "must be y"), r#"a: Invalid value: "x": must be y"#),
            (FieldError::required("a", ""), "a: Required value"),
            (FieldError::required("a", "why"), "a: Required value: why"),
            (
                FieldError::not_supported("a", "x", &["b", "c"]),
                r#"a: Unsupported value: "x": supported values: "b", "c""#,
            ),
            (FieldError::too_long("a", 63), "a: Too long: may not be more than 63 bytes"),
            (FieldError::too_long("a", 1), "a: Too long: may not be more than 1 byte"),
            (FieldError::too_many("a", 5, 3), "a: Too many: 5: must have at most 3 items"),
            (FieldError::duplicate("a", json!({"b": 1})), r#"a: Duplicate value: {"b":1}"#),
            (FieldError::forbidden("a", "no"), "a: Forbidden: no"),
            (FieldError::invalid("a", 1.0, "x"), "a: Invalid value: 1: x"),
            (FieldError::invalid("a", Value::Null, "x"), "a: Invalid value: null: x"),
            (FieldError::invalid_json("a", "[{}]", "x"), "a: Invalid value: [{}]: x"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn aggregates() {
        let (a, b) = (FieldError::required("a", ""), FieldError::required("b", ""));
        assert_eq!(aggregate(std::slice::from_ref(&a)), "a: Required value");
        assert_eq!(aggregate(&[a.clone(), b, a]), "[a: Required value, b: Required value]");
    }
}
