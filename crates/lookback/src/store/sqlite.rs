//! Logs in one SQLite file: the embedded default.
//!
//! ```text
//! logs     (id, name, length, bytes, created, used)    one row for each log; times in milliseconds since 1970, or NULL
//! entries  (log, position, checkpoint, body)           one row for each record
//! words    full-text index over the words of the records' texts, which are not stored a second time
//! ```
//!
//! Words are split and folded by Lookback before they are indexed, so that every store finds the same. The index itself
//! only splits at spaces.
//!
//! `entries` keeps its rowid. Without it, rows of a kilobyte would overflow the index's pages and take three times the
//! space.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lookback_core::Entry;
use lookback_core::transcript::Millis;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Statement, TransactionBehavior, params};

use super::{
    Durability, Head, Hit, LogInfo, LogName, Record, Store, StoreError, StoreFuture, query_words, refuse_special, words,
};

/// The version of the file's layout. Version 1 had no times, and its index split and folded words by itself.
const VERSION: i64 = 2;
/// Identifies a file as a store of Lookback: the bytes of "look".
const APPLICATION: i64 = 0x6c6f_6f6b;
/// How long a writer waits for another process.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a search may take.
const LONGEST_SEARCH: Duration = Duration::from_secs(10);
/// A search looks at the clock after this many steps of SQLite's virtual machine: some milliseconds.
const STEPS: i32 = 100_000;

const SCHEMA: &str = "
    CREATE TABLE logs (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        length INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        created INTEGER,
        used INTEGER
    ) STRICT;
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        log INTEGER NOT NULL REFERENCES logs (id),
        position INTEGER NOT NULL,
        checkpoint INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (log, position)
    ) STRICT;
    CREATE INDEX checkpoints ON entries (log, position) WHERE checkpoint = 1;
";
const INDEX: &str = "
    CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '_'\");
";
/// Selects the bodies of a span of a log, in order.
const READ: &str = "
    SELECT body FROM entries
    WHERE log = (SELECT id FROM logs WHERE name = ?1) AND position >= ?2 AND position < ?3 ORDER BY position
";

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

/// Connections for readers, one for each at a time, so that a long search delays neither writers nor other readers.
#[derive(Debug)]
struct Readers {
    idle: Mutex<Vec<Connection>>,
    /// The path or URI that they open.
    target: PathBuf,
    flags: OpenFlags,
    patience: Mutex<Duration>,
}

impl Readers {
    /// How many stay open while nobody reads.
    const MOST_IDLE: usize = 4;

    fn take(&self) -> Result<Connection, rusqlite::Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let connection = Connection::open_with_flags(&self.target, self.flags)?;
        connection.busy_timeout(*self.patience.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < Readers::MOST_IDLE {
            idle.push(connection);
        }
    }
}

