//! Providers on the wire: served from this process, with certificates of every kind, behind a link
//! that can be cut.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sutler_provider::SystemClock;
use sutler_rpc::{Listener, Pem, Server, ServerOptions, ServerSecurity, Store};
use sutler_sim::{Settings, Sim};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp},
    sync::watch,
    task::JoinHandle,
};

/// The name in all good certificates: where everything listens.
pub(crate) const NAME: &str = "127.0.0.1";

/// A CA, and certificates that it signs.
pub(crate) struct Authority {
    key: rcgen::KeyPair,
    params: rcgen::CertificateParams,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let name = format!("ca {}", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { key, params, pem }
    }

    /// A certificate for this name, that ends this many days from now, of one who trusts us.
    pub(crate) fn issue(&self, name: &str, days: i64) -> Pem {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let now = time::OffsetDateTime::now_utc();
        params.not_before = now - time::Duration::days(30);
        params.not_after = now + time::Duration::days(days);
        params.extended_key_usages = vec![
            rcgen::ExtendedKeyUsagePurpose::ServerAuth,
            rcgen::ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let issuer = rcgen::Issuer::from_params(&self.params, &self.key);
        let cert = params.signed_by(&key, &issuer).unwrap();
        Pem {
            cert: cert.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            ca: self.pem.clone().into_bytes(),
        }
    }
}

/// What a Secret of these certificates holds.
pub(crate) fn secret_data(pem: &Pem) -> Value {
    let text = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
    json!({"tls.crt": text(&pem.cert), "tls.key": text(&pem.key), "ca.crt": text(&pem.ca)})
}

/// A simulated hypervisor that is served from this process, until this is dropped.
pub(crate) struct Served {
    pub(crate) address: String,
    pub(crate) sim: Sim,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(options: Value, security: ServerSecurity) -> Self {
        let settings = Settings::from_options(options.as_object().unwrap()).unwrap();
        let sim = Sim::in_memory(settings, Arc::new(SystemClock)).unwrap();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.address().to_owned();
        let served = Arc::new(sim.clone());
        let task = tokio::spawn(async move {
            let server = Server::new(served, ServerOptions::default());
            server.serve(listener, security, std::future::pending()).await.unwrap();
        });
        Self { address, sim, task }
    }

    /// With these certificates.
    pub(crate) async fn with(pem: Pem) -> Self {
        let store = Store::new(pem).unwrap();
        Self::start(json!({}), ServerSecurity::Tls { store, allowed_names: Vec::new() }).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a link does with what comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// It passes.
    Open,
    /// Connections break, and new ones are turned away.
    Cut,
    /// Connections stay, and nothing comes through.
    Silent,
}

/// A link to a provider.
pub(crate) struct Link {
    pub(crate) address: String,
    line: Arc<watch::Sender<Line>>,
    to: Arc<watch::Sender<String>>,
    task: JoinHandle<()>,
}

impl Link {
    /// A link to whoever listens there.
    pub(crate) async fn new(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let line = Arc::new(watch::Sender::new(Line::Open));
        let to = Arc::new(watch::Sender::new(to.to_owned()));
        let (line_, to_) = (line.clone(), to.clone());
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (line, to) = (line_.subscribe(), to_.borrow().clone());
                if *line.borrow() != Line::Cut {
                    tokio::spawn(carry(near, to, line));
                }
            }
        });
        Self { address: address.to_string(), line, to, task }
    }

    pub(crate) fn set(&self, line: Line) {
        self.line.send_replace(line);
    }

    /// Leads new connections elsewhere.
    pub(crate) fn lead(&self, to: &str) {
        self.to.send_replace(to.to_owned());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
        self.line.send_replace(Line::Cut);
    }
}

/// Carries one connection until either end closes it or the line is cut.
async fn carry(near: TcpStream, to: String, line: watch::Receiver<Line>) {
    let Ok(far) = TcpStream::connect(&to).await else { return };
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let mut cut = line.clone();
    tokio::select! {
        _ = cut.wait_for(|line| *line == Line::Cut) => {}
        () = copy(near_in, far_out, line.clone()) => {}
        () = copy(far_in, near_out, line) => {}
    }
}

async fn copy(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mut line: watch::Receiver<Line>,
) {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else { return };
        // What was under way when the line fell silent arrives when it speaks again.
        if line.wait_for(|line| *line != Line::Silent).await.is_err()
            || to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}
