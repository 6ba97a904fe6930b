//! The server that all tests share, and the clients that run against it.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use crate::runs::Run;
use crate::runs::{READY, Running};

// As `hack/peers.sh` names them.
const PYTHON: &str = "python-kubectl1.37.1-client37.0.2";
const HELM: &str = "helm-3.22.0";

/// Runs the server until standard input ends, and leaves nothing: a static is never dropped.
const SUPERVISOR: &str = r#"
dir=$1; shift
"$@" 2>"$dir/log" &
server=$!
read -r _
kill -TERM $server
wait $server
rm -rf "$dir"
"#;

/// The longest that one run of a client may take, in seconds.
const PATIENCE: &str = "60";

/// The server of this process.
struct Server {
    kubeconfig: PathBuf,
    /// Ends when this process does, with its standard input.
    _supervisor: Option<Child>,
    /// It writes on: a pipe without a reader would end it.
    _output: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn start() -> Self {
        if let Some(kubeconfig) = std::env::var_os("SUTLER_TEST_KUBECONFIG") {
            return Self { kubeconfig: kubeconfig.into(), _supervisor: None, _output: None };
        }
        let folder = tempfile::Builder::new().prefix("sutler-clients-").tempdir().unwrap().keep();
        let data = folder.join("data");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "server"])
            .arg(&folder)
            .arg(env!("CARGO_BIN_EXE_sutler"))
            .args(["serve", "--api-only", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            // A group of its own: an interrupt at the terminal reaches it as the end of input.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(line.starts_with(READY), "the server did not start: {line:?}\n{}", log());
        Self {
            kubeconfig: data.join("admin.kubeconfig"),
            _supervisor: Some(shell),
            _output: Some(output),
        }
    }
}

/// The file that signs in as the administrator of the shared server.
pub(crate) fn kubeconfig() -> &'static Path {
    static SERVER: OnceLock<Server> = OnceLock::new();
    &SERVER.get_or_init(Server::start).kubeconfig
}

/// Whether the tests run against a server of ours.
pub(crate) fn is_ours() -> bool {
    std::env::var_os("SUTLER_TEST_KUBECONFIG").is_none()
}

/// A program in the cache; without it the test says that it is skipped, or fails where peers are
/// required.
fn peer(folder: &str, program: &str) -> Option<PathBuf> {
    let cache = match (std::env::var_os("SUTLER_CACHE"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => PathBuf::from(home).join(".cache/sutler"),
        (None, None) => PathBuf::new(),
    };
    let folder = cache.join("peers").join(folder);
    let path = folder.join(program);
    if folder.join(".complete").is_file() && path.is_file() {
        return Some(path);
    }
    let required = std::env::var_os("SUTLER_REQUIRE_PEERS").is_some_and(|set| set == "1");
    assert!(!required, "SUTLER_REQUIRE_PEERS is set, and {program} is not in the cache");
    println!("SKIPPED: {program} is not in the cache (hack/peers.sh)");
    None
}

/// The kubectl of the cache.
pub(crate) fn peer_kubectl() -> Option<PathBuf> {
    peer(PYTHON, "bin/kubectl")
}

/// A test's namespace, its folder, and the clients.
pub(crate) struct Place {
    kubectl: PathBuf,
    /// The namespace, empty at first.
    pub(crate) namespace: &'static str,
    folder: TempDir,
}

impl Place {
    /// Makes a namespace for a test; `None` where kubectl is not there.
    pub(crate) fn new(namespace: &'static str) -> Option<Self> {
        let kubectl = peer_kubectl()?;
        let place = Self { kubectl, namespace, folder: tempfile::tempdir().unwrap() };
        if !is_ours() {
            // A server that goes on may hold what an earlier run left.
            place.ok(&format!("delete ns {namespace} --ignore-not-found"));
        }
        place.ok(&format!("create ns {namespace}"));
        Some(place)
    }

    /// Writes a file to the test's folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A path in the test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs kubectl in the namespace with the words of `line`; words in single quotes are one.
    pub(crate) fn run(&self, line: &str) -> Run {
        self.kubectl(line).output().unwrap().into()
    }

    /// Runs kubectl, and it must succeed.
    pub(crate) fn ok(&self, line: &str) -> String {
        let run = self.run(line);
        assert_eq!(run.code, 0, "kubectl {line}\n{}{}", run.out, run.err);
        run.out
    }

    /// Runs kubectl, and it must end with this code; gives what it said on standard error.
    pub(crate) fn fails(&self, code: i32, line: &str) -> String {
        let run = self.run(line);
        assert_eq!(run.code, code, "kubectl {line}\n{}{}", run.out, run.err);
        run.err
    }

    /// Runs kubectl with a text on standard input.
    pub(crate) fn feed(&self, line: &str, input: &str) -> Run {
        let mut child = self.kubectl(line).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Applies a manifest, and it must succeed.
    pub(crate) fn apply(&self, manifest: &str) -> String {
        let run = self.feed("apply -f -", manifest);
        assert_eq!(run.code, 0, "{manifest}\n{}{}", run.out, run.err);
        run.out
    }

    /// An object, or a list.
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json"))).unwrap()
    }

    /// Starts kubectl and goes on beside it.
    pub(crate) fn start(&self, line: &str) -> Running {
        let line = format!("{line} --request-timeout={PATIENCE}s");
        let mut command = self.program(&self.kubectl);
        command.args(["-n", self.namespace]).args(words(&line));
        Running::out(command)
    }

    /// kubectl, ready to run.
    pub(crate) fn kubectl(&self, line: &str) -> Command {
        let mut command = self.program(OsStr::new("timeout"));
        command.arg(PATIENCE).arg(&self.kubectl).args(["-n", self.namespace]).args(words(line));
        command
    }

    /// Helm, ready to run; `None` where it is not there.
    pub(crate) fn helm(&self, line: &str) -> Option<Command> {
        let helm = peer(HELM, "helm")?;
        let mut command = self.program(OsStr::new("timeout"));
        command.arg(PATIENCE).arg(helm).args(words(line));
        Some(command)
    }

    /// The Python interpreter that has the client, ready to run a script of ours.
    pub(crate) fn python(&self, script: &str) -> Option<Command> {
        let python = peer(PYTHON, "bin/python")?;
        let folder = std::path::absolute("tests/clients/python").unwrap();
        let mut command = self.program(OsStr::new("timeout"));
        command.arg(PATIENCE).arg(python).arg(folder.join(script)).arg(self.namespace);
        // The checkout stays as it is.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // A kubeconfig of another server may leave out its authority.
        command.env("PYTHONWARNINGS", "ignore");
        Some(command)
    }

    fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", kubeconfig())
            .env("HOME", self.folder.path())
            .env("HELM_NAMESPACE", self.namespace)
            .env_remove("KUBE_EDITOR")
            .env_remove("EDITOR")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The words of a line; what stands between single quotes belongs to one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// A table without its alignment: the cells of each line, with one space between.
pub(crate) fn table(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// A small machine.
pub(crate) fn machine(namespace: &str, name: &str) -> String {
    format!(
        "apiVersion: infra.virtrigaud.io/v1beta1
kind: VirtualMachine
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
spec:
  providerRef: {{name: sim}}
  classRef: {{name: small}}
  imageRef: {{name: debian}}
"
    )
}

/// A small ConfigMap.
pub(crate) fn config_map(namespace: &str, name: &str, data: &str) -> String {
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
data: {{{data}}}
"
    )
}
