//! Logs that were written before names in them changed (`tests/logs/`) open as before.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::path::PathBuf;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::memory::{Memory, SheetOptions};
use lookback::store::Record;
use lookback::tokens::Estimate;
use lookback::{Dialect, Entry, LogName, MemoryStore, Session, Settings, Store};

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

/// Puts the lines of a file into a log, as records.
fn keep(store: &MemoryStore, log: &LogName, from: &str) {
    let record = |line: &str| Record {
        body: line.to_owned(),
        text: String::new(),
        checkpoint: line.starts_with(r#"{"checkpoint""#),
    };
    let records = file(from).lines().map(record).collect();
    block_on(store.append(log, 0, records, None)).unwrap();
}

fn opened(log: &str, dialect: Dialect) -> Session {
    let store = Arc::new(MemoryStore::new());
    keep(&store, &name(log), &format!("{log}.jsonl"));
    block_on(Session::open(store, log, Settings::default().dialect(dialect))).unwrap()
}

#[test]
fn sessions_show_what_they_showed() {
    let logs = [
        ("openai", Dialect::OpenAiChat),
        ("branch", Dialect::OpenAiChat),
        ("summary", Dialect::OpenAiChat),
        ("anthropic", Dialect::Anthropic),
    ];
    for (log, dialect) in logs {
        let session = opened(log, dialect);
        assert_eq!(session.preview().to_json().unwrap(), file(&format!("{log}.window.json")), "{log}");
    }
}

#[test]
fn what_is_beside_the_messages_is_read() {
    let mut session = opened("openai", Dialect::OpenAiChat);
    let view = session.view();
    assert_eq!(view.label().agent.as_deref(), Some("coder"));
    assert!(view.preamble().unwrap().tools.as_ref().unwrap().get().contains("read"));
    assert_ne!(view.calibration("gpt-4o"), lookback::tokens::Calibration::default());
    let entries = block_on(session.entries()).unwrap();
    let count = |counts: fn(&Entry) -> bool| entries.iter().filter(|entry| counts(entry)).count();
    assert!(count(|entry| matches!(entry, Entry::Repair(_))) > 0);
    assert!(count(|entry| matches!(entry, Entry::Compaction(_))) > 0);
    assert!(count(|entry| matches!(entry, Entry::Preamble { .. })) == 1);
}

#[test]
fn a_summary_goes_on_from_the_notes_beside_it() {
    let store = Arc::new(MemoryStore::new());
    keep(&store, &name("summary"), "summary.jsonl");
    keep(&store, &name("summary").summary_of(), "summary.notes.jsonl");
    let policy = lookback::presets::named("rolling-summary:window_size=8,summary_budget=60").unwrap();
    let mut session = block_on(Session::open(store, "summary", Settings::default().policy(policy))).unwrap();
    let before = block_on(session.window()).unwrap().to_json().unwrap();
    assert_eq!(before, file("summary.window.json"));
    for number in 0..4 {
        let text = format!("We decided to use port {number}. {}", "And some more was said about it. ".repeat(8));
        block_on(session.push(lookback::Message::user(text))).unwrap();
        block_on(session.window()).unwrap();
        block_on(session.wait_for_summary()).unwrap();
    }
    let after = block_on(session.window()).unwrap().to_json().unwrap();
    let first = "We decided to use port 5000";
    assert!(before.contains(first) && after.contains(first) && before != after, "{after}");
}

#[test]
fn facts_are_on_the_sheet_that_they_were_on() {
    let store = Arc::new(MemoryStore::new());
    keep(&store, &name("facts").facts_of(), "facts.jsonl");
    let memory = block_on(Memory::open(store, "facts")).unwrap();
    let sheet = block_on(memory.sheet(&SheetOptions::default(), &Estimate::default())).unwrap();
    assert_eq!(sheet.text, file("facts.sheet.txt"));
}
