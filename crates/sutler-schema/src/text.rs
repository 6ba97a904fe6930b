//! Values as text, the way the API's error messages print them.

use std::{fmt::Write as _, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

/// A string in double quotes with the escapes of the API's `%q`.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{07}' => out.push_str("\\a"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0b}' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            c if (c as u32) < 0x80 => push(&mut out, format_args!("\\x{:02x}", c as u32)),
            c if is_print(c) => out.push(c),
            c if (c as u32) < 0x10000 => push(&mut out, format_args!("\\u{:04x}", c as u32)),
            c => push(&mut out, format_args!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// Whether `c` is a graphic character (letter, mark, number, punctuation, symbol) or a space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    static GRAPHIC: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").expect("the pattern is well-formed")
    });
    GRAPHIC.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Compact JSON with sorted keys, `<`, `>` and `&` escaped, and whole floats without a fraction.
pub fn go_json(value: &Value) -> String {
    let mut out = String::new();
    push_json(&mut out, value);
    out
}

/// A number or boolean as `%v` prints it.
pub fn go_scalar(value: &Value) -> String {
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(int), _, _) => int.to_string(),
            (_, Some(int), _) => int.to_string(),
            (_, _, Some(float)) => go_float(float),
            _ => number.to_string(),
        },
        other => go_json(other),
    }
}

/// The shortest text of a float, as `%v` prints it: from a million on with an exponent.
pub fn go_float(float: f64) -> String {
    float_text(float, -4..6)
}

/// The shortest text of a float; exponents in `plain` are written out.
fn float_text(float: f64, plain: std::ops::Range<i32>) -> String {
    if float.is_nan() {
        return "NaN".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    if float == 0.0 {
        return if float.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if plain.contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// JSON numbers: exponents are rarer, and unpadded below ten when negative.
fn json_float(float: f64) -> String {
    let text = float_text(float, -6..21);
    match text.split_once("e-0") {
        Some((mantissa, digit)) => format!("{mantissa}e-{digit}"),
        None => text,
    }
}

fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            out.push_str(&json_float(number.as_f64().unwrap_or_default()));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => push(out, format_args!("{value}")),
        Value::String(text) => push_json_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (i, (key, field)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_json_string(out, key);
                out.push(':');
                push_json(out, field);
            }
            out.push('}');
        }
    }
}

fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                push(out, format_args!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quoting() {
        let cases = [
            ("a", r#""a""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{0}\u{7f}", r#""\x00\x7f""#),
            ("é\u{301}日", "\"é\u{301}日\""),
            ("\u{200b}", r#""\u200b""#),
            ("\u{a0}", r#""\u00a0""#),
            ("<&>", r#""<&>""#),
        ];
        for (text, quoted) in cases {
            assert_eq!(go_quote(text), quoted);
        }
    }

    #[test]
    fn numbers() {
        let cases = [
            (json!(1), "1", "1"),
            (json!(-1.5), "-1.5", "-1.5"),
            (json!(1.0), "1", "1"),
            (json!(1e21), "1e+21", "1e+21"),
            (json!(1e20), "1e+20", "100000000000000000000"),
            (json!(1e6), "1e+06", "1000000"),
            (json!(123456.5), "123456.5", "123456.5"),
            (json!(0.00001), "1e-05", "0.00001"),
            (json!(0.0000001), "1e-07", "1e-7"),
            (json!(u64::MAX), "18446744073709551615", "18446744073709551615"),
        ];
        for (value, scalar, inside) in cases {
            assert_eq!(go_scalar(&value), scalar);
            assert_eq!(go_json(&value), inside);
        }
        assert_eq!(go_json(&json!({"b": ["<"], "a": null})), r#"{"a":null,"b":["\u003c"]}"#);
    }
}
