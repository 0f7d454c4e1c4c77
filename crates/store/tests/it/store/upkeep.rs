//! Maintaining a store: verifying and copying it.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy},
};
use lookback_facts::{Memory, Statement};
use lookback_session::Session;
use lookback_session::{Fault, verify};
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Record, copy};
use lookback_store::{FileStore, MemoryStore, Store};
use lookback_wire::message::Message;
use rusqlite::Connection;

use super::name;

/// Fills a store with a compacted session, its facts, and two tenants, one within the other.
fn used(store: &Arc<dyn Store>) {
    let policy = Policy { limits: Limits::messages(6), target: Some(Limits::messages(3)), ..Policy::unlimited() };
    let inner = store.scoped(&"acme".parse().unwrap()).unwrap();
    let innermost = inner.scoped(&"eu".parse().unwrap()).unwrap();
    for (store, count) in [(store.clone(), 90), (inner, 3), (innermost, 2)] {
        let settings = Settings::default().policy(policy.clone());
        let mut session = block_on(Session::open(store.clone(), "chat", settings)).unwrap();
        for n in 0..count {
            block_on(session.push(Message::user(format!("apple number {n}")))).unwrap();
            block_on(session.window()).unwrap();
        }
        let memory = block_on(Memory::open(store, "chat")).unwrap();
        block_on(memory.remember(Statement::decision("We use SQLite."))).unwrap();
    }
}

/// The contents of a store: every log's description, bodies, and hits of a search.
fn contents(store: &Arc<dyn Store>) -> Vec<String> {
    let mut found = Vec::new();
    for (tenants, scoped) in block_on(lookback_store::every_namespace(&**store)).unwrap() {
        let store = scoped.as_ref().unwrap_or(store);
        for info in block_on(store.list("")).unwrap() {
            let bodies = block_on(store.read(&info.name, 0..u64::MAX)).unwrap();
            let head = block_on(store.head(&info.name, None)).unwrap();
            found.push(format!("{tenants:?} {info:?} {head:?} {bodies:?}"));
        }
        for query in ["apple", "number 7"] {
            found.push(format!("{:?}", block_on(store.search(None, &Query::new(query), 99)).unwrap()));
        }
    }
    found
}

#[test]
fn a_copy_has_everything_and_can_be_broken_off() {
    let folder = tempfile::tempdir().unwrap();
    let from: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap());
    used(&from);
    let to: Arc<dyn Store> = Arc::new(FileStore::open(folder.path().join("files")).unwrap());
    // A part of the log is already there.
    let log = name("chat");
    let first = block_on(from.read(&log, 0..1)).unwrap().remove(0);
    let created = block_on(from.info(&log)).unwrap().unwrap().created;
    block_on(to.append(&log, Append::new(0, [Record::new(first).text("apple number 0").role("user")]).time(created)))
        .unwrap();
    let mut seen = 0;
    let copied = block_on(copy(&*from, &*to, |records| seen += records)).unwrap();
    assert_eq!((copied.logs, copied.known, copied.records), (6, 1, seen));
    assert_eq!(contents(&to), contents(&from));
    let again = block_on(copy(&*from, &*to, |_| {})).unwrap();
    assert_eq!((again.known, again.records), (copied.records, copied.records));
    let back: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(copy(&*to, &*back, |_| {})).unwrap();
    assert_eq!(contents(&back), contents(&from));
}

#[test]
fn a_copy_while_others_write_has_what_was_there_and_the_next_has_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let from: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    used(&from);
    let to: Arc<dyn Store> = Arc::new(FileStore::open(folder.path().join("files")).unwrap());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| used(&(Arc::new(SqliteStore::open(&path).unwrap()) as Arc<dyn Store>)));
        let mut copies = 0;
        while !writer.is_finished() || copies == 0 {
            block_on(copy(&*from, &*to, |_| {})).unwrap();
            copies += 1;
        }
    });
    block_on(copy(&*from, &*to, |_| {})).unwrap();
    assert_eq!(contents(&to), contents(&from));
}

