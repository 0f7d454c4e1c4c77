//! Erases logs: hides them in one step, then removes them in many, so that no writer waits for long.
//!
//! Erased data is gone from the file, too: SQLite overwrites deleted data inside a page, the words are merged out of
//! the index, free pages are cut off the file, and the file `-wal` is emptied.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::fault::Fault;
use super::index;
use super::index::texts_of;
use super::seal::Sealed;
use super::signed;
use lookback_store::{LogName, Scope, Tombstone, checksum};

/// The most rows that a step removes, and about the most bytes of bodies.
const ROWS: i64 = 1_000;
const BYTES: i64 = 4 << 20;
/// How many pages of the index a step merges, and how many pages it cuts off the file.
const PAGES: i64 = 64;

/// The remaining work for a hidden log.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
enum Stage {
    /// Delete its records.
    Records = 0,
    /// Delete its texts from the index.
    Texts = 1,
    /// Merge the index, which still has its words.
    Words = 2,
    /// Finish the merge that began after its texts were deleted.
    Merge = 3,
}

/// Hides these logs of a namespace, or all of them, from every reader. Returns how many existed.
pub(super) fn hide(connection: &mut Connection, scope: &Scope, logs: Option<&[LogName]>) -> Result<u64, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut hidden = 0;
    let mut hide = |of: &str, params: &[&str]| -> rusqlite::Result<()> {
        let sql = format!("INSERT INTO erasing (log, stage) SELECT id, 0 FROM logs WHERE {of}");
        transaction.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(params))?;
        let sql = format!("DELETE FROM logs WHERE {of}");
        hidden += transaction.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(params))? as u64;
        Ok(())
    };
    match logs {
        None => hide("scope = ?1", &[scope.as_str()])?,
        Some(logs) => {
            for log in logs {
                hide("scope = ?1 AND name = ?2", &[scope.as_str(), log.as_str()])?;
            }
        }
    }
    transaction.commit()?;
    Ok(hidden)
}

/// The log number for the words of replaced records, which wait for the merge. No log has it.
const NO_LOG: i64 = 0;
/// How many records a transaction replaces.
pub(super) const TOMBSTONES: usize = 500;

/// Replaces records with tombstones, and removes their texts from the index.
pub(super) fn replace(
    connection: &mut Connection,
    scope: &Scope,
    log: &LogName,
    tombstones: &[Tombstone],
) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(before) = Sealed::find(&transaction, scope, log)? else { return Ok(()) };
    let (id, mut after) = (before.id, before);
    let mut replaced = BTreeSet::new();
    {
        let length = "SELECT octet_length(body) FROM entries WHERE log = ?1 AND position = ?2 AND checksum = ?3";
        let mut length = transaction.prepare_cached(length)?;
        let record = "UPDATE entries SET body = ?3, checksum = ?4 WHERE log = ?1 AND position = ?2";
        let mut record = transaction.prepare_cached(record)?;
        for tombstone in tombstones {
            let position = signed(tombstone.position);
            let found = length.query_row((id, position, tombstone.checksum.cast_signed()), |row| row.get(0));
            let Some(found): Option<i64> = found.optional()? else { continue };
            let checksum = checksum(log, tombstone.position, &tombstone.body).cast_signed();
            record.execute((id, position, &tombstone.body, checksum))?;
            let longer = signed(tombstone.body.len() as u64).saturating_sub(found);
            after.bytes = after.bytes.saturating_add(longer);
            replaced.insert(position);
        }
    }
    after.write(&before, &transaction, scope.as_str(), log.as_str())?;
    if delete_texts_of(&transaction, id, &replaced)? {
        let sql = "INSERT OR REPLACE INTO erasing (log, stage) VALUES (?1, ?2)";
        transaction.execute(sql, (NO_LOG, Stage::Words as i64))?;
    }
    transaction.commit()?;
    Ok(())
}

/// Deletes the texts of these records from the index. Returns `false` if they have none.
fn delete_texts_of(transaction: &Transaction<'_>, log: i64, records: &BTreeSet<i64>) -> rusqlite::Result<bool> {
    let (Some(texts), Some(first), Some(last)) = (texts_of(log), records.first(), records.last()) else {
        return Ok(false);
    };
    let mut found: Vec<i64> = Vec::new();
    {
        // Texts have the order of their records, and a log has at most one text for each record.
        let end = texts.start().saturating_add(*last).min(*texts.end());
        let sql = "SELECT id, position FROM texts WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC";
        let mut all = transaction.prepare_cached(sql)?;
        let mut all = all.query((texts.start(), end))?;
        while let Some(row) = all.next()? {
            let position: i64 = row.get(1)?;
            if position < *first {
                break;
            }
            if records.contains(&position) {
                found.push(row.get(0)?);
            }
        }
    }
    for text in &found {
        index::remove(transaction, &(*text..=*text))?;
    }
    Ok(!found.is_empty())
}

