//! The real kube-apiserver with etcd and, where wanted, the controllers of
//! kube-controller-manager that clients rely on, or a whole cluster: kube-scheduler too, and kwok for
//! kubelets.
//!
//! The programs come from the cache that `hack/peers.sh` fills. They are children of a small
//! supervising shell that ends them when its standard input closes: however this process ends,
//! nothing is left running, and the API server always goes before etcd.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::target::{Compact, Https, TOY_CRDS, Target, USERS, documents, project_crds, runtime};

/// The version of the real server, as `hack/peers.sh` builds it.
pub const VERSION: &str = "1.36.3";

/// The version of its store, as `hack/peers.sh` builds it.
pub const ETCD_VERSION: &str = "3.6.8";

/// The version of what plays kubelets, as `hack/peers.sh` builds it.
pub const KWOK_VERSION: &str = "0.8.0";

/// The controllers that clients rely on.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,disruption-controller,\
    clusterrole-aggregation-controller,persistentvolumeclaim-protection-controller,\
    horizontal-pod-autoscaler-controller";

/// Those besides without which pods come to no nodes: a node that joins is tainted until one of them has
/// seen it ready.
const CLUSTER_CONTROLLERS: &str = "replicaset-controller,node-lifecycle-controller";

const READY_WITHIN: Duration = Duration::from_secs(90);
/// Between two looks at a server that is starting.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What to start.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// CRDs to apply beside the toy ones, as YAML documents.
    pub crds: Vec<String>,
    /// Whether to run the garbage collector and the controllers of namespaces, disruption budgets,
    /// aggregated roles, the protection of claims and autoscalers.
    pub controllers: bool,
    /// Whether it is a whole cluster, with these controllers and those of ReplicaSets and nodes, the
    /// scheduler, and kwok, which keeps nodes with the annotation [`KWOK_NODE`] ready and runs their pods.
    pub cluster: bool,
}

/// What marks nodes whose kubelet kwok plays, and with which value.
pub const KWOK_NODE: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// A running real server; dropping it ends its processes.
pub struct Peer {
    /// `https://127.0.0.1:port`.
    pub base: String,
    /// The CA that signed its certificate, in PEM.
    pub ca: String,
    /// The CRDs that it did not accept, with its reasons.
    pub refused: Vec<String>,
    target: Arc<Https>,
    stdin: Option<ChildStdin>,
    supervisor: Child,
}

impl Peer {
    /// Starts a server and waits until it serves everything it should. Somebody may take a port between its
    /// choice and its use: then others are tried.
    pub fn start(options: &Options) -> Result<Self> {
        for _ in 0..3 {
            match Self::try_start(options) {
                Err(error) if format!("{error:#}").contains(TAKEN) => {
                    println!("a port of the real kube-apiserver was taken meanwhile: {error:#}");
                }
                result => return result,
            }
        }
        Self::try_start(options)
    }

