//! The broadcast channels of an engine, one per topic that somebody watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use crate::engine::{Change, topic};

/// One channel per topic. A channel is made by its first subscriber and goes with its last, so
/// that a topic nobody watches costs neither memory nor a copy of its changes.
#[derive(Debug)]
pub(crate) struct Topics {
    capacity: usize,
    senders: Mutex<BTreeMap<String, broadcast::Sender<Arc<Change>>>>,
}

impl Topics {
    /// Channels that hold this many changes for their slowest receiver.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), senders: Mutex::default() }
    }

    pub(crate) fn subscribe(&self, topic: &str) -> broadcast::Receiver<Arc<Change>> {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        match senders.get(topic) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = broadcast::channel(self.capacity);
                senders.insert(topic.to_owned(), sender);
                receiver
            }
        }
    }

    /// Hands changes, which come in version order, to who watches their topics. Never waits.
    pub(crate) fn publish(&self, changes: impl IntoIterator<Item = Arc<Change>>) {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            let key = change.key.clone();
            let name = topic(&key);
            if let Some(sender) = senders.get(name)
                && sender.send(change).is_err()
            {
                senders.remove(name);
            }
        }
    }

    /// Keeps changes from going out while the answer lives.
    #[cfg(test)]
    pub(crate) fn hold(
        &self,
    ) -> std::sync::MutexGuard<'_, BTreeMap<String, broadcast::Sender<Arc<Change>>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
