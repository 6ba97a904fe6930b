//! Providers, servers, certificates and requests that the tests share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sutler_provider::{
    Class, CreateRequest, Deadlines, Disk, Firmware, Image, MachineId, Nic, Owner, Placement,
    Proof, Provider, SystemClock, Token,
};
use sutler_rpc::{
    Address, ClientSecurity, Listener, Pem, Remote, RemoteOptions, Server, ServerOptions,
    ServerSecurity, Store, pb::base::provider_client::ProviderClient,
};
use sutler_sim::{Settings, Sim};
use tokio::{sync::oneshot, task::JoinHandle};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with this.
pub(crate) struct Running {
    pub(crate) address: Address,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(
        provider: Arc<dyn Provider>,
        security: ServerSecurity,
        options: ServerOptions,
    ) -> Self {
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.address().parse().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let server = Server::new(provider, options);
            server.serve(listener, security, async { drop(stopped.await) }).await.unwrap();
        });
        Self { address, stop: Some(stop), task }
    }

    /// Lets the server end in order.
    pub(crate) async fn end(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(PATIENCE, &mut self.task).await.unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn sim(settings: Settings) -> Sim {
    Sim::in_memory(settings, Arc::new(SystemClock)).unwrap()
}

pub(crate) fn options(security: ClientSecurity) -> RemoteOptions {
    let deadlines = Deadlines { look: PATIENCE, make: PATIENCE, ..Deadlines::default() };
    RemoteOptions { deadlines, ..RemoteOptions::new(security) }
}

/// A provider behind a server without protection, and its remote self.
pub(crate) async fn plain(provider: Arc<dyn Provider>, extensions: bool) -> (Running, Remote) {
    let server_options = ServerOptions { extensions, ..ServerOptions::default() };
    let running = Running::start(provider, ServerSecurity::Plaintext, server_options).await;
    let remote = remote(&running, options(ClientSecurity::Plaintext));
    (running, remote)
}

pub(crate) fn remote(running: &Running, options: RemoteOptions) -> Remote {
    Remote::new(running.address.clone(), options).unwrap()
}

/// A manager's client, which knows nothing of us.
pub(crate) async fn client(server: &Running) -> ProviderClient<tonic::transport::Channel> {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address));
    ProviderClient::new(endpoint.unwrap().connect().await.unwrap())
}

pub(crate) fn owner(uid: &str) -> Owner {
    Owner {
        token: Token::new(uid, 1),
        installation: "here".to_owned(),
        namespace: "default".to_owned(),
        name: uid.to_owned(),
    }
}

pub(crate) fn proof(uid: &str) -> Proof {
    Proof { owner: owner(uid), name: Some(uid.to_owned()) }
}

pub(crate) fn class() -> Class {
    Class {
        cpu: 2,
        memory_mib: 2048,
        gpu: None,
        firmware: Firmware::Uefi,
        root_gib: Some(20),
        disk_type: Some("thin".to_owned()),
        storage: None,
        iops: None,
        guest_tools: Some("install".to_owned()),
        profiles: serde_json::json!({"performanceProfile": {"cpuHotAddEnabled": true}})
            .as_object()
            .unwrap()
            .clone(),
        extra: [("a.b".to_owned(), "c".to_owned())].into(),
    }
}

pub(crate) fn request(name: &str) -> CreateRequest {
    CreateRequest {
        class: Some(class()),
        image: Some(Image {
            name: "debian-13".to_owned(),
            template: Some("debian-13".to_owned()),
            ..Image::default()
        }),
        nics: vec![Nic {
            name: "eth0".to_owned(),
            network: Some("lan".to_owned()),
            vlan: Some(12),
            ip: Some("10.1.2.3".to_owned()),
            prefix: Some(24),
            dns: vec!["10.0.0.1".to_owned()],
            ..Nic::default()
        }],
        disks: vec![Disk {
            name: "data".to_owned(),
            size_gib: 5,
            type_: "thin".to_owned(),
            ..Disk::default()
        }],
        user_data: Some(b"#cloud-config\n".to_vec()),
        placement: Placement { host: Some("sim-1".to_owned()), ..Placement::default() },
        tags: vec!["blue".to_owned()],
        ..CreateRequest::new(owner(name), name)
    }
}

pub(crate) async fn make(provider: &dyn Provider, name: &str) -> MachineId {
    provider.create(request(name)).await.unwrap().id.unwrap()
}

/// A CA, and certificates that it signs.
pub(crate) struct Authority {
    key: rcgen::KeyPair,
    params: rcgen::CertificateParams,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        Self::named(&format!("ca {}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn named(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { key, params, pem }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for this name, that ends this many days from now, trusting `ca`.
    pub(crate) fn issue(&self, name: &str, days: i64, ca: &str) -> Pem {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let now = time::OffsetDateTime::now_utc();
        params.not_before = now - time::Duration::days(30);
        params.not_after = now + time::Duration::days(days);
        params.extended_key_usages = vec![
            rcgen::ExtendedKeyUsagePurpose::ServerAuth,
            rcgen::ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let issuer = rcgen::Issuer::from_params(&self.params, &self.key);
        let cert = params.signed_by(&key, &issuer).unwrap();
        Pem {
            cert: cert.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            ca: ca.as_bytes().to_vec(),
        }
    }
}

pub(crate) fn server_tls(pem: Pem) -> ServerSecurity {
    ServerSecurity::Tls { store: Store::new(pem).unwrap(), allowed_names: Vec::new() }
}

pub(crate) fn client_tls(pem: Pem) -> ClientSecurity {
    ClientSecurity::Tls { store: Store::new(pem).unwrap(), skip_verify: false }
}
