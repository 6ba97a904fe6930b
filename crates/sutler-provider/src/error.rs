//! Errors of a provider: ten kinds, each with its own way on.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// The result of a provider's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What an error means for what is done next. The kind is the metric label and the reason in
/// conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The request can never work: somebody has to change it.
    Invalid,
    /// The platform does not know us, or does not let us.
    Denied,
    /// What the request names is not there.
    NotFound,
    /// It exists already, is in the wrong state, or belongs to somebody else.
    Conflict,
    /// The platform cannot do this.
    Unsupported,
    /// Capacity or quota is used up.
    Exhausted,
    /// It was not sent, or is known not to have been applied.
    Unavailable,
    /// It was sent and the outcome is not known: look, never send it again blindly.
    Indeterminate,
    /// The platform tried and failed.
    Failed,
    /// An error of ours, or data that makes no sense.
    Internal,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Invalid,
        Self::Denied,
        Self::NotFound,
        Self::Conflict,
        Self::Unsupported,
        Self::Exhausted,
        Self::Unavailable,
        Self::Indeterminate,
        Self::Failed,
        Self::Internal,
    ];

    /// The kind in one stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Denied => "Denied",
            Self::NotFound => "NotFound",
            Self::Conflict => "Conflict",
            Self::Unsupported => "Unsupported",
            Self::Exhausted => "Exhausted",
            Self::Unavailable => "Unavailable",
            Self::Indeterminate => "Indeterminate",
            Self::Failed => "Failed",
            Self::Internal => "Internal",
        }
    }

    /// Whether the same request can be sent again as it is, without looking first.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Unavailable | Self::Exhausted => true,
            Self::Invalid
            | Self::Denied
            | Self::NotFound
            | Self::Conflict
            | Self::Unsupported
            | Self::Indeterminate
            | Self::Failed
            | Self::Internal => false,
        }
    }

    /// What a request that was answered so may have left on the platform.
    pub const fn left(self) -> Left {
        match self {
            Self::Indeterminate | Self::Internal => Left::Unknown,
            Self::Failed => Left::Perhaps,
            Self::Invalid
            | Self::Denied
            | Self::NotFound
            | Self::Conflict
            | Self::Unsupported
            | Self::Exhausted
            | Self::Unavailable => Left::Nothing,
        }
    }

    /// Whether it speaks of the platform's health rather than of the request: only these count for a
    /// breaker.
    pub const fn is_outage(self) -> bool {
        match self {
            Self::Unavailable | Self::Indeterminate | Self::Internal => true,
            Self::Invalid
            | Self::Denied
            | Self::NotFound
            | Self::Conflict
            | Self::Unsupported
            | Self::Exhausted
            | Self::Failed => false,
        }
    }
}

/// What a request that failed has left on the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It did nothing.
    Nothing,
    /// It was tried, and came to its end: something may be left over.
    Perhaps,
    /// Nobody knows, and it may still be at work.
    Unknown,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a call did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    field: Option<String>,
    retry_after: Option<Duration>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind; the message is for people and holds no secret.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None, retry_after: None, source: None }
    }

    /// A request that can never work: `field` is what has to change.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(ErrorKind::Invalid, message) }
    }

    /// What the request names is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The platform was not reached, or did not apply it.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// It was sent, and nobody knows what became of it.
    pub fn indeterminate(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Indeterminate, message)
    }

    /// The platform tried and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// An error of ours, or data that makes no sense.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// It exists, is in the wrong state, or is somebody else's.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// The platform cannot do this.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// The same error with what caused it.
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error with what has to change.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same error with how long the platform wants to be left alone.
    pub fn retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What has to change, where that is known.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// How long the platform wants to be left alone, where it said so.
    pub fn pause(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl Clone for Error {
    /// A copy without the source, which stays with the original for its log line.
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            message: self.message.clone(),
            field: self.field.clone(),
            retry_after: self.retry_after,
            source: None,
        }
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.message == other.message && self.field == other.field
    }
}
