//! The controllers, wherever the API is.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use rand::Rng as _;
use sutler_control::{Context, Outside, Settings, lead, run};
use sutler_provider::{Clock, SystemClock};
use tokio::{sync::watch, task::JoinHandle};

use super::{connect::Platforms, web::Http};

/// The pause before controllers that could not start are started again.
const AGAIN: Duration = Duration::from_secs(2);

/// What the controllers know, while they run.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Option<Arc<Context>>>>);

impl Shared {
    /// What they know now; nothing while another process leads.
    pub(crate) fn get(&self) -> Option<Arc<Context>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, context: Option<Arc<Context>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = context;
    }
}

/// How the controllers run.
pub(super) struct Options {
    /// Who this process is among those that could lead.
    pub(super) identity: String,
    /// How long a leader that falls silent stays the leader.
    pub(super) lease: Duration,
    /// Where simulated hypervisors are kept; in memory when absent.
    pub(super) sims: Option<PathBuf>,
    /// How long a provider is left alone after repeated failures.
    pub(super) breaker_pause: Duration,
    /// Whether the API is that of a cluster, which runs what is deployed there.
    pub(super) cluster: bool,
    /// Whether node groups grow and shrink by themselves.
    pub(super) scaling: bool,
    /// Whether a cluster is played on simulated machines.
    pub(super) playground: bool,
}

/// An identity that no other process has, now or later.
pub(super) fn unique_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "host",
        host => host,
    };
    let random: u32 = rand::rng().random();
    format!("{host}-{}-{random:08x}", std::process::id())
}

/// Runs the controllers whenever this process leads, until `stopped` turns true.
pub(super) fn spawn(
    client: Client,
    options: Options,
    shared: Shared,
    stopped: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let settings = Settings {
        identity: options.identity,
        lease: options.lease,
        seed: rand::rng().random(),
        breaker_pause: options.breaker_pause,
        cluster: options.cluster,
        ..Settings::default()
    };
    let platforms = Platforms::new(clock.clone(), options.sims);
    let played = options.playground.then(|| platforms.sims());
    let outside =
        Outside { clock: clock.clone(), connector: Arc::new(platforms), web: Arc::new(Http) };
    let nodes =
        sutler_nodes::Settings { scaling: options.scaling, ..sutler_nodes::Settings::default() };
    tokio::spawn(async move {
        let mut stop = stopped.clone();
        let waiting = lead(client.clone(), &settings, &*clock, || {
            let work = Work { settings: &settings, nodes: &nodes, played: played.as_ref() };
            act(&client, work, &outside, &shared, stopped.clone())
        });
        tokio::select! {
            // Whoever leads ends by itself and gives the Lease back; whoever waits just goes.
            biased;
            () = waiting => {}
            () = ended(&mut stop, &shared) => {}
        }
        shared.set(None);
    })
}

/// What is run.
#[derive(Clone, Copy)]
struct Work<'a> {
    settings: &'a Settings,
    nodes: &'a sutler_nodes::Settings,
    /// The simulated hypervisors that a cluster is played on, where one is.
    played: Option<&'a sutler_playground::Platforms>,
}

/// Runs them until the end, however often they have to be started.
async fn act(
    client: &Client,
    work: Work<'_>,
    outside: &Outside,
    shared: &Shared,
    mut stopped: watch::Receiver<bool>,
) {
    let known = shared.clone();
    let _over = Over(known.clone());
    let again_and_again = async {
        loop {
            let known = known.clone();
            let start = Box::new(move |context| known.set(Some(context)));
            let machines = run(client.clone(), work.settings.clone(), outside.clone(), start);
            let of_nodes = sutler_nodes::run(
                client.clone(),
                work.nodes.clone(),
                outside.clock.clone(),
                Arc::new(sutler_nodes::Kubeconfigs),
            );
            tokio::select! {
                biased;
                ended = machines => match ended {
                    Ok(()) => tracing::warn!("the controllers ended; they are started again"),
                    Err(error) => tracing::warn!(%error, "the controllers could not start"),
                },
                () = of_nodes => tracing::warn!("the controllers of nodes ended; they are started again"),
                () = play(client, work.played, outside) => {
                    tracing::warn!("the played cluster ended; it is started again");
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = again_and_again => {}
    }
}

/// Plays a cluster, where one is to be.
async fn play(client: &Client, on: Option<&sutler_playground::Platforms>, outside: &Outside) {
    match on {
        Some(on) => sutler_playground::run(client.clone(), outside.clock.clone(), on.clone()).await,
        None => std::future::pending().await,
    }
}

/// Nothing is known any more when leading ends, however it does.
struct Over(Shared);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Ends when the process stops while another leads.
async fn ended(stopped: &mut watch::Receiver<bool>, shared: &Shared) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
    // The leader gives its Lease back first, within reason.
    let patience = if shared.get().is_some() { Duration::from_secs(3) } else { Duration::ZERO };
    tokio::time::sleep(patience).await;
}

/// Makes sure of the namespace where the Lease and the users are.
pub(super) async fn ensure_namespace(client: &Client) -> Result<(), kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let name = Settings::default().namespace;
    if namespaces.get_opt(&name).await?.is_some() {
        return Ok(());
    }
    let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match namespaces.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}
