//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::rt::bounds::Http2ServerConnExec;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

use super::body::Tracked;
use super::io_guard::Guarded;
use super::pace::{Pace, Verdict};
use super::{ClientCert, Limits, PeerAddr, Shared};

/// What Go's server, and so the real API server, answers to HTTP without TLS.
pub(super) const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// How long a connection that was told goodbye may take to close.
const GOODBYE: Duration = Duration::from_secs(5);
/// HTTP/2 streams that the client reset before they were looked at.
const MAX_RESETS: usize = 20;
/// HTTP/2 streams that broke the protocol.
const MAX_ERRORS: usize = 100;

/// Runs a connection to its end. What goes wrong is the client's affair: it is logged low and
/// goes no further.
pub(super) async fn run<S, B>(stream: TcpStream, peer: SocketAddr, shared: &Arc<Shared<S>>)
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
    let pace = Pace::new();
    let timeout = shared.limits.handshake_timeout;
    let mut stopping = shared.stopping.clone();
    let handshake = tokio::select! {
        biased;
        () = stopped(&mut stopping) => return,
        handshake = tokio::time::timeout(timeout, handshake(stream, shared, &pace)) => handshake,
    };
    let outcome = match handshake {
        Err(_) => Err("the handshake took too long".to_owned()),
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(stream))) => requests(stream, peer, shared, pace).await,
        Ok(Err(error)) => Err(error.to_string()),
    };
    if let Err(error) = outcome {
        tracing::debug!(%peer, error, "connection failed");
    }
}

/// Sets TLS up; `None` if the client spoke plain HTTP and was told so.
async fn handshake<S>(
    mut stream: TcpStream,
    shared: &Shared<S>,
    pace: &Arc<Pace>,
) -> io::Result<Option<TlsStream<Guarded<TcpStream>>>> {
    let mut first = [0u8; 1];
    // No TLS record starts with a letter, and every HTTP method does.
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_alphabetic() {
        stream.write_all(PLAIN_HTTP).await?;
        stream.shutdown().await?;
        // Closing with bytes unread would reset the connection before the client has the answer.
        let mut rest = stream.take(64 * 1024);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
        return Ok(None);
    }
    let stream = Guarded::new(stream, Arc::clone(pace), shared.limits.write_timeout);
    shared.tls.accept(stream).await.map(Some)
}

async fn requests<S, B>(
    stream: TlsStream<Guarded<TcpStream>>,
    peer: SocketAddr,
    shared: &Arc<Shared<S>>,
    pace: Arc<Pace>,
) -> Result<(), String>
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
    let session = stream.get_ref().1;
    let http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.map(|leaf| ClientCert(Arc::new(leaf.to_vec())));
    let limits = &shared.limits;
    pace.begin(http2);
    let service = service_fn(|mut request: Request<Incoming>| {
        let in_flight = pace.request();
        let pace = Arc::clone(&pace);
        let extensions = request.extensions_mut();
        extensions.insert(PeerAddr(peer));
        if let Some(certificate) = &certificate {
            extensions.insert(certificate.clone());
        }
        let service = shared.service.clone();
        async move {
            let response = service.oneshot(request).await?;
            // Whoever has no credentials gets no multiplexed connection to keep busy with.
            if http2 && response.status() == StatusCode::UNAUTHORIZED {
                pace.close();
            }
            Ok::<_, Infallible>(response.map(|body| Tracked::new(body, in_flight)))
        }
    });
    let io = TokioIo::new(stream);
    // The protocol is known from the handshake, so there is no guessing by the first bytes.
    match http2 {
        true => attend(http2_builder(limits).serve_connection(io, service), shared, &pace).await,
        false => attend(http1_builder(limits).serve_connection(io, service), shared, &pace).await,
    }
}

/// Drives a connection until it ends, is told to end, or has to be dropped.
async fn attend<S, C>(connection: C, shared: &Shared<S>, pace: &Pace) -> Result<(), String>
where
    C: Connection,
{
    let (header_timeout, idle_timeout) = (shared.limits.header_timeout, shared.limits.idle_timeout);
    let mut connection = std::pin::pin!(connection);
    let mut stopping = shared.stopping.clone();
    let mut leaving = false;
    let mut look = std::pin::pin!(tokio::time::sleep(header_timeout));
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
            () = stopped(&mut stopping), if !leaving => {
                leaving = true;
                connection.as_mut().leave();
            }
            () = pace.closed(), if !leaving => {
                leaving = true;
                connection.as_mut().leave();
            }
            () = look.as_mut() => match pace.verdict(header_timeout, idle_timeout) {
                Verdict::Keep(until) => look.as_mut().reset(until),
                Verdict::Drop => return Err("a request's headers took too long".to_owned()),
                Verdict::Goodbye => {
                    connection.as_mut().leave();
                    let ended = tokio::time::timeout(GOODBYE, connection.as_mut()).await;
                    return match ended {
                        Ok(ended) => ended.map_err(|error| error.to_string()),
                        Err(_) => Err("an idle connection did not close".to_owned()),
                    };
                }
            },
        }
    }
}

/// A connection of either protocol.
trait Connection: Future<Output = hyper::Result<()>> {
    /// Finishes the requests that are there and takes no more.
    fn leave(self: Pin<&mut Self>);
}

impl<I, S, B> Connection for http1::Connection<I, S>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    I: Read + Write + Unpin,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B> Connection for http2::Connection<I, S, TokioExecutor>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    I: Read + Write + Unpin,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    TokioExecutor: Http2ServerConnExec<S::Future, B>,
{
    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Ready when a shutdown has begun.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is an end too.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // The pace does this, and unlike this one it tells slow clients from idle ones.
        .header_read_timeout(None)
        .max_header_size(usize::try_from(limits.max_header_bytes).unwrap_or(usize::MAX));
    builder
}

fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(limits.max_header_bytes)
        .max_concurrent_streams(limits.max_streams)
        // Streams opened only to be reset: few are needed, many are an attack.
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_ERRORS)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout);
    builder
}
