//! Breaks one log of each kind in every store: the damage is found, or has no visible effect. A copy has all kinds,
//! too.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_facts::{Memory, Statement};
use lookback_session::Session;
use lookback_session::adapter;
use lookback_session::verify;
use lookback_sqlite::SqliteStore;
use lookback_store::search::{Query, Within};
use lookback_store::{Append, Durability, FileStore, LogName, MemoryStore, Store, StoreError};
use lookback_store::{copy, every_namespace};
use rusqlite::Connection;

use super::own::OwnStore;
use super::{name, number_from};
use crate::filled::{fill, finds_a_broken_record_of_each_kind};

/// Everything that is visible of a store.
fn observed(store: &Arc<dyn Store>) -> Result<Vec<String>, StoreError> {
    let mut seen = Vec::new();
    for (tenants, scoped) in block_on(every_namespace(&**store))? {
        let store = scoped.as_ref().unwrap_or(store);
        let infos = block_on(store.list(""))?;
        for info in &infos {
            let bodies = block_on(store.read(&info.name, 0..u64::MAX))?;
            let ends = (0..=info.records).map(|before| block_on(store.head(&info.name, Some(before))));
            let heads = ends.collect::<Result<Vec<_>, _>>()?;
            seen.push(format!("{tenants:?} {info:?} {:?} {heads:?} {bodies:?}", block_on(store.info(&info.name))?));
        }
        let since = infos.iter().filter_map(|info| info.created).min();
        for query in ["apples", "day 7", "pear basket", "\"basket of day 9\"", "@user", "nothing"] {
            for query in [Query::new(query), Query::new(query).within(Within::default().since(since.unwrap_or(0)))] {
                seen.push(format!("{:?}", block_on(store.search(None, &query, 99))?));
                seen.push(format!("{:?}", block_on(store.search(Some(&name("chat")), &query, 9))?));
            }
        }
        let session = Session::open(store.clone(), "chat", Settings::default());
        match block_on(session) {
            Ok(session) => seen.push(adapter::preview(&session).to_json().unwrap()),
            Err(lookback_session::Error::Store(error)) => return Err(error),
            Err(error) => panic!("{error}"),
        }
    }
    Ok(seen)
}

/// Returns whether a check finds a problem in a store, or fails.
fn is_found(store: &Arc<dyn Store>) -> bool {
    block_on(verify(&**store, |_| {})).map_or(true, |verified| !verified.faults.is_empty())
}

/// Asserts that the damage to a store is found, or has no visible effect.
fn found_or_harmless(store: Result<Arc<dyn Store>, StoreError>, whole: &[String], what: &str) -> bool {
    let Ok(store) = store else { return true };
    if is_found(&store) {
        return true;
    }
    match observed(&store) {
        Ok(seen) => {
            let other = whole.iter().zip(&seen).find(|(whole, seen)| whole != seen);
            assert_eq!(other, None, "{what} is not found");
            assert_eq!(whole.len(), seen.len(), "{what} is not found");
        }
        Err(error) => panic!("{what} is not found: {error}"),
    }
    false
}

fn stores(folder: &Path) -> [(&'static str, Arc<dyn Store>); 4] {
    [
        ("memory", Arc::new(MemoryStore::new())),
        ("own", Arc::new(OwnStore::default())),
        ("sqlite", Arc::new(SqliteStore::open(folder.join("s.db")).unwrap())),
        ("files", Arc::new(FileStore::open_with(folder.join("files"), Durability::System).unwrap())),
    ]
}

#[test]
fn a_broken_record_of_each_kind_of_log_is_found_in_every_store_and_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, store) in stores(folder.path()) {
        finds_a_broken_record_of_each_kind(&store, kind);
    }
}

#[test]
fn a_copy_from_each_store_into_each_other_has_all_of_it() {
    let (folder, targets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (from_kind, from) in stores(folder.path()) {
        let logs = fill(&from);
        let whole = observed(&from).unwrap();
        let into = targets.path().join(from_kind);
        fs::create_dir(&into).unwrap();
        for (to_kind, to) in stores(&into) {
            let copied = block_on(copy(&*from, &*to, |_| {})).unwrap();
            assert_eq!(copied.logs, 2 * logs.len() as u64, "{from_kind} to {to_kind}");
            assert_eq!(observed(&to).unwrap(), whole, "{from_kind} to {to_kind}");
            assert!(!is_found(&to), "{from_kind} to {to_kind}");
        }
    }
}

/// Copies a folder.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copied(&path, &target) } else { fs::copy(&path, &target).map(drop).unwrap() }
    }
}

