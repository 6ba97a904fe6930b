//! How an inventory is kept.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;

use super::{
    Inventory, News, Settings, Source, View,
    keeper::{elapsed, lock},
};
use crate::{
    clock::Clock,
    contract::EventStream,
    error::{Error, ErrorKind, Result},
    machine::{Event, Listing, Machine, Power},
};

struct Paused(tokio::time::Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + (tokio::time::Instant::now() - self.0)
    }
}

#[derive(Default)]
struct Fake {
    machines: Mutex<Vec<Machine>>,
    lists: AtomicU64,
    fail: AtomicBool,
    events: Mutex<Option<futures::channel::mpsc::UnboundedReceiver<Event>>>,
}

#[async_trait]
impl Source for Fake {
    async fn list(&self) -> Result<Listing> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        if self.fail.load(Ordering::Relaxed) {
            return Err(Error::unavailable("down"));
        }
        Ok(Listing { machines: lock(&self.machines).clone(), complete: true })
    }

    async fn events(&self) -> Result<EventStream> {
        match lock(&self.events).take() {
            Some(receiver) => Ok(receiver.boxed()),
            None => Ok(stream::pending().boxed()),
        }
    }
}

fn inventory(settings: Settings) -> Arc<Inventory> {
    Inventory::new(settings, Arc::new(Paused(tokio::time::Instant::now())))
}

async fn keep_for(inventory: &Inventory, source: &Fake, time: Duration) -> Vec<News> {
    let heard = Mutex::new(Vec::new());
    let news = |item| lock(&heard).push(item);
    let _ = tokio::time::timeout(time, inventory.keep(source, &news)).await;
    heard.into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn d8_a_thousand_who_wait_share_one_list_per_interval() {
    let inventory = inventory(Settings { resync: Duration::from_secs(3600), ..Default::default() });
    let source = Fake::default();
    let waiting = inventory.clone();
    let news = move |item: News| {
        if matches!(item, News::Listed { .. }) {
            for _ in 0..1000 {
                waiting.want(waiting.clock.now() + Duration::from_millis(1));
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(101), inventory.keep(&source, &news)).await;
    assert_eq!(source.lists.load(Ordering::Relaxed), 11);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_takes_long_is_followed_by_a_pause() {
    struct Slow(Mutex<Vec<Timestamp>>, Arc<Inventory>);

    #[async_trait]
    impl Source for Slow {
        async fn list(&self) -> Result<Listing> {
            lock(&self.0).push(self.1.clock.now());
            tokio::time::sleep(Duration::from_secs(12)).await;
            self.1.want(self.1.clock.now() + Duration::from_millis(1));
            Ok(Listing { machines: Vec::new(), complete: true })
        }

        async fn events(&self) -> Result<EventStream> {
            Ok(stream::pending().boxed())
        }
    }

    let inventory = inventory(Settings::default());
    let source = Slow(Mutex::default(), inventory.clone());
    let _ = tokio::time::timeout(Duration::from_secs(100), inventory.keep(&source, &|_| ())).await;
    let begun = source.0.into_inner().unwrap();
    assert_eq!(begun.len(), 6, "{begun:?}");
    assert!(
        begun.windows(2).all(|two| elapsed(two[0], two[1]) >= Duration::from_secs(17)),
        "{begun:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_and_few_lists_are_read() {
    let inventory = inventory(Settings::default());
    let source = Fake::default();
    keep_for(&inventory, &source, Duration::from_secs(170)).await;
    assert_eq!(source.lists.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_lies_ahead_is_met_after_its_time_and_the_lag() {
    let settings = Settings {
        lag: Duration::from_secs(5),
        resync: Duration::from_secs(3600),
        ..Default::default()
    };
    let inventory = inventory(settings);
    let source = Fake::default();
    inventory.want(Timestamp::UNIX_EPOCH + Duration::from_secs(40));
    keep_for(&inventory, &source, Duration::from_secs(44)).await;
    assert_eq!(source.lists.load(Ordering::Relaxed), 1);
    assert!(inventory.read(View::complete_as_of) < Some(Timestamp::UNIX_EPOCH));
    keep_for(&inventory, &source, Duration::from_secs(20)).await;
    let as_of = inventory.read(View::complete_as_of).unwrap();
    assert!(as_of >= Timestamp::UNIX_EPOCH + Duration::from_secs(40), "{as_of}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_changes_nothing_that_is_known() {
    let inventory = inventory(Settings::default());
    let source = Fake::default();
    lock(&source.machines).push(Machine::new("1", "a", Power::On));
    keep_for(&inventory, &source, Duration::from_secs(1)).await;
    source.fail.store(true, Ordering::Relaxed);
    let news = keep_for(&inventory, &source, Duration::from_secs(100)).await;
    assert!(news.iter().all(
        |item| matches!(item, News::Failed { call: "list", error } if error.kind() == ErrorKind::Unavailable)
    ));
    assert!(inventory.read(|view| view.get(&"1".into()).is_some()));
}

#[tokio::test(start_paused = true)]
async fn events_are_taken_in_as_they_come_and_a_lost_one_asks_for_a_list() {
    let settings =
        Settings { events: true, resync: Duration::from_secs(3600), ..Default::default() };
    let inventory = inventory(settings);
    let source = Fake::default();
    let (sender, receiver) = futures::channel::mpsc::unbounded();
    *lock(&source.events) = Some(receiver);
    sender.unbounded_send(Event::Changed(Box::new(Machine::new("1", "a", Power::On)))).unwrap();
    let news = keep_for(&inventory, &source, Duration::from_secs(1)).await;
    assert!(news.contains(&News::Changed(vec!["1".into()])));

    let (sender, receiver) = futures::channel::mpsc::unbounded();
    *lock(&source.events) = Some(receiver);
    lock(&source.machines).push(Machine::new("2", "b", Power::On));
    sender.unbounded_send(Event::Lost).unwrap();
    let before = source.lists.load(Ordering::Relaxed);
    let news = keep_for(&inventory, &source, Duration::from_secs(15)).await;
    assert!(source.lists.load(Ordering::Relaxed) > before);
    assert!(
        news.iter().any(|item| matches!(item, News::Changed(ids) if ids.contains(&"2".into())))
    );
    drop(sender);
}
