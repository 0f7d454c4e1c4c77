//! What every store must do, run against each; and what can go wrong with a file.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback::store::{Head, Record};
use lookback::{LogName, MemoryStore, SqliteStore, Store, StoreError};
use rusqlite::Connection;

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

fn record(text: &str) -> Record {
    Record { body: format!("{{\"said\":\"{text}\"}}"), text: text.to_owned(), checkpoint: false }
}

fn checkpoint() -> Record {
    Record { body: "{}".to_owned(), text: String::new(), checkpoint: true }
}

/// The suite.
async fn conforms(store: &dyn Store) {
    let (one, two) = (name("one"), name("team/two \u{e9}"));
    let bodies = |texts: &[&str]| texts.iter().map(|text| record(text).body).collect::<Vec<_>>();

    // Nothing is there.
    assert_eq!(store.head(&one, None).await.unwrap(), None);
    assert_eq!(store.read(&one, 0..10).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.list().await.unwrap(), Vec::new());
    assert!(!store.delete(&one).await.unwrap());
    assert!(store.search(None, "apple", 9).await.unwrap().is_empty());

    // Appending, and where the log ends.
    store.append(&one, 0, vec![record("apple pie"), record("banana")]).await.unwrap();
    store.append(&one, 2, vec![checkpoint(), record("apple and cherry"), checkpoint()]).await.unwrap();
    store.append(&two, 0, vec![record("cherry")]).await.unwrap();
    assert_eq!(store.head(&one, None).await.unwrap(), Some(Head { end: 5, checkpoint: Some(4) }));
    assert_eq!(store.head(&two, None).await.unwrap(), Some(Head { end: 1, checkpoint: None }));

    // The newest checkpoint before a position.
    for (before, expected) in [(0, None), (2, None), (3, Some(2)), (4, Some(2)), (5, Some(4)), (u64::MAX, Some(4))] {
        let head = store.head(&one, Some(before)).await.unwrap().unwrap();
        assert_eq!(head, Head { end: 5, checkpoint: expected }, "before {before}");
    }

    // A writer who is wrong writes nothing.
    for at in [0, 4, 6, u64::MAX] {
        let refused = store.append(&one, at, vec![record("doubled")]).await;
        assert!(matches!(refused, Err(StoreError::Conflict { at: said, end: 5 }) if said == at), "{refused:?}");
    }
    let refused = store.append(&name("none"), 1, vec![record("doubled")]).await;
    assert!(matches!(refused, Err(StoreError::Conflict { at: 1, end: 0 })), "{refused:?}");
    assert_eq!(store.head(&name("none"), None).await.unwrap(), None);

    // Reading.
    assert_eq!(store.read(&one, 0..2).await.unwrap(), bodies(&["apple pie", "banana"]));
    assert_eq!(store.read(&one, 3..4).await.unwrap(), bodies(&["apple and cherry"]));
    assert_eq!(store.read(&one, 4..u64::MAX).await.unwrap(), ["{}"]);
    assert_eq!(store.read(&one, 3..3).await.unwrap(), Vec::<String>::new());
    #[allow(clippy::reversed_empty_ranges, reason = "a caller may be that wrong")]
    let backwards = store.read(&one, 4..1).await.unwrap();
    assert_eq!(backwards, Vec::<String>::new());

    // Listing, by name.
    let list = store.list().await.unwrap();
    let names: Vec<_> = list.iter().map(|info| (info.name.as_str(), info.records)).collect();
    assert_eq!(names, [("one", 5), ("team/two \u{e9}", 1)]);
    assert_eq!(list[1].bytes, record("cherry").body.len() as u64);

    // Searching: every word, in any order and case; one log or all.
    let found = |log: Option<LogName>, query: &'static str, most: usize| async move {
        let hits = store.search(log.as_ref(), query, most).await.unwrap();
        let mut hits: Vec<_> = hits.into_iter().map(|hit| (hit.log.to_string(), hit.position)).collect();
        hits.sort();
        hits
    };
    let hit = |log: &LogName, position| (log.to_string(), position);
    assert_eq!(found(None, "APPLE", 9).await, [hit(&one, 0), hit(&one, 3)]);
    assert_eq!(found(None, "cherry apple", 9).await, [hit(&one, 3)]);
    assert_eq!(found(Some(two.clone()), "cherry", 9).await, [hit(&two, 0)]);
    assert_eq!(found(None, "cherry", 9).await, [hit(&one, 3), hit(&two, 0)]);
    assert_eq!(found(None, "apple", 1).await.len(), 1);
    // Whole words; nothing in a query is an operator.
    for query in ["", "  ", "\"", "app", "apple NOT", "(", "\0", "said", "said:apple", "apple OR banana"] {
        assert_eq!(found(None, query, 9).await, [], "{query:?}");
    }
    assert_eq!(found(None, "apple AND", 9).await, [hit(&one, 3)]);
    assert_eq!(found(None, "pie*", 9).await, [hit(&one, 0)]);

    // What is erased is gone, and its name can be used again.
    assert!(store.delete(&one).await.unwrap());
    assert!(!store.delete(&one).await.unwrap());
    assert_eq!(store.head(&one, None).await.unwrap(), None);
    assert_eq!(found(None, "apple", 9).await, []);
    assert_eq!(found(None, "cherry", 9).await, [hit(&two, 0)]);
    store.append(&one, 0, vec![record("new apple")]).await.unwrap();
    assert_eq!(found(None, "apple", 9).await, [hit(&one, 0)]);

    // Bodies and texts of any content.
    let odd = Record {
        body: "\"\u{1f600}\\u0000\"".to_owned(),
        text: "nul\0inside \u{1f600} pear_tree".to_owned(),
        checkpoint: false,
    };
    store.append(&one, 1, vec![odd.clone()]).await.unwrap();
    assert_eq!(store.read(&one, 1..2).await.unwrap(), [odd.body]);
    assert_eq!(found(None, "pear_tree", 9).await, [hit(&one, 1)]);
}

