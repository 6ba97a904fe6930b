//! An answer, and checks of it.

use std::panic::Location;
use std::rc::Rc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::{Notes, seen_headers};

/// An answer.
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, where it is JSON; else its text.
    pub body: Value,
    /// The body as it came.
    pub bytes: Bytes,
    pub(super) notes: Rc<Notes>,
}

impl Reply {
    /// Checks the status code.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        if self.status != status {
            let message = self.body["message"].as_str().unwrap_or_default();
            let what = format!("{} in place of {status}: {message}", self.status);
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that it is a refusal with this code and reason.
    #[track_caller]
    pub fn refused(self, status: u16, reason: &str) -> Self {
        self.is(status).has("/reason", reason)
    }

    /// Checks a value in the body.
    #[track_caller]
    pub fn has(self, pointer: &str, wanted: impl Into<Value>) -> Self {
        let wanted = wanted.into();
        let seen = self.at(pointer);
        if *seen != wanted {
            let what = format!("{pointer} is {seen}, and not {wanted}");
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that something is not in the body.
    #[track_caller]
    pub fn lacks(self, pointer: &str) -> Self {
        if let Some(seen) = self.body.pointer(pointer) {
            self.notes.fail(Location::caller(), format!("{pointer} is there: {seen}"));
        }
        self
    }

    /// Checks that something is in the body, whatever its value.
    #[track_caller]
    pub fn shows(self, pointer: &str) -> Self {
        if self.body.pointer(pointer).is_none() {
            self.notes.fail(Location::caller(), format!("{pointer} is not there"));
        }
        self
    }

    /// Checks that the message contains a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let message = self.body["message"].as_str().unwrap_or_default();
        if !message.contains(text) {
            let what = format!("the message lacks {text:?}: {message}");
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that a cause names this field.
    #[track_caller]
    pub fn blames(self, field: &str) -> Self {
        let causes = self.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        if !causes.iter().any(|cause| cause["field"] == field) {
            let fields: Vec<_> = causes.iter().map(|cause| cause["field"].to_string()).collect();
            let what = format!("no cause for {field}, only {}", fields.join(", "));
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that some warning contains a text.
    #[track_caller]
    pub fn warns(self, text: &str) -> Self {
        let warnings = seen_headers(&self.headers);
        if !warnings.iter().any(|(name, value)| name == "warning" && value.contains(text)) {
            let what = format!("no warning says {text:?}: {warnings:?}");
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that it has these items, by name and in this order.
    #[track_caller]
    pub fn items(self, wanted: &[&str]) -> Self {
        let seen = self.names();
        if seen != wanted {
            self.notes.fail(Location::caller(), format!("items {seen:?}, and not {wanted:?}"));
        }
        self
    }

    /// A value in the body, null where it is not there.
    pub fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// A text in the body, empty where it is not there.
    pub fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    /// The object's version.
    pub fn rv(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// The object's UID.
    pub fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    /// The object's name.
    pub fn name(&self) -> String {
        self.text("/metadata/name")
    }

    /// The names of a list's items.
    pub fn names(&self) -> Vec<String> {
        let items = self.body["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|i| i["metadata"]["name"].as_str().unwrap_or_default().into()).collect()
    }

    /// The token for the next page, encoded for a query.
    pub fn next(&self) -> String {
        self.text("/metadata/continue").replace('=', "%3D").replace('+', "%2B")
    }
}
