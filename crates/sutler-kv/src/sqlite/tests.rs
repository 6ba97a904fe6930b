use std::path::PathBuf;

use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::engine::{Action, Expect};

mod conformance;
mod encryption;
mod files;
mod trouble;

/// A folder in memory where there is one: a sync costs nothing there, and what syncs are for is
/// tested elsewhere.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn make(options: Options) -> (TempDir, Sqlite) {
    let folder = scratch();
    let store = Sqlite::open(&path(&folder), options).unwrap();
    (folder, store)
}

fn path(folder: &TempDir) -> PathBuf {
    folder.path().join("store.db")
}

async fn put(store: &Sqlite, key: &str, value: &str) -> Result<Version, Error> {
    let expect = match store.get(key).await? {
        Some(record) => Expect::At(record.version),
        None => Expect::Absent,
    };
    let action = Action::Put(Bytes::copy_from_slice(value.as_bytes()));
    store.write(Write { key: key.into(), expect, action, also: Vec::new() }).await
}

async fn delete(store: &Sqlite, key: &str, last: &str) -> Result<Version, Error> {
    let action = Action::Delete(Bytes::copy_from_slice(last.as_bytes()));
    store.write(Write { key: key.into(), expect: Expect::Present, action, also: Vec::new() }).await
}

async fn value(store: &Sqlite, key: &str) -> Result<Option<String>, Error> {
    let record = store.get(key).await?;
    Ok(record.map(|record| String::from_utf8_lossy(&record.value).into_owned()))
}

/// How many rows of the log there are, as another program sees it.
fn rows(folder: &TempDir) -> i64 {
    let connection = Connection::open(path(folder)).unwrap();
    connection.query_row("SELECT COUNT(*) FROM log", [], |row| row.get(0)).unwrap()
}
