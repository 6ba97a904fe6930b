//! Which values are sealed, and with what.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Transaction};

use super::{OpenError, Options};
use crate::crypto::{KeyError, KeyId, Keyring, bound};
use crate::engine::{Error, Version};
use crate::range::prefix_end;

/// How many rows are sealed in one transaction.
const CHUNK: usize = 256;

/// What is sealed and how. While the process lives keys are only added: a reader may still show
/// an older snapshot.
#[derive(Debug)]
pub(super) struct Seals {
    prefixes: Vec<String>,
    keyring: RwLock<Option<Arc<Keyring>>>,
}

/// Why seals cannot be used.
#[derive(Debug)]
pub(super) enum SealError {
    Keys(KeyError),
    Database(rusqlite::Error),
}

impl SealError {
    pub(super) fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Keys(source) => OpenError::Keys { path, source },
            Self::Database(source) => OpenError::Database { path, source },
        }
    }
}

impl From<KeyError> for SealError {
    fn from(error: KeyError) -> Self {
        Self::Keys(error)
    }
}

impl From<rusqlite::Error> for SealError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl Seals {
    /// Checks the keys against the store, and seals what is to be sealed and is not yet.
    pub(super) fn open(connection: &mut Connection, options: &Options) -> Result<Self, SealError> {
        check(connection, options.keyring.as_ref())?;
        let keyring = match &options.keyring {
            Some(keyring) if !options.encrypt.is_empty() => {
                register(connection, keyring)?;
                Some(keyring)
            }
            None if !options.encrypt.is_empty() => return Err(KeyError::Empty.into()),
            keyring => keyring.as_ref(),
        };
        let keyring = RwLock::new(keyring.cloned().map(Arc::new));
        let seals = Self { prefixes: options.encrypt.clone(), keyring };
        seals.seal_plain(connection)?;
        Ok(seals)
    }

    pub(super) fn keyring(&self) -> Option<Arc<Keyring>> {
        self.keyring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on seals with the newest of these keys.
    pub(super) fn add(&self, keyring: &Keyring) {
        let mut ours = self.keyring.write().unwrap_or_else(PoisonError::into_inner);
        let merged = match ours.as_deref() {
            Some(ours) => ours.merged(keyring),
            None => keyring.clone(),
        };
        *ours = Some(Arc::new(merged));
    }

    /// What is stored for a value, and the key that sealed it.
    pub(super) fn seal<'a>(
        &self,
        key: &str,
        version: Version,
        deleted: bool,
        value: &'a [u8],
    ) -> (Option<KeyId>, Cow<'a, [u8]>) {
        match self.keyring().filter(|_| self.covers(key)) {
            Some(keyring) => {
                let sealed = keyring.seal(&bound(key, version, deleted), value);
                (Some(keyring.newest()), Cow::Owned(sealed))
            }
            None => (None, Cow::Borrowed(value)),
        }
    }

    /// The value that is stored. A plain one where it must be sealed is as false as one that does
    /// not open: somebody put it there.
    pub(super) fn open_value(
        &self,
        key: &str,
        version: Version,
        deleted: bool,
        seal: Option<KeyId>,
        stored: &[u8],
    ) -> Result<Bytes, Error> {
        let corrupt = |why: &dyn std::fmt::Display| {
            Err(Error::Corrupt(format!("{key} at version {version}: {why}")))
        };
        match seal {
            None if self.covers(key) => corrupt(&"the value is not sealed"),
            None => Ok(Bytes::copy_from_slice(stored)),
            Some(id) => match self.keyring() {
                None => corrupt(&KeyError::Missing { id }),
                Some(keyring) => match keyring.open(id, &bound(key, version, deleted), stored) {
                    Ok(value) => Ok(value.into()),
                    Err(KeyError::Wrong { .. }) => corrupt(&"the sealed value is not authentic"),
                    Err(error) => corrupt(&error),
                },
            },
        }
    }