impl SqliteStore {
    /// Opens a store, and creates it if it does not exist. An append is done when it has reached the disk.
    ///
    /// # Errors
    /// Returns an error if the file is not a store, if a newer version wrote it, if another process holds it, or if it
    /// cannot be created.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteStore::open_with(path, Durability::Disk)
    }

    /// Opens a store with this durability, and creates it if it does not exist.
    ///
    /// # Errors
    /// The same as [`SqliteStore::open`].
    pub fn open_with(path: impl AsRef<Path>, durability: Durability) -> Result<Self, StoreError> {
        let path = path.as_ref();
        make_private(path);
        SqliteStore::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE, durability)
    }

    /// Opens an existing store. If it may not be written to, it is opened for reading only.
    ///
    /// # Errors
    /// The same as [`SqliteStore::open`]. Returns an error if there is no file.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        if !path.exists() {
            return Err(StoreError::Missing { place: path.display().to_string() });
        }
        let opened = SqliteStore::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Durability::Disk);
        match (&opened, at_rest(path)) {
            (Err(StoreError::ReadOnly { .. }), Some(uri)) => {
                SqliteStore::attach(&uri, path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
            }
            _ => opened,
        }
    }

    /// Sets how long to wait for another process before an error says that the store is locked. The default is 5
    /// seconds.
    ///
    /// # Errors
    /// None in practice: SQLite accepts any duration.
    pub fn with_patience(self, patience: Duration) -> Result<Self, StoreError> {
        let connection = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        connection.busy_timeout(patience).map_err(|error| explain(&self.path, error))?;
        drop(connection);
        *self.readers.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(self)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(path: &Path, flags: OpenFlags, durability: Durability) -> Result<Self, StoreError> {
        let store = SqliteStore::attach(path, path, flags)?;
        let synchronous = match durability {
            Durability::Disk => "FULL",
            Durability::System => "NORMAL",
        };
        let connection = store.writer.lock().unwrap_or_else(PoisonError::into_inner);
        connection.pragma_update(None, "synchronous", synchronous).map_err(|error| explain(path, error))?;
        drop(connection);
        Ok(store)
    }

    /// Opens `target`, which is a path, or a URI of `path`.
    fn attach(target: impl AsRef<Path>, path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        // The file, and the files that SQLite keeps beside it.
        for ending in ["", "-wal", "-shm", "-journal"] {
            let mut file = path.as_os_str().to_owned();
            file.push(ending);
            refuse_special(Path::new(&file))?;
        }
        let fault = |error| explain(path, error);
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let target = target.as_ref();
        let mut connection = Connection::open_with_flags(target, flags).map_err(fault)?;
        connection.busy_timeout(PATIENCE).map_err(fault)?;
        prepare(&mut connection, path)?;
        let readers = Readers {
            idle: Mutex::default(),
            target: target.to_owned(),
            flags: flags - OpenFlags::SQLITE_OPEN_CREATE,
            patience: Mutex::new(PATIENCE),
        };
        let (writer, readers) = (Arc::new(Mutex::new(connection)), Arc::new(readers));
        Ok(SqliteStore { writer, readers, path: path.to_owned() })
    }

    /// Runs `work` on a connection of its own, on a thread that may block.
    fn look<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let readers = self.readers.clone();
        Box::pin(async move {
            let done = blocking::unblock(move || {
                let mut connection = readers.take()?;
                let done = work(&mut connection)?;
                // After an error or a panic the connection is not used again.
                readers.give_back(connection);
                Ok(done)
            });
            done.await.map_err(|fault| self.explained(fault))
        })
    }

    fn explained(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                StoreError::Slow { place: self.path.display().to_string(), limit: LONGEST_SEARCH }
            }
            Fault::Sqlite(error) => explain(&self.path, error),
            Fault::Conflict { at, end } => StoreError::Conflict { at, end },
        }
    }

    /// Runs `work` on the connection for writes, on a thread that may block.
    fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let connection = self.writer.clone();
        Box::pin(async move {
            let done = blocking::unblock(move || {
                // A panic leaves no transaction behind: dropping it rolls it back.
                let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                work(&mut connection)
            });
            done.await.map_err(|fault| self.explained(fault))
        })
    }
}

