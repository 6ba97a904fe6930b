//! Values as VPSie writes them: numbers as text, yes and no as 1 and 0, times in several forms.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A number, or a text that is one.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Number(number) => {
            // Some are written with a fraction that is none.
            number.as_i64().or_else(|| number.as_f64().map(|float| float as i64))
        }
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(yes) => Some(i64::from(yes)),
        _ => None,
    })
}

/// A text that says something, or a number as text.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Yes or no, as a boolean, 1 or 0.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Bool(yes) => Some(yes),
        Value::Number(number) => number.as_i64().map(|number| number != 0),
        Value::String(text) => match text.as_str() {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        },
        _ => None,
    })
}

/// A time. Those without a zone are in UTC, as VPSie's are.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(text(from)?.as_deref().and_then(read_time))
}

/// Reads a time in any of the forms that VPSie uses.
pub(super) fn read_time(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let civil: DateTime = text.parse().ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// Texts in a list; a list that is null is empty, and tags may be objects with a name.
pub(super) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let Value::Array(all) = Value::deserialize(from)? else { return Ok(Vec::new()) };
    let one = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Object(map) => {
            let name = ["name", "tag", "tag_name"].into_iter().find_map(|key| map.get(key));
            name.and_then(Value::as_str).map(str::to_owned)
        }
        _ => None,
    };
    Ok(all.into_iter().filter_map(one).collect())
}

/// A list of things; one that is null is empty. What is no list is an error: it must not look empty.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        for text in [
            "2026-03-18T09:00:00Z",
            "2026-03-18T09:00:00.000Z",
            "2026-03-18 09:00:00",
            "2026-03-18T10:00:00+01:00",
        ] {
            assert_eq!(read_time(text).unwrap().to_string(), "2026-03-18T09:00:00Z", "{text}");
        }
        assert_eq!(read_time("yesterday"), None);
    }

    #[test]
    fn values_are_read_whatever_their_type() {
        #[derive(Deserialize)]
        struct Row {
            #[serde(default, deserialize_with = "number")]
            number: Option<i64>,
            #[serde(default, deserialize_with = "flag")]
            flag: Option<bool>,
            #[serde(default, deserialize_with = "texts")]
            tags: Vec<String>,
        }
        let read = |text: &str| serde_json::from_str::<Row>(text).unwrap();
        let row = read(r#"{"number":"7","flag":1,"tags":["a",{"name":"b"}]}"#);
        assert_eq!((row.number, row.flag, row.tags.len()), (Some(7), Some(true), 2));
        let row = read(r#"{"number":null,"flag":null,"tags":null}"#);
        assert_eq!((row.number, row.flag, row.tags.len()), (None, None, 0));
        assert_eq!(read(r#"{"number":7.0}"#).number, Some(7));
    }
}
