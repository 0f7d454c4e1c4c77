//! Appending records, and erasing logs.

use lookback_core::transcript::Millis;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::fault::Fault;
use super::search::indexed;
use super::{signed, unsigned};
use crate::store::{LogName, Record};

pub(super) fn append(
    connection: &mut Connection,
    log: &LogName,
    at: u64,
    records: Vec<Record>,
    time: Option<Millis>,
) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: Option<(i64, i64)> = transaction
        .prepare_cached("SELECT id, length FROM logs WHERE name = ?1")?
        .query_row([log.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
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
            transaction
                .prepare_cached("INSERT INTO logs (name, length, bytes, created) VALUES (?1, 0, 0, ?2)")?
                .execute(params![log.as_str(), time])?;
            transaction.last_insert_rowid()
        }
    };
    let bytes: usize = records.iter().map(|record| record.body.len()).sum();
    let count = records.len() as u64;
    {
        let mut entry = transaction
            .prepare_cached("INSERT INTO entries (log, position, checkpoint, body) VALUES (?1, ?2, ?3, ?4)")?;
        let mut index = transaction.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
        for (position, record) in (at..).zip(records) {
            entry.execute(params![id, signed(position), record.checkpoint, record.body])?;
            if !record.text.is_empty() && !log.is_derived() {
                index.execute(params![transaction.last_insert_rowid(), indexed(&record.text)])?;
            }
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

pub(super) fn touch(connection: &Connection, log: &LogName, time: Millis) -> Result<bool, Fault> {
    let sql = "UPDATE logs SET used = max(coalesce(used, ?2), ?2) WHERE name = ?1";
    Ok(connection.prepare_cached(sql)?.execute(params![log.as_str(), time])? > 0)
}

pub(super) fn delete(connection: &mut Connection, log: &LogName) -> Result<bool, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let id: Option<i64> =
        transaction.query_row("SELECT id FROM logs WHERE name = ?1", [log.as_str()], |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(false) };
    transaction.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM entries WHERE log = ?1)", [id])?;
    transaction.execute("DELETE FROM entries WHERE log = ?1", [id])?;
    transaction.execute("DELETE FROM logs WHERE id = ?1", [id])?;
    transaction.commit()?;
    Ok(true)
}

pub(super) fn clear(connection: &mut Connection) -> Result<u64, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO words (words) VALUES ('delete-all')", [])?;
    transaction.execute("DELETE FROM entries", [])?;
    let logs = transaction.execute("DELETE FROM logs", [])?;
    transaction.commit()?;
    Ok(logs as u64)
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
        let record = |length| vec![Record { body: "x".repeat(length), text: String::new(), checkpoint: false }];
        block_on(store.append(&log, 0, record(9), None)).unwrap();
        // SQLite's own limit gives the same error as a full disk.
        store.writer.lock().unwrap().pragma_update(None, "max_page_count", 32).unwrap();
        let refused = block_on(store.append(&log, 1, record(1 << 20), None)).unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
        assert_eq!(block_on(store.head(&log, None)).unwrap().unwrap().end, 1);
        block_on(store.append(&log, 1, record(9), None)).unwrap();
    }
}
