//! `sutler-sim serve` as a process: what it takes, what it refuses, and how it ends.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use sutler_provider::{ErrorKind, Machine, Power, Provider as _};
use sutler_rpc::{ClientSecurity, Remote, RemoteOptions, Security};

struct Process {
    child: Child,
    address: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sutler-sim"));
    command
        .args(args)
        .env_clear()
        .env("SUTLER_TLS_FOLDER", "/nowhere/at/all")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Process {
    fn start(args: &[&str]) -> Self {
        Self::spawn(command(args))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }

    fn remote(&self) -> Remote {
        let address = self.address.replace("0.0.0.0", "127.0.0.1").parse().unwrap();
        Remote::new(address, RemoteOptions::new(ClientSecurity::Plaintext)).unwrap()
    }

    fn terminate(mut self) -> i32 {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn without_certificates_it_refuses_to_serve() {
    let run =
        command(&["serve", "--listen", "127.0.0.1:0", "--health-port", "0"]).output().unwrap();
    assert!(!run.status.success());
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.contains("--tls-cert") && said.contains("--insecure"), "{said}");
}

// The client goes on while the test waits for the process: a frozen one would be waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_serves_a_folder_and_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let args = |state: &Path| {
        let all =
            ["serve", "--listen", "127.0.0.1:0", "--health-port", "0", "--insecure", "--state"];
        let mut all: Vec<String> = all.map(str::to_owned).to_vec();
        all.extend([state.display().to_string(), "--latency".to_owned(), "create=20ms".to_owned()]);
        all
    };
    let texts = args(&state);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let process = Process::start(&texts);
    let remote = process.remote();
    assert_eq!(remote.security(), Security::Plaintext);
    assert!(remote.capabilities().await.unwrap().token);
    let id = remote.create(request("web")).await.unwrap().id.unwrap();
    let mut events = remote.events().await.unwrap();
    assert_eq!(process.terminate(), 0);
    assert!(futures::StreamExt::next(&mut events).await.is_none());
    let error = remote.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let process = Process::start(&texts);
    let shown: Machine = process.remote().describe(&id).await.unwrap().unwrap();
    assert_eq!((shown.name.as_str(), shown.power), ("web", Power::On));
}

#[tokio::test]
async fn it_takes_what_a_virtrigaud_manager_gives_a_pod() {
    let (port, health) = (free_port(), free_port());
    let (port_arg, health_arg) = (format!("--port={port}"), format!("--health-port={health}"));
    let mut command = command(&[&port_arg, &health_arg]);
    command
        .env("VIRTRIGAUD_PROVIDER_INSECURE", "true")
        .env("PROVIDER_TYPE", "sim")
        .env("PROVIDER_ENDPOINT", "sim://lab")
        .env("PROVIDER_NAMESPACE", "default")
        .env("PROVIDER_NAME", "lab")
        .env("TLS_ENABLED", "false")
        .env("LOG_LEVEL", "INFO")
        .env("LOG_FORMAT", "JSON");
    let process = Process::spawn(command);
    assert_eq!(process.address, format!("0.0.0.0:{port}"));
    process.remote().validate().await.unwrap();
    process.remote().list().await.unwrap();
    assert!(get(health, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(get(health, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(health, "/nothing").starts_with("HTTP/1.1 404"));
    let metrics = get(health, "/metrics");
    assert!(
        metrics.contains("sutler_provider_calls_total{call=\"Validate\",outcome=\"Ok\"} 1"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_of_this_host_needs_no_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", folder.path().join("s").display());
    let process = Process::start(&["serve", "--listen", &address, "--health-port", "0"]);
    let remote = process.remote();
    assert_eq!(remote.security(), Security::Local);
    remote.validate().await.unwrap();
    assert_eq!(process.terminate(), 0);
    assert!(!folder.path().join("s").exists());
}

fn request(name: &str) -> sutler_provider::CreateRequest {
    serde_json::from_value(serde_json::json!({
        "owner": {"token": "u-1", "installation": "here", "namespace": "n", "name": name},
        "name": name,
        "hostname": name,
        "powerOn": true,
    }))
    .unwrap()
}
