//! Keeps a view up to date: events where the platform has them, and lists, at most one per
//! interval, whatever the number of readers.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, future::BoxFuture};
use jiff::Timestamp;
use tokio::sync::Notify;

use super::{
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, sleep},
    view::View,
};
use crate::{
    clock::Clock,
    contract::EventStream,
    error::{Error, Result},
    identity::MachineId,
    machine::{Event, Listing, Machine},
};

/// Where an inventory comes from.
#[async_trait]
pub trait Source: Send + Sync {
    /// All machines.
    async fn list(&self) -> Result<Listing>;
    /// Changes as they happen.
    async fn events(&self) -> Result<EventStream>;
}

/// How an inventory is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The time between the beginnings of two lists, while somebody waits for one. Half of it is
    /// also the least pause after a list, which may have taken long, or several tries.
    pub interval: Duration,
    /// The pause between two lists that nobody waits for, which correct what was missed.
    pub resync: Duration,
    /// How far behind the present a list may be.
    pub lag: Duration,
    /// Whether the platform can list.
    pub list: bool,
    /// Whether the platform tells of changes.
    pub events: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            resync: Duration::from_secs(60),
            lag: Duration::ZERO,
            list: true,
            events: false,
        }
    }
}

/// News for the readers of an inventory.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// These machines changed, came or went.
    Changed(Vec<MachineId>),
    /// A list came in: whoever waits for one should look again.
    Listed {
        /// Whether it was complete.
        complete: bool,
    },
    /// A look failed. What is known stays.
    Failed {
        /// Which call it was.
        call: &'static str,
        /// Why.
        error: Error,
    },
}

/// One platform's inventory.
pub struct Inventory {
    view: Mutex<View>,
    wanted: Mutex<BTreeSet<Timestamp>>,
    settings: Mutex<Settings>,
    pub(super) clock: Arc<dyn Clock>,
    wake: Notify,
    lists: AtomicU64,
}

