//! Stores that earlier versions wrote: opening them brings them up to date, and nothing in them is lost.

#![cfg(feature = "sqlite")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::search::{Query, Within};
use lookback::store::{LogInfo, Record, checksum};
use lookback::{
    Entry, Limits, LogName, MemoryStore, Message, Policy, Session, Settings, SqliteStore, Store, StoreError,
};
use rusqlite::{Connection, params};

/// The store that a process of [`a_process_opens`] is to open.
const STORE: &str = "LOOKBACK_TEST_STORE";

/// The tables as version 1 made them.
const FIRST: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE logs (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        length INTEGER NOT NULL,
        bytes INTEGER NOT NULL
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
    CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1, tokenize = \"unicode61 tokenchars '_'\");
    PRAGMA application_id = 1819242347;
    PRAGMA user_version = 1;
";

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

fn settings() -> Settings {
    let policy = Policy { limits: Limits::messages(6), target: Some(Limits::messages(3)), ..Policy::unlimited() };
    Settings::default().policy(policy)
}

/// A session with compactions and checkpoints, as records.
fn bodies() -> Vec<String> {
    let store = Arc::new(MemoryStore::new());
    let mut session = block_on(Session::open(store.clone(), "s", settings())).unwrap();
    for text in ["The caf\u{e9} in Z\u{fc}rich", "हिन्दी में पाठ", "snake_case"] {
        block_on(session.push(Message::user(text))).unwrap();
    }
    for n in 0..80 {
        block_on(session.push(Message::user(format!("filler {n}")))).unwrap();
        block_on(session.window()).unwrap();
    }
    block_on(store.read(&name("s"), 0..u64::MAX)).unwrap()
}

/// What version 2 changed.
const SECOND: &str = "
    ALTER TABLE logs ADD COLUMN created INTEGER;
    ALTER TABLE logs ADD COLUMN used INTEGER;
    DROP TABLE words;
    CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '_'\");
    INSERT INTO words (rowid, text) SELECT id, 'as version 2 indexed it' FROM entries;
    UPDATE logs SET created = 7, used = 9;
    PRAGMA user_version = 2;
";

/// What takes a store of version 7 back to version 6.
const SIXTH: &str = "
    DROP TRIGGER unsealed;
    ALTER TABLE logs DROP COLUMN seal;
    ALTER TABLE texts DROP COLUMN seal;
    PRAGMA user_version = 6;
";

/// What takes a store of version 6 back to version 5.
const FIFTH: &str = "
    INSERT INTO words (rowid, terms) SELECT text, terms FROM waiting ORDER BY text;
    DROP TRIGGER leaving;
    DROP TABLE waiting;
    PRAGMA user_version = 5;
";

/// What takes a store of version 5 back to version 4.
const FOURTH: &str = "
    PRAGMA foreign_keys = OFF;
    ALTER TABLE logs RENAME TO later;
    CREATE TABLE logs (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        length INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        created INTEGER,
        used INTEGER
    ) STRICT;
    INSERT INTO logs SELECT id, name, length, bytes, created, used FROM later;
    DROP TABLE later;
    DROP TABLE erasing;
    PRAGMA user_version = 4;
    PRAGMA auto_vacuum = NONE;
    VACUUM;
";

/// A store as version 1 wrote it: the log `s`, and one of records that are no entries.
fn first(folder: &Path) -> (PathBuf, Vec<String>) {
    let path = folder.join("s.db");
    let bodies = bodies();
    let odd = vec!["{\"said\":\"apple\"}".to_owned(), "no JSON".to_owned()];
    let file = Connection::open(&path).unwrap();
    file.execute_batch(FIRST).unwrap();
    file.execute_batch("BEGIN").unwrap();
    for (id, (name, bodies)) in [("s", &bodies), ("odd", &odd)].into_iter().enumerate() {
        let bytes: usize = bodies.iter().map(String::len).sum();
        let log = params![id as i64, name, bodies.len() as i64, bytes as i64];
        file.execute("INSERT INTO logs (id, name, length, bytes) VALUES (?1, ?2, ?3, ?4)", log).unwrap();
        for (position, body) in bodies.iter().enumerate() {
            let entry = serde_json::from_str::<Entry>(body).ok();
            let checkpoint = matches!(entry, Some(Entry::Checkpoint(_)));
            let row = params![id as i64, position as i64, checkpoint, body];
            file.execute("INSERT INTO entries (log, position, checkpoint, body) VALUES (?1, ?2, ?3, ?4)", row).unwrap();
            if let Some(Entry::Message(arrival)) = entry {
                let row = params![file.last_insert_rowid(), arrival.message.text()];
                file.execute("INSERT INTO words (rowid, text) VALUES (?1, ?2)", row).unwrap();
            }
        }
    }
    file.execute_batch("COMMIT").unwrap();
    (path, bodies)
}

fn version(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// The store has what [`first`] wrote.
fn has_all(store: &SqliteStore, bodies: &[String]) {
    assert!(block_on(store.read(&name("s"), 0..bodies.len() as u64)).unwrap() == bodies);
    let found = |query| {
        let hits = block_on(store.search(None, &Query::new(query), 999)).unwrap();
        let mut positions: Vec<_> = hits.iter().map(|hit| hit.position).collect();
        positions.sort_unstable();
        positions
    };
    for (query, expected) in
        [("Z\u{fc}rich", &[0][..]), ("the Zurich", &[0]), ("हिन्दी", &[1]), ("snake_case", &[2]), ("snake", &[2])]
    {
        assert_eq!(found(query), expected, "{query}");
    }
    assert_eq!((found("CAFE")[0], found("filler").len()), (0, 80));
}

#[test]
fn a_store_of_version_1_keeps_everything_and_gains_times() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    assert_eq!(version(&path), 1);
    let store = Arc::new(SqliteStore::open_existing(&path).unwrap());
    assert_eq!(version(&path), 7);
    has_all(&store, &bodies);
    let log = name("s");
    let bytes = bodies.iter().map(|body| body.len() as u64).sum();
    let info = LogInfo::new(log.clone(), bodies.len() as u64, bytes);
    assert_eq!(block_on(store.info(&log)).unwrap(), Some(info));
    assert_eq!(block_on(store.read(&name("odd"), 0..9)).unwrap(), ["{\"said\":\"apple\"}", "no JSON"]);
    let checkpoint = bodies.iter().rposition(|body| body.contains("\"checkpoint\"")).map(|at| at as u64);
    assert!(checkpoint.is_some());
    assert_eq!(block_on(store.head(&log, None)).unwrap().unwrap().checkpoint, checkpoint);

    // The session goes on as the one that it was.
    let memory = MemoryStore::new();
    let record = |body: &String| {
        let checkpoint = matches!(serde_json::from_str(body).unwrap(), Entry::Checkpoint(_));
        Record::new(body.clone()).checkpoint(checkpoint)
    };
    block_on(memory.append(&log, 0, bodies.iter().map(record).collect(), None)).unwrap();
    let mut same = block_on(Session::open(memory, "s", settings())).unwrap();
    let mut session = block_on(Session::open(store.clone(), "s", settings())).unwrap();
    for session in [&mut same, &mut session] {
        block_on(session.push(Message::user("after the caf\u{e9}"))).unwrap();
    }
    let window = |session: &mut Session| block_on(session.window()).unwrap().to_json().unwrap();
    assert_eq!(window(&mut session), window(&mut same));
    assert_eq!(block_on(session.search("cafe", 9)).unwrap().len(), 2);
    let info = block_on(store.info(&log)).unwrap().unwrap();
    assert!(info.created.is_none() && info.used.is_some());

    // Once.
    drop((store, session));
    has_all(&SqliteStore::open(&path).unwrap(), &bodies);
}

#[test]
fn a_store_of_version_2_keeps_everything_and_is_searched_in_the_new_way() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    Connection::open(&path).unwrap().execute_batch(SECOND).unwrap();
    assert_eq!(version(&path), 2);
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(version(&path), 7);
    has_all(&store, &bodies);
    let info = block_on(store.info(&name("s"))).unwrap().unwrap();
    assert_eq!((info.created, info.used), (Some(7), Some(9)));
    let found = |query: Query| block_on(store.search(None, &query, 999)).unwrap().len();
    assert_eq!(found(Query::new("version indexed")), 0, "the old index is gone");
    assert_eq!(found(Query::new("fillers \"filler 7\"")), 1);
    assert_eq!(found(Query::new("filler").within(Within::default().speaker("user".to_owned()))), 80);
    assert_eq!(found(Query::new("filler").within(Within::default().speaker("assistant".to_owned()))), 0);
    // An append goes on behind what was there.
    let end = block_on(store.head(&name("s"), None)).unwrap().unwrap().end;
    block_on(store.append(&name("s"), end, vec![Record::new("{}").text("a zebra")], None)).unwrap();
    let hits = block_on(store.search(Some(&name("s")), &Query::new("zebras"), 9)).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.position).collect::<Vec<_>>(), [end]);
}