    fn covers(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    /// Seals plain values under prefixes that are new, in chunks; a crash in between only leaves
    /// less to do.
    fn seal_plain(&self, connection: &mut Connection) -> Result<(), SealError> {
        let known: String =
            connection.query_row("SELECT sealed FROM state", [], |row| row.get(0))?;
        let wanted: String = self.prefixes.iter().flat_map(|prefix| [prefix, "\n"]).collect();
        if known == wanted {
            return Ok(());
        }
        let mut sealed = 0;
        for prefix in self.prefixes.iter().filter(|prefix| !known.lines().any(|k| k == *prefix)) {
            let mut from = (prefix.clone(), 0);
            while let Some(last) = self.seal_chunk(connection, prefix, &from, &mut sealed)? {
                from = last;
            }
        }
        if sealed > 0 {
            // Freed pages still have what was plain.
            connection.execute_batch("VACUUM")?;
            tracing::info!(values = sealed, "sealed values that were plain");
        }
        connection.execute("UPDATE state SET sealed = ?1", [&wanted])?;
        truncate_wal(connection)?;
        Ok(())
    }

    /// Seals what is plain in the next chunk of a prefix, and says where it ended.
    fn seal_chunk(
        &self,
        connection: &mut Connection,
        prefix: &str,
        from: &(String, Version),
        sealed: &mut u64,
    ) -> rusqlite::Result<Option<(String, Version)>> {
        let transaction = connection.transaction()?;
        let rows: Vec<(String, Version, bool)> = transaction
            .prepare_cached(
                "SELECT key, version, deleted FROM log INDEXED BY log_key
                 WHERE (key, version) > (?1, ?2) AND key >= ?3 AND key < ?4
                 ORDER BY key, version LIMIT ?5",
            )?
            .query_map(rusqlite::params![from.0, from.1, prefix, upper(prefix), CHUNK], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<Result<_, _>>()?;
        for (key, version, deleted) in &rows {
            let plain: Option<Vec<u8>> = transaction
                .prepare_cached("SELECT value FROM log WHERE version = ?1 AND seal IS NULL")?
                .query_row([version], |row| row.get(0))
                .optional()?;
            if let Some(plain) = plain {
                let (seal, value) = self.seal(key, *version, *deleted, &plain);
                store(&transaction, *version, seal, &value)?;
                *sealed += 1;
            }
        }
        transaction.commit()?;
        Ok(rows.into_iter().next_back().map(|(key, version, _)| (key, version)))
    }
}

/// Seals one chunk of values anew with the newest key; says whether there may be more.
pub(super) fn reseal_chunk(
    connection: &mut Connection,
    keyring: &Keyring,
) -> Result<bool, SealError> {
    let transaction = connection.transaction()?;
    let newest = keyring.newest();
    let old: Option<KeyId> = transaction
        .prepare_cached("SELECT id FROM seals WHERE id <> ?1 ORDER BY id LIMIT 1")?
        .query_row([newest], |row| row.get(0))
        .optional()?;
    let Some(old) = old else { return Ok(false) };
    let rows: Vec<(Version, String, bool, Vec<u8>)> = transaction
        .prepare_cached("SELECT version, key, deleted, value FROM log WHERE seal = ?1 LIMIT ?2")?
        .query_map(rusqlite::params![old, CHUNK], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    for (version, key, deleted, stored) in &rows {
        let bound = bound(key, *version, *deleted);
        let value = keyring.open(old, &bound, stored)?;
        store(&transaction, *version, Some(newest), &keyring.seal(&bound, &value))?;
    }
    if rows.is_empty() {
        transaction.execute("DELETE FROM seals WHERE id = ?1", [old])?;
    }
    transaction.commit()?;
    Ok(true)
}

/// Whether these are the keys that the store's values are sealed with.
pub(super) fn check(connection: &Connection, keyring: Option<&Keyring>) -> Result<(), SealError> {
    let mut statement = connection.prepare("SELECT id, proof FROM seals ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, proof): (KeyId, Vec<u8>) = (row.get(0)?, row.get(1)?);
        keyring.ok_or(KeyError::Missing { id })?.check(id, &proof)?;
    }
    Ok(())
}

/// Notes the key that seals from now on, before it does.
pub(super) fn register(connection: &Connection, keyring: &Keyring) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO seals VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        rusqlite::params![keyring.newest(), keyring.proof()],
    )?;
    Ok(())
}

/// Moves the write-ahead log into the database and empties it, so that it keeps no old values.
pub(super) fn truncate_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// The end of a prefix's range. Where it has none, a blob: those sort after every text.
pub(super) fn upper(prefix: &str) -> rusqlite::types::Value {
    match prefix_end(prefix) {
        Some(end) => end.into(),
        None => Vec::<u8>::new().into(),
    }
}

fn store(
    transaction: &Transaction<'_>,
    version: Version,
    seal: Option<KeyId>,
    value: &[u8],
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE log SET seal = ?1, value = ?2 WHERE version = ?3")?
        .execute(rusqlite::params![seal, value, version])?;
    Ok(())
}
