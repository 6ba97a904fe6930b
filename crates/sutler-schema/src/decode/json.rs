//! The JSON reader.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::DecodeError;
use crate::{
    node::{Node, Type},
    path::push_index,
    prune::is_open,
    text::go_quote,
};

/// No more faults of keys than this are reported.
const MAX_STRICT: usize = 100;

/// A key that strict decoding refuses.
pub(super) enum Strict {
    Duplicate(String),
    Unknown(String),
}

/// The value and what is wrong with its keys, in the order of the text. Fields are unknown only
/// where `node` describes the object.
pub(super) fn decode(
    bytes: &[u8],
    node: Option<&Node>,
    deepest: usize,
) -> Result<(Value, Vec<Strict>), DecodeError> {
    let mut reader = Reader {
        bytes,
        deepest,
        at: 0,
        path: String::new(),
        strict: Vec::new(),
        seen: BTreeSet::new(),
        muted: false,
        range_error: None,
    };
    reader.space();
    let value = reader.value(0, node)?;
    reader.space();
    if reader.at < bytes.len() {
        return Err(reader.unexpected("after top-level value"));
    }
    match reader.range_error {
        Some(error) => Err(error),
        None => Ok((value, reader.strict)),
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    /// How many levels there may be.
    deepest: usize,
    at: usize,
    path: String,
    strict: Vec<Strict>,
    /// Paths that were reported; each is once.
    seen: BTreeSet<String>,
    /// Set inside an unknown field.
    muted: bool,
    /// A number out of range; reported only if the text is well-formed to its end.
    range_error: Option<DecodeError>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The error for the byte at hand, or for the end of the text.
    fn unexpected(&self, context: &str) -> DecodeError {
        // Where no blank may stand, an early end reads as one.
        let inside = context.starts_with("in literal")
            || context.contains("numeric literal")
            || context.contains("escape");
        let byte = match self.peek() {
            Some(byte) => byte,
            None if inside => b' ',
            None => return DecodeError("unexpected end of JSON input".into()),
        };
        let shown = match byte {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            byte => {
                let quoted = go_quote(char::from(byte).encode_utf8(&mut [0; 4]));
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        DecodeError(format!("invalid character {shown} {context}"))
    }

    fn value(&mut self, depth: usize, node: Option<&Node>) -> Result<Value, DecodeError> {
        match self.peek() {
            Some(b'{') => {
                self.check_depth(depth)?;
                self.object(depth, node.filter(|node| node.ty == Type::Object))
            }
            Some(b'[') => {
                self.check_depth(depth)?;
                self.array(depth, node.and_then(|node| node.items.as_deref()))
            }
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn check_depth(&self, depth: usize) -> Result<(), DecodeError> {
        match depth < self.deepest {
            true => Ok(()),
            false => Err(self.unexpected("exceeded max depth")),
        }
    }

    fn object(&mut self, depth: usize, node: Option<&Node>) -> Result<Value, DecodeError> {
        let mut fields = Map::new();
        let length = self.path.len();
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(fields));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.space();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            let child = node.and_then(|node| node.field(&key)).map(|child| &**child);
            let unknown = node.is_some_and(|node| child.is_none() && !is_open(node));
            if unknown {
                self.report(Strict::Unknown);
            } else if fields.contains_key(&key) {
                self.report(Strict::Duplicate);
            }
            // What is dropped anyway is not looked into.
            let muted = self.muted;
            self.muted |= unknown;
            let value = self.value(depth + 1, child)?;
            self.muted = muted;
            self.path.truncate(length);
            fields.insert(key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(fields));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
            self.space();
        }
    }

    fn array(&mut self, depth: usize, node: Option<&Node>) -> Result<Value, DecodeError> {
        let mut items = Vec::new();
        let length = self.path.len();
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            push_index(&mut self.path, items.len());
            items.push(self.value(depth + 1, node)?);
            self.path.truncate(length);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
            self.space();
        }
    }

    /// Notes a fault of the key at hand.
    fn report(&mut self, fault: fn(String) -> Strict) {
        if !self.muted && self.strict.len() < MAX_STRICT && self.seen.insert(self.path.clone()) {
            self.strict.push(fault(self.path.clone()));
        }
    }

    fn literal(&mut self, text: &str, value: Value) -> Result<Value, DecodeError> {
        for byte in text.bytes() {
            if self.peek() != Some(byte) {
                let wanted = char::from(byte);
                return Err(self.unexpected(&format!("in literal {text} (expecting '{wanted}')")));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn string(&mut self) -> Result<String, DecodeError> {
        self.at += 1;
        let start = self.at;
        // Most strings have no escapes: take them in one piece.
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    let text = String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned();
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' | 0..0x20 => break,
                _ => self.at += 1,
            }
        }
        let mut text = self.bytes[start..self.at].to_vec();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    // Bytes that are no text are replaced, as the API does.
                    return Ok(match String::from_utf8(text) {
                        Ok(text) => text,
                        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
                    });
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(byte @ 0x20..) => {
                    text.push(byte);
                    self.at += 1;
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, DecodeError> {
        let c = match self.peek() {
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{08}',
            Some(b'f') => '\u{0c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    /// A `\u` escape, or two that are a surrogate pair; half a pair is replaced.
    fn unicode(&mut self) -> Result<char, DecodeError> {
        let first = self.hex()?;
        if !(0xd800..0xe000).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let resume = self.at;
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = resume;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u32, DecodeError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Value, DecodeError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at])
            .expect("signs, digits, dots and exponents are text");
        if whole && let Ok(int) = text.parse::<i64>() {
            return Ok(Value::from(int));
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Value::from(float)),
            _ => {
                let message =
                    format!("json: cannot unmarshal number {text} into Go value of type float64");
                self.range_error.get_or_insert(DecodeError(message));
                Ok(Value::Null)
            }
        }
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), DecodeError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        self.digits();
        Ok(())
    }
}
