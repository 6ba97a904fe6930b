//! How often one object is written: as often as it changes for a while, and then once a second. Two
//! processes that overlap and know different things would otherwise answer each other's writes for as long
//! as both live.

use std::time::Duration;

use jiff::Timestamp;

/// One more write is granted every so often.
const EVERY: Duration = Duration::from_secs(1);

/// Writes that are granted at once to who has long made none.
const AT_ONCE: u32 = 6;

/// The writes of one object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// When all writes so far will have been paid for.
    paid: Option<Timestamp>,
}

impl Pace {
    /// Takes a write, or tells how long to wait for it.
    pub fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        let paid = self.paid.filter(|paid| *paid > now).unwrap_or(now);
        let owed = Duration::try_from(paid.duration_since(now)).unwrap_or_default();
        match owed.checked_sub(EVERY * (AT_ONCE - 1)).filter(|wait| !wait.is_zero()) {
            Some(wait) => Err(wait),
            None => {
                self.paid = Some(paid.saturating_add(EVERY).unwrap_or(Timestamp::MAX));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_writes_come_at_once_and_then_one_a_second() {
        let at = |millis: i64| Timestamp::from_millisecond(1_000_000 + millis).unwrap();
        let mut pace = Pace::default();
        for _ in 0..AT_ONCE {
            assert_eq!(pace.take(at(0)), Ok(()));
        }
        assert_eq!(pace.take(at(0)), Err(Duration::from_secs(1)));
        assert_eq!(pace.take(at(400)), Err(Duration::from_millis(600)));
        assert_eq!(pace.take(at(1_000)), Ok(()));
        assert_eq!(pace.take(at(1_000)), Err(Duration::from_secs(1)));
        // Who has been quiet for long may write as at first, and no more.
        let granted = (0..100).filter(|_| pace.take(at(60_000)).is_ok()).count();
        assert_eq!(granted, AT_ONCE as usize);
    }
}
