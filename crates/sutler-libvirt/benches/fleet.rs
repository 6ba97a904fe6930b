//! Speed on a real libvirt: a fleet looked at by us beside `virsh` once for each domain. Prints ratios of
//! one run. How long machines take to come into being is measured by the bench `machines` of `sutler`.
//!
//! `hack/libvirt.sh up`, then `SUTLER_GUEST_IMAGE=… cargo bench -p sutler-libvirt --bench fleet`.
#![expect(clippy::unwrap_used, reason = "what fails here fails the benchmark")]

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;
use sutler_libvirt::{Libvirt, Settings};
use sutler_provider::{Credentials, MachineId, Provider as _};
use virt::connect::Connect;

const URI: &str = "qemu:///system";
const POOL: &str = "sutler-test";
const DOMAINS: usize = 500;

#[tokio::main]
async fn main() {
    if std::env::var_os("SUTLER_GUEST_IMAGE").is_none() {
        println!("SUTLER_GUEST_IMAGE is not set: there is no libvirt to measure");
        return;
    }
    let options = json!({ "pool": POOL, "accelerator": "tcg" });
    let settings = Settings::from_options(options.as_object().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host =
        Libvirt::new(URI, &Credentials::default(), false, settings, folder.path().to_owned())
            .unwrap();
    looks(&host).await;
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
    // What it looks like and whether it is on: two calls for each, and one for all. One by one each is also
    // looked up, and asked for its snapshots.
    let (calls, calls_each) = (2 * DOMAINS + 1, 4 * DOMAINS);
    println!("{DOMAINS} domains");
    println!("  virsh, once for each          {virsh:>9.0?}   {DOMAINS} processes and connections");
    println!("  ours, one list                {list:>9.0?}   {:>6.0}x, {calls} calls", ratio(list));
    println!(
        "  ours, described one by one    {each:>9.0?}   {:>6.0}x, {calls_each} calls",
        ratio(each)
    );
}
