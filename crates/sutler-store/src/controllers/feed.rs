//! Changes of several resources as one stream, in an order that is right within each.

use std::sync::Arc;

use futures::stream::{BoxStream, SelectAll, StreamExt};
use sutler_kv::engine::Change;
use tokio::sync::broadcast::error::RecvError;

use crate::{registry::Resource, server::Inner};

/// What a feed tells.
pub(super) enum Tick {
    /// An object changed.
    Change(Arc<Resource>, Arc<Change>),
    /// Changes were missed: everything must be looked at again.
    Missed,
}

/// A merged subscription.
pub(super) struct Feed(SelectAll<BoxStream<'static, Tick>>);

impl Feed {
    /// Subscribes to the resources that `wanted` picks.
    pub(super) fn open(inner: &Inner, wanted: impl Fn(&Resource) -> bool) -> Self {
        let picked = inner.registry.iter().filter(|r| !r.converted && wanted(r));
        let streams = picked.map(|resource| {
            let receiver = inner.engine.subscribe(resource.topic());
            let state = Some((receiver, resource.clone()));
            futures::stream::unfold(state, |state| async move {
                let (mut receiver, resource) = state?;
                match receiver.recv().await {
                    Ok(change) => {
                        let tick = Tick::Change(resource.clone(), change);
                        Some((tick, Some((receiver, resource))))
                    }
                    Err(RecvError::Lagged(_)) => Some((Tick::Missed, Some((receiver, resource)))),
                    Err(RecvError::Closed) => None,
                }
            })
            .boxed()
        });
        Self(streams.collect())
    }

    /// The next tick; `None` when the store is gone.
    pub(super) async fn next(&mut self) -> Option<Tick> {
        self.0.next().await
    }

    /// A tick that is there already.
    pub(super) fn ready(&mut self) -> Option<Tick> {
        futures::FutureExt::now_or_never(self.0.next()).flatten()
    }
}
