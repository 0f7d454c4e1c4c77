//! Checks the file: SQLite's own integrity, the rows of the logs, and the index of words.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use lookback_engine::transcript::Millis;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row};

use super::fault::Fault;
use super::index::texts_of;
use super::schema::DEFINED;
use super::seal::{self, Sealed};
use super::unsigned;
use lookback_store::texts::{self, Compared, Found};
use lookback_store::{LogName, Scope, checksum};

/// Returns descriptions of the problems of the file.
pub(super) fn check(connection: &mut Connection) -> Result<Vec<String>, Fault> {
    // In one transaction, so that all tables are read in the same state.
    let transaction = connection.transaction()?;
    let mut found = check_file(&transaction)?;
    found.extend(check_definitions(&transaction)?);
    let logs = logs(&transaction)?;
    for log in &logs {
        found.extend(check_log(&transaction, log)?);
    }
    let mut indexed = match Indexed::read(&transaction) {
        Ok(indexed) => indexed,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            found.push("the index of words cannot be read".to_owned());
            return Ok(found);
        }
        Err(error) => return Err(error.into()),
    };
    for log in &logs {
        found.extend(check_texts(&transaction, log, &mut indexed)?);
    }
    found.extend(indexed.rest(&transaction)?);
    Ok(found)
}

/// Returns descriptions of the data in the file that belongs to no listed log.
pub(super) fn orphans(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    let mut lost = connection.prepare(
        "SELECT DISTINCT log FROM entries WHERE log NOT IN (SELECT id FROM logs UNION ALL SELECT log FROM erasing)",
    )?;
    for log in lost.query_map([], |row| row.get::<_, i64>(0))? {
        found.push(format!("the records of log {} belong to no name", log?));
    }
    for log in logs(connection)? {
        if !log.scope.is_known() {
            found.push(format!("the log with the number {} belongs to no tenant", log.sealed.id));
        }
    }
    Ok(found)
}

/// A row of `logs`.
struct Log {
    sealed: Sealed,
    scope: Scope,
    name: LogName,
}

fn logs(connection: &Connection) -> rusqlite::Result<Vec<Log>> {
    let mut logs = connection.prepare(&format!("SELECT {}, scope, name FROM logs ORDER BY id", Sealed::COLUMNS))?;
    let log = |row: &Row<'_>| {
        let (sealed, scope, name) =
            (Sealed::from_row(row)?, Scope::unchecked(row.get(6)?), LogName::unchecked(row.get(7)?));
        Ok(Log { sealed, scope, name })
    };
    logs.query_map([], log)?.collect()
}

/// Returns the problems that SQLite finds.
fn check_file(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut faults = connection.prepare("PRAGMA integrity_check(100)")?;
    for fault in faults.query_map([], |row| row.get(0))? {
        found.push(fault?);
    }
    found.retain(|fault| fault != "ok");
    Ok(found)
}

/// Checks that the definitions of the index and the triggers are unchanged.
fn check_definitions(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let words = |sql: &str| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut definition = connection.prepare("SELECT sql FROM sqlite_schema WHERE name = ?1")?;
    let mut found = Vec::new();
    for (name, expected) in DEFINED {
        let sql: Option<String> = definition.query_row([name], |row| row.get(0)).optional()?;
        if sql.is_none_or(|sql| words(&sql) != words(expected)) {
            found.push(format!("`{name}` is not defined as Lookback defines it"));
        }
    }
    Ok(found)
}

