//! Messages that make no sense.

use sutler_provider::{Error, ErrorKind};

/// A message that makes no sense: which field, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Malformed {
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

impl Malformed {
    pub(crate) fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }

    pub(crate) fn missing(field: &str) -> Self {
        Self::new(field, "it is missing")
    }

    /// What the sender of a request is told.
    pub(crate) fn into_refusal(self) -> Error {
        Error::invalid(self.field, self.why)
    }

    /// What an answer of this kind means: something may have been changed, or the other side is
    /// broken.
    pub(crate) fn into_answer_error(self, mutating: bool) -> Error {
        let kind = if mutating { ErrorKind::Indeterminate } else { ErrorKind::Internal };
        Error::new(kind, format!("the provider's answer makes no sense: {self}"))
    }
}
