//! The requirements on every store, run against each of them, and faults of a store's file.

#![allow(clippy::print_stdout)]

mod encrypted;
mod erase;
mod faults;
mod kinds;
mod own;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_facts::Memory;
use lookback_session::Session;
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Damage, Derived, Record, conformance};
use lookback_store::{FileStore, LogName, MemoryStore, Store, StoreError};
use lookback_wire::message::Message;
use own::OwnStore;
use rusqlite::Connection;

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

/// Returns the number in an environment variable, if it is set.
fn number_from(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn record(text: &str) -> Record {
    Record::new(format!("{{\"said\":\"{text}\"}}")).text(text)
}

#[test]
fn a_store_in_memory_conforms() {
    block_on(conformance::conforms(MemoryStore::new()));
}

#[test]
fn a_store_of_another_crate_conforms() {
    block_on(conformance::conforms(OwnStore::default()));
}

#[test]
fn a_store_in_sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    block_on(conformance::conforms(SqliteStore::open(folder.path().join("s.db")).unwrap()));
}

#[test]
fn a_store_in_files_conforms() {
    let folder = tempfile::tempdir().unwrap();
    block_on(conformance::conforms(FileStore::open(folder.path().join("s")).unwrap()));
}

#[test]
fn a_shared_store_is_not_wrapped_again() {
    let shared: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let session = block_on(Session::open(shared.clone(), "one", Settings::default())).unwrap();
    let memory = block_on(Memory::open(shared.clone(), "one")).unwrap();
    assert!(Arc::ptr_eq(session.store(), &shared) && Arc::ptr_eq(memory.store(), &shared));
    // An `Arc` of a concrete store is shared, too.
    let known = Arc::new(MemoryStore::new());
    let mut session = block_on(Session::open(known.clone(), "one", Settings::default())).unwrap();
    block_on(session.push(Message::user("Hello"))).unwrap();
    assert_eq!(block_on(known.list("")).unwrap().len(), 1);
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
    block_on(SqliteStore::open(&path).unwrap().append(&log, Append::new(0, [record("apple")]))).unwrap();
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), [record("apple").body]);
    assert_eq!(block_on(store.search(None, &Query::new("apple"), 9)).unwrap().len(), 1);
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
fn a_record_that_is_missing_moved_or_altered_is_named_and_what_is_before_it_is_read() {
    let damages = [
        ("DELETE FROM entries WHERE position = 2", Damage::Gone),
        ("DELETE FROM entries WHERE position >= 2", Damage::Gone),
        ("UPDATE entries SET position = position + 90 WHERE position = 2", Damage::Gone),
        ("UPDATE entries SET body = replace(body, 'c', 'd') WHERE position = 2", Damage::Altered),
        ("UPDATE entries SET checksum = checksum + 1 WHERE position = 2", Damage::Altered),
        ("UPDATE entries SET body = CAST(x'7bff7d' AS TEXT) WHERE position = 2", Damage::Altered),
        (
            "UPDATE entries SET (body, checksum) = (SELECT body, checksum FROM entries WHERE position = 3)
             WHERE position = 2",
            Damage::Altered,
        ),
    ];
    for (damage, expected) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let store = SqliteStore::open(&path).unwrap();
        let log = name("one");
        let bodies = ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}", "{\"d\":4}", "{\"e\":5}"];
        block_on(store.append(&log, Append::new(0, bodies.map(Record::new).to_vec()))).unwrap();
        Connection::open(&path).unwrap().execute(damage, []).unwrap();
        for span in [0..5, 2..3, 0..u64::MAX] {
            match block_on(store.read(&log, span.clone())).unwrap_err() {
                StoreError::Damaged { log, position: 2, damage: found } => {
                    assert_eq!((log.as_str(), *found), ("one", expected.clone()), "{damage}: {span:?}");
                }
                other => panic!("{damage}: {span:?}: {other:?}"),
            }
        }
        let several = block_on(store.read_many(&log, &[0..1, 1..4])).unwrap_err();
        assert!(matches!(several, StoreError::Damaged { position: 2, .. }), "{damage}: {several:?}");
        assert_eq!(block_on(store.read(&log, 0..2)).unwrap(), &bodies[..2], "{damage}");
        assert_eq!(block_on(store.read(&log, 5..9)).unwrap(), [""; 0], "{damage}");
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let refused = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { found: 2, known: 1, .. }), "{refused:?}");
    assert!(refused.to_string().contains("version 2") && refused.to_string().contains("update Lookback"));
}

#[test]
fn a_store_that_another_holds_is_said_to_be_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap().with_patience(Duration::from_millis(50)).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let log = name("one");
    let refused = block_on(store.append(&log, Append::new(0, [record("apple")]))).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    // Readers continue.
    assert_eq!(block_on(store.head(&log, None)).unwrap(), None);
    other.execute_batch("COMMIT").unwrap();
    block_on(store.append(&log, Append::new(0, [record("apple")]))).unwrap();
}

