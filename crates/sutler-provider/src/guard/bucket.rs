//! The rate limit, as a state machine that is told the time.

use std::time::Duration;

use tokio::time::Instant;

/// The longest that a platform's own wish is taken for: a wrong one must not close it for good.
const LONGEST_HOLD: Duration = Duration::from_secs(15 * 60);

/// The longest time between two tokens that is worth telling apart from never.
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// How fast tokens come back, and how many can be saved up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    interval: Duration,
    burst: u32,
}

impl Rate {
    /// `qps` tokens per second, of which `burst` can be saved up. No rate is any rate.
    pub(super) fn new(qps: f64, burst: u32) -> Self {
        let interval = if qps > 0.0 {
            // Rounded up, so that the rate is never more than was asked for.
            let nanos = (1e9 / qps).ceil();
            if nanos < LONGEST_INTERVAL.as_nanos() as f64 {
                Duration::from_nanos(nanos as u64)
            } else {
                LONGEST_INTERVAL
            }
        } else {
            Duration::ZERO
        };
        Self { interval, burst: burst.max(1) }
    }

    fn tolerance(self) -> Duration {
        self.interval.saturating_mul(self.burst - 1)
    }
}

/// A bucket of tokens. It is kept as the time at which it would be full again, so it is exact and
/// nothing is lost to rounding.
#[derive(Debug)]
pub(super) struct Bucket {
    full_at: Instant,
    held_until: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(now: Instant) -> Self {
        Self { full_at: now, held_until: now }
    }

    /// Takes a token, or says when there will be one if nobody else takes it.
    pub(super) fn take(&mut self, now: Instant, rate: Rate) -> Result<(), Instant> {
        if self.held_until > now {
            return Err(self.held_until);
        }
        let missing = self.full_at.saturating_duration_since(now);
        let tolerance = rate.tolerance();
        if missing > tolerance {
            return Err(now + (missing - tolerance));
        }
        self.full_at = self.full_at.max(now) + rate.interval;
        Ok(())
    }

    /// Gives nothing out for a while, because the platform wants to be left alone.
    pub(super) fn hold(&mut self, now: Instant, pause: Duration) {
        self.held_until = self.held_until.max(now + pause.min(LONGEST_HOLD));
    }

    /// Goes over from one rate to another; tokens that are missing stay missing.
    pub(super) fn retune(&mut self, now: Instant, from: Rate, to: Rate) {
        let missing = self.full_at.saturating_duration_since(now);
        if from.interval.is_zero() || missing.is_zero() {
            self.full_at = now;
            return;
        }
        let tokens = missing.as_secs_f64() / from.interval.as_secs_f64();
        // No more can be missing than there is room for, and then the next one comes in one interval.
        let tokens = tokens.min(f64::from(to.burst));
        self.full_at = now + to.interval.mul_f64(tokens);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn drain(bucket: &mut Bucket, now: Instant, rate: Rate) -> usize {
        (0..1000).take_while(|_| bucket.take(now, rate).is_ok()).count()
    }

    #[test]
    fn a_full_bucket_gives_a_burst_and_then_the_rate() {
        let start = Instant::now();
        let rate = Rate::new(10.0, 20);
        let mut bucket = Bucket::new(start);
        assert_eq!(drain(&mut bucket, start, rate), 20);
        assert_eq!(bucket.take(start, rate), Err(start + SECOND / 10));
        assert_eq!(drain(&mut bucket, start + SECOND, rate), 10);
        assert_eq!(drain(&mut bucket, start + SECOND * 100, rate), 20, "no more than full");
    }

    #[test]
    fn no_rate_is_any_rate() {
        let start = Instant::now();
        for qps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(drain(&mut Bucket::new(start), start, Rate::new(qps, 0)), 1000, "{qps}");
        }
        let slow = Rate::new(f64::MIN_POSITIVE, u32::MAX);
        assert_eq!(drain(&mut Bucket::new(start), start, slow), 1000);
        let slow = Rate::new(f64::MIN_POSITIVE, 0);
        assert_eq!(drain(&mut Bucket::new(start), start, slow), 1);
    }

