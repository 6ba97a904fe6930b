//! Hosts elsewhere: through an SSH server and a second libvirtd of this test's own.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use sutler_libvirt::Libvirt;
use sutler_provider::{Credentials, Error, ErrorKind, Provider as _};
use tempfile::TempDir;

use crate::lab;

/// The longest that anything may take here.
const LONG: Duration = Duration::from_secs(60);

/// Waits for an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "{what}: never");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server, which ends with this.
pub(crate) struct Running(Child);

impl Running {
    /// Starts a program, and waits until it listens.
    fn start(command: &mut Command, port: u16) -> Self {
        Self::start_until(command, || TcpStream::connect(("127.0.0.1", port)).is_ok())
    }

    /// Starts a program, and waits until it is there for others.
    pub(crate) fn start_until(command: &mut Command, there: impl Fn() -> bool) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Self(quiet.spawn().unwrap());
        let end = Instant::now() + LONG;
        while !there() {
            let ended = running.0.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "{command:?} is not there");
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }

    /// A program that runs.
    pub(crate) fn of(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn host(endpoint: &str, secrets: &[(&str, Vec<u8>)]) -> Arc<Libvirt> {
    let credentials: Credentials =
        secrets.iter().map(|(key, secret)| ((*key).to_owned(), secret.clone())).collect();
    lab::provider_with(endpoint, &credentials, json!({ "pool": lab::pool() }))
}

/// Nobody gets in: the error says what is wrong in these words, and which field is to be looked at.
async fn assert_shut(host: &Libvirt, kind: ErrorKind, field: &str, words: &str) -> Error {
    let error = host.validate().await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (kind, Some(field)), "{error:?}");
    assert!(error.message().contains(words), "{error:?}");
    // Where the copies of keys are, is nobody's business.
    assert!(!error.message().contains("/sutler-libvirt-"), "{error:?}");
    error
}

/// Nobody gets in because of what the Secret has.
async fn assert_denied(host: &Libvirt, words: &str) {
    assert_shut(host, ErrorKind::Denied, "spec.credentialSecretRef", words).await;
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// An SSH server with keys of its own.
struct Ssh {
    _running: Running,
    folder: TempDir,
    port: u16,
    /// Where sshd keeps its children apart, if that was made for it.
    apart: Option<PathBuf>,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        if let Some(apart) = &self.apart {
            drop(std::fs::remove_dir(apart));
        }
    }
}

