//! The part of kubectl's JSONPath that printer columns and selectable fields use:
//! `.spec.a`, `.status.ips[*]`, `.items[0]`, `.metadata.labels.app\.kubernetes\.io/name`,
//! `.metadata.annotations['x']` and `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where { path: JsonPath, equals: bool, value: Value },
}

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is no JSONPath that is understood here: {reason}")]
pub struct JsonPathError {
    path: String,
    reason: &'static str,
}

impl JsonPath {
    /// Parses a path, with or without the braces of kubectl.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let trimmed = text.trim();
        let inner = trimmed
            .strip_prefix('{')
            .and_then(|t| t.strip_suffix('}'))
            .unwrap_or(trimmed)
            .trim_start_matches('$');
        steps(inner).map(JsonPath).map_err(|reason| JsonPathError { path: text.to_owned(), reason })
    }

    /// All values at the path, in order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                match step {
                    Step::Field(name) => next.extend(value.get(name)),
                    Step::Index(n) => next.extend(index(value, *n)),
                    Step::All => match value {
                        Value::Array(items) => next.extend(items),
                        Value::Object(map) => next.extend(map.values()),
                        _ => {}
                    },
                    Step::Where { path, equals, value: wanted } => {
                        let items = value.as_array().into_iter().flatten();
                        next.extend(items.filter(|item| {
                            path.find(item).first().is_some_and(|v| (*v == wanted) == *equals)
                        }));
                    }
                }
            }
            found = next;
        }
        found
    }

    /// The fields of the path, where it is made of fields alone.
    pub fn fields(&self) -> Option<Vec<String>> {
        self.0
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(name.clone()),
                _ => None,
            })
            .collect()
    }
}

fn index(value: &Value, n: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let at = if n < 0 { items.len() as i64 + n } else { n };
    items.get(usize::try_from(at).ok()?)
}

fn steps(text: &str) -> Result<Vec<Step>, &'static str> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            '.' => {
                rest = &rest[1..];
                if rest.starts_with('.') {
                    return Err("recursive descent is not supported");
                }
                let (name, after) = field(rest);
                if name == "*" {
                    steps.push(Step::All);
                } else if !name.is_empty() {
                    steps.push(Step::Field(name));
                }
                rest = after;
            }
            '[' => {
                let end = closing(rest).ok_or("a bracket is not closed")?;
                steps.push(bracket(&rest[1..end])?);
                rest = &rest[end + 1..];
            }
            _ if steps.is_empty() => {
                let (name, after) = field(rest);
                steps.push(Step::Field(name));
                rest = after;
            }
            _ => return Err("a step begins with '.' or '['"),
        }
    }
    Ok(steps)
}

/// A field name, with `\.` for a dot inside it.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Result<Step, &'static str> {
    let inner = inner.trim();
    if inner == "*" {
        return Ok(Step::All);
    }
    if let Some(name) = unquote(inner) {
        return Ok(Step::Field(name));
    }
    if let Ok(n) = inner.parse() {
        return Ok(Step::Index(n));
    }
    let filter = inner
        .strip_prefix("?(")
        .and_then(|f| f.strip_suffix(')'))
        .ok_or("a bracket holds an index, '*', a quoted name or a filter")?;
    let (left, equals, right) = match (filter.split_once("=="), filter.split_once("!=")) {
        (Some((l, r)), _) => (l, true, r),
        (None, Some((l, r))) => (l, false, r),
        (None, None) => return Err("a filter compares with == or !="),
    };
    let path = left.trim().strip_prefix('@').ok_or("a filter's left side begins with '@'")?;
    let right = right.trim();
    let value = match unquote(right) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(right).map_err(|_| "a filter's right side is no literal")?,
    };
    Ok(Step::Where { path: JsonPath(steps(path)?), equals, value })
}

fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    Some(text.strip_prefix(quote)?.strip_suffix(quote)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_what_printer_columns_ask_for() {
        let object = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "x"}},
            "status": {
                "ips": ["a", "b"],
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "B", "status": "F"}]
            }
        });
        for (path, found) in [
            (".status.ips[*]", json!(["a", "b"])),
            (".status.ips[-1]", json!(["b"])),
            ("{.status.ips[0]}", json!(["a"])),
            (r".metadata.labels.app\.kubernetes\.io/name", json!(["x"])),
            (".metadata.labels['app.kubernetes.io/name']", json!(["x"])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (r#".status.conditions[?(@.type!="Ready")].status"#, json!(["F"])),
            (".status.nothing[3].at.all", json!([])),
        ] {
            let values: Vec<Value> =
                JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(Value::Array(values), found, "{path}");
        }
    }

    #[test]
    fn says_what_it_does_not_understand() {
        for path in ["..a", ".a[", ".a[x]", ".a[?(b==1)]", ".a[?(@.b<1)]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
