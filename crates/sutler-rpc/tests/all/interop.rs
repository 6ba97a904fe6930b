//! Another language: Python clients and servers, from a proto that was written from the documented
//! wire alone, drive ours and are driven by it.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};

use sutler_provider::*;
use sutler_rpc::{ClientSecurity, Pem, Remote, RemoteOptions, ServerOptions, ServerSecurity};
use sutler_sim::{Settings, WorkTimes};

use crate::support::{Authority, Running, client_tls, options, proof, request, server_tls, sim};

fn folder() -> PathBuf {
    std::path::absolute("tests/interop").unwrap()
}

/// The interpreter, and the folder with the generated code; installed where they are not there.
fn python() -> &'static (PathBuf, tempfile::TempDir) {
    static PYTHON: OnceLock<(PathBuf, tempfile::TempDir)> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let setup = Command::new("bash").arg(folder().join("setup.sh")).output().unwrap();
        assert!(setup.status.success(), "{}", String::from_utf8_lossy(&setup.stderr));
        let python = PathBuf::from(String::from_utf8(setup.stdout).unwrap().trim());
        let generated = tempfile::tempdir().unwrap();
        let made = Command::new(&python)
            .args(["-m", "grpc_tools.protoc", "-I"])
            .arg(folder())
            .arg(format!("--python_out={}", generated.path().display()))
            .arg(format!("--grpc_python_out={}", generated.path().display()))
            .arg("documented.proto")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (python, generated)
    })
}

fn script(name: &str) -> Command {
    let (python, generated) = python();
    let mut command = Command::new(python);
    command.arg(folder().join(name)).env("PYTHONPATH", generated.path());
    command
}

fn write(folder: &Path, pem: &Pem) {
    for (name, data) in [("tls.crt", &pem.cert), ("tls.key", &pem.key), ("ca.crt", &pem.ca)] {
        std::fs::write(folder.join(name), data).unwrap();
    }
}

async fn drive(security: ServerSecurity, settings: Settings, tls: Option<&Path>) {
    let options = ServerOptions { extensions: false, ..ServerOptions::default() };
    let server = Running::start(Arc::new(sim(settings)), security, options).await;
    let mut command = script("client.py");
    command.arg(server.address.to_string()).args(tls);
    let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(text, "done\n", "{}", String::from_utf8_lossy(&run.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_manager_drives_ours() {
    drive(ServerSecurity::Plaintext, Settings::default(), None).await;
    let t = Duration::from_millis(20);
    let work = WorkTimes {
        create: t,
        start: t,
        stop: t,
        shutdown: t,
        delete: t,
        reconfigure: t,
        snapshot: t,
        clone: t,
        transfer: t,
        ..WorkTimes::default()
    };
    let ca = Authority::new();
    let certs = tempfile::tempdir().unwrap();
    write(certs.path(), &ca.issue("manager.test", 9, ca.pem()));
    let security = server_tls(ca.issue("provider.test", 9, ca.pem()));
    drive(security, Settings { work, ..Settings::default() }, Some(certs.path())).await;
}

/// A Python provider, which ends with this.
struct Peer {
    child: Child,
    port: u16,
}

impl Peer {
    fn start(tls: Option<&Path>) -> Self {
        let mut child = script("server.py")
            .args(tls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    fn remote(&self, options: RemoteOptions) -> Remote {
        Remote::new(format!("127.0.0.1:{}", self.port).parse().unwrap(), options).unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

async fn ended(there: &Remote, task: Option<TaskId>) -> TaskState {
    let Some(task) = task else { return TaskState::Done { id: None } };
    loop {
        match there.task(&task).await.unwrap() {
            TaskState::Running { .. } => tokio::task::yield_now().await,
            state => return state,
        }
    }
}

async fn driven(there: &Remote) {
    there.validate().await.unwrap();
    let can = there.capabilities().await.unwrap();
    assert_eq!((can.unique_by, can.token, can.list), (UniqueBy::Name, false, true));
    assert!(can.snapshots && !can.memory_snapshots && !can.clones && !can.events);
    let bare = |name: &str| CreateRequest { disks: Vec::new(), nics: Vec::new(), ..request(name) };
    let made = there.create(bare("web-ab3de")).await.unwrap();
    let id = made.id.unwrap();
    assert!(matches!(ended(there, made.task).await, TaskState::Done { .. }));
    // The description has no name, so the list is asked for it.
    let seen = there.describe(&id).await.unwrap().unwrap();
    assert_eq!((seen.name.as_str(), seen.power), ("web-ab3de", Power::On));
    assert_eq!((seen.cpu, seen.ips.len()), (Some(2), 1));
    let listing = there.list().await.unwrap();
    assert_eq!((listing.machines[0].name.as_str(), listing.complete), ("web-ab3de", true));
    let error = there.create(bare("web-ab3de")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let error = there.create(bare("vague-ab3de")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "Unknown leaves a change open");
    let off = PowerRequest { id: id.clone(), proof: proof("web-ab3de"), op: PowerOp::Off };
    ended(there, there.power(off).await.unwrap().task).await;
    assert_eq!(there.describe(&id).await.unwrap().unwrap().power, Power::Off);
    let mut desired = bare("web-ab3de");
    desired.class.as_mut().unwrap().cpu = 99;
    let change = ReconfigureRequest {
        id: id.clone(),
        proof: proof("web-ab3de"),
        desired,
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    };
    let task = there.reconfigure(change).await.unwrap().task;
    let TaskState::Failed(error) = ended(there, task).await else { panic!("it has no room") };
    assert_eq!((error.kind(), error.message()), (ErrorKind::Failed, "no room"));
    let take = SnapshotRequest {
        id: id.clone(),
        proof: proof("web-ab3de"),
        name: "s".to_owned(),
        description: None,
        memory: false,
        quiesce: false,
    };
    let taken = there.snapshot_create(take).await.unwrap().id.unwrap();
    for _ in 0..2 {
        there.snapshot_delete(&id, &proof("web-ab3de"), &taken).await.unwrap();
    }
    assert_eq!(there.task(&"t-99".into()).await.unwrap(), TaskState::Unknown);
    let revert = there.snapshot_revert(&id, &proof("web-ab3de"), &taken).await.unwrap_err();
    assert_eq!(revert.kind(), ErrorKind::Unsupported);
    let delete = || DeleteRequest { id: id.clone(), proof: proof("web-ab3de") };
    there.delete(delete()).await.unwrap();
    there.delete(delete()).await.unwrap();
    assert_eq!(there.describe(&id).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_drives_a_python_provider() {
    let peer = Peer::start(None);
    driven(&peer.remote(options(ClientSecurity::Plaintext))).await;
    let ca = Authority::new();
    let certs = tempfile::tempdir().unwrap();
    write(certs.path(), &ca.issue("provider.test", 9, ca.pem()));
    let peer = Peer::start(Some(certs.path()));
    let with = |security| RemoteOptions {
        server_name: Some("provider.test".to_owned()),
        ..options(security)
    };
    driven(&peer.remote(with(client_tls(ca.issue("manager.test", 9, ca.pem()))))).await;
    let stranger = Authority::new().issue("manager.test", 9, ca.pem());
    let error = peer.remote(with(client_tls(stranger))).validate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}
