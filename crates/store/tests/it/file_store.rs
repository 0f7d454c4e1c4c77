//! The store of plain files: the contents of the files, the remains of a process that died, and files of other
//! programs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::slice;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_session::Session;
use lookback_store::search::Query;
use lookback_store::{Append, Head, LogInfo, Record, purge};
use lookback_store::{Durability, FileStore, LogName, Store, StoreError};
use lookback_wire::message::Message;

/// The environment variables with the path of the store and the name of the writer, for a process of
/// [`a_process_remembers`].
const STORE: &str = "LOOKBACK_TEST_FILES";
const WRITER: &str = "LOOKBACK_TEST_FILES_BY";
/// How many records such a process writes.
const COUNT: usize = 60;

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

fn record(text: &str) -> Record {
    Record::new(format!("{{\"said\":\"{text}\"}}")).text(text)
}

fn open(root: &Path) -> FileStore {
    FileStore::open_with(root, Durability::System).unwrap()
}

fn append(store: &FileStore, log: &LogName, at: u64, texts: &[&str]) -> Result<(), StoreError> {
    block_on(store.append(log, Append::new(at, texts.iter().map(|text| record(text))).time(Some(at as i64))))
}

fn bodies(store: &FileStore, log: &LogName) -> Vec<String> {
    block_on(store.read(log, 0..u64::MAX)).unwrap()
}

fn said(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| record(text).body).collect()
}

/// Every file under a folder except indexes, with its text.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend(Some(path).filter(|path| *path != root.join("index")));
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

/// Returns a text without the values of a member.
fn blanked(text: &str, name: &str) -> String {
    let member = format!("\"{name}\":\"");
    let mut parts = text.split(&member);
    let mut blanked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (value, rest) = part.split_once('"').unwrap();
        assert_eq!(value.len(), 16);
        blanked.push_str(&format!("{member}<{name}>\"{rest}"));
    }
    blanked
}

#[test]
fn the_files_of_a_session_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let log = name("team/chat 1");
    let shared = name("shared").shared_of();
    let checkpoint = Record::new("{\"seen\": 2}").checkpoint(true);
    block_on(async {
        store.append(&log, Append::new(0, [record("Caf\u{e9}?")]).time(Some(1000))).await.unwrap();
        store.append(&log, Append::new(1, [record("No."), checkpoint])).await.unwrap();
        store.append(&log.facts_of(), Append::new(0, [record("a fact")]).time(Some(1001))).await.unwrap();
        store.append(&shared, Append::new(0, [record("for all")]).time(Some(1002))).await.unwrap();
        store.append(&shared, Append::new(1, [record("and this"), record("too")]).time(Some(1003))).await.unwrap();
        store.touch(&log, 2000).await.unwrap();
    });
    let expected = [
        ("lookback.lock", ""),
        (
            "memory/shared/memory.json",
            r#"{
  "lookback": {"version":1,"log":"memory:shared:shared","created":1002,"id":"<id>","sum":"<sum>"},
  "entries": [
    {"at":0,"time":1002,"entry":{"said":"for all"},"sum":"<sum>"},
    {"at":1,"time":1003,"entry":{"said":"and this"},"sum":"<sum>"},
    {"at":2,"time":1003,"entry":{"said":"too"},"sum":"<sum>"}
  ]
}
"#,
        ),
        (
            "memory/team%2Fchat%201/facts.jsonl",
            r#"{"lookback":{"version":1,"log":"memory:team/chat 1:facts","created":1001,"id":"<id>"},"sum":"<sum>"}
{"at":0,"time":1001,"entry":{"said":"a fact"},"sum":"<sum>"}
"#,
        ),
        (
            "memory/team%2Fchat%201/turns.jsonl",
            r#"{"lookback":{"version":1,"log":"team/chat 1","created":1000,"id":"<id>"},"sum":"<sum>"}
{"at":0,"time":1000,"text":"Café?","entry":{"said":"Café?"},"sum":"<sum>"}
{"at":1,"part":[1,2],"text":"No.","entry":{"said":"No."},"sum":"<sum>"}
{"at":2,"checkpoint":true,"part":[2,2],"entry":{"seen": 2},"sum":"<sum>"}
"#,
        ),
        ("memory/team%2Fchat%201/turns.used", "{\"used\":2000,\"sum\":\"<sum>\"}\n"),
    ];
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(path, text)| (PathBuf::from(path), text.to_owned())).collect();
    // These members differ from run to run.
    let steady = |text: String| ["id", "sum"].iter().fold(text, |text, name| blanked(&text, name));
    let found: BTreeMap<_, _> = tree(folder.path()).into_iter().map(|(path, text)| (path, steady(text))).collect();
    assert_eq!(found, expected);

    assert!(block_on(purge(&store, &log)).unwrap());
    assert!(!folder.path().join("memory/team%2Fchat%201").exists());
    assert_eq!(block_on(store.clear()).unwrap(), 1);
    assert_eq!(fs::read_dir(folder.path().join("memory")).unwrap().count(), 0);
}

