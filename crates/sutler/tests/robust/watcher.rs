//! Watchers: each remembers where it is, and goes on from there on the next server.

use bytes::BytesMut;
use http_body_util::BodyExt as _;

use crate::{
    client::{Client, Gone},
    history::{Event, History, Kind},
    server::{Address, Who},
};

/// A client that follows a kind.
pub(crate) struct Watcher {
    /// What it follows.
    pub(crate) kind: Kind,
    /// The version it has come to.
    pub(crate) last: u64,
    /// What it saw since it was last compared with the history.
    pub(crate) seen: Vec<Event>,
    /// It leaves and comes back after so many events.
    pub(crate) patience: usize,
    /// How many events it saw in all.
    pub(crate) total: usize,
}

impl Watcher {
    /// One that begins at a version.
    pub(crate) fn new(kind: Kind, last: u64, patience: usize) -> Self {
        Self { kind, last, seen: Vec::new(), patience, total: 0 }
    }

    /// Follows until the server is gone.
    pub(crate) async fn run(mut self, address: Address) -> Self {
        while self.follow(&address, None).await.is_ok() {}
        self
    }

    /// Follows up to a version, or until patience ends; an error if the server is gone.
    pub(crate) async fn follow(
        &mut self,
        address: &Address,
        until: Option<u64>,
    ) -> Result<(), Gone> {
        let target = format!("{}?watch=true&resourceVersion={}", self.kind.path(), self.last);
        let mut client = Client::new(address, Who::Admin);
        let response = client.open("GET", &target, &[], "").await?;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        let mut rest = BytesMut::new();
        let mut left = self.patience;
        loop {
            let frame = body.frame().await.ok_or(Gone)??;
            rest.extend_from_slice(&frame.into_data().unwrap_or_default());
            // What the end of the server cut off in the middle is not an event.
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let event = Event::read(&rest.split_to(end + 1));
                assert!(event.version > self.last, "after {} comes {event:?}", self.last);
                self.last = event.version;
                self.seen.push(event);
                self.total += 1;
                left = left.saturating_sub(1);
                if until.is_some_and(|until| self.last >= until) || (until.is_none() && left == 0) {
                    return Ok(());
                }
            }
        }
    }

    /// What it saw must be the history since the last comparison, no more and no less.
    pub(crate) fn compare(&mut self, from: u64, history: &History) {
        let expected: Vec<&Event> =
            history.events.range(from + 1..=self.last.max(from)).map(|(_, event)| event).collect();
        let seen: Vec<&Event> = self.seen.iter().collect();
        assert_eq!(seen, expected, "{:?} from {from} to {}", self.kind, self.last);
        self.seen.clear();
    }
}
