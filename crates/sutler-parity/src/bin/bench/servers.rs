//! The servers that are measured.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use sutler_kv::{crypto::Keyring, sqlite::Sqlite};
use sutler_parity::{
    peer::{self, Peer},
    target::{Https, InProcess, Target, USERS},
};
use sutler_store::{ApiServer, Config, RandomIds, SystemClock, auth::User};
use tempfile::TempDir;

/// A server, how long it took to start, and its processes.
pub(crate) struct Server {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) token: String,
    pub(crate) started: Option<Duration>,
    pids: Vec<u32>,
    _keep: Keep,
}

/// What must live as long as the server does.
#[expect(dead_code, reason = "held for their Drop")]
enum Keep {
    Folder(TempDir),
    Process(Process, TempDir),
    Peer(Box<Peer>),
}

impl Server {
    /// Resident memory of all its processes, in bytes.
    pub(crate) fn rss(&self) -> u64 {
        self.pids.iter().filter_map(|pid| resident(*pid)).sum()
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The API server as a library, on SQLite in a temporary folder.
pub(crate) async fn in_process() -> Result<Server> {
    let folder = tempfile::tempdir()?;
    let options = sutler_kv::sqlite::Options {
        encrypt: vec!["core/secrets/".into()],
        keyring: Some(Keyring::generate()),
        ..Default::default()
    };
    let engine = Arc::new(Sqlite::open(&folder.path().join("bench.db"), options)?);
    let crds = sutler_api::crds().iter().map(sutler_api::crd::to_value).collect();
    let server = ApiServer::start(Config {
        engine,
        crds,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        version: "bench".into(),
    })
    .await?;
    let service = server.as_user(User::privileged("bench"));
    let target = InProcess::new("in process", service, Arc::new(|_| Box::pin(async { Ok(()) })));
    Ok(Server {
        target: Arc::new(target),
        token: String::new(),
        started: None,
        pids: Vec::new(),
        _keep: Keep::Folder(folder),
    })
}

/// `sutler serve` of the release build, as people run it.
pub(crate) fn ours() -> Result<Server> {
    let program = program()?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let serve = || -> Result<(Process, Duration, String)> {
        let begun = Instant::now();
        let mut child = Command::new(&program)
            .args([
                "serve",
                "--api-only",
                "--listen",
                "127.0.0.1:0",
                "--log-level",
                "warn",
                "--data-dir",
            ])
            .arg(&data)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().context("no output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let took = begun.elapsed();
        let url = line.split("at ").nth(1).context("the server did not start")?.trim().to_owned();
        // Read on, so that it is never stopped by a full pipe.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Ok((Process(child), took, url))
    };
    // The first start makes keys and certificates; the second is what a restart costs.
    let (first, _, _) = serve()?;
    drop(first);
    let (process, took, url) = serve()?;
    let ca = std::fs::read_to_string(data.join("pki/ca.crt")).context("the CA certificate")?;
    let token = add_user(&program, &data)?;
    let pid = process.0.id();
    Ok(Server {
        target: Arc::new(Https::new("ours", &url, &ca, None)?),
        token,
        started: Some(took),
        pids: vec![pid],
        _keep: Keep::Process(process, folder),
    })
}

fn add_user(program: &Path, data: &Path) -> Result<String> {
    let output = Command::new(program)
        .args(["user", "add", "bench", "--role", "cluster-admin"])
        .env("SUTLER_KUBECONFIG", data.join("admin.kubeconfig"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let token = text.split_whitespace().find(|word| word.starts_with("sutler_"));
    token
        .map(str::to_owned)
        .with_context(|| format!("no token: {text} {}", String::from_utf8_lossy(&output.stderr)))
}

/// The release binary beside this one.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().context("no folder")?.join("sutler");
    if !program.exists() {
        bail!("{} is missing: build it with `cargo build --release -p sutler`", program.display());
    }
    Ok(program)
}

/// kube-apiserver and etcd, without controllers.
pub(crate) fn real() -> Result<Option<Server>> {
    let before = processes();
    let begun = Instant::now();
    let peer = match Peer::start(&peer::Options::default()) {
        Ok(peer) => peer,
        Err(error) => {
            println!("SKIPPED: {error:#}");
            return Ok(None);
        }
    };
    let took = begun.elapsed();
    let pids = processes().into_iter().filter(|pid| !before.contains(pid)).collect();
    Ok(Some(Server {
        target: peer.target(),
        token: USERS[0].token.into(),
        started: Some(took),
        pids,
        _keep: Keep::Peer(Box::new(peer)),
    }))
}

/// Processes whose program is kube-apiserver or etcd.
fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            matches!(name.trim(), "kube-apiserver" | "etcd")
        })
        .collect()
}

fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
