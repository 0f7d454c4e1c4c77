//! Logs in one SQLite file: the embedded default.
//!
//! ```text
//! logs     (id, name, length, bytes, created, used)    one row for each log; times in milliseconds since 1970, or NULL
//! entries  (log, position, checkpoint, body, checksum) one row for each record
//! texts    (id, position, time)                        one row for each record with a text: its position, when it was said
//! words    full-text index over the terms of the texts, which are not stored a second time
//! ```
//!
//! The terms are made by Lookback (see [`search`](crate::search)), so that every store finds the same. The index itself
//! only splits at spaces. It keeps which texts have a term, and neither how often nor where.
//!
//! The identifier of a text is the number of its log, times 2^32, plus its own number in the log. So the texts of a log
//! are together in the list of each term, and a search in one log reads nothing of the others.
//!
//! `entries` keeps its rowid. Without it, rows of a kilobyte would overflow the index's pages and take three times the
//! space.

mod connections;
mod fault;
mod open;
mod read;
mod schema;
mod search;
mod write;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lookback_core::transcript::Millis;
use rusqlite::Connection;

use self::connections::Readers;
use super::{Head, Hit, LogInfo, LogName, Record, Store, StoreFuture};
use crate::search::Query;

/// How long a writer waits for another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// Logs in one SQLite file, which several processes may use at once.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback::{Session, SqliteStore};
///
/// let folder = tempfile::tempdir()?;
/// let store = SqliteStore::open(folder.path().join("memory.db"))?;
/// let mut session = Session::open(store, "chat-1", Default::default()).await?;
/// session.push(lookback::Message::user("Hello")).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    /// The connection for writes, and for the reads that belong to them.
    writer: Arc<Mutex<Connection>>,
    readers: Arc<Readers>,
    path: PathBuf,
}

impl Store for SqliteStore {
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        at: u64,
        records: Vec<Record>,
        time: Option<Millis>,
    ) -> StoreFuture<'a, ()> {
        let log = log.clone();
        self.run(move |connection| write::append(connection, &log, at, records, time))
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        let log = log.clone();
        self.run(move |connection| write::touch(connection, &log, time))
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        let log = log.clone();
        self.look(move |connection| read::span(connection, &log, &span))
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        let (log, spans) = (log.clone(), spans.to_vec());
        self.look(move |connection| read::spans(connection, &log, &spans))
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        let log = log.clone();
        self.look(move |connection| read::head(connection, &log, before))
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        let log = log.clone();
        self.look(move |connection| read::info(connection, &log))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        let prefix = prefix.to_owned();
        self.look(move |connection| read::list(connection, &prefix))
    }

    fn delete<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        let log = log.clone();
        self.run(move |connection| write::delete(connection, &log))
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.run(write::clear)
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        if query.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (log, query) = (log.map(|log| log.as_str().to_owned()), query.clone());
        self.look(move |connection| search::search(connection, log.as_deref(), &query, most))
    }
}

fn signed(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
