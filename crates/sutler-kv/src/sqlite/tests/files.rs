//! The database file: who may open it, what it remembers, and what else stays untouched.

use std::os::unix::fs::MetadataExt as _;

use super::*;

#[tokio::test]
async fn two_cannot_open_one_store() {
    let (folder, store) = make(Options::default());
    let other = folder.path().join("other.db");
    std::os::unix::fs::symlink(path(&folder), &other).unwrap();
    for name in [&path(&folder), &other] {
        let refused = Sqlite::open(name, Options::default()).unwrap_err();
        assert!(matches!(refused, OpenError::InUse { .. }));
        let text = Error::from(refused).to_string();
        assert!(text.contains("is in use by another process: stop that one first"), "{text}");
    }
    put(&store, "t/a/1", "x").await.unwrap();
    drop(store);
    let store = Sqlite::open(&other, Options::default()).unwrap();
    assert_eq!(store.version(), 1);
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    let folder = scratch();
    let text = folder.path().join("text");
    std::fs::write(&text, "this is text, and long enough to look at".repeat(100)).unwrap();
    let database = folder.path().join("database");
    let connection = Connection::open(&database).unwrap();
    connection.execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1").unwrap();
    drop(connection);
    for path in [text, database] {
        let before = std::fs::read(&path).unwrap();
        let refused = Sqlite::open(&path, Options::default()).unwrap_err();
        assert!(matches!(refused, OpenError::Foreign { .. }), "{refused:?}");
        assert!(refused.to_string().contains("is not a database of this store"));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    let nowhere = folder.path().join("none/store.db");
    let refused = Error::from(Sqlite::open(&nowhere, Options::default()).unwrap_err());
    assert!(refused.to_string().contains("none/store.db: No such file"), "{refused}");
}

#[test]
fn a_newer_schema_is_refused() {
    let (folder, store) = make(Options::default());
    drop(store);
    let connection = Connection::open(path(&folder)).unwrap();
    connection.execute_batch("PRAGMA user_version = 1000").unwrap();
    drop(connection);
    let refused = Sqlite::open(&path(&folder), Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 1000, .. }));
    assert!(refused.to_string().contains("use the release that wrote it"));
}

#[tokio::test]
async fn everything_is_there_after_opening_again() {
    let (folder, store) = make(Options::default());
    put(&store, "t/a/1", "one").await.unwrap();
    put(&store, "t/a/1", "uno").await.unwrap();
    put(&store, "t/a/2", "two").await.unwrap();
    delete(&store, "t/a/2", "last").await.unwrap();
    store.compact(1).await.unwrap();
    drop(store);
    assert_eq!(std::fs::metadata(path(&folder)).unwrap().mode() & 0o777, 0o600);
    let store = Sqlite::open(&path(&folder), Options::default()).unwrap();
    assert_eq!((store.version(), store.oldest()), (4, 1));
    let (changes, _) = store.changes("t/", 1, 0).await.unwrap();
    assert_eq!(changes.iter().map(|change| change.version).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(changes[0].before.as_deref(), Some(b"one".as_slice()));
    assert_eq!(put(&store, "t/a/3", "three").await.unwrap(), 5);
}

#[tokio::test]
async fn compaction_frees_rows_and_goes_on_after_a_crash() {
    let (folder, store) = make(Options::default());
    for round in 0..500 {
        put(&store, &format!("t/a/{}", round % 10), "x").await.unwrap();
    }
    for at in 0..5 {
        delete(&store, &format!("t/a/{at}"), "x").await.unwrap();
    }
    put(&store, "t/b/1", "x").await.unwrap();
    assert_eq!(rows(&folder), 506);
    store.compact(store.version()).await.unwrap();
    assert_eq!(rows(&folder), 6);
    for round in 0..500 {
        put(&store, &format!("t/a/{}", round % 10), "x").await.unwrap();
    }
    assert_eq!(rows(&folder), 506);
    drop(store);
    // As a crash after the mark was moved leaves it.
    let connection = Connection::open(path(&folder)).unwrap();
    connection.execute("UPDATE state SET oldest = 1000", []).unwrap();
    let store = Sqlite::open(&path(&folder), Options::default()).unwrap();
    assert_eq!(store.oldest(), 1000);
    // Already compacted: this only waits for the sweep to end.
    store.compact(1000).await.unwrap();
    let (changes, _) = store.changes("", 1000, 0).await.unwrap();
    assert_eq!(changes.len() as u64, store.version() - 1000);
    assert!(changes.iter().all(|change| change.before.is_some()));
    assert_eq!(rows(&folder), 11 + (store.version() as i64 - 1000));
}
