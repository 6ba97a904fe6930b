//! Timestamps as the API writes them: whole seconds or exactly six digits, in UTC.

use chrono::{DateTime, SecondsFormat, Utc};

/// Reads a time of whole seconds and writes it in UTC; `None` is the zero time.
pub(crate) fn seconds(text: &str) -> Result<Option<String>, String> {
    let time = strict(text).ok_or_else(|| {
        let rest = unread(text);
        format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {rest}")
    })?;
    Ok(non_zero(time).map(|time| time.to_rfc3339_opts(SecondsFormat::Secs, true)))
}

/// Reads a time with six digits after the point.
pub(crate) fn micros(text: &str) -> Result<Option<String>, String> {
    let fraction = text.get(19..).unwrap_or_default();
    let digits = fraction
        .strip_prefix('.')
        .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let time = strict(text).filter(|_| digits == 6).ok_or_else(|| {
        let rest = match strict(text) {
            Some(_) => format!("{fraction:?} as \".000000\""),
            None => unread(text),
        };
        format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest}"
        )
    })?;
    Ok(non_zero(time).map(|time| time.to_rfc3339_opts(SecondsFormat::Micros, true)))
}

/// The text of a protobuf timestamp; `None` is the zero time or out of range.
pub(crate) fn from_unix(seconds: i64, nanos: i32, micro: bool) -> Option<String> {
    if seconds == 0 && nanos == 0 {
        return None;
    }
    let time = DateTime::<Utc>::from_timestamp(seconds, u32::try_from(nanos).ok()?)?;
    let format = if micro { SecondsFormat::Micros } else { SecondsFormat::Secs };
    Some(time.to_rfc3339_opts(format, true))
}

/// Seconds and nanoseconds of a stored time, for protobuf.
pub(crate) fn to_unix(text: &str) -> Option<(i64, i32)> {
    let time = strict(text)?;
    Some((time.timestamp(), i32::try_from(time.timestamp_subsec_nanos()).ok()?))
}

/// Reads a stored time.
pub(crate) fn parse(text: &str) -> Option<DateTime<Utc>> {
    strict(text)
}

fn strict(text: &str) -> Option<DateTime<Utc>> {
    // chrono also takes other separators and lower case.
    let shape = text.as_bytes().get(10) == Some(&b'T') && !text.contains(['z', ' ']);
    let time = DateTime::parse_from_rfc3339(text).ok().filter(|_| shape)?;
    Some(time.with_timezone(&Utc))
}

fn non_zero(time: DateTime<Utc>) -> Option<DateTime<Utc>> {
    (time.timestamp() != -62_135_596_800 || time.timestamp_subsec_nanos() != 0).then_some(time)
}

/// What the reference implementation's parser could not read, for the shapes that people write.
fn unread(text: &str) -> String {
    let digits = |range: std::ops::Range<usize>| {
        text.get(range).is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    if !digits(0..4) {
        return format!("{text:?} as \"2006\"");
    }
    if text.len() == 10 {
        return "\"\" as \"T\"".into();
    }
    if text.len() == 19 {
        return "\"\" as \"Z07:00\"".into();
    }
    format!("{:?} as \"-\"", text.get(4..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(seconds("2024-02-03T04:05:06Z"), some("2024-02-03T04:05:06Z"));
        assert_eq!(seconds("2024-02-03T04:05:06.7+02:00"), some("2024-02-03T02:05:06Z"));
        assert_eq!(seconds("0001-01-01T00:00:00Z"), Ok(None));
        assert_eq!(micros("2024-02-03T04:05:06.700000Z"), some("2024-02-03T04:05:06.700000Z"));
        assert_eq!(
            micros("2024-02-03T04:05:06Z").unwrap_err(),
            "parsing time \"2024-02-03T04:05:06Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
             cannot parse \"Z\" as \".000000\""
        );
        assert_eq!(
            seconds("soon").unwrap_err(),
            "parsing time \"soon\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"soon\" as \"2006\""
        );
        assert_eq!(from_unix(1, 5_000, true).unwrap(), "1970-01-01T00:00:01.000005Z");
        assert_eq!(from_unix(i64::MAX, 0, false), None);
    }
}