impl Ssh {
    fn start() -> Option<Self> {
        let programs = ["/usr/sbin/sshd", "/usr/bin/ssh-keygen", "/usr/bin/virt-ssh-helper"];
        if let Some(missing) = programs.iter().find(|program| !Path::new(program).exists()) {
            println!("SKIPPED: {missing} is not there");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["host", "user", "stranger"] {
            let mut keygen = Command::new("ssh-keygen");
            let keygen = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            assert!(keygen.arg(folder.path().join(name)).status().unwrap().success());
        }
        let port = free_port();
        let path = folder.path().display();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {path}/host\nPidFile none\n\
             AuthorizedKeysFile {path}/user.pub\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        let apart = PathBuf::from("/run/sshd");
        let apart = std::fs::create_dir(&apart).is_ok().then_some(apart);
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-f"]).arg(folder.path().join("config"));
        let running = Running::start(&mut sshd, port);
        Some(Self { _running: running, folder, port, apart })
    }

    fn endpoint(&self) -> String {
        let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
        format!("qemu+ssh://{user}@127.0.0.1:{}/system", self.port)
    }

    /// A line of known_hosts with this public key.
    fn known(&self, key: &str) -> Vec<u8> {
        let key = String::from_utf8(read(self.folder.path(), key)).unwrap();
        format!("[127.0.0.1]:{} {key}", self.port).into_bytes()
    }

    fn host(&self, key: &str, known: Vec<u8>) -> Arc<Libvirt> {
        let key = read(self.folder.path(), key);
        host(&self.endpoint(), &[("ssh-privatekey", key), ("known_hosts", known)])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_ssh_only_who_is_known_is_trusted() {
    if lab::guest().is_none() {
        return;
    }
    let Some(ssh) = Ssh::start() else { return };
    let host = ssh.host("user", ssh.known("host.pub"));
    host.validate().await.unwrap();
    host.list().await.unwrap();
    assert!(host.capabilities().await.unwrap().version.is_some());

    // Another key than the host's, and a host that was never heard of.
    let other = ssh.host("user", ssh.known("stranger.pub"));
    assert_denied(&other, "host key is not the one in known_hosts").await;
    let unknown = ssh.host("user", b"# nobody\n".to_vec());
    assert_denied(&unknown, "host key is not known").await;
    // Another key than the user's.
    let stranger = ssh.host("stranger", ssh.known("host.pub"));
    assert_denied(&stranger, "it does not take ssh-privatekey").await;
}

/// A second libvirtd, which sees nothing of the first, with certificates of its own.
pub(crate) struct Tls {
    running: Option<Running>,
    folder: TempDir,
    port: u16,
    pub(crate) authority: Authority,
}

pub(crate) struct Authority {
    key: rcgen::KeyPair,
    params: rcgen::CertificateParams,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self { key: rcgen::KeyPair::generate().unwrap(), params }
    }

    fn pem(&self) -> Vec<u8> {
        self.params.self_signed(&self.key).unwrap().pem().into_bytes()
    }

    /// A certificate for this name, and its key.
    fn issue(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.key_usages =
            vec![rcgen::KeyUsagePurpose::DigitalSignature, rcgen::KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![
            rcgen::ExtendedKeyUsagePurpose::ServerAuth,
            rcgen::ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let cert = params.signed_by(&key, &rcgen::Issuer::from_params(&self.params, &self.key));
        (cert.unwrap().pem().into_bytes(), key.serialize_pem().into_bytes())
    }
}

/// It has neither the machines nor the networks of the first, and starts nothing.
const APART: &str = r#"
for folder in /run/libvirt /var/lib/libvirt /etc/libvirt; do mount -t tmpfs none $folder || exit; done
exec libvirtd --listen --config "$1/config" --pid-file "$1/pid"
"#;

impl Tls {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("ours");
        let (cert, key) = authority.issue("127.0.0.1");
        for (name, contents) in [("ca", authority.pem()), ("cert", cert), ("key", key)] {
            std::fs::write(folder.path().join(name), contents).unwrap();
        }
        let (port, path) = (free_port(), folder.path().display());
        let config = format!(
            "listen_tls = 1\nlisten_tcp = 0\nlisten_addr = \"127.0.0.1\"\ntls_port = \"{port}\"\n\
             ca_file = \"{path}/ca\"\ncert_file = \"{path}/cert\"\nkey_file = \"{path}/key\"\n"
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        let mut tls = Self { running: None, folder, port, authority };
        tls.start_again();
        tls
    }

    /// Starts it where it was.
    pub(crate) fn start_again(&mut self) {
        let mut libvirtd = Command::new("unshare");
        libvirtd
            .args(["--mount", "sh", "-c", APART, "sh"])
            .arg(self.folder.path())
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        self.running = Some(Running::start(&mut libvirtd, self.port));
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.running = None;
    }

    /// Sends it a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.running.as_ref().unwrap().0.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.unwrap().success(), "{pid} is not there");
    }

    pub(crate) fn host(&self, of: &Authority, trusted: &[&Authority]) -> Arc<Libvirt> {
        let (cert, key) = of.issue("client");
        let trusted = trusted.iter().flat_map(|authority| authority.pem()).collect();
        let secrets = [("tls.crt", cert), ("tls.key", key), ("ca.crt", trusted)];
        host(&format!("qemu+tls://127.0.0.1:{}/system", self.port), &secrets)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_tls_both_ends_are_verified() {
    if lab::guest().is_none() {
        return;
    }
    let tls = Tls::start();
    let ours = &tls.authority;
    let host = tls.host(ours, &[ours]);
    host.validate().await.unwrap();
    assert_eq!(host.list().await.unwrap().machines.len(), 0, "it is another libvirt");

    let stranger = Authority::new("stranger");
    let mixed = tls.host(ours, &[&stranger]);
    assert_denied(&mixed, "tls.crt of the Secret is not signed by its ca.crt").await;
    let misled = tls.host(&stranger, &[&stranger]);
    assert_denied(&misled, "its certificate is not signed by ca.crt").await;
    let impostor = tls.host(&stranger, &[&stranger, ours]);
    assert_denied(&impostor, "hung up on the certificate tls.crt").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_listens_is_said() {
    if lab::guest().is_none() {
        return;
    }
    let port = free_port();
    let authority = Authority::new("ours");
    let (cert, key) = authority.issue("client");
    let tls = [("tls.crt", cert), ("tls.key", key.clone()), ("ca.crt", authority.pem())];
    let ssh = [("ssh-privatekey", key), ("known_hosts", Vec::new())];
    for (endpoint, secrets) in [
        (format!("qemu+tls://127.0.0.1:{port}/system"), &tls[..]),
        (format!("qemu+ssh://root@127.0.0.1:{port}/system"), &ssh[..]),
    ] {
        let host = host(&endpoint, secrets);
        let refused = "Connection refused";
        let error = assert_shut(&host, ErrorKind::Unavailable, "spec.endpoint", refused).await;
        assert!(error.message().contains(&endpoint), "{error:?}");
        // One that was never there can still come.
        assert!(host.list().await.is_err());
    }
}
