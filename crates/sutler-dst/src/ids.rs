//! The time and the identifiers of a run.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;

/// When every run begins, in seconds since 1970.
const BEGIN: u64 = 1_800_000_000;

/// Virtual time.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock(Instant);

impl VirtualClock {
    /// A clock that begins now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(BEGIN) + (Instant::now() - self.0)
    }
}

impl sutler_provider::Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.elapsed()
    }
}

impl sutler_store::Clock for VirtualClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.elapsed()
    }
}

/// Identifiers that follow the seed.
pub struct SeededIds(Mutex<StdRng>);

impl SeededIds {
    /// Identifiers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed ^ 0x1d5)))
    }

    fn draw(&self) -> u128 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random()
    }
}

impl sutler_store::Ids for SeededIds {
    fn uid(&self) -> String {
        let bits = self.draw();
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            (bits >> 96) as u32,
            (bits >> 80) as u16,
            (bits >> 64) as u16 & 0xfff,
            (bits >> 48) as u16 & 0xfff,
            bits as u64 & 0xffff_ffff_ffff
        )
    }

    fn suffix(&self) -> String {
        format!("{:05x}", self.draw() as u32 & 0xf_ffff)
    }
}
