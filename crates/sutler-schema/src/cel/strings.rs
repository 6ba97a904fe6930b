//! Functions on strings. Positions count characters.

use super::{Error, eval::Evaluated, value::Val};
use crate::text::go_quote;

/// Calls a string function; nothing if the name or the arguments are not of one.
pub(super) fn call<'a>(name: &str, all: &[&Val<'a>]) -> Option<Evaluated<'a>> {
    let Some(Val::Text(text)) = all.first() else { return join(name, all) };
    Some(match (name, &all[1..]) {
        ("charAt", [Val::Int(i)]) => char_at(text, *i),
        ("indexOf", [Val::Text(part)]) => Ok(Val::Int(index_of(text, part, 0))),
        ("indexOf", [Val::Text(part), Val::Int(from)]) => {
            offset(text, *from).map(|from| Val::Int(from.map_or(-1, |i| index_of(text, part, i))))
        }
        ("lastIndexOf", [Val::Text(part)]) => {
            Ok(Val::Int(last_index_of(text, part, text.chars().count())))
        }
        ("lastIndexOf", [Val::Text(part), Val::Int(until)]) => offset(text, *until)
            .map(|until| Val::Int(until.map_or(-1, |i| last_index_of(text, part, i)))),
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim().to_owned())),
        ("replace", [Val::Text(old), Val::Text(new)]) => Ok(Val::text(text.replace(&**old, new))),
        ("replace", [Val::Text(old), Val::Text(new), Val::Int(limit)]) => {
            Ok(Val::text(match usize::try_from(*limit) {
                Ok(limit) => text.replacen(&**old, new, limit),
                Err(_) => text.replace(&**old, new),
            }))
        }
        ("split", [Val::Text(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Val::Text(separator), Val::Int(limit)]) => Ok(split(text, separator, *limit)),
        ("substring", [Val::Int(from)]) => checked(text, *from).and_then(|_| {
            let end = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            substring(text, *from, end)
        }),
        ("substring", [Val::Int(from), Val::Int(to)]) => substring(text, *from, *to),
        _ => return None,
    })
}

/// `strings.quote`.
pub(super) fn quote<'a>(text: &str) -> Val<'a> {
    Val::text(go_quote(text))
}

fn join<'a>(name: &str, all: &[&Val<'a>]) -> Option<Evaluated<'a>> {
    let (list, separator) = match all {
        [Val::List(list)] if name == "join" => (list, ""),
        [Val::List(list), Val::Text(separator)] if name == "join" => (list, &**separator),
        _ => return None,
    };
    let items = match list.to_vec() {
        Ok(items) => items,
        Err(error) => return Some(Err(error)),
    };
    let texts: Option<Vec<&str>> = items
        .iter()
        .map(|item| match item {
            Val::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    Some(texts.map(|texts| Val::text(texts.join(separator))).ok_or_else(Error::overload))
}

fn out_of_range(i: i64) -> Error {
    Error::new(format!("index out of range: {i}"))
}

/// A position in the text or at its end.
fn checked(text: &str, i: i64) -> Result<usize, Error> {
    let position = usize::try_from(i).map_err(|_| out_of_range(i))?;
    match position <= text.chars().count() {
        true => Ok(position),
        false => Err(out_of_range(i)),
    }
}

/// Where a search starts: nothing beyond the end, where nothing is found.
fn offset(text: &str, i: i64) -> Result<Option<usize>, Error> {
    let position = usize::try_from(i).map_err(|_| out_of_range(i))?;
    Ok(Some(position).filter(|position| *position < text.chars().count()))
}

fn char_at<'a>(text: &str, i: i64) -> Evaluated<'a> {
    let at = checked(text, i)?;
    Ok(Val::text(text.chars().nth(at).map(String::from).unwrap_or_default()))
}

fn substring<'a>(text: &str, from: i64, to: i64) -> Evaluated<'a> {
    if from > to {
        return Err(Error::new(format!("invalid substring range. start: {from}, end: {to}")));
    }
    let (from, to) = (checked(text, from)?, checked(text, to)?);
    Ok(Val::text(text.chars().skip(from).take(to - from).collect::<String>()))
}

fn index_of(text: &str, part: &str, from: usize) -> i64 {
    let skipped: usize = text.chars().take(from).map(char::len_utf8).sum();
    match text[skipped..].find(part) {
        Some(at) => (from + text[skipped..skipped + at].chars().count()) as i64,
        None => -1,
    }
}

fn last_index_of(text: &str, part: &str, until: usize) -> i64 {
    // The match starts at `until` or before it.
    let starts: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
    let found = starts.iter().take(until + 1).rposition(|start| text[*start..].starts_with(part));
    found.map_or(-1, |i| i as i64)
}

fn split<'a>(text: &str, separator: &str, limit: i64) -> Val<'a> {
    if limit == 0 {
        return Val::list(vec![]);
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<String> = if separator.is_empty() {
        // Every character by itself; the last part takes what is left.
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                parts.push(rest.to_owned());
                break;
            }
            parts.push(c.to_string());
            rest = &rest[c.len_utf8()..];
        }
        parts
    } else {
        text.splitn(limit, separator).map(str::to_owned).collect()
    };
    Val::list(parts.into_iter().map(Val::text).collect())
}
