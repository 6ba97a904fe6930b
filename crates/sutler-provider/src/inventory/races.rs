//! `keeper.rs` once more, on primitives of shuttle and a clock that goes on while the keeper sleeps: whatever
//! the order in which the steps of those who share an inventory come, nobody waits in vain.

use std::{cell::Cell, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, channel::oneshot, future::select, stream};
use jiff::Timestamp;
use shuttle::{
    future::{block_on, yield_now},
    sync::{Arc, Condvar, Mutex},
    thread::spawn,
};

use super::view::{self, View};
use crate::{
    clock::Clock,
    contract::EventStream,
    error::Result,
    identity::MachineId,
    machine::{Listing, Machine, Power},
};
use keeper::{Inventory, News, Settings, Source, elapsed};

mod sync {
    use std::time::Duration;

    pub(super) use shuttle::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    };

    /// Time goes on while the keeper sleeps. What only a list brings that nobody waits for is too far off.
    pub(super) async fn sleep(pause: Option<Duration>) {
        match pause.filter(|pause| *pause < super::FAR) {
            Some(pause) => {
                shuttle::future::yield_now().await;
                super::pass(pause + Duration::from_millis(1));
            }
            None => std::future::pending().await,
        }
    }
}

#[path = "keeper.rs"]
#[expect(dead_code, unreachable_pub, reason = "what others need of it is not needed here")]
#[expect(clippy::duplicate_mod, reason = "the point of it is to be the same code")]
mod keeper;

/// Orders that are tried at random, each kind.
const ORDERS: usize = 1_000;

const INTERVAL: Duration = Duration::from_secs(10);
const FAR: Duration = Duration::from_secs(3600);

thread_local! {
    /// Milliseconds since it began: all that takes part runs in one thread, by turns.
    static NOW: Cell<i64> = const { Cell::new(0) };
}

fn pass(time: Duration) -> Timestamp {
    let passed = i64::try_from(time.as_millis()).unwrap();
    NOW.set(NOW.get() + passed);
    Virtual.now()
}

struct Virtual;

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(NOW.get()).unwrap()
    }
}

/// A platform with one machine, which remembers when it was listed.
#[derive(Default)]
struct Platform(Mutex<Vec<Timestamp>>);

#[async_trait]
impl Source for Platform {
    async fn list(&self) -> Result<Listing> {
        self.0.lock().unwrap().push(Virtual.now());
        yield_now().await;
        Ok(Listing { machines: vec![Machine::new("1", "a", Power::On)], complete: true })
    }

    async fn events(&self) -> Result<EventStream> {
        Ok(stream::pending().boxed())
    }
}

/// An inventory that is kept while others do something, and when its platform was listed.
fn while_kept(others: impl FnOnce(&Arc<Shared>)) -> Vec<Timestamp> {
    NOW.set(0);
    let settings = Settings { interval: INTERVAL, resync: 2 * FAR, ..Settings::default() };
    let shared = Arc::new(Shared {
        inventory: Inventory::new(settings, std::sync::Arc::new(Virtual)),
        platform: Platform::default(),
        listed: Mutex::default(),
        news: Condvar::new(),
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let keeper = spawn({
        let shared = shared.clone();
        move || {
            let news = |item| {
                if matches!(item, News::Listed { .. }) {
                    *shared.listed.lock().unwrap() += 1;
                    shared.news.notify_all();
                }
            };
            let keep = shared.inventory.keep(&shared.platform, &news);
            block_on(select(std::pin::pin!(keep), stopped));
        }
    });
    others(&shared);
    drop(stop);
    keeper.join().unwrap();
    shared.platform.0.lock().unwrap().clone()
}

struct Shared {
    inventory: std::sync::Arc<Inventory>,
    platform: Platform,
    listed: Mutex<u32>,
    news: Condvar,
}

impl Shared {
    /// Waits for a list that shows at least this time. Where nobody ever makes one, shuttle says so.
    fn wait_for(&self, as_of: Timestamp) {
        self.inventory.want(as_of);
        let mut listed = self.listed.lock().unwrap();
        while self.inventory.read(View::complete_as_of) < Some(as_of) {
            listed = self.news.wait(listed).unwrap();
        }
    }
}

fn in_many_orders(body: fn()) {
    shuttle::check_random(body, ORDERS);
    shuttle::check_pct(body, ORDERS, 3);
}

#[test]
fn whoever_wants_a_list_has_it_and_no_two_are_closer_than_the_interval() {
    in_many_orders(|| {
        let lists = while_kept(|shared| {
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let shared = shared.clone();
                    spawn(move || shared.wait_for(pass(Duration::from_millis(1))))
                })
                .collect();
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
        assert!(lists.len() <= 4, "{lists:?}");
        // A list may be sent a moment after it was begun: the clock goes on with each who waits.
        let least = INTERVAL - Duration::from_millis(3);
        assert!(lists.windows(2).all(|two| elapsed(two[0], two[1]) >= least), "{lists:?}");
    });
}

#[test]
fn what_was_seen_last_counts_in_whatever_order_it_is_told() {
    in_many_orders(|| {
        while_kept(|shared| {
            let id: MachineId = "1".into();
            // The list is of a time before all of them.
            shared.wait_for(Virtual.now());
            let looks = [Some(Machine::new("1", "a", Power::On)), None]
                .map(|found| (found, pass(INTERVAL)));
            let gone = looks[1].1;
            let looks = looks.map(|(found, begun)| {
                let (shared, id) = (shared.clone(), id.clone());
                spawn(move || shared.inventory.note(&id, found, begun))
            });
            for look in looks {
                look.join().unwrap();
            }
            // A list that was begun later still may show it again.
            let (there, listed) = shared
                .inventory
                .read(|view: &view::View| (view.get(&id).is_some(), view.complete_as_of()));
            assert!(!there || listed >= Some(gone), "an older look came back");
        });
    });
}
