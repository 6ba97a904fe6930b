//! The TCP stream below TLS, watched: what comes in sets the pace, and what cannot be sent for
//! long ends the connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::pace::Pace;

pub(super) struct Guarded<T> {
    stream: T,
    pace: Arc<Pace>,
    write_timeout: Duration,
    stall: Pin<Box<Sleep>>,
    stalled: bool,
}

impl<T> Guarded<T> {
    pub(super) fn new(stream: T, pace: Arc<Pace>, write_timeout: Duration) -> Self {
        let stall = Box::pin(tokio::time::sleep(write_timeout));
        Self { stream, pace, write_timeout, stall, stalled: false }
    }

    /// Passes a write's outcome on, unless the peer has taken nothing for too long.
    fn watch<R>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.stalled = false;
            return outcome;
        }
        if !self.stalled {
            self.stalled = true;
            self.stall.as_mut().reset(Instant::now() + self.write_timeout);
        }
        ready!(self.stall.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.pace.received();
        }
        outcome
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_does_not_read_is_given_up() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Guarded::new(near, Pace::new(), Duration::from_secs(60));
        near.write_all(b"1234").await.unwrap();
        // One that reads late is waited for, each time anew.
        for _ in 0..3 {
            let late = async {
                tokio::time::advance(Duration::from_secs(59)).await;
                let mut taken = [0; 2];
                far.read_exact(&mut taken).await.unwrap();
            };
            let (written, ()) = tokio::join!(near.write_all(b"56"), late);
            written.unwrap();
        }
        let error = near.write_all(b"78").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