#[test]
fn bodies_keep_their_bytes_whatever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let odd = [
        "{\n  \"pretty\" : 1.50\r\n}",
        " {} ",
        "null",
        "no JSON",
        "",
        "\"\\ud800\"",
        "{\"a\":1,\"a\":1e999}",
        "\u{2028}",
        "\"\u{2028}\"",
        "\0",
    ];
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    let odd: Vec<_> = odd.into_iter().map(str::to_owned).chain([deep]).collect();
    for log in [name("odd"), name("odd").shared_of()] {
        let records = odd.iter().map(|body| Record::new(body.clone()).text(body.clone()));
        block_on(open(folder.path()).append(&log, Append::new(0, records))).unwrap();
        let store = open(folder.path());
        assert_eq!(bodies(&store, &log), odd);
        let info = block_on(store.info(&log)).unwrap().unwrap();
        assert_eq!(info.bytes, odd.iter().map(|body| body.len() as u64).sum::<u64>());
    }
}

/// A document behaves like any other log. The suite of all stores does not use documents.
#[test]
fn a_document_is_a_log_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for log in [name("shared").shared_of(), name("team/two").shared_of()] {
        assert_eq!(block_on(store.head(&log, None)).unwrap(), None);
        assert!(!block_on(store.touch(&log, 1)).unwrap());
        assert_eq!(block_on(store.delete(slice::from_ref(&log))).unwrap(), 0);
        append(&store, &log, 0, &[]).unwrap();
        assert_eq!(block_on(store.info(&log)).unwrap(), None);
        append(&store, &log, 0, &["a", "b"]).unwrap();
        let checkpoint = record("c").checkpoint(true);
        block_on(store.append(&log, Append::new(2, [checkpoint, record("d")]).time(Some(9)))).unwrap();
        for (before, checkpoint) in [(None, Some(2)), (Some(2), None), (Some(3), Some(2))] {
            assert_eq!(block_on(store.head(&log, before)).unwrap(), Some(Head::new(4, checkpoint)));
        }
        assert_eq!(block_on(store.read(&log, 1..3)).unwrap(), said(&["b", "c"]));
        let refused = append(&store, &log, 3, &["e"]).unwrap_err();
        assert!(matches!(refused, StoreError::Conflict { at: 3, end: 4 }), "{refused:?}");
        assert!(block_on(store.touch(&log, 50)).unwrap());
        let bytes = said(&["a", "b", "c", "d"]).concat().len() as u64;
        let info = LogInfo::new(log.clone(), 4, bytes).created(Some(0)).used(Some(50));
        assert_eq!(block_on(store.info(&log)).unwrap(), Some(info.clone()));
        assert_eq!(block_on(store.list("memory:")).unwrap(), [info]);
        assert!(block_on(store.search(Some(&log), &Query::new("a"), 9)).unwrap().is_empty());
        assert_eq!(block_on(store.delete(slice::from_ref(&log))).unwrap(), 1);
        assert_eq!(block_on(store.list("")).unwrap(), []);
    }
}

#[test]
fn a_crash_at_any_byte_of_an_append_loses_nothing_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let log = name("torn");
    let path = folder.path().join("memory/torn/turns.jsonl");
    append(&open(folder.path()), &log, 0, &["one"]).unwrap();
    let first = fs::read(&path).unwrap();
    append(&open(folder.path()), &log, 1, &["two", "thr\u{e9}e", "four"]).unwrap();
    let whole = fs::read(&path).unwrap();
    let header = first.iter().position(|&byte| byte == b'\n').unwrap() + 1;

    for length in 0..=whole.len() {
        // A loss of power may leave zeros in place of unwritten bytes.
        for zeros in [0, 40] {
            let torn = [&whole[..length], &vec![0; zeros]].concat();
            // The writer opens the store afterwards, or has known the file before.
            for knows in [false, true] {
                // The index may be lost, too.
                let _ = fs::remove_dir_all(folder.path().join("index"));
                fs::write(&path, &whole[..length.min(first.len())]).unwrap();
                let mut store = open(folder.path());
                if knows {
                    let _ = block_on(store.head(&log, None));
                }
                fs::write(&path, &torn).unwrap();
                if !knows {
                    store = open(folder.path());
                }
                if length < header && !torn.is_empty() {
                    // No append leaves this: the first is written together with its header, by a rename.
                    let refused = append(&store, &log, 0, &["next"]).unwrap_err();
                    assert!(matches!(refused, StoreError::NotAStore { .. }), "{length}: {refused:?}");
                    assert_eq!(fs::read(&path).unwrap(), torn);
                    continue;
                }
                let there = ["one", "two", "thr\u{e9}e", "four"];
                let there = match length {
                    length if length < first.len() => &there[..0],
                    length if length < whole.len() => &there[..1],
                    _ => &there[..],
                };
                assert_eq!(bodies(&store, &log), said(there), "{length}");
                append(&store, &log, there.len() as u64, &["next"]).unwrap();
                let expected = said(&[there, &["next"]].concat());
                assert_eq!(bodies(&store, &log), expected, "{length}");
                assert_eq!(bodies(&open(folder.path()), &log), expected, "{length}");
                assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), expected.len() + 1, "{length}");
                assert_eq!(
                    block_on(store.search(None, &Query::new("two"), 9)).unwrap().len(),
                    usize::from(there.len() > 1)
                );
            }
        }
    }
}