    fn try_start(options: &Options) -> Result<Self> {
        let programs = programs(options.cluster)?;
        let dir = tempfile::Builder::new().prefix("sutler-peer-").tempdir_in(scratch())?.keep();
        let (api, etcd, etcd_peer) = free_ports()?;
        let certificates = certificates()?;
        write_files(&dir, api, &certificates)?;
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "peer"])
            .arg(&dir)
            .args([&programs.kubernetes, &programs.etcd, &programs.scheduler, &programs.kwok])
            .args([api.to_string(), etcd.to_string(), etcd_peer.to_string()])
            // A group of its own: an interrupt at the terminal must reach it as the end of input.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("the supervising shell")?;
        let stdin = supervisor.stdin.take();
        let base = format!("https://127.0.0.1:{api}");
        let target =
            Arc::new(Https::new("real", &base, &certificates.ca, Some(etcd_compaction(etcd)))?);
        let refused = Vec::new();
        let mut peer = Self { base, ca: certificates.ca, refused, target, stdin, supervisor };
        peer.refused = peer.ready(options, &dir).with_context(|| tail(&dir))?;
        Ok(peer)
    }

    /// The server as a target of cases.
    pub fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    fn ready(&mut self, options: &Options, dir: &Path) -> Result<Vec<String>> {
        let target = self.target.clone();
        let crds = documents(TOY_CRDS)
            .into_iter()
            .chain(options.crds.iter().flat_map(|yaml| documents(yaml)))
            .collect::<Vec<_>>();
        let refused = runtime().block_on(async {
            let deadline = Instant::now() + READY_WITHIN;
            poll(deadline, "readyz", || {
                let target = &target;
                async move {
                    stopped(dir)
                        || matches!(call(target, "GET", "/readyz", None).await, Ok((200, _)))
                }
            })
            .await?;
            let mut refused = Vec::new();
            let mut accepted = Vec::new();
            for crd in &crds {
                let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
                let (status, body) = call(&target, "POST", path, Some(crd)).await?;
                if status == 201 {
                    accepted.push(crd);
                } else {
                    refused.push(format!("{status}: {}", body["message"]));
                }
            }
            for crd in accepted {
                let path = served_path(crd);
                poll(deadline, &path, || {
                    let (target, path) = (&target, &path);
                    async move { matches!(call(target, "GET", path, None).await, Ok((200, _))) }
                })
                .await?;
            }
            anyhow::Ok(refused)
        })?;
        // Only now: the garbage collector looks for new kinds every 30 seconds.
        let lines = match (options.cluster, options.controllers) {
            (true, _) => format!("controllers {CONTROLLERS},{CLUSTER_CONTROLLERS}\ncluster\n"),
            (false, true) => format!("controllers {CONTROLLERS}\n"),
            (false, false) => String::new(),
        };
        let stdin = self.stdin.as_mut().context("the supervisor's input")?;
        stdin.write_all(lines.as_bytes()).context("the supervisor")?;
        Ok(refused)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// The server that all tests of this process share, with the toy CRDs, the project's own and the
/// controllers; `None`, said once, where its programs are not there.
pub fn shared() -> Option<&'static Peer> {
    static SHARED: OnceLock<Option<Peer>> = OnceLock::new();
    SHARED.get_or_init(|| start_shared(false)).as_ref()
}

/// A server like the one that all share, for one case alone; `None`, said, where its programs are not there.
pub fn alone() -> Option<Peer> {
    start_shared(false)
}

/// The whole cluster that all tests of this process share; `None`, said once, where its programs are not
/// there.
pub fn shared_cluster() -> Option<&'static Peer> {
    static SHARED: OnceLock<Option<Peer>> = OnceLock::new();
    SHARED.get_or_init(|| start_shared(true)).as_ref()
}

#[expect(clippy::panic, reason = "a peer that is required and missing must fail the test")]
fn start_shared(cluster: bool) -> Option<Peer> {
    let required = std::env::var_os("SUTLER_REQUIRE_PEERS").is_some();
    if let Err(why) = programs(cluster) {
        assert!(!required, "SUTLER_REQUIRE_PEERS is set, and {why:#}");
        println!("SKIPPED: comparison with the real kube-apiserver: {why:#} (hack/peers.sh)");
        return None;
    }
    let options = Options { crds: project_crds(), controllers: true, cluster };
    match Peer::start(&options) {
        Ok(peer) => Some(peer),
        Err(error) => panic!("the real kube-apiserver does not start: {error:#}"),
    }
}

fn served_path(crd: &Value) -> String {
    let spec = &crd["spec"];
    let version = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|version| version["served"] == true)
        .and_then(|version| version["name"].as_str())
        .unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("/apis/{}/{version}/{}", text(&spec["group"]), text(&spec["names"]["plural"]))
}

/// Folders of the cache.
struct Programs {
    kubernetes: PathBuf,
    etcd: PathBuf,
    scheduler: PathBuf,
    kwok: PathBuf,
}

