//! Faults of the disk: altered or lost data is detected and reported, and never read as valid.

use std::fs;
use std::path::{Path, PathBuf};

use futures_lite::future::block_on;
use lookback_session::verify;
use lookback_sqlite::SqliteStore;
use lookback_store::{Append, Damage, Record, purge};
use lookback_store::{Durability, FileStore, LogName, Store, StoreError};

use super::name;

/// A pseudo-random sequence, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap() % end
    }
}

fn bodies(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("{{\"message\":{{\"role\":\"user\",\"content\":\"What @ is `{n}` + 8?\"}}}}")).collect()
}

fn records(bodies: &[String]) -> Vec<Record> {
    bodies.iter().map(|body| Record::new(body).text(body)).collect()
}

/// The result of reading a log that had these bodies and was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Whole,
    /// An error reports the damage.
    Found,
    /// The log does not exist.
    Hidden,
    /// The contents differ or are fewer, without an error.
    Altered,
}

fn seen(store: &dyn Store, log: &LogName, bodies: &[String]) -> Seen {
    let end = bodies.len() as u64;
    match (block_on(store.head(log, None)), block_on(store.read(log, 0..u64::MAX))) {
        (Err(_), _) | (_, Err(_)) => Seen::Found,
        (Ok(None), Ok(read)) if read.is_empty() => Seen::Hidden,
        (Ok(Some(head)), Ok(read)) if head.end == end && read == bodies => Seen::Whole,
        _ => Seen::Altered,
    }
}

/// A log in files with an append of one record, one of several, and one of one record again.
fn in_files(root: &Path) -> (PathBuf, LogName, Vec<String>) {
    let store = FileStore::open_with(root, Durability::System).unwrap();
    let (log, bodies) = (name("chat"), bodies(5));
    for span in [0..1, 1..4, 4..5] {
        let at = span.start as u64;
        block_on(store.append(&log, Append::new(at, records(&bodies[span])).time(Some(7)))).unwrap();
    }
    (root.join("memory/chat/turns.jsonl"), log, bodies)
}

/// Restores a log and its index, with a change to the log.
fn put(root: &Path, log: &[u8], index: Option<&[u8]>) -> FileStore {
    fs::write(root.join("memory/chat/turns.jsonl"), log).unwrap();
    let path = root.join("index/chat/turns.jsonl.index");
    match index {
        Some(index) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, index).unwrap();
        }
        None => {
            let _ = fs::remove_file(path);
        }
    }
    FileStore::open_with(root, Durability::System).unwrap()
}

#[test]
fn any_flipped_bit_in_a_log_of_lines_is_found_and_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log, bodies) = in_files(folder.path());
    let whole = fs::read(&path).unwrap();
    let index = fs::read(folder.path().join("index/chat/turns.jsonl.index")).unwrap();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            for index in [Some(index.as_slice()), None] {
                let with = if index.is_some() { "with" } else { "without" };
                let store = put(folder.path(), &flipped, index);
                let found = seen(&store, &log, &bodies);
                // Without an index, a damaged header may belong to another program.
                assert_eq!(found, Seen::Found, "byte {at}, bit {bit}, {with} an index");
                for end in [4, 5] {
                    let _ = block_on(store.append(&log, Append::new(end, records(&bodies[..1]))));
                    assert!(fs::read(&path).unwrap().starts_with(&flipped), "byte {at}, bit {bit}, {with} an index");
                }
            }
        }
    }
}

#[test]
fn a_log_of_lines_that_lost_its_end_is_found_and_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log, bodies) = in_files(folder.path());
    let whole = fs::read(&path).unwrap();
    let index = fs::read(folder.path().join("index/chat/turns.jsonl.index")).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for length in 0..whole.len() {
        let store = put(folder.path(), &whole[..length], Some(&index));
        assert_eq!(seen(&store, &log, &bodies), Seen::Found, "{length}");
        // The first line is the header.
        let left = ends.iter().filter(|end| **end < length).count().saturating_sub(1);
        if left > 0 {
            let read = block_on(store.read(&log, 0..left as u64)).unwrap();
            assert_eq!(read, bodies[..left], "{length}");
        }
        let refused = block_on(store.append(&log, Append::new(5, records(&bodies[..1])))).unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{length}: {refused:?}");
    }
    // The whole file may be lost, too.
    fs::remove_file(&path).unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    assert_eq!(seen(&store, &log, &bodies), Seen::Found);
    let refused = block_on(store.append(&log, Append::new(0, records(&bodies[..1])))).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused:?}");
    // A lost log can be erased and started again.
    assert_eq!(block_on(store.delete(std::slice::from_ref(&log))).unwrap(), 1);
    block_on(store.append(&log, Append::new(0, records(&bodies[..1])))).unwrap();
    assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), bodies[..1]);
}

#[test]
fn a_document_that_is_an_older_one_again_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let (log, bodies) = (name("shared").shared_of(), bodies(3));
    let path = folder.path().join("memory/shared/memory.json");
    block_on(store.append(&log, Append::new(0, records(&bodies[..2])))).unwrap();
    let older = fs::read(&path).unwrap();
    block_on(store.append(&log, Append::new(2, records(&bodies[2..])))).unwrap();
    // The rename of the newer file was lost.
    fs::write(&path, older).unwrap();
    let refused = block_on(store.append(&log, Append::new(2, records(&bodies[2..])))).unwrap_err();
    match refused {
        StoreError::Damaged { position: 2, damage, .. } => assert_eq!(*damage, Damage::Gone),
        other => panic!("{other:?}"),
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(seen(&store, &log, &bodies), Seen::Found);
}

