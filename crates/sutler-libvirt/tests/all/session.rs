//! A user's own libvirt: no rights, no networks of the host, and `sutler-libvirt` itself as the user runs it.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::json;
use sutler_provider::{
    Class, CreateRequest, DeleteRequest, Disk, MachineId, Owner, Power, Proof, Provider, TaskId,
    TaskState, Token,
};
use sutler_rpc::{ClientSecurity, Remote, RemoteOptions};
use tempfile::TempDir;

use crate::{
    lab,
    remote::{Running, until},
};

/// Somebody who owns nothing.
const NOBODY: &str = "65534";

/// A folder that is the user's home.
struct User(TempDir);

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let user = Self(home);
        std::fs::create_dir_all(user.path().join("config/libvirt")).unwrap();
        // Otherwise libvirt starts another program for QEMU's output, which stays for minutes.
        let config = user.path().join("config/libvirt/qemu.conf");
        std::fs::write(config, "stdio_handler = \"file\"\n").unwrap();
        // Where the program was built, others may not look.
        let program = user.path().join("sutler-libvirt");
        std::fs::copy(env!("CARGO_BIN_EXE_sutler-libvirt"), &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut chown = Command::new("chown");
        let chown = chown.args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(user.path());
        assert!(chown.status().unwrap().success());
        user
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A program that the user runs.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", program])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path())
            .current_dir(self.path())
            .stdin(Stdio::null());
        for (name, folder) in
            [("RUNTIME_DIR", "run"), ("CONFIG_HOME", "config"), ("CACHE_HOME", "cache")]
        {
            command.env(format!("XDG_{name}"), self.path().join(folder));
        }
        command
    }

    fn libvirtd(&self) -> Running {
        let socket = self.path().join("run/libvirt/libvirt-sock");
        Running::start_until(&mut self.command("libvirtd"), || socket.exists())
    }

    fn pool(&self) {
        let path = self.path().join("pool");
        let make = format!("pool-define-as mine dir --target {}; pool-build mine", path.display());
        let mut virsh = self.command("virsh");
        let virsh =
            virsh.args(["-q", "-c", "qemu:///session", &format!("{make}; pool-start mine")]);
        let said = virsh.output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    /// Our program, and the provider that it serves.
    fn serve(&self) -> (Running, Arc<dyn Provider>) {
        let address = format!("unix:{}", self.path().join("socket").display());
        let options = json!({"pool": "mine", "network": "user", "accelerator": "tcg"});
        let program = self.path().join("sutler-libvirt");
        let mut command = self.command(program.to_str().unwrap());
        command
            .args(["serve", "--listen", &address, "--health-port", "0"])
            .args(["--endpoint", "qemu:///session", "--options", &options.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line:?}");
        let options = RemoteOptions::new(ClientSecurity::Plaintext);
        let remote = Remote::new(address.parse().unwrap(), options).unwrap();
        (Running::of(child), Arc::new(remote))
    }
}

async fn ended(provider: &dyn Provider, task: Option<TaskId>) {
    let Some(task) = task else { return };
    until("the task ends", async || match provider.task(&task).await.unwrap() {
        TaskState::Running { .. } => None,
        TaskState::Done { .. } => Some(()),
        other => unreachable!("{task}: {other:?}"),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_runs_machines_of_their_own() {
    if lab::guest().is_none() {
        return;
    }
    let user = User::new();
    let _libvirtd = user.libvirtd();
    user.pool();
    let (_program, provider) = user.serve();
    provider.validate().await.unwrap();
    assert_eq!(provider.list().await.unwrap().machines.len(), 0, "it is another libvirt");
    let owner = Owner {
        token: Token::new("session", 1),
        installation: "session".to_owned(),
        namespace: "default".to_owned(),
        name: "m".to_owned(),
    };
    let disk = Disk { name: "data".to_owned(), size_gib: 1, ..Disk::default() };
    let request = CreateRequest {
        class: Some(Class::new(1, 64)),
        disks: vec![disk],
        ..CreateRequest::new(owner.clone(), "session-m")
    };
    let accepted = provider.create(request).await.unwrap();
    ended(&*provider, accepted.task).await;
    let id: MachineId = accepted.id.unwrap();
    let shown = provider.describe(&id).await.unwrap().unwrap();
    assert_eq!(shown.power, Power::On);
    assert_eq!(shown.token, Some(owner.token.clone()));
    let volumes = || std::fs::read_dir(user.path().join("pool")).unwrap().count();
    assert_eq!(volumes(), 3, "its root disk, its data and its first boot's");

    let request = DeleteRequest { id: id.clone(), proof: Proof { owner, name: None } };
    ended(&*provider, provider.delete(request).await.unwrap().task).await;
    assert_eq!(provider.describe(&id).await.unwrap(), None);
    assert_eq!(volumes(), 0);
}
