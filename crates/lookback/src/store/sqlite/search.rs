//! Full-text search: the words of a record, and queries for them.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Row, params};

use super::fault::Fault;
use super::{signed, unsigned};
use crate::store::{Hit, LogName, query_words, words};

/// How long a search may take.
pub(super) const LONGEST_SEARCH: Duration = Duration::from_secs(10);
/// A search looks at the clock after this many steps of SQLite's virtual machine: some milliseconds.
const STEPS: i32 = 100_000;

/// A text in the form that the index takes.
pub(super) fn indexed(text: &str) -> String {
    words(text).join(" ")
}

/// A query in the syntax of the index; `None` if it has no words.
pub(super) fn terms(query: &str) -> Option<String> {
    // Each word is in quotes, so that nothing in it is read as query syntax.
    let terms: Vec<String> = query_words(query).iter().map(|word| format!("\"{word}\"")).collect();
    (!terms.is_empty()).then(|| terms.join(" "))
}

/// Finds the records that have all terms, in one log or in all, the best first.
pub(super) fn search(
    connection: &mut Connection,
    log: Option<&str>,
    terms: &str,
    most: usize,
) -> Result<Vec<Hit>, Fault> {
    limit(connection, LONGEST_SEARCH)?;
    let mut statement = connection.prepare_cached(
        "SELECT logs.name, entries.position
         FROM words JOIN entries ON entries.id = words.rowid JOIN logs ON logs.id = entries.log
         WHERE words MATCH ?1 AND (?2 IS NULL OR logs.name = ?2) ORDER BY rank LIMIT ?3",
    )?;
    let hit = |row: &Row<'_>| Ok(Hit { log: LogName::kept(row.get(0)?), position: unsigned(row.get(1)?) });
    let hits = statement.query_map(params![terms, log, signed(most as u64)], hit)?.collect::<Result<_, _>>()?;
    drop(statement);
    connection.progress_handler(0, None::<fn() -> bool>)?;
    Ok(hits)
}

/// Interrupts the work of a connection when it has taken this long.
fn limit(connection: &mut Connection, time: Duration) -> rusqlite::Result<()> {
    let start = Instant::now();
    connection.progress_handler(STEPS, Some(move || start.elapsed() > time))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::{SqliteStore, Store};
    use futures_lite::future::block_on;

    #[test]
    fn a_search_that_takes_too_long_is_broken_off_and_the_next_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
        let slow = store.look(|connection| {
            limit(connection, Duration::ZERO)?;
            let count = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
            Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?)
        });
        let error = block_on(slow).unwrap_err();
        assert!(error.to_string().ends_with("took longer than 10 seconds; ask for fewer or rarer words"), "{error}");
        assert_eq!(block_on(store.search(None, "apple", 9)).unwrap(), []);
    }
}
