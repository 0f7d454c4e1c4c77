//! The layout of the file: its tables, its version, and the migration from an older one.

use std::path::Path;
use std::time::{Duration, Instant};

use lookback_core::Entry;
use rusqlite::{Connection, TransactionBehavior, params};

use super::PATIENCE;
use super::fault::explain;
use super::search::indexed;
use crate::store::{LogName, StoreError};

/// The version of the file's layout. Version 1 had no times, and its index split and folded words by itself.
const VERSION: i64 = 2;
/// Identifies a file as a store of Lookback: the bytes of "look".
const APPLICATION: i64 = 0x6c6f_6f6b;

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

/// Creates the tables of a new file, checks those of an old one, and migrates them.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
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
