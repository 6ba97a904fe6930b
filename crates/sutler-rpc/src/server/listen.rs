//! Accepting connections, and letting in only those that may come in.

use std::{
    fmt, io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream, UnixListener},
    sync::{Semaphore, mpsc},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;

use crate::tls::{BoxedStream, ServerSecurity, Store, TlsError, alternative_names, server_side};

/// How long a client may take to introduce itself.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Clients that may introduce themselves at the same time.
const HANDSHAKES: usize = 256;

/// A socket that is listened on.
pub struct Listener {
    socket: Socket,
    address: String,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.address)
    }
}

enum Socket {
    Tcp(TcpListener),
    Unix { socket: UnixListener, _file: SocketFile },
    Handed(mpsc::Receiver<BoxedStream>),
}

/// Hands connections that were made otherwise, such as through a tunnel, to a listener.
#[derive(Clone)]
pub struct Hand(mpsc::Sender<BoxedStream>);

impl Hand {
    /// Hands a connection over; an error says that nobody listens any more.
    pub async fn over<S>(&self, stream: S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream: BoxedStream = Box::new(stream);
        self.0.send(stream).await.map_err(|_| io::ErrorKind::ConnectionRefused.into())
    }
}

impl Listener {
    /// Listens on `host:port`, or on `unix:/path`, which only this user can then reach.
    pub async fn bind(address: &str) -> io::Result<Self> {
        match address.strip_prefix("unix:") {
            None => {
                let socket = TcpListener::bind(address).await?;
                let address = socket.local_addr()?.to_string();
                Ok(Self { socket: Socket::Tcp(socket), address })
            }
            Some(path) => {
                let path = Path::new(path.strip_prefix("//").unwrap_or(path));
                // What a process that was killed left behind is in the way; nothing else is removed.
                if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
                    std::fs::remove_file(path)?;
                }
                let socket = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                let _file = SocketFile(path.to_owned());
                let address = format!("unix:{}", path.display());
                Ok(Self { socket: Socket::Unix { socket, _file }, address })
            }
        }
    }

    /// Listens for connections that somebody else makes and hands over.
    pub fn handed() -> (Hand, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (Hand(sender), Self { socket: Socket::Handed(receiver), address: "handed".to_owned() })
    }

    /// Where it can be reached.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether it is a socket of this host.
    pub fn is_local(&self) -> bool {
        matches!(self.socket, Socket::Unix { .. })
    }

    /// Connections that were let in. Each introduces itself on its own, so that a slow one holds up
    /// nobody.
    pub(super) fn connections(self, security: ServerSecurity) -> Result<Connections, TlsError> {
        if let ServerSecurity::Tls { store, .. } = &security
            && store.loaded().server.is_none()
        {
            return Err(TlsError::Unusable("a server needs a certificate".to_owned()));
        }
        let (let_in, ready) = mpsc::channel(64);
        let accepting = tokio::spawn(accept(self.socket, Arc::new(security), let_in));
        Ok(Connections { ready, accepting })
    }
}

/// Removes a socket's file with it.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Connections that were let in; the socket is closed when this is dropped.
pub(super) struct Connections {
    ready: mpsc::Receiver<Connection>,
    accepting: JoinHandle<()>,
}

impl Stream for Connections {
    type Item = Connection;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        self.ready.poll_recv(cx)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    mut socket: Socket,
    security: Arc<ServerSecurity>,
    let_in: mpsc::Sender<Connection>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = match &mut socket {
            Socket::Tcp(socket) => socket.accept().await.and_then(|(stream, from)| {
                stream.set_nodelay(true)?;
                Ok((Raw::Tcp(stream), from.to_string()))
            }),
            Socket::Unix { socket, .. } => {
                let accepted = socket.accept().await;
                accepted.map(|(stream, _)| (Raw::Other(Box::new(stream)), "local".to_owned()))
            }
            Socket::Handed(handed) => match handed.recv().await {
                Some(stream) => Ok((Raw::Other(stream), "handed".to_owned())),
                // Nobody can hand one over any more; those that are there go on.
                None => return std::future::pending().await,
            },
        };
        let (raw, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually too many open files: others have to go first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (security, let_in) = (security.clone(), let_in.clone());
        tokio::spawn(async move {
            let stream = match (&*security, raw) {
                (ServerSecurity::Plaintext, Raw::Tcp(stream)) => {
                    Ok(Box::new(stream) as BoxedStream)
                }
                (ServerSecurity::Plaintext, Raw::Other(stream)) => Ok(stream),
                (ServerSecurity::Tls { store, allowed_names }, Raw::Tcp(stream)) => {
                    introduce(stream, store, allowed_names).await
                }
                (ServerSecurity::Tls { store, allowed_names }, Raw::Other(stream)) => {
                    introduce(stream, store, allowed_names).await
                }
            };
            drop(place);
            match stream {
                // When nobody takes it any more, the server is at its end.
                Ok(stream) => drop(let_in.send(Connection(stream)).await),
                Err(why) => tracing::warn!(%from, "a connection was refused: {why}"),
            }
        });
    }
}

enum Raw {
    Tcp(TcpStream),
    Other(BoxedStream),
}

async fn introduce<S>(stream: S, store: &Store, allowed: &[String]) -> Result<BoxedStream, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let loaded = store.loaded();
    let config = loaded.server.clone().ok_or("there is no certificate to show")?;
    let handshake = TlsAcceptor::from(config).accept(stream);
    let stream = timeout(HANDSHAKE, handshake)
        .await
        .map_err(|_| format!("the client did not introduce itself within {HANDSHAKE:?}"))?
        .map_err(|error| server_side(&error))?;
    if !allowed.is_empty() {
        let certs = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let names = certs.first().map(alternative_names).unwrap_or_default();
        if !names.iter().any(|name| allowed.contains(name)) {
            return Err(format!(
                "the client's certificate is for {names:?}, and none of these may"
            ));
        }
    }
    Ok(Box::new(stream))
}

/// A connection that was let in.
pub(super) struct Connection(BoxedStream);

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
