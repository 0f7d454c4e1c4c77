//! Full-text search: answers the ranking's questions in SQL.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use lookback_engine::transcript::Millis;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::fault::{Fault, LONGEST_SEARCH};
use super::index::{Waiting, texts_of};
use super::{signed, unsigned};
use lookback_store::search::{Index, Place, Query, rank};
use lookback_store::{Hit, LogName, Scope};

/// How many steps of SQLite's virtual machine a search runs between two looks at the clock: some milliseconds.
const STEPS: i32 = 100_000;

/// Finds the records that match a query, in one log or in all: the best first.
pub(super) fn search(
    connection: &mut Connection,
    scope: &Scope,
    log: Option<&LogName>,
    query: &Query,
    most: usize,
) -> Result<Vec<Hit>, Fault> {
    limit(connection, LONGEST_SEARCH)?;
    let hits = ranked(connection, scope, log, query, most)?;
    connection.progress_handler(0, None::<fn() -> bool>)?;
    Ok(hits)
}

fn ranked(
    connection: &mut Connection,
    scope: &Scope,
    log: Option<&LogName>,
    query: &Query,
    most: usize,
) -> Result<Vec<Hit>, Fault> {
    // In one transaction, so that all answers are about the same records.
    let transaction = connection.transaction()?;
    let within = match log {
        Some(log) => {
            let id = "SELECT id FROM logs WHERE scope = ?1 AND name = ?2";
            let id: Option<i64> = transaction
                .prepare_cached(id)?
                .query_row([scope.as_str(), log.as_str()], |row| row.get(0))
                .optional()?;
            let Some(of_log) = id.and_then(texts_of) else { return Ok(Vec::new()) };
            Within::Log(of_log)
        }
        None => {
            // The namespaces of logs that are being erased are no longer known.
            let others = "SELECT EXISTS (SELECT 1 FROM logs WHERE scope <> ?1) OR EXISTS (SELECT 1 FROM erasing)";
            match scope.terms().pop() {
                Some(own) => Within::Tenant(own),
                None if transaction.prepare_cached(others)?.query_row([scope.as_str()], |row| row.get(0))? => {
                    Within::NoTenant
                }
                None => Within::All,
            }
        }
    };
    let mut waiting = Waiting::all(&transaction, &within.bounds())?;
    waiting.retain(|text| match &within {
        Within::All | Within::Log(_) => true,
        Within::NoTenant => !text.has_one_of(&[Scope::OF_TENANTS]),
        Within::Tenant(own) => text.has_one_of(&[own]),
    });
    let (times, names) = (query.times(), HashMap::new());
    let mut words = Words { connection: &transaction, scope, within, waiting, times, names };
    Ok(rank(&mut words, query, most)?)
}

/// The range of a search.
enum Within {
    All,
    /// The texts of the store itself, which no tenant has.
    NoTenant,
    /// The texts with this term of a tenant.
    Tenant(String),
    /// The texts of a log, by their identifiers.
    Log(RangeInclusive<i64>),
}

impl Within {
    /// Returns the range of identifiers that contains all searched texts.
    fn bounds(&self) -> RangeInclusive<i64> {
        match self {
            Within::Log(texts) => texts.clone(),
            _ => i64::MIN..=i64::MAX,
        }
    }
}

/// The index as one query sees it.
struct Words<'a> {
    connection: &'a Connection,
    scope: &'a Scope,
    within: Within,
    /// The waiting texts within the range of the search.
    waiting: Vec<Waiting>,
    times: Option<RangeInclusive<Millis>>,
    /// The names of logs that were looked up so far.
    names: HashMap<u32, LogName>,
}

impl Words<'_> {
    /// Limits a match to the range of the search.
    fn limited(&self, matched: &str) -> String {
        match &self.within {
            Within::All | Within::Log(_) => matched.to_owned(),
            Within::NoTenant => format!("({matched}) NOT {}", one_of(&[Scope::OF_TENANTS])),
            Within::Tenant(own) => format!("({matched}) AND {}", one_of(&[own])),
        }
    }

    /// Counts the searched texts that have a term.
    fn count(&self, term: &str) -> rusqlite::Result<u64> {
        let sql = "SELECT count(*) FROM words WHERE words MATCH ?1 AND rowid BETWEEN ?2 AND ?3";
        let (matched, bounds) = (self.limited(&one_of(&[term])), self.within.bounds());
        Ok(self.number(sql, params![matched, bounds.start(), bounds.end()])? + self.count_waiting(term))
    }

    /// Counts the waiting texts that have a term.
    fn count_waiting(&self, term: &str) -> u64 {
        self.waiting.iter().filter(|text| text.has_one_of(&[term])).count() as u64
    }

    /// Returns whether a text of this time is searched.
    fn is_of_time(&self, time: Option<Millis>) -> bool {
        self.times.as_ref().is_none_or(|times| time.is_some_and(|time| times.contains(&time)))
    }

    fn number(&self, sql: &str, params: impl Params) -> rusqlite::Result<u64> {
        let number: Option<i64> =
            self.connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
        Ok(number.map_or(0, unsigned))
    }
}

