//! How much history a store keeps.

use std::collections::VecDeque;
use std::time::Duration;

use crate::engine::Version;

/// A bound on history by age and by number. The owner of an engine notes the newest version at
/// regular times and gives the answer to [`compact`](crate::engine::Engine::compact).
#[derive(Debug)]
pub struct Retention {
    window: Duration,
    most: u64,
    /// When a version was the newest; only as many as fit the window.
    seen: VecDeque<(Duration, Version)>,
    mark: Version,
}

impl Retention {
    /// Keeps the changes of the last `window`, but never more than `most` of them: a flood of
    /// writes must not fill the disk.
    pub fn new(window: Duration, most: u64) -> Self {
        Self { window, most, seen: VecDeque::new(), mark: 0 }
    }

    /// Notes that `newest` is the newest version at `now` (by any clock that does not go back),
    /// and says up to where history can be forgotten, if further than the last time.
    pub fn note(&mut self, now: Duration, newest: Version) -> Option<Version> {
        self.seen.push_back((now, newest));
        let mut mark = newest.saturating_sub(self.most);
        while let Some(&(at, version)) = self.seen.front()
            && now.saturating_sub(at) >= self.window
        {
            mark = mark.max(version);
            self.seen.pop_front();
        }
        if mark <= self.mark {
            return None;
        }
        self.mark = mark;
        Some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_kept_for_the_window() {
        let mut retention = Retention::new(Duration::from_secs(300), 1_000_000);
        assert_eq!(retention.note(Duration::ZERO, 10), None);
        assert_eq!(retention.note(Duration::from_secs(100), 20), None);
        assert_eq!(retention.note(Duration::from_secs(299), 30), None);
        assert_eq!(retention.note(Duration::from_secs(300), 40), Some(10));
        assert_eq!(retention.note(Duration::from_secs(301), 50), None);
        assert_eq!(retention.note(Duration::from_secs(599), 60), Some(30));
    }

    #[test]
    fn a_flood_is_bounded_by_number() {
        let mut retention = Retention::new(Duration::from_secs(300), 100);
        assert_eq!(retention.note(Duration::ZERO, 0), None);
        assert_eq!(retention.note(Duration::from_secs(1), 90), None);
        assert_eq!(retention.note(Duration::from_secs(2), 150), Some(50));
        assert_eq!(retention.note(Duration::from_secs(3), 150), None);
        assert_eq!(retention.note(Duration::from_secs(4), 500), Some(400));
        assert_eq!(retention.note(Duration::from_secs(304), 510), Some(500));
    }
}