/// Returns whether an erasure is unfinished.
pub(super) fn is_pending(connection: &Connection) -> Result<bool, Fault> {
    Ok(connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM erasing)")?.query_row([], |row| row.get(0))?)
}

/// Removes hidden logs step by step.
#[derive(Default)]
pub(super) struct Eraser {
    /// Whether this eraser began the merge. A merge that another process began may have ended with that process.
    is_merging: bool,
}

impl Eraser {
    /// Does one step. Returns `false` if there was nothing to do.
    pub(super) fn step(&mut self, connection: &mut Connection) -> Result<bool, Fault> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let more = if let Some(log) = first(&transaction, Stage::Records)? {
            delete_records(&transaction, log)?;
            true
        } else if let Some(log) = first(&transaction, Stage::Texts)? {
            delete_texts(&transaction, log)?;
            true
        } else if first(&transaction, Stage::Words)?.is_some()
            || !self.is_merging && first(&transaction, Stage::Merge)?.is_some()
        {
            // A running merge may have passed the words already. It is finished first.
            if !merge(&transaction, PAGES)? {
                transaction.execute(
                    "UPDATE erasing SET stage = ?2 WHERE stage = ?1",
                    stage_numbers(Stage::Words, Stage::Merge),
                )?;
                merge(&transaction, -PAGES)?;
                self.is_merging = true;
            }
            true
        } else if self.is_merging {
            if !merge(&transaction, PAGES)? {
                transaction.execute("DELETE FROM erasing WHERE stage = ?1", [Stage::Merge as i64])?;
                self.is_merging = false;
            }
            true
        } else {
            cut_off(&transaction)?
        };
        transaction.commit()?;
        Ok(more)
    }
}

fn stage_numbers(stage: Stage, next: Stage) -> (i64, i64) {
    (stage as i64, next as i64)
}

/// Returns a log at this stage.
fn first(transaction: &Transaction<'_>, stage: Stage) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT log FROM erasing WHERE stage = ?1 LIMIT 1";
    transaction.prepare_cached(sql)?.query_row([stage as i64], |row| row.get(0)).optional()
}

fn delete_records(transaction: &Transaction<'_>, log: i64) -> rusqlite::Result<()> {
    // SQLite reads the length from the head of a row, not from the pages of a long body.
    let sql = "SELECT position, octet_length(body) FROM entries WHERE log = ?1 ORDER BY position LIMIT ?2";
    let mut records = transaction.prepare_cached(sql)?;
    let mut records = records.query((log, ROWS))?;
    let (mut last, mut bytes): (Option<i64>, i64) = (None, 0);
    while let Some(row) = records.next()? {
        last = Some(row.get(0)?);
        bytes = bytes.saturating_add(row.get(1)?);
        if bytes > BYTES {
            break;
        }
    }
    if last.is_some() {
        let sql = "DELETE FROM entries WHERE log = ?1 AND position <= ?2";
        transaction.prepare_cached(sql)?.execute((log, last))?;
        return Ok(());
    }
    let is_indexed = texts_of(log).map_or(Ok(None), |texts| {
        let sql = "SELECT id FROM texts WHERE id BETWEEN ?1 AND ?2 LIMIT 1";
        let row =
            transaction.prepare_cached(sql)?.query_row((*texts.start(), *texts.end()), |row| row.get::<_, i64>(0));
        row.optional()
    })?;
    match is_indexed {
        Some(_) => transaction.execute("UPDATE erasing SET stage = ?2 WHERE log = ?1", (log, Stage::Texts as i64))?,
        None => transaction.execute("DELETE FROM erasing WHERE log = ?1", [log])?,
    };
    Ok(())
}

fn delete_texts(transaction: &Transaction<'_>, log: i64) -> rusqlite::Result<()> {
    let Some(texts) = texts_of(log) else { return Ok(()) };
    let (start, end) = (*texts.start(), *texts.end());
    let sql = "SELECT max(id) FROM (SELECT id FROM texts WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3)";
    let last: Option<i64> = transaction.prepare_cached(sql)?.query_row((start, end, ROWS), |row| row.get(0))?;
    let Some(last) = last else {
        transaction.execute("UPDATE erasing SET stage = ?2 WHERE log = ?1", (log, Stage::Words as i64))?;
        return Ok(());
    };
    index::remove(transaction, &(start..=last))
}

/// Merges a part of the index, and drops deleted words. A negative number of pages begins a merge of the whole index.
/// Returns `false` if nothing was left to merge.
fn merge(transaction: &Transaction<'_>, pages: i64) -> rusqlite::Result<bool> {
    let before = transaction.total_changes();
    transaction.prepare_cached("INSERT INTO words (words, rank) VALUES ('merge', ?1)")?.execute([pages])?;
    // The command itself counts as one change.
    Ok(transaction.total_changes() - before > 1)
}

/// Cuts free pages off the file. Returns `false` if there were none.
fn cut_off(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    if transaction.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0))? == 0 {
        return Ok(false);
    }
    let mut pages = transaction.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut pages = pages.query([])?;
    while pages.next()?.is_some() {}
    Ok(true)
}
