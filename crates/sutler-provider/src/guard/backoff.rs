//! Pauses that grow from try to try.

use std::time::Duration;

/// Pauses that grow from try to try, up to the longest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// How much longer each further pause is; less than 1 counts as 1.
    pub factor: f64,
    /// The longest pause.
    pub max: Duration,
}

impl Backoff {
    /// The pause after the `attempt`-th try failed, counted from 0. `jitter` is from 0 to 1 and makes it
    /// anything from half of the pause to all of it, so that many who failed together do not come back
    /// together.
    pub fn pause(&self, attempt: u32, jitter: f64) -> Duration {
        let factor = if self.factor >= 1.0 { self.factor } else { 1.0 };
        let power = factor.powi(i32::try_from(attempt).unwrap_or(i32::MAX));
        let full = match Duration::try_from_secs_f64(self.first.as_secs_f64() * power) {
            Ok(full) => full.min(self.max),
            // More than can be counted, unless there is nothing to multiply.
            Err(_) if self.first.is_zero() => Duration::ZERO,
            Err(_) => self.max,
        };
        let half = full / 2;
        half + (full - half).mul_f64(if jitter >= 0.0 { jitter.min(1.0) } else { 0.0 })
    }
}

/// Random numbers that are the same for the same seed, on every machine: SplitMix64.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, from 0 up to but not including 1.
    pub fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        // The 53 bits that a float holds exactly.
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: millis(500), factor: 2.0, max: millis(10_000) };
        let pauses: Vec<_> = (0..7).map(|attempt| backoff.pause(attempt, 1.0)).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 10_000, 10_000].map(millis));
        assert_eq!(backoff.pause(0, 0.0), millis(250));
        assert_eq!(backoff.pause(u32::MAX, 1.0), millis(10_000));
    }

    #[test]
    fn odd_settings_make_no_odd_pauses() {
        let nothing = Backoff { first: Duration::ZERO, factor: 2.0, max: millis(10) };
        assert_eq!(nothing.pause(5000, 1.0), Duration::ZERO);
        for factor in [f64::NAN, -3.0, 0.0] {
            assert_eq!(
                Backoff { first: millis(8), factor, max: millis(10) }.pause(9, f64::NAN),
                millis(4)
            );
        }
    }

    proptest! {
        #[test]
        fn pauses_keep_their_bounds_and_grow(
            first in 0u64..100_000, factor in 0.0f64..10.0, max in 0u64..1_000_000,
            attempt in 0u32..2000, jitter in 0.0f64..1.0,
        ) {
            let backoff = Backoff { first: millis(first), factor, max: millis(max) };
            let pause = backoff.pause(attempt, jitter);
            prop_assert!(pause <= backoff.max);
            prop_assert!(pause >= backoff.first.min(backoff.max) / 2);
            prop_assert!(pause <= backoff.pause(attempt + 1, jitter));
            prop_assert!(backoff.pause(attempt, 0.0) <= pause && pause <= backoff.pause(attempt, 1.0));
        }

        #[test]
        fn the_same_seed_gives_the_same_numbers(seed: u64) {
            let (mut a, mut b) = (Jitter::new(seed), Jitter::new(seed));
            for _ in 0..100 {
                let number = a.draw();
                prop_assert_eq!(number.to_bits(), b.draw().to_bits());
                prop_assert!((0.0..1.0).contains(&number));
            }
        }
    }

    #[test]
    fn numbers_are_spread_out() {
        let mut jitter = Jitter::new(7);
        let mut buckets = [0u32; 10];
        for _ in 0..10_000 {
            buckets[(jitter.draw() * 10.0) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (850..1150).contains(count)), "{buckets:?}");
    }
}