#[test]
fn a_broken_row_of_each_table_of_sqlite_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    fill(&store);
    drop(store);
    let of_chat = "(SELECT id FROM logs WHERE name = 'chat' AND scope = '')";
    for damage in [
        "UPDATE logs SET used = used + 1 WHERE scope = '' AND name = 'chat'",
        "UPDATE logs SET created = created - 1 WHERE scope = '' AND name = 'memory:chat:facts'",
        "UPDATE logs SET scope = 'acmf' || char(31) WHERE scope <> ''",
        "UPDATE logs SET scope = 'acme' WHERE scope <> ''",
        "UPDATE logs SET name = 'chau' WHERE name = 'chat'",
        "UPDATE logs SET bytes = bytes + 1 WHERE name = 'compact:chat:summary'",
        "DELETE FROM logs WHERE name = 'memory:shared:shared'",
        "UPDATE entries SET checkpoint = 1 WHERE position = 3 AND log = {chat}",
        "UPDATE entries SET checkpoint = 0 WHERE checkpoint = 1",
        "UPDATE entries SET position = position + 900 WHERE position = 3 AND log = {chat}",
        "UPDATE texts SET position = position + 1 WHERE id = (SELECT max(id) FROM texts)",
        "UPDATE texts SET time = time + 1 WHERE id = (SELECT min(id) FROM texts)",
        "DELETE FROM texts WHERE id = (SELECT min(id) FROM texts)",
        "INSERT INTO texts (id, position, time, seal) SELECT max(id) + 1, 500, 7, 7 FROM texts",
        "UPDATE waiting SET terms = replace(terms, 'basket', 'casket') WHERE id = (SELECT max(id) FROM waiting)",
        "DELETE FROM waiting WHERE id = (SELECT max(id) FROM waiting)",
        "DELETE FROM words WHERE rowid = (SELECT min(rowid) FROM words)",
        "INSERT INTO words (rowid, terms) VALUES (7, 'apple=3')",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '~=@', '~=') WHERE name = 'words'",
        "DROP TRIGGER leaving",
    ] {
        let broken = tempfile::tempdir().unwrap();
        let path = broken.path().join("s.db");
        copied(folder.path(), broken.path());
        let file = Connection::open(&path).unwrap();
        let damage = damage.replace("{chat}", of_chat);
        let before = file.total_changes();
        file.execute_batch(&damage).unwrap();
        assert!(file.total_changes() > before || damage.starts_with("DROP"), "{damage}: nothing is changed");
        drop(file);
        let store = SqliteStore::open(&path).map(|store| Arc::new(store) as Arc<dyn Store>);
        assert!(store.is_err() || is_found(&store.unwrap()), "{damage}");
    }
}

#[test]
fn a_session_opens_whichever_records_are_said_to_be_checkpoints_and_verify_tells() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    fill(&store);
    let open = || block_on(Session::open(store.clone(), "chat", Settings::default()));
    let shown = adapter::preview(&open().unwrap()).to_json().unwrap();
    let end = block_on(store.head(&name("chat"), None)).unwrap().unwrap().end;
    assert!(block_on(store.head(&name("chat"), None)).unwrap().unwrap().checkpoint.is_some());
    for at in (0..end).map(|at| at.cast_signed()) {
        let flip = |file: &Connection| {
            let sql = "UPDATE entries SET checkpoint = 1 - checkpoint WHERE position = ?1 AND log =
                           (SELECT id FROM logs WHERE name = 'chat' AND scope = '')";
            assert_eq!(file.execute(sql, [at]).unwrap(), 1);
        };
        let file = Connection::open(&path).unwrap();
        flip(&file);
        let session = open().unwrap_or_else(|error| panic!("entry {at}: {error}"));
        assert_eq!(adapter::preview(&session).to_json().unwrap(), shown, "entry {at}");
        assert!(is_found(&store), "entry {at}");
        flip(&file);
    }
    assert!(!is_found(&store));
}

/// A pseudo-random number below `end`, the same in every run.
fn below(random: &mut u64, end: usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    usize::try_from(*random >> 20).unwrap() % end
}

/// How many flips a test makes. `LOOKBACK_FLIPS` overrides it.
fn flips(usual: usize) -> usize {
    number_from("LOOKBACK_FLIPS").unwrap_or(usual)
}

#[test]
fn a_flipped_bit_in_sqlite_is_found_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    fill(&store);
    let seen = observed(&store).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    let (mut random, mut found) = (11, 0);
    for _ in 0..flips(500) {
        let (at, bit) = (below(&mut random, whole.len()), below(&mut random, 8));
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        for beside in ["s.db-wal", "s.db-shm"] {
            let _ = fs::remove_file(folder.path().join(beside));
        }
        fs::write(&path, &flipped).unwrap();
        let store = SqliteStore::open(&path).map(|store| Arc::new(store) as Arc<dyn Store>);
        found += usize::from(found_or_harmless(store, &seen, &format!("byte {at}, bit {bit}")));
    }
    println!("{found} of {} flips were found, and the others were harmless", flips(500));
}

