//! The one place that reads the wall clock; everything below takes the time as a parameter.

use chrono::{DateTime, SecondsFormat, Utc};

/// The time now.
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now()
}

/// A point in time as the API writes it.
pub(crate) fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Reads a point in time as the API writes it.
pub(crate) fn parse(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc))
}

/// How long ago, in the two units that matter at that distance, as `get` prints ages.
pub(crate) fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match seconds.max(0) {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// The age of a timestamp, or `<unknown>` where it is none.
pub(crate) fn age_of(text: Option<&str>, now: DateTime<Utc>) -> String {
    match text.and_then(parse) {
        Some(at) => age((now - at).num_seconds()),
        None => "<unknown>".to_owned(),
    }
}

/// Reads `90s`, `5m`, `1h30m`, `30d`, or plain seconds.
pub(crate) fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let refuse = || format!("{text:?} is no duration: write it as 30s, 5m, 1h30m or 30d");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(std::time::Duration::from_secs(seconds));
    }
    let (mut total, mut digits) = (0u64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(refuse()),
        };
        let count: u64 = digits.parse().map_err(|_| refuse())?;
        total = count.checked_mul(unit).and_then(|s| total.checked_add(s)).ok_or_else(refuse)?;
        digits.clear();
    }
    if !digits.is_empty() || text.is_empty() {
        return Err(refuse());
    }
    Ok(std::time::Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_units_that_matter() {
        for (seconds, want) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (3600, "60m"),
            (4 * 3600 + 120, "4h2m"),
            (30 * 3600, "30h"),
            (3 * 86_400 + 3600, "3d1h"),
            (100 * 86_400, "100d"),
            (3 * 365 * 86_400, "3y"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(age(seconds), want, "{seconds}");
        }
    }

    #[test]
    fn durations_are_read_or_refused_with_the_fix() {
        for (text, want) in [("90", 90), ("30s", 30), ("1h30m", 5400), ("30d", 2_592_000)] {
            assert_eq!(parse_duration(text).unwrap().as_secs(), want);
        }
        for text in ["", "5x", "m", "5m3", "-1s", "99999999999999999999d"] {
            assert!(parse_duration(text).unwrap_err().contains("1h30m"), "{text}");
        }
    }
}
