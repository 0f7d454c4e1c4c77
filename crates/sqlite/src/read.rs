//! Reads logs, and lists them.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use super::fault::Fault;
use super::{signed, unsigned};
use lookback_store::{Damage, Head, LogInfo, LogName, Scope, StoreError, StoredRecord, Tenant};

/// Selects the records of a span of a log, in order, each with the length of the log. If the span has no records,
/// returns one row without a record.
const READ: &str = "
    SELECT length, position, checksum, body FROM logs
    LEFT JOIN entries ON log = logs.id AND position >= ?3 AND position < ?4
    WHERE scope = ?1 AND name = ?2 ORDER BY position
";

/// Reads one span.
pub(super) fn span(
    connection: &Connection,
    scope: &Scope,
    log: &LogName,
    span: &Range<u64>,
) -> Result<Vec<String>, Fault> {
    bodies(&mut *connection.prepare_cached(READ)?, scope, log, span)
}

/// Reads the end of a log, and its records from the newest checkpoint on.
pub(super) fn tail(
    connection: &mut Connection,
    scope: &Scope,
    log: &LogName,
) -> Result<Option<(Head, Vec<String>)>, Fault> {
    let transaction = connection.transaction()?;
    let Some(found) = head(&transaction, scope, log, None)? else { return Ok(None) };
    let bodies = span(&transaction, scope, log, &(found.checkpoint.unwrap_or(0)..found.end))?;
    Ok(Some((found, bodies)))
}

/// Reads several spans.
pub(super) fn spans(
    connection: &mut Connection,
    scope: &Scope,
    log: &LogName,
    spans: &[Range<u64>],
) -> Result<Vec<Vec<String>>, Fault> {
    // In one transaction, so that all spans are of the same log: another process may erase the log and start it again.
    let transaction = connection.transaction()?;
    let mut statement = transaction.prepare_cached(READ)?;
    spans.iter().map(|span| bodies(&mut statement, scope, log, span)).collect()
}

/// Returns the bodies of a span, by the statement [`READ`].
fn bodies(
    statement: &mut Statement<'_>,
    scope: &Scope,
    log: &LogName,
    span: &Range<u64>,
) -> Result<Vec<String>, Fault> {
    let mut rows = statement.query(params![scope.as_str(), log.as_str(), signed(span.start), signed(span.end)])?;
    let (mut end, mut read, mut behind) = (0, Vec::new(), None);
    while let Some(row) = rows.next()? {
        end = unsigned(row.get(0)?);
        let Some(position) = row.get(1)? else { break };
        let (position, checksum): (u64, i64) = (unsigned(position), row.get(2)?);
        let altered = |_| Fault::Store(StoreError::damaged(log, position, Damage::Altered));
        if position >= end {
            // If an earlier record is missing, that is the first error.
            behind = Some(StoreError::damaged(log, position, Damage::Behind));
            break;
        }
        let body = std::str::from_utf8(row.get_ref(3)?.as_bytes().unwrap_or_default()).map_err(altered)?;
        read.push(StoredRecord::new(position, checksum.cast_unsigned(), body));
    }
    let bodies = StoredRecord::check(log, span.clone(), end, read).map_err(Fault::Store)?;
    behind.map_or(Ok(bodies), |behind| Err(Fault::Store(behind)))
}

pub(super) fn head(
    connection: &Connection,
    scope: &Scope,
    log: &LogName,
    before: Option<u64>,
) -> Result<Option<Head>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT length, (SELECT max(position) FROM entries WHERE log = logs.id AND checkpoint = 1 AND position < ?3),
             EXISTS (SELECT 1 FROM entries WHERE log = logs.id AND position >= length)
         FROM logs WHERE scope = ?1 AND name = ?2",
    )?;
    let before = signed(before.unwrap_or(u64::MAX));
    let head = statement.query_row(params![scope.as_str(), log.as_str(), before], |row| {
        let checkpoint: Option<i64> = row.get(1)?;
        Ok((Head::new(unsigned(row.get(0)?), checkpoint.map(unsigned)), row.get(2)?))
    });
    match head.optional()? {
        // A page of the file has an earlier state.
        Some((Head { end, .. }, true)) => Err(Fault::Store(StoreError::damaged(log, end, Damage::Behind))),
        head => Ok(head.map(|(head, _)| head)),
    }
}

pub(super) fn info(connection: &Connection, scope: &Scope, log: &LogName) -> Result<Option<LogInfo>, Fault> {
    let sql = "SELECT name, length, bytes, created, used FROM logs WHERE scope = ?1 AND name = ?2";
    Ok(connection.prepare_cached(sql)?.query_row([scope.as_str(), log.as_str()], log_info).optional()?)
}

pub(super) fn list(connection: &Connection, scope: &Scope, prefix: &str) -> Result<Vec<LogInfo>, Fault> {
    // Names are compared by their bytes, and UTF-8 has no byte 255.
    let mut statement = connection.prepare_cached(
        "SELECT name, length, bytes, created, used FROM logs
         WHERE scope = ?1 AND name >= ?2 AND name < ?2 || CAST(x'ff' AS TEXT) ORDER BY name",
    )?;
    Ok(statement.query_map([scope.as_str(), prefix], log_info)?.collect::<Result<_, _>>()?)
}

/// Returns the tenants of a namespace.
pub(super) fn tenants(connection: &Connection, scope: &Scope) -> Result<Vec<Tenant>, Fault> {
    let mut next = connection.prepare_cached(
        "SELECT scope FROM logs WHERE scope > ?1 || CAST(?2 AS TEXT) AND scope < ?3 || CAST(x'ff' AS TEXT)
         ORDER BY scope LIMIT 1",
    )?;
    // The namespaces of a tenant have a common prefix, and UTF-8 has no byte 255.
    let mut next = |behind: &Scope, all: &[u8]| {
        let params = params![behind.as_str(), all, scope.as_str()];
        next.query_row(params, |row| row.get::<_, String>(0)).optional()
    };
    let mut tenants = Vec::new();
    let mut found = next(scope, b"")?;
    while let Some(tenant) = found.as_deref().and_then(|inner| scope.tenant_in(inner)) {
        found = next(&scope.for_tenant(&tenant), b"\xff")?;
        tenants.push(tenant);
    }
    Ok(tenants)
}

fn log_info(row: &Row<'_>) -> rusqlite::Result<LogInfo> {
    let info = LogInfo::new(LogName::unchecked(row.get(0)?), unsigned(row.get(1)?), unsigned(row.get(2)?));
    Ok(info.created(row.get(3)?).used(row.get(4)?))
}
