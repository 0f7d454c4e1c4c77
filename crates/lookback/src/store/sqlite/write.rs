//! Appending records.

use std::path::Path;

use lookback_core::transcript::Millis;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use super::fault::Fault;
use super::index::Indexer;
use super::{signed, unsigned};
use crate::store::{Damage, LogName, Record, Scope, StoreError, checksum, probe_folder};

pub(super) fn append(
    connection: &mut Connection,
    scope: &Scope,
    log: &LogName,
    at: u64,
    records: &[Record],
    time: Option<Millis>,
) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: Option<(i64, i64)> = transaction
        .prepare_cached("SELECT id, length FROM logs WHERE scope = ?1 AND name = ?2")?
        .query_row([scope.as_str(), log.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let end = found.map_or(0, |(_, length)| unsigned(length));
    if end != at {
        return Err(Fault::Conflict { at, end });
    }
    if records.is_empty() {
        return Ok(());
    }
    let id = match found {
        Some((id, _)) => id,
        None => {
            // A log that is being erased still has its number.
            transaction
                .prepare_cached(
                    "INSERT INTO logs (id, scope, name, length, bytes, created)
                     SELECT 1 + max(coalesce((SELECT max(id) FROM logs), 0), coalesce((SELECT max(log) FROM erasing), 0)),
                         ?1, ?2, 0, 0, ?3",
                )?
                .execute(params![scope.as_str(), log.as_str(), time])?;
            transaction.last_insert_rowid()
        }
    };
    let bytes: usize = records.iter().map(|record| record.body.len()).sum();
    let count = records.len() as u64;
    {
        let mut entry = transaction.prepare_cached(
            "INSERT INTO entries (log, position, checkpoint, checksum, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let mut index = Indexer::new(&transaction, scope, log, id)?;
        for (position, record) in (at..).zip(records) {
            let checksum = checksum(log, position, &record.body).cast_signed();
            let row = params![id, signed(position), record.checkpoint, checksum, record.body];
            entry.execute(row).map_err(|error| match error.sqlite_error_code() {
                // The log has lost its length, or its name.
                Some(ErrorCode::ConstraintViolation) => {
                    Fault::Store(StoreError::damaged(log, position, Damage::Behind))
                }
                _ => error.into(),
            })?;
            index.add(position, record, time)?;
        }
        transaction
            .prepare_cached(
                "UPDATE logs SET length = length + ?2, bytes = bytes + ?3,
                     used = max(coalesce(used, ?4), coalesce(?4, used)) WHERE id = ?1",
            )?
            .execute(params![id, signed(count), signed(bytes as u64), time])?;
    }
    transaction.commit()?;
    Ok(())
}

pub(super) fn touch(connection: &Connection, scope: &Scope, log: &LogName, time: Millis) -> Result<bool, Fault> {
    let sql = "UPDATE logs SET used = max(coalesce(used, ?3), ?3) WHERE scope = ?1 AND name = ?2";
    Ok(connection.prepare_cached(sql)?.execute(params![scope.as_str(), log.as_str(), time])? > 0)
}

/// Checks that the file can be written to, without writing, and that its folder takes more.
pub(super) fn probe(connection: &mut Connection, folder: &Path) -> Result<(), Fault> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)?.rollback()?;
    probe_folder(folder).map_err(Fault::Store)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::store::{LogName, Record, SqliteStore, Store, StoreError};
    use futures_lite::future::block_on;

    #[test]
    fn a_full_disk_is_said_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
        let log: LogName = "one".parse().unwrap();
        let record = |length| vec![Record::new("x".repeat(length))];
        block_on(store.append(&log, 0, record(9), None)).unwrap();
        // SQLite's own limit gives the same error as a full disk.
        store.file.writer().pragma_update(None, "max_page_count", 32).unwrap();
        let refused = block_on(store.append(&log, 1, record(1 << 20), None)).unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
        assert_eq!(block_on(store.head(&log, None)).unwrap().unwrap().end, 1);
        block_on(store.append(&log, 1, record(9), None)).unwrap();
    }
}
