//! Importing memory folders of KB Labs: both layouts, damaged files, and a second import.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_facts::{Counts, Effect, KbFolder, KbImported, Memory, Speaker};
use lookback_session::Session;
use lookback_store::{MemoryStore, Store};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn imported(store: &Arc<dyn Store>, folder: &Path) -> KbImported {
    with_effect(store, folder, Effect::Write)
}

fn with_effect(store: &Arc<dyn Store>, folder: &Path, effect: Effect) -> KbImported {
    block_on(KbFolder::read(folder).unwrap().import(store.clone(), Memory::WORKSPACE, effect)).unwrap()
}

/// Returns the paths that could not be imported, and the reasons.
fn damaged(report: &KbImported) -> Vec<String> {
    report.damaged.iter().map(|damaged| format!("{}: {}", damaged.path, damaged.reason)).collect()
}

/// Returns the facts of a session, one per line.
fn fact_lines(store: &Arc<dyn Store>, session: &str) -> Vec<String> {
    let memory = block_on(Memory::open(store.clone(), session)).unwrap();
    let line = |fact: lookback_facts::Fact| {
        let statement = &fact.statement;
        let by = match &statement.source.by {
            Speaker::Person => "person",
            Speaker::Model => "model",
            Speaker::Tool(name) => name,
            _ => "unknown",
        };
        let time = statement.time.map_or("-".to_owned(), |time| time.to_string());
        let about = statement.about.as_ref().map_or(String::new(), |about| format!(" <{about}>"));
        let (id, kind, confidence) = (fact.id, statement.kind, fact.confidence.value());
        format!("{id} {kind}{about} {by} {confidence} {time} [{}] {}", statement.tags.join(","), statement.text)
    };
    block_on(memory.facts()).unwrap().into_iter().map(line).collect()
}

fn messages(store: &Arc<dyn Store>, session: &str) -> Vec<(String, Option<i64>)> {
    let mut session = block_on(Session::open(store.clone(), session, Settings::default())).unwrap();
    let history = block_on(session.history()).unwrap();
    history.iter().map(|entry| (entry.arrival.message.text(), entry.arrival.time)).collect()
}

const SHARED: &str = r#"{
  "preferences": [
    {"content": "Always use pnpm, not npm.", "category": "user_input", "timestamp": "2026-02-01T10:00:00.000Z", "type": "user_preference",
     "metadata": {"importance": 0.9, "source": "user", "scope": "project", "tags": ["tools", ""]}},
    "TypeScript strict mode.",
    {"text": "Short commits.", "source": "agent"}
  ],
  "constraints": [
    {"content": "Never modify /legacy/.", "timestamp": "2026-02-01T10:00:01.000Z", "type": "constraint", "metadata": {"source": "user"}},
    {"note": "no text here"}
  ],
  "sessions": [{"sessionId": "s-1", "timestamp": "2026-02-02T00:00:00Z", "tasks": ["a"], "learnings": "Tests need Docker."}, {"sessionId": "s-2"}],
  "projectContext": {"name": "kb", "description": "", "technologies": ["node", "pnpm"], "structure": "monorepo"}
}"#;

const FINDING: &str = r#"{"content": "The service listens on port 5050.", "category": "learning", "timestamp": "2026-02-03T10:00:00.000Z",
  "type": "finding", "metadata": {"importance": 0.9, "confidence": 0.9, "source": "agent", "tags": ["src/server.ts"], "scope": "session"},
  "id": "mem-1770112800000-abcde"}"#;
const BLOCKER: &str = r#"{"content": "Blocked on missing API_KEY.", "category": "agent_state", "timestamp": "2026-02-03T10:00:02.000Z",
  "type": "blocker", "metadata": {"importance": 1.0, "source": "agent", "scope": "session", "taskId": "t-7"}, "id": "mem-1770112802000-bbbbb"}"#;