#[test]
fn a_crash_before_a_file_is_put_in_place_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (shared, log) = (name("shared").shared_of(), name("one"));
    for (log, path) in [(&shared, "memory/shared/memory"), (&log, "memory/one/turns")] {
        let temporary = folder.path().join(path).with_extension("lookback-tmp");
        fs::create_dir_all(temporary.parent().unwrap()).unwrap();
        // Before the file exists at all, and before a later one.
        for at in 0..2 {
            fs::write(&temporary, "{\"lookback\":{\"version\":1,").unwrap();
            assert_eq!(bodies(&store, log).len() as u64, at);
            append(&store, log, at, &["next"]).unwrap();
            assert_eq!(bodies(&open(folder.path()), log).len() as u64, at + 1);
        }
        assert_eq!(block_on(store.delete(slice::from_ref(log))).unwrap(), 1);
        assert!(!temporary.exists());
    }
    assert_eq!(tree(folder.path()).len(), 1, "the lock");
}

/// Appends to the shared document and to a session's facts, each at its end.
fn remember(store: &FileStore, writer: &str, count: usize) {
    for number in 0..count {
        for log in [name("shared").shared_of(), name("one").facts_of()] {
            loop {
                let end = block_on(store.head(&log, None)).unwrap().map_or(0, |head| head.end);
                match append(store, &log, end, &[&format!("{writer} {number}"), "and more"]) {
                    Ok(()) => break,
                    Err(StoreError::Conflict { .. } | StoreError::Locked { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[test]
#[ignore = "the next tests run it, in processes of their own"]
fn a_process_remembers() {
    let (Some(root), Ok(writer)) = (std::env::var_os(STORE), std::env::var(WRITER)) else { return };
    remember(&open(Path::new(&root)), &writer, if writer == "killed" { usize::MAX } else { COUNT });
}

fn process(root: &Path, writer: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "file_store::a_process_remembers", "--ignored"]).env(STORE, root).env(WRITER, writer);
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn processes_that_write_to_one_document_lose_and_double_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for mut child in ["a", "b"].map(|writer| process(folder.path(), writer)) {
        assert!(child.wait().unwrap().success());
    }
    let store = open(folder.path());
    for log in [name("shared").shared_of(), name("one").facts_of()] {
        let bodies = bodies(&store, &log);
        assert_eq!(bodies.len(), 4 * COUNT);
        for writer in ["a", "b"] {
            let own = bodies.iter().filter(|body| body.contains(&format!("\"{writer} "))).cloned();
            let expected = (0..COUNT).map(|number| record(&format!("{writer} {number}")).body);
            assert!(own.eq(expected), "{writer}");
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_a_document_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let shared = name("shared").shared_of();
    let length = || block_on(store.head(&shared, None)).unwrap().map_or(0, |head| head.end);
    for round in 0..5 {
        let before = length();
        let mut child = process(folder.path(), "killed");
        while length() < before + 20 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(300 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let after = length();
        assert!(after >= before + 20 && after.is_multiple_of(2));
        append(&store, &shared, after, &["next", "next"]).unwrap();
        assert_eq!(bodies(&open(folder.path()), &shared).len() as u64, after + 2);
    }
}

/// How many sessions a process purges before it is killed.
const PURGED: usize = 300;

#[test]
#[ignore = "the next test runs it, in a process of its own"]
fn a_process_purges() {
    let Some(root) = std::env::var_os(STORE) else { return };
    let store = FileStore::open(root).unwrap();
    for number in 0..PURGED {
        assert!(block_on(purge(&store, &name(&format!("chat-{number}")))).unwrap());
    }
}

#[test]
fn a_session_is_purged_whole_or_not_at_all_when_the_process_is_killed() {
    let logs = |number: usize| {
        let session = name(&format!("chat-{number}"));
        [session.facts_of(), session.summary_of(), session]
    };
    for round in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        for log in (0..PURGED).flat_map(logs) {
            append(&store, &log, 0, &["apple"]).unwrap();
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "file_store::a_process_purges", "--ignored"]).env(STORE, folder.path());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        while block_on(store.head(&logs(round)[2], None)).unwrap().is_some() {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let store = open(folder.path());
        let there = |log: &LogName| block_on(store.head(log, None)).unwrap().is_some();
        let mut left = 0;
        for number in 0..PURGED {
            let seen: Vec<bool> = logs(number).iter().map(there).collect();
            assert!(seen.iter().all(|one| *one == seen[0]), "{number}: {seen:?}");
            left += usize::from(seen[0]);
        }
        assert!(left < PURGED);
        assert_eq!(block_on(store.list("")).unwrap().len(), 3 * left);
        // The next writer finishes the erasure, and nothing of the logs remains on the disk.
        block_on(store.vacuum()).unwrap();
        let files = tree(folder.path()).into_keys().filter(|path| path.starts_with("memory")).count();
        assert_eq!(files, 3 * left);
    }
}

#[test]
fn readers_see_whole_appends_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let logs = [name("one"), name("shared").shared_of()];
    let turns = folder.path().join("memory/one/turns.jsonl");
    std::thread::scope(|scope| {
        for log in logs.iter().rev() {
            let writer = scope.spawn(|| {
                let (store, long) = (open(folder.path()), "x".repeat(3_000));
                for at in 0..60 {
                    // A torn end of another process that died while writing.
                    let torn = format!("{{\"at\":{},\"text\":\"torn {long}", at * 3);
                    if let Ok(mut file) = fs::OpenOptions::new().append(true).open(&turns) {
                        file.write_all(torn.as_bytes()).unwrap();
                    }
                    append(&store, log, at * 3, &["begin", &long, "end"]).unwrap();
                }
            });
            let reader = open(folder.path());
            while !writer.is_finished() {
                let bodies = bodies(&reader, log);
                assert!(bodies.len().is_multiple_of(3), "{}", bodies.len());
                assert!(bodies.last().is_none_or(|body| *body == record("end").body));
            }
            assert_eq!(bodies(&reader, log).len(), 180);
        }
    });
}

#[test]
fn a_log_that_another_began_anew_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (open(folder.path()), open(folder.path()));
    let log = name("one");
    append(&one, &log, 0, &["a", "b"]).unwrap();
    assert_eq!(bodies(&other, &log).len(), 2);
    assert_eq!(block_on(one.delete(slice::from_ref(&log))).unwrap(), 1);
    assert_eq!(block_on(other.head(&log, None)).unwrap(), None);
    for texts in [&["c", "d", "e"][..], &["f"], &["longer than it was before", "x"]] {
        append(&one, &log, 0, texts).unwrap();
        assert_eq!(bodies(&other, &log), said(texts));
        assert_eq!(block_on(one.delete(slice::from_ref(&log))).unwrap(), 1);
    }
}

/// A folder as KB Labs writes it, with a document of the newer form or of the older.
fn foreign(root: &Path, document: &str) -> BTreeMap<PathBuf, String> {
    let finding = r#"{"id":"mem-1-abcde","content":"The port is 5050","category":"learning","timestamp":"2026-01-01T00:00:00.000Z","type":"finding","metadata":{"importance":0.9,"confidence":0.9,"source":"agent","scope":"session"}}"#;
    let sheet = r#"{"facts":[["fact_1",{"id":"fact_1","category":"decision","fact":"We use SQLite","confidence":0.9}]],"nextId":2}"#;
    for (path, text) in [
        ("memory/shared/memory.json", document),
        ("memory/shared/notes.json", "[1]"),
        ("memory/sessions/session-1/fact-sheet.json", sheet),
        ("memory/session-1/fact-sheet.json", sheet),
        ("memory/session-1/mem-1763719200000-abcde.json", finding),
        ("memory/session-1/turns.json", "[]"),
        ("memory/session-1/turns.jsonl", "{\"role\":\"user\"}\n"),
        ("memory/session-2/summary.jsonl", "no line end"),
        ("memory/plan.md", "# Plan\n"),
        ("memory/shared/memory.tmp", "{"),
        ("memory/session-4/turns.jsonl/inner", "{}"),
        ("lookback.json", "{}"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    tree(root)
}

const NEWER: &str = r#"{
  "preferences": [
    { "id": "p1",  "content": "tabs \u00e9", "n": 1.0e2 }
  ],
  "constraints": [],
  "sessions": [],
  "projectContext": {
    "name": "x", "technologies": []
  }
}
"#;
const OLDER: &str = "{\"facts\":[{\"content\":\"a\"}, {\"content\":\"a\"}],\r\n\"\":null}";

#[test]
fn the_files_of_another_program_survive() {
    for (document, values) in [
        (
            NEWER,
            &["\"preferences\": [\n    { \"id\": \"p1\",  \"content\": \"tabs \\u00e9\", \"n\": 1.0e2 }\n  ],"][..],
        ),
        (OLDER, &["\"facts\": [{\"content\":\"a\"}, {\"content\":\"a\"}],", "\"\": null"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join(".kb");
        let before = foreign(&root, document);
        let shared = PathBuf::from("memory/shared/memory.json");
        let store = FileStore::open(&root).unwrap();
        assert_eq!(block_on(store.list("")).unwrap(), []);
        assert_eq!(tree(&root), before, "looking changes nothing");

        // Sessions next to it, and one with the same name whose file is taken.
        let mut session =
            block_on(Session::open(FileStore::open(&root).unwrap(), "session-3", Default::default())).unwrap();
        block_on(session.push(Message::user("Hello"))).unwrap();
        append(&store, &name("sessions"), 0, &["a"]).unwrap();
        append(&store, &name("shared"), 0, &["a"]).unwrap();
        append(&store, &name("session-1").facts_of(), 0, &["a"]).unwrap();
        append(&store, &name("memory").shared_of(), 0, &["other"]).unwrap();
        for taken in [name("session-1"), name("session-2").summary_of(), name("notes").shared_of()] {
            for refused in
                [append(&store, &taken, 0, &["a"]), block_on(store.delete(slice::from_ref(&taken))).map(|_| ())]
            {
                assert!(matches!(refused, Err(StoreError::NotAStore { .. })), "{taken}: {refused:?}");
            }
        }
        // Shared facts go into the document, after the existing members.
        append(&store, &name("shared").shared_of(), 0, &["a", "b"]).unwrap();
        append(&store, &name("shared").shared_of(), 2, &["c"]).unwrap();
        let text = fs::read_to_string(root.join(&shared)).unwrap();
        assert!(values.iter().all(|value| text.contains(value)), "{text}");
        let [old, new]: [serde_json::Value; 2] = [document, &text].map(|text| serde_json::from_str(text).unwrap());
        for (key, value) in old.as_object().unwrap() {
            assert_eq!(new[key], *value);
        }
        assert_eq!(new["entries"].as_array().unwrap().len(), 3);
        assert_eq!(block_on(store.list("")).unwrap().len(), 6);

        let mut after = tree(&root);
        after.retain(|path, _| before.contains_key(path));
        after.insert(shared.clone(), document.to_owned());
        assert_eq!(after, before);

        assert_eq!(block_on(store.clear()).unwrap(), 6);
        let mut after = tree(&root);
        assert_eq!(after.remove(Path::new("lookback.lock")).as_deref(), Some(""));
        let rest: serde_json::Value = serde_json::from_str(&after[&shared]).unwrap();
        assert_eq!(rest, old);
        if document == NEWER {
            assert_eq!(after[&shared], NEWER);
        }
        after.insert(shared, document.to_owned());
        assert_eq!(after, before);
    }
}

#[test]
fn a_document_that_cannot_be_read_is_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory/shared/memory.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (shared, ours) = (name("shared").shared_of(), r#""lookback":{"version":1,"log":"memory:shared:shared"}"#);
    let store = open(folder.path());
    for text in [
        "{\n\"preferences\": [".to_owned(),
        "\n".to_owned(),
        "[]".to_owned(),
        "{\"entries\":[]}".to_owned(),
        "{\"lookback\":true,\"entries\":[]}".to_owned(),
        format!("{{{ours}}}"),
        format!("{{{ours},\"entries\":[],\"entries\":[]}}"),
        format!("{{{ours},\"entries\":{{}}}}"),
    ] {
        fs::write(&path, &text).unwrap();
        for refused in [
            append(&store, &shared, 0, &["a"]),
            block_on(store.head(&shared, None)).map(|_| ()),
            block_on(store.delete(slice::from_ref(&shared))).map(|_| ()),
        ] {
            let is_told = match refused {
                Err(StoreError::NoJson { line, .. }) => line == 1 + text.matches('\n').count(),
                Err(StoreError::NotAStore { .. }) => text.ends_with(['}', ']']),
                _ => false,
            };
            assert!(is_told, "{text}: {refused:?}");
        }
        // If it has content that only Lookback writes, it is listed, and `clear` reports it.
        let is_ours = text.contains("\"version\"");
        let listed = block_on(store.list("")).unwrap();
        let listed: Vec<_> = listed.into_iter().map(|info| (info.name, info.records)).collect();
        assert_eq!(listed, if is_ours { vec![(shared.clone(), 0)] } else { Vec::new() }, "{text}");
        assert_eq!(block_on(store.clear()).is_err(), is_ours, "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    // One entry that is not a record.
    let text = format!("{{{ours},\"entries\":[{{\"at\":0,\"entry\":1,\"sum\":\"\"}},{{\"at\":7,\"entry\":1}}]}}");
    fs::write(&path, &text).unwrap();
    let refused = append(&store, &shared, 2, &["a"]).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { position: 1, .. }), "{refused:?}");
    assert!(refused.to_string().ends_with("it has `at` 7 instead of 1"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn every_name_has_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let long = |last: &str| "\u{1f600}".repeat(LogName::LONGEST - 1) + last;
    let names = [
        "a",
        "A",
        "a.",
        ".a",
        "..a",
        "...",
        "a b",
        "a/b",
        "a%2Fb",
        "a%2fb",
        "%",
        "%%",
        "~",
        "a~",
        "shared",
        "Shared",
        "%73hared",
        "sessions",
        "memory",
        "turns.jsonl",
        "con",
        "e\u{301}",
        "\u{e9}",
        "compact:a",
        "compact:messages",
        "compact::messages",
        "compact:a:messages",
        "memory:a",
        "memory:a:fact",
        "'; DROP TABLE logs; --",
        "$HOME",
        "-rf",
    ];
    let names = names.into_iter().map(str::to_owned).chain([long("a"), long("b"), "x".repeat(200), "x".repeat(199)]);
    let mut logs = Vec::new();
    for name in names.map(|text| name(&text)) {
        let summary = name.summary_of();
        logs.extend([summary.summary_of(), summary.facts_of(), summary.shared_of(), summary]);
        logs.extend([name.facts_of(), name.shared_of(), name]);
    }
    for (index, log) in logs.iter().enumerate() {
        append(&store, log, 0, &[&format!("log {index}")]).unwrap_or_else(|error| panic!("{log}: {error}"));
    }
    let store = open(folder.path());
    for (index, log) in logs.iter().enumerate() {
        assert_eq!(bodies(&store, log), said(&[&format!("log {index}")]), "{log}");
    }
    let mut expected: Vec<_> = logs.iter().map(LogName::to_string).collect();
    expected.sort();
    let list = block_on(store.list("")).unwrap();
    assert_eq!(list.iter().map(|info| info.name.to_string()).collect::<Vec<_>>(), expected);
    // All of them are in folders of the same depth.
    let files = tree(folder.path());
    assert_eq!(files.len(), logs.len() + 1);
    assert!(files.keys().all(|path| path.as_os_str() == "lookback.lock" || path.components().count() == 3));
    assert_eq!(block_on(store.clear()).unwrap(), logs.len() as u64);
    assert_eq!(tree(folder.path()).len(), 1);
}

#[test]
fn a_file_system_that_takes_two_names_for_one_shows_nobody_the_other_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (one, other) = (name("a"), name("A"));
    append(&store, &one, 0, &["secret"]).unwrap();
    append(&store, &one.shared_of(), 0, &["secret"]).unwrap();
    let memory = folder.path().join("memory");
    fs::create_dir(memory.join("A")).unwrap();
    fs::copy(memory.join("a/turns.jsonl"), memory.join("A/turns.jsonl")).unwrap();
    fs::copy(memory.join("shared/a.json"), memory.join("shared/A.json")).unwrap();
    for log in [other.clone(), other.shared_of()] {
        for refused in [
            append(&store, &log, 0, &["x"]),
            block_on(store.read(&log, 0..9)).map(|_| ()),
            block_on(store.head(&log, None)).map(|_| ()),
            block_on(store.delete(slice::from_ref(&log))).map(|_| ()),
            block_on(store.search(Some(&other), &Query::new("secret"), 9)).map(|_| ()),
        ] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, StoreError::Damaged { .. }), "{refused:?}");
            assert!(refused.to_string().contains("belongs to another log"), "{refused}");
        }
    }
    assert_eq!(block_on(store.list("")).unwrap().len(), 2, "a copy is no log of its own");
    assert_eq!(block_on(store.clear()).unwrap(), 2);
    assert!(memory.join("A/turns.jsonl").exists());
}

#[test]
fn a_damaged_line_is_told_with_its_log_and_position() {
    let folder = tempfile::tempdir().unwrap();
    let (log, path) = (name("bad"), folder.path().join("memory/bad/turns.jsonl"));
    append(&open(folder.path()), &log, 0, &["one", "two", "secret", "four"]).unwrap();
    append(&open(folder.path()), &name("good"), 0, &["one"]).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    let edited = |third: &str| format!("{}\n{}\n{}\n{third}\n{}\n", lines[0], lines[1], lines[2], lines[4]);
    let taken_out = edited("").replace("\n\n", "\n");
    for (text, why) in [
        (edited("{\"at\":2,\"entry\":{\"secret\":}}"), "is not valid JSON"),
        (edited("{\"at\":2}"), "has no `entry`"),
        (edited("{\"secret\":2}"), "is not a record"),
        (edited(""), "is not valid JSON"),
        (edited("\0\0\0"), "is not valid JSON"),
        (edited(lines[1]), "has `at` 0 instead of 2"),
        (taken_out, "has `at` 3 instead of 2"),
    ] {
        fs::write(&path, &text).unwrap();
        let store = open(folder.path());
        for refused in [
            append(&store, &log, 4, &["five"]),
            block_on(store.read(&log, 0..9)).map(|_| ()),
            block_on(store.info(&log)).map(|_| ()),
            block_on(store.search(Some(&log), &Query::new("one"), 9)).map(|_| ()),
        ] {
            let refused = refused.unwrap_err();
            assert!(matches!(&refused, StoreError::Damaged { log, position: 2, .. } if log == "bad"), "{refused:?}");
            let said = refused.to_string();
            assert!(said.contains("entry 2 of `bad`") && said.contains("line 4 of") && said.ends_with(why), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
        assert_eq!(block_on(store.read(&log, 0..2)).unwrap(), said(&["one", "two"]), "what is before it can be read");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "it is left as it is");
        // The other logs can still be read.
        let listed: Vec<_> = block_on(store.list("")).unwrap().into_iter().map(|log| (log.name, log.records)).collect();
        assert_eq!(listed, [(log.clone(), 0), (name("good"), 1)]);
        let found = block_on(store.search(None, &Query::new("one"), 9)).unwrap();
        assert_eq!(found.into_iter().map(|hit| hit.log).collect::<Vec<_>>(), [name("good")]);
    }
    // Repaired by hand, it can be read again. While damaged, it can be erased.
    let store = open(folder.path());
    fs::write(&path, edited("{\"at\":2,\"part\":[3,4],\"entry\":3,\"note\":\"mended\",\"sum\":\"\"}")).unwrap();
    assert_eq!(block_on(store.read(&log, 2..3)).unwrap(), ["3"]);
    fs::write(&path, edited("")).unwrap();
    assert_eq!(block_on(store.delete(slice::from_ref(&log))).unwrap(), 1);
    assert_eq!(block_on(store.list("")).unwrap().len(), 1);
}

#[test]
fn files_of_a_newer_version_are_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let log = name("one");
    for (log, path) in [(&log, "memory/one/turns.jsonl"), (&log.shared_of(), "memory/shared/one.json")] {
        append(&store, log, 0, &["a"]).unwrap();
        let path = folder.path().join(path);
        let newer = fs::read_to_string(&path).unwrap().replace("\"version\":1", "\"version\":7");
        // A later header may have other members.
        for newer in [newer.replace("\"log\"", "\"of\""), newer.clone()] {
            fs::write(&path, &newer).unwrap();
            let refused = block_on(store.head(log, None)).unwrap_err();
            assert!(matches!(refused, StoreError::Newer { found: 7, .. }), "{refused:?}");
        }
        for refused in [
            append(&store, log, 1, &["b"]),
            block_on(store.head(log, None)).map(|_| ()),
            block_on(store.delete(slice::from_ref(log))).map(|_| ()),
        ] {
            assert!(matches!(refused, Err(StoreError::Newer { found: 7, known: 1, .. })), "{refused:?}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), newer);
        // It is listed, and does not affect other logs.
        append(&store, &name("two"), 0, &["a"]).unwrap();
        let listed = block_on(store.list("")).unwrap();
        assert!(listed.iter().any(|info| info.name == *log && info.records == 0), "{listed:?}");
        assert_eq!(block_on(store.search(None, &Query::new("a"), 9)).unwrap().len(), 1);
        assert_eq!(block_on(store.clear()).unwrap(), 2);
        assert!(!path.exists());
    }
}

#[test]
fn a_store_that_another_writes_to_is_said_to_be_locked() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).with_patience(Duration::from_millis(30));
    let log = name("one");
    append(&store, &log, 0, &["a"]).unwrap();
    let lock = fs::File::open(folder.path().join("lookback.lock")).unwrap();
    lock.lock().unwrap();
    for refused in [append(&store, &log, 1, &["b"]), block_on(store.delete(slice::from_ref(&log))).map(|_| ())] {
        assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    }
    // Readers continue.
    assert_eq!(bodies(&store, &log), said(&["a"]));
    lock.unlock().unwrap();
    append(&store, &log, 1, &["b"]).unwrap();
}

#[test]
fn a_store_is_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let missing = FileStore::open_existing(folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing:?}");
    assert!(!folder.path().join("none").exists());
    fs::write(folder.path().join("file"), "milk").unwrap();
    let refused = FileStore::open(folder.path().join("file")).unwrap_err();
    assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused:?}");
    let store = FileStore::open(folder.path().join("a/b")).unwrap();
    assert_eq!(store.root(), folder.path().join("a/b"));
    // A folder is not a store before something was written to it.
    let missing = FileStore::open_existing(folder.path().join("a/b")).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing:?}");
    append(&store, &name("one"), 0, &["a"]).unwrap();
    FileStore::open_existing(folder.path().join("a/b")).unwrap();
    block_on(store.clear()).unwrap();
    FileStore::open_existing(folder.path().join("a/b")).unwrap();
    // If it is removed, it is created again.
    append(&store, &name("one"), 0, &["a"]).unwrap();
    fs::remove_dir_all(folder.path().join("a")).unwrap();
    assert_eq!(block_on(store.head(&name("one"), None)).unwrap(), None);
    append(&store, &name("one"), 0, &["b"]).unwrap();
    assert_eq!(bodies(&store, &name("one")), said(&["b"]));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_their_owners_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let store = open(&root);
        let log = name("one");
        for log in [log.clone(), log.shared_of()] {
            append(&store, &log, 0, &["a"]).unwrap();
            append(&store, &log, 1, &["b"]).unwrap();
            assert!(block_on(store.touch(&log, 99)).unwrap());
        }
        for path in tree(&root).into_keys() {
            assert_eq!(mode(&root.join(&path)), 0o600, "{}", path.display());
        }
        for folder in ["", "memory", "memory/one", "memory/shared"] {
            assert_eq!(mode(&root.join(folder)), 0o700, "{folder}");
        }
        // A file that others may read keeps its permissions.
        let shared = root.join("memory/shared/one.json");
        fs::set_permissions(&shared, PermissionsExt::from_mode(0o644)).unwrap();
        append(&store, &log.shared_of(), 2, &["c"]).unwrap();
        assert_eq!(mode(&shared), 0o644);
        fs::set_permissions(&shared, PermissionsExt::from_mode(0o444)).unwrap();
        let refused = append(&store, &log.shared_of(), 3, &["d"]).unwrap_err();
        assert!(matches!(refused, StoreError::Backend { .. }), "{refused:?}");
    }

    #[test]
    fn links_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("store"), folder.path().join("outside"));
        append(&open(&outside), &name("one"), 0, &["secret"]).unwrap();
        let before = tree(&outside);
        let store = open(&root);
        append(&store, &name("two"), 0, &["a"]).unwrap();
        symlink(outside.join("memory/one"), root.join("memory/one")).unwrap();
        fs::create_dir(root.join("memory/three")).unwrap();
        symlink(outside.join("memory/one/turns.jsonl"), root.join("memory/three/turns.jsonl")).unwrap();
        for log in [name("one"), name("three")] {
            for refused in [
                append(&store, &log, 0, &["x"]),
                block_on(store.head(&log, None)).map(|_| ()),
                block_on(store.delete(slice::from_ref(&log))).map(|_| ()),
            ] {
                assert!(matches!(refused, Err(StoreError::NotAStore { .. })), "{refused:?}");
            }
        }
        assert_eq!(block_on(store.list("")).unwrap().len(), 1);
        assert_eq!(block_on(store.clear()).unwrap(), 1);
        assert_eq!(tree(&outside), before);
        // The root itself may be a link: that is the choice of its owner.
        symlink(&outside, folder.path().join("link")).unwrap();
        assert_eq!(bodies(&open(&folder.path().join("link")), &name("one")), said(&["secret"]));
    }

    #[test]
    fn a_store_that_may_only_be_read_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let log = name("one");
        append(&open(folder.path()), &log, 0, &["apple"]).unwrap();
        let set = |mode| {
            for path in ["", "memory", "memory/one"] {
                fs::set_permissions(folder.path().join(path), PermissionsExt::from_mode(mode)).unwrap();
            }
        };
        for path in ["lookback.lock", "memory/one/turns.jsonl"] {
            fs::set_permissions(folder.path().join(path), PermissionsExt::from_mode(0o444)).unwrap();
        }
        set(0o555);
        if fs::write(folder.path().join("probe"), "").is_ok() {
            set(0o755);
            crate::common::skipped("this user may write what is read-only");
            return;
        }
        let store = FileStore::open_existing(folder.path()).unwrap();
        assert_eq!(bodies(&store, &log), said(&["apple"]));
        assert_eq!(block_on(store.search(None, &Query::new("apple"), 9)).unwrap().len(), 1);
        assert_eq!(block_on(store.list("")).unwrap().len(), 1);
        for refused in [append(&store, &log, 1, &["b"]), block_on(store.delete(slice::from_ref(&log))).map(|_| ())] {
            assert!(matches!(refused, Err(StoreError::Backend { .. })), "{refused:?}");
        }
        set(0o755);
    }
}

