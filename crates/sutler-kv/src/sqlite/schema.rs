//! The database file: its lock, its settings and its schema.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{OpenError, Options};
use crate::crypto::sync_folder;
use crate::engine::Version;

/// What brings a database from one schema to the next. A released one is never changed.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

/// Marks the file as one of ours.
const APPLICATION: i64 = 0x5355_544c;

/// Seven objects of 1 kB fit a page of this size, against three in the default one: a tenth more
/// writes a second at 64 a commit. Larger ones cost a lone write more.
const PAGE: u64 = 8192;

/// How long to wait for a lock that somebody from outside holds (an operator's shell).
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Takes the file for this process, for as long as the answer lives. The file is made first, so
/// that every name of it leads to one lock.
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::File { path, source }
    };
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => sync_folder(path).map_err(failed(path))?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(path)(error)),
    }
    // A lock of its own: to close any handle of the database would drop SQLite's locks on it.
    let mut name = path.canonicalize().map_err(failed(path))?.into_os_string();
    name.push(".lock");
    let name = PathBuf::from(name);
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&name)
        .map_err(failed(&name))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(&name)(source)),
    }
}

/// The connection that writes, to a database that has the newest schema.
pub(super) fn open(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let failed = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::Foreign { path: path.to_owned() },
        _ => OpenError::Database { path: path.to_owned(), source },
    };
    let mut connection = connect(path, options.cache / 2).map_err(failed)?;
    // Before anything that would write to somebody else's database.
    let (ours, found) = identity(&connection).map_err(failed)?;
    let known = MIGRATIONS.len() as i64;
    if !ours {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    prepare(&mut connection, options.size_max).map_err(failed)?;
    migrate(&mut connection, MIGRATIONS).map_err(failed)?;
    Ok(connection)
}

/// A connection that reads.
pub(super) fn open_reader(path: &Path, cache: usize) -> Result<Connection, OpenError> {
    connect(path, cache)
        .and_then(|connection| {
            connection.pragma_update(None, "query_only", true)?;
            Ok(connection)
        })
        .map_err(|source| OpenError::Database { path: path.to_owned(), source })
}

/// Where the log stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) newest: Version,
    pub(super) oldest: Version,
    pub(super) swept: Version,
}

/// Where the log stands, as this connection sees it.
pub(super) fn state(connection: &Connection) -> rusqlite::Result<State> {
    connection
        .prepare_cached(
            "SELECT oldest, swept, (SELECT MAX(version) FROM log) FROM state WHERE id = 0",
        )?
        .query_row([], |row| {
            let newest: Option<Version> = row.get(2)?;
            Ok(State {
                oldest: row.get(0)?,
                swept: row.get(1)?,
                newest: newest.unwrap_or_default(),
            })
        })
}

fn connect(path: &Path, cache: usize) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // Plans do not look at bound values. Otherwise this build of SQLite, which keeps samples of
    // columns, compiles a statement anew each time its key changes: a fifth of a write.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(32);
    // Negative is KiB.
    connection.pragma_update(None, "cache_size", -((cache >> 10) as i64))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Whether the database is ours or empty, and its schema.
fn identity(connection: &Connection) -> rusqlite::Result<(bool, i64)> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 =
        connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let (application, found) = (number("application_id")?, number("user_version")?);
    let empty = tables == 0 && application == 0 && found == 0;
    Ok((empty || application == APPLICATION, found))
}

fn prepare(connection: &mut Connection, size_max: Option<u64>) -> rusqlite::Result<()> {
    // Takes effect only where the database is empty.
    connection.pragma_update(None, "page_size", PAGE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Every commit syncs the write-ahead log before it returns.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    if let Some(size) = size_max {
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update_and_check(None, "max_page_count", size / page, |_| Ok(()))?;
    }
    Ok(())
}

/// Each step is a transaction of its own: a step that fails leaves the database as it was.
fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    let (_, found) = identity(connection)?;
    for (from, step) in (0i64..).zip(migrations).filter(|(from, _)| *from >= found) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", from + 1)?;
        transaction.commit()?;
        tracing::info!(schema = from + 1, "migrated the store");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
