//! Answers' bodies: whole, or a stream that is pulled as fast as the client reads.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http_body::{Frame, SizeHint};

use crate::status::ApiError;

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, Result<Bytes, ApiError>>),
}

impl Body {
    /// A body that is there already.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Inner::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// A body that comes in parts. An error ends it unfinished, so that the client notices.
    pub fn stream(
        stream: impl futures::Stream<Item = Result<Bytes, ApiError>> + Send + 'static,
    ) -> Self {
        Self(Inner::Stream(stream.boxed()))
    }
}

impl Body {
    /// How large it is, where that is known.
    pub(crate) fn size(&self) -> Option<usize> {
        match &self.0 {
            Inner::Whole(bytes) => Some(bytes.as_ref().map_or(0, Bytes::len)),
            Inner::Stream(_) => None,
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Inner::Whole(_) => "Body(whole)",
            Inner::Stream(_) => "Body(stream)",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = ApiError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ApiError>>> {
        match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Inner::Stream(stream) => {
                stream.poll_next_unpin(cx).map(|next| next.map(|part| part.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}
