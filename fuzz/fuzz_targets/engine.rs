//! The two engines answer every sequence of operations alike, restarts included.
#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sutler_kv::{
    engine::{Action, Engine, Expect, Range, Version, Write},
    memory::Memory,
    sqlite::{Options, Sqlite},
};

/// Few enough that operations meet.
const KEYS: [&str; 6] = ["t/a/1", "t/a/2", "t/a/20", "t/b/1", "s", "t/a/2/x"];
const PREFIXES: [&str; 6] = ["", "t/", "t/a/", "t/a/2", "s", "none"];

#[derive(Debug, Arbitrary)]
enum Operation {
    Write { key: u8, expect: Hope, delete: bool, value: Vec<u8>, also: Option<(u8, Hope)> },
    Get(u8),
    Count(u8),
    List { prefix: u8, after: Option<u8>, limit: u8, back: Option<i8> },
    Changes { prefix: u8, back: i8, limit: u8 },
    Compact(i8),
    Reopen,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Hope {
    Absent,
    Present,
    Right,
    Off(i8),
}

fuzz_target!(|operations: Vec<Operation>| {
    // A restart and a sync cost more than all the rest; a shared-memory folder keeps them cheap.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.expect("there is a folder for files that pass");
    let file = folder.path().join("store.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let memory = Memory::new();
    let mut sqlite = Sqlite::open(&file, Options::default()).expect("it opens");
    let mut restarts = 0;
    for operation in operations.into_iter().take(60) {
        if let Operation::Reopen = operation {
            restarts += 1;
            if restarts < 4 {
                drop(sqlite);
                sqlite = Sqlite::open(&file, Options::default()).expect("it opens again");
            }
        } else {
            let expected = runtime.block_on(step(&memory, &operation));
            let got = runtime.block_on(step(&sqlite, &operation));
            assert_eq!(got, expected, "{operation:?}");
        }
        assert_eq!((sqlite.version(), sqlite.oldest()), (memory.version(), memory.oldest()));
    }
});

/// Does one thing and tells what came of it, as text that can be compared.
async fn step(engine: &impl Engine, operation: &Operation) -> String {
    let key = |n: &u8| KEYS[usize::from(*n) % KEYS.len()];
    let prefix = |n: &u8| PREFIXES[usize::from(*n) % PREFIXES.len()];
    let back = |steps: &i8| engine.version().saturating_add_signed(-i64::from(*steps));
    match operation {
        Operation::Write { key: n, expect, delete, value, also } => {
            let value = Bytes::copy_from_slice(value);
            let action = if *delete { Action::Delete(value) } else { Action::Put(value) };
            let mut others = Vec::new();
            if let Some((n, hope)) = also {
                others.push((key(n).into(), expected(engine, key(n), *hope).await));
            }
            let expect = expected(engine, key(n), *expect).await;
            let write = Write { key: key(n).into(), expect, action, also: others };
            format!("{:?}", engine.write(write).await)
        }
        Operation::Get(n) => format!("{:?}", engine.get(key(n)).await),
        Operation::Count(n) => format!("{:?}", engine.count(prefix(n)).await),
        Operation::List { prefix: n, after, limit, back: steps } => {
            let range = Range {
                prefix: prefix(n).to_owned(),
                after: after.as_ref().map(|n| key(n).to_owned()),
                limit: usize::from(limit % 4),
                at: steps.as_ref().map(back),
            };
            format!("{:?}", engine.list(range).await)
        }
        Operation::Changes { prefix: n, back: steps, limit } => {
            let read = engine.changes(prefix(n), back(steps), usize::from(limit % 4)).await;
            format!("{read:?}")
        }
        Operation::Compact(steps) => format!("{:?}", engine.compact(back(steps)).await),
        Operation::Reopen => String::new(),
    }
}

async fn expected(engine: &impl Engine, key: &str, hope: Hope) -> Expect {
    let found = engine.get(key).await.expect("a key is read");
    let version: Version = found.map_or(0, |record| record.version);
    match hope {
        Hope::Absent => Expect::Absent,
        Hope::Present => Expect::Present,
        Hope::Right => Expect::At(version),
        Hope::Off(by) => Expect::At(version.saturating_add_signed(by.into())),
    }
}
