//! The index of words, and the texts that wait to be indexed together.
//!
//! An append only records the terms of its texts. When many texts wait, an append indexes all of them, which takes less
//! time than to index each separately. A search reads both.

use std::ops::{Range, RangeInclusive};

use lookback_engine::transcript::Millis;
use rusqlite::{CachedStatement, Connection, Row, params};

use super::{seal, signed};
use lookback_store::search::Place;
use lookback_store::search::terms;
use lookback_store::{LogName, Record, Scope};

/// The most texts that wait.
const MOST: i64 = 64;
/// The most bytes of terms of a waiting text. A search reads all waiting texts.
const LONGEST: usize = 8 << 10;

/// Adds the texts of a log to the index.
pub(super) struct Indexer<'a> {
    connection: &'a Connection,
    texts: CachedStatement<'a>,
    words: CachedStatement<'a>,
    waiting: CachedStatement<'a>,
    /// The unused identifiers for texts of the log; empty for a log that is not searched.
    left: RangeInclusive<i64>,
    /// The terms of the tenant.
    of_tenant: Vec<String>,
}

impl<'a> Indexer<'a> {
    pub(super) fn new(connection: &'a Connection, scope: &Scope, log: &LogName, id: i64) -> rusqlite::Result<Self> {
        #[allow(clippy::reversed_empty_ranges, reason = "it is empty")]
        let none = 1..=0;
        let texts = if log.is_derived() { None } else { texts_of(id) };
        let left = match texts {
            None => none,
            Some(all) => {
                let sql = "SELECT max(id) FROM texts WHERE id BETWEEN ?1 AND ?2";
                let bounds = (*all.start(), *all.end());
                let last: Option<i64> = connection.prepare_cached(sql)?.query_row(bounds, |row| row.get(0))?;
                last.map_or(*all.start(), |last| last.saturating_add(1))..=*all.end()
            }
        };
        Ok(Indexer {
            connection,
            texts: connection.prepare_cached("INSERT INTO texts (id, position, time, seal) VALUES (?1, ?2, ?3, ?4)")?,
            words: connection.prepare_cached("INSERT INTO words (rowid, terms) VALUES (?1, ?2)")?,
            waiting: connection.prepare_cached("INSERT INTO waiting (text, terms) VALUES (?1, ?2)")?,
            left,
            of_tenant: scope.terms(),
        })
    }

    /// Adds the text of a record, if it has one. `time` applies if the record has no time of its own.
    pub(super) fn add(&mut self, position: u64, record: &Record, time: Option<Millis>) -> rusqlite::Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let mut terms = terms(record);
        if !terms.is_empty()
            && let Some(id) = self.left.next()
        {
            terms.extend_from_slice(&self.of_tenant);
            let terms = terms.join(" ");
            let (position, time) = (signed(position), record.time.or(time));
            self.texts.execute(params![id, position, time, seal::text_checksum(id, position, time)])?;
            if terms.len() > LONGEST {
                self.words.execute(params![id, terms])?;
            // The numbers of waiting rows start at 1 again, because the table is always emptied completely.
            } else if self.waiting.insert(params![id, terms])? >= MOST {
                index_waiting(self.connection)?;
            }
        }
        Ok(())
    }
}

/// Returns whether this many more texts can wait.
pub(super) fn has_room(connection: &Connection, texts: usize) -> rusqlite::Result<bool> {
    let last: Option<i64> =
        connection.prepare_cached("SELECT max(id) FROM waiting")?.query_row([], |row| row.get(0))?;
    Ok(last.unwrap_or(0).saturating_add(signed(texts as u64)) < MOST)
}

/// Moves the waiting texts into the index.
fn index_waiting(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "INSERT INTO words (rowid, terms) SELECT text, terms FROM waiting ORDER BY text";
    connection.prepare_cached(sql)?.execute([])?;
    // The delete frees pages, and the same transaction may write to them. Whatever it does not overwrite must not be
    // old terms.
    connection.pragma_update(None, "secure_delete", "ON")?;
    let emptied = connection.prepare_cached("DELETE FROM waiting").and_then(|mut delete| delete.execute([]));
    connection.pragma_update(None, "secure_delete", "FAST")?;
    emptied?;
    Ok(())
}

/// Removes the texts with these identifiers from the index. A trigger removes those that wait.
pub(super) fn remove(connection: &Connection, texts: &RangeInclusive<i64>) -> rusqlite::Result<()> {
    let bounds = (*texts.start(), *texts.end());
    let words = "DELETE FROM words WHERE rowid IN (SELECT id FROM texts WHERE id BETWEEN ?1 AND ?2)";
    connection.prepare_cached(words)?.execute(bounds)?;
    connection.prepare_cached("DELETE FROM texts WHERE id BETWEEN ?1 AND ?2")?.execute(bounds)?;
    Ok(())
}

