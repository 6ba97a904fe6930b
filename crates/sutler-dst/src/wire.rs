//! The platform at the other end of a line: calls pass a real client and a real server of the
//! contract, and the line is cut at any moment, so that nobody knows what became of them.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use sutler_rpc::{ClientSecurity, Hand, Listener, Remote, RemoteOptions, Server, ServerOptions};
use sutler_sim::Sim;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    task::AbortHandle,
    time::Instant,
};
use tonic::transport::Endpoint;

use crate::log::Log;

/// Bytes that are on their way in one direction at most.
const ROOM: usize = 64 << 10;

/// What a line is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Whether the provider has the Extensions.
    pub extensions: bool,
    /// How long it takes from one end to the other: what is cut meanwhile may have been carried out.
    pub delay: Duration,
    /// The longest time between two cuts.
    pub cut_within: Duration,
}

/// A platform's server, and the lines to it.
pub struct Wire {
    hand: Hand,
    line: Line,
    options: RemoteOptions,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    open: Vec<AbortHandle>,
    /// Until then no new one can be made.
    down_until: Option<Instant>,
}

impl Wire {
    /// Serves a platform for as long as the runtime lives.
    pub fn begin(sim: &Sim, line: Line) -> Arc<Self> {
        let (hand, listener) = Listener::handed();
        let options = ServerOptions {
            extensions: line.extensions,
            connection_age: None,
            ..ServerOptions::default()
        };
        let server = Server::new(Arc::new(sim.clone()), options);
        tokio::spawn(async move {
            let security = sutler_rpc::ServerSecurity::Plaintext;
            server.serve(listener, security, std::future::pending()).await
        });
        let settings = sim.settings();
        let mut options = RemoteOptions::new(ClientSecurity::Plaintext);
        options.extensions = line.extensions;
        options.deadlines = settings.deadlines.into();
        options.unique_by = settings.unique_by;
        Arc::new(Self { hand, line, options, lines: Mutex::default() })
    }

    /// The platform as a process reaches it.
    pub fn remote(self: &Arc<Self>) -> Remote {
        let wire = self.clone();
        let connector = tower::service_fn(move |_| {
            let wire = wire.clone();
            async move { wire.dial().await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://wire").connect_with_connector_lazy(connector);
        Remote::over(channel, "wire", self.options.clone())
    }

    async fn dial(&self) -> io::Result<DuplexStream> {
        let down = self.lock().down_until.is_some_and(|until| Instant::now() < until);
        if down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let ((near, one), (other, far)) = (duplex(ROOM), duplex(ROOM));
        self.hand.over(far).await?;
        let delay = self.line.delay;
        let carrying = tokio::spawn(async move {
            let ((from_one, to_one), (from_other, to_other)) = (split(one), split(other));
            // Whichever end breaks it off, the other notices.
            let there = carry(from_one, to_other, delay);
            drop(futures::future::join(there, carry(from_other, to_one, delay)).await);
        });
        let mut lines = self.lock();
        lines.open.retain(|line| !line.is_finished());
        lines.open.push(carrying.abort_handle());
        Ok(near)
    }

    /// Cuts the lines again and again until `end`.
    pub async fn trouble(&self, seed: u64, end: Instant, log: &Log) {
        let mut rng = StdRng::seed_from_u64(seed ^ 0x11e5);
        loop {
            let pause = self.line.cut_within.mul_f64(rng.random());
            if Instant::now() + pause >= end {
                return;
            }
            tokio::time::sleep(pause).await;
            let away = match rng.random_bool(0.3) {
                true => Duration::from_millis(rng.random_range(0..20_000)),
                false => Duration::ZERO,
            };
            log.line("", format_args!("the line is cut for {away:?}"));
            let mut lines = self.lock();
            lines.down_until = Some((Instant::now() + away).min(end));
            for line in lines.open.drain(..) {
                line.abort();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn carry(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    delay: Duration,
) -> io::Result<()> {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        to.write_all(&bytes[..count]).await?;
    }
}
