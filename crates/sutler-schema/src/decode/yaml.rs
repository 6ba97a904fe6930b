//! The YAML reader: events of the parser, resolved by the rules of YAML 1.1.

use std::collections::HashMap;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span};

use super::{DecodeError, Decoded, MAX_DEPTH};
use crate::{path::push_index, text::go_quote};

/// Bytes of text that aliases may copy: enough for any manifest, not for a bomb.
const MAX_ALIASED_BYTES: usize = 16 << 20;

pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(DecodeError("yaml: invalid leading UTF-8 octet".into()));
    };
    // A tab begins nothing, also where nothing follows it.
    if text.contains('\t') && text.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
        return Err(DecodeError("yaml: found character that cannot start any token".into()));
    }
    let mut reader = Reader {
        parser: Parser::new_from_str_with_options(
            text,
            granit_parser::options! {
                emit_unresolved_aliases: true,
                emit_comments: false,
                // One more than is taken, so that the refusal is the same for all.
                flow_nesting_limit: MAX_DEPTH + 2,
                block_nesting_limit: MAX_DEPTH + 2,
            },
        ),
        anchors: HashMap::new(),
        path: String::new(),
        duplicates: Vec::new(),
        lines: Vec::new(),
        nodes: 0,
        aliased: 0,
        aliased_bytes: 0,
    };
    let value = reader.document()?;
    let mut strict_errors = Vec::new();
    if !reader.lines.is_empty() {
        strict_errors.push(format!("yaml: unmarshal errors:\n  {}", reader.lines.join("\n  ")));
    }
    Ok(Decoded { value, duplicates: reader.duplicates, strict_errors })
}

/// A value, or the mark of a merge key.
enum Node {
    Value(Value),
    Merge,
}

struct Anchor {
    value: Value,
    nodes: usize,
    bytes: usize,
}