/// A waiting text, prepared for a search.
pub(super) struct Waiting {
    pub(super) id: i64,
    pub(super) time: Option<Millis>,
    terms: String,
    /// The place of each term, sorted by term.
    places: Vec<Range<usize>>,
}

impl Waiting {
    /// Returns the waiting texts with these identifiers.
    pub(super) fn all(connection: &Connection, texts: &RangeInclusive<i64>) -> rusqlite::Result<Vec<Waiting>> {
        let sql = "SELECT text, time, terms FROM waiting JOIN texts ON texts.id = text WHERE text BETWEEN ?1 AND ?2";
        let row = |row: &Row<'_>| Ok(Waiting::new(row.get(0)?, row.get(1)?, row.get(2)?));
        connection.prepare_cached(sql)?.query_map((*texts.start(), *texts.end()), row)?.collect()
    }

    fn new(id: i64, time: Option<Millis>, terms: String) -> Waiting {
        let mut end = 0;
        let place = |term: &str| {
            let start = end;
            end = start + term.len() + 1;
            start..start + term.len()
        };
        let mut places: Vec<Range<usize>> = terms.split(' ').map(place).collect();
        places.sort_unstable_by_key(|place| terms.get(place.clone()));
        Waiting { id, time, terms, places }
    }

    /// Returns whether the text has one of these terms.
    pub(super) fn has_one_of(&self, terms: &[impl AsRef<str>]) -> bool {
        let has =
            |term: &str| self.places.binary_search_by_key(&Some(term), |place| self.terms.get(place.clone())).is_ok();
        terms.iter().any(|term| has(term.as_ref()))
    }
}

/// Returns the identifiers that the texts of a log may have.
pub(super) fn texts_of(log: i64) -> Option<RangeInclusive<i64>> {
    let log = u32::try_from(log).ok()?;
    Some(signed(Place::new(log, 0).number())..=signed(Place::new(log, u32::MAX).number()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::SqliteStore;
    use lookback_store::search::{Query, Within};
    use lookback_store::{Append, Hit, Store};

    /// Counts the waiting texts.
    fn waiting(store: &SqliteStore) -> i64 {
        store.file.writer().query_row("SELECT count(*) FROM waiting", [], |row| row.get(0)).unwrap()
    }

    fn append(store: &dyn Store, log: &LogName, at: u64, text: String) {
        let record = Record::new("{}").text(text);
        block_on(store.append(log, Append::new(at, [record]).time(Some(at.cast_signed())))).unwrap();
    }

    #[test]
    fn a_search_finds_the_same_whether_texts_wait_or_are_indexed() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
        let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
        let logs: [LogName; 2] = ["one".parse().unwrap(), "two".parse().unwrap()];
        let queries = ["apple", "apple pear", "\"pear 7\"", "apple -pear", "n3", "pears of 2026", "nothing"];
        let queries: Vec<Query> = queries
            .iter()
            .map(|query| Query::new(query))
            .chain([Query::new("apple pear").within(Within::default().since(20).until(60))])
            .collect();
        let mut waited = 0;
        let fruits = ["apple", "pear", "apple and pear", "plum of 2026"];
        for (at, fruit) in (0..150).zip(fruits.into_iter().cycle()) {
            for log in &logs {
                append(&store, log, at, format!("{fruit} {} n{at}", at % 9));
                append(&*tenant, log, at, format!("{fruit} of acme"));
            }
            if at % 7 > 0 {
                continue;
            }
            let found = || {
                let mut found: Vec<Vec<Hit>> = Vec::new();
                for query in &queries {
                    for store in [&store as &dyn Store, &*tenant] {
                        found.push(block_on(store.search(None, query, 5)).unwrap());
                        found.extend(logs.iter().map(|log| block_on(store.search(Some(log), query, 50)).unwrap()));
                    }
                }
                found
            };
            waited += waiting(&store);
            let before = found();
            index_waiting(&store.file.writer()).unwrap();
            assert_eq!(waiting(&store), 0);
            assert_eq!(before, found(), "after {at}");
        }
        assert!(waited > 300, "{waited} texts waited");
    }

    #[test]
    fn few_texts_wait_and_none_that_are_long() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
        let log: LogName = "one".parse().unwrap();
        for at in 0..200 {
            append(&store, &log, at, "a short text".to_owned());
            assert!(waiting(&store) < MOST);
        }
        let before = waiting(&store);
        append(&store, &log, 200, (0..LONGEST).map(|word| format!("w{word} ")).collect());
        assert_eq!(waiting(&store), before);
        assert_eq!(block_on(store.search(None, &"w77".into(), 9)).unwrap().len(), 1);
        let records = (0..200).map(|_| Record::new("{}").text("a short text"));
        block_on(store.append(&log, Append::new(201, records))).unwrap();
        assert!(waiting(&store) < MOST);
        assert_eq!(block_on(store.search(None, &"short".into(), 999)).unwrap().len(), 400);
    }
}
