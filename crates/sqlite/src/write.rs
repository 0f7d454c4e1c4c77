//! Appends records.

use std::path::Path;

use lookback_engine::transcript::Millis;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use super::fault::Fault;
use super::index::Indexer;
use super::seal::Sealed;
use super::signed;
use lookback_store::{Damage, LogName, Record, Scope, StoreError, checksum, probe_folder};

pub(super) fn append(
    connection: &mut Connection,
    scope: &Scope,
    log: &LogName,
    at: u64,
    records: &[Record],
    time: Option<Millis>,
) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = Sealed::find(&transaction, scope, log)?;
    let end = found.map_or(0, |found| found.end());
    if end != at {
        return Err(Fault::Conflict { at, end });
    }
    if records.is_empty() {
        return Ok(());
    }
    let before = match found {
        Some(found) => found,
        None => {
            // Logs that are being erased keep their numbers.
            transaction
                .prepare_cached(
                    "INSERT INTO logs (id, scope, name, length, bytes, created)
                     SELECT 1 + max(coalesce((SELECT max(id) FROM logs), 0), coalesce((SELECT max(log) FROM erasing), 0)),
                         ?1, ?2, 0, 0, ?3",
                )?
                .execute(params![scope.as_str(), log.as_str(), time])?;
            Sealed::new(transaction.last_insert_rowid(), time, scope.as_str(), log.as_str())
        }
    };
    let id = before.id;
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
                // The log's row has lost its length or its name.
                Some(ErrorCode::ConstraintViolation) => {
                    Fault::Store(StoreError::damaged(log, position, Damage::Behind))
                }
                _ => error.into(),
            })?;
            index.add(position, record, time)?;
        }
        let mut after = before;
        after.grow(count, bytes);
        after.used = after.used.max(time);
        after.write(&before, &transaction, scope.as_str(), log.as_str())?;
    }
    transaction.commit()?;
    Ok(())
}

pub(super) fn touch(connection: &mut Connection, scope: &Scope, log: &LogName, time: Millis) -> Result<bool, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(before) = Sealed::find(&transaction, scope, log)? else { return Ok(false) };
    if before.used < Some(time) {
        let mut after = before;
        after.used = Some(time);
        after.write(&before, &transaction, scope.as_str(), log.as_str())?;
        transaction.commit()?;
    }
    Ok(true)
}

/// Checks that the file is writable, without writing to it, and that its folder accepts a file.
pub(super) fn probe(connection: &mut Connection, folder: &Path) -> Result<(), Fault> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)?.rollback()?;
    probe_folder(folder).map_err(Fault::Store)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::SqliteStore;
    use futures_lite::future::block_on;
    use lookback_store::{Append, LogName, Record, Store, StoreError};

    #[test]
    fn a_full_disk_is_said_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
        let log: LogName = "one".parse().unwrap();
        let record = |length| vec![Record::new("x".repeat(length))];
        block_on(store.append(&log, Append::new(0, record(9)))).unwrap();
        // SQLite's own limit gives the same error as a full disk.
        store.file.writer().pragma_update(None, "max_page_count", 32).unwrap();
        let refused = block_on(store.append(&log, Append::new(1, record(1 << 20)))).unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
        assert_eq!(block_on(store.head(&log, None)).unwrap().unwrap().end, 1);
        block_on(store.append(&log, Append::new(1, record(9)))).unwrap();
    }
}
