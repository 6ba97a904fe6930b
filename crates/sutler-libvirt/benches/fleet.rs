//! Speed on a real libvirt: a fleet looked at by us beside `virsh` once for each domain, and machines made
//! as overlays, with QEMU's own time apart. Prints ratios of one run.
//!
//! `hack/libvirt.sh up`, `hack/guest-image.sh`, then
//! `SUTLER_GUEST_IMAGE=… cargo bench -p sutler-libvirt --bench fleet`.
#![expect(clippy::unwrap_used, reason = "what fails here fails the benchmark")]

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::json;
use sutler_libvirt::{Libvirt, Settings};
use sutler_provider::{
    Class, CreateRequest, Credentials, DeleteRequest, Image, MachineId, Owner, PrepareRequest,
    Proof, Provider as _, TaskId, TaskState, Token,
};
use virt::connect::Connect;

const URI: &str = "qemu:///system";
const POOL: &str = "sutler-test";
const DOMAINS: usize = 500;
const CLONES: usize = 50;

#[tokio::main]
async fn main() {
    let Some(image) = std::env::var_os("SUTLER_GUEST_IMAGE").map(PathBuf::from) else {
        println!("SUTLER_GUEST_IMAGE is not set: there is no libvirt to measure");
        return;
    };
    let options = json!({ "pool": POOL, "accelerator": "tcg", "folders": [image.parent()] });
    let settings = Settings::from_options(options.as_object().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host =
        Libvirt::new(URI, &Credentials::default(), false, settings, folder.path().to_owned())
            .unwrap();
    let host = Arc::new(host);
    looks(&host).await;
    clones(&host, image).await;
}

/// Domains of nobody, which are defined and never started.
struct Fleet(Connect, Vec<String>);

impl Fleet {
    fn define() -> Self {
        let connect = Connect::open(Some(URI)).unwrap();
        let mut names = Vec::new();
        for index in 0..DOMAINS {
            let name = format!("bench-{index}");
            let xml = format!(
                "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
                 <os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
            );
            connect.define_domain_xml(&xml).unwrap();
            names.push(name);
        }
        Self(connect, names)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for name in &self.1 {
            self.0.lookup_domain_by_name(name).unwrap().undefine().unwrap();
        }
    }
}

async fn looks(host: &Libvirt) {
    let fleet = Fleet::define();
    // The first call also connects.
    host.list().await.unwrap();
    let began = Instant::now();
    let listing = host.list().await.unwrap();
    let list = began.elapsed();
    let ids: Vec<MachineId> = listing
        .machines
        .into_iter()
        .filter(|machine| machine.name.starts_with("bench-"))
        .map(|machine| machine.id)
        .collect();
    assert_eq!(ids.len(), DOMAINS);
    let began = Instant::now();
    for id in &ids {
        host.describe(id).await.unwrap().unwrap();
    }
    let each = began.elapsed();
    let began = Instant::now();
    for name in &fleet.1 {
        let args = ["-q", "-c", URI, "dumpxml", name];
        let run = Command::new("virsh").args(args).stdout(Stdio::null()).status();
        assert!(run.unwrap().success());
    }
    let virsh = began.elapsed();
    let ratio = |ours: Duration| virsh.as_secs_f64() / ours.as_secs_f64();
    // What it looks like and whether it is on: two calls for each, and one for all.
    let calls = 2 * DOMAINS + 1;
    println!("{DOMAINS} domains");
    println!("  virsh, once for each          {virsh:>9.0?}   {DOMAINS} processes and connections");
    println!("  ours, one list                {list:>9.0?}   {:>6.0}x, {calls} calls", ratio(list));
    println!("  ours, described one by one    {each:>9.0?}   {:>6.0}x", ratio(each));
}

fn request(index: usize, image: &str) -> CreateRequest {
    let owner = Owner {
        token: Token::new(format!("bench-{index}"), 1),
        installation: "bench".to_owned(),
        namespace: "default".to_owned(),
        name: format!("b{index}"),
    };
    CreateRequest {
        class: Some(Class::new(1, 128)),
        image: Some(Image { id: Some(image.to_owned()), linked: true, ..Image::default() }),
        ..CreateRequest::new(owner, format!("bench-clone-{index}"))
    }
}

async fn ended(host: &Libvirt, task: &TaskId) {
    loop {
        match host.task(task).await.unwrap() {
            TaskState::Running { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
            TaskState::Done { .. } => return,
            other => unreachable!("{task}: {other:?}"),
        }
    }
}

async fn make(host: Arc<Libvirt>, request: CreateRequest) -> MachineId {
    let accepted = host.create(request).await.unwrap();
    if let Some(task) = &accepted.task {
        ended(&host, task).await;
    }
    accepted.id.unwrap()
}

async fn clones(host: &Arc<Libvirt>, path: PathBuf) {
    let image = Image {
        path: Some(path.display().to_string()),
        format: Some("qcow2".to_owned()),
        ..Image::default()
    };
    let prepared = host
        .image_prepare(PrepareRequest {
            image,
            target: "bench".to_owned(),
            ..PrepareRequest::default()
        })
        .await
        .unwrap();
    if let Some(task) = &prepared.task {
        ended(host, task).await;
    }
    let image = prepared.id.unwrap();
    let began = Instant::now();
    let made = join_all((0..CLONES).map(|index| make(host.clone(), request(index, &image)))).await;
    let all = began.elapsed();
    // The same domains again, started by libvirt alone: what is left is ours.
    let connect = Connect::open(Some(URI)).unwrap();
    let mut qemu = Duration::ZERO;
    let domains: Vec<_> =
        made.iter().map(|id| connect.lookup_domain_by_uuid_string(&id.0).unwrap()).collect();
    for domain in &domains {
        domain.destroy().unwrap();
    }
    let began = Instant::now();
    for domain in &domains {
        domain.create().unwrap();
    }
    qemu += began.elapsed();
    println!("{CLONES} overlays, from create to running");
    println!("  all                           {all:>9.0?}   {:>6.2?} each", all / CLONES as u32);
    println!("  QEMU and libvirt alone        {qemu:>9.0?}   {:>6.2?} each", qemu / CLONES as u32);
    println!("  ratio                         {:>8.2}x", all.as_secs_f64() / qemu.as_secs_f64());
    for (index, id) in made.into_iter().enumerate() {
        let owner = request(index, &image).owner;
        let request = DeleteRequest { id, proof: Proof { owner, name: None } };
        if let Some(task) = host.delete(request).await.unwrap().task {
            ended(host, &task).await;
        }
    }
    host.image_remove("bench").await.unwrap();
}
