//! What the server counts. Each count is one atomic addition; whoever serves metrics reads them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The verbs that are told apart; the last one is everything else.
const VERBS: [&str; 9] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "other"];
/// The classes of answers.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Counts of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: [[AtomicU64; CLASSES.len()]; VERBS.len()],
    micros: [AtomicU64; VERBS.len()],
    watches: AtomicI64,
    watches_behind: AtomicU64,
    watches_expired: AtomicU64,
}

impl Metrics {
    /// Requests so far, by verb and class of answer.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        VERBS.iter().zip(&self.requests).flat_map(|(verb, counts)| {
            CLASSES
                .iter()
                .zip(counts)
                .map(|(class, count)| (*verb, *class, count.load(Ordering::Relaxed)))
        })
    }

    /// Time spent on requests so far, by verb; of watches only until they were open.
    pub fn time(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        let times = self.micros.iter().map(|m| Duration::from_micros(m.load(Ordering::Relaxed)));
        VERBS.into_iter().zip(times)
    }

    /// Watches that are open.
    pub fn watches(&self) -> i64 {
        self.watches.load(Ordering::Relaxed)
    }

    /// Times that a watch fell behind what is kept for it, and read the log again.
    pub fn watches_behind(&self) -> u64 {
        self.watches_behind.load(Ordering::Relaxed)
    }

    /// Watches that ended with 410, because the log no longer reached back to them.
    pub fn watches_expired(&self) -> u64 {
        self.watches_expired.load(Ordering::Relaxed)
    }

    pub(crate) fn watch_behind(&self) {
        self.watches_behind.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn watch_expired(&self) {
        self.watches_expired.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, verb: &str, code: http::StatusCode, took: Duration) {
        let verb = VERBS.iter().position(|v| *v == verb).unwrap_or(VERBS.len() - 1);
        let class = usize::from(code.as_u16() / 100).clamp(2, 5) - 2;
        self.requests[verb][class].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros[verb].fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a watch until what is returned is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> OpenWatch {
        self.watches.fetch_add(1, Ordering::Relaxed);
        OpenWatch(self.clone())
    }
}

/// A watch that is counted as open.
pub(crate) struct OpenWatch(Arc<Metrics>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_verb_and_class() {
        let metrics = Arc::new(Metrics::default());
        metrics.answered("create", http::StatusCode::CREATED, Duration::from_micros(5));
        metrics.answered("head", http::StatusCode::NOT_FOUND, Duration::ZERO);
        let open = metrics.watch();
        let counted: Vec<_> = metrics.requests().filter(|(_, _, n)| *n > 0).collect();
        assert_eq!(counted, [("create", "2xx", 1), ("other", "4xx", 1)]);
        assert_eq!(metrics.time().find(|(v, _)| *v == "create").unwrap().1.as_micros(), 5);
        assert_eq!(metrics.watches(), 1);
        drop(open);
        assert_eq!(metrics.watches(), 0);
    }
}
