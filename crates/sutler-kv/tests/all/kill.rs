//! A process that writes is killed at random moments; what it was told is there.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use rand::{Rng as _, SeedableRng as _};
use sutler_kv::engine::{Change, Engine as _, Version};
use sutler_kv::sqlite::{Options, Sqlite};

use crate::child;

/// What a child was told about a version: the key, and the value or `-`.
type Told = BTreeMap<Version, (String, String)>;

#[tokio::test]
async fn nothing_acknowledged_is_lost() {
    let rounds: u64 =
        std::env::var("SUTLER_KILL_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut newest = 0;
    let mut newest_of_key: BTreeMap<String, (Version, String)> = BTreeMap::new();
    for round in 0..rounds {
        let mut random = rand::rngs::StdRng::seed_from_u64(round);
        let (acknowledged, seen) = run_and_kill(&path, random.random_range(1..400));
        assert!(!acknowledged.is_empty(), "round {round}");
        let store = Sqlite::open(&path, Options::default()).unwrap();
        let told = [&acknowledged, &seen];
        let last = told.iter().filter_map(|told| told.keys().next_back()).max().copied().unwrap();
        let first = told.iter().filter_map(|told| told.keys().next()).min().copied().unwrap();
        assert!(first > newest, "round {round}: {first} was given out again after {newest}");
        assert!(store.version() >= last, "round {round}: {last} is lost");
        newest = store.version();

        let (changes, _) = store.changes("", store.oldest(), 0).await.unwrap();
        let log: BTreeMap<Version, &Change> =
            changes.iter().map(|change| (change.version, change)).collect();
        for (version, (key, value)) in told.into_iter().flatten() {
            if *version > store.oldest() {
                let logged = log.get(version).unwrap_or_else(|| panic!("{version} is lost"));
                assert_eq!((&*logged.key, &*text(logged)), (&**key, &**value), "at {version}");
            }
        }
        for (version, (key, value)) in acknowledged {
            newest_of_key.insert(key, (version, value));
        }
        for (key, (version, value)) in &mut newest_of_key {
            // A write may have been under way; each task has at most one, and so has each key.
            for change in changes.iter().filter(|change| *change.key == **key) {
                if change.version > *version {
                    (*version, *value) = (change.version, text(change));
                }
            }
            let found = store.get(key).await.unwrap();
            let found = found.map(|record| {
                (record.version, String::from_utf8_lossy(&record.value).trim().to_owned())
            });
            let expected = (value != "-").then(|| (*version, value.clone()));
            assert_eq!(found, expected, "round {round}, {key}");
        }
        drop(store);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}

fn text(change: &Change) -> String {
    if change.deleted {
        "-".to_owned()
    } else {
        String::from_utf8_lossy(&change.value).trim().to_owned()
    }
}

/// Lets a child write until so many writes were acknowledged, kills it, and answers with what it
/// was told: acknowledged writes and published changes.
fn run_and_kill(store: &Path, acknowledged: usize) -> (Told, Told) {
    let mut child = child::command(&[], store, child::FOREVER).spawn().expect("a child starts");
    let mut acks = Told::new();
    let mut saws = Told::new();
    let mut killed = false;
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.expect("a line is read");
        let mut words = line.split(' ');
        let told = match words.next() {
            Some("ack") => &mut acks,
            Some("saw") => &mut saws,
            _ => continue,
        };
        let [version, key, value] = [(); 3].map(|()| words.next().expect("a line has four words"));
        let before =
            told.insert(version.parse().expect("a version"), (key.to_owned(), value.to_owned()));
        assert_eq!(before, None, "{line}");
        if acks.len() >= acknowledged && !killed {
            child.kill().expect("it is killed");
            killed = true;
        }
    }
    assert!(killed, "the child ended by itself");
    child.wait().expect("it ends");
    (acks, saws)
}
