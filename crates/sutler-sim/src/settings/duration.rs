//! Durations as people write them: `150ms`, `2s`, `1m30s`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&write(*value))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    read(&text).ok_or_else(|| {
        de::Error::custom(format!("{text:?} is no duration: write numbers with units, as in 1m30s"))
    })
}

fn write(value: Duration) -> String {
    match (value.as_secs(), value.subsec_nanos()) {
        (secs, 0) => format!("{secs}s"),
        (secs, nanos) if nanos % 1_000_000 == 0 => {
            format!("{}ms", u128::from(secs) * 1000 + u128::from(nanos) / 1_000_000)
        }
        _ => format!("{}ns", value.as_nanos()),
    }
}

fn read(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let number: u64 = number.parse().ok()?;
        let part = match unit {
            "ns" => Duration::from_nanos(number),
            "us" => Duration::from_micros(number),
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn durations_are_read_as_they_are_written(nanos in 0u64..) {
            let value = Duration::from_nanos(nanos);
            prop_assert_eq!(read(&write(value)), Some(value));
        }
    }

    #[test]
    fn people_write_durations() {
        for (text, millis) in [("150ms", 150), ("2s", 2000), ("1m30s", 90_000), ("1h", 3_600_000)] {
            assert_eq!(read(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.5s", "2 s", "1d", "99999999999999999999s"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
