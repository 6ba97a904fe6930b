//! Durations as Go writes them: `90s`, `1h30m`.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A duration as it was written. It is kept as text, so that an object comes back as it went in;
/// [`Duration::to_std`] reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(pub String);

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write numbers with units, such as 90s or 1h30m")]
pub struct DurationError {
    text: String,
}

impl Duration {
    /// The duration in the standard library's terms.
    ///
    /// Negative durations are errors: nothing here can wait for less than no time.
    pub fn to_std(&self) -> Result<std::time::Duration, DurationError> {
        let error = || DurationError { text: self.0.clone() };
        let mut rest = self.0.strip_prefix('+').unwrap_or(&self.0);
        if rest == "0" {
            return Ok(std::time::Duration::ZERO);
        }
        if rest.is_empty() {
            return Err(error());
        }
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let whole = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, tail) = rest.split_at(whole);
            let (fraction, tail) = match tail.strip_prefix('.') {
                None => ("", tail),
                Some(tail) => {
                    let end =
                        tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                    tail.split_at(end)
                }
            };
            if number.is_empty() && fraction.is_empty() {
                return Err(error());
            }
            let (unit, tail) = take_unit(tail).ok_or_else(error)?;
            let number: u128 =
                if number.is_empty() { 0 } else { number.parse().map_err(|_| error())? };
            let mut part = number.checked_mul(unit).ok_or_else(error)?;
            let mut scale = unit;
            for digit in fraction.bytes() {
                scale /= 10;
                part += u128::from(digit - b'0') * scale;
            }
            nanos = nanos.checked_add(part).ok_or_else(error)?;
            rest = tail;
        }
        // Go's durations end at 2^63 nanoseconds (292 years).
        let nanos = i64::try_from(nanos).map_err(|_| error())?;
        Ok(std::time::Duration::from_nanos(nanos.unsigned_abs()))
    }
}

/// Nanoseconds of the unit that `text` begins with, and what follows it.
fn take_unit(text: &str) -> Option<(u128, &str)> {
    const UNITS: [(&str, u128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    UNITS.iter().find_map(|(unit, nanos)| Some((*nanos, text.strip_prefix(unit)?)))
}

impl From<&str> for Duration {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<std::time::Duration> for Duration {
    fn from(duration: std::time::Duration) -> Self {
        let nanos = duration.as_nanos();
        if nanos.is_multiple_of(1_000_000_000) {
            let seconds = duration.as_secs();
            return Self(match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
                (0, 0, seconds) => format!("{seconds}s"),
                (0, minutes, 0) => format!("{minutes}m"),
                (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
                (hours, 0, 0) => format!("{hours}h"),
                (hours, minutes, 0) => format!("{hours}h{minutes}m"),
                (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
            });
        }
        if nanos.is_multiple_of(1_000_000) {
            return Self(format!("{}ms", nanos / 1_000_000));
        }
        Self(format!("{nanos}ns"))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(text: &str) -> Option<u128> {
        Duration::from(text).to_std().ok().map(|d| d.as_millis())
    }

    #[test]
    fn reads_what_go_writes() {
        for (text, expected) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("1h0m0.25s", 3_600_250),
            (".5s", 500),
            ("+2s", 2_000),
            ("150ms", 150),
            ("1000000ns", 1),
            ("1000µs", 1),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_none() {
        for text in ["", "5", "s", "-5s", "5 m", "5mm", "1h x", "5d", ".s", "999999999999h"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn writes_what_it_reads(nanos in 0..i64::MAX as u64) {
            let duration = std::time::Duration::from_nanos(nanos);
            prop_assert_eq!(Duration::from(duration).to_std(), Ok(duration));
        }

        #[test]
        fn never_panics(text in "[-+.0-9hmsnuµ ]{0,24}") {
            let _ = Duration(text).to_std();
        }
    }
}