struct Reader<'t> {
    parser: Parser<'t, serde_saphyr::granit_parser::StrInput<'t>>,
    anchors: HashMap<usize, Anchor>,
    path: String,
    duplicates: Vec<String>,
    /// What strict decoding says of duplicates, by line.
    lines: Vec<String>,
    nodes: usize,
    /// How many of the nodes are copies.
    aliased: usize,
    aliased_bytes: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), DecodeError> {
        loop {
            match self.parser.next_event() {
                None => return Err(DecodeError("yaml: unexpected end of stream".into())),
                Some(Err(error)) => {
                    let line = error.marker().line();
                    let found = error.info();
                    let fault = fault(&found);
                    // The scanner names no line but the later ones.
                    let scanned = !fault.starts_with("did not find");
                    return Err(DecodeError(match line {
                        ..=1 if scanned => format!("yaml: {fault}"),
                        line => format!("yaml: line {line}: {fault}"),
                    }));
                }
                Some(Ok((event, span))) if is_structure(&event) => return Ok((event, span)),
                Some(Ok(_)) => {}
            }
        }
    }

    /// The first document; what follows it is not read.
    fn document(&mut self) -> Result<Value, DecodeError> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok(Value::Null),
                event => {
                    return Ok(match self.node(event, &span, 0)? {
                        Node::Value(value) => value,
                        Node::Merge => Value::String("<<".into()),
                    });
                }
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<Node, DecodeError> {
        if depth > MAX_DEPTH {
            return Err(at(span, "exceeded max depth"));
        }
        self.nodes += 1;
        let (nodes, bytes) = (self.nodes, span.start.index());
        let anchor = event.anchor_id();
        let value = match event {
            Event::Scalar(text, style, _, tag) => {
                // A tag of one's own makes a text of anything.
                let tag = tag.as_deref().map(|tag| match tag.parts() {
                    ("tag:yaml.org,2002:", suffix) => suffix.to_owned(),
                    _ => "str".to_owned(),
                });
                match scalar(&text, style, tag.as_deref(), span)? {
                    Node::Merge => return Ok(Node::Merge),
                    Node::Value(value) => value,
                }
            }
            Event::SequenceStart(..) => self.sequence(depth)?,
            Event::MappingStart(..) => self.mapping(depth)?,
            Event::Alias(id) => return self.alias(id, span).map(Node::Value),
            Event::UnresolvedAlias(name) => {
                return Err(DecodeError(format!("yaml: unknown anchor '{name}' referenced")));
            }
            _ => return Err(at(span, "did not find expected node content")),
        };
        if let Some(id) = anchor {
            let nodes = self.nodes - nodes + 1;
            let bytes = text_bytes(&value).max(span.end.index().saturating_sub(bytes));
            self.anchors.insert(id, Anchor { value: value.clone(), nodes, bytes });
        }
        Ok(Node::Value(value))
    }

    /// A copy of an anchored value, unless copies make up too much of the document.
    fn alias(&mut self, id: usize, span: &Span) -> Result<Value, DecodeError> {
        let Some(anchor) = self.anchors.get(&id) else {
            return Err(DecodeError("yaml: anchor value contains itself".into()));
        };
        self.nodes += anchor.nodes;
        self.aliased += anchor.nodes;
        self.aliased_bytes = self.aliased_bytes.saturating_add(anchor.bytes);
        let share = self.aliased as f64 / self.nodes as f64;
        let excessive = self.aliased > 100 && self.nodes > 1000 && share > allowed(self.nodes);
        if excessive || self.aliased_bytes > MAX_ALIASED_BYTES {
            return Err(DecodeError("yaml: document contains excessive aliasing".into()));
        }
        // Copies count towards the depth, too.
        if depth_of(&anchor.value) + self.path.matches(['.', '[']).count() > MAX_DEPTH {
            return Err(at(span, "exceeded max depth"));
        }
        Ok(anchor.value.clone())
    }

    /// Why a key cannot be one; a null key is only found out with its value.
    fn bad_key(&mut self, key: &Value) -> DecodeError {
        if !key.is_null() {
            return DecodeError(format!("yaml: invalid map key: {}", go_syntax(key)));
        }
        let value = self.next().and_then(|(event, span)| self.node(event, &span, MAX_DEPTH));
        match value {
            Err(error) => error,
            Ok(value) => {
                let value = match value {
                    Node::Value(value) => go_syntax(&value),
                    Node::Merge => go_quote("<<"),
                };
                DecodeError(format!(
                    "unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"
                ))
            }
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let (mut items, length) = (Vec::new(), self.path.len());
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            push_index(&mut self.path, items.len());
            items.push(match self.node(event, &span, depth + 1)? {
                Node::Value(value) => value,
                Node::Merge => Value::String("<<".into()),
            });
            self.path.truncate(length);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let (mut fields, mut merged, length) = (Map::new(), Vec::new(), self.path.len());
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                for (key, value) in merged {
                    fields.entry(key).or_insert(value);
                }
                return Ok(Value::Object(fields));
            }
            let key = match self.node(event, &span, depth + 1)? {
                Node::Merge => {
                    let (event, span) = self.next()?;
                    if let Node::Value(value) = self.node(event, &span, depth + 1)? {
                        merge(value, &mut merged)?;
                    }
                    continue;
                }
                Node::Value(key) => match key_text(&key) {
                    Some(key) => key,
                    None => return Err(self.bad_key(&key)),
                },
            };
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            let (event, value_span) = self.next()?;
            let value = match self.node(event, &value_span, depth + 1)? {
                Node::Value(value) => value,
                Node::Merge => Value::String("<<".into()),
            };
            if fields.contains_key(&key) {
                self.duplicates.push(self.path.clone());
                let line = value_span.start.line();
                self.lines.push(format!("line {line}: key {} already set in map", go_quote(&key)));
            }
            self.path.truncate(length);
            fields.insert(key, value);
        }
    }
}

/// Whether an event is part of the document, and not a remark on it.
fn is_structure(event: &Event<'_>) -> bool {
    event.is_node()
        || matches!(
            event,
            Event::StreamStart
                | Event::StreamEnd
                | Event::DocumentStart(..)
                | Event::DocumentEnd
                | Event::SequenceEnd
                | Event::MappingEnd
        )
}

/// What the parser found, in the words of the API where it has other ones.
fn fault(found: &str) -> &str {
    let has = |part| found.contains(part);
    if has("unexpected character:") || has("tabs disallowed") {
        "found character that cannot start any token"
    } else if has("unclosed bracket") {
        "did not find expected node content"
    } else if has("invalid indentation in multiline quoted scalar") {
        "found unexpected end of stream"
    } else {
        // The circumstances come first: what matters is what was found.
        found.rsplit_once(", ").filter(|_| found.starts_with("while ")).map_or(found, |(_, it)| it)
    }
}

