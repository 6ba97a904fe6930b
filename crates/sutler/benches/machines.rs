//! How fast machines come into being, and what they cost: `sutler serve` over SQLite and, where its
//! programs are in the cache, `sutler serve --cluster` with the real kube-apiserver.
//!
//! `SUTLER_BENCH_SIZES=1000,10000` measures other numbers of machines, and `-- guests` after the bench's
//! name real ones alone.
#![expect(clippy::panic, clippy::unwrap_used, reason = "what fails ends the bench")]

#[path = "machines/fleet.rs"]
mod fleet;
#[path = "machines/guests.rs"]
mod guests;
#[path = "machines/server.rs"]
mod server;

use std::time::{Duration, Instant};

use fleet::Fleet;
use serde_json::{Value, json};
use server::Server;

/// How long the server is left alone to see what it does of its own accord.
const IDLE: Duration = Duration::from_secs(30);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if !std::env::args().any(|word| word == "guests") {
        simulated(&runtime);
    }
    match std::env::var_os("SUTLER_GUEST_IMAGE") {
        None => println!("SKIPPED: there is no libvirt with a guest (hack/bench.sh sets one up)"),
        Some(image) => runtime.block_on(guests::measure(std::path::Path::new(&image))),
    }
}

fn simulated(runtime: &tokio::runtime::Runtime) {
    let sizes = std::env::var("SUTLER_BENCH_SIZES").unwrap_or_else(|_| "1000,10000,25000".into());
    for size in sizes.split(',').map(|size| size.trim().parse::<usize>().unwrap()) {
        let server = Server::embedded();
        runtime.block_on(embedded(&server, size));
    }
    let server = Server::embedded();
    runtime.block_on(waiting(&server, 1000));
    drop(server);
    match Server::cluster() {
        None => println!("SKIPPED: the real kube-apiserver is not in the cache (hack/peers.sh)"),
        Some(server) => runtime.block_on(cluster(&server, 1000)),
    }
}

/// A platform that takes no time, so that only our own is measured.
fn instant() -> Value {
    json!({"without": ["imageImport"]})
}

async fn embedded(server: &Server, size: usize) {
    let fleet = Fleet::furnish(server, instant()).await;
    let (cpu, writes) = (server.cpu(), server.writes());
    let begun = Instant::now();
    let applied = fleet.apply_all_until_ready(size).await;
    let took = begun.elapsed();
    let (cpu, writes) = (server.cpu() - cpu, server.writes() - writes);
    let each = |count: f64| count / size as f64;
    println!(
        "{size} machines: {:.0}/s from apply to Ready ({:.1} s, of which {:.1} s until all were \
         applied), {cpu:.1} CPU-seconds ({:.2} ms each), {} MB resident (peak {} MB), \
         {:.2} API writes each beside the apply itself",
        size as f64 / took.as_secs_f64(),
        took.as_secs_f64(),
        applied.as_secs_f64(),
        each(cpu) * 1000.0,
        server.memory("VmRSS:") / 1024,
        server.memory("VmHWM:") / 1024,
        each(writes) - 1.0,
    );
    if (5_000..20_000).contains(&size) {
        // What was begun is finished first: Operations end a moment after their machines.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let cpu = server.cpu();
        tokio::time::sleep(IDLE).await;
        let share = (server.cpu() - cpu) / IDLE.as_secs_f64() * 100.0;
        println!(
            "{size} machines: {share:.2} % of a core idle, {} MB resident",
            server.memory("VmRSS:") / 1024
        );
    }
}

/// Machines whose IDs are not told and that take their time to show up: all wait for one list.
async fn waiting(server: &Server, size: usize) {
    let slow = json!({"without": ["imageImport", "events"], "returnsId": false, "tasks": false,
        "appears": "Made", "work": {"create": "0s", "boot": "60s"}});
    let fleet = Fleet::furnish(server, slow).await;
    fleet.apply_all(size).await;
    fleet.until_all(size, |vm| vm["status"]["phase"] == "Provisioning").await;
    let interval = Duration::from_secs(10);
    tokio::time::sleep(interval).await;
    let lists = server.metric("sutler_provider_lists_total");
    tokio::time::sleep(interval * 3).await;
    let lists = (server.metric("sutler_provider_lists_total") - lists) / 3.0;
    println!("{size} machines waiting: {lists:.1} lists per interval of 10 s");
}

async fn cluster(server: &Server, size: usize) {
    let fleet = Fleet::furnish(server, instant()).await;
    let begun = Instant::now();
    fleet.apply_all_until_ready(size).await;
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{size} machines on the real kube-apiserver: {took:.1} s ({:.0}/s), {:.1} times as fast as \
         234 s",
        size as f64 / took,
        234.0 / took
    );
}
