//! `fresh.rs` once more, on primitives of shuttle: a reading is shared in every order in which the steps of
//! those who need it can come.

use std::{
    cell::Cell,
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use shuttle::{
    future::{block_on, yield_now},
    thread::spawn,
};

use fresh::Fresh;

mod sync {
    pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};
}

#[path = "fresh.rs"]
#[expect(clippy::duplicate_mod, reason = "the point of it is to be the same code")]
mod fresh;

/// Orders that are tried at random, each kind.
const ORDERS: usize = 2_000;

/// Something that is read and changes all the time: it counts the steps of everybody.
#[derive(Clone, Default)]
struct Bench {
    fresh: Arc<Fresh<usize>>,
    now: Arc<AtomicUsize>,
    readings: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
    /// How many wait for somebody else who reads.
    waiting: Arc<AtomicUsize>,
    /// How many have to before he comes to an end.
    until: usize,
}

impl Bench {
    fn tick(&self) -> usize {
        self.now.fetch_add(1, Ordering::Relaxed)
    }

    /// Reads it, or has what somebody else reads.
    async fn read(self) {
        let came = self.tick();
        let reads = Cell::new(false);
        let read = || async {
            reads.set(true);
            assert_eq!(self.under_way.fetch_add(1, Ordering::Relaxed), 0, "two at a time");
            self.readings.fetch_add(1, Ordering::Relaxed);
            let seen = self.tick();
            yield_now().await;
            while self.waiting.load(Ordering::Relaxed) < self.until {
                yield_now().await;
            }
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, Infallible>(seen)
        };
        let mut reading = pin!(self.fresh.read(read));
        let mut counted = false;
        let seen = poll_fn(|context| {
            let polled = reading.as_mut().poll(context);
            if polled.is_pending() && !reads.get() && !counted {
                counted = true;
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            polled
        });
        let seen = *seen.await.unwrap();
        assert!(seen > came, "what was read at {seen} is told to who came at {came}");
    }

    /// Lets so many read at the same time.
    fn read_together(&self, count: usize) {
        let task = |bench: Self| spawn(move || block_on(bench.read()));
        let tasks: Vec<_> = (0..count).map(|_| task(self.clone())).collect();
        for task in tasks {
            task.join().unwrap();
        }
    }
}

fn in_many_orders(body: fn()) {
    shuttle::check_random(body, ORDERS);
    shuttle::check_pct(body, ORDERS, 3);
}

#[test]
fn nobody_has_what_was_read_before_he_asked() {
    in_many_orders(|| Bench::default().read_together(4));
}

#[test]
fn all_who_ask_while_somebody_reads_share_the_next_reading() {
    in_many_orders(|| {
        let bench = Bench { until: 3, ..Bench::default() };
        bench.read_together(4);
        // One more at most: those who came before the first was begun share that.
        assert!(bench.readings.load(Ordering::Relaxed) <= 2);
    });
}
