//! Label and field selectors, as query parameters and as `LabelSelector` objects write them.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    error::{FieldError, aggregate},
    names::{is_label_value, is_qualified_name},
    path::Path,
    text::go_quote,
};

mod parser;

/// Why a selector cannot be read; the text is the message of the 400 answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// How a requirement compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `key=value`
    Equals,
    /// `key==value`
    DoubleEquals,
    /// `key!=value`; holds where the key is absent.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; holds where the key is absent.
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// What it is compared with.
    pub values: Vec<String>,
}

/// Conditions on labels, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// Sorted by key.
    pub requirements: Vec<Requirement>,
    /// Set for the selector that no object matches.
    nothing: bool,
}

impl LabelSelector {
    /// Reads the `labelSelector` parameter; empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = parser::parse(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { requirements: vec![], nothing: true }
    }

    /// Reads a `metav1.LabelSelector`; null selects nothing, an empty object everything.
    pub fn from_object(selector: &Value) -> Result<Self, SelectorError> {
        let Some(selector) = selector.as_object() else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(Requirement::new(key, Operator::Equals, values)?);
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let text = |field: &str| expression[field].as_str().unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let other = go_quote(other);
                    return Err(SelectorError(format!(
                        "{other} is not a valid label selector operator"
                    )));
                }
            };
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// A selector of exactly these labels (`spec.selector` of a Service); none selects everything.
    pub fn from_labels(labels: &Map<String, Value>) -> Self {
        let requirements = labels.iter().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        });
        Self { requirements: requirements.collect(), nothing: false }
    }

    /// Whether every object matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Map<String, Value>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }

    /// As [`LabelSelector::matches`], for a whole object, whose labels may be absent.
    pub fn matches_object(&self, object: &Value) -> bool {
        match object["metadata"]["labels"].as_object() {
            Some(labels) => self.matches(labels),
            None => self.matches(&Map::new()),
        }
    }
}

impl Requirement {
    /// A requirement whose key and values are well-formed.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        if let Some(error) = check_key(key, &Path::new("key")) {
            errors.push(error);
        }
        let path = Path::new("values");
        let wrong = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals
                if values.len() != 1 =>
            {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        if let Some(detail) = wrong {
            errors.push(FieldError::invalid(&path, values.clone(), detail));
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (i, value) in values.iter().enumerate() {
                if parse_int(value).is_none() {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(FieldError::invalid(path.index(i), value.as_str(), detail));
                }
            }
        }
        for (i, value) in values.iter().enumerate() {
            let messages = is_label_value(value);
            if !messages.is_empty() {
                let field = path.index(i).key(key);
                errors.push(FieldError::invalid(field, value.as_str(), messages.join("; ")));
            }
        }
        match errors.is_empty() {
            true => Ok(Self { key: key.to_owned(), operator, values }),
            false => Err(SelectorError(aggregate(&errors))),
        }
    }

    /// Whether the labels meet this requirement.
    pub fn matches(&self, labels: &Map<String, Value>) -> bool {
        let label = labels.get(&self.key).map(|value| value.as_str().unwrap_or_default());
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let bound = self.values.first().and_then(|value| parse_int(value));
                match (label.and_then(parse_int), bound) {
                    (Some(label), Some(bound)) if self.operator == Operator::GreaterThan => {
                        label > bound
                    }
                    (Some(label), Some(bound)) => label < bound,
                    _ => false,
                }
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// How a term of a field selector compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOperator {
    /// `path=value` or `path==value`
    Equals,
    /// `path!=value`
    NotEquals,
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field: `metadata.name`.
    pub path: String,
    /// The comparison.
    pub operator: FieldOperator,
    /// What it is compared with.
    pub value: String,
}

/// Conditions on fields, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// In the order in which their texts sort.
    pub terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Reads the `fieldSelector` parameter; empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((path, operator, value)) = split_term(part) else {
                let message = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(SelectorError(message));
            };
            terms.push(FieldTerm { path: path.to_owned(), operator, value: unescape(value)? });
        }
        Ok(Self { terms })
    }

    /// Whether every object matches.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the terms hold, `field` giving the text of a field (empty where it is absent).
    pub fn matches<'v>(&self, mut field: impl FnMut(&str) -> std::borrow::Cow<'v, str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = field(&term.path) == term.value;
            equal == (term.operator == FieldOperator::Equals)
        })
    }

    /// The value that `path` must have, if the selector says so.
    pub fn exact(&self, path: &str) -> Option<&str> {
        let mut terms = self.terms.iter();
        terms
            .find(|term| term.path == path && term.operator == FieldOperator::Equals)
            .map(|term| term.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            let operator = if term.operator == FieldOperator::Equals { "=" } else { "!=" };
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{}{operator}{value}", term.path)?;
        }
        Ok(())
    }
}

