//! Lists, events and consoles: answers in many parts.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use sutler_provider::{
    CallClass, Console, Error, Event, EventStream, Listing, MachineId, Proof, Result,
};
use tokio::{sync::mpsc, time::timeout};
use tonic::Streaming;

use super::{
    Remote,
    call::{Extended, Method},
};
use crate::{
    pb::extended::{self as pb, console_input, event},
    status::error_of,
};

/// Keystrokes that may wait for the line.
const TYPED_AHEAD: usize = 64;

impl Remote {
    /// The list by pages; none where the Extensions lack it.
    pub(super) async fn list_pages(&self) -> Result<Option<Listing>> {
        let request = pb::ListRequest {};
        let send = |mut client: Extended, request| async move { client.list(request).await };
        let Some(mut pages) = self.extended(Method::List, CallClass::List, &request, send).await?
        else {
            return Ok(None);
        };
        let mut machines = Vec::new();
        // One that makes no sense is not hidden: the list is not complete without it.
        let mut sound = true;
        let read = async {
            loop {
                let page = pages.message().await.map_err(|status| error_of(&status, false))?;
                let cut = || Error::unavailable("the list was cut off before its last page");
                let page = page.ok_or_else(cut)?;
                for machine in page.machines {
                    match machine.try_into() {
                        Ok(machine) => machines.push(machine),
                        Err(error) => {
                            self.complain(&error);
                            sound = false;
                        }
                    }
                }
                if page.last {
                    return Ok(Listing { machines, complete: page.complete && sound });
                }
            }
        };
        let deadline = self.deadlines().list;
        let late = |_| Error::unavailable(format!("the list was not complete within {deadline:?}"));
        let listing: Result<Listing> = timeout(deadline, read).await.map_err(late)?;
        listing.map(Some)
    }

    /// Says that a machine of a list makes no sense.
    pub(super) fn complain(&self, error: &crate::Malformed) {
        let provider = self.address();
        tracing::warn!(%error, %provider, "a machine of the list makes no sense");
    }

    /// The stream of events; none where the Extensions lack it.
    pub(super) async fn event_stream(&self) -> Result<Option<EventStream>> {
        // A stream has no end of its own, so the transport must not give it a deadline.
        let open = async {
            let request = pb::EventsRequest {};
            let send = |mut client: Extended, request| async move { client.events(request).await };
            let Some(mut events) = self
                .extended_within(
                    Method::Events,
                    false,
                    Duration::from_secs(u64::from(u32::MAX)),
                    &request,
                    send,
                )
                .await?
            else {
                return Ok(None);
            };
            let first = events.message().await.map_err(|status| error_of(&status, false))?;
            match first.and_then(|first| first.event) {
                Some(event::Event::Started(_)) => Ok(Some(events)),
                _ => Err(Error::unavailable("the stream of events did not begin")),
            }
        };
        let deadline = self.deadlines().look;
        let late = |_| Error::unavailable(format!("events did not begin within {deadline:?}"));
        let events = timeout(deadline, open).await.map_err(late)??;
        Ok(events.map(|events| told(events).boxed()))
    }

    /// Opens a console; none where the Extensions lack it.
    pub(super) async fn open_console(
        &self,
        id: &MachineId,
        proof: &Proof,
    ) -> Result<Option<Console>> {
        let open = console_input::Open { id: id.0.clone(), proof: Some(proof.clone().into()) };
        let deadline = self.deadlines().look;
        let late = |_| Error::unavailable(format!("the console did not open within {deadline:?}"));
        let opened = timeout(deadline, async {
            let (input, typed) = mpsc::channel::<Vec<u8>>(TYPED_AHEAD);
            let first = pb::ConsoleInput { input: Some(console_input::Input::Open(open)) };
            let typed = stream::unfold(typed, |mut typed| async {
                typed.recv().await.map(|data| (data, typed))
            });
            let more = typed
                .map(|data| pb::ConsoleInput { input: Some(console_input::Input::Data(data)) });
            let messages = stream::once(async { first }).chain(more);
            let mut client = Extended::new(self.channel()?);
            let answer = client.console(messages).await;
            let mut output = match answer {
                Ok(answer) => answer.into_inner(),
                Err(status) if crate::status::is_absent(&status) => return Ok(None),
                Err(status) => return Err(error_of(&status, false)),
            };
            match output.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Err(Error::unavailable("the console closed at once")),
                Err(status) if crate::status::is_absent(&status) => return Ok(None),
                Err(status) => return Err(error_of(&status, false)),
            }
            let output = stream::unfold(output, |mut output| async {
                let data = output.message().await.ok().flatten()?.data;
                Some((data, output))
            });
            Ok(Some(Console { output: output.boxed(), input }))
        });
        opened.await.map_err(late)?
    }
}

/// What the provider tells. One event that makes no sense is one that is lost; an error is the end.
fn told(events: Streaming<pb::Event>) -> impl futures::Stream<Item = Event> {
    stream::unfold(events, |mut events| async {
        let event = events.message().await.ok().flatten()?;
        let event = event.try_into().unwrap_or_else(|error: crate::Malformed| {
            tracing::warn!(%error, "an event makes no sense");
            Event::Lost
        });
        Some((event, events))
    })
}
