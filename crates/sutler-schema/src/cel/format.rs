//! `'%s is %d'.format([…])`.

use super::{
    Error, convert,
    value::{List, Map, Val},
};
use crate::text::go_quote;

/// Fills a template with arguments.
pub(super) fn format<'a>(template: &str, args: &List<'a>) -> Result<Val<'a>, Error> {
    let (mut out, mut rest, mut used) = (String::new(), template, 0);
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let precision = match rest.strip_prefix('.') {
            None => None,
            Some(after) => {
                let end =
                    after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                rest = &after[end..];
                let digits = after[..end].parse::<usize>();
                Some(digits.map_err(|_| failed("unable to find end of precision specifier"))?)
            }
        };
        let clause = rest.chars().next().ok_or_else(|| failed("unexpected end of string"))?;
        rest = &rest[clause.len_utf8()..];
        let arg = args.get(used).ok_or_else(|| failed(&format!("index {used} out of range")))??;
        used += 1;
        out.push_str(&fill(clause, precision, &arg)?);
    }
    out.push_str(rest);
    Ok(Val::text(out))
}

fn failed(what: &str) -> Error {
    Error::new(format!("error during formatting: {what}"))
}

fn fill(clause: char, precision: Option<usize>, arg: &Val<'_>) -> Result<String, Error> {
    match (clause, arg) {
        ('s', arg) => text(arg),
        ('d', Val::Int(value)) => Ok(value.to_string()),
        ('d', Val::Uint(value)) => Ok(value.to_string()),
        ('f', Val::Double(value)) => Ok(grouped(*value, precision.unwrap_or(6))),
        ('e', Val::Double(value)) => Ok(scientific(*value, precision.unwrap_or(6))),
        ('b', Val::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', Val::Int(value)) => Ok(signed(*value, |value| format!("{value:b}"))),
        ('b', Val::Uint(value)) => Ok(format!("{value:b}")),
        ('o', Val::Int(value)) => Ok(signed(*value, |value| format!("{value:o}"))),
        ('o', Val::Uint(value)) => Ok(format!("{value:o}")),
        ('x' | 'X', arg) => {
            let hex = match arg {
                Val::Int(value) => signed(*value, |value| format!("{value:x}")),
                Val::Uint(value) => format!("{value:x}"),
                Val::Text(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Val::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => return Err(wrong(clause, arg)),
            };
            Ok(if clause == 'X' { hex.to_uppercase() } else { hex })
        }
        ('d' | 'f' | 'e' | 'b' | 'o', arg) => Err(wrong(clause, arg)),
        _ => Err(failed(&format!(
            "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
        ))),
    }
}

fn wrong(clause: char, arg: &Val<'_>) -> Error {
    let ty = arg.type_name();
    let what = match clause {
        'd' => format!("decimal clause can only be used on integers, was given {ty}"),
        'f' => format!("fixed-point clause can only be used on doubles, was given {ty}"),
        'e' => format!("scientific clause can only be used on doubles, was given {ty}"),
        'b' => {
            format!("only integers and bools can be formatted as binary, was given {ty}")
        }
        'o' => format!("octal clause can only be used on integers, was given {ty}"),
        _ => format!(
            "only integers, byte buffers, and strings can be formatted as hex, was given {ty}"
        ),
    };
    failed(&what)
}

fn signed(value: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", digits(value.unsigned_abs()))
}

/// A fixed number of decimals, thousands set apart by commas.
fn grouped(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return infinite(value);
    }
    let text = format!("{value:.precision$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = whole.trim_start_matches('-');
    let mut out = if whole.starts_with('-') { "-".to_owned() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// `1.5×10⁰³`, as the API's formatter for English writes it.
fn scientific(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return infinite(value);
    }
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised = format!("{digits:0>2}")
        .chars()
        .map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            other => char::from_u32(0x2070 + other.to_digit(10).unwrap_or(0)).unwrap_or('⁰'),
        })
        .collect::<String>();
    format!("{mantissa}×10{sign}{raised}")
}

fn infinite(value: f64) -> String {
    match (value.is_nan(), value > 0.0) {
        (true, _) => "NaN".into(),
        (_, true) => "∞".into(),
        _ => "-∞".into(),
    }
}

/// A value as text; what stands in lists and maps is written as in the language.
fn text(value: &Val<'_>) -> Result<String, Error> {
    match value {
        Val::Null => Ok("null".into()),
        Val::Type(name) => Ok((*name).to_owned()),
        Val::List(list) => {
            let items = list.to_vec()?;
            let items = items.iter().map(member).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        Val::Map(map) => map_text(map),
        Val::Optional(_) | Val::Foreign(_) | Val::Named(_) | Val::Opaque(_) => {
            Err(failed(&format!(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
             types, durations, and timestamps, was given {}",
                value.type_name()
            )))
        }
        other => match convert::string(other)? {
            Val::Text(text) => Ok(text.into_owned()),
            _ => Err(Error::overload()),
        },
    }
}

fn map_text(map: &Map<'_>) -> Result<String, Error> {
    let mut entries = Vec::with_capacity(map.len());
    for key in map.keys() {
        if let Some(value) = map.get(&key)? {
            entries.push(format!("{}:{}", member(&key)?, member(&value)?));
        }
    }
    entries.sort_unstable();
    Ok(format!("{{{}}}", entries.join(", ")))
}

fn member(value: &Val<'_>) -> Result<String, Error> {
    Ok(match value {
        Val::Text(text) => go_quote(text),
        Val::Bytes(_) => format!("b{}", go_quote(&text(value)?)),
        Val::Time(_) => format!("timestamp({})", go_quote(&text(value)?)),
        Val::Duration(_) => format!("duration({})", go_quote(&text(value)?)),
        Val::Double(number) if number.is_finite() => format!("{number:.6}"),
        Val::Double(number) => go_quote(&infinite(*number)),
        Val::Type(name) => format!("type({name})"),
        other => text(other)?,
    })
}
