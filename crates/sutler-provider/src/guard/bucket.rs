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
