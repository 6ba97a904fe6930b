//! Taking turns: who looks and then acts on one thing does it alone.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use sutler_provider::{Error, Result};
use tokio::sync::OwnedMutexGuard;

/// How long somebody waits for their turn. What waits longer is not sent at all: it must not be sent when
/// nobody reckons with it any more.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

type Turn = tokio::sync::Mutex<()>;

/// One lock for each thing that somebody is at.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<String, Weak<Turn>>>);

impl Turns {
    /// Waits for the turn at a thing, which lasts until the guard is dropped.
    pub(super) async fn at(&self, thing: String) -> Result<OwnedMutexGuard<()>> {
        let late = format!("others are still at {thing}");
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, turn| turn.strong_count() > 0);
            let known = all.get(&thing).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::new(Turn::default());
                all.insert(thing, Arc::downgrade(&turn));
                turn
            })
        };
        let turn = tokio::time::timeout(PATIENCE, turn.lock_owned()).await;
        turn.map_err(|_| Error::unavailable(late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_nobody_waits_for_ever() {
        let turns = Turns::default();
        let held = turns.at("a".to_owned()).await.unwrap();
        turns.at("b".to_owned()).await.unwrap();
        assert!(turns.at("a".to_owned()).await.is_err());
        drop(held);
        turns.at("a".to_owned()).await.unwrap();
    }
}
