//! Logs as version 1 writes them (`tests/logs/`): later versions must open them and show the same windows.

use std::path::PathBuf;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::{Settings, transcript::Entry};
use lookback_facts::{Memory, SheetOptions};
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::{Append, Record};
use lookback_store::{LogName, MemoryStore, Store};
use lookback_tokens::Estimate;
use lookback_wire::dialect::Dialect;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn name(text: &str) -> LogName {
    text.parse().unwrap()
}

/// Adds lines to a log, as records.
fn append_lines(store: &MemoryStore, log: &LogName, lines: &str) {
    let record = |line: &str| Record::new(line).checkpoint(line.starts_with(r#"{"checkpoint""#));
    let records = lines.lines().map(record);
    let end = block_on(store.head(log, None)).unwrap().map_or(0, |head| head.end);
    block_on(store.append(log, Append::new(end, records))).unwrap();
}

fn opened(log: &str, dialect: Dialect) -> Session {
    let store = Arc::new(MemoryStore::new());
    append_lines(&store, &name(log), &file(&format!("{log}.jsonl")));
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
        assert_eq!(adapter::preview(&session).to_json().unwrap(), file(&format!("{log}.window.json")), "{log}");
    }
}

#[test]
fn what_is_beside_the_messages_is_read() {
    let mut session = opened("openai", Dialect::OpenAiChat);
    let view = session.view();
    assert_eq!(view.label().agent.as_deref(), Some("coder"));
    assert!(view.preamble().unwrap().tools.as_ref().unwrap().get().contains("read"));
    assert_ne!(view.calibration("gpt-4o"), lookback_tokens::Calibration::default());
    let entries = block_on(adapter::entries(&mut session)).unwrap();
    let count = |counts: fn(&Entry) -> bool| entries.iter().filter(|entry| counts(entry)).count();
    assert!(count(|entry| matches!(entry, Entry::Repair(_))) > 0);
    assert!(count(|entry| matches!(entry, Entry::Compaction(_))) > 0);
    assert!(count(|entry| matches!(entry, Entry::Preamble { .. })) == 1);
}

/// The log of `openai`, as it was before the compaction after which the late result was shown.
#[test]
fn a_late_result_takes_the_place_of_its_stand_in() {
    let store = Arc::new(MemoryStore::new());
    let before: Vec<String> = file("openai.jsonl").lines().take(9).map(str::to_owned).collect();
    assert!(before[8].contains(r#""edits":[{"part":0,"change":{"hide":"late"}},"#));
    append_lines(&store, &name("late"), &before.join("\n"));
    let policy = lookback_presets::named("messages:max_messages=8,keep.first=2").unwrap();
    let mut session = block_on(Session::open(store, "late", Settings::default().policy(policy))).unwrap();
    let (stand_in, late) = ("[No result: the tool call was interrupted.]", "late, and real");
    let shown = adapter::preview(&session).to_json().unwrap();
    assert!(shown.contains(stand_in) && !shown.contains(late), "{shown}");
    for number in 0..3 {
        block_on(session.push(lookback_wire::message::Message::assistant(format!("answer {number}")))).unwrap();
        block_on(session.push(lookback_wire::message::Message::user(format!("question {number}")))).unwrap();
    }
    let shown = block_on(session.window()).unwrap().to_json().unwrap();
    assert!(shown.contains(late) && !shown.contains(stand_in), "{shown}");
}

#[test]
fn facts_are_on_the_sheet_that_they_were_on() {
    let store = Arc::new(MemoryStore::new());
    append_lines(&store, &name("facts").facts_of(), &file("facts.jsonl"));
    let memory = block_on(Memory::open(store, "facts")).unwrap();
    let sheet = block_on(memory.sheet(&SheetOptions::default(), &Estimate::default())).unwrap();
    assert_eq!(sheet.text, file("facts.sheet.txt"));
}