/// The share of copies that is admitted, which falls with the size of the document.
fn allowed(nodes: usize) -> f64 {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;
    match nodes {
        0..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((nodes - LOW) as f64 / (HIGH - LOW) as f64),
    }
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + text_bytes(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn at(span: &Span, message: &str) -> DecodeError {
    DecodeError(format!("yaml: line {}: {message}", span.start.line()))
}

/// Takes over the fields of a mapping, or of several, the first of which counts.
fn merge(value: Value, merged: &mut Vec<(String, Value)>) -> Result<(), DecodeError> {
    match value {
        Value::Object(fields) => merged.extend(fields),
        Value::Array(items) if items.iter().all(Value::is_object) => {
            for item in items {
                merge(item, merged)?;
            }
        }
        _ => {
            let message = "yaml: map merge requires map or sequence of maps as the value";
            return Err(DecodeError(message.into()));
        }
    }
    Ok(())
}

/// Keys are texts; numbers and booleans are written out.
fn key_text(key: &Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(_) => Some(crate::text::go_scalar(key)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value as the API's messages about keys print it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<String> = fields
                .map(|(key, value)| format!("{}:{}", go_quote(key), go_syntax(value)))
                .collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => crate::text::go_scalar(scalar),
    }
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&str>,
    span: &Span,
) -> Result<Node, DecodeError> {
    let quoted = || Ok(Node::Value(Value::String(text.to_owned())));
    if tag == Some("str") || (tag.is_none() && style != ScalarStyle::Plain) {
        return quoted();
    }
    if tag == Some("binary") {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let bytes = STANDARD.decode(text.trim()).ok().and_then(|b| String::from_utf8(b).ok());
        let bytes = bytes.ok_or_else(|| at(span, "!!binary value contains invalid base64 data"))?;
        return Ok(Node::Value(Value::String(bytes)));
    }
    if tag.is_none() && text == "<<" {
        return Ok(Node::Merge);
    }
    let resolved = resolve(text)?;
    let fits = match (tag, &resolved) {
        (None | Some("timestamp"), _) => true,
        (Some("bool"), value) => value.is_boolean(),
        (Some("int"), value) => value.is_i64() || value.is_u64(),
        (Some("float"), value) => value.is_number(),
        (Some("null"), value) => value.is_null(),
        (Some(_), _) => return quoted(),
    };
    match fits {
        true => Ok(Node::Value(resolved)),
        false => {
            let tag = tag.unwrap_or_default();
            Err(DecodeError(format!("yaml: cannot decode !!str `{text}` as a !!{tag}")))
        }
    }
}

/// A plain scalar.
fn resolve(text: &str) -> Result<Value, DecodeError> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => return Err(unsupported("NaN")),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Err(unsupported("+Inf")),
        "-.inf" | "-.Inf" | "-.INF" => return Err(unsupported("-Inf")),
        _ => match text.as_bytes()[0] {
            b'0'..=b'9' | b'+' | b'-' | b'.' => number(text),
            _ => None,
        }
        .unwrap_or_else(|| Value::String(text.to_owned())),
    })
}

fn unsupported(what: &str) -> DecodeError {
    DecodeError(format!("json: unsupported value: {what}"))
}

/// A number, if the text is one: decimal, `0x`, `0o`, `0b` or octal with a leading zero.
fn number(text: &str) -> Option<Value> {
    let plain = text.replace('_', "");
    if !text.starts_with('.')
        && let Some(int) = integer(&plain)
    {
        return match (i64::try_from(int), u64::try_from(int)) {
            (Ok(int), _) => Some(Value::from(int)),
            // Beyond 64 bits with a sign, numbers are floats.
            (_, Ok(int)) => Some(float(int as f64)),
            _ => decimal(&plain).map(float),
        };
    }
    match decimal(if text.starts_with('.') { text } else { &plain }) {
        Some(number) if number.is_finite() => Some(float(number)),
        // What is too large for a float is a text.
        _ => None,
    }
}

fn float(float: f64) -> Value {
    super::whole(float).map_or_else(|| Value::from(float), Value::from)
}

fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    let int = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -int } else { int })
}

/// A decimal fraction with an optional exponent, and nothing else that floats may look like.
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(i) => (&unsigned[..i], Some(&unsigned[i + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let well_formed = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent)
        });
    if well_formed { text.parse().ok() } else { None }
}
