//! The network server: TLS connections, HTTP/1.1 and HTTP/2 over them, and limits on what a
//! client can make it hold.
//!
//! Whatever a client sends or fails to send, a connection ends: the handshake, the head of each
//! request, idleness and a reader that does not read are each bounded in time, everything else
//! in size or number.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

mod body;
mod connection;
mod io_guard;
mod pace;

/// The client's verified certificate, in DER; in the extensions of a request.
#[derive(Debug, Clone)]
pub struct ClientCert(pub Arc<Vec<u8>>);

/// The address that a request came from; in its extensions.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddr(pub SocketAddr);

/// What one client, and all of them, may take up.
#[derive(Debug, Clone)]
pub struct Limits {
    /// From the first byte of a connection to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// From the end of the handshake, or the first byte of a later request, to the end of that
    /// request's headers.
    pub header_timeout: Duration,
    /// How long a connection without requests is kept. Longer than clients keep theirs, so that
    /// it is the client that closes and no request is lost on the way.
    pub idle_timeout: Duration,
    /// How long a client may leave the answer it is being sent unread.
    pub write_timeout: Duration,
    /// Connections at one time; more wait to be accepted.
    pub max_connections: usize,
    /// The size of a request's headers; more is answered by 431.
    pub max_header_bytes: u32,
    /// Requests at one time on an HTTP/2 connection; a client of many kinds watches each of them.
    pub max_streams: u32,
    /// Pause between HTTP/2 pings, by which dead peers of long watches are noticed.
    pub ping_interval: Duration,
    /// How long the answer to such a ping may take.
    pub ping_timeout: Duration,
    /// How long requests in flight have to finish after a shutdown has begun.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(60),
            max_connections: 8192,
            max_header_bytes: 64 * 1024,
            max_streams: 1000,
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// Connections that were still busy when the grace was over, and were cut.
    pub cut: usize,
}

/// What every connection of a server shares.
struct Shared<S> {
    tls: tokio_rustls::TlsAcceptor,
    service: S,
    limits: Limits,
    stopping: watch::Receiver<bool>,
}

/// Serves until `shutdown` is ready, then stops accepting, lets requests in flight finish for
/// [`Limits::shutdown_grace`] and cuts the rest. Streams without an end, such as watches, are the
/// service's to end when the shutdown begins.
///
/// Each request carries [`PeerAddr`], and [`ClientCert`] if the client proved to have one.
pub async fn serve<S, B>(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    service: S,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Shutdown
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (stop, stopping) = watch::channel(false);
    let room = Arc::new(Semaphore::new(limits.max_connections));
    let grace = limits.shutdown_grace;
    let shared = Arc::new(Shared { tls: tls.into(), service, limits, stopping });
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    let mut trouble = Trouble::default();
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(ended) = connections.join_next() => note(ended),
            accepted = accept(&listener, &room, &mut trouble) => {
                let (stream, peer, permit) = accepted;
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    connection::run(stream, peer, &shared).await;
                    drop(permit);
                });
            }
        }
    }
    drop(listener);
    // Connections without a request close at once, the others after the one they have.
    stop.send_replace(true);
    let deadline = Instant::now() + grace;
    while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, connections.join_next()).await {
        note(ended);
    }
    let cut = connections.len();
    if cut > 0 {
        tracing::warn!(cut, "connections were still busy at the end of the grace");
    }
    connections.shutdown().await;
    Shutdown { cut }
}

fn note(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked");
    }
}

/// The next connection, once there is room for it. Cancelling this loses none.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    trouble: &mut Trouble,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let permit = Arc::clone(room).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        if let Some(until) = trouble.pause {
            tokio::time::sleep_until(until).await;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                *trouble = Trouble::default();
                // Answers are written whole; waiting to fill packets only delays them.
                let _ = stream.set_nodelay(true);
                return (stream, peer, permit);
            }
            Err(error) => trouble.add(&error),
        }
    }
}

/// Errors of `accept` in a row. Most of them are about the one connection that failed; when the
/// process is out of file descriptors or memory, trying again at once would spin.
#[derive(Default)]
struct Trouble {
    count: u32,
    pause: Option<Instant>,
}

impl Trouble {
    fn add(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
        match error.kind() {
            ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted => {
                self.pause = None;
            }
            _ => {
                tracing::warn!(%error, "cannot accept connections; trying again shortly");
                let pause = Duration::from_millis(10 << self.count.min(7));
                self.count += 1;
                self.pause = Some(Instant::now() + pause);
            }
        }
    }
}

#[cfg(test)]
mod tests;
