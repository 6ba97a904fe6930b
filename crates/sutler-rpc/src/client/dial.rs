//! Making a connection, and saying why there is none.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use sutler_provider::{Error, ErrorKind, Result};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{Address, RemoteOptions};
use crate::tls::{BoxedStream, ClientSecurity, Rewound, client_side};

/// After this long without an answer a line is probed, and given up after twice that. These are
/// probes of the system: many gRPC servers hang up on clients that ping more often than every five
/// minutes.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// How long a server may take to begin, before we speak first.
const FIRST_BYTES: Duration = Duration::from_secs(2);

/// No connection came about, so nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    kind: ErrorKind,
    message: String,
}

impl Refused {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// As a provider's error: out of reach, or not let in.
    pub fn to_error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }
}

#[derive(Clone)]
pub(super) struct Dialer(Arc<Target>);

struct Target {
    address: Address,
    security: ClientSecurity,
    name: ServerName<'static>,
    name_text: String,
    within: Duration,
}

impl Dialer {
    pub(super) fn new(address: Address, options: &RemoteOptions) -> Result<Self> {
        let name_text = options.server_name.clone().unwrap_or_else(|| address.host().to_owned());
        let name = ServerName::try_from(name_text.clone()).map_err(|_| {
            Error::invalid("spec.runtime.endpoint", format!("{name_text:?} is no name of a server"))
        })?;
        let security = options.security.clone();
        Ok(Self(Arc::new(Target {
            address,
            security,
            name,
            name_text,
            within: options.dial_timeout,
        })))
    }

    pub(super) async fn dial(&self) -> Result<TokioIo<BoxedStream>, Refused> {
        let Target { address, within, .. } = &*self.0;
        let late = || {
            Refused::new(
                ErrorKind::Unavailable,
                format!("{address} was not connected within {within:?}"),
            )
        };
        let stream = timeout(*within, self.connect()).await.map_err(|_| late())??;
        Ok(TokioIo::new(stream))
    }

    async fn connect(&self) -> Result<BoxedStream, Refused> {
        let Target { address, security, .. } = &*self.0;
        let unreachable = |error: io::Error| {
            Refused::new(ErrorKind::Unavailable, format!("{address} cannot be reached: {error}"))
        };
        match address {
            Address::Tcp { host, port } => {
                let stream =
                    TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
                tune(&stream).map_err(unreachable)?;
                match security {
                    ClientSecurity::Plaintext => Ok(Box::new(stream)),
                    ClientSecurity::Tls { .. } => self.protect(stream).await,
                }
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                match security {
                    ClientSecurity::Plaintext => Ok(Box::new(stream)),
                    ClientSecurity::Tls { .. } => self.protect(stream).await,
                }
            }
            Address::Named(name) => {
                Err(Refused::new(ErrorKind::Unavailable, format!("{name} is not connected")))
            }
        }
    }

    async fn protect<S: crate::tls::Stream>(&self, stream: S) -> Result<BoxedStream, Refused> {
        let Target { address, security, name, name_text, .. } = &*self.0;
        let ClientSecurity::Tls { store, skip_verify } = security else {
            return Ok(Box::new(stream));
        };
        let loaded = store.loaded();
        let config = if *skip_verify { &loaded.unverified } else { &loaded.client };
        let refused = |error: &io::Error| {
            let why = client_side(error, name_text);
            Refused::new(ErrorKind::Denied, format!("{address}: {why}"))
        };
        let connector = TlsConnector::from(config.clone());
        let mut stream =
            connector.connect(name.clone(), stream).await.map_err(|error| refused(&error))?;
        // Our half of the handshake ends before the server has looked at our certificate. It speaks
        // first in HTTP/2, so the first bytes tell whether it took it; a request that is sent before
        // might be refused without our knowing why.
        let mut first = vec![0; 4096];
        match timeout(FIRST_BYTES, stream.read(&mut first)).await {
            Ok(Ok(0)) => Err(Refused::new(
                ErrorKind::Unavailable,
                format!("{address} closed the connection after the TLS handshake"),
            )),
            Ok(Ok(count)) => {
                first.truncate(count);
                Ok(Box::new(Rewound::new(Bytes::from(first), stream)))
            }
            Ok(Err(error)) => Err(refused(&error)),
            Err(_) => Ok(Box::new(stream)),
        }
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(KEEPALIVE * 2))?;
    Ok(())
}
