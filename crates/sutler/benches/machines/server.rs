//! A server that is measured.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;
use sutler_parity::{peer, target::USERS};
use tempfile::TempDir;

/// A running server; it is killed when this goes away.
pub(crate) struct Server {
    child: Child,
    /// The administrator's way in.
    pub(crate) kubeconfig: PathBuf,
    metrics: String,
    _folder: TempDir,
}

impl Server {
    /// One with its own API server.
    pub(crate) fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("data/admin.kubeconfig");
        Self::start(folder, vec!["--listen".into(), "127.0.0.1:0".into()], kubeconfig)
    }

    /// One that uses the real API server, where there is one.
    pub(crate) fn cluster() -> Option<Self> {
        let peer = peer::shared()?;
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let authority = folder.path().join("ca.crt");
        std::fs::write(&authority, &peer.ca).unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "real",
            "clusters": [{"name": "real", "cluster": {
                "server": peer.base, "certificate-authority": authority}}],
            "users": [{"name": "admin", "user": {"token": USERS[0].token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let words = vec!["--cluster".into(), "--kubeconfig".into(), kubeconfig.clone().into()];
        Some(Self::start(folder, words, kubeconfig))
    }

    fn start(folder: TempDir, words: Vec<OsString>, kubeconfig: PathBuf) -> Self {
        let log = folder.path().join("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_sutler"))
            .args(["serve", "--log-level", "info", "--metrics-listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(line.starts_with("Sutler "), "the server did not start: {line}{said}");
        // It writes on: a pipe without a reader would end it.
        child.stdout = Some(stdout.into_inner());
        let told = said.split("serving metrics address=").nth(1).unwrap();
        let metrics = told.split_whitespace().next().unwrap().to_owned();
        let metrics = metrics.trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned();
        Self { child, kubeconfig, metrics, _folder: folder }
    }

    /// CPU-seconds that it has used.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        used(&stat).1
    }

    /// CPU-seconds that the programs of its Providers have used.
    pub(crate) fn cpu_of_children(&self) -> f64 {
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        let ours = stats.map(|stat| used(&stat)).filter(|(parent, _)| *parent == self.child.id());
        ours.map(|(_, seconds)| seconds).sum()
    }

    /// A size of its memory, in KiB.
    pub(crate) fn memory(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Writes that its API server has answered.
    pub(crate) fn writes(&self) -> f64 {
        let text = self.metrics();
        ["create", "update", "patch", "delete"]
            .iter()
            .map(|verb| sum(&text, &format!("sutler_api_requests_total{{verb=\"{verb}\"")))
            .sum()
    }

    /// A metric, over all its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        sum(&self.metrics(), name)
    }

    fn metrics(&self) -> String {
        let mut stream = std::net::TcpStream::connect(&self.metrics).unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

/// The parent of a process, and the CPU-seconds that it has used.
pub(crate) fn used(stat: &str) -> (u32, f64) {
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // utime and stime, in hundredths of a second.
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    (fields[1].parse().unwrap(), ticks / 100.0)
}

fn sum(text: &str, prefix: &str) -> f64 {
    let values = text.lines().filter(|line| line.starts_with(prefix));
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

impl Drop for Server {
    fn drop(&mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let end = Instant::now() + Duration::from_secs(15);
        while asked.is_ok() && Instant::now() < end {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
