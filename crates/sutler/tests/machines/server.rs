//! The servers that all cases share, one of each form.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use serde_json::json;
use sutler_parity::{
    peer::{self, Peer},
    target::USERS,
};

/// Where the API is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In `sutler serve`.
    Embedded,
    /// In the real kube-apiserver.
    Cluster,
    /// In one of a whole cluster, with the real kube-scheduler and kwok for kubelets.
    Scheduled,
}

/// A server of this process.
pub(crate) struct Server {
    /// The administrator's way in.
    pub(crate) kubeconfig: PathBuf,
    /// Where its simulated hypervisors are.
    pub(crate) sims: PathBuf,
    /// What it says.
    pub(crate) log: PathBuf,
    /// Ends when this process does, with its standard input.
    _supervisor: Child,
}

/// Runs a server until standard input ends, and leaves nothing: a static is never dropped.
const SUPERVISOR: &str = r#"
dir=$1; shift
"$@" 2>"$dir/log" &
server=$!
read -r _
kill -TERM $server
wait $server
rm -rf "$dir"
"#;

impl Form {
    /// The server of this form; `None`, said once, where its programs are not there.
    pub(crate) fn server(self) -> Option<&'static Server> {
        static EMBEDDED: OnceLock<Server> = OnceLock::new();
        static CLUSTER: OnceLock<Option<Server>> = OnceLock::new();
        static SCHEDULED: OnceLock<Option<Server>> = OnceLock::new();
        match self {
            Self::Embedded => Some(EMBEDDED.get_or_init(|| {
                let words = ["--store", "sqlite", "--listen", "127.0.0.1:0"];
                Server::start(&folder(), words.map(OsString::from).to_vec(), None)
            })),
            Self::Cluster => CLUSTER.get_or_init(|| cluster(peer::shared)).as_ref(),
            Self::Scheduled => SCHEDULED.get_or_init(|| cluster(peer::shared_cluster)).as_ref(),
        }
    }
}

/// A server for one case alone, which plays a cluster: what is set for all groups together concerns nobody
/// else there.
pub(crate) fn playground() -> &'static Server {
    played(Vec::new())
}

/// The same with a door for the stock cluster-autoscaler, which has the certificates of this folder.
pub(crate) fn driven(certificates: &Path) -> &'static Server {
    let mut words =
        ["--externalgrpc", "127.0.0.1:0", "--externalgrpc-tls"].map(OsString::from).to_vec();
    words.push(certificates.into());
    played(words)
}

/// An API server alone.
pub(crate) fn api_only() -> &'static Server {
    let words = ["--store", "memory", "--listen", "127.0.0.1:0", "--api-only"];
    Box::leak(Box::new(Server::start(&folder(), words.map(OsString::from).to_vec(), None)))
}

/// Controllers alone, for the API server of this kubeconfig. They end when this is dropped.
pub(crate) fn controllers(kubeconfig: &Path) -> Server {
    let words = vec!["--cluster".into(), "--kubeconfig".into(), kubeconfig.into()];
    Server::start(&folder(), words, Some(kubeconfig.to_owned()))
}

fn played(more: Vec<OsString>) -> &'static Server {
    let words = ["--store", "memory", "--listen", "127.0.0.1:0", "--playground"];
    let words = words.map(OsString::from).into_iter().chain(more).collect();
    Box::leak(Box::new(Server::start(&folder(), words, None)))
}

fn cluster(peer: fn() -> Option<&'static Peer>) -> Option<Server> {
    // It drives a runtime of its own, which is not allowed within another.
    let peer = std::thread::spawn(peer).join().unwrap()?;
    let folder = folder();
    let kubeconfig = kubeconfig_of(peer, &folder);
    Some(Server::asked(&folder, &kubeconfig, &["--admission", "127.0.0.1:0"]))
}

/// Writes the administrator's way in to a real server.
pub(crate) fn kubeconfig_of(peer: &Peer, folder: &Path) -> PathBuf {
    assert!(peer.refused.is_empty(), "the real server refuses CRDs: {:?}", peer.refused);
    let kubeconfig = folder.join("kubeconfig");
    let authority = folder.join("ca.crt");
    std::fs::write(&authority, &peer.ca).unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "real",
        "clusters": [{"name": "real", "cluster": {
            "server": peer.base, "certificate-authority": authority}}],
        "users": [{"name": "admin", "user": {"token": USERS[0].token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}

/// Controllers for the API server of this kubeconfig, which is told where to ask. They end when this is
/// dropped.
pub(crate) fn asked(kubeconfig: &Path, words: &[&str]) -> Server {
    Server::asked(&folder(), kubeconfig, words)
}

fn folder() -> PathBuf {
    tempfile::Builder::new().prefix("sutler-machines-").tempdir().unwrap().keep()
}

impl Server {
    fn asked(folder: &Path, kubeconfig: &Path, words: &[&str]) -> Self {
        let mut all = vec!["--cluster".into(), "--kubeconfig".into(), kubeconfig.into()];
        all.extend(words.iter().map(OsString::from));
        Self::start(folder, all, Some(kubeconfig.to_owned()))
    }

    fn start(folder: &Path, words: Vec<OsString>, kubeconfig: Option<PathBuf>) -> Self {
        let data = folder.join("data");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "server"])
            .arg(folder)
            .arg(env!("CARGO_BIN_EXE_sutler"))
            .args(["serve", "--log-level", "info", "--data-dir"])
            .arg(&data)
            .args(words)
            // A group of its own: an interrupt at the terminal reaches it as the end of input.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let log = folder.join("log");
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        assert!(line.starts_with("Sutler "), "the server did not start: {line}{}", said());
        // It writes on: a pipe without a reader would end it.
        shell.stdout = Some(stdout.into_inner());
        Self {
            kubeconfig: kubeconfig.unwrap_or_else(|| data.join("admin.kubeconfig")),
            sims: data.join("sim"),
            log,
            _supervisor: shell,
        }
    }
}
