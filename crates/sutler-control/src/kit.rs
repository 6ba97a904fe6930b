//! What controllers are made of, here and in other crates: watches that keep a cache, a pause between
//! tries that holds no chance, and events that are told once.

use std::{
    fmt::Debug,
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Resource, ResourceExt as _,
    runtime::{
        Controller, WatchStreamExt as _,
        controller::{Action, Config},
        reflector::{self, ObjectRef, store::Writer},
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use sutler_api::names::annotations;
use tokio::sync::mpsc;

pub use crate::{
    events::Recorder,
    fleet::{Key, lock},
    machine::status_difference,
    pace::Pace,
};

/// The version of an object as a number: those of one object can be compared, on every server that
/// Kubernetes knows.
pub fn version_of(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// A kind that is watched and kept in a cache.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

/// Events of a kind, kept in its cache without what is of no use here and takes memory: who owns
/// which field, what was last applied, and what `trim` takes off.
pub fn reflect<K>(
    api: Api<K>,
    config: watcher::Config,
    writer: Writer<K>,
    trim: fn(&mut K),
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + use<K>
where
    K: Watched,
{
    watcher(api, config)
        .backoff(Steady::default())
        .modify(move |object| {
            object.managed_fields_mut().clear();
            object.annotations_mut().remove(annotations::LAST_APPLIED);
            trim(object);
        })
        .reflect(writer)
}

/// Runs one controller until the future is dropped: what `events` tell of and what is woken is handed to
/// `reconcile`, at most `concurrency` objects at the same time.
pub async fn control<K, C, E, R, Fut>(
    context: &Arc<C>,
    concurrency: u16,
    events: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
    store: reflector::Store<K>,
    woken: mpsc::UnboundedReceiver<ObjectRef<K>>,
    reconcile: R,
    error_policy: fn(Arc<K>, &E, Arc<C>) -> Action,
) where
    K: Watched,
    C: Send + Sync + 'static,
    E: std::error::Error + Send + Sync + 'static,
    R: FnMut(Arc<K>, Arc<C>) -> Fut,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
{
    let wakes =
        stream::unfold(woken, |mut woken| async move { Some((woken.recv().await?, woken)) });
    Controller::for_stream(events, store)
        .with_config(Config::default().concurrency(concurrency))
        .trigger_backoff(Steady::default())
        .reconcile_on(wakes)
        .run(reconcile, error_policy, context.clone())
        .for_each(|_| ready(()))
        .await;
}

/// The pause between two tries at a watch: it grows, and holds no chance.
#[derive(Debug, Clone, Default)]
pub struct Steady(u32);

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis(100) * 2u32.pow(self.0.min(8));
        self.0 = self.0.saturating_add(1);
        Some(pause.min(Duration::from_secs(15)))
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {
        self.0 = 0;
    }
}
