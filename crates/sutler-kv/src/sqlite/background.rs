//! Work that is done in small pieces between commits.

use rusqlite::{Connection, TransactionBehavior};

use crate::engine::Version;

/// How many rows of the log one piece of compaction looks at: about a millisecond, which is what a
/// waiting write is held up by.
const CHUNK: usize = 128;

/// Deletes what the next versions after `swept`, up to `target`, replaced, and those that are
/// removals; answers with the new `swept`. Every version names the one that it replaced, so this
/// costs what was written and not what is stored.
pub(super) fn sweep(
    connection: &mut Connection,
    swept: Version,
    target: Version,
) -> rusqlite::Result<Version> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows: Vec<(Version, Option<Version>, bool)> = transaction
        .prepare_cached(
            "SELECT version, before, deleted FROM log
             WHERE version > ?1 AND version <= ?2 ORDER BY version LIMIT ?3",
        )?
        .query_map(rusqlite::params![swept, target, CHUNK], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<_, _>>()?;
    let swept = match rows.last() {
        Some((last, ..)) if rows.len() == CHUNK => *last,
        _ => target,
    };
    {
        let mut delete = transaction.prepare_cached("DELETE FROM log WHERE version = ?1")?;
        for (version, before, deleted) in rows {
            if let Some(before) = before {
                delete.execute([before])?;
            }
            if deleted {
                delete.execute([version])?;
            }
        }
    }
    transaction.prepare_cached("UPDATE state SET swept = ?1")?.execute([swept])?;
    transaction.commit()?;
    Ok(swept)
}