#[test]
fn zeros_in_an_append_that_was_torn_make_nothing_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log, bodies) = in_files(folder.path());
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').map(|at| at + 1).collect();
    // An append of three records, in a state that a loss of power may leave, and the index from before it.
    let index = fs::read(folder.path().join("index/chat/turns.jsonl.index")).unwrap();
    let (start, end) = (ends[1], ends[4]);
    for from in start..end {
        for to in [from + 2, from + 64, end] {
            let mut torn = whole[..end].to_vec();
            torn[from..to.min(end)].fill(0);
            if to.min(end) - from < 2 {
                continue;
            }
            let store = put(folder.path(), &torn, Some(&index[..1024 + 40]));
            assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), bodies[..1], "{from}..{to}");
            block_on(store.append(&log, Append::new(1, records(&bodies[1..])))).unwrap();
            assert_eq!(block_on(store.read(&log, 0..9)).unwrap(), bodies, "{from}..{to}");
        }
    }
}

#[test]
fn a_damaged_header_hides_no_session_and_holds_up_no_erasure() {
    for (with_index, damaged) in [(true, 3), (false, 3), (true, 40), (false, 40)] {
        let folder = tempfile::tempdir().unwrap();
        let (path, log, _) = in_files(folder.path());
        let store = FileStore::open(folder.path()).unwrap();
        block_on(store.append(&name("other"), Append::new(0, records(&bodies(1))))).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[damaged] ^= 1;
        fs::write(&path, &bytes).unwrap();
        if !with_index {
            fs::remove_dir_all(folder.path().join("index/chat")).unwrap();
        }
        let listed: Vec<_> =
            block_on(store.list("")).unwrap().into_iter().map(|info| (info.name, info.records)).collect();
        assert_eq!(listed, [(log.clone(), 0), (name("other"), 1)]);
        let found = block_on(store.search(None, &"What".into(), 9)).unwrap();
        assert_eq!(found.len(), 1);
        let refused = block_on(store.read(&log, 0..9)).unwrap_err();
        assert!(refused.to_string().contains("line 1 of"), "{refused}");
        if damaged == 3 {
            assert!(block_on(purge(&store, &log)).unwrap());
        } else {
            assert_eq!(block_on(store.clear()).unwrap(), 2);
        }
        assert!(!path.exists());
    }
}

/// A damaged file of SQLite. Every read checks the tables; `verify` checks the rest.
#[test]
fn a_flipped_bit_in_sqlite_never_changes_what_is_read_of_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    let (log, bodies) = (name("chat"), bodies(60));
    for (at, body) in (0..).zip(&bodies) {
        block_on(store.append(&log, Append::new(at, records(std::slice::from_ref(body))).time(Some(7)))).unwrap();
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let mut random = Random(7);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..2_000 {
        let (at, bit) = (random.below(whole.len()), random.below(8));
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&path, &flipped).unwrap();
        let found = match SqliteStore::open(&path) {
            Ok(store) => seen(&store, &log, &bodies),
            Err(_) => Seen::Found,
        };
        *counts.entry(format!("{found:?}")).or_insert(0) += 1;
        assert_ne!(found, Seen::Altered, "byte {at}, bit {bit}");
        if found == Seen::Hidden {
            let store = SqliteStore::open(&path).unwrap();
            let is_well = block_on(verify(&store, |_| {})).is_ok_and(|verified| verified.faults.is_empty());
            assert!(!is_well, "byte {at}, bit {bit}");
        }
    }
    println!("{counts:?}");
}

/// An incomplete write of a page: a part of the page is old or empty.
#[test]
fn a_torn_page_of_sqlite_never_changes_what_is_read_of_a_record() {
    const PAGE: usize = 4_096;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (log, bodies) = (name("chat"), bodies(400));
    let append = |span: std::ops::Range<usize>| {
        let store = SqliteStore::open(&path).unwrap();
        for (at, body) in (0..).zip(&bodies).skip(span.start).take(span.len()) {
            block_on(store.append(&log, Append::new(at, records(std::slice::from_ref(body))).time(Some(7)))).unwrap();
        }
        drop(store);
        fs::read(&path).unwrap()
    };
    let before = append(0..200);
    let whole = append(200..400);
    let mut random = Random(7);
    let mut counts = std::collections::BTreeMap::new();
    for page in 0..whole.len() / PAGE {
        for round in 0..6 {
            let (start, mut end) = (page * PAGE, (page + 1) * PAGE);
            // Disks write sectors of 512 bytes.
            let cut = start + 512 * (1 + random.below(7));
            let start = if round % 2 == 0 {
                cut
            } else {
                end = cut;
                start
            };
            let mut torn = whole.clone();
            for (at, byte) in torn.iter_mut().enumerate().take(end).skip(start) {
                *byte = if round < 4 { before.get(at).copied().unwrap_or(0) } else { 0 };
            }
            fs::write(&path, &torn).unwrap();
            let found = match SqliteStore::open(&path) {
                Ok(store) => seen(&store, &log, &bodies),
                Err(_) => Seen::Found,
            };
            *counts.entry(format!("{found:?}")).or_insert(0) += 1;
            assert_ne!(found, Seen::Altered, "page {page}, round {round}");
            if found == Seen::Hidden {
                // The index of names has lost it. Only reading everything reveals that.
                let store = SqliteStore::open(&path).unwrap();
                let is_well = block_on(verify(&store, |_| {})).is_ok_and(|verified| verified.faults.is_empty());
                assert!(!is_well, "page {page}, round {round}");
            }
        }
    }
    println!("{counts:?}");
}
