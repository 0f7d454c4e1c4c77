//! The layout of the file: its tables, its version, and the migrations between versions.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::fault::explain;
use super::{PATIENCE, signed};
use lookback_store::StoreError;

/// The migrations: the first leads from version 1 to version 2. A new file has the tables of the newest version, so a
/// change of the layout is a change below and one more migration.
const MIGRATIONS: &[&str] = &[];
/// Identifies a file as a store of Lookback: the bytes of "lkbk".
const APPLICATION: i64 = 0x6c6b_626b;

/// The settings of every connection that writes. SQLite overwrites deleted data inside a page. A free page is not
/// overwritten, but an erasure cuts it off the file. Records outlive their log until they are erased, so there are no
/// foreign keys.
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
        seal INTEGER NOT NULL DEFAULT 0,
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
        checksum INTEGER NOT NULL,
        UNIQUE (log, position)
    ) STRICT;
    CREATE INDEX checkpoints ON entries (log, position) WHERE checkpoint = 1;
";
const TEXTS: &str = "
    CREATE TABLE texts (
        id INTEGER PRIMARY KEY,
        position INTEGER NOT NULL,
        time INTEGER,
        seal INTEGER NOT NULL
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
/// Removing a text also removes its waiting terms.
const LEAVING: &str = "CREATE TRIGGER leaving AFTER DELETE ON texts BEGIN DELETE FROM waiting WHERE text = OLD.id; END";

/// The names and definitions of everything other than tables. The results of a search depend on them.
pub(super) const DEFINED: [(&str, &str); 3] = [("words", WORDS), ("vocabulary", VOCABULARY), ("leaving", LEAVING)];

/// Creates the tables of a new file, and migrates those of an older version.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    prepare_by(MIGRATIONS, connection, path)
}

/// Does the same as [`prepare`], with these migrations.
fn prepare_by(steps: &[&str], connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let newest = 1 + steps.len();
    let fault = |error| explain(path, error);
    // In one transaction, so that tables that another process is creating are visible entirely or not at all.
    connection.execute_batch(ALWAYS).map_err(fault)?;
    let snapshot = connection.transaction().map_err(fault)?;
    let found = version(&snapshot, newest, path)?;
    drop(snapshot);
    if found == newest {
        return Ok(());
    }
    if found == 0 {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(fault)?;
        set_journal(connection, path)?;
    } else if connection.is_readonly("main").map_err(fault)? {
        let place = path.display().to_string();
        return Err(StoreError::Older { place, found: signed(found as u64), known: signed(newest as u64) });
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    // Another process may have been faster.
    match version(&transaction, newest, path)?.checked_sub(1) {
        None => create(&transaction),
        Some(done) => steps.iter().skip(done).try_for_each(|step| transaction.execute_batch(step)),
    }
    .map_err(fault)?;
    transaction.pragma_update(None, "user_version", signed(newest as u64)).map_err(fault)?;
    transaction.commit().map_err(fault)
}

/// Rewrites the whole file without free pages.
pub(super) fn vacuum(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("VACUUM;")
}

/// Returns the version of a store's layout, at most the newest; 0 for an empty file.
fn version(connection: &Connection, newest: usize, path: &Path) -> Result<usize, StoreError> {
    let number = |sql| connection.query_row(sql, [], |row| row.get(0)).map_err(|error| explain(path, error));
    let place = || path.display().to_string();
    let application: i64 = number("PRAGMA application_id")?;
    let found: i64 = number("PRAGMA user_version")?;
    let tables: i64 = number("SELECT count(*) FROM sqlite_schema")?;
    match (application, usize::try_from(found), tables) {
        (0, Ok(0), 0) => Ok(0),
        (APPLICATION, Ok(version), _) if (1..=newest).contains(&version) => Ok(version),
        (APPLICATION, Ok(version), _) if version > newest => {
            Err(StoreError::Newer { place: place(), found, known: signed(newest as u64) })
        }
        _ => Err(StoreError::NotAStore { place: place() }),
    }
}

/// Allows reads during a write.
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
    for made in [LOGS, ENTRIES, TEXTS, WORDS, VOCABULARY, WAITING, LEAVING] {
        connection.execute_batch(made)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Barrier;

    use rusqlite::OpenFlags;

    use super::*;
    use crate::SqliteStore;
    use futures_lite::future::block_on;
    use lookback_store::{Append, LogName, Record, Store};

    /// Two migrations of possible later versions. The second fails unless the first came before it.
    const STEPS: &[&str] = &[
        "ALTER TABLE logs ADD COLUMN color TEXT",
        "UPDATE logs SET color = 'blue'; CREATE INDEX colors ON logs (color)",
    ];

    fn open(path: &Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }

    fn found(path: &Path) -> i64 {
        open(path).query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    }

    /// Creates a store of version 1 with a record.
    fn first(folder: &Path) -> (PathBuf, LogName) {
        let (path, log) = (folder.join("s.db"), "one".parse().unwrap());
        let store = SqliteStore::open(&path).unwrap();
        block_on(store.append(&log, Append::new(0, [Record::new("{}")]))).unwrap();
        (path, log)
    }

    #[test]
    fn a_store_goes_through_the_steps_that_it_has_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = first(folder.path());
        assert_eq!(found(&path), 1);
        for (known, steps) in [(2, STEPS.get(..1).unwrap()), (3, STEPS), (3, STEPS)] {
            prepare_by(steps, &mut open(&path), &path).unwrap();
            assert_eq!(found(&path), known);
        }
        let color: String = open(&path).query_row("SELECT color FROM logs", [], |row| row.get(0)).unwrap();
        assert_eq!(color, "blue");
        let refused = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(refused, StoreError::Newer { found: 3, known: 1, .. }), "{refused:?}");
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = first(folder.path());
        let steps = [STEPS, &["UPDATE nothing SET x = 1"]].concat();
        prepare_by(&steps, &mut open(&path), &path).unwrap_err();
        assert_eq!(found(&path), 1);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), ["{}"]);
    }

    #[test]
    fn a_store_that_may_only_be_read_is_brought_up_to_date_by_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = first(folder.path());
        let mut connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let refused = prepare_by(STEPS, &mut connection, &path).unwrap_err();
        assert!(matches!(refused, StoreError::Older { found: 1, known: 3, .. }), "{refused:?}");
        assert_eq!(found(&path), 1);
    }

    #[test]
    fn several_that_open_an_older_store_at_once_bring_it_up_to_date_once() {
        for _ in 0..8 {
            let folder = tempfile::tempdir().unwrap();
            let (path, log) = first(folder.path());
            let store = SqliteStore::open(&path).unwrap();
            let start = Barrier::new(5);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut connection = open(&path);
                        start.wait();
                        prepare_by(STEPS, &mut connection, &path).unwrap();
                    });
                }
                // A process that came before continues to write.
                start.wait();
                for at in 1..20 {
                    block_on(store.append(&log, Append::new(at, [Record::new("{}")]))).unwrap();
                }
            });
            assert_eq!(found(&path), 3);
            assert_eq!(block_on(store.read(&log, 0..99)).unwrap().len(), 20);
        }
    }
}
