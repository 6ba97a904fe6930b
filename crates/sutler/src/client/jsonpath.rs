//! The part of JSONPath that selects values: `{.status.phase}`,
//! `{.status.conditions[?(@.type=="Ready")].status}`, `{.spec.disks[*].name}`.

use serde_json::Value;

/// A path into an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    Deep(String),
    Filter { path: Box<JsonPath>, test: Option<(Comparison, Value)> },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The text is no path.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is no JSONPath: {message}")]
pub(crate) struct Error {
    text: String,
    message: String,
}

impl JsonPath {
    /// Reads a path, with or without braces and leading dot.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let refuse = |message: &str| Error { text: text.to_owned(), message: message.to_owned() };
        let mut inner = text.trim();
        if let Some(rest) = inner.strip_prefix('{') {
            inner = rest.strip_suffix('}').ok_or_else(|| refuse("the brace is not closed"))?;
        }
        let inner = inner.trim().trim_start_matches(['$', '@']);
        parse_steps(inner).map(Self).map_err(|message| refuse(&message))
    }

    /// All values that the path leads to, in order.
    pub(crate) fn select<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.select(value)).collect();
        }
        found
    }

    /// The values as text: strings bare, everything else as JSON, joined by spaces.
    pub(crate) fn text(&self, root: &Value) -> String {
        self.select(root).into_iter().map(plain).collect::<Vec<_>>().join(" ")
    }
}

/// A string bare, everything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Text with paths in braces, for `-o jsonpath=…`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Path(JsonPath),
}

impl Template {
    /// Reads a template.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if !text.contains('{') {
            return Ok(Self(vec![Piece::Path(JsonPath::parse(text)?)]));
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let refuse =
                |message: &str| Error { text: text.to_owned(), message: message.to_owned() };
            let end = closing(after).ok_or_else(|| refuse("a brace is not closed"))?;
            let inner = after[..end].trim();
            rest = &after[end + 1..];
            if inner.starts_with('"') {
                let literal = serde_json::from_str::<String>(inner)
                    .map_err(|e| refuse(&format!("{inner} is no text: {e}")))?;
                pieces.push(Piece::Text(literal));
            } else if inner.starts_with("range") || inner == "end" {
                return Err(refuse("range is not supported; use [*], or -o json with jq"));
            } else {
                pieces.push(Piece::Path(JsonPath::parse(inner)?));
            }
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Fills the template in.
    pub(crate) fn render(&self, root: &Value) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Path(path) => path.text(root),
            })
            .collect()
    }
}

impl Step {
    fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                items.get(clamp(*index, items.len())).into_iter().collect()
            }
            Self::Slice(from, to) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                let from = from.map_or(0, |i| clamp(i, items.len())).min(items.len());
                let to = to.map_or(items.len(), |i| clamp(i, items.len())).min(items.len());
                items.get(from..to).into_iter().flatten().collect()
            }
            Self::All => children(value),
            Self::Deep(name) => {
                let mut found = Vec::new();
                descend(value, name, &mut found);
                found
            }
            Self::Filter { path, test } => children(value)
                .into_iter()
                .filter(|item| {
                    let found = path.select(item);
                    match test {
                        None => !found.is_empty(),
                        Some((comparison, want)) => {
                            found.into_iter().any(|have| comparison.holds(have, want))
                        }
                    }
                })
                .collect(),
        }
    }
}

impl Comparison {
    fn holds(self, have: &Value, want: &Value) -> bool {
        let order = match (have.as_f64(), want.as_f64()) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => Some(plain(have).cmp(&plain(want))),
        };
        let Some(order) = order else { return false };
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

fn clamp(index: i64, len: usize) -> usize {
    let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    match index {
        i if i < 0 => len.checked_sub(from_end).unwrap_or(usize::MAX),
        _ => from_end,
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, name: &str, into: &mut Vec<&'a Value>) {
    if let Some(found) = value.get(name) {
        into.push(found);
    }
    for child in children(value) {
        descend(child, name, into);
    }
}

fn parse_steps(mut rest: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    // A bare first word is a field too.
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        let (name, after) = take_name(rest);
        steps.push(Step::Field(name));
        rest = after;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            let (name, after) = take_name(after);
            if name.is_empty() {
                return Err("a name must follow `..`".into());
            }
            steps.push(Step::Deep(name));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let (name, after) = take_name(after);
            match name.as_str() {
                "" if after.is_empty() && steps.is_empty() => {}
                "" if after.starts_with('[') => {}
                "" => return Err("a name must follow the dot".into()),
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(name)),
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = closing_bracket(after).ok_or("a bracket is not closed")?;
            steps.push(parse_bracket(after[..end].trim())?);
            rest = &after[end + 1..];
        } else {
            return Err(format!("{rest:?} does not begin with a dot or a bracket"));
        }
    }
    Ok(steps)
}