impl Index for Words<'_> {
    type Error = rusqlite::Error;
    type Hit = Hit;

    fn texts(&mut self) -> rusqlite::Result<u64> {
        match &self.within {
            Within::Tenant(own) => self.count(own),
            Within::NoTenant => {
                let of_tenants = "SELECT count(*) FROM words WHERE words MATCH ?1";
                let of_tenants = self.number(of_tenants, [one_of(&[Scope::OF_TENANTS])])?;
                let indexed =
                    self.number("SELECT (SELECT count(*) FROM texts) - (SELECT count(*) FROM waiting)", [])?;
                Ok(indexed.saturating_sub(of_tenants) + self.waiting.len() as u64)
            }
            Within::All => self.number("SELECT count(*) FROM texts", []),
            Within::Log(texts) => {
                let sql = "SELECT count(*) FROM texts WHERE id BETWEEN ?1 AND ?2";
                self.number(sql, [texts.start(), texts.end()])
            }
        }
    }

    fn counts(&mut self, terms: &[String]) -> rusqlite::Result<Vec<u64>> {
        // In a single query, because each query takes as long as reading thousands of texts.
        let sql = "SELECT term, doc FROM vocabulary WHERE term BETWEEN ?1 AND ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let row = |row: &Row<'_>| Ok((row.get(0)?, unsigned(row.get(1)?)));
        let known: HashMap<String, u64> =
            statement.query_map(params![terms.first(), terms.last()], row)?.collect::<Result<_, _>>()?;
        let count = |term: &String| match (known.get(term), &self.within) {
            (Some(count), Within::All) => Ok(*count + self.count_waiting(term)),
            (Some(_), _) => self.count(term),
            (None, _) => Ok(self.count_waiting(term)),
        };
        terms.iter().map(count).collect()
    }

    fn places(&mut self, any: &[String], all: &[Vec<String>], most: usize) -> rusqlite::Result<Vec<Place>> {
        if any.is_empty() {
            return Ok(Vec::new());
        }
        let demands: Vec<String> = [any].into_iter().chain(all.iter().map(Vec::as_slice)).map(one_of).collect();
        let (matched, limit) = (self.limited(&demands.join(" AND ")), signed(most as u64));
        let bounds = self.within.bounds();
        let (first, last) = (bounds.start(), bounds.end());
        let id = |row: &Row<'_>| row.get::<_, i64>(0);
        let mut found: Vec<i64> = match &self.times {
            None => {
                let sql = "SELECT rowid FROM words WHERE words MATCH ?1 AND rowid BETWEEN ?2 AND ?3
                           ORDER BY rowid DESC LIMIT ?4";
                let mut statement = self.connection.prepare_cached(sql)?;
                statement.query_map(params![matched, first, last, limit], id)?.collect::<Result<_, _>>()?
            }
            Some(times) => {
                let sql = "SELECT words.rowid FROM words CROSS JOIN texts ON texts.id = words.rowid
                           WHERE words MATCH ?1 AND words.rowid BETWEEN ?2 AND ?3 AND time BETWEEN ?5 AND ?6
                           ORDER BY words.rowid DESC LIMIT ?4";
                let mut statement = self.connection.prepare_cached(sql)?;
                let params = params![matched, first, last, limit, times.start(), times.end()];
                statement.query_map(params, id)?.collect::<Result<_, _>>()?
            }
        };
        let fits = |text: &&Waiting| {
            self.is_of_time(text.time) && text.has_one_of(any) && all.iter().all(|terms| text.has_one_of(terms))
        };
        found.extend(self.waiting.iter().filter(fits).map(|text| text.id));
        found.sort_unstable();
        let first = found.len().saturating_sub(most);
        Ok(found.into_iter().skip(first).map(|id| Place::numbered(unsigned(id))).collect())
    }

    fn hit(&mut self, place: Place) -> rusqlite::Result<Option<Hit>> {
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Millis>>(1)?));
        let sql = "SELECT position, time FROM texts WHERE id = ?1";
        let found = self.connection.prepare_cached(sql)?.query_row([signed(place.number())], row).optional()?;
        let Some((position, _)) = found.filter(|(_, time)| self.is_of_time(*time)) else { return Ok(None) };
        let log = match self.names.get(&place.log()) {
            Some(log) => log.clone(),
            None => {
                let sql = "SELECT name FROM logs WHERE id = ?1 AND scope = ?2";
                let params = params![place.log(), self.scope.as_str()];
                let name = self.connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
                // A log that is being erased is no longer found.
                let Some(log) = name.map(LogName::unchecked) else { return Ok(None) };
                self.names.insert(place.log(), log.clone());
                log
            }
        };
        Ok(Some(Hit::new(log, unsigned(position))))
    }
}

/// Returns a match expression for texts that have one of these terms.
fn one_of(terms: &[impl AsRef<str>]) -> String {
    // Each term is quoted, so that nothing in it is read as query syntax.
    let terms: Vec<String> = terms.iter().map(|term| format!("\"{}\"", term.as_ref())).collect();
    format!("({})", terms.join(" OR "))
}

/// Interrupts the work of a connection after this time.
fn limit(connection: &mut Connection, time: Duration) -> rusqlite::Result<()> {
    let start = Instant::now();
    connection.progress_handler(STEPS, Some(move || start.elapsed() > time))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::SqliteStore;
    use futures_lite::future::block_on;
    use lookback_store::Store;

    #[test]
    fn a_search_that_takes_too_long_is_broken_off_and_the_next_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
        let slow = store.file.read(|connection| {
            limit(connection, Duration::ZERO)?;
            let count = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
            Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?)
        });
        let error = block_on(slow).unwrap_err();
        assert!(error.to_string().ends_with("took longer than 10 seconds; ask for fewer or rarer words"), "{error}");
        assert_eq!(block_on(store.search(None, &"apple".into(), 9)).unwrap(), []);
    }
}