/// Where the cache keeps the programs: those of a server, or of a whole cluster.
fn programs(cluster: bool) -> Result<Programs> {
    let cache = match std::env::var_os("SUTLER_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?)
            .join(".cache/sutler"),
    };
    let kubernetes = cache.join(format!("peers/k8s-{VERSION}"));
    let etcd = cache.join(format!("peers/etcd-{ETCD_VERSION}"));
    let scheduler = cache.join(format!("peers/scheduler-{VERSION}"));
    let kwok = cache.join(format!("peers/kwok-{KWOK_VERSION}"));
    let needed = [
        (&kubernetes, "kube-apiserver"),
        (&kubernetes, "kube-controller-manager"),
        (&etcd, "etcd"),
        (&scheduler, "kube-scheduler"),
        (&kwok, "kwok"),
        (&kwok, "stages.yaml"),
    ];
    for (folder, program) in &needed[..if cluster { needed.len() } else { 3 }] {
        if !folder.join(program).is_file() {
            bail!("{program} is not in the cache");
        }
    }
    Ok(Programs { kubernetes, etcd, scheduler, kwok })
}

/// Ports to choose from.
const PORTS: std::ops::Range<u16> = 18_000..30_000;

/// What a server says whose port is somebody else's.
const TAKEN: &str = "address already in use";

/// Memory where there is a file system in it: etcd syncs every write.
fn scratch() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Three ports that are free. They are below those that are given to whoever asks for any, as every connection
/// does: one of these would soon be somebody's.
fn free_ports() -> Result<(u16, u16, u16)> {
    let mut held = Vec::new();
    for _ in 0..1000 {
        let port = rand::random_range(PORTS);
        held.extend(TcpListener::bind(("127.0.0.1", port)).map(|listener| (port, listener)));
        if let [(a, _), (b, _), (c, _)] = held[..] {
            return Ok((a, b, c));
        }
    }
    bail!("no three ports of {PORTS:?} are free")
}

struct Certificates {
    ca: String,
    server: String,
    server_key: String,
    account_key: String,
    account_public: String,
}

fn certificates() -> Result<Certificates> {
    let ca_key = rcgen::KeyPair::generate()?;
    let mut ca = rcgen::CertificateParams::new(Vec::new())?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_cert = ca.self_signed(&ca_key)?;
    let issuer = rcgen::Issuer::new(ca, &ca_key);
    let server_key = rcgen::KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let server = rcgen::CertificateParams::new(names)?.signed_by(&server_key, &issuer)?;
    let account_key = rcgen::KeyPair::generate()?;
    Ok(Certificates {
        ca: ca_cert.pem(),
        server: server.pem(),
        server_key: server_key.serialize_pem(),
        account_key: account_key.serialize_pem(),
        account_public: account_key.public_key_pem(),
    })
}