#[cfg(unix)]
#[test]
fn a_store_that_may_only_be_read_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let log = name("one");
    block_on(SqliteStore::open(&path).unwrap().append(&log, Append::new(0, [record("apple")]))).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        crate::common::skipped("this user may write what is read-only");
        return;
    }
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap().len(), 1);
    let refused = block_on(store.append(&log, Append::new(1, [record("banana")]))).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    drop(store);
    // SQLite may not create files next to it either.
    let set = |mode| std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
    for beside in ["s.db-wal", "s.db-shm"] {
        std::fs::remove_file(folder.path().join(beside)).ok();
    }
    set(0o555);
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(block_on(store.list("")).unwrap().len(), 1);
    assert_eq!(block_on(store.search(None, &Query::new("apple"), 9)).unwrap().len(), 1);
    let refused = block_on(store.append(&log, Append::new(1, [record("banana")]))).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    // The file `-wal` next to it would be ignored.
    set(0o755);
    std::fs::write(folder.path().join("s.db-wal"), "more").unwrap();
    set(0o555);
    let refused = SqliteStore::open_existing(&path).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    set(0o755);
}

#[cfg(unix)]
#[test]
fn a_file_is_its_owners_to_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    block_on(store.append(&name("one"), Append::new(0, [record("apple")]))).unwrap();
    for file in ["s.db", "s.db-wal", "s.db-shm"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    // An existing file keeps its permissions.
    std::fs::write(folder.path().join("own.db"), "").unwrap();
    std::fs::set_permissions(folder.path().join("own.db"), PermissionsExt::from_mode(0o640)).unwrap();
    drop(SqliteStore::open(folder.path().join("own.db")).unwrap());
    assert_eq!(mode("own.db"), 0o640);
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

#[test]
fn names_of_derived_logs_are_given_by_nobody() {
    let one = name("one");
    assert_eq!(one.summary_of().as_str(), "compact:one:summary");
    assert_eq!(name("compact:one:messages").summary_of().as_str(), "compact:compact:one:messages:summary");
    assert_eq!(name("compact:messages").summary_of().as_str(), "compact:compact:messages:summary");
    assert_eq!(one.summary_of().summary_of().as_str(), "compact:compact:one:summary:summary");
    for (reserved, before, after) in [
        ("compact:one:summary", "compact:", ":summary"),
        ("compact::summary", "compact:", ":summary"),
        ("compact:a/b:summary", "compact:", ":summary"),
        ("compact:compact:a:summary:summary", "compact:", ":summary"),
        ("memory:one:facts", "memory:", ":facts"),
        ("memory:one:shared", "memory:", ":shared"),
    ] {
        let refused = reserved.parse::<LogName>().unwrap_err().to_string();
        assert!(refused.contains(&format!("may not begin with `{before}` and end with `{after}`")), "{refused}");
    }
    assert_eq!(one.facts_of().derived(), Some((Derived::Facts, "one")));
    assert_eq!(one.shared_of().derived(), Some((Derived::Shared, "one")));
    for free in [
        "compact:summary",
        "compact:one",
        "one:summary",
        "Compact:one:summary",
        "xcompact:one:summary",
        "compact:one:summary2",
    ] {
        assert!(!name(free).is_derived(), "{free}");
    }
    let long = name(&"\u{1f600}".repeat(LogName::LONGEST)).summary_of();
    assert_eq!(long.as_str().chars().count(), LogName::LONGEST + 16);
    assert!(long.is_derived() && !one.is_derived());
}

proptest::proptest! {
    #[test]
    fn no_two_sessions_share_a_log(
        one in "(compact:|memory:|shared|a|/b|:summary|:messages|:facts|:shared|:){1,5}",
        two in "(compact:|memory:|shared|a|/b|:summary|:messages|:facts|:shared|:){1,5}",
    ) {
        let (Ok(one), Ok(two)) = (one.parse::<LogName>(), two.parse::<LogName>()) else { return Ok(()) };
        let logs = |of: &LogName| [of.clone(), of.summary_of(), of.facts_of(), of.shared_of()];
        if one != two {
            for log in logs(&one) {
                proptest::prop_assert!(!logs(&two).contains(&log), "{one} and {two} share {log}");
            }
        }
    }
}

/// Sessions with a million equal words: agents' sessions have as many `the`.
fn many_alike(store: &SqliteStore, messages: u64) {
    let text = "the cat sat on the mat";
    let record = || Record::new("{}").text(text);
    let records = (0..messages).map(|_| record());
    block_on(store.append(&name("alike"), Append::new(0, records))).unwrap();
}

#[test]
fn a_word_that_is_said_a_thousand_times_in_a_query_is_looked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    many_alike(&store, 20_000);
    // A query with a hundred of them took minutes.
    let hits = block_on(store.search(None, &Query::new(&"the ".repeat(1_000)), 5)).unwrap();
    assert_eq!(hits.len(), 5);
}
