//! Validation of custom resources: schema, embedded resources, list identity and CEL rules.

use std::sync::Arc;

use serde_json::Value;

use self::schema::Schema;
use crate::{
    error::{FieldError, FieldErrorKind},
    node::{Node, SchemaError},
    path::Path,
};

pub(crate) mod correlate;
mod embedded;
pub(crate) mod format;
mod lists;
mod number;
pub(crate) mod pattern;
mod rules;
pub(crate) mod schema;

/// The compiled schema of a kind: regular expressions and CEL programs, shared by all requests.
#[derive(Debug)]
pub struct Validator {
    schema: Schema,
    has_embedded: bool,
}

/// Faults that are found outside the schema. They stand around the faults of the schema in the
/// answer, and some of them keep the CEL rules from being run.
#[derive(Debug, Default)]
pub struct Around {
    /// Of the metadata; they come first.
    pub before: Vec<FieldError>,
    /// Of the scale subresource; they come after those of the schema.
    pub after: Vec<FieldError>,
}

/// What validation found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Faults for which the write is refused; none if it may go on.
    pub errors: Vec<FieldError>,
    /// Broken rules that are tolerated because the value did not change: texts for `Warning`
    /// headers.
    pub warnings: Vec<String>,
}

impl Validator {
    /// Compiles what the schema needs.
    pub fn new(node: Arc<Node>) -> Result<Self, SchemaError> {
        let has_embedded = embedded::anywhere(&node);
        Ok(Self { schema: Schema::compile(&node)?, has_embedded })
    }

    /// The schema.
    pub fn node(&self) -> &Arc<Node> {
        &self.schema.node
    }

    /// What is wrong with `new`, given the stored object `old` on update, in the order of the API.
    pub fn validate(&self, new: &Value, old: Option<&Value>, around: Around) -> Outcome {
        let mut errors = around.before;
        errors.append(&mut self.schema.check(new, old, None));
        errors.extend(around.after);
        if self.has_embedded {
            embedded::check(new, &self.schema.node, &Path::root(), &mut errors);
        }
        self.lists(new, old, &mut errors);
        self.rules(new, old, errors)
    }

    /// As [`Validator::validate`] for a write to the status subresource: only the schema of the
    /// status is checked, but all lists and rules are.
    pub fn validate_status(&self, new: &Value, old: &Value, around: Around) -> Outcome {
        let mut errors = around.before;
        if let (Some(status), Some(schema)) =
            (new.get("status"), self.schema.properties.get("status"))
        {
            errors.append(&mut schema.check(status, old.get("status"), Some("status")));
        }
        errors.extend(around.after);
        self.lists(new, Some(old), &mut errors);
        self.rules(new, Some(old), errors)
    }

    /// Duplicates in sets and list maps, tolerated where the old object has some.
    fn lists(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let (node, root) = (&self.schema.node, Path::root());
        let before = errors.len();
        lists::check(new, node, &root, errors);
        if let Some(old) = old.filter(|_| errors.len() > before) {
            let mut faults = Vec::new();
            lists::check(old, node, &root, &mut faults);
            if !faults.is_empty() {
                errors.truncate(before);
            }
        }
    }

    fn rules(&self, new: &Value, old: Option<&Value>, mut errors: Vec<FieldError>) -> Outcome {
        if !self.schema.has_spine_rules {
            return Outcome { errors, warnings: vec![] };
        }
        if errors.iter().any(|error| blocks_rules(error.kind)) {
            let detail = "some validation rules were not checked because the object was invalid; \
                          correct the existing errors to complete validation";
            errors.push(FieldError::invalid(Path::root(), Value::Null, detail));
            return Outcome { errors, warnings: vec![] };
        }
        let mut findings = rules::check(&self.schema, new, old);
        errors.append(&mut findings.errors);
        Outcome { errors, warnings: findings.warnings }
    }
}

/// What is wrong with `new`, given the stored object `old` on update.
pub fn validate(new: &Value, old: Option<&Value>, validator: &Validator) -> Vec<FieldError> {
    validator.validate(new, old, Around::default()).errors
}

/// Whether CEL rules cannot be trusted on an object with a fault of this kind.
fn blocks_rules(kind: FieldErrorKind) -> bool {
    match kind {
        FieldErrorKind::NotSupported
        | FieldErrorKind::Required
        | FieldErrorKind::TooLong
        | FieldErrorKind::TooMany
        | FieldErrorKind::TypeInvalid => true,
        FieldErrorKind::NotFound
        | FieldErrorKind::Duplicate
        | FieldErrorKind::Invalid
        | FieldErrorKind::Forbidden
        | FieldErrorKind::TooFew
        | FieldErrorKind::Internal
        | FieldErrorKind::TooShort => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Validator>();
    }

    #[test]
    fn hostile_objects_are_bounded() {
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self != 'x'"},
            ]}},
            "set": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
        }});
        let validator = Validator::new(Arc::new(Node::parse(&schema).unwrap())).unwrap();
        let numbers: Vec<i64> = (0..100_000).collect();
        let wrong = json!({"list": numbers});
        assert_eq!(validate(&wrong, None, &validator).len(), schema::MAX_FAULTS + 1);
        // Every item breaks the rule, and each asks whether the whole list is unchanged.
        let broken = json!({"list": vec!["x"; 50_000]});
        let outcome = validator.validate(&broken, Some(&broken), Around::default());
        assert!(outcome.errors.is_empty());
        assert_eq!(outcome.warnings.len(), 50_000);
        let twice: Vec<i64> = numbers.iter().chain(&numbers).copied().collect();
        assert!(validate(&json!({"set": twice}), None, &validator).len() <= schema::MAX_FAULTS);
    }

    #[test]
    fn schemas_that_cannot_be_used() {
        let refused = |schema: Value| {
            Validator::new(Arc::new(Node::parse(&schema).unwrap())).unwrap_err().to_string()
        };
        assert!(
            refused(
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}})
            )
            .starts_with("schema at .a: pattern \"(\" is not a valid regular expression")
        );
        assert!(
            refused(json!({"type": "array", "items": {"type": "string",
                "x-kubernetes-validations": [{"rule": "self +"}]}}))
            .starts_with("schema at []: CEL expression \"self +\" cannot be parsed")
        );
    }
}
