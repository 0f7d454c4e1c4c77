//! Pipes, sockets, devices and folders in place of a store's files are refused, and nothing waits for them.

#![cfg(unix)]

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::slice;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Record};
use lookback_store::{FileStore, LogName, Store, StoreError};

/// Returns the result of `work`, and panics if it takes too long.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let _ = send.send(work());
    });
    receive.recv_timeout(Duration::from_secs(30)).expect("nobody waits")
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn socket(path: &Path) {
    // The file remains after the listener is dropped.
    drop(UnixListener::bind(path).unwrap());
}

fn folder(path: &Path) {
    fs::create_dir(path).unwrap();
}

const SPECIAL: [fn(&Path); 3] = [pipe, socket, folder];

fn record(text: &str) -> Record {
    Record::new("{}").text(text)
}

fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, expected: &Path) {
    match answer {
        Err(StoreError::NotAFile { place }) => assert_eq!(Path::new(&place), expected),
        other => panic!("{}: {other:?}", expected.display()),
    }
}

#[test]
fn what_is_no_file_stops_nobody_in_a_store_of_files() {
    let chat: LogName = "chat".parse().unwrap();
    for make in SPECIAL {
        for (log, file) in [
            (chat.clone(), "memory/chat/turns.jsonl"),
            (chat.facts_of(), "memory/chat/facts.jsonl"),
            (chat.summary_of(), "memory/chat/summary.jsonl"),
            (chat.shared_of(), "memory/shared/chat.json"),
        ] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            make(&path);
            let store = FileStore::open(root.path()).unwrap();
            in_time(move || {
                block_on(async {
                    refused(store.append(&log, Append::new(0, [record("milk")])).await, &path);
                    refused(store.read(&log, 0..9).await, &path);
                    refused(store.head(&log, None).await, &path);
                    refused(store.info(&log).await, &path);
                    refused(store.touch(&log, 1).await, &path);
                    refused(store.delete(slice::from_ref(&log)).await, &path);
                    // It is not one of the store's files, and is not touched.
                    assert_eq!(store.list("").await.unwrap(), []);
                    assert_eq!(store.search(None, &Query::new("milk"), 9).await.unwrap(), []);
                    assert_eq!(store.clear().await.unwrap(), 0);
                });
                assert!(!fs::metadata(&path).unwrap().is_file());
            });
        }
    }
}

#[test]
fn what_is_no_file_beside_the_logs_stops_nobody() {
    let log: LogName = "chat".parse().unwrap();
    for make in [pipe, socket] {
        let root = tempfile::tempdir().unwrap();
        let lock = root.path().join("lookback.lock");
        make(&lock);
        let store = FileStore::open(root.path()).unwrap();
        let chat = log.clone();
        let store = in_time(move || {
            refused(block_on(store.append(&chat, Append::new(0, [record("milk")]))), &lock);
            fs::remove_file(lock).unwrap();
            block_on(store.append(&chat, Append::new(0, [record("milk")]).time(Some(5)))).unwrap();
            store
        });
        make(&root.path().join("memory/chat/turns.used"));
        let chat = log.clone();
        in_time(move || {
            let used = || block_on(store.info(&chat)).unwrap().unwrap().used;
            assert_eq!(used(), Some(5));
            assert!(block_on(store.touch(&chat, 99)).unwrap());
            assert_eq!(used(), Some(99));
        });
    }
}

#[test]
fn what_is_no_file_is_no_store_of_sqlite() {
    for make in SPECIAL {
        for ending in ["", "-wal", "-shm", "-journal"] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("memory.db");
            let special = root.path().join(format!("memory.db{ending}"));
            make(&special);
            in_time(move || {
                refused(SqliteStore::open(&path), &special);
                refused(SqliteStore::open_existing(&path), &special);
            });
        }
    }
    for device in ["/dev/null", "/dev/zero"] {
        in_time(move || refused(SqliteStore::open(device), Path::new(device)));
    }
}

#[test]
fn a_link_to_a_file_is_one() {
    let root = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(root.path().join("memory.db")).unwrap());
    std::os::unix::fs::symlink(root.path().join("memory.db"), root.path().join("link.db")).unwrap();
    SqliteStore::open_existing(root.path().join("link.db")).unwrap();
}
