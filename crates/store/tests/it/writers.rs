//! Writers of one log at once: threads, processes, and one that is killed.
//!
//! A writer that dies, or two that write at once, never damage stored records, unlike in the faults C2, C4, K8 and L5
//! of other systems.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Record};
use lookback_store::{Durability, FileStore, LogName, MemoryStore, Store, StoreError};
use rusqlite::Connection;

/// The environment variable with the path of the store, for a process of [`a_process_writes`].
const STORE: &str = "LOOKBACK_TEST_STORE";
/// The environment variable with the name of the writer and the number of its records.
const WRITER: &str = "LOOKBACK_TEST_WRITER";
/// The number of records in one append.
const BATCH: usize = 3;

/// Opens a store of the kind that the path implies: `.db` means SQLite.
fn open(path: &Path) -> Arc<dyn Store> {
    if path.extension().is_some_and(|kind| kind == "db") {
        return Arc::new(SqliteStore::open_with(path, Durability::System).unwrap());
    }
    Arc::new(FileStore::open_with(path, Durability::System).unwrap())
}

fn log() -> LogName {
    "raced".parse().unwrap()
}

fn record(text: &str) -> Record {
    Record::new(format!("{{\"said\":\"{text}\"}}")).text(text)
}

/// Appends records one by one, each at the end of the log.
fn write(store: &dyn Store, writer: &str, count: usize) {
    let (log, mut at) = (log(), 0);
    for n in 0..count {
        loop {
            match block_on(store.append(&log, Append::new(at, [record(&format!("{writer} {n}"))]).time(Some(1)))) {
                Ok(()) => break at += 1,
                Err(StoreError::Conflict { end, .. }) => at = end,
                // With so many writers, one may wait longer than its patience.
                Err(StoreError::Locked { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Asserts that every record of every writer is there once, in the writer's order.
fn holds_all(store: &dyn Store, writers: &[String], count: usize) {
    let bodies = block_on(store.read(&log(), 0..u64::MAX)).unwrap();
    for writer in writers {
        let own: Vec<_> = bodies.iter().filter(|body| body.contains(&format!("\"{writer} "))).cloned().collect();
        assert_eq!(own, (0..count).map(|n| record(&format!("{writer} {n}")).body).collect::<Vec<_>>(), "{writer}");
        assert_eq!(block_on(store.search(None, &Query::new(writer), usize::MAX)).unwrap().len(), count, "{writer}");
    }
    assert_eq!(bodies.len(), writers.len() * count);
    let info = block_on(store.info(&log())).unwrap().unwrap();
    assert_eq!((info.records, info.created, info.used), (bodies.len() as u64, Some(1), Some(1)));
}

fn race(stores: &[Arc<dyn Store>], count: usize) {
    let writers: Vec<_> = (0..stores.len()).map(|index| format!("w{index}")).collect();
    std::thread::scope(|scope| {
        for (store, writer) in stores.iter().zip(&writers) {
            scope.spawn(move || write(&**store, writer, count));
        }
    });
    holds_all(&*stores[0], &writers, count);
}

/// Runs twenty writers with one append each, and eight with many: through one store, and through one each if `open`
/// opens several.
fn races(open: &dyn Fn(&str) -> Arc<dyn Store>, sharing: bool) {
    for (writers, count) in [(20, 1), (8, 250)] {
        let name = format!("{writers}-{sharing}");
        let first = open(&name);
        let store = |_| if sharing { first.clone() } else { open(&name) };
        race(&(0..writers).map(store).collect::<Vec<_>>(), count);
    }
}

/// Starts this program again, to run [`a_process_writes`] alone.
fn process(path: &Path, writer: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writers::a_process_writes", "--ignored"]).env(STORE, path).env(WRITER, writer);
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
#[ignore = "the other tests run it, in processes of their own"]
fn a_process_writes() {
    let (Some(path), Ok(writer)) = (std::env::var_os(STORE), std::env::var(WRITER)) else { return };
    let store = open(Path::new(&path));
    if let Some((writer, count)) = writer.split_once(' ') {
        return write(&*store, writer, count.parse().unwrap());
    }
    // It runs until it is killed.
    let log = log();
    let mut at = block_on(store.info(&log)).unwrap().map_or(0, |info| info.records);
    loop {
        let batch = (0..BATCH).map(|n| record(&format!("{writer} {} {}", n + 1, "x".repeat(5_000))));
        block_on(store.append(&log, Append::new(at, batch).time(Some(1)))).unwrap();
        at += BATCH as u64;
    }
}

#[test]
fn threads_that_write_to_memory_lose_and_double_nothing() {
    races(&|_| Arc::new(MemoryStore::new()), true);
}

#[test]
fn threads_that_write_to_one_file_lose_and_double_nothing() {
    for kind in [".db", ""] {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| open(&folder.path().join(format!("{name}{kind}")));
        races(&open, true);
        races(&open, false);
    }
}

#[test]
fn processes_that_write_to_one_file_lose_and_double_nothing() {
    for kind in ["s.db", "s"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(kind);
        // The file does not exist yet, so they also create it at once.
        let children = ["one", "two"].map(|writer| process(&path, &format!("{writer} 250")));
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        holds_all(&*open(&path), &["one".to_owned(), "two".to_owned()], 250);
    }
}

/// Kills a process that appends, several times, and calls `sound` each time.
fn survives_kills(path: &Path, sound: &dyn Fn()) {
    let store = open(path);
    let length = || block_on(store.info(&log())).unwrap().map_or(0, |info| info.records);
    let mut before = 0;
    for round in 0..6 {
        let mut child = process(path, "killed");
        // A little later each time, so that the kill hits different places.
        while length() < before + 30 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();

        let opened = open(path);
        let after = block_on(opened.info(&log())).unwrap().unwrap().records;
        assert!(after >= before + 30);
        assert_eq!(after % BATCH as u64, 0);
        let bodies = block_on(opened.read(&log(), 0..u64::MAX)).unwrap();
        assert_eq!(bodies.len() as u64, after);
        for (index, body) in bodies.iter().enumerate() {
            assert!(body.starts_with(&format!("{{\"said\":\"killed {} ", index % BATCH + 1)), "{index}");
        }
        assert_eq!(block_on(opened.search(None, &Query::new("killed"), usize::MAX)).unwrap().len() as u64, after);
        sound();
        before = after;
    }
}

/// (Fault K8 of KB Labs' files.)
#[test]
fn a_writer_that_is_killed_leaves_whole_batches_and_a_store_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    survives_kills(&path, &|| {
        let file = Connection::open(&path).unwrap();
        let sound: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    });
    survives_kills(&folder.path().join("s"), &|| {});
}