impl Inventory {
    /// An inventory that knows nothing yet.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            view: Mutex::new(View::new(settings.lag)),
            wanted: Mutex::default(),
            settings: Mutex::new(settings),
            clock,
            wake: Notify::new(),
            lists: AtomicU64::new(0),
        })
    }

    /// Reads what is known.
    pub fn read<R>(&self, read: impl FnOnce(&View) -> R) -> R {
        read(&lock(&self.view))
    }

    /// Takes in a look at one machine that was begun at `begun`, and tells whether it is news.
    pub fn note(&self, id: &MachineId, found: Option<Machine>, begun: Timestamp) -> bool {
        let mut view = lock(&self.view);
        match found {
            Some(machine) => view.take_machine(machine, begun),
            None => view.take_absence(id, begun),
        }
    }

    /// Asks for a complete list whose state is not older than `as_of`, which may lie ahead.
    pub fn want(&self, as_of: Timestamp) {
        if self.read(View::complete_as_of).is_some_and(|known| known >= as_of) {
            return;
        }
        // A look at a time that the next list shows anyway is a look now: those who wait share it.
        let (now, lag) = (self.clock.now(), lock(&self.settings).lag);
        let as_of = as_of.max(now.saturating_sub(lag).unwrap_or(now));
        if lock(&self.wanted).insert(as_of) {
            self.wake.notify_one();
        }
    }

    /// Changes how it is kept.
    pub fn set_settings(&self, settings: Settings) {
        lock(&self.view).set_lag(settings.lag);
        let mut current = lock(&self.settings);
        if *current != settings {
            *current = settings;
            self.wake.notify_one();
        }
    }

    /// How it is kept.
    pub fn settings(&self) -> Settings {
        *lock(&self.settings)
    }

    /// How many lists were begun.
    pub fn lists(&self) -> u64 {
        self.lists.load(Ordering::Relaxed)
    }

    /// Keeps it up to date until the future is dropped.
    pub async fn keep(&self, source: &dyn Source, news: &(dyn Fn(News) + Send + Sync)) {
        let mut events: Option<EventStream> = None;
        let mut subscribed_at: Option<Timestamp> = None;
        let mut list: Option<(Timestamp, BoxFuture<'_, Result<Listing>>)> = None;
        let mut last: Option<Timestamp> = None;
        let mut ended: Option<Timestamp> = None;
        loop {
            let settings = self.settings();
            let now = self.clock.now();
            // A stream that was lost is opened again no more often than a list would be begun.
            let reopen = subscribed_at.is_none_or(|at| elapsed(at, now) >= settings.interval);
            if settings.events && events.is_none() && reopen {
                subscribed_at = Some(now);
                match source.events().await {
                    // What happened before the stream began, only a list can tell.
                    Ok(stream) => {
                        events = Some(stream);
                        self.want(self.clock.now());
                    }
                    Err(error) => news(News::Failed { call: "events", error }),
                }
            }
            if list.is_none() && settings.list && self.due(&settings, last, ended) <= now {
                self.lists.fetch_add(1, Ordering::Relaxed);
                last = Some(now);
                list = Some((now, source.list()));
            }
            let pause = match &list {
                Some(_) => None,
                None if settings.list => Some(elapsed(now, self.due(&settings, last, ended))),
                None => Some(settings.resync),
            };
            tokio::select! {
                biased;
                event = next(&mut events) => match event {
                    None => events = None,
                    Some(event) => self.take_event(event, news),
                },
                (begun, result) = done(&mut list) => {
                    list = None;
                    ended = Some(self.clock.now());
                    self.take_list(result, begun, news);
                }
                () = self.wake.notified() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// When the next list should begin.
    fn due(
        &self,
        settings: &Settings,
        last: Option<Timestamp>,
        ended: Option<Timestamp>,
    ) -> Timestamp {
        let Some(last) = last else { return Timestamp::MIN };
        let regular = later(last, settings.resync);
        let wanted = lock(&self.wanted).first().copied();
        let due = match wanted {
            Some(as_of) => {
                later(as_of, settings.lag).max(later(last, settings.interval)).min(regular)
            }
            None => regular,
        };
        // A platform that needs as long as the interval is not listed without a pause.
        ended.map_or(due, |ended| due.max(later(ended, settings.interval / 2)))
    }

    fn take_event(&self, event: Event, news: &(dyn Fn(News) + Send + Sync)) {
        let now = self.clock.now();
        let (id, changed) = match event {
            Event::Changed(machine) => {
                let id = machine.id.clone();
                (id, lock(&self.view).take_notice(*machine, now))
            }
            Event::Gone(id) => {
                let changed = lock(&self.view).take_absence(&id, now);
                (id, changed)
            }
            Event::Lost => return self.want(now),
        };
        if changed {
            news(News::Changed(vec![id]));
        }
    }

    fn take_list(
        &self,
        result: Result<Listing>,
        begun: Timestamp,
        news: &(dyn Fn(News) + Send + Sync),
    ) {
        match result {
            Err(error) => news(News::Failed { call: "list", error }),
            Ok(listing) => {
                let complete = listing.complete;
                let changed = lock(&self.view).take_list(listing, begun);
                if let Some(known) = self.read(View::complete_as_of) {
                    lock(&self.wanted).retain(|as_of| *as_of > known);
                }
                if !changed.is_empty() {
                    news(News::Changed(changed));
                }
                news(News::Listed { complete });
            }
        }
    }
}

async fn next(events: &mut Option<EventStream>) -> Option<Event> {
    match events {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn done(
    list: &mut Option<(Timestamp, BoxFuture<'_, Result<Listing>>)>,
) -> (Timestamp, Result<Listing>) {
    match list {
        Some((begun, future)) => (*begun, future.as_mut().await),
        None => std::future::pending().await,
    }
}

fn later(from: Timestamp, by: Duration) -> Timestamp {
    from.saturating_add(by).unwrap_or(Timestamp::MAX)
}

pub(super) fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No holder can leave it half changed: every change is one call on the view or the set.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