/// Parts between commas, backslashes kept, so that an escaped comma does not end one.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == ',' {
            parts.push(&text[start..i]);
            start = i + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    use FieldOperator::{Equals, NotEquals};
    for (i, _) in term.char_indices() {
        for (text, operator) in [("!=", NotEquals), ("==", Equals), ("=", Equals)] {
            if let Some(value) = term[i..].strip_prefix(text) {
                return Some((&term[..i], operator, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let invalid = |text: String| Err(SelectorError(format!("invalid field selector: {text}")));
    let (mut out, mut escaped) = (String::with_capacity(value.len()), false);
    for c in value.chars() {
        match (escaped, c) {
            (true, '\\' | ',' | '=') => {
                out.push(c);
                escaped = false;
            }
            (true, _) => return invalid(format!("invalid escape sequence: \\{c}")),
            (false, '\\') => escaped = true,
            (false, ',' | '=') => {
                return invalid(format!("unescaped character in value: {}", c as u32));
            }
            (false, _) => out.push(c),
        }
    }
    if escaped {
        return invalid("invalid escape sequence: \\".into());
    }
    Ok(out)
}

fn check_key(key: &str, path: &Path) -> Option<FieldError> {
    let messages = is_qualified_name(key);
    (!messages.is_empty()).then(|| FieldError::invalid(path, key, messages.join("; ")))
}

/// A decimal integer with an optional sign.
fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_matches() {
        let labels = json!({"a": "b", "n": "5", "empty": ""});
        let labels = labels.as_object().unwrap();
        let cases = [
            ("", true),
            ("a=b", true),
            ("a==c", false),
            ("a!=c", true),
            ("zz!=c", true),
            ("a in (x, b)", true),
            ("a notin (x,b)", false),
            ("zz notin (x)", true),
            ("a,n", true),
            ("!a", false),
            ("!zz", true),
            ("n>4", true),
            ("n<5", false),
            ("a>4", false),
            ("zz>4", false),
            ("empty=", true),
            ("empty in ()", true),
            ("a=b,n=6", false),
        ];
        for (text, wanted) in cases {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(labels), wanted, "{text}");
        }
    }

    #[test]
    fn selector_objects() {
        let labels = json!({"a": "b", "c": "d"});
        let labels = labels.as_object().unwrap();
        let cases = [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"a": "b"}}), true),
            (json!({"matchLabels": {"a": "c"}}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}), true),
            (json!({"matchExpressions": [{"key": "z", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}), true),
            (
                json!({"matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}]}),
                false,
            ),
        ];
        for (object, wanted) in cases {
            let selector = LabelSelector::from_object(&object).unwrap();
            assert_eq!(selector.matches(labels), wanted, "{object}");
        }
        let refused = |object: Value| LabelSelector::from_object(&object).unwrap_err().0;
        assert_eq!(
            refused(json!({"matchExpressions": [{"key": "a", "operator": "Is"}]})),
            "\"Is\" is not a valid label selector operator"
        );
        assert_eq!(
            refused(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
    }

    #[test]
    fn fields() {
        let selector = FieldSelector::parse("metadata.name!=a,spec.x==b\\,c").unwrap();
        assert_eq!(selector.to_string(), "metadata.name!=a,spec.x=b\\,c");
        assert_eq!(selector.exact("spec.x"), Some("b,c"));
        assert_eq!(selector.exact("metadata.name"), None);
        let matches = |name: &str, x: &str| {
            selector.matches(|path| {
                std::borrow::Cow::Owned(if path == "spec.x" { x } else { name }.to_owned())
            })
        };
        assert!(matches("b", "b,c"));
        assert!(!matches("a", "b,c"));
        assert!(!matches("b", ""));
        assert!(FieldSelector::parse("").unwrap().is_empty());
    }

    #[test]
    fn prints_sorted() {
        let text = "z in (b,a),!y,x=1,w";
        assert_eq!(LabelSelector::parse(text).unwrap().to_string(), "w,x=1,!y,z in (a,b)");
    }
}
