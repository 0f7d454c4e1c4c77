//! The layout of the file: its tables, its version, and the migration from an older one.

use std::path::Path;
use std::time::{Duration, Instant};

use lookback_core::Entry;
use lookback_core::transcript::Label;
use rusqlite::{Connection, TransactionBehavior};

use super::fault::explain;
use super::index::Indexer;
use super::seal::seal_all;
use super::{PATIENCE, unsigned};
use crate::session::log::said;
use crate::store::{LogName, Record, Scope, StoreError, checksum};

/// The version of the file's layout. Version 1 had no times, and its index split and folded words by itself. Version 2
/// indexed words as they are written. Version 3 had no checksums. Version 4 had no tenants, and kept free pages.
/// In version 5, no texts waited for the index. In version 6, rows of `logs` and `texts` had no seals.
const VERSION: i64 = 7;
/// Identifies a file as a store of Lookback: the bytes of "look".
const APPLICATION: i64 = 0x6c6f_6f6b;

/// What holds for every connection that writes. What is deleted inside a page is overwritten. A free page is not: it is
/// cut off when something is erased. A record outlives its log until it is erased, so nothing refers to logs.
const ALWAYS: &str = "PRAGMA secure_delete = FAST; PRAGMA foreign_keys = OFF;";

const LOGS: &str = "
    CREATE TABLE logs (
        id INTEGER PRIMARY KEY,
        scope TEXT NOT NULL,
        name TEXT NOT NULL,
        length INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        created INTEGER,
        used INTEGER,
        seal INTEGER,
        UNIQUE (scope, name)
    ) STRICT;
    CREATE TABLE erasing (
        log INTEGER PRIMARY KEY,
        stage INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX erasing_stages ON erasing (stage);
";
const ENTRIES: &str = "
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        log INTEGER NOT NULL,
        position INTEGER NOT NULL,
        checkpoint INTEGER NOT NULL,
        body TEXT NOT NULL,
        checksum INTEGER NOT NULL DEFAULT 0,
        UNIQUE (log, position)
    ) STRICT;
    CREATE INDEX checkpoints ON entries (log, position) WHERE checkpoint = 1;
";
const TEXTS: &str = "
    CREATE TABLE texts (
        id INTEGER PRIMARY KEY,
        position INTEGER NOT NULL,
        time INTEGER,
        seal INTEGER
    ) STRICT;
";
const WORDS: &str = "
    CREATE VIRTUAL TABLE words USING fts5 (
        terms, content = '', contentless_delete = 1, detail = none, tokenize = \"ascii tokenchars '_/.-:~=@'\"
    )
";
const VOCABULARY: &str = "CREATE VIRTUAL TABLE vocabulary USING fts5vocab ('words', 'row')";
const WAITING: &str = "
    CREATE TABLE waiting (
        id INTEGER PRIMARY KEY,
        text INTEGER NOT NULL,
        terms TEXT NOT NULL
    ) STRICT;
";
/// It also serves processes of version 5 that go on with the file, and know nothing of `waiting`.
const LEAVING: &str = "CREATE TRIGGER leaving AFTER DELETE ON texts BEGIN DELETE FROM waiting WHERE text = OLD.id; END";
/// Takes the seal off a row that a process of an earlier version has changed: it knows of none.
const UNSEALED: &str = "
    CREATE TRIGGER unsealed AFTER UPDATE OF length, bytes, used ON logs
        WHEN NEW.seal IS OLD.seal AND (NEW.length, NEW.bytes, NEW.used) IS NOT (OLD.length, OLD.bytes, OLD.used)
        BEGIN UPDATE logs SET seal = NULL WHERE id = NEW.id; END
";

/// The names of what is defined otherwise than by tables, and its definition. What a search finds depends on it.
pub(super) const DEFINED: [(&str, &str); 4] =
    [("words", WORDS), ("vocabulary", VOCABULARY), ("leaving", LEAVING), ("unsealed", UNSEALED)];

