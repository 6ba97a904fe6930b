//! A server inside this process, on memory.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{path::Path, sync::Arc, time::SystemTime};

use sutler_kv::{engine::Engine, memory::Memory};
use sutler_store::{
    ApiServer, Config, RandomIds, SystemClock,
    auth::User,
    controllers::{self, Running, Upkeep},
    serve::{Limits, serve},
    tls::{self, Pki},
};

/// The server, its store, and the controllers that make it a cluster's.
pub(crate) struct Embedded {
    /// The server.
    pub(crate) server: ApiServer,
    /// What keeps its objects.
    pub(crate) engine: Arc<dyn Engine>,
    _controllers: Running,
}

impl Embedded {
    /// Starts one with our kinds.
    pub(crate) async fn start() -> Self {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new());
        let crds =
            sutler_api::crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
        let server = ApiServer::start(Config {
            engine: engine.clone(),
            crds,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            version: env!("CARGO_PKG_VERSION").into(),
        })
        .await
        .unwrap();
        let controllers = controllers::spawn(&server, Upkeep::default());
        Self { server, engine, _controllers: controllers }
    }

    /// A client that calls it without a socket.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.server.as_user(User::privileged("test")), "default")
    }

    /// Serves it over HTTPS too, until this process ends, and writes a kubeconfig.
    pub(crate) async fn listen(&self, folder: &Path) -> std::path::PathBuf {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let pki = Pki::ensure(&folder.join("pki"), &[], SystemTime::now()).unwrap();
        let kubeconfig = folder.join("kubeconfig");
        tls::write_kubeconfig(&kubeconfig, &tls::kubeconfig(&url, &pki, "default")).unwrap();
        let (tls, server) = (tls::server_config(&pki), self.server.clone());
        tokio::spawn(serve(listener, tls, server, Limits::default(), std::future::pending()));
        kubeconfig
    }
}