const ASSUMED: &str = r#"{"content": "The file is YAML.", "timestamp": "2026-02-03T09:00:00.000Z", "type": "finding",
  "metadata": {"confidence": 0.5, "source": "agent"}, "id": "mem-1770109200000-zzzzz"}"#;
const CORRECTION: &str = r#"{"content": "The file is TOML, not YAML.", "category": "user_input", "timestamp": "2026-02-03T10:00:03.000Z",
  "type": "user_correction", "metadata": {"importance": 1.0, "source": "user", "supersedes": "The file is YAML.", "scope": "session"},
  "id": "mem-1770112803000-ccccc"}"#;

const SHEET: &str = r#"{"facts": [
  ["fact_1", {"id": "fact_1", "iteration": 1, "category": "file_content", "fact": "Read src/a.ts (10 lines)", "confidence": 0.9, "source": "fs_read", "updatedAt": "2026-02-03T11:00:00.000Z", "confirmations": 1}],
  ["fact_2", {"id": "fact_2", "iteration": 2, "category": "architecture", "fact": "Packages depend on core.", "confidence": 0.7, "source": "llm", "updatedAt": "2026-02-03T11:00:01.000Z", "confirmations": 2}],
  ["fact_3", {"id": "fact_3", "iteration": 3, "category": "tool_result", "fact": "grep found 12 matches.", "confidence": 0.8, "source": "grep_search", "updatedAt": "2026-02-03T11:00:02.000Z", "confirmations": 1}],
  ["fact_4", {"id": "fact_4", "iteration": 4, "category": "environment", "fact": "Node 22 is installed.", "confidence": 0.7, "source": "shell_exec", "updatedAt": "2026-02-03T11:00:03.000Z", "confirmations": 1}],
  ["fact_5", {"id": "fact_5", "iteration": 5, "category": "correction", "fact": "Ports are in config.", "confidence": 1, "source": "user", "updatedAt": "2026-02-03T11:00:04.000Z", "confirmations": 1}],
  ["fact_6", {"id": "fact_6", "iteration": 6, "category": "decision", "fact": "Split the server.", "confidence": 0.6, "source": "agent", "updatedAt": "2026-02-03T11:00:05.000Z", "confirmations": 1, "supersedes": "fact_2"}],
  ["fact_7", {"id": "fact_7", "iteration": 7, "category": "file_content", "fact": "Read src/a.ts (12 lines)", "confidence": 0.9, "source": "fs_read", "updatedAt": "2026-02-03T11:00:06.000Z", "confirmations": 1}],
  ["fact_8", {"id": "fact_8", "iteration": 8, "category": "blocker", "fact": "The port is taken.", "confidence": 1, "source": "agent", "updatedAt": "2026-02-03T11:00:07.000Z", "confirmations": 1}],
  ["fact_9", {"id": "fact_9", "iteration": 9, "category": "finding", "fact": "main is in src/a.ts.", "confidence": 0.85, "source": "find_definition", "updatedAt": "2026-02-03T11:00:08.000Z", "confirmations": 1}]
], "nextId": 10}"#;

const TURNS: &str = r#"[
  {"id": "t2", "type": "assistant", "sequence": 2, "startedAt": "2026-02-03T10:00:05.000Z", "status": "completed", "steps": [
    {"type": "thinking", "content": "hm"}, {"type": "text", "content": "I look."}, {"type": "tool_use", "toolName": "fs_read", "input": {}, "status": "done"},
    {"type": "text", "content": "It is TOML."}, {"type": "text", "content": " "}]},
  {"id": "t1", "type": "user", "sequence": 1, "startedAt": "2026-02-03T10:00:00.000Z", "steps": [{"type": "text", "role": "user", "content": "What is it?"}]},
  {"id": "t3", "type": "assistant", "sequence": 3, "startedAt": "2026-02-03T10:00:06.000Z", "steps": [{"type": "tool_use", "toolName": "x"}]},
  {"id": "t4", "type": "system", "sequence": 4, "startedAt": "2026-02-03T10:00:07.000Z", "steps": [{"type": "text", "content": "Notes."}]},
  {"id": "t5", "type": "user", "sequence": 10, "startedAt": "2026-02-03T10:00:08.000Z", "steps": [{"type": "text", "content": "Thanks."}]}
]"#;

