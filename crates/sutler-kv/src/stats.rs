//! What a store counts. Each count is an atomic addition; whoever serves metrics reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of [`Stats::batches`], in writes.
const BATCHES: &[u64] = &[1, 4, 16, 64, 256];
/// Upper bounds of the buckets of [`Stats::commits`], in microseconds.
const MICROS: &[u64] = &[1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// Counts of one store since it was opened.
#[derive(Debug)]
pub struct Stats {
    writes: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    compactions: AtomicU64,
    checkpoints: AtomicU64,
    batches: Histogram,
    commits: Histogram,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            writes: AtomicU64::default(),
            refused: AtomicU64::default(),
            failed: AtomicU64::default(),
            compactions: AtomicU64::default(),
            checkpoints: AtomicU64::default(),
            batches: Histogram::new(BATCHES),
            commits: Histogram::new(MICROS),
        }
    }
}

impl Stats {
    /// Writes that were committed.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Writes whose expectation did not hold.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Writes of commits that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Times that history was forgotten.
    pub fn compactions(&self) -> u64 {
        self.compactions.load(Ordering::Relaxed)
    }

    /// Times that the write-ahead log was moved into the database.
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints.load(Ordering::Relaxed)
    }

    /// Writes per commit.
    pub fn batches(&self) -> &Histogram {
        &self.batches
    }

    /// Microseconds per commit, its sync included.
    pub fn commits(&self) -> &Histogram {
        &self.commits
    }

    /// A commit of `writes` writes, besides which `refused` were refused.
    pub(crate) fn committed(&self, writes: u64, refused: u64, took: Duration) {
        self.writes.fetch_add(writes, Ordering::Relaxed);
        self.refused.fetch_add(refused, Ordering::Relaxed);
        // Where all were refused, nothing was committed.
        if writes > 0 {
            self.batches.add(writes);
            self.commits.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn commit_failed(&self, writes: u64) {
        self.failed.fetch_add(writes, Ordering::Relaxed);
    }

    pub(crate) fn compacted(&self) {
        self.compactions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn checkpointed(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often values were how large.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One more than there are bounds: the last is for what is above all of them.
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { bounds, counts, sum: AtomicU64::default() }
    }

    fn add(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// All values together.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// The upper bound of each bucket, none for the last, and how many values are in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        bounds.zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_the_bucket_that_still_holds_them() {
        let histogram = Histogram::new(&[1, 4]);
        for value in [1, 2, 4, 5, 100] {
            histogram.add(value);
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets, [(Some(1), 1), (Some(4), 2), (None, 2)]);
        assert_eq!(histogram.sum(), 112);
    }
}