    #[test]
    fn a_platform_that_wants_to_be_left_alone_is() {
        let start = Instant::now();
        let rate = Rate::new(10.0, 5);
        let mut bucket = Bucket::new(start);
        bucket.hold(start, SECOND * 7);
        bucket.hold(start, SECOND);
        assert_eq!(bucket.take(start + SECOND * 6, rate), Err(start + SECOND * 7));
        assert_eq!(drain(&mut bucket, start + SECOND * 7, rate), 5);
        bucket.hold(start, Duration::MAX);
        assert_eq!(bucket.take(start, rate), Err(start + LONGEST_HOLD));
    }

    #[test]
    fn missing_tokens_stay_missing_at_another_rate() {
        let start = Instant::now();
        let (fast, slow) = (Rate::new(10.0, 20), Rate::new(1.0, 20));
        let mut bucket = Bucket::new(start);
        assert_eq!(drain(&mut bucket, start, fast), 20);
        bucket.retune(start, fast, slow);
        assert_eq!(bucket.take(start, slow), Err(start + SECOND));
        bucket.retune(start, slow, fast);
        assert_eq!(bucket.take(start, fast), Err(start + SECOND / 10));
        let small = Rate::new(10.0, 1);
        bucket.retune(start, fast, small);
        assert_eq!(bucket.take(start, small), Err(start + SECOND / 10));
        let any = Rate::new(0.0, 1);
        bucket.retune(start, small, any);
        assert_eq!(bucket.take(start, any), Ok(()));
        bucket.retune(start, any, slow);
        assert_eq!(drain(&mut bucket, start, slow), 20);
    }

    proptest! {
        /// In no stretch of time are there more tokens than a full bucket and what came in meanwhile; and
        /// who waits for as long as was said gets one, and not a moment earlier.
        #[test]
        fn tokens_keep_to_the_rate(
            qps in 0.01f64..10_000.0, burst in 0u32..30,
            steps in prop::collection::vec((0u64..2_000_000_000, any::<bool>()), 1..100),
        ) {
            let rate = Rate::new(qps, burst);
            let mut now = Instant::now();
            let mut bucket = Bucket::new(now);
            let mut given = Vec::new();
            for (pause, wait) in steps {
                now += Duration::from_nanos(pause);
                match bucket.take(now, rate) {
                    Ok(()) => given.push(now),
                    Err(ready) => {
                        prop_assert!(ready > now);
                        prop_assert!(bucket.take(ready - Duration::from_nanos(1), rate).is_err());
                        if wait {
                            now = ready;
                            prop_assert_eq!(bucket.take(now, rate), Ok(()));
                            given.push(now);
                        }
                    }
                }
            }
            let interval = 1.0 / qps;
            for (i, first) in given.iter().enumerate() {
                for (count, last) in (1u32..).zip(&given[i..]) {
                    let came = (*last - *first).as_secs_f64() / interval;
                    prop_assert!(f64::from(count) <= f64::from(burst.max(1)) + came + 1e-6);
                }
            }
        }

        /// A change of the rate never gives more at once than the new bucket holds, and never less than
        /// one token per interval.
        #[test]
        fn another_rate_is_kept_from_the_first_moment(
            qps in (0.1f64..100.0, 0.1f64..100.0), burst in (1u32..30, 1u32..30), taken in 0usize..40,
        ) {
            let now = Instant::now();
            let (from, to) = (Rate::new(qps.0, burst.0), Rate::new(qps.1, burst.1));
            let mut bucket = Bucket::new(now);
            let taken = (0..taken).take_while(|_| bucket.take(now, from).is_ok()).count() as u32;
            bucket.retune(now, from, to);
            let left = drain(&mut bucket, now, to) as u32;
            let expected = burst.1.saturating_sub(taken);
            // A rounding of nanoseconds may cost the last one for that long.
            prop_assert!(left == expected || left + 1 == expected, "{left} of {expected}");
            prop_assert_eq!(bucket.take(now + to.interval, to), Ok(()));
        }
    }
}
