//! The process that the other tests start, watch and kill: this test binary, told by its
//! environment to write instead of to test.
//!
//! It prints a line for what it was told: `ack VERSION KEY VALUE` for an acknowledged write (`-`
//! for a removal), `saw VERSION KEY VALUE` for a published change, `refused REASON`, `read N` for
//! what it can still read after that.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use sutler_kv::engine::{Action, Engine, Error, Expect, Range, Version, Write};
use sutler_kv::sqlite::{Options, Sqlite};
use tokio::sync::broadcast::error::RecvError;

const STORE: &str = "SUTLER_KV_TEST_STORE";
const MODE: &str = "SUTLER_KV_TEST_MODE";

/// Writes and removals from many tasks, with compaction, until it is killed.
pub(crate) const FOREVER: &str = "forever";
/// A few writes from several tasks.
pub(crate) const FEW: &str = "few";
/// Large writes until one is refused, then some more, then a read.
pub(crate) const UNTIL_REFUSED: &str = "until-refused";

/// The command line of a child, so that it can be put behind another program's.
pub(crate) fn command(program: &[&str], store: &Path, mode: &str) -> Command {
    let test = std::env::current_exe().expect("this test has a file");
    let mut words: Vec<PathBuf> = program.iter().map(PathBuf::from).collect();
    words.push(test);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["--exact", "child::entry", "--nocapture", "--test-threads", "1"])
        .env(STORE, store)
        .env(MODE, mode)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Not a test, but where a child begins; does nothing in a test run.
#[test]
fn entry() {
    let (Ok(store), Ok(mode)) = (std::env::var(STORE), std::env::var(MODE)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime starts");
    // The name of this test stands before it, without an end of line.
    say("");
    let store = Sqlite::open(Path::new(&store), Options::default()).expect("the store opens");
    let store = Arc::new(store);
    runtime.block_on(async {
        match mode.as_str() {
            FOREVER => {
                listen(&store);
                write_all(&store, 32, Version::MAX).await;
            }
            FEW => write_all(&store, 4, 12).await,
            _ => until_refused(&store).await,
        }
    });
}

fn listen(store: &Arc<Sqlite>) {
    let mut receiver = store.subscribe("t/a");
    tokio::spawn(async move {
        loop {
            match receiver.recv().await {
                Ok(change) => {
                    let value = String::from_utf8_lossy(&change.value).into_owned();
                    let value = if change.deleted { "-" } else { value.trim() };
                    say(&format!("saw {} {} {value}", change.version, change.key));
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
}

/// Each task writes its own few keys: creates, updates and removes them in turn.
async fn write_all(store: &Arc<Sqlite>, tasks: u64, each: u64) {
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..each {
                    let key = format!("t/a/{task}-{}", round % 3);
                    write_one(&store, &key, task, round).await;
                    if task == 0 && round % 4 == 1 {
                        let mark = store.version().saturating_sub(300).max(store.oldest());
                        store.compact(mark).await.expect("it compacts");
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task ends");
    }
}

async fn write_one(store: &Sqlite, key: &str, task: u64, round: u64) {
    let found = store.get(key).await.expect("a key is read");
    let remove = found.is_some() && round % 5 == 4;
    let expect = found.map_or(Expect::Absent, |record| Expect::At(record.version));
    let value = format!("mark-{}-{task}-{round}.", std::process::id());
    // Blanks, so that a commit is more than a page; readers of the lines trim them.
    let stored = Bytes::from(format!("{value}{}", " ".repeat(1000)));
    let action = if remove { Action::Delete(stored) } else { Action::Put(stored) };
    let write = Write { key: key.into(), expect, action, also: Vec::new() };
    let version = store.write(write).await.expect("it is written");
    say(&format!("ack {version} {key} {}", if remove { "-" } else { &value }));
}

async fn until_refused(store: &Sqlite) {
    let mut refused = 0;
    for round in 0.. {
        let key = format!("t/a/{round}");
        let stored = Bytes::from(vec![b' '; 100_000]);
        let action = Action::Put(stored);
        let write =
            Write { key: key.as_str().into(), expect: Expect::Absent, action, also: Vec::new() };
        match store.write(write).await {
            Ok(version) => say(&format!("ack {version} {key} ")),
            Err(Error::Unavailable(why)) => {
                say(&format!("refused {why}"));
                refused += 1;
            }
            Err(error) => say(&format!("unexpected {error}")),
        }
        if refused == 3 {
            break;
        }
    }
    assert!(store.failure().is_some());
    let range = Range { prefix: "t/a/".to_owned(), ..Range::default() };
    let page = store.list(range).await.expect("it can be read");
    say(&format!("read {} {}", page.records.len(), page.version));
}

/// One line in one call, so that lines of a killed process are whole or missing.
fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).expect("somebody listens");
    out.flush().expect("somebody listens");
}
