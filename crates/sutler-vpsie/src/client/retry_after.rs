//! How long a server wants to be left alone.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};

/// The longest pause that is believed: a server that says more is asked again after this.
const LONGEST: Duration = Duration::from_secs(3600);

/// Reads `Retry-After`: seconds, or a date.
pub(super) fn read(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let pause = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
            Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO)
        }
    };
    Some(pause.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        let now: Timestamp = "2026-03-18T09:00:00Z".parse().unwrap();
        let seconds = |value: &str| read(value, now).map(|pause| pause.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("Wed, 18 Mar 2026 09:00:30 GMT"), Some(30));
        assert_eq!(seconds("Wed, 18 Mar 2026 08:00:00 GMT"), Some(0));
        assert_eq!(seconds("86400"), Some(3600));
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("-3"), None);
    }
}