/// Of many writers who believe the same, one wins each place.
fn has_one_winner(stores: Vec<Arc<dyn Store>>) {
    let log = name("raced");
    std::thread::scope(|scope| {
        for (thread, store) in stores.iter().enumerate() {
            let log = &log;
            scope.spawn(move || {
                let mut at = 0;
                let mut written = 0;
                while written < 25 {
                    match block_on(store.append(log, at, vec![record(&format!("{thread}-{written}"))])) {
                        Ok(()) => (at, written) = (at + 1, written + 1),
                        Err(StoreError::Conflict { end, .. }) => at = end,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let mut all = block_on(stores[0].read(&log, 0..u64::MAX)).unwrap();
    assert_eq!(all.len(), 25 * stores.len());
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 25 * stores.len());
}

#[test]
fn a_store_in_memory_conforms() {
    block_on(conforms(&MemoryStore::new()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    has_one_winner(vec![store; 4]);
}

#[test]
fn a_store_in_sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    block_on(conforms(&SqliteStore::open(folder.path().join("a.db")).unwrap()));
    let path = folder.path().join("b.db");
    let open = || -> Arc<dyn Store> { Arc::new(SqliteStore::open(&path).unwrap()) };
    has_one_winner((0..4).map(|_| open()).collect());
}

#[test]
fn a_new_store_can_be_opened_by_several_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(format!("{round}.db"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| SqliteStore::open(&path).unwrap());
            }
        });
    }
}

#[test]
fn a_store_that_is_opened_again_has_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let log = name("kept");
    block_on(SqliteStore::open(&path).unwrap().append(&log, 0, vec![record("apple")])).unwrap();
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), [record("apple").body]);
    assert_eq!(block_on(store.search(None, "apple", 9)).unwrap().len(), 1);
}

#[test]
fn what_is_not_a_store_is_said_to_be_none_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(
        &text,
        "milk, bread and a few other things that make this longer than a header of SQLite's is, by far",
    )
    .unwrap();
    let refused = SqliteStore::open(&text).unwrap_err();
    assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused:?}");
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("milk"));
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    let refused = SqliteStore::open(&other).unwrap_err();
    assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused:?}");
    let missing = SqliteStore::open_existing(folder.path().join("none.db")).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing:?}");
    assert!(!folder.path().join("none.db").exists());
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let refused = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { found: 7, known: 1, .. }), "{refused:?}");
    assert!(refused.to_string().contains("version 7") && refused.to_string().contains("update lookback"));
}

#[test]
fn a_store_that_another_holds_is_said_to_be_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap().with_patience(Duration::from_millis(50)).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let log = name("one");
    let refused = block_on(store.append(&log, 0, vec![record("apple")])).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    // Readers go on.
    assert_eq!(block_on(store.head(&log, None)).unwrap(), None);
    other.execute_batch("COMMIT").unwrap();
    block_on(store.append(&log, 0, vec![record("apple")])).unwrap();
}

#[cfg(unix)]
#[test]
fn a_store_that_may_only_be_read_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let log = name("one");
    block_on(SqliteStore::open(&path).unwrap().append(&log, 0, vec![record("apple")])).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        println!("skipped: this user may write what is read-only");
        return;
    }
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap().len(), 1);
    let refused = block_on(store.append(&log, 1, vec![record("banana")])).unwrap_err();
    assert!(matches!(refused, StoreError::Backend { .. }), "{refused:?}");
}

#[test]
fn names_that_leave_their_folder_are_none() {
    for bad in ["", "..", "../a", "a/../b", "a//b", "/a", "a/", "./a", "a\0b", "a\nb", "a\\b", "\u{85}"] {
        assert!(bad.parse::<LogName>().is_err(), "{bad:?}");
    }
    assert!("x".repeat(200).parse::<LogName>().is_ok());
    assert!("x".repeat(201).parse::<LogName>().is_err());
    assert!("team/agent-7/\u{1f600} ..a".parse::<LogName>().is_ok());
}