fn whole() -> TempDir {
    folder(&[
        (".kb/memory/shared/memory.json", SHARED),
        (".kb/memory/s-1/mem-1770112800000-abcde.json", FINDING),
        (".kb/memory/s-1/mem-1770112802000-bbbbb.json", BLOCKER),
        (".kb/memory/s-1/mem-1770112803000-ccccc.json", CORRECTION),
        (".kb/memory/s-1/mem-1770119999999-zzzzz.json", ASSUMED),
        (".kb/memory/s-1/notes.txt", "not ours"),
        (".kb/memory/sessions/s-2/fact-sheet.json", SHEET),
        (".kb/agents/sessions/s-2/turns.json", TURNS),
    ])
}

#[test]
fn both_layouts_become_facts_and_messages() {
    let (store, root) = (store(), whole());
    let report = imported(&store, root.path());
    assert_eq!(
        fact_lines(&store, "nobody"),
        [
            "s0 preference person 1 1769940000000 [tools] Always use pnpm, not npm.",
            "s1 preference model 1 - [] TypeScript strict mode.",
            "s2 preference model 1 - [] Short commits.",
            "s3 constraint person 1 1769940001000 [] Never modify /legacy/.",
            "s4 finding model 1 1769990400000 [] Tests need Docker.",
        ]
    );
    assert_eq!(
        fact_lines(&store, "s-1").into_iter().filter(|line| line.starts_with('f')).collect::<Vec<_>>(),
        [
            "f1 finding model 0.9 1770112800000 [src/server.ts] The service listens on port 5050.",
            "f2 blocker model 1 1770112802000 [] Blocked on missing API_KEY.",
            "f3 correction person 1 1770112803000 [] The file is TOML, not YAML.",
        ]
    );
    assert_eq!(
        fact_lines(&store, "s-2").into_iter().filter(|line| line.starts_with('f')).collect::<Vec<_>>(),
        [
            "f0 finding fs_read 0.9 1770116400000 [file_content] Read src/a.ts (10 lines)",
            "f2 finding grep_search 0.8 1770116402000 [tool_result] grep found 12 matches.",
            "f3 finding shell_exec 0.7 1770116403000 [environment] Node 22 is installed.",
            "f4 correction person 1 1770116404000 [] Ports are in config.",
            "f5 decision model 0.6 1770116405000 [] Split the server.",
            "f6 finding fs_read 0.9 1770116406000 [file_content] Read src/a.ts (12 lines)",
            "f7 blocker model 1 1770116407000 [] The port is taken.",
            "f8 finding model 0.85 1770116408000 [] main is in src/a.ts.",
        ]
    );
    let said = |text: &str, time| (text.to_owned(), Some(time));
    assert_eq!(
        messages(&store, "s-2"),
        [
            said("What is it?", 1_770_112_800_000),
            said("I look.\n\nIt is TOML.", 1_770_112_805_000),
            said("Thanks.", 1_770_112_808_000)
        ]
    );
    let mut counts = Counts::default();
    (counts.new, counts.superseded) = (18, 2);
    assert_eq!((report.files, report.counts, report.conversations, report.messages), (7, counts, 1, 3));
    assert_eq!(damaged(&report), [".kb/memory/shared/memory.json: 1 of its entries have no text"]);
}

