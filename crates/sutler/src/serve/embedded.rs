//! The embedded form: store, API server, its controllers and its listener, in this process.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use prometheus_client::registry::Registry;
use sutler_kv::{crypto::Keyring, engine::Engine, memory::Memory, sqlite::Sqlite};
use sutler_store::{
    ApiServer, Config, RandomIds, SystemClock,
    auth::User,
    controllers,
    serve::{Limits, serve},
    tls::{self, Pki},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::{
    DataDir, ServeArgs, StoreKind,
    admission::{self, InProcess},
    controllers::{Options, Shared},
    defaults,
};
use crate::metrics::{ApiMetrics, ControlMetrics, StoreMetrics};

/// How often the server's certificate is looked at.
const RENEWAL: Duration = Duration::from_secs(12 * 3600);

/// Serves until `stopped` turns true, then ends cleanly.
pub(super) async fn run(args: &ServeArgs, mut stopped: watch::Receiver<bool>) -> Result<()> {
    let folder = args.data_dir.as_deref().unwrap_or(Path::new(super::DATA_DIR));
    let data = DataDir::new(folder);
    private_folder(folder)?;
    let mut registry = super::registry();
    let engine = engine(args, &data, &mut registry)?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}: is another server there?", args.listen))?;
    let address = listener.local_addr()?;
    let pki = Arc::new(Pki::ensure(&data.pki(), &names(args.listen), SystemTime::now())?);
    let crds = sutler_api::crds().iter().map(sutler_api::crd::to_value).collect();
    let server = ApiServer::start(Config {
        engine,
        crds,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        version: env!("CARGO_PKG_VERSION").into(),
    })
    .await?;
    server.admit_by(Arc::new(InProcess));
    registry.register_collector(Box::new(ApiMetrics(server.metrics().clone())));
    let shared = Shared::default();
    registry.register_collector(Box::new(ControlMetrics(shared.clone())));
    super::serve_metrics(args, registry, stopped.clone()).await?;
    let url = format!("https://{}", reachable(address));
    let kubeconfig = data.kubeconfig();
    tls::write_kubeconfig(&kubeconfig, &tls::kubeconfig(&url, &pki, "default"))?;
    let _upkeep = controllers::spawn(&server, controllers::Upkeep::default());
    let acting = match args.api_only {
        true => None,
        false => Some(act(args, &data, &server, shared, stopped.clone()).await?),
    };
    let renewal = tokio::spawn(renew(pki.clone()));
    tracing::info!(%url, kubeconfig = %kubeconfig.display(), store = ?args.store, "serving");
    welcome(&url, &kubeconfig);

    let ending = server.clone();
    let shutdown = async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
        // They end before what they talk to does.
        if let Some(acting) = acting
            && let Err(error) = acting.await
        {
            tracing::warn!(%error, "the controllers ended badly");
        }
        ending.stop();
    };
    let end = serve(listener, tls::server_config(&pki), server, Limits::default(), shutdown).await;
    renewal.abort();
    if end.cut > 0 {
        tracing::warn!(connections = end.cut, "cut connections that did not end in time");
    }
    tracing::info!("stopped");
    Ok(())
}

/// Makes what a first start makes, and starts the controllers.
async fn act(
    args: &ServeArgs,
    data: &DataDir,
    server: &ApiServer,
    shared: Shared,
    stopped: watch::Receiver<bool>,
) -> Result<JoinHandle<()>> {
    let user = User::privileged(admission::USER);
    let client = kube::Client::new(server.as_user(user), "default");
    defaults::ensure(&client).await.context("the first objects could not be made")?;
    let options = Options {
        // The store lets no second server in, so whoever led before is gone.
        identity: "embedded".to_owned(),
        // Nobody waits for this one to fall silent: a busy machine must not cost it its memory.
        lease: Duration::from_secs(300),
        sims: (args.store == StoreKind::Sqlite).then(|| data.sims()),
        breaker_pause: args.breaker_pause,
        cluster: false,
        scaling: args.externalgrpc.is_none(),
        playground: args.playground,
    };
    super::autoscaler::open(args, client.clone(), stopped.clone()).await?;
    Ok(super::controllers::spawn(client, options, shared, stopped))
}

/// What a person sees who starts the server in a terminal.
fn welcome(url: &str, kubeconfig: &Path) {
    let file = kubeconfig.display();
    println!(
        "Sutler serves the Kubernetes API at {url}\n\n  \
         export KUBECONFIG={file}\n  \
         sutler apply -f examples/vm.yaml\n  \
         sutler wait vm/demo --for=ready\n  \
         sutler watch\n\n\
         A simulated hypervisor is ready to try things out: `sutler get providers`.\n\
         {file} signs in as an administrator; `sutler user add NAME` makes more users."
    );
}

/// The store, which adds what it counts to the registry.
fn engine(args: &ServeArgs, data: &DataDir, registry: &mut Registry) -> Result<Arc<dyn Engine>> {
    match args.store {
        StoreKind::Memory => Ok(Arc::new(Memory::new())),
        StoreKind::Sqlite => {
            let options = sutler_kv::sqlite::Options {
                encrypt: vec!["core/secrets/".into()],
                keyring: Some(keyring(args, data)?),
                ..Default::default()
            };
            let database = data.database();
            let store = Sqlite::open(&database, options)?;
            let stats = store.stats().clone();
            registry.register_collector(Box::new(StoreMetrics { stats, database }));
            Ok(Arc::new(store))
        }
    }
}

/// The keys that seal Secrets: of the environment, of the file that was named, or of the data
/// folder, where the first start makes one.
fn keyring(args: &ServeArgs, data: &DataDir) -> Result<Keyring> {
    match (&args.secrets_key_file, std::env::var(super::KEY_VARIABLE)) {
        (Some(file), _) => Keyring::load(file)
            .with_context(|| format!("cannot use the keys in {}", file.display())),
        (None, Ok(text)) => {
            Keyring::parse(&text).with_context(|| format!("cannot use ${}", super::KEY_VARIABLE))
        }
        (None, Err(_)) => {
            let file = data.keys();
            Keyring::load_or_create(&file)
                .with_context(|| format!("cannot use the keys in {}", file.display()))
        }
    }
}

/// The data folder holds keys: nobody else may look into it.
fn private_folder(folder: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    if !folder.is_dir() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot make the data folder {}", folder.display()))?;
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
        .with_context(|| format!("cannot make {} private", folder.display()))
}

/// Names that the certificate must have beside the usual ones.
fn names(listen: SocketAddr) -> Vec<String> {
    if listen.ip().is_unspecified() { Vec::new() } else { vec![listen.ip().to_string()] }
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

async fn renew(pki: Arc<Pki>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        match pki.renew(SystemTime::now()) {
            Ok(tls::Renewal::Renewed) => tracing::info!("the server certificate was renewed"),
            Ok(tls::Renewal::Unchanged) => {}
            Err(error) => tracing::warn!(%error, "the server certificate was not renewed"),
        }
    }
}
