//! Why nothing can be planned from a record as it is.

use std::time::Duration;

use sutler_api::names::reasons;

use crate::fleet::Key;

/// The pause after which something that is missing is looked for again, should no event tell of it.
const MISSING: Duration = Duration::from_secs(300);

/// Why nothing can be planned from the record as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// A stable word.
    pub reason: String,
    /// What is missing or wrong, for people.
    pub message: String,
    /// When to look again; none where only a change can help.
    pub retry: Option<Duration>,
    /// Whether a person has to do something.
    pub failed: bool,
}

impl Blocker {
    /// Something in the record, or in what it refers to, that can never work.
    pub(crate) fn invalid(field: &str, message: &str) -> Self {
        Self::stops(reasons::INVALID, format!("{field}: {message}"))
    }

    /// Something that the platform cannot do.
    pub(crate) fn unsupported(field: &str, message: &str) -> Self {
        Self::stops(reasons::UNSUPPORTED, format!("{field}: {message}"))
    }

    /// A field that nothing is done about yet: nothing is accepted and ignored.
    pub(crate) fn unserved(field: &str) -> Self {
        let message = format!("{field} is not served by this release: remove it");
        Self::stops(reasons::NOT_YET_SERVED, message)
    }

    /// A reference to something that is not there.
    pub(crate) fn missing(kind: &str, field: &str, key: &Key) -> Self {
        let message = format!(
            "{field}: {kind} {} is not in namespace {}: create it, or correct the name",
            key.name, key.namespace
        );
        Self::waits(reasons::REFERENCE_NOT_FOUND, message, MISSING)
    }

    /// Something that only a person can help.
    pub(crate) fn stops(reason: &str, message: String) -> Self {
        Self { reason: reason.to_owned(), message, retry: None, failed: true }
    }

    /// Something that may come by itself, and is looked at again after a pause.
    pub(crate) fn waits(reason: &str, message: String, retry: Duration) -> Self {
        Self { reason: reason.to_owned(), message, retry: Some(retry), failed: false }
    }
}