#[test]
fn the_same_folder_again_changes_nothing() {
    let (store, root) = (store(), whole());
    let first = with_effect(&store, root.path(), Effect::DryRun);
    assert_eq!(block_on(store.list("")).unwrap(), [], "it was only told of");
    assert_eq!(imported(&store, root.path()), first);
    let logs = || block_on(store.list("")).unwrap().into_iter().map(|log| (log.name, log.records)).collect::<Vec<_>>();
    let before = logs();
    let again = imported(&store, root.path());
    let mut counts = Counts::default();
    counts.known = 18;
    assert_eq!(again.counts, counts);
    assert_eq!((again.conversations, again.messages, again.skipped), (0, 0, 1));
    assert_eq!(logs(), before);
}

#[test]
fn imports_at_once_take_each_conversation_once() {
    let turn = |sequence: u64| {
        format!(r#"{{"type":"user","sequence":{sequence},"steps":[{{"type":"text","content":"Message {sequence}"}}]}}"#)
    };
    let turns = |session: u64| {
        let turns: Vec<_> = (0..20).map(turn).collect();
        (format!("memory/s-{session}/turns.json"), format!("[{}]", turns.join(",")))
    };
    let files: Vec<_> = (0..50).map(turns).collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (store, root) = (store(), folder(&files));
    let reports: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| imported(&store, root.path()))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all = |count: fn(&KbImported) -> u64| reports.iter().map(count).sum::<u64>();
    let counted = (all(|one| one.conversations), all(|one| one.messages), all(|one| one.skipped));
    assert_eq!(counted, (50, 1_000, 150));
    for session in 0..50 {
        assert_eq!(messages(&store, &format!("s-{session}")).len(), 20);
    }
}

