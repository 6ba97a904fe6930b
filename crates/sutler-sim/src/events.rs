//! Telling of changes as they happen.

use futures::{StreamExt as _, stream};
use sutler_provider::{Event, EventStream};
use tokio::sync::broadcast::{self, error::RecvError};

/// Everybody who listens. One who is too slow is told that events were lost.
#[derive(Debug)]
pub(crate) struct Listeners {
    buffer: usize,
    sender: broadcast::Sender<Event>,
}

impl Listeners {
    pub(crate) fn new(buffer: usize) -> Self {
        Self { buffer, sender: broadcast::Sender::new(buffer) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sender.receiver_count() == 0
    }

    pub(crate) fn tell(&self, event: Event) {
        // Nobody listening is no error.
        drop(self.sender.send(event));
    }

    /// Ends every stream, as a platform that goes away does.
    pub(crate) fn hang_up(&mut self) {
        *self = Self::new(self.buffer);
    }

    /// A stream of what is told from now on.
    pub(crate) fn listen(&self) -> EventStream {
        let receiver = self.sender.subscribe();
        stream::unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Ok(event) => Some((event, receiver)),
                Err(RecvError::Lagged(_)) => Some((Event::Lost, receiver)),
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
    }
}