/// A checked document is not checked again as long as it is the same, byte for byte.
#[test]
fn what_is_added_to_a_long_document_takes_little_longer_than_to_a_short_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, log) = (open(folder.path()), name("shared").shared_of());
    let add = |from: u64, count: u64| {
        let begun = std::time::Instant::now();
        for at in from..from + count {
            append(&store, &log, at, &["a fact that is about as long as most facts are, and says something"]).unwrap();
            assert_eq!(block_on(store.info(&log)).unwrap().unwrap().records, at + 1);
        }
        begun.elapsed()
    };
    add(0, 5);
    let short = add(5, 10);
    let many = (0..3_000).map(|number| record(&format!("fact number {number}, about as long as most are")));
    block_on(store.append(&log, Append::new(15, many).time(Some(15)))).unwrap();
    add(3_015, 1);
    let long = add(3_016, 10);
    assert!(long < short * 20 + Duration::from_millis(150), "{long:?} against {short:?}");

    // A newly opened store finds the same, with its index.
    let path = folder.path().join("memory/shared/memory.json");
    let other = open(folder.path());
    assert_eq!(bodies(&other, &log).len(), 3_026);
    assert_eq!(block_on(other.info(&log)).unwrap(), block_on(store.info(&log)).unwrap());
    append(&other, &log, 3_026, &["by another"]).unwrap();
    append(&store, &log, 3_027, &["again"]).unwrap();
    assert_eq!(block_on(store.info(&log)).unwrap().unwrap().records, 3_028);
    // A change by others is noticed.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("fact number 7,", "fact number 8,", 1)).unwrap();
    let damaged = block_on(store.info(&log)).unwrap_err();
    assert!(matches!(damaged, StoreError::Damaged { position: 22, .. }), "{damaged:?}");
    assert!(append(&store, &log, 3_028, &["more"]).is_err());
    // Another program's members keep their text and place.
    let kept = text.replacen("{\n", "{\n  \"theirs\": [1.0],\n", 1);
    fs::write(&path, &kept).unwrap();
    append(&store, &log, 3_028, &["more"]).unwrap();
    append(&store, &log, 3_029, &["and more"]).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("\"theirs\": [1.0]"));
    assert_eq!(bodies(&open(folder.path()), &log).len(), 3_030);
}