/// Creates the file if it does not exist, readable only by its owner, because it holds conversations. SQLite gives the
/// files beside it the same permissions.
fn make_private(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // If it cannot be created, SQLite reports the error.
        let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// The URI of a database in a folder where SQLite may not create files. (Other readers need such files.) `None` if
/// somebody is writing to the database, because then part of it is not in the file.
fn at_rest(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let path = path.to_str()?;
    let is_written = std::fs::metadata(format!("{path}-wal")).is_ok_and(|log| log.len() > 0);
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    (!is_written).then(|| format!("file:{escaped}?immutable=1"))
}

/// An error inside a call.
enum Fault {
    Sqlite(rusqlite::Error),
    Conflict { at: u64, end: u64 },
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

/// Creates the tables of a new file, checks those of an old one, and migrates them.
fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fault = |error| explain(path, error);
    // In one transaction, so that tables that another process creates meanwhile are seen entirely or not at all.
    let snapshot = connection.transaction().map_err(fault)?;
    let found = version(&snapshot, path)?;
    drop(snapshot);
    match found {
        VERSION => return Ok(()),
        0 => set_journal(connection, path)?,
        found if connection.is_readonly("main").map_err(fault)? => {
            return Err(StoreError::Older { place: path.display().to_string(), found, known: VERSION });
        }
        _ => {}
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    // Another process may have been faster.
    match version(&transaction, path)? {
        VERSION => return Ok(()),
        0 => create(&transaction),
        _ => migrate(&transaction),
    }
    .map_err(fault)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(fault)?;
    transaction.commit().map_err(fault)
}

/// The version of a store's layout, at most ours; 0 for an empty file.
fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let number = |sql| connection.query_row(sql, [], |row| row.get(0)).map_err(|error| explain(path, error));
    let place = || path.display().to_string();
    let application: i64 = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    match (application, version, tables) {
        (APPLICATION, 1..=VERSION, _) | (0, 0, 0) => Ok(version),
        (APPLICATION, found, _) if found > VERSION => Err(StoreError::Newer { place: place(), found, known: VERSION }),
        _ => Err(StoreError::NotAStore { place: place() }),
    }
}

/// Lets readers read while somebody writes.
fn set_journal(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    // SQLite itself does not wait for another process that makes the same change.
    let start = Instant::now();
    while let Err(error) = connection.pragma_update(None, "journal_mode", "WAL").map_err(|error| explain(path, error)) {
        if !matches!(error, StoreError::Locked { .. }) || start.elapsed() > PATIENCE {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(INDEX)?;
    connection.pragma_update(None, "application_id", APPLICATION)
}

/// Migrates version 1: adds the times, which are not known, and builds the index again.
fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "ALTER TABLE logs ADD COLUMN created INTEGER;
         ALTER TABLE logs ADD COLUMN used INTEGER;
         DROP TABLE words;",
    )?;
    connection.execute_batch(INDEX)?;
    let mut index = connection.prepare("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
    let mut entries =
        connection.prepare("SELECT entries.id, body, name FROM entries JOIN logs ON logs.id = entries.log")?;
    let mut rows = entries.query([])?;
    while let Some(row) = rows.next()? {
        let (id, body, log): (i64, String, _) = (row.get(0)?, row.get(1)?, LogName::kept(row.get(2)?));
        // The texts were not stored, so the records must be parsed here: what was indexed were the texts of messages.
        if let Ok(Entry::Message(arrival)) = serde_json::from_str(&body)
            && !log.is_derived()
        {
            index.execute(params![id, indexed(&arrival.message.text())])?;
        }
    }
    Ok(())
}

/// A text in the form that the index takes.
fn indexed(text: &str) -> String {
    words(text).join(" ")
}

/// Converts SQLite's errors. No error contains the contents of a record.
fn explain(path: &Path, error: rusqlite::Error) -> StoreError {
    let place = path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { place },
        Some(ErrorCode::DiskFull) => StoreError::Full { place },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { place },
        // The file itself can be opened, so the files beside it cannot be created.
        Some(ErrorCode::CannotOpen) if path.is_file() && std::fs::File::open(path).is_ok() => {
            StoreError::ReadOnly { place }
        }
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore { place },
        _ => StoreError::Backend { place, source: Box::new(error) },
    }
}

/// Interrupts the work of a connection when it has taken this long.
fn limit(connection: &mut Connection, time: Duration) -> rusqlite::Result<()> {
    let start = Instant::now();
    connection.progress_handler(STEPS, Some(move || start.elapsed() > time))
}

fn signed(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The bodies of a span, by the statement [`READ`].
fn bodies(statement: &mut Statement<'_>, log: &LogName, span: &Range<u64>) -> rusqlite::Result<Vec<String>> {
    let bounds = params![log.as_str(), signed(span.start), signed(span.end)];
    statement.query_map(bounds, |row| row.get(0))?.collect()
}

fn info(row: &Row<'_>) -> rusqlite::Result<LogInfo> {
    Ok(LogInfo {
        name: LogName::kept(row.get(0)?),
        records: unsigned(row.get(1)?),
        bytes: unsigned(row.get(2)?),
        created: row.get(3)?,
        used: row.get(4)?,
    })
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
        self.run(move |connection| {
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
        })
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        let log = log.clone();
        self.run(move |connection| {
            let sql = "UPDATE logs SET used = max(coalesce(used, ?2), ?2) WHERE name = ?1";
            Ok(connection.prepare_cached(sql)?.execute(params![log.as_str(), time])? > 0)
        })
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        let log = log.clone();
        self.look(move |connection| Ok(bodies(&mut *connection.prepare_cached(READ)?, &log, &span)?))
    }

    fn read_many<'a>(&'a self, log: &'a LogName, spans: &'a [Range<u64>]) -> StoreFuture<'a, Vec<Vec<String>>> {
        let (log, spans) = (log.clone(), spans.to_vec());
        self.look(move |connection| {
            // In one transaction, so that all spans are read from the same log: another process may erase the log and
            // begin it again.
            let transaction = connection.transaction()?;
            let mut statement = transaction.prepare_cached(READ)?;
            Ok(spans.iter().map(|span| bodies(&mut statement, &log, span)).collect::<Result<_, _>>()?)
        })
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        let log = log.clone();
        self.look(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT length, (SELECT max(position) FROM entries WHERE log = logs.id AND checkpoint = 1 AND position < ?2)
                 FROM logs WHERE name = ?1",
            )?;
            let head = statement.query_row(params![log.as_str(), signed(before.unwrap_or(u64::MAX))], |row| {
                let checkpoint: Option<i64> = row.get(1)?;
                Ok(Head { end: unsigned(row.get(0)?), checkpoint: checkpoint.map(unsigned) })
            });
            Ok(head.optional()?)
        })
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        let log = log.clone();
        self.look(move |connection| {
            let sql = "SELECT name, length, bytes, created, used FROM logs WHERE name = ?1";
            Ok(connection.prepare_cached(sql)?.query_row([log.as_str()], info).optional()?)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        let prefix = prefix.to_owned();
        self.look(move |connection| {
            // Names are compared by their bytes, and UTF-8 has no byte 255.
            let mut statement = connection.prepare_cached(
                "SELECT name, length, bytes, created, used FROM logs
                 WHERE name >= ?1 AND name < ?1 || CAST(x'ff' AS TEXT) ORDER BY name",
            )?;
            Ok(statement.query_map([prefix], info)?.collect::<Result<_, _>>()?)
        })
    }

    fn delete<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        let log = log.clone();
        self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let id: Option<i64> = transaction
                .query_row("SELECT id FROM logs WHERE name = ?1", [log.as_str()], |row| row.get(0))
                .optional()?;
            let Some(id) = id else { return Ok(false) };
            transaction.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM entries WHERE log = ?1)", [id])?;
            transaction.execute("DELETE FROM entries WHERE log = ?1", [id])?;
            transaction.execute("DELETE FROM logs WHERE id = ?1", [id])?;
            transaction.commit()?;
            Ok(true)
        })
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.run(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute("INSERT INTO words (words) VALUES ('delete-all')", [])?;
            transaction.execute("DELETE FROM entries", [])?;
            let logs = transaction.execute("DELETE FROM logs", [])?;
            transaction.commit()?;
            Ok(logs as u64)
        })
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        // Each word is in quotes, so that nothing in it is read as query syntax.
        let terms: Vec<String> = query_words(query).iter().map(|word| format!("\"{word}\"")).collect();
        if terms.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (terms, log) = (terms.join(" "), log.map(|log| log.as_str().to_owned()));
        self.look(move |connection| {
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
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use futures_lite::future::block_on;

    #[test]
    fn a_file_at_rest_is_read_whatever_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let log: LogName = "one".parse().unwrap();
        for name in ["s.db", "100%.db", "%41?b#c&mode=rw.db", "ä b'\".db"] {
            let path = folder.path().join(name);
            let store = SqliteStore::open(&path).unwrap();
            let record = Record { body: "{}".to_owned(), text: "apple".to_owned(), checkpoint: false };
            block_on(store.append(&log, 0, vec![record.clone()], None)).unwrap();
            assert_eq!(at_rest(&path), None, "somebody writes to it");
            drop(store);
            let uri = at_rest(&path).unwrap();
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let store = SqliteStore::attach(uri, &path, flags).unwrap();
            assert_eq!(block_on(store.search(None, "apple", 9)).unwrap().len(), 1);
            let refused = block_on(store.append(&log, 1, vec![record], None)).unwrap_err();
            assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
        }
    }

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

    #[test]
    fn whoever_reads_for_long_holds_up_neither_writers_nor_readers() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap());
        let log: LogName = "one".parse().unwrap();
        let record = || vec![Record { body: "{}".to_owned(), text: "apple".to_owned(), checkpoint: false }];
        let (begun, began) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let reader = store.clone();
        let long = std::thread::spawn(move || {
            block_on(reader.look(move |_| {
                begun.send(()).unwrap();
                ended.recv().unwrap();
                Ok(())
            }))
        });
        began.recv().unwrap();
        block_on(store.append(&log, 0, record(), None)).unwrap();
        assert_eq!(block_on(store.search(None, "apple", 9)).unwrap().len(), 1);
        assert_eq!(block_on(store.head(&log, None)).unwrap().unwrap().end, 1);
        assert!(!long.is_finished());
        end.send(()).unwrap();
        long.join().unwrap().unwrap();
    }

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