#[test]
fn a_copy_writes_over_nothing() {
    let (from, to): (Arc<dyn Store>, Arc<dyn Store>) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    used(&from);
    block_on(to.append(&name("chat"), Append::new(0, [Record::new("another")]))).unwrap();
    let refused = block_on(copy(&*from, &*to, |_| {})).unwrap_err().to_string();
    assert!(refused.contains("another log `chat`, which differs from entry 0 on"), "{refused}");
    assert_eq!(block_on(to.read(&name("chat"), 0..9)).unwrap(), ["another"]);
    // It also refuses if the other log is longer.
    let longer: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(copy(&*from, &*longer, |_| {})).unwrap();
    let end = block_on(longer.head(&name("chat"), None)).unwrap().unwrap().end;
    block_on(longer.append(&name("chat"), Append::new(end, [Record::new("more")]))).unwrap();
    let refused = block_on(copy(&*from, &*longer, |_| {})).unwrap_err().to_string();
    assert!(refused.contains("another log `chat`, which differs from "), "{refused}");
}

#[test]
fn what_is_wrong_with_a_store_is_found_in_every_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    used(&store);
    let whole = block_on(verify(&*store, |_| {})).unwrap();
    assert!(whole.faults.is_empty() && whole.logs == 6, "{whole:?}");
    block_on(store.append(&name("gone").summary_of(), Append::new(0, [Record::new("{}")]))).unwrap();
    block_on(store.append(&name("odd"), Append::new(0, [Record::new("{\"unknown\":1}")]))).unwrap();
    let file = Connection::open(&path).unwrap();
    file.execute_batch(
        "PRAGMA foreign_keys = OFF;
         UPDATE entries SET body = replace(body, 'apple', 'peach') WHERE position = 1 AND log =
             (SELECT id FROM logs WHERE name = 'chat' AND length(scope) > 6);
         INSERT INTO entries (log, position, checkpoint, checksum, body) VALUES (999, 0, 0, 0, 'lost');",
    )
    .unwrap();
    let found = block_on(verify(&*store, |_| {})).unwrap().faults;
    let tells = |fault: &Fault| match fault {
        Fault::Log { tenants, log, error } => format!("{} {log} {error}", tenants.len()),
        Fault::NoSession { log, .. } => format!("no session {log}"),
        Fault::Store { error } => error.clone(),
        other => panic!("{other:?}"),
    };
    let found: Vec<String> = found.iter().map(tells).collect();
    for expected in [
        "the records of log 999 belong to no name",
        "0 odd entry 0 of `odd` cannot be read",
        "0 compact:gone:summary entry 0",
        "no session compact:gone:summary",
        "2 chat entry 1 of `chat` cannot be read: it was altered",
    ] {
        assert!(found.iter().any(|fault| fault.starts_with(expected)), "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn a_vacuum_finishes_what_was_broken_off_and_gives_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    let records = (0..2_000).map(|n| Record::new(format!("secret {n}").repeat(50)));
    block_on(store.append(&name("one"), Append::new(0, records))).unwrap();
    let file = Connection::open(&path).unwrap();
    file.execute_batch("INSERT INTO erasing (log, stage) SELECT id, 0 FROM logs; DELETE FROM logs;").unwrap();
    drop(file);
    block_on(store.vacuum()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() < 100_000 && !bytes.windows(6).any(|part| part == b"secret"));
    assert!(block_on(store.check()).unwrap().is_empty());
}

#[test]
fn a_vacuum_of_files_removes_what_dead_processes_have_left_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let odd = name("x.lookback-tmp");
    let tenant = store.scoped(&"acme".parse().unwrap()).unwrap();
    for store in [&store as &dyn Store, &*tenant] {
        block_on(store.append(&odd, Append::new(0, [Record::new("{}")]))).unwrap();
    }
    let of_tenant = std::fs::read_dir(folder.path().join("tenants")).unwrap().next().unwrap().unwrap().path();
    let left: Vec<_> = [folder.path(), &of_tenant]
        .iter()
        .flat_map(|root| [root.join("memory/dead"), root.join("index/dead"), root.join("memory/x.lookback-tmp")])
        .map(|folder| folder.join("turns.lookback-tmp"))
        .collect();
    for file in &left {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "secret").unwrap();
    }
    let foreign = folder.path().join("memory/dead/notes.txt");
    std::fs::write(&foreign, "somebody else's").unwrap();
    block_on(store.vacuum()).unwrap();
    assert!(left.iter().all(|file| !file.exists()));
    assert!(foreign.exists());
    assert_eq!(block_on(store.list("")).unwrap().len(), 1);
    assert_eq!(block_on(tenant.list("")).unwrap().len(), 1);
    // The same holds for an erasure of a log that was never completed.
    std::fs::create_dir_all(left[0].parent().unwrap()).unwrap();
    std::fs::write(&left[0], "secret").unwrap();
    assert_eq!(block_on(store.delete(&[name("dead")])).unwrap(), 0);
    assert!(!left[0].exists());
}