#[test]
fn a_folder_is_found_by_its_kb_its_memory_or_what_holds_it() {
    let root = whole();
    for (place, conversations) in [("", 1), (".kb", 1), (".kb/memory", 0)] {
        let report = imported(&store(), &root.path().join(place));
        assert_eq!((report.counts.new, report.conversations), (18, conversations), "{place}");
    }
    let no_memory = folder(&[("memory/shared/memory.json", r#"{"preferences": []}"#), ("memory/s/turns.json", "[]")]);
    for empty in [folder(&[]), folder(&[("a/b.json", "{}"), ("memory/s/other.json", "{")]), no_memory] {
        let error = KbFolder::read(empty.path()).unwrap_err().to_string();
        assert!(error.contains(" contains no memory of KB Labs; "), "{error}");
    }
    let missing = KbFolder::read(Path::new("/nonesuch/kb")).unwrap_err();
    assert_eq!(missing.to_string(), "/nonesuch/kb cannot be read");
    assert!(std::error::Error::source(&missing).is_some());
}

#[test]
fn the_older_shared_memory_and_turns_beside_a_fact_sheet_are_read() {
    let old = r#"{"facts": [{"content": "Use tabs.", "type": "user_preference", "timestamp": 1700000000000},
        {"content": "No network.", "type": "constraint"}, {"content": "CI is slow.", "type": "insight"}, "Plain."]}"#;
    let turns = format!(r#"{{"turns": {TURNS}}}"#);
    let root = folder(&[
        ("memory/shared/memory.json", old),
        ("memory/s-3/turns.json", &turns),
        ("memory/s-3/fact-sheet.json", SHEET),
    ]);
    let store = store();
    let report = imported(&store, root.path());
    assert!(report.damaged.is_empty(), "{report:?}");
    assert_eq!(
        fact_lines(&store, "nobody"),
        [
            "s0 preference model 1 1700000000000 [] Use tabs.",
            "s1 constraint model 1 - [] No network.",
            "s2 finding model 1 - [insight] CI is slow.",
            "s3 finding model 1 - [] Plain.",
        ]
    );
    assert_eq!(messages(&store, "s-3").len(), 3);
}

#[test]
fn damaged_files_are_told_of_and_the_others_taken() {
    let long = format!(r#"{{"content": "{}", "type": "finding"}}"#, "x".repeat(2_001));
    let large = format!("\"{}\"", "x".repeat(16 * 1024 * 1024));
    let deep = "[".repeat(100_000);
    let root = folder(&[
        ("memory/s/mem-1.json", FINDING),
        ("memory/s/mem-2.json", r#"{"content": "cut of"#),
        ("memory/s/mem-3.json", r#"{"type": "finding"}"#),
        ("memory/s/mem-4.json", &long),
        ("memory/s/mem-5.json", &large),
        ("memory/s/mem-6.json", ""),
        ("memory/s/mem-7.json", &deep),
        ("memory/s/mem-8.json", "7"),
        ("memory/s/fact-sheet.json", r#"{"facts": {"a": 1}}"#),
        ("memory/s/turns.json", "null"),
        ("memory/shared/memory.json", "[]"),
        ("memory/compact:x:summary/mem-1.json", FINDING),
        ("memory/t/fact-sheet.json", r#"{"facts": [["a", {"fact": "Kept."}], ["b", {}], 7]}"#),
    ]);
    fs::create_dir(root.path().join("memory/s/mem-a.json")).unwrap();
    let store = store();
    let report = imported(&store, root.path());
    assert_eq!(fact_lines(&store, "s").len(), 1);
    assert_eq!(fact_lines(&store, "t"), ["f0 finding model 1 - [] Kept."]);
    let mut damaged = damaged(&report);
    damaged.sort();
    assert_eq!(
        damaged,
        [
            "memory/compact:x:summary: a session's name may not begin with `compact:` and end with `:summary`: Lookback reserves such names",
            "memory/s/fact-sheet.json: not in the form of KB Labs",
            "memory/s/mem-2.json: not valid JSON: EOF while parsing a string at line 1, column 19",
            "memory/s/mem-3.json: not an entry: no text in `content`",
            "memory/s/mem-4.json: the text has 2001 characters; at most 2000 are allowed. Shorten it, or state several facts",
            "memory/s/mem-5.json: larger than 16 MiB",
            "memory/s/mem-6.json: not valid JSON: EOF while parsing a value at line 1, column 0",
            "memory/s/mem-7.json: not valid JSON: recursion limit exceeded at line 1, column 128",
            "memory/s/mem-8.json: not an entry: no text in `content`",
            "memory/s/mem-a.json: not a file",
            "memory/s/turns.json: not in the form of KB Labs",
            "memory/shared/memory.json: not in the form of KB Labs",
            "memory/t/fact-sheet.json: 2 of its entries have no text",
        ]
    );
}

#[test]
fn members_that_are_several_or_of_a_wrong_type_lose_no_entry() {
    let numbers: Vec<_> = (0..40).map(|number| number.to_string()).collect();
    let (long, longest) = ("x".repeat(201), "y".repeat(200));
    let bad = ["", " ", &long, &longest, &longest].map(str::to_owned);
    let tags = serde_json::json!([&bad[..], &numbers].concat());
    let tagged = format!(r#"{{"content": "Many tags.", "tags": {tags}, "type": "insight"}}"#);
    let kept = format!("f0 finding model 1 - [{longest},{}] Many tags.", numbers[..31].join(","));
    let entries = [
        (
            r#"{"content": " ", "text": "B.", "fact": "C.", "updatedAt": 2, "timestamp": 1}"#,
            "f0 finding model 1 1 [] B.",
        ),
        (
            r#"{"fact": "C.", "content": "A.", "createdAt": 4, "startedAt": 3, "timestamp": null}"#,
            "f0 finding model 1 3 [] A.",
        ),
        (
            r#"{"content": "A.", "confidence": "high", "tags": [7, "a"], "type": [], "sessionId": 1, "metadata": "", "supersedes": {}}"#,
            "f0 finding model 1 - [a] A.",
        ),
        (
            r#"{"content": "A.", "source": "user", "confidence": 0.5, "tags": ["b"], "metadata": {"confidence": 0.9, "tags": null}}"#,
            "f0 finding person 0.9 - [b] A.",
        ),
        (&tagged, &kept),
    ];
    for (entry, line) in entries {
        let (store, root) = (store(), folder(&[("memory/s/mem-1.json", entry)]));
        assert_eq!(damaged(&imported(&store, root.path())), [""; 0]);
        assert_eq!(fact_lines(&store, "s"), [line]);
    }
    let shared =
        r#"{"facts": 7, "preferences": ["A."], "sessions": [7, null, {"learnings": []}, {"learnings": "B."}]}"#;
    let turns = r#"[7, {"type": "user", "sequence": 1.5, "steps": [{"type": "text", "content": "Q"}]}, {"type": "user", "steps": null},
        {"type": "assistant", "sequence": "x", "steps": [null, {"type": "text", "content": 7}, {"type": "text", "content": "R"}]}]"#;
    let (store, root) = (store(), folder(&[("memory/shared/memory.json", shared), ("memory/s/turns.json", turns)]));
    assert_eq!(damaged(&imported(&store, root.path())), [""; 0]);
    assert_eq!(fact_lines(&store, "s"), ["s0 preference model 1 - [] A.", "s1 finding model 1 - [] B."]);
    assert_eq!(messages(&store, "s"), [("Q".to_owned(), None), ("R".to_owned(), None)]);
}

#[test]
fn facts_replace_others_of_their_folder_by_identifier_or_text() {
    let sheet = r#"{"facts": [["fact_1", {"fact": "Third.", "supersedes": "m-1", "updatedAt": 3}],
        ["fact_2", {"fact": "Fourth.", "supersedes": "fact_1", "updatedAt": 4}]]}"#;
    let root = folder(&[
        ("memory/s/fact-sheet.json", sheet),
        ("memory/s/mem-1.json", r#"{"id": "m-1", "content": "First.", "type": "blocker", "timestamp": 1}"#),
        ("memory/s/mem-2.json", r#"{"id": "m-2", "content": "Second.", "type": "decision", "timestamp": 2}"#),
        ("memory/s/mem-3.json", r#"{"content": "Fifth.", "supersedes": "fact_2", "timestamp": 5}"#),
        ("memory/s/mem-4.json", r#"{"content": "Sixth.", "metadata": {"supersedes": "Second."}, "timestamp": 6}"#),
    ]);
    let store = store();
    let report = imported(&store, root.path());
    assert_eq!((report.counts.new, report.counts.superseded, damaged(&report)), (6, 4, Vec::new()));
    assert_eq!(fact_lines(&store, "s"), ["f4 finding model 1 5 [] Fifth.", "f5 finding model 1 6 [] Sixth."]);
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_out_of_the_folder() {
    use std::os::unix::fs::symlink;
    let elsewhere = folder(&[("secret.json", FINDING), ("dir/mem-1.json", FINDING)]);
    let root = folder(&[("memory/s/mem-1.json", BLOCKER), ("memory/t/mem-2.json", FINDING)]);
    let within = |name: &str| root.path().join("memory").join(name);
    symlink(elsewhere.path().join("secret.json"), within("s/mem-2.json")).unwrap();
    symlink(within("t/mem-2.json"), within("s/mem-3.json")).unwrap();
    symlink(elsewhere.path().join("dir"), within("out")).unwrap();
    symlink(within(""), within("s/mem-loop.json")).unwrap();
    let store = store();
    let report = imported(&store, root.path());
    assert_eq!(
        (fact_lines(&store, "s").len(), fact_lines(&store, "t").len(), fact_lines(&store, "out").len()),
        (2, 1, 0)
    );
    let outside = "it leads out of the folder, and is not followed";
    let out = |path: &str| format!("{path}: {outside}");
    let none = "memory/s/mem-loop.json: not a file".to_owned();
    assert_eq!(damaged(&report), [out("memory/out"), out("memory/s/mem-2.json"), none]);
}
