//! Times as the API writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// `metav1.Time`: whole seconds, UTC.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Reads any RFC 3339 time.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let seconds = DateTime::parse_from_rfc3339(text).ok()?.timestamp();
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// How `kubectl` shows an age: `3d4h`, `5m`, `12s`.
pub(crate) fn human(age: Duration) -> String {
    let s = age.as_secs();
    let (m, h, d) = (s / 60, s / 3600, s / 86400);
    match s {
        0..120 => format!("{s}s"),
        120..600 if s.is_multiple_of(60) => format!("{m}m"),
        120..600 => format!("{m}m{}s", s % 60),
        600..10_800 => format!("{m}m"),
        10_800..28_800 if m.is_multiple_of(60) => format!("{h}h"),
        10_800..28_800 => format!("{h}h{}m", m % 60),
        28_800..172_800 => format!("{h}h"),
        172_800..691_200 if h.is_multiple_of(24) => format!("{d}d"),
        172_800..691_200 => format!("{d}d{}h", h % 24),
        691_200..63_072_000 => format!("{d}d"),
        63_072_000..252_288_000 if d.is_multiple_of(365) => format!("{}y", d / 365),
        63_072_000..252_288_000 => format!("{}y{}d", d / 365, d % 365),
        _ => format!("{}y", d / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3600, "60m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (1_000_000, "11d"),
            (63_072_000 + 86_400, "2y1d"),
        ] {
            assert_eq!(human(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn times_survive() {
        let text = "2026-11-15T14:29:00Z";
        assert_eq!(rfc3339(parse(text).unwrap()), text);
    }
}