fn write_files(dir: &Path, api: u16, certificates: &Certificates) -> Result<()> {
    let users: String = USERS
        .iter()
        .map(|user| match user.groups {
            // An empty column would be a group without a name.
            [] => format!("{},{},{}\n", user.token, user.name, user.uid),
            groups => {
                format!("{},{},{},\"{}\"\n", user.token, user.name, user.uid, groups.join(","))
            }
        })
        .collect();
    // Health is open to everybody, everything else to nobody without credentials.
    let authentication = "apiVersion: apiserver.config.k8s.io/v1\n\
        kind: AuthenticationConfiguration\n\
        anonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n  - path: /readyz\n  - path: /healthz\n";
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "peer", "cluster": {
            "server": format!("https://127.0.0.1:{api}"), "certificate-authority": dir.join("ca.crt"),
        }}],
        "users": [{"name": "admin", "user": {"token": USERS[0].token}}],
        "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "admin"}}],
        "current-context": "peer",
    });
    // Pods that found no node are tried again soon.
    let scheduler = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": dir.join("kubeconfig"), "qps": 500, "burst": 500},
        "leaderElection": {"leaderElect": false},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
    });
    for (name, text) in [
        ("scheduler.yaml", scheduler.to_string().as_str()),
        ("tokens.csv", users.as_str()),
        ("authentication.yaml", authentication),
        ("kubeconfig", kubeconfig.to_string().as_str()),
        ("ca.crt", &certificates.ca),
        ("server.crt", &certificates.server),
        ("server.key", &certificates.server_key),
        ("account.key", &certificates.account_key),
        ("account.pub", &certificates.account_public),
    ] {
        std::fs::write(dir.join(name), text).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// Arguments: folder, those of the programs, the API's port, etcd's two ports. Lines on the input start
/// controllers and the rest of a cluster, its end stops everything.
///
/// Old pages are read from etcd and not from the server's own copies of the past: those notice a
/// compaction only after 15 seconds.
const SUPERVISOR: &str = r#"
dir=$1 bin=$2 store=$3 scheduler=$4 kwok=$5 api=$6 etcd=$7 peer=$8
cd "$dir"
"$store/etcd" --name peer --data-dir "$dir/etcd" \
  --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
  --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "peer=http://127.0.0.1:$peer" --log-level error </dev/null >etcd.log 2>&1 &
store=$!
"$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$etcd" --secure-port "$api" \
  --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --cert-dir "$dir" \
  --tls-cert-file server.crt --tls-private-key-file server.key --client-ca-file ca.crt \
  --service-account-issuer https://peer --service-account-key-file account.pub \
  --service-account-signing-key-file account.key --authorization-mode RBAC \
  --token-auth-file tokens.csv --authentication-config authentication.yaml \
  --service-cluster-ip-range 10.96.0.0/12 --disable-admission-plugins ServiceAccount \
  --etcd-compaction-interval 0 \
  --feature-gates ListFromCacheSnapshot=false </dev/null >apiserver.log 2>&1 &
server=$!
others=
while read -r what which; do
  case $what in
  controllers)
    "$bin/kube-controller-manager" --kubeconfig kubeconfig --leader-elect=false --secure-port 0 \
      --controllers "$which" --horizontal-pod-autoscaler-sync-period 1s \
      </dev/null >controllers.log 2>&1 &
    others="$others $!"
    ;;
  cluster)
    "$scheduler/kube-scheduler" --config scheduler.yaml --secure-port 0 </dev/null >scheduler.log 2>&1 &
    others="$others $!"
    KWOK_WORKDIR="$dir/kwok" "$kwok/kwok" --kubeconfig kubeconfig --config "$kwok/stages.yaml" \
      --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake </dev/null >kwok.log 2>&1 &
    others="$others $!"
    ;;
  esac
done
kill -KILL $server $others
wait $server $others
kill -KILL $store
wait $store
rm -rf "$dir"
"#;

fn etcd_compaction(port: u16) -> Compact {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    Arc::new(move |version| -> BoxFuture<'static, Result<()>> {
        let client = client.clone();
        Box::pin(async move {
            let body = json!({"revision": version.to_string(), "physical": true}).to_string();
            let request = Request::post(format!("http://127.0.0.1:{port}/v3/kv/compaction"))
                .body(Full::new(Bytes::from(body)))?;
            let response = client.request(request).await?;
            anyhow::ensure!(response.status() == 200, "etcd answers {}", response.status());
            response.into_body().collect().await?;
            Ok(())
        })
    })
}

async fn call(
    target: &Https,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, Value)> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {}", USERS[0].token));
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let response = target.send(request.body(bytes)?).await?;
    let status = response.status().as_u16();
    let bytes = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => bail!("the body broke off: {error}"),
    };
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}

async fn poll<F: Future<Output = bool>>(
    deadline: Instant,
    what: &str,
    look: impl Fn() -> F,
) -> Result<()> {
    while !look().await {
        if Instant::now() > deadline {
            bail!("{what} is not there after {} s", READY_WITHIN.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn tail(dir: &Path) -> String {
    let end = |name: &str| {
        let log = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(8).collect();
        format!("{name} ends with:\n{}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
    };
    format!("{}\n{}", end("etcd.log"), end("apiserver.log"))
}

/// Whether one of the servers has given up, so that nobody waits for it in vain.
fn stopped(dir: &Path) -> bool {
    let says = |name: &str, what: &str| {
        std::fs::read_to_string(dir.join(name)).is_ok_and(|log| log.contains(what))
    };
    says("apiserver.log", "\"command failed\"") || says("etcd.log", TAKEN)
}
