//! Accepting connections whose clients show a certificate.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::Stream;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::server::Connected;

/// How long a client may take to introduce itself.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Clients that may introduce themselves at the same time.
const HANDSHAKES: usize = 64;

/// What HTTP/2 is called in a handshake.
const H2: &[u8] = b"h2";

/// Connections over TLS. `config` is asked for each of them, so that certificates may change while it
/// listens; one that verifies no clients lets everybody in. It listens until the stream is dropped.
pub fn listen_tls(
    listener: TcpListener,
    config: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
) -> impl Stream<Item = io::Result<Connection>> + Send + Unpin {
    let (let_in, ready) = mpsc::channel(16);
    let accepting = tokio::spawn(accept(listener, config, let_in));
    Connections { ready, accepting }
}

/// A connection that was let in.
#[derive(Debug)]
pub struct Connection(Box<TlsStream<TcpStream>>);

struct Connections {
    ready: mpsc::Receiver<Connection>,
    accepting: JoinHandle<()>,
}

impl Stream for Connections {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(cx).map(|connection| connection.map(Ok))
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    config: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
    let_in: mpsc::Sender<Connection>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually too many open files: others have to go first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let acceptor = TlsAcceptor::from(with_h2(config()));
        let let_in = let_in.clone();
        // Each introduces itself on its own, so that a slow one holds up nobody.
        tokio::spawn(async move {
            let introduced = timeout(HANDSHAKE, introduce(stream, acceptor)).await;
            drop(place);
            match introduced {
                // When nobody takes it any more, the server is at its end.
                Ok(Ok(stream)) => drop(let_in.send(Connection(Box::new(stream))).await),
                Ok(Err(error)) => tracing::warn!(%from, %error, "a connection was refused"),
                Err(_) => tracing::warn!(%from, "a client did not introduce itself in time"),
            }
        });
    }
}

async fn introduce(stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<TlsStream<TcpStream>> {
    stream.set_nodelay(true)?;
    acceptor.accept(stream).await
}

/// gRPC clients hang up on servers that do not agree on HTTP/2 in the handshake.
fn with_h2(config: Arc<ServerConfig>) -> Arc<ServerConfig> {
    if config.alpn_protocols.iter().any(|name| name == H2) {
        return config;
    }
    let mut config = (*config).clone();
    config.alpn_protocols.push(H2.to_vec());
    Arc::new(config)
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