#[test]
fn a_store_of_version_3_keeps_everything_and_gains_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    drop(SqliteStore::open(&path).unwrap());
    // Version 3 had all that version 4 has, but the checksums.
    let file = Connection::open(&path).unwrap();
    file.execute_batch(SIXTH).unwrap();
    file.execute_batch(FIFTH).unwrap();
    file.execute_batch(FOURTH).unwrap();
    file.execute_batch("ALTER TABLE entries DROP COLUMN checksum; PRAGMA user_version = 3;").unwrap();
    drop(file);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(version(&path), 7);
    has_all(&store, &bodies);
    let file = Connection::open(&path).unwrap();
    file.execute("UPDATE entries SET body = 'x' || substr(body, 2) WHERE position = 3", []).unwrap();
    let damaged = block_on(store.read(&name("s"), 0..9)).unwrap_err();
    assert!(matches!(damaged, StoreError::Damaged { position: 3, .. }), "{damaged:?}");
}

#[test]
fn a_store_of_version_4_keeps_everything_and_gains_tenants_and_a_file_that_shrinks() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    drop(SqliteStore::open(&path).unwrap());
    let file = Connection::open(&path).unwrap();
    file.execute_batch(SIXTH).unwrap();
    file.execute_batch(FIFTH).unwrap();
    file.execute_batch(FOURTH).unwrap();
    drop(file);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(version(&path), 7);
    has_all(&store, &bodies);
    let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
    assert_eq!(block_on(tenant.list("")).unwrap(), []);
    block_on(tenant.append(&name("s"), 0, vec![Record::new("{}").text("filler")], None)).unwrap();
    has_all(&store, &bodies);
    let before = std::fs::metadata(&path).unwrap().len();
    assert_eq!(block_on(store.clear()).unwrap(), 2);
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(after < before, "{after} of {before} bytes");
    assert_eq!(block_on(tenant.search(None, &Query::new("filler"), 9)).unwrap().len(), 1);
}

