//! Measures the calls of `bench/python/calls.py` and `bench/node/calls.mjs` without a border between languages.

use std::hint::black_box;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_presets as presets;
use lookback_recordings::Recording;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::{dialect::Dialect, message::Message};

use crate::{median, time};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/session.jsonl");

pub fn run() {
    let text = std::fs::read_to_string(RECORDED).expect("an example");
    let recording = Recording::read(&text, "session", None).expect("a recording").remove(0);
    let messages: Vec<Message> = recording.messages.into_iter().take(200).map(|recorded| recorded.message).collect();
    println!("{} messages of a recorded session", messages.len());
    let dialect = recording.dialect;
    let mut session = open(dialect, "none");
    block_on(session.append(messages.clone())).expect("a push");
    let new = r#"{"role":"user","content":"And now?"}"#;
    report("push one, window, sources", 30, || {
        block_on(session.push(dialect.decode(new).expect("a message"))).expect("a push");
        let window = block_on(session.window()).expect("a window");
        black_box(window.sources().expect("sources").len());
    });
    let mut known = open(dialect, "none");
    block_on(known.sync(messages.clone())).expect("a history");
    let texts: Vec<String> =
        messages.iter().map(|message| message.wire().expect("JSON").raw.get().to_owned()).collect();
    report("sync all, which are known, as text", 30, || {
        let history = texts.iter().map(|text| dialect.decode(text).expect("a message")).collect();
        black_box(block_on(known.sync(history)).expect("a history"));
    });
    for length in [100, 1_000, 10_000, 100_000] {
        println!("{length} messages, the newest 40 are sent");
        let mut session = open(Dialect::OpenAiChat, "messages:max_messages=40,target_messages=20");
        block_on(session.append((0..length).map(crate::message).collect::<Vec<_>>())).expect("a push");
        report("push, window, messages", 30, || {
            block_on(session.push(Message::user("New"))).expect("a push");
            black_box(block_on(session.window()).expect("a window").to_json().expect("JSON").len());
        });
    }
}

fn open(dialect: Dialect, policy: &str) -> Session {
    let policy = presets::named(policy).expect("a preset");
    let settings = Settings::for_model(dialect, "gpt-4o").policy(policy);
    block_on(Session::open(MemoryStore::new(), "s", settings)).expect("a session")
}

/// Prints the median time of the runs, in microseconds.
fn report(name: &str, runs: u32, mut work: impl FnMut()) {
    let times = (0..runs).map(|_| time(&mut work).as_secs_f64() * 1e6);
    println!("  {name:52} {:12.1} us", median(times));
}