/// Creates the tables of a new file, checks those of an old one, and migrates them.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fault = |error| explain(path, error);
    // In one transaction, so that tables that another process creates meanwhile are seen entirely or not at all.
    connection.execute_batch(ALWAYS).map_err(fault)?;
    let snapshot = connection.transaction().map_err(fault)?;
    let found = version(&snapshot, path)?;
    drop(snapshot);
    match found {
        VERSION => return Ok(()),
        0 => {
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(fault)?;
            set_journal(connection, path)?;
        }
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
        found => migrate(&transaction, found),
    }
    .map_err(fault)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(fault)?;
    transaction.commit().map_err(fault)?;
    if (1..5).contains(&found) {
        // If it fails, such as on a full disk, the file keeps its free pages until something is erased.
        let _ = vacuum(connection);
    }
    Ok(())
}

/// Writes the whole file anew, without free pages, and so that pages that become free can be cut off.
pub(super) fn vacuum(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")
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
    for made in [LOGS, ENTRIES, TEXTS, WORDS, VOCABULARY, WAITING, LEAVING, UNSEALED] {
        connection.execute_batch(made)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)
}

/// Migrates an older version.
fn migrate(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    if version < 2 {
        // The times of logs are not known.
        connection.execute_batch(
            "ALTER TABLE logs ADD COLUMN created INTEGER;
             ALTER TABLE logs ADD COLUMN used INTEGER;",
        )?;
    }
    if version < 5 {
        connection.execute_batch("CREATE TEMP TABLE earlier AS SELECT * FROM logs; DROP TABLE logs;")?;
        connection.execute_batch(LOGS)?;
        connection.execute_batch(
            "INSERT INTO logs (id, scope, name, length, bytes, created, used)
                 SELECT id, '', name, length, bytes, created, used FROM earlier;
             DROP TABLE earlier;",
        )?;
    }
    if version < 3 {
        connection.execute_batch("DROP TABLE words;")?;
        for made in [TEXTS, WORDS, VOCABULARY] {
            connection.execute_batch(made)?;
        }
    }
    if version < 6 {
        connection.execute_batch(WAITING)?;
        connection.execute_batch(LEAVING)?;
    }
    if version >= 3 {
        connection.execute_batch("ALTER TABLE texts ADD COLUMN seal INTEGER;")?;
    }
    if version >= 5 {
        connection.execute_batch("ALTER TABLE logs ADD COLUMN seal INTEGER;")?;
    }
    if version < 3 {
        build_index(connection)?;
    }
    if version < 4 {
        add_checksums(connection)?;
    }
    seal_all(connection)?;
    connection.execute_batch(UNSEALED)
}

/// Adds the checksums of what is there. If a record was altered before, that is not known.
fn add_checksums(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("ALTER TABLE entries ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;")?;
    let sql = "SELECT entries.id, name, position, body FROM entries JOIN logs ON logs.id = log ORDER BY entries.id";
    let mut entries = connection.prepare(sql)?;
    let mut update = connection.prepare("UPDATE entries SET checksum = ?2 WHERE id = ?1")?;
    let mut rows = entries.query([])?;
    while let Some(row) = rows.next()? {
        let (id, log, position): (i64, _, i64) = (row.get(0)?, LogName::kept(row.get(1)?), row.get(2)?);
        let checksum = checksum(&log, unsigned(position), row.get_ref(3)?.as_str()?).cast_signed();
        update.execute((id, checksum))?;
    }
    Ok(())
}

/// Fills the index, which an older version had in another form.
fn build_index(connection: &Connection) -> rusqlite::Result<()> {
    let mut logs = connection.prepare("SELECT id, name FROM logs")?;
    let mut entries = connection.prepare("SELECT position, body FROM entries WHERE log = ?1 ORDER BY position")?;
    let mut logs = logs.query([])?;
    while let Some(row) = logs.next()? {
        let (id, log): (i64, _) = (row.get(0)?, LogName::kept(row.get(1)?));
        if log.is_derived() {
            continue;
        }
        let mut index = Indexer::new(connection, &Scope::default(), &log, id)?;
        let mut label = Label::default();
        let mut rows = entries.query([id])?;
        while let Some(row) = rows.next()? {
            let (position, body): (i64, String) = (row.get(0)?, row.get(1)?);
            // The texts were not stored, so the records must be parsed here: what was indexed were the texts of
            // messages.
            match serde_json::from_str(&body) {
                Ok(Entry::Message(arrival)) => {
                    index.add(unsigned(position), &said(Record::new(""), &arrival, Some(&label)), None)?;
                }
                Ok(Entry::Label(next)) => label = next,
                Ok(Entry::Checkpoint(checkpoint)) => label = checkpoint.label,
                _ => {}
            }
        }
    }
    Ok(())
}
