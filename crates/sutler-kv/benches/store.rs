//! What the SQLite engine does in a second, beside what SQLite alone does with the same rows on the
//! same disk in the same run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use rusqlite::Connection;
use sutler_kv::engine::{Action, Engine, Expect, Range, Write};
use sutler_kv::sqlite::{Options, Sqlite};

const OBJECTS: u64 = 25_000;
const SIZE: usize = 1000;
const PAGE: usize = 500;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        println!("writes of {SIZE} bytes under random names:");
        for clients in [1, 16, 64, 256] {
            let total = if clients == 1 { 5_000 } else { 50_000 };
            let folder = tempfile::tempdir().expect("a folder is made");
            let store = open(&folder.path().join("store.db"));
            let creates = rate(total, write_all(&store, clients, total, Expect::Absent)).await;
            let updates = rate(total, write_all(&store, clients, total, Expect::Present)).await;
            drop(store);
            let limit = raw(&folder.path().join("raw.db"), clients, total);
            println!(
                "  {clients:3} in flight: {creates:7.0} creates/s ({:3.0} % of SQLite alone, \
                 {limit:.0}/s with as many a commit), {updates:7.0} updates/s",
                100.0 * creates / limit,
            );
        }
        let folder = tempfile::tempdir().expect("a folder is made");
        let store = open(&folder.path().join("store.db"));
        write_all(&store, 64, OBJECTS, Expect::Absent).await;
        println!("{OBJECTS} objects:");
        lists(&store).await;
        for clients in [1, 64] {
            let total = 100_000;
            let gets = rate(total, get_all(&store, clients, total)).await;
            println!("  {clients:3} in flight: {gets:7.0} gets/s");
        }
        write_all(&store, 64, OBJECTS, Expect::Present).await;
        let start = Instant::now();
        store.compact(store.version()).await.expect("it compacts");
        println!("  compaction of {OBJECTS} changes: {:?}", start.elapsed());
        println!("  resident: {} MB", resident_kb() / 1000);
    });
}

fn open(path: &Path) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(path, Options::default()).expect("the store opens"))
}

async fn lists(store: &Sqlite) {
    for round in ["cold", "warm"] {
        let mut range = Range { prefix: "core/x/".to_owned(), limit: PAGE, ..Range::default() };
        let mut times = Vec::new();
        loop {
            let start = Instant::now();
            let page = store.list(range.clone()).await.expect("it lists");
            times.push(start.elapsed());
            range.at = Some(page.version);
            range.after = page.records.last().map(|record| record.key.to_string());
            if page.remaining == 0 {
                break;
            }
        }
        let whole: std::time::Duration = times.iter().sum();
        let first = times[0];
        times.sort();
        println!(
            "  {round}: first page of {PAGE} {first:?}, median page {:?}, {} pages {whole:?}",
            times[times.len() / 2],
            times.len(),
        );
    }
    let start = Instant::now();
    let count = store.count("core/x/").await.expect("it counts");
    println!("  count of {count}: {:?}", start.elapsed());
}

async fn rate(total: u64, work: impl Future<Output = ()>) -> f64 {
    let start = Instant::now();
    work.await;
    total as f64 / start.elapsed().as_secs_f64()
}

async fn write_all(store: &Arc<Sqlite>, clients: u64, total: u64, expect: Expect) {
    let next = Arc::new(AtomicU64::new(0));
    let value = Bytes::from(vec![b'x'; SIZE]);
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (store, next, value) = (store.clone(), next.clone(), value.clone());
            tokio::spawn(async move {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= total {
                        return;
                    }
                    let action = Action::Put(value.clone());
                    let write = Write { key: name(at).into(), expect, action, also: Vec::new() };
                    store.write(write).await.expect("it is written");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("a client ends");
    }
}

async fn get_all(store: &Arc<Sqlite>, clients: u64, total: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (store, next) = (store.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= total {
                        return;
                    }
                    let key = name(at % OBJECTS);
                    store.get(&key).await.expect("it reads").expect("it is there");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("a client ends");
    }
}

/// Names whose order has nothing to do with the order of writing.
fn name(at: u64) -> String {
    format!("core/x/default/object-{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The same rows by one thread, so many a transaction, with nothing checked or published.
fn raw(path: &Path, batch: u64, total: u64) -> f64 {
    let connection = Connection::open(path).expect("SQLite opens");
    connection
        .execute_batch(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA cache_size = -4096;
             CREATE TABLE log (version INTEGER PRIMARY KEY, key TEXT, value BLOB);
             CREATE INDEX log_key ON log (key, version);",
        )
        .expect("the tables are made");
    let value = vec![b'x'; SIZE];
    let start = Instant::now();
    let mut at = 0;
    while at < total {
        connection.execute_batch("BEGIN IMMEDIATE").expect("it begins");
        for _ in 0..batch {
            connection
                .prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3)")
                .and_then(|mut insert| {
                    insert.execute(rusqlite::params![at as i64, name(at), value])
                })
                .expect("it is inserted");
            at += 1;
        }
        connection.execute_batch("COMMIT").expect("it commits");
    }
    at as f64 / start.elapsed().as_secs_f64()
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