#[test]
fn a_store_of_version_5_keeps_everything_and_lets_texts_wait_for_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    drop(SqliteStore::open(&path).unwrap());
    let file = Connection::open(&path).unwrap();
    file.execute_batch(SIXTH).unwrap();
    file.execute_batch(FIFTH).unwrap();
    drop(file);
    assert_eq!(version(&path), 5);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(version(&path), 7);
    has_all(&store, &bodies);
    for text in ["a zebra", "two zebras"] {
        let end = block_on(store.head(&name("s"), None)).unwrap().unwrap().end;
        block_on(store.append(&name("s"), end, vec![Record::new("{}").text(text)], None)).unwrap();
    }
    assert_eq!(block_on(store.search(None, &Query::new("zebra"), 9)).unwrap().len(), 2);
    let waiting = "SELECT count(*) FROM waiting";
    let file = Connection::open(&path).unwrap();
    assert_eq!(file.query_row(waiting, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
}

#[test]
fn a_store_of_version_6_keeps_everything_and_gains_seals() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch(SIXTH).unwrap();
    assert_eq!(version(&path), 6);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(version(&path), 7);
    has_all(&store, &bodies);
    assert_eq!(block_on(store.check()).unwrap(), Vec::<String>::new());
    // A process of version 6 goes on with the file, and knows of no seals.
    let file = Connection::open(&path).unwrap();
    file.execute("UPDATE logs SET used = 7 WHERE name = 's'", []).unwrap();
    assert_eq!(block_on(store.check()).unwrap(), Vec::<String>::new());
    // One of this version seals the row again, and what a disk does to it is found.
    let end = block_on(store.head(&name("s"), None)).unwrap().unwrap().end;
    block_on(store.append(&name("s"), end, vec![Record::new("{}")], Some(9))).unwrap();
    assert_eq!(block_on(store.check()).unwrap(), Vec::<String>::new());
    file.execute_batch("DROP TRIGGER unsealed; UPDATE logs SET used = 8 WHERE name = 's'").unwrap();
    let found = block_on(store.check()).unwrap();
    assert!(found.iter().any(|fault| fault.starts_with("what lists say of `s` was altered")), "{found:?}");
    // Nor does the next append make it whole.
    block_on(store.append(&name("s"), end + 1, vec![Record::new("{}")], Some(10))).unwrap();
    let found = block_on(store.check()).unwrap();
    assert!(found.iter().any(|fault| fault.starts_with("what lists say of `s` was altered")), "{found:?}");
}

