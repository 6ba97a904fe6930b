//! How soon one record's status is written again.

use std::time::Duration;

use jiff::Timestamp;

/// The least pause between two writes of one record's status.
const LEAST: Duration = Duration::from_millis(50);

/// The longest pause that comes of others who write the same record.
const MOST: Duration = Duration::from_secs(5);

/// The writes of one record's status that this process made. Two processes that see things differently
/// answer each other: the longer they do, the longer each of them waits, and what there is to see is the
/// same for both meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The last one.
    last: Option<Timestamp>,
    /// The version that it left.
    left: u64,
    /// The pause after it.
    pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { last: None, left: 0, pause: LEAST }
    }
}

impl Pace {
    /// When the next one may be.
    pub(crate) fn next(&self) -> Timestamp {
        self.after(self.pause)
    }

    /// Notes one that was made over the version `over` and left the version `left`.
    pub(crate) fn wrote(&mut self, now: Timestamp, over: u64, left: u64) {
        let answered = over != self.left && now < self.after(self.pause * 2);
        self.pause = if answered { (self.pause * 2).min(MOST) } else { LEAST };
        (self.last, self.left) = (Some(now), left);
    }

    fn after(&self, pause: Duration) -> Timestamp {
        let at = self.last.map(|last| last.saturating_add(pause).unwrap_or(Timestamp::MAX));
        at.unwrap_or(Timestamp::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_answered_waits_longer_and_longer() {
        let (mut pace, mut now) = (Pace::default(), Timestamp::UNIX_EPOCH);
        let (mut version, mut writes) = (1, 0);
        let end = now + Duration::from_secs(600);
        assert_eq!(pace.next(), Timestamp::MIN);
        while now < end {
            // Somebody else has written in between.
            pace.wrote(now, version + 1, version + 2);
            (version, writes) = (version + 2, writes + 1);
            now = pace.next();
        }
        assert!((120..130).contains(&writes), "{writes} writes in ten minutes");
        // Once nobody answers any more, what is new is written soon.
        pace.wrote(now, version, version + 1);
        assert_eq!(pace.next(), now + LEAST);
    }

    #[test]
    fn who_is_alone_or_seldom_answered_waits_for_nothing() {
        let (mut pace, begun) = (Pace::default(), Timestamp::UNIX_EPOCH);
        pace.wrote(begun, 1, 2);
        for round in 1..100u64 {
            let now = begun + LEAST * u32::try_from(round).unwrap();
            assert!(pace.next() <= now);
            pace.wrote(now, round + 1, round + 2);
        }
        let mut pace = Pace::default();
        for round in 0..100u64 {
            let now = begun + Duration::from_secs(round);
            assert!(pace.next() <= now, "a person who edits every second is answered every second");
            pace.wrote(now, round * 3, round * 3 + 1);
        }
    }
}