/// Lists every file under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn a_flipped_bit_in_any_plain_file_is_found_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = FileStore::open_with(folder.path(), Durability::System);
        store.map(|store| Arc::new(store) as Arc<dyn Store>)
    };
    fill(&open().unwrap());
    let seen = observed(&open().unwrap()).unwrap();
    let files = files(folder.path());
    let (mut random, mut found) = (13, 0);
    let each = flips(600) / files.len() + 1;
    for file in &files {
        let whole = fs::read(file).unwrap();
        // All bytes of short files, and some of long ones, more of them near the beginning.
        let all: Vec<usize> = if whole.len() <= each {
            (0..whole.len()).collect()
        } else {
            let half = (0..each / 2).map(|_| below(&mut random, whole.len().min(300))).collect::<Vec<_>>();
            half.into_iter().chain((0..each / 2).map(|_| below(&mut random, whole.len()))).collect()
        };
        for at in all {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << below(&mut random, 8);
            fs::write(file, &flipped).unwrap();
            let what = format!("byte {at} of {}", file.display());
            found += usize::from(found_or_harmless(open(), &seen, &what));
        }
        fs::write(file, &whole).unwrap();
    }
    println!("{found} flips were found, and the others were harmless");
}

#[test]
fn every_byte_of_the_header_of_shared_facts_is_checked_with_its_index_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Arc::new(FileStore::open_with(folder.path(), Durability::System).unwrap()) as Arc<dyn Store>;
    let memory = block_on(Memory::open(open(), "chat")).unwrap();
    block_on(memory.remember(Statement::preference("Use pnpm, not npm."))).unwrap();
    let seen = observed(&open()).unwrap();
    let path = folder.path().join("memory/shared/memory.json");
    let whole = fs::read(&path).unwrap();
    let header = whole.windows(9).position(|at| at == b"\"entries\"").unwrap() + 12;
    for with_index in [true, false] {
        if !with_index {
            fs::remove_dir_all(folder.path().join("index")).unwrap();
        }
        for at in 0..header {
            for bit in [0, 3, 5] {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                fs::write(&path, &flipped).unwrap();
                let what = format!("byte {at}, bit {bit}, with index: {with_index}");
                if found_or_harmless(Ok(open()), &seen, &what) {
                    let to = MemoryStore::new();
                    let copied = block_on(copy(&*open(), &to, |_| {}));
                    assert!(copied.is_err(), "{what} is not told by a copy");
                }
            }
        }
        fs::write(&path, &whole).unwrap();
        assert!(!is_found(&open()));
    }
}

#[test]
fn a_log_whose_file_is_lost_or_in_another_place_is_not_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(FileStore::open_with(folder.path(), Durability::System).unwrap());
    let logs = fill(&store);
    let fails = |what: &str| {
        assert!(is_found(&store), "{what}");
        let copied = block_on(copy(&*store, &MemoryStore::new(), |_| {}));
        assert!(copied.is_err(), "{what}");
        copied.unwrap_err().to_string()
    };
    let memory = folder.path().join("memory");
    for file in ["chat/turns.jsonl", "chat/facts.jsonl", "chat/summary.jsonl", "shared/memory.json"] {
        let (path, away) = (memory.join(file), folder.path().join("away"));
        fs::rename(&path, &away).unwrap();
        assert_eq!(block_on(store.list("")).unwrap().len(), logs.len(), "{file} is listed");
        fails(file);
        fs::rename(&away, &path).unwrap();
        assert!(!is_found(&store));
    }
    // Without its index, a moved log looks like a copy, except that the original is missing.
    fs::remove_dir_all(folder.path().join("index")).unwrap();
    fs::rename(memory.join("chat"), memory.join("chau")).unwrap();
    let refused = fails("a folder with another name");
    assert!(refused.contains("belongs to `") && refused.contains("nothing was copied"), "{refused}");
    fs::rename(memory.join("chau"), memory.join("chat")).unwrap();
    // If the name is long and the header is gone, its owner is unknown, too.
    let long = name(&"\u{e9}".repeat(LogName::LONGEST));
    block_on(store.append(&long, Append::new(0, [lookback_store::Record::new("{}")]).time(Some(1)))).unwrap();
    fs::remove_dir_all(folder.path().join("index")).unwrap();
    let path = files(&memory).into_iter().find(|path| path.display().to_string().contains('~')).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replacen("\"log\"", "\"lot\"", 1)).unwrap();
    let refused = fails("a log without a name");
    assert!(refused.contains("is damaged") && refused.contains("nothing was copied"), "{refused}");
}
