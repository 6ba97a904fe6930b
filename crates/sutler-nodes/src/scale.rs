//! Groups that grow and shrink by themselves: what is known of a cluster is kept up to date, a pure
//! function decides on it, and what it decides is written into the groups.

mod act;
mod feed;
mod groups;
mod loads;
mod usage;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use sutler_api::autoscaler::NodeGroup;
use sutler_control::kit::{Key, lock};
use sutler_scale::{Decision, decide};
use tokio::sync::Notify;

pub(crate) use usage::Source;

use crate::{
    cluster::{Cluster, Id},
    context::Context,
};

/// The least pause between two decisions: what happens together is decided on together.
const PAUSE: Duration = Duration::from_secs(2);

/// The longest pause: readings are taken this often, or more often where a window is short.
const READING: Duration = Duration::from_secs(30);

/// Readings that a window has at least.
const READINGS: i64 = 8;

/// What a group may say of its own scaling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Why it does not grow although it should.
    pub(crate) grow: Option<String>,
    /// Why none of its nodes goes.
    pub(crate) shrink: Option<String>,
    /// What would cost less and waits for a person.
    pub(crate) proposal: Option<String>,
    /// Why it does not take part.
    pub(crate) unfit: Option<String>,
    /// What of its settings is not carried out.
    pub(crate) partly: Option<String>,
    /// What counts as load, as soon as that is known.
    pub(crate) load: Option<Source>,
}

/// What a decision was made on, and what groups have to say beside it.
#[derive(Debug, Default)]
struct Notes {
    /// The groups as they were looked at: what was decided is written over these versions.
    groups: BTreeMap<Key, Arc<NodeGroup>>,
    /// Why they do not take part.
    unfit: BTreeMap<Key, String>,
    /// What of their settings is not carried out.
    partly: BTreeMap<Key, String>,
    /// What counts as their load.
    load: BTreeMap<Key, Source>,
}

/// What is known for the scaling of one cluster.
#[derive(Default)]
pub(crate) struct Scaler {
    feed: Mutex<feed::Feed>,
    changed: Notify,
    /// How busy nodes and groups were. Forgetting it is safe: they are watched anew.
    loads: Mutex<loads::Loads>,
    /// What nodes use, as far as the cluster measures it.
    usage: Mutex<usage::Usage>,
}

/// Scales the groups of a cluster until the future is dropped, or another connection takes its place.
pub(crate) async fn run(context: Arc<Context>, id: Id, cluster: Arc<Cluster>) {
    let scaler = Arc::new(Scaler::default());
    let watching = feed::watch(&cluster, &scaler);
    let measuring = usage::follow(&context, &cluster, &scaler);
    let deciding = deciding(&context, &id, &cluster, &scaler);
    tokio::select! {
        biased;
        () = watching => {}
        () = measuring => {}
        () = deciding => {}
    }
}

async fn deciding(context: &Arc<Context>, id: &Id, cluster: &Arc<Cluster>, scaler: &Arc<Scaler>) {
    feed::ready(scaler).await;
    loop {
        // Whatever happens from here on is not in what is looked at, and wakes the next look.
        let mut groups_changed = std::pin::pin!(context.groups_changed.notified());
        groups_changed.as_mut().enable();
        if context.clusters.get(id).is_none_or(|known| !Arc::ptr_eq(&known, cluster)) {
            return;
        }
        let (decision, notes) = look(context, id, scaler);
        // What groups say is written into the same objects, and would make the sizes come too late.
        if let Err(error) = act::carry_out(context, &decision, &notes.groups).await {
            tracing::debug!(%error, "a decision on sizes is carried out later");
        }
        act::tell(context, id, &decision, &notes);
        let now = context.clock.now();
        let retry = decision.retry_at();
        let retry = retry.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        let pause = reading(scaler).min(retry.unwrap_or(READING)).max(PAUSE);
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = async {
                tokio::select! {
                    biased;
                    () = scaler.changed.notified() => {}
                    () = groups_changed => {}
                }
                tokio::time::sleep(PAUSE).await;
            } => {}
        }
    }
}

/// The longest pause between two readings, by the windows of the groups.
fn reading(scaler: &Scaler) -> Duration {
    let feed = lock(&scaler.feed);
    let windows = feed.world.groups.values().flat_map(|group| [group.up.window, group.down.window]);
    let shortest = windows.filter(|window| *window > 0).min().unwrap_or(i64::MAX);
    let pause = u64::try_from(shortest / READINGS).map_or(READING, Duration::from_secs);
    pause.clamp(PAUSE, READING)
}

/// Decides on what is known now.
fn look(context: &Context, id: &Id, scaler: &Scaler) -> (Decision, Notes) {
    let now = context.clock.now();
    let mut feed = lock(&scaler.feed);
    feed.catch_up();
    let feed::Feed { world, going, .. } = &mut *feed;
    let mut notes = groups::fill(context, id, world, going);
    let usage = lock(&scaler.usage);
    lock(&scaler.loads).read(world, &usage, now);
    if let Some(source) = usage.source(now) {
        let keys = world.groups.keys().map(|key| Key::new(&key.namespace, &key.name));
        notes.load = keys.map(|key| (key, source.clone())).collect();
    }
    drop(usage);
    (decide(&feed.world, None, now), notes)
}
