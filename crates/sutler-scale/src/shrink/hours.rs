//! Hours of the day, in UTC, in which a node may be removed.

use jiff::{SignedDuration, Timestamp};

const DAY: i64 = 24 * 60;

/// Minutes of the day from which and to which something is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: i64,
    to: i64,
}

impl Hours {
    /// Reads `HH:MM-HH:MM`; the second may be before the first, and then is on the next day.
    pub fn read(text: &str) -> Option<Self> {
        let (from, to) = text.trim().split_once('-')?;
        let (from, to) = (minute(from)?, minute(to)?);
        // Nothing tells whether equal times mean never or always.
        (from != to && from < DAY).then_some(Self { from, to })
    }

    /// When it is allowed next: `None` when it is now.
    pub fn next(self, now: Timestamp) -> Option<Timestamp> {
        let second = now.as_second().rem_euclid(DAY * 60);
        let minute = second / 60;
        let inside = match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        };
        if inside {
            return None;
        }
        let wait = (self.from * 60 - second).rem_euclid(DAY * 60);
        let start = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Some(start.checked_add(SignedDuration::from_secs(wait)).unwrap_or(Timestamp::MAX))
    }
}

fn minute(text: &str) -> Option<i64> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str| -> Option<i64> {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse().ok() } else { None }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= DAY).then_some(minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 / 86400 * 86400 + hour * 3600 + minute * 60).unwrap()
    }

    #[test]
    fn within_a_day_and_over_night() {
        let day = Hours::read("08:30-17:00").unwrap();
        assert_eq!(day.next(at(8, 30)), None);
        assert_eq!(day.next(at(16, 59)), None);
        assert_eq!(day.next(at(17, 0)), Some(at(32, 30)));
        assert_eq!(day.next(at(8, 29)), Some(at(8, 30)));
        let night = Hours::read(" 22:00 - 06:00 ").unwrap();
        assert_eq!(night.next(at(23, 0)), None);
        assert_eq!(night.next(at(5, 59)), None);
        assert_eq!(night.next(at(6, 0)), Some(at(22, 0)));
        assert_eq!(Hours::read("00:00-24:00").unwrap().next(at(12, 0)), None);
    }

    #[test]
    fn malformed() {
        for text in [
            "",
            "22-6",
            "22:00",
            "25:00-01:00",
            "22:60-23:00",
            "22:00-22:00",
            "24:00-01:00",
            "1:00-2:00",
            "+1:00-02:00",
        ] {
            assert_eq!(Hours::read(text), None, "{text}");
        }
    }
}
