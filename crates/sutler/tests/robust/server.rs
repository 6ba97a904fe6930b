//! `sutler serve` as a process of its own, and TLS connections to it.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// What the server's first line on standard output begins with, once it can be used.
const READY: &str = "Sutler serves the Kubernetes API at https://";

/// What a server says on standard error, in its data folder.
pub(crate) const LOG: &str = "test.log";

/// A running server; it is killed when this goes away.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    tls: Tls,
}

/// How to reach a server, and as whom.
#[derive(Clone)]
pub(crate) struct Address {
    /// Where it listens.
    pub(crate) socket: SocketAddr,
    tls: Tls,
}

/// Client configurations, with and without the administrator's certificate.
#[derive(Clone)]
struct Tls {
    admin: Arc<ClientConfig>,
    nobody: Arc<ClientConfig>,
}

/// Who opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The administrator, by certificate.
    Admin,
    /// Somebody who has to say who they are in each request.
    Nobody,
}

impl Server {
    /// Starts one on a data folder and waits until it serves. `None` if it ended before.
    pub(crate) fn start(data: &Path, store: &str) -> Option<Self> {
        let child = Self::spawn(&[], data, store);
        Self::ready(child, data)
    }

    /// Starts the process, behind the words of another program if there are any.
    pub(crate) fn spawn(before: &[&OsStr], data: &Path, store: &str) -> Child {
        let program = OsStr::new(env!("CARGO_BIN_EXE_sutler"));
        let mut words = before.iter().copied().chain([program]);
        std::fs::create_dir_all(data).expect("there is a place for the data folder");
        let log = std::fs::File::options().create(true).append(true).open(data.join(LOG));
        Command::new(words.next().expect("there is a program"))
            .args(words)
            .args([
                "serve",
                "--api-only",
                "--listen",
                "127.0.0.1:0",
                "--log-level",
                "warn",
                "--store",
                store,
            ])
            .arg("--data-dir")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.expect("there is a log"))
            .spawn()
            .expect("the server's process starts")
    }

    /// Waits until a process serves.
    pub(crate) fn ready(mut child: Child, data: &Path) -> Option<Self> {
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        stdout.read_line(&mut line).expect("a line is read");
        // It writes on: a pipe without a reader would end it.
        child.stdout = Some(stdout.into_inner());
        let Some(address) = line.trim().strip_prefix(READY) else {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        };
        let address = address.parse().expect("it tells its address");
        Some(Self { child, address, tls: Tls::new(&data.join("pki")) })
    }

    /// How to reach it.
    pub(crate) fn address(&self) -> Address {
        Address { socket: self.address, tls: self.tls.clone() }
    }

    /// Kills it with SIGKILL and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
    }

    /// Asks it to end, and waits until it and whoever shares its standard output have ended.
    pub(crate) fn terminate(mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(asked.expect("kill runs").success());
        assert!(self.child.wait().expect("it ends").success());
        let mut stdout = self.child.stdout.take().expect("it is piped");
        std::io::copy(&mut stdout, &mut std::io::sink()).expect("it is read to its end");
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The memory it holds, in KiB.
    pub(crate) fn rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let words = line.expect("it has a size").split_whitespace().next();
        words.and_then(|kib| kib.parse().ok()).expect("the size is a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tls {
    fn new(pki: &Path) -> Self {
        let file = |name: &str| -> PathBuf { pki.join(name) };
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(file("ca.crt")).expect("there is a CA");
        roots.add(authority).expect("it is a CA");
        let builder = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("the provider knows TLS")
                .with_root_certificates(roots.clone())
        };
        let chain = vec![CertificateDer::from_pem_file(file("admin.crt")).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(file("admin.key")).expect("its key");
        let admin = builder().with_client_auth_cert(chain, key).expect("they fit");
        Self { admin: Arc::new(admin), nobody: Arc::new(builder().with_no_client_auth()) }
    }
}

impl Address {
    /// A connection without TLS.
    pub(crate) async fn tcp(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.socket).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A TLS connection for a protocol.
    pub(crate) async fn tls(
        &self,
        who: Who,
        protocol: &[u8],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.tls_over(self.tcp().await?, who, protocol).await
    }

    /// TLS over a connection that is there already.
    pub(crate) async fn tls_over(
        &self,
        stream: TcpStream,
        who: Who,
        protocol: &[u8],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = match who {
            Who::Admin => &self.tls.admin,
            Who::Nobody => &self.tls.nobody,
        };
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::IpAddress(self.socket.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}
