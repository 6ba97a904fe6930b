//! One write inside a transaction: what must hold, and the row.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rusqlite::{Connection, OptionalExtension as _};

use super::seals::Seals;
use crate::crypto::KeyId;
use crate::engine::{Action, Change, Error, Expect, Record, Version, Write};

/// The versions that keys were found to have, as far as other writes of the transaction expect
/// something of them: what is created in one namespace asks for that namespace again and again.
pub(super) type Heads = HashMap<Arc<str>, Option<Version>>;

/// Applies a write at a version; nothing is written where the answer is an error. The outer error
/// is one of the database, after which the transaction is lost.
pub(super) fn apply(
    connection: &Connection,
    seals: &Seals,
    heads: &mut Heads,
    version: Version,
    write: Write,
) -> rusqlite::Result<Result<Arc<Change>, Error>> {
    let Write { key, expect, action, also } = write;
    let head = head(connection, &key)?;
    if !holds(expect, head) {
        return conflict(connection, seals, key, head);
    }
    for (key, expect) in also {
        let head = match heads.get(&key) {
            Some(head) => *head,
            None => {
                let head = self::head(connection, &key)?;
                heads.insert(key.clone(), head);
                head
            }
        };
        if !holds(expect, head) {
            return conflict(connection, seals, key, head);
        }
    }
    let (value, deleted) = match action {
        Action::Put(value) => (value, false),
        Action::Delete(value) => (value, true),
    };
    let before = match head {
        None if deleted => return conflict(connection, seals, key, None),
        None => None,
        Some(head) => match record(connection, seals, key.clone(), head)? {
            Ok(record) => Some(record.value),
            Err(error) => return Ok(Err(error)),
        },
    };
    let (seal, stored) = seals.seal(&key, version, deleted, &value);
    connection
        .prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(rusqlite::params![version, key, head, deleted, seal, stored])?;
    if let Some(head) = heads.get_mut(&key) {
        *head = (!deleted).then_some(version);
    }
    let encoded = OnceLock::new();
    Ok(Ok(Arc::new(Change { version, key, value, before, deleted, encoded })))
}

/// The version a key has, if it exists. Read from the index alone.
fn head(connection: &Connection, key: &str) -> rusqlite::Result<Option<Version>> {
    let newest: Option<(Version, bool)> = connection
        .prepare_cached(
            "SELECT version, deleted FROM log WHERE key = ?1 ORDER BY version DESC LIMIT 1",
        )?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(newest.and_then(|(version, deleted)| (!deleted).then_some(version)))
}

fn holds(expect: Expect, head: Option<Version>) -> bool {
    match expect {
        Expect::Absent => head.is_none(),
        Expect::Present => head.is_some(),
        Expect::At(version) => head == Some(version),
    }
}

fn conflict<T>(
    connection: &Connection,
    seals: &Seals,
    key: Arc<str>,
    head: Option<Version>,
) -> rusqlite::Result<Result<T, Error>> {
    let found = match head {
        None => None,
        Some(head) => match record(connection, seals, key.clone(), head)? {
            Ok(record) => Some(record),
            Err(error) => return Ok(Err(error)),
        },
    };
    Ok(Err(Error::Conflict { key, found }))
}

fn record(
    connection: &Connection,
    seals: &Seals,
    key: Arc<str>,
    version: Version,
) -> rusqlite::Result<Result<Record, Error>> {
    connection.prepare_cached("SELECT seal, value FROM log WHERE version = ?1")?.query_row(
        [version],
        |row| {
            let seal: Option<KeyId> = row.get(0)?;
            let value = seals.open_value(&key, version, false, seal, row.get_ref(1)?.as_blob()?);
            Ok(value.map(|value| Record { key, version, value }))
        },
    )
}
