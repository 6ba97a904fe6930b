//! What readers ask the database, each question one snapshot.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, Row, Rows};

use super::schema::{State, state};
use super::seals::upper;
use super::{Shared, failed};
use crate::crypto::KeyId;
use crate::engine::{Change, Error, Page, Range, Record, Version};
use crate::range::Start;

/// Up to this many versions back, the log is read through; further back, the index is asked for
/// the versions of the prefix first, because the log has everybody's values in between.
const NEAR: Version = 4096;

/// A connection that reads.
pub(super) struct Reader {
    connection: Connection,
    shared: Arc<Shared>,
}

impl Reader {
    pub(super) fn new(connection: Connection, shared: Arc<Shared>) -> Self {
        Self { connection, shared }
    }

    pub(super) fn get(&mut self, key: &Arc<str>) -> Result<Option<Record>, Error> {
        let mut statement = prepare(
            &self.connection,
            "SELECT version, deleted, seal, value FROM log
             WHERE key = ?1 ORDER BY version DESC LIMIT 1",
        )?;
        let mut rows = statement.query([key]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        let (version, deleted): (_, bool) = columns(row).map_err(failed)?;
        if deleted {
            return Ok(None);
        }
        let value = self.value(row, 2, key, version, false)?;
        Ok(Some(Record { key: key.clone(), version, value }))
    }

    pub(super) fn list(&mut self, range: &Range) -> Result<Page, Error> {
        self.snapshot(|reader, state| {
            let version = range.at.unwrap_or(state.newest);
            check(version, state)?;
            reader.page(range, version)
        })
    }

    pub(super) fn count(&mut self, prefix: &str) -> Result<(u64, Version), Error> {
        self.snapshot(|reader, state| {
            let mut statement = prepare(&reader.connection, Keys::sql(Start::At(prefix)))?;
            let mut keys = Keys::query(&mut statement, prefix, Start::At(prefix), state.newest)?;
            Ok((keys.count()?, state.newest))
        })
    }

    pub(super) fn changes(
        &mut self,
        prefix: &str,
        after: Version,
        limit: usize,
    ) -> Result<(Vec<Change>, Version), Error> {
        self.snapshot(|reader, state| {
            check(after, state)?;
            let sql = if state.newest - after <= NEAR {
                "SELECT version, deleted, seal, value, key, before FROM log NOT INDEXED
                 WHERE version > ?1 AND key >= ?2 AND key < ?3 ORDER BY version LIMIT ?4"
            } else {
                "SELECT version, deleted, seal, value, key, before FROM log
                 WHERE version IN (
                     SELECT version FROM log INDEXED BY log_key
                     WHERE version > ?1 AND key >= ?2 AND key < ?3 ORDER BY version LIMIT ?4
                 ) ORDER BY version"
            };
            let most = if limit == 0 { -1 } else { i64::try_from(limit).unwrap_or(i64::MAX) };
            let mut statement = prepare(&reader.connection, sql)?;
            let mut rows = statement
                .query(rusqlite::params![after, prefix, upper(prefix), most])
                .map_err(failed)?;
            let mut changes = Vec::new();
            while let Some(row) = rows.next().map_err(failed)? {
                changes.push(reader.change(row)?);
            }
            let read = match changes.last() {
                Some(last) if changes.len() == limit => last.version,
                _ => state.newest,
            };
            Ok((changes, read))
        })
    }

    /// Runs several questions on one snapshot.
    fn snapshot<T>(
        &mut self,
        read: impl FnOnce(&Self, State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.connection.execute_batch("BEGIN").map_err(failed)?;
        let result = state(&self.connection).map_err(failed).and_then(|state| read(self, state));
        let ended = self.connection.execute_batch("COMMIT").map_err(failed);
        result.and_then(|value| ended.map(|()| value))
    }

    fn page(&self, range: &Range, version: Version) -> Result<Page, Error> {
        let Range { prefix, after, limit, .. } = range;
        let after = after.as_deref();
        let most = if *limit == 0 { usize::MAX } else { *limit };
        let start = Start::of(prefix, after);
        let mut statement = prepare(&self.connection, Keys::sql(start))?;
        let mut keys = Keys::query(&mut statement, prefix, start, version)?;
        let mut values =
            prepare(&self.connection, "SELECT seal, value FROM log WHERE version = ?1")?;
        let mut records = Vec::new();
        while records.len() < most
            && let Some((key, version)) = keys.next()?
        {
            let key: Arc<str> = key.into();
            let mut rows = values.query([version]).map_err(failed)?;
            let row = rows.next().map_err(failed)?.ok_or_else(|| lost(version))?;
            let value = self.value(row, 0, &key, version, false)?;
            records.push(Record { key, version, value });
        }
        let mut page = Page { records, version, remaining: 0 };
        if page.records.len() == most
            && let Some(last) = page.records.last()
        {
            let remaining = &self.shared.remaining;
            let known = after.and_then(|after| remaining.following(prefix, version, after));
            page.remaining = match known {
                Some(follow) => follow.saturating_sub(page.records.len() as u64),
                None => keys.count()?,
            };
            if page.remaining > 0 {
                remaining.remember(prefix, version, last.key.clone(), page.remaining);
            }
        }
        Ok(page)
    }

    fn change(&self, row: &Row<'_>) -> Result<Change, Error> {
        let (version, deleted): (Version, bool) = columns(row).map_err(failed)?;
        let key: Arc<str> = row.get(4).map_err(failed)?;
        let value = self.value(row, 2, &key, version, deleted)?;
        let before: Option<Version> = row.get(5).map_err(failed)?;
        let before = before.map(|before| self.at(&key, before)).transpose()?;
        Ok(Change { version, key, value, before, deleted, encoded: OnceLock::new() })
    }

    /// The value that a key had from a version on.
    fn at(&self, key: &str, version: Version) -> Result<Bytes, Error> {
        let mut statement =
            prepare(&self.connection, "SELECT seal, value FROM log WHERE version = ?1")?;
        let mut rows = statement.query([version]).map_err(failed)?;
        let row = rows.next().map_err(failed)?.ok_or_else(|| lost(version))?;
        self.value(row, 0, key, version, false)
    }

    /// The value of a row that has its seal in this column and its value in the next.
    fn value(
        &self,
        row: &Row<'_>,
        column: usize,
        key: &str,
        version: Version,
        deleted: bool,
    ) -> Result<Bytes, Error> {
        let seal: Option<KeyId> = row.get(column).map_err(failed)?;
        let stored = row.get_ref(column + 1).map_err(failed)?;
        let stored = stored.as_blob().map_err(|error| Error::Corrupt(error.to_string()))?;
        self.shared.seals.open_value(key, version, deleted, seal, stored)
    }
}

/// The keys of a range that exist at a version, in order. Walks the index alone, which has the
/// versions of a key side by side.
struct Keys<'a> {
    rows: Rows<'a>,
    at: Version,
    /// The key whose versions are being walked, and its newest one so far that is not too new.
    key: String,
    newest: Option<(Version, bool)>,
    /// The key that was answered last.
    answer: String,
}

impl<'a> Keys<'a> {
    /// The question that [`Keys::query`] asks.
    fn sql(start: Start<'_>) -> &'static str {
        match start {
            Start::At(_) => {
                "SELECT key, version, deleted FROM log INDEXED BY log_key
                 WHERE key >= ?1 AND key < ?2 ORDER BY key, version"
            }
            Start::After(_) => {
                "SELECT key, version, deleted FROM log INDEXED BY log_key
                 WHERE key > ?1 AND key < ?2 ORDER BY key, version"
            }
        }
    }

    fn query(
        statement: &'a mut CachedStatement<'_>,
        prefix: &str,
        start: Start<'_>,
        at: Version,
    ) -> Result<Self, Error> {
        let (Start::At(from) | Start::After(from)) = start;
        let rows = statement.query(rusqlite::params![from, upper(prefix)]).map_err(failed)?;
        Ok(Self { rows, at, key: String::new(), newest: None, answer: String::new() })
    }

    /// The next key and the version it has.
    fn next(&mut self) -> Result<Option<(&str, Version)>, Error> {
        while let Some(row) = self.rows.next().map_err(failed)? {
            let key = row.get_ref(0).map_err(failed)?;
            let key = key.as_str().map_err(|error| Error::Corrupt(error.to_string()))?;
            let version: Version = row.get(1).map_err(failed)?;
            let mut found = None;
            if key != self.key {
                found = self.newest.take();
                std::mem::swap(&mut self.key, &mut self.answer);
                self.key.clear();
                self.key.push_str(key);
            }
            if version <= self.at {
                self.newest = Some((version, row.get(2).map_err(failed)?));
            }
            if let Some((version, false)) = found {
                return Ok(Some((&self.answer, version)));
            }
        }
        Ok(match self.newest.take() {
            Some((version, false)) => Some((&self.key, version)),
            _ => None,
        })
    }

    fn count(&mut self) -> Result<u64, Error> {
        let mut count = 0;
        while self.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

fn prepare<'a>(connection: &'a Connection, sql: &str) -> Result<CachedStatement<'a>, Error> {
    connection.prepare_cached(sql).map_err(failed)
}

fn columns(row: &Row<'_>) -> rusqlite::Result<(Version, bool)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn check(asked: Version, state: State) -> Result<(), Error> {
    let State { newest, oldest, .. } = state;
    if asked < oldest || asked > newest {
        return Err(Error::Compacted { asked, oldest, newest });
    }
    Ok(())
}

fn lost(version: Version) -> Error {
    Error::Corrupt(format!("version {version} is not in the log, but is referred to"))
}
