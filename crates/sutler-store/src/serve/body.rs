//! Answers that count as in flight until their last byte is taken.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use super::pace::InFlight;

/// A body that keeps its request in flight.
pub(super) struct Tracked<B> {
    body: Pin<Box<B>>,
    _in_flight: InFlight,
}

impl<B> Tracked<B> {
    pub(super) fn new(body: B, in_flight: InFlight) -> Self {
        Self { body: Box::pin(body), _in_flight: in_flight }
    }
}

impl<B: Body> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.body.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
