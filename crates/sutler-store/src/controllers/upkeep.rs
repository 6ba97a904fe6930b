//! Forgetting in time: history that no watch can need any more, and old Events.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use sutler_kv::engine::{Action, Expect, Version, Write};

use super::note;
use crate::{read::list, server::Inner, status::ApiError, time};

/// What is kept, and how long.
#[derive(Debug, Clone)]
pub struct Upkeep {
    /// How far back watches can resume, at least.
    pub history: Duration,
    /// How long Events are kept.
    pub events: Duration,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self { history: Duration::from_secs(300), events: Duration::from_secs(3600) }
    }
}

pub(super) async fn run(inner: Arc<Inner>, upkeep: Upkeep) {
    // Half a window a step: what is forgotten is between one and one and a half windows old.
    let step = (upkeep.history / 2).max(Duration::from_secs(1));
    let mut marks: std::collections::VecDeque<Version> = std::collections::VecDeque::new();
    loop {
        marks.push_back(inner.engine.version());
        tokio::time::sleep(step).await;
        if marks.len() > 2
            && let Some(before) = marks.pop_front()
            && let Err(error) = inner.engine.compact(before).await
        {
            note("compaction", &error.into());
        }
        if let Err(error) = drop_events(&inner, upkeep.events).await {
            note("dropping old Events", &error);
        }
    }
}

async fn drop_events(inner: &Inner, keep: Duration) -> Result<(), ApiError> {
    let Some(resource) = inner.registry.builtin("", "events") else { return Ok(()) };
    let now = inner.clock.now();
    let (mut after, mut at) = (None, None);
    loop {
        let page = list::page(inner, resource, "", after, 500, at).await?;
        for record in &page.records {
            if last_seen(&resource.decode(record)?).is_some_and(|seen| seen + keep < now) {
                let write = Write {
                    key: record.key.clone(),
                    expect: Expect::At(record.version),
                    action: Action::Delete(record.value.clone()),
                    also: Vec::new(),
                };
                // One that was written again meanwhile is not old.
                let _ = inner.engine.write(write).await;
            }
        }
        if page.remaining == 0 {
            return Ok(());
        }
        at = Some(page.version);
        after = page.records.last().map(|r| r.key.to_string());
    }
}

fn last_seen(event: &Value) -> Option<SystemTime> {
    let times =
        ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    times.iter().filter_map(|p| event.pointer(p)?.as_str()).filter_map(time::parse).max()
}
