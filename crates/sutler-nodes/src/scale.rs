//! Groups that grow and shrink by themselves: what is known of a cluster is kept up to date, a pure
//! function decides on it, and what it decides is written into the groups.

mod act;
mod feed;
mod groups;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use sutler_control::kit::{Key, lock};
use sutler_scale::{Decision, decide, world::Window};
use tokio::sync::Notify;

use crate::{
    cluster::{Cluster, Id},
    context::Context,
};

/// The least pause between two decisions: what happens together is decided on together.
const PAUSE: Duration = Duration::from_secs(2);

/// The longest pause: readings are taken this often.
const READING: Duration = Duration::from_secs(30);

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
}

/// What is known for the scaling of one cluster.
#[derive(Default)]
pub(crate) struct Scaler {
    feed: Mutex<feed::Feed>,
    changed: Notify,
    /// How busy nodes and groups were. Forgetting it is safe: they are watched anew.
    loads: Mutex<Loads>,
}

/// How busy nodes and groups were.
#[derive(Debug, Default)]
struct Loads {
    nodes: BTreeMap<String, Window>,
    groups: BTreeMap<Key, Window>,
}

/// Scales the groups of a cluster until the future is dropped, or another connection takes its place.
pub(crate) async fn run(context: Arc<Context>, id: Id, cluster: Arc<Cluster>) {
    let scaler = Arc::new(Scaler::default());
    let watching = feed::watch(&cluster, &scaler);
    let deciding = deciding(&context, &id, &cluster, &scaler);
    tokio::select! {
        biased;
        () = watching => {}
        () = deciding => {}
    }
}

async fn deciding(context: &Arc<Context>, id: &Id, cluster: &Arc<Cluster>, scaler: &Arc<Scaler>) {
    feed::ready(scaler).await;
    let mut wait = PAUSE;
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(wait.min(READING)) => {}
            () = async {
                futures::future::select(
                    Box::pin(scaler.changed.notified()),
                    Box::pin(context.groups_changed.notified()),
                ).await;
                tokio::time::sleep(PAUSE).await;
            } => {}
        }
        if context.clusters.get(id).is_none_or(|known| !Arc::ptr_eq(&known, cluster)) {
            return;
        }
        let (decision, unfit) = look(context, id, scaler);
        act::tell(context, &decision, &unfit);
        if let Err(error) = act::carry_out(context, &decision).await {
            tracing::debug!(%error, "a decision on sizes is carried out later");
        }
        let now = context.clock.now();
        wait = decision
            .retry_at()
            .and_then(|at| Duration::try_from(at.duration_since(now)).ok())
            .map_or(READING, |pause| pause.max(PAUSE));
    }
}

/// Decides on what is known now.
fn look(context: &Context, id: &Id, scaler: &Scaler) -> (Decision, BTreeMap<Key, String>) {
    let now = context.clock.now();
    let mut feed = lock(&scaler.feed);
    feed.catch_up();
    let unfit = groups::fill(context, id, &mut feed.world, &mut lock(&scaler.loads), now);
    (decide(&feed.world, None, now), unfit)
}