/// A field name; a backslash takes the next character as it is.
fn take_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

fn parse_bracket(inner: &str) -> Result<Step, String> {
    if inner == "*" {
        return Ok(Step::All);
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return parse_filter(filter.trim());
    }
    if let Some(quoted) = unquote(inner) {
        return Ok(Step::Field(quoted));
    }
    let number = |text: &str| {
        text.trim().parse::<i64>().map_err(|_| format!("{text:?} in brackets is no number"))
    };
    if let Some((from, to)) = inner.split_once(':') {
        let bound = |text: &str| match text.trim() {
            "" => Ok(None),
            text => number(text).map(Some),
        };
        return Ok(Step::Slice(bound(from)?, bound(to)?));
    }
    number(inner).map(Step::Index)
}

fn parse_filter(filter: &str) -> Result<Step, String> {
    const SIGNS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let path = |text: &str| {
        let text = text.trim();
        let inner = text.strip_prefix('@').ok_or(format!("{text:?} must begin with @"))?;
        Ok::<_, String>(Box::new(JsonPath(parse_steps(inner)?)))
    };
    let first = SIGNS
        .iter()
        .filter_map(|(sign, comparison)| filter.find(sign).map(|at| (at, *sign, *comparison)))
        .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
    let Some((at, sign, comparison)) = first else {
        return Ok(Step::Filter { path: path(filter)?, test: None });
    };
    let literal = filter[at + sign.len()..].trim();
    let want = match unquote(literal) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(literal)
            .map_err(|_| format!("{literal:?} must be a number, a boolean or a quoted text"))?,
    };
    Ok(Step::Filter { path: path(&filter[..at])?, test: Some((comparison, want)) })
}

fn unquote(text: &str) -> Option<String> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) {
            return Some(inner.to_owned());
        }
    }
    None
}

/// Where the brace that was opened before this text is closed, quotes respected.
fn closing(text: &str) -> Option<usize> {
    find_unquoted(text, '}')
}

fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn find_unquoted(text: &str, wanted: char) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c == wanted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Value {
        json!({"metadata": {"name": "web", "annotations": {"a.b/c": "x"}},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
            "spec": {"disks": [{"size": 1}, {"size": 5}, {"size": 9}]}})
    }

    #[test]
    fn paths_lead_to_values() {
        for (path, want) in [
            ("{.status.phase}", "Running"),
            (".status.phase", "Running"),
            ("status.phase", "Running"),
            ("{.status.conditions[?(@.type==\"Ready\")].status}", "True"),
            ("{.status.conditions[?(@.type != 'Ready')].type}", "Synced"),
            ("{.spec.disks[*].size}", "1 5 9"),
            ("{.spec.disks[0].size}", "1"),
            ("{.spec.disks[-1].size}", "9"),
            ("{.spec.disks[1:].size}", "5 9"),
            ("{.spec.disks[?(@.size>=5)].size}", "5 9"),
            ("{..size}", "1 5 9"),
            ("{.metadata.annotations['a.b/c']}", "x"),
            (r"{.metadata.annotations.a\.b/c}", "x"),
            ("{.nothing.here}", ""),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().text(&sample()), want, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in ["{.a", "{.a[}", "{.a[x]}", "{.a..}", "{.a[?(type==1)]}", "{.a.[0].}"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn templates_mix_text_and_paths() {
        let template = Template::parse("{.metadata.name}: {.status.phase}{\"\\n\"}").unwrap();
        assert_eq!(template.render(&sample()), "web: Running\n");
        assert!(Template::parse("{range .items[*]}x{end}").is_err());
        assert!(Template::parse("{.a").is_err());
    }
}
