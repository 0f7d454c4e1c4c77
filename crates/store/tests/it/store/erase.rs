//! Erased data is gone: from lists at once, and then from the file and its index.

use std::path::Path;
use std::slice;

use futures_lite::future::{block_on, poll_once};
use lookback_engine::Settings;
use lookback_facts::{Memory, Statement};
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Record, purge};
use lookback_store::{LogName, Store, StoreError};
use lookback_wire::message::Message;
use rusqlite::Connection;

use super::name;

/// The word that must not be left in any file.
const SECRET: &str = "hunter2isthesecret";

fn said(text: &str, count: usize) -> Vec<Record> {
    (0..count).map(|n| Record::new(format!("{{\"text\":\"{text} {n}\"}}")).text(format!("{text} {n}"))).collect()
}

/// Counts a word in the files of a folder.
fn found(folder: &Path, word: &str) -> usize {
    let mut found = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        found += bytes.windows(word.len()).filter(|window| *window == word.as_bytes()).count();
    }
    found
}

fn pending(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("SELECT count(*) FROM erasing", [], |row| row.get(0)).unwrap()
}

#[test]
fn an_erased_password_is_in_no_file_and_in_no_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    let (one, other) = (name("one"), name("other"));
    for round in 0..60 {
        let at = 20 * round;
        block_on(store.append(&one, Append::new(at, said(&format!("{SECRET} of{round}"), 20)).time(Some(1)))).unwrap();
        block_on(store.append(&other, Append::new(at, said("nothing to hide", 20)).time(Some(1)))).unwrap();
    }
    assert!(found(folder.path(), SECRET) > 1_000);
    assert_eq!(block_on(store.delete(&[one])).unwrap(), 1);
    assert_eq!(found(folder.path(), SECRET), 0);
    assert_eq!(block_on(store.search(None, &Query::new("hide"), 9_999)).unwrap().len(), 1_200);
    assert_eq!(block_on(store.search(None, &Query::new(SECRET), 9_999)).unwrap(), []);
}

#[test]
fn a_session_that_is_purged_leaves_nothing_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut session = block_on(Session::open(SqliteStore::open(&path).unwrap(), "chat", Settings::default())).unwrap();
    for n in 0..40 {
        block_on(session.push(Message::user(format!("{SECRET} {n} {}", "and more ".repeat(400))))).unwrap();
        block_on(session.window()).unwrap();
    }
    let memory = block_on(Memory::open(session.store().clone(), "chat")).unwrap();
    block_on(memory.remember(Statement::decision(format!("The password is {SECRET}.")))).unwrap();
    assert!(found(folder.path(), SECRET) > 40);
    assert!(block_on(purge(&**session.store(), &name("chat"))).unwrap());
    assert_eq!(found(folder.path(), SECRET), 0);
}

#[test]
fn the_file_shrinks_when_much_is_erased() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    block_on(store.append(&name("kept"), Append::new(0, said("kept", 100)))).unwrap();
    block_on(store.append(&name("large"), Append::new(0, said(&"long ".repeat(300), 2_000)))).unwrap();
    block_on(store.delete(&[name("none")])).unwrap();
    drop(store);
    let before = std::fs::metadata(&path).unwrap().len();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(block_on(store.delete(&[name("large")])).unwrap(), 1);
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(after < before / 10, "{after} of {before} bytes");
    assert_eq!(block_on(store.read(&name("kept"), 0..u64::MAX)).unwrap().len(), 100);
}

#[test]
fn an_erasure_that_is_broken_off_is_seen_by_nobody_and_finished_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    let (log, other): (LogName, LogName) = (name("one"), name("other"));
    block_on(store.append(&other, Append::new(0, said("other", 3)))).unwrap();
    block_on(store.append(&log, Append::new(0, said(SECRET, 9_000)))).unwrap();
    // The future is dropped after the erasure began.
    block_on(async {
        let logs = [log.clone()];
        let mut begun = store.delete(&logs);
        while store.info(&log).await.unwrap().is_some() {
            poll_once(&mut begun).await;
        }
    });
    assert_eq!(pending(&path), 1);
    // The log is hidden, and its name can be used again.
    assert_eq!(block_on(store.list("")).unwrap().len(), 1);
    assert_eq!(block_on(store.search(None, &Query::new(SECRET), 9)).unwrap(), []);
    block_on(store.append(&log, Append::new(0, said("new", 2)))).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap().len(), 2);
    assert!(found(folder.path(), SECRET) > 0);
    // Another process erases something else.
    let next = SqliteStore::open(&path).unwrap();
    assert_eq!(block_on(next.delete(&[other])).unwrap(), 1);
    assert_eq!((pending(&path), found(folder.path(), SECRET)), (0, 0));
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap().len(), 2);
    assert_eq!(block_on(store.search(None, &Query::new("new"), 9)).unwrap().len(), 2);
}

#[test]
fn others_write_while_much_is_erased() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    block_on(store.append(&name("large"), Append::new(0, said("a few words that are erased", 20_000)))).unwrap();
    let others = SqliteStore::open(&path).unwrap();
    let mut during = 0;
    std::thread::scope(|scope| {
        let erasing = scope.spawn(|| block_on(store.delete(&[name("large")])).unwrap());
        while block_on(others.info(&name("large"))).unwrap().is_some() {}
        while pending(&path) > 0 {
            block_on(others.append(&name("small"), Append::new(during, said("small", 1)))).unwrap();
            during += 1;
        }
        assert_eq!(erasing.join().unwrap(), 1);
    });
    assert!(during > 3, "{during} appends");
    assert_eq!(block_on(others.read(&name("small"), 0..u64::MAX)).unwrap().len() as u64, during);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_deleted_or_replaced_while_it_is_open_takes_no_more_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    let log = name("one");
    block_on(store.append(&log, Append::new(0, said("a", 1)))).unwrap();
    let refused = |store: &SqliteStore| {
        let refused = [
            block_on(store.append(&log, Append::new(1, said("b", 1)))).unwrap_err(),
            block_on(store.read(&log, 0..9)).unwrap_err(),
            block_on(store.delete(slice::from_ref(&log))).unwrap_err(),
        ];
        refused.iter().all(|error| matches!(error, StoreError::Replaced { .. }))
    };
    std::fs::rename(&path, folder.path().join("moved.db")).unwrap();
    assert!(refused(&store), "it is gone");
    drop(SqliteStore::open(&path).unwrap());
    assert!(refused(&store), "another is there");
}
