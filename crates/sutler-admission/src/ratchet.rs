//! What speaks against an object, less what did not change.

use serde_json::Value;
use sutler_scale::world::MalformedError;

use crate::{Refusal, Warnings};

/// Everything that was found in an object.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Warnings,
}

/// One thing that speaks against an object.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    refusal: Refusal,
    /// The fields that it comes from: it counts only where one of them has changed.
    about: Vec<Vec<String>>,
}

impl Problem {
    /// A problem of a field, which counts when the field, or what it is part of right below `spec`,
    /// changes.
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        let refusal = Refusal { field: field.to_owned(), message: message.into() };
        Self { refusal, about: vec![segments(field).take(2).collect()] }
    }

    /// A problem of an annotation.
    pub(crate) fn of_annotation(key: &str, message: impl Into<String>) -> Self {
        let field = format!("metadata.annotations[{key}]");
        let about = vec!["metadata".to_owned(), "annotations".to_owned(), key.to_owned()];
        Self { refusal: Refusal { field, message: message.into() }, about: vec![about] }
    }

    /// One that comes from these fields alone.
    pub(crate) fn about(mut self, fields: &[&str]) -> Self {
        self.about = fields.iter().map(|field| segments(field).collect()).collect();
        self
    }

    pub(crate) fn into_refusal(self) -> Refusal {
        self.refusal
    }

    fn is_news(&self, old: &Value, new: &Value) -> bool {
        self.about.iter().any(|path| at(old, path) != at(new, path))
    }
}

impl From<MalformedError> for Problem {
    fn from(error: MalformedError) -> Self {
        Self::new(&error.field, error.problem)
    }
}

impl From<Problem> for Findings {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem], warnings: Warnings::new() }
    }
}

impl Findings {
    /// What is said to a write that leaves `new` in the place of `old`.
    pub(crate) fn verdict(
        self,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<Warnings, Vec<Refusal>> {
        let counts = |problem: &Problem| old.is_none_or(|old| problem.is_news(old, new));
        let refusals: Vec<Refusal> =
            self.problems.into_iter().filter(counts).map(Problem::into_refusal).collect();
        if refusals.is_empty() { Ok(self.warnings) } else { Err(refusals) }
    }
}

/// The names in a path such as `spec.taints[0].effect`.
fn segments(field: &str) -> impl Iterator<Item = String> + '_ {
    field.split(['.', '[']).map(|part| part.trim_end_matches(']').to_owned())
}

/// What is at a path; what is absent is as good as null.
fn at<'a>(value: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(value, |value, key| value.get(key).unwrap_or(&Value::Null))
}
