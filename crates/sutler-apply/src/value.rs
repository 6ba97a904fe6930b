//! How JSON values are ordered, compared and written, where that is visible on the wire: set items
//! and list keys are sorted by value, and messages print values as the Go server does.

use std::{cmp::Ordering, fmt::Write as _};

use serde_json::{Number, Value};

/// A total order: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(l), Value::Number(r)) => compare_numbers(l, r),
        (Value::String(l), Value::String(r)) => l.cmp(r),
        (Value::Bool(l), Value::Bool(r)) => l.cmp(r),
        (Value::Array(l), Value::Array(r)) => {
            let differing = l.iter().zip(r).map(|(l, r)| compare(l, r)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| l.len().cmp(&r.len()))
        }
        (Value::Object(l), Value::Object(r)) => {
            let differing = l
                .iter()
                .zip(r)
                .map(|((lk, lv), (rk, rv))| lk.cmp(rk).then_with(|| compare(lv, rv)))
                .find(|order| order.is_ne());
            differing.unwrap_or_else(|| l.len().cmp(&r.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(l), Some(r)) => l.cmp(&r),
        _ => {
            let (l, r) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
            l.partial_cmp(&r).unwrap_or(Ordering::Equal)
        }
    }
}

/// Equality in which 1 and 1.0 are the same number.
pub(crate) fn equals(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(l), Value::Number(r)) => compare_numbers(l, r).is_eq(),
        (Value::Array(l), Value::Array(r)) => {
            l.len() == r.len() && l.iter().zip(r).all(|(l, r)| equals(l, r))
        }
        (Value::Object(l), Value::Object(r)) => {
            l.len() == r.len()
                && l.iter().zip(r).all(|((lk, lv), (rk, rv))| lk == rk && equals(lv, rv))
        }
        _ => left == right,
    }
}

/// The value as it stands in a path: `[name="a"]`.
pub(crate) fn in_path(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => number(n, FloatStyle::Print, out),
        Value::String(s) => quote(s, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                in_path(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            for (key, value) in map {
                out.push_str(key);
                out.push('=');
                in_path(value, out);
            }
        }
    }
}

/// Compact JSON with the escapes of FieldsV1 keys: `<`, `>` and `&` are escaped as well.
pub(crate) fn json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => number(n, FloatStyle::Json, out),
        Value::String(s) => json_string(s, true, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json_string(key, true, out);
                out.push(':');
                json(value, out);
            }
            out.push('}');
        }
    }
}

/// A JSON string; `html` also escapes `<`, `>` and `&`.
pub(crate) fn json_string(text: &str, html: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' if html => escape(c, out),
            '\u{2028}' | '\u{2029}' if html => escape(c, out),
            c if (c as u32) < 0x20 => escape(c, out),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn escape(c: char, out: &mut String) {
    write!(out, "\\u{:04x}", c as u32).expect("writing to a String cannot fail");
}

/// How Go's `%v` prints the value.
pub(crate) fn plain(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => number(n, FloatStyle::Print, out),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                plain(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                plain(value, out);
            }
            out.push(']');
        }
    }
}

/// How Go's `%#v` prints the value.
pub(crate) fn syntax(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => number(n, FloatStyle::Print, out),
        Value::String(s) => quote(s, out),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                syntax(item, out);
            }
            out.push('}');
        }
        Value::Object(map) => {
            out.push_str("map[string]interface {}{");
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                quote(key, out);
                out.push(':');
                syntax(value, out);
            }
            out.push('}');
        }
    }
}

/// The Go type that a decoded JSON value has.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// How Go's `%q` quotes a string.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x80 && c.is_control() => {
                write!(out, "\\x{:02x}", c as u32).expect("writing to a String cannot fail");
            }
            c if c.is_control() => escape(c, out),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// [`quote`] into a new string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(text, &mut out);
    out
}

/// [`plain`] into a new string.
pub(crate) fn printed(value: &Value) -> String {
    let mut out = String::new();
    plain(value, &mut out);
    out
}

#[derive(Clone, Copy, PartialEq)]
enum FloatStyle {
    Json,
    Print,
}

fn number(number: &Number, style: FloatStyle, out: &mut String) {
    let infallible = "writing to a String cannot fail";
    if let Some(i) = number.as_i64() {
        return write!(out, "{i}").expect(infallible);
    }
    let float = number.as_f64().unwrap_or(0.0);
    let smallest = if style == FloatStyle::Json { 1e-6 } else { 1e-4 };
    let size = float.abs();
    if size == 0.0 || (smallest..1e21).contains(&size) {
        return write!(out, "{float}").expect(infallible);
    }
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    let pad = digits.len() < 2 && !(style == FloatStyle::Json && sign == '-');
    write!(out, "{mantissa}e{sign}{}{digits}", if pad { "0" } else { "" }).expect(infallible);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: Value, write: fn(&Value, &mut String)) -> String {
        let mut out = String::new();
        write(&value, &mut out);
        out
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(equals(&json!(1), &json!(1.0)));
        assert!(!equals(&json!(1), &json!("1")));
        assert_eq!(compare(&json!(80), &json!(443)), Ordering::Less);
        assert_eq!(compare(&json!(80.5), &json!(80)), Ordering::Greater);
        assert_eq!(compare(&json!(5), &json!("a")), Ordering::Less);
    }

    #[test]
    fn floats_are_written_as_go_does() {
        assert_eq!(text(json!(80.0), json), "80");
        assert_eq!(text(json!(1e21), json), "1e+21");
        assert_eq!(text(json!(1e-7), json), "1e-7");
        assert_eq!(text(json!(1e-7), plain), "1e-07");
        assert_eq!(text(json!(1.25), plain), "1.25");
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        assert_eq!(text(json!("a<b\u{1}\n"), json), r#""a\u003cb\u0001\n""#);
        assert_eq!(text(json!("a\"\u{1}"), in_path), "\"a\\\"\\x01\"");
        assert_eq!(text(json!({"b": [1, "x"], "a": null}), plain), "map[a:<nil> b:[1 x]]");
        assert_eq!(
            text(json!({"a": [1, "x"]}), syntax),
            r#"map[string]interface {}{"a":[]interface {}{1, "x"}}"#
        );
    }
}
