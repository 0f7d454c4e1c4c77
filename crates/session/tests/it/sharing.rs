//! One session shared by tasks, threads and processes, which push, make windows and take up summaries concurrently.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy, Stage, Summarize},
    transcript::Entry,
};
use lookback_session::adapter;
use lookback_session::{Error, Session};
use lookback_sqlite::SqliteStore;
use lookback_store::{Durability, FileStore, MemoryStore, Store, StoreError};
use lookback_wire::message::Message;

/// The variables with the store that a process of [`a_process_pushes`] pushes into, and with the writer's name.
const STORE: &str = "LOOKBACK_TEST_SHARED";
const WRITER: &str = "LOOKBACK_TEST_SHARED_BY";

/// Opens the store at a path: SQLite if the path ends in `.db`, and files otherwise.
fn at(path: &Path) -> Arc<dyn Store> {
    if path.extension().is_some_and(|kind| kind == "db") {
        return Arc::new(SqliteStore::open_with(path, Durability::System).unwrap());
    }
    Arc::new(FileStore::open_with(path, Durability::System).unwrap())
}

fn open(store: Arc<dyn Store>) -> Session {
    let stages = vec![Stage::Summarize(Summarize { budget: 200, ..Summarize::default() })];
    let policy =
        Policy { limits: Limits::messages(40), target: Some(Limits::messages(20)), stages, ..Policy::unlimited() };
    block_on(Session::open(store, "shared", Settings::default().policy(policy))).unwrap()
}

/// Pushes messages one by one, and makes a window from time to time.
fn push(session: &mut Session, writer: &str, count: usize) {
    for number in 0..count {
        // With so many writers, one may run out of tries.
        while let Err(error) = block_on(session.push(Message::user(format!("{writer} says {number}.")))) {
            assert!(matches!(error, Error::Store(StoreError::Locked { .. } | StoreError::Overtaken { .. })), "{error}");
        }
        if number % 10 == 9 {
            while let Err(error) = block_on(session.window()) {
                assert!(
                    matches!(error, Error::Store(StoreError::Locked { .. } | StoreError::Overtaken { .. })),
                    "{error}"
                );
            }
        }
    }
}

/// Asserts that every message is there once, in its writer's order, and that summaries continue each other.
fn holds_all(store: Arc<dyn Store>, writers: &[String], count: usize) {
    let mut session = open(store);
    let history = block_on(session.history()).unwrap();
    let texts: Vec<_> = history.iter().map(|entry| entry.arrival.message.text()).collect();
    for writer in writers {
        let own: Vec<_> = texts.iter().filter(|text| text.starts_with(&format!("{writer} "))).cloned().collect();
        let said: Vec<_> = (0..count).map(|number| format!("{writer} says {number}.")).collect();
        assert_eq!(own, said, "{writer}");
    }
    assert_eq!(texts.len(), writers.len() * count);
    let mut last = None;
    for (position, entry) in block_on(adapter::entries(&mut session)).unwrap().iter().enumerate() {
        if let Entry::Compaction(compaction) = entry
            && let Some(summary) = &compaction.summary
        {
            assert_eq!(summary.replaces, last, "a summary goes on from the one before it");
            last = Some(position as u64);
        }
    }
}

fn race(open_store: &dyn Fn() -> Arc<dyn Store>, writers: usize, count: usize) {
    let names: Vec<_> = (0..writers).map(|writer| format!("w{writer}")).collect();
    let stores: Vec<_> = names.iter().map(|_| open_store()).collect();
    std::thread::scope(|scope| {
        for (name, store) in names.iter().zip(stores) {
            scope.spawn(move || push(&mut open(store), name, count));
        }
    });
    holds_all(open_store(), &names, count);
}

#[test]
fn twenty_pushes_at_once_are_all_there() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    race(&|| store.clone(), 20, 1);
}

#[test]
fn eight_threads_with_250_pushes_each_lose_and_double_nothing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    race(&|| store.clone(), 8, 250);
    let folder = tempfile::tempdir().unwrap();
    for kind in ["s.db", "s"] {
        race(&|| at(&folder.path().join(kind)), 8, 250);
    }
}

#[test]
#[ignore = "the next test runs it, in processes of their own"]
fn a_process_pushes() {
    let (Some(path), Ok(writer)) = (std::env::var_os(STORE), std::env::var(WRITER)) else { return };
    push(&mut open(at(Path::new(&path))), &writer, 250);
}

fn process(path: &Path, writer: &str) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "sharing::a_process_pushes", "--ignored"]).env(STORE, path).env(WRITER, writer);
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn two_processes_that_push_into_one_session_lose_and_double_nothing() {
    for kind in ["s.db", "s"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(kind);
        let children = ["one", "two"].map(|writer| process(&path, writer));
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        holds_all(at(&path), &["one".to_owned(), "two".to_owned()], 250);
    }
}
