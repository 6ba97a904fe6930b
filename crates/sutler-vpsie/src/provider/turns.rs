//! Taking turns: who looks and then acts on one thing does it alone.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::OwnedMutexGuard;

type Turn = tokio::sync::Mutex<()>;

/// One lock for each thing that somebody is at.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<String, Weak<Turn>>>);

impl Turns {
    /// Waits for the turn at a thing, which lasts until the guard is dropped.
    pub(super) async fn at(&self, thing: String) -> OwnedMutexGuard<()> {
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
        turn.lock_owned().await
    }
}
