//! What a connection has been doing lately, so that one that does nothing can be told from one
//! that is slow on purpose and from one that is at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// No head of a request is being read.
const NONE: u64 = u64::MAX;

/// One connection's pace. Times are milliseconds since it began.
pub(super) struct Pace {
    start: Instant,
    in_flight: AtomicUsize,
    /// When the last request ended.
    idle_since: AtomicU64,
    /// When the head of a request that is not complete yet began.
    head_since: AtomicU64,
    /// Whether bytes from the client mean a request. In HTTP/2 they may be pings.
    bytes_are_heads: AtomicBool,
    /// Asked for by the service's answer: finish what is there and take no more.
    closing: Notify,
}

/// What to do about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing; look again then.
    Keep(Instant),
    /// It has been idle for long: say goodbye.
    Goodbye,
    /// It is slow in sending a request: no more of it.
    Drop,
}

impl Pace {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            in_flight: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NONE),
            bytes_are_heads: AtomicBool::new(false),
            closing: Notify::new(),
        })
    }

    /// The handshake is done, and the first request is due.
    pub(super) fn begin(&self, http2: bool) {
        self.bytes_are_heads.store(!http2, Ordering::Relaxed);
        self.head_since.store(self.now(), Ordering::Relaxed);
        self.idle_since.store(self.now(), Ordering::Relaxed);
    }

    /// Bytes have come from the client.
    pub(super) fn received(&self) {
        if self.bytes_are_heads.load(Ordering::Relaxed)
            && self.in_flight.load(Ordering::Relaxed) == 0
            && self.head_since.load(Ordering::Relaxed) == NONE
        {
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The head of a request is complete; it is in flight until the guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(NONE, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    pub(super) fn close(&self) {
        self.closing.notify_one();
    }

    pub(super) async fn closed(&self) {
        self.closing.notified().await;
    }

    pub(super) fn verdict(&self, header_timeout: Duration, idle_timeout: Duration) -> Verdict {
        let now = self.now();
        let again = |millis: u64| Verdict::Keep(self.start + Duration::from_millis(millis));
        // Heads may begin between two looks, so looks are closer together than the time-out.
        let soon = now + millis(header_timeout) / 4 + 1;
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return again(soon);
        }
        let idle_end = self.idle_since.load(Ordering::Relaxed) + millis(idle_timeout);
        let head = self.head_since.load(Ordering::Relaxed);
        let head_end = match head {
            NONE => NONE,
            since => since + millis(header_timeout),
        };
        if head_end <= now {
            Verdict::Drop
        } else if head == NONE && idle_end <= now {
            Verdict::Goodbye
        } else {
            again(soon.min(head_end).min(idle_end.max(now + 1)))
        }
    }

    fn now(&self) -> u64 {
        millis(self.start.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NONE / 4).min(NONE / 4)
}

/// A request from its head to the end of its answer.
pub(super) struct InFlight(Arc<Pace>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(30);
    const IDLE: Duration = Duration::from_secs(120);

    async fn after(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_is_due_in_time() {
        for http2 in [false, true] {
            let pace = Pace::new();
            pace.begin(http2);
            after(29).await;
            assert!(matches!(pace.verdict(HEAD, IDLE), Verdict::Keep(_)));
            after(2).await;
            assert_eq!(pace.verdict(HEAD, IDLE), Verdict::Drop);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_flight_keep_a_connection() {
        let pace = Pace::new();
        pace.begin(false);
        let request = pace.request();
        after(10_000).await;
        assert!(matches!(pace.verdict(HEAD, IDLE), Verdict::Keep(_)));
        drop(request);
        after(119).await;
        assert!(matches!(pace.verdict(HEAD, IDLE), Verdict::Keep(_)));
        after(2).await;
        assert_eq!(pace.verdict(HEAD, IDLE), Verdict::Goodbye);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_must_be_finished_once_begun() {
        let pace = Pace::new();
        pace.begin(false);
        drop(pace.request());
        after(100).await;
        pace.received();
        after(25).await;
        pace.received();
        assert!(matches!(pace.verdict(HEAD, IDLE), Verdict::Keep(_)), "idle no more");
        after(6).await;
        assert_eq!(pace.verdict(HEAD, IDLE), Verdict::Drop);
        // In HTTP/2, bytes alone say nothing: it is idle all the same.
        let pace = Pace::new();
        pace.begin(true);
        drop(pace.request());
        after(121).await;
        pace.received();
        assert_eq!(pace.verdict(HEAD, IDLE), Verdict::Goodbye);
    }
}