/// Appends as version 4 did, and returns the position.
fn append_as_version_4(file: &mut Connection, log: &LogName, text: &str) -> rusqlite::Result<u64> {
    let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let find = "SELECT id, length FROM logs WHERE name = ?1";
    let (id, end): (i64, i64) = transaction.query_row(find, [log.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let checksum = checksum(log, end.cast_unsigned(), text).cast_signed();
    let entry = "INSERT INTO entries (log, position, checkpoint, checksum, body) VALUES (?1, ?2, 0, ?3, ?4)";
    transaction.execute(entry, params![id, end, checksum, text])?;
    let length = "UPDATE logs SET length = length + 1, bytes = bytes + ?2 WHERE id = ?1";
    transaction.execute(length, params![id, text.len() as i64])?;
    transaction.commit()?;
    Ok(end.cast_unsigned())
}

#[test]
fn a_migration_while_a_client_of_the_version_before_writes_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = first(folder.path());
    let log = name("both");
    let store = SqliteStore::open(&path).unwrap();
    block_on(store.append(&log, 0, vec![Record::new("\"begin\"")], None)).unwrap();
    drop(store);
    let file = Connection::open(&path).unwrap();
    file.execute_batch(SIXTH).unwrap();
    file.execute_batch(FIFTH).unwrap();
    file.execute_batch(FOURTH).unwrap();
    drop(file);
    let mut earlier = Connection::open(&path).unwrap();
    // What this test makes of a later file has other references than the file had.
    earlier.pragma_update(None, "foreign_keys", "OFF").unwrap();
    earlier.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    let (begun, begins) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut done = Vec::new();
            for n in 0.. {
                let text = format!("\"earlier {n}\"");
                done.push((append_as_version_4(&mut earlier, &log, &text).unwrap(), text));
                if begun.send(()).is_err() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            done
        });
        begins.iter().take(20).for_each(drop);
        let store = SqliteStore::open(&path).unwrap();
        let (mut done, mut at) = (Vec::new(), 0);
        while done.len() < 200 {
            let text = format!("\"later {}\"", done.len());
            match block_on(store.append(&log, at, vec![Record::new(&text)], None)) {
                Ok(()) => done.push((at, text)),
                Err(StoreError::Conflict { end, .. }) => at = end,
                Err(error) => panic!("{error:?}"),
            }
        }
        drop(begins);
        done.extend(writer.join().unwrap());
        let bodies = block_on(store.read(&log, 0..u64::MAX)).unwrap();
        assert_eq!(bodies.len(), done.len() + 1);
        assert!(done.iter().all(|(at, text)| bodies.get(usize::try_from(*at).unwrap()) == Some(text)));
        assert!(done.windows(2).any(|pair| pair[1].0 > pair[0].0 + 1), "they wrote at the same time");
    });
    assert_eq!(version(&path), 7);
}

#[test]
fn a_store_that_may_only_be_read_is_brought_up_to_date_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    let read_only = format!("file:{}?mode=ro", path.display());
    let refused = SqliteStore::open(&read_only).unwrap_err();
    assert!(matches!(refused, StoreError::Older { found: 1, known: 7, .. }), "{refused:?}");
    assert_eq!(version(&path), 1);
    drop(SqliteStore::open(&path).unwrap());
    has_all(&SqliteStore::open(&read_only).unwrap(), &bodies);
}

#[test]
fn several_that_open_a_store_of_version_1_at_once_bring_it_up_to_date_once() {
    for _ in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let (path, bodies) = first(folder.path());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| has_all(&SqliteStore::open(&path).unwrap(), &bodies));
            }
        });
    }
}

#[test]
fn two_processes_that_open_a_store_of_version_1_at_once_bring_it_up_to_date_once() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bodies) = first(folder.path());
    // Both come to a store that is held, so that they go on together.
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let open = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "migration::a_process_opens", "--ignored"]).env(STORE, &path).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let children = [(), ()].map(open);
    std::thread::sleep(std::time::Duration::from_millis(300));
    holder.execute_batch("COMMIT").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = SqliteStore::open(&path).unwrap();
    has_all(&store, &bodies);
    assert_eq!(block_on(store.info(&name("opened"))).unwrap().unwrap().records, 2);
}

#[test]
#[ignore = "another test runs it, in processes of their own"]
fn a_process_opens() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let store = SqliteStore::open(path).unwrap();
    let record = || vec![Record::new("{}")];
    let mut at = 0;
    while let Err(error) = block_on(store.append(&name("opened"), at, record(), None)) {
        match error {
            StoreError::Conflict { end, .. } => at = end,
            error => panic!("{error}"),
        }
    }
}
