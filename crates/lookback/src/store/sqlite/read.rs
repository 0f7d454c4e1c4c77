//! Reading logs, and listing them.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::fault::Fault;
use super::{signed, unsigned};
use crate::store::{Head, LogInfo, LogName, StoredRecord};

/// Selects the records of a span of a log, in order, each with the length of the log. A log without records there gives
/// one row without a record.
const READ: &str = "
    SELECT length, position, checksum, body FROM logs
    LEFT JOIN entries ON log = logs.id AND position >= ?2 AND position < ?3
    WHERE name = ?1 ORDER BY position
";

/// Reads one span.
pub(super) fn span(connection: &Connection, log: &LogName, span: &Range<u64>) -> Result<Vec<String>, Fault> {
    bodies(&mut *connection.prepare_cached(READ)?, log, span)
}

/// Reads several spans.
pub(super) fn spans(
    connection: &mut Connection,
    log: &LogName,
    spans: &[Range<u64>],
) -> Result<Vec<Vec<String>>, Fault> {
    // In one transaction, so that all spans are read from the same log: another process may erase the log and
    // begin it again.
    let transaction = connection.transaction()?;
    let mut statement = transaction.prepare_cached(READ)?;
    spans.iter().map(|span| bodies(&mut statement, log, span)).collect()
}

/// The bodies of a span, by the statement [`READ`].
fn bodies(statement: &mut Statement<'_>, log: &LogName, span: &Range<u64>) -> Result<Vec<String>, Fault> {
    let mut rows = statement.query(params![log.as_str(), signed(span.start), signed(span.end)])?;
    let (mut end, mut read) = (0, Vec::new());
    while let Some(row) = rows.next()? {
        end = unsigned(row.get(0)?);
        let Some(position) = row.get(1)? else { break };
        let checksum: i64 = row.get(2)?;
        read.push(StoredRecord::new(unsigned(position), checksum.cast_unsigned(), row.get::<_, String>(3)?));
    }
    StoredRecord::check(log, span.clone(), end, read).map_err(Fault::Store)
}

pub(super) fn head(connection: &Connection, log: &LogName, before: Option<u64>) -> Result<Option<Head>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT length, (SELECT max(position) FROM entries WHERE log = logs.id AND checkpoint = 1 AND position < ?2)
         FROM logs WHERE name = ?1",
    )?;
    let head = statement.query_row(params![log.as_str(), signed(before.unwrap_or(u64::MAX))], |row| {
        let checkpoint: Option<i64> = row.get(1)?;
        Ok(Head { end: unsigned(row.get(0)?), checkpoint: checkpoint.map(unsigned) })
    });
    Ok(head.optional()?)
}

pub(super) fn info(connection: &Connection, log: &LogName) -> Result<Option<LogInfo>, Fault> {
    let sql = "SELECT name, length, bytes, created, used FROM logs WHERE name = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([log.as_str()], log_info).optional()?)
}

pub(super) fn list(connection: &Connection, prefix: &str) -> Result<Vec<LogInfo>, Fault> {
    // Names are compared by their bytes, and UTF-8 has no byte 255.
    let mut statement = connection.prepare_cached(
        "SELECT name, length, bytes, created, used FROM logs
         WHERE name >= ?1 AND name < ?1 || CAST(x'ff' AS TEXT) ORDER BY name",
    )?;
    Ok(statement.query_map([prefix], log_info)?.collect::<Result<_, _>>()?)
}

fn log_info(row: &Row<'_>) -> rusqlite::Result<LogInfo> {
    Ok(LogInfo {
        name: LogName::kept(row.get(0)?),
        records: unsigned(row.get(1)?),
        bytes: unsigned(row.get(2)?),
        created: row.get(3)?,
        used: row.get(4)?,
    })
}
