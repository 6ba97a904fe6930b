//! Times as people read them: how long ago.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{json::text, time};

/// The time since an object was created.
pub(super) fn age(meta: &Value, now: DateTime<Utc>) -> String {
    since(text(meta, "creationTimestamp"), now)
}

/// The time since a timestamp, in at most two units.
pub(super) fn since(timestamp: &str, now: DateTime<Utc>) -> String {
    match time::parse(timestamp) {
        None => "<unknown>".into(),
        Some(time) => human(now.signed_duration_since(time).num_seconds()),
    }
}

fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let years = days / 365;
    let two = |first: i64, unit: &str, second: i64, smaller: &str| match second {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{second}{smaller}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let (minute, hour, day) = (60, 3600, 86400);
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (2 * minute + 3, "2m3s"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 30 * minute, "7h30m"),
            (47 * hour, "47h"),
            (3 * day + 2 * hour, "3d2h"),
            (100 * day, "100d"),
            (3 * 365 * day + day, "3y1d"),
            (9 * 365 * day, "9y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(seconds), expected);
        }
        assert_eq!(since("", DateTime::UNIX_EPOCH), "<unknown>");
    }
}