/// Checks that the row of a log matches its records.
fn check_log(connection: &Connection, log: &Log) -> rusqlite::Result<Vec<String>> {
    let Log { sealed, scope, name } = log;
    let mut found = Vec::new();
    if !sealed.is_whole(scope.as_str(), name.as_str()) {
        found.push(format!("the row of `{name}` was altered: its size, its times, or its tenant"));
    }
    let sql = "SELECT count(*), coalesce(sum(octet_length(body)), 0) FROM entries WHERE log = ?1";
    let (length, bytes): (i64, i64) =
        connection.prepare_cached(sql)?.query_row([sealed.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if (length, bytes) != (sealed.length, sealed.bytes) {
        let says = format!("the row of `{name}` has {} entries of {} bytes", sealed.length, sealed.bytes);
        found.push(format!("{says}, but the log has {length} of {bytes}"));
    }
    Ok(found)
}

/// Checks that the index has the texts of a log, and no others.
fn check_texts(connection: &Connection, log: &Log, indexed: &mut Indexed) -> Result<Option<String>, Fault> {
    let Log { sealed, scope, name } = log;
    let Some(ids) = texts_of(sealed.id) else { return Ok(None) };
    let mut found = Vec::new();
    let sql = "SELECT id, position, time, seal FROM texts WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
    let mut texts = connection.prepare_cached(sql)?;
    let mut texts = texts.query((*ids.start(), *ids.end()))?;
    while let Some(row) = texts.next()? {
        let (id, position, time): (i64, i64, Option<Millis>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let checksum: i64 = row.get(3)?;
        let is_whole = checksum == seal::text_checksum(id, position, time);
        // A text whose row was altered gets a hash that matches no text.
        let hash = match indexed.take(id) {
            Some(hash) if is_whole => hash,
            _ => 0,
        };
        found.push(Found { position: unsigned(position), time, hash });
    }
    let mut compared = Compared::new(name, &scope.terms(), sealed.used, found);
    let sql = "SELECT position, checksum, body FROM entries WHERE log = ?1 ORDER BY position";
    let mut entries = connection.prepare_cached(sql)?;
    let mut entries = entries.query([sealed.id])?;
    while let Some(row) = entries.next()? {
        let (position, expected): (i64, i64) = (row.get(0)?, row.get(1)?);
        let position = unsigned(position);
        let body = std::str::from_utf8(row.get_ref(2)?.as_bytes().unwrap_or_default()).ok();
        let body = body.filter(|body| checksum(name, position, body).cast_signed() == expected);
        compared.see(position, body.map(str::to_owned));
    }
    Ok(compared.finish())
}

/// The hash of each text's terms, from the index and from the waiting terms.
struct Indexed(HashMap<i64, u64>);

impl Indexed {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut hashes: HashMap<i64, u64> = HashMap::new();
        // Visible only to this connection, and without data of its own.
        let list = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab ('main', 'words', 'instance')";
        connection.execute_batch(list)?;
        let mut terms = connection.prepare("SELECT doc, term FROM temp.instances")?;
        let mut terms = terms.query([])?;
        while let Some(row) = terms.next()? {
            let term = String::from_utf8_lossy(row.get_ref(1)?.as_bytes().unwrap_or_default());
            let hash = hashes.entry(row.get(0)?).or_default();
            *hash = texts::add(*hash, &term);
        }
        let mut waiting = connection.prepare("SELECT text, terms FROM waiting")?;
        let mut waiting = waiting.query([])?;
        while let Some(row) = waiting.next()? {
            let terms = String::from_utf8_lossy(row.get_ref(1)?.as_bytes().unwrap_or_default());
            let hash = hashes.entry(row.get(0)?).or_default();
            *hash = hash.wrapping_add(texts::hash_of(terms.split(' ')));
        }
        Ok(Indexed(hashes))
    }

    fn take(&mut self, text: i64) -> Option<u64> {
        self.0.remove(&text)
    }

    /// Returns a description of the remaining texts, which belong to no log. Texts that are being erased are no
    /// problem.
    fn rest(self, connection: &Connection) -> rusqlite::Result<Option<String>> {
        let mut erasing = connection.prepare("SELECT log FROM erasing")?;
        let erasing: Vec<i64> = erasing.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let erased: BTreeMap<i64, i64> =
            erasing.into_iter().filter_map(texts_of).map(RangeInclusive::into_inner).collect();
        let is_erased = |text: &i64| erased.range(..=*text).next_back().is_some_and(|(_, last)| text <= last);
        let left = self.0.keys().filter(|text| !is_erased(text)).count();
        Ok((left > 0).then(|| format!("{left} texts of the index of words belong to no record")))
    }
}
