//! Our server in the forms in which it is tested: in process on memory and on SQLite, and over TLS.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use http::Request;
use http_body_util::Full;
use sha2::{Digest, Sha256};
use sutler_kv::engine::Engine;
use sutler_kv::memory::Memory;
use sutler_kv::sqlite::{Options, Sqlite};
use sutler_store::auth::User;
use sutler_store::auth::users::{NAMESPACE, TokenRecord, UserRecord};
use sutler_store::controllers::{Running, Upkeep, spawn};
use sutler_store::serve::{Limits, serve};
use sutler_store::tls::{Pki, server_config};
use sutler_store::{ApiServer, Config, RandomIds, SystemClock};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tower::ServiceExt;

use crate::target::{
    Compact, Https, InProcess, TOY_CRDS, Target, USERS, documents, project_crds, runtime,
};

/// A running server of ours; dropping it ends its controllers.
pub struct Ours {
    target: Arc<dyn Target>,
    server: ApiServer,
    _controllers: Running,
    _dir: Option<TempDir>,
}

/// The forms in which ours is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In process, on memory.
    Memory,
    /// In process, on SQLite.
    Sqlite,
    /// Over TLS, on SQLite.
    Tls,
}

impl Ours {
    /// Starts a server with the toy kinds, the project's own and the known users.
    pub fn start(form: Form) -> Result<Self> {
        let _inside = runtime().enter();
        runtime().block_on(Self::begin(form))
    }

    async fn begin(form: Form) -> Result<Self> {
        let dir = match form {
            Form::Memory => None,
            Form::Sqlite | Form::Tls => Some(tempfile::tempdir()?),
        };
        let engine: Arc<dyn Engine> = match &dir {
            None => Arc::new(Memory::new()),
            Some(dir) => Arc::new(Sqlite::open(&dir.path().join("store.db"), Options::default())?),
        };
        let crds = documents(TOY_CRDS)
            .into_iter()
            .chain(project_crds().iter().flat_map(|yaml| documents(yaml)))
            .collect();
        let server = ApiServer::start(Config {
            engine: engine.clone(),
            crds,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            version: "0.1.0".to_owned(),
        })
        .await
        .context("the server")?;
        add_users(&server).await?;
        let controllers = spawn(&server, upkeep());
        let compact = compaction(engine);
        let target: Arc<dyn Target> = match (form, &dir) {
            (Form::Tls, Some(dir)) => Arc::new(over_tls(&server, dir, compact).await?),
            (Form::Memory, _) => Arc::new(InProcess::new("memory", server.clone(), compact)),
            (_, _) => Arc::new(InProcess::new("sqlite", server.clone(), compact)),
        };
        Ok(Self { target, server, _controllers: controllers, _dir: dir })
    }

    /// The server as a target of cases.
    pub fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    /// The server itself, for tests that go beyond requests.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }
}

/// The server of a form that all tests of this process share.
#[expect(clippy::panic, reason = "without a server under test there is no test")]
pub fn shared(form: Form) -> &'static Ours {
    static SHARED: [OnceLock<Ours>; 3] = [const { OnceLock::new() }; 3];
    SHARED[form as usize].get_or_init(|| match Ours::start(form) {
        Ok(ours) => ours,
        Err(error) => panic!("our server does not start as {form:?}: {error:#}"),
    })
}

/// History is forgotten when a case asks for it, and not before.
fn upkeep() -> Upkeep {
    let long = Duration::from_secs(24 * 3600);
    Upkeep { history: long, events: long }
}

fn compaction(engine: Arc<dyn Engine>) -> Compact {
    Arc::new(move |version| -> BoxFuture<'static, Result<()>> {
        let engine = engine.clone();
        Box::pin(async move { Ok(engine.compact(version).await?) })
    })
}

async fn over_tls(server: &ApiServer, dir: &TempDir, compact: Compact) -> Result<Https> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let pki = Pki::ensure(&dir.path().join("pki"), &names, SystemTime::now())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("https://{}", listener.local_addr()?);
    let tls = server_config(&pki);
    let service = server.clone();
    tokio::spawn(async move {
        serve(listener, tls, service, Limits::default(), pending()).await;
    });
    Https::new("tls", &base, pki.ca_pem(), Some(compact))
}

async fn add_users(server: &ApiServer) -> Result<()> {
    for user in USERS {
        let record = UserRecord {
            username: user.name.to_owned(),
            uid: String::new(),
            groups: user.groups.iter().map(|&group| group.to_owned()).collect(),
            tokens: vec![TokenRecord {
                id: "parity".to_owned(),
                sha256: Sha256::digest(user.token).into(),
                created: DateTime::<Utc>::from(SystemTime::UNIX_EPOCH),
                expires: None,
            }],
        };
        let request = Request::post(format!("/api/v1/namespaces/{NAMESPACE}/secrets"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(record.to_secret().to_string())))?;
        let setup = server.as_user(User::privileged("setup"));
        let response = match setup.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        anyhow::ensure!(response.status() == 201, "user {}: {}", user.name, response.status());
    }
    Ok(())
}
