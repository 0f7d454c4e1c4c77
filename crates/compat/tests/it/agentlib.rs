//! AgentLIB's `SlidingWindowMemory`: the vectors of `corpus/systems/agentlib.json`, and a test for each of its faults.
//!
//! B5 (`limit` is ignored, and no call uses a query or tags) and B7 (no validation) have only vectors. Negative
//! numbers and fractions need no test, because they are not a `u64`.

use crate::vectors;
use lookback_session::Batch;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::vectors::{Step, assert_valid, messages, vectors};
use futures_lite::future::block_on;
use lookback_compat::agentlib::{
    Error, Options, ReadOptions, SlidingWindowMemory, Stats, Tags, Utf16, WriteOptions, estimate_tokens,
    trim_to_token_budget,
};
use lookback_engine::transcript::Millis;
use lookback_store::search::Query;
use lookback_store::{Append, Hit, LogInfo};
use lookback_store::{LogName, MemoryStore, Store};
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::OpenAiChat;

fn options(value: &Value) -> Options {
    let options = Options::default();
    let options = value["maxTokens"].as_u64().map_or(options, |tokens| options.max_tokens(tokens));
    value["maxTurns"].as_u64().map_or(options, |turns| options.max_turns(turns))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn tags(value: &Value) -> Tags {
    let members = value["tags"].as_object().into_iter().flatten();
    members.map(|(key, value)| (key.clone(), text(value).unwrap())).collect()
}

/// Makes a call, and returns its result in the format of the vectors.
async fn call(memory: &SlidingWindowMemory, Step { call, with, .. }: &Step) -> Result<Value, Error> {
    let session = with["sessionId"].as_str();
    let list = || messages(DIALECT, &with["messages"]);
    Ok(match call.as_str() {
        "new" => {
            SlidingWindowMemory::new(options(with))?;
            Value::Null
        }
        "write" => {
            let default = session.map_or_else(WriteOptions::default, WriteOptions::session);
            let mut to = default.tags(tags(with));
            if let Some(name) = text(&with["agentName"]) {
                to = to.agent_name(name);
            }
            memory.write(list(), &to).await?;
            Value::Null
        }
        "read" | "search" => {
            let default = session.map_or_else(ReadOptions::default, ReadOptions::session);
            let mut options = default.tags(tags(with));
            if let Some(limit) = with["limit"].as_u64() {
                options = options.limit(limit);
            }
            if let Some(query) = text(&with["query"]) {
                options = options.query(query);
            }
            let found = if call == "read" { memory.read(&options).await? } else { memory.search(&options).await? };
            vectors::json(DIALECT, &found)
        }
        "clear" => {
            memory.clear(session).await?;
            Value::Null
        }
        "entries" => {
            let entries = memory.entries(session).await?;
            let entry = |entry: &lookback_compat::agentlib::MemoryEntry| {
                assert!(entry.created_at.is_some() && entry.created_at <= entry.accessed_at);
                let mut value = json!({
                    "id": entry.id,
                    "tags": entry.tags,
                    "tokenCount": entry.token_count,
                    "messages": vectors::json(DIALECT, &entry.messages),
                });
                if let Some(agent) = &entry.agent_name {
                    value["agentName"] = json!(agent);
                }
                value
            };
            entries.iter().map(entry).collect()
        }
        "stats" => match memory.stats(session.unwrap()).await? {
            Some(Stats { turns, estimated_tokens, .. }) => {
                json!({ "turns": turns, "estimatedTokens": estimated_tokens })
            }
            None => json!("none"),
        },
        "estimateTokens" => json!(estimate_tokens(with["text"].as_str().unwrap())),
        "trimToTokenBudget" => {
            vectors::json(DIALECT, &trim_to_token_budget(list(), with["maxTokens"].as_u64().unwrap())?)
        }
        other => panic!("no call `{other}`"),
    })
}

#[test]
fn the_vectors_hold() {
    hold(&|options| SlidingWindowMemory::new(options).unwrap());
}

#[test]
fn the_vectors_hold_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = std::cell::Cell::new(0);
    hold(&|options| {
        files.set(files.get() + 1);
        let path = folder.path().join(files.get().to_string());
        let store = lookback_sqlite::SqliteStore::open_with(path, lookback_store::Durability::System).unwrap();
        SlidingWindowMemory::over(store, options).unwrap()
    });
}

fn hold(open: &dyn Fn(Options) -> SlidingWindowMemory) {
    for vector in vectors("agentlib.json") {
        let name = &vector.name;
        let memory = open(options(&vector.options));
        for (index, step) in vector.steps.iter().enumerate() {
            let place = format!("{name}: step {index}, {}", step.call);
            match (block_on(call(&memory, step)), &step.fails) {
                (Ok(gives), None) => {
                    if matches!(step.call.as_str(), "read" | "search" | "trimToTokenBudget") {
                        assert_valid(DIALECT, &gives, &place);
                    }
                    if let Some(expected) = &step.gives {
                        assert_eq!(&gives, expected, "{place}");
                    }
                }
                (Err(error), Some(fails)) => assert_eq!(&error.to_string(), fails, "{place}"),
                (result, fails) => panic!("{place}: {result:?} where {fails:?} was to come"),
            }
        }
    }
}

#[test]
fn every_fault_is_covered() {
    let of_vectors = vectors("agentlib.json").into_iter().filter_map(|vector| text(&json!(vector.source)));
    let mut covered: BTreeSet<String> =
        of_vectors.filter_map(|source| source.strip_prefix("fault ").map(str::to_owned)).collect();
    // These have tests below.
    covered.extend(["B1", "B2", "B3", "B4", "B6", "B8", "B9"].map(str::to_owned));
    assert_eq!(covered, (1..=9).map(|number| format!("B{number}")).collect());
}

fn memory(max_tokens: u64, max_turns: u64) -> SlidingWindowMemory {
    SlidingWindowMemory::new(Options::default().max_tokens(max_tokens).max_turns(max_turns)).unwrap()
}

fn exchange(text: &str) -> Vec<Message> {
    vec![Message::user(text), Message::assistant(format!("an answer to {text}"))]
}

fn round(id: &str, result: &str) -> Vec<Message> {
    let call = ToolCall::new(id, "look", "{}");
    vec![Message::assistant_with_calls("", [call]), Message::tool_result(id, result)]
}

fn read(memory: &SlidingWindowMemory) -> Vec<Message> {
    let messages = block_on(memory.read(&ReadOptions::default())).unwrap();
    assert_valid(DIALECT, &vectors::json(DIALECT, &messages), "a read");
    messages
}

fn write(memory: &SlidingWindowMemory, messages: Vec<Message>) {
    block_on(memory.write(messages, &WriteOptions::default())).unwrap();
}

fn stats(memory: &SlidingWindowMemory) -> Stats {
    block_on(memory.stats("default")).unwrap().unwrap()
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

/// Runs the system's agent: it reads, adds its system prompt, continues, and writes everything back.
fn run(memory: &SlidingWindowMemory, said: Vec<Message>) {
    let mut state = read(memory);
    state.push(Message::system("Be brief."));
    state.extend(said);
    write(memory, state);
}

/// A store in memory that counts the entries and bytes that are appended.
#[derive(Debug, Default)]
struct Counted {
    store: MemoryStore,
    appended: std::sync::Mutex<(u64, u64)>,
}

impl Store for Counted {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> lookback_store::StoreFuture<'a, ()> {
        let mut appended = self.appended.lock().unwrap();
        appended.0 += append.records.len() as u64;
        appended.1 += append.records.iter().map(|record| record.body.len() as u64).sum::<u64>();
        self.store.append(log, append)
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> lookback_store::StoreFuture<'a, bool> {
        self.store.touch(log, time)
    }
    fn read<'a>(
        &'a self,
        log: &'a LogName,
        span: std::ops::Range<u64>,
    ) -> lookback_store::StoreFuture<'a, Vec<String>> {
        self.store.read(log, span)
    }
    fn head<'a>(
        &'a self,
        log: &'a LogName,
        before: Option<u64>,
    ) -> lookback_store::StoreFuture<'a, Option<lookback_store::Head>> {
        self.store.head(log, before)
    }
    fn info<'a>(&'a self, log: &'a LogName) -> lookback_store::StoreFuture<'a, Option<LogInfo>> {
        self.store.info(log)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> lookback_store::StoreFuture<'a, Vec<LogInfo>> {
        self.store.list(prefix)
    }
    fn delete<'a>(&'a self, logs: &'a [LogName]) -> lookback_store::StoreFuture<'a, u64> {
        self.store.delete(logs)
    }
    fn erase<'a>(
        &'a self,
        log: &'a LogName,
        tombstones: Vec<lookback_store::Tombstone>,
    ) -> lookback_store::StoreFuture<'a, ()> {
        self.store.erase(log, tombstones)
    }

    fn clear(&self) -> lookback_store::StoreFuture<'_, u64> {
        self.store.clear()
    }
    fn search<'a>(
        &'a self,
        log: Option<&'a LogName>,
        query: &'a Query,
        most: usize,
    ) -> lookback_store::StoreFuture<'a, Vec<Hit>> {
        self.store.search(log, query, most)
    }
}

#[test]
fn the_defaults_are_those_of_the_document() {
    let memory = SlidingWindowMemory::new(Options::default()).unwrap();
    for number in 0..60 {
        write(&memory, exchange(&format!("{number} {}", "x".repeat(1_000))));
    }
    assert_eq!(stats(&memory).turns, 50);
    let kept = vectors::json(DIALECT, &read(&memory));
    // Each message has about 260 tokens, so 15 of them fit.
    assert_eq!(kept.as_array().unwrap().len(), 15);
    assert_eq!(SlidingWindowMemory::TYPE, "sliding-window");
}

#[test]
fn a_read_says_that_the_session_was_used() {
    let memory = memory(100, 5);
    let entry = || block_on(memory.entries(Some("default"))).unwrap().remove(0);
    write(&memory, exchange("one"));
    let before = entry();
    std::thread::sleep(Duration::from_millis(5));
    read(&memory);
    let after = entry();
    assert!(after.accessed_at > before.accessed_at);
    std::thread::sleep(Duration::from_millis(5));
    block_on(memory.search(&ReadOptions::default().query("one"))).unwrap();
    assert!(entry().accessed_at > after.accessed_at);
    write(&memory, exchange("two"));
    assert_eq!((entry().created_at, entry().id), (before.created_at, before.id));
}

#[test]
fn what_was_read_is_the_readers_own() {
    let memory = memory(100, 5);
    write(&memory, exchange("one"));
    let mut own = read(&memory);
    own[0] = Message::user("changed");
    own.clear();
    assert_eq!(texts(&read(&memory)), texts(&exchange("one")));
}

#[test]
fn b1_a_transcript_that_is_written_again_is_not_doubled() {
    let memory = memory(100_000, 50);
    for runs in 1..=30 {
        run(&memory, exchange(&format!("question {runs}")));
        assert_eq!(stats(&memory).turns, runs);
        assert_eq!(read(&memory).len() as u64, 2 * runs);
    }
}

#[test]
fn b1_nor_where_the_window_is_small_and_tools_are_used() {
    let store = Arc::new(MemoryStore::new());
    let open = || SlidingWindowMemory::over(store.clone(), Options::default().max_tokens(60).max_turns(5)).unwrap();
    let mut memory = open();
    for runs in 1..=40_u64 {
        let id = format!("call-{runs}");
        let said = [exchange(&format!("question {runs}")), round(&id, "found")].concat();
        let said = [&said[..1], &said[2..], &said[1..2]].concat();
        if runs % 5 == 0 {
            // The transcript is written by another process than the one that read it.
            let mut state = read(&memory);
            memory = open();
            state.extend(said);
            write(&memory, state);
        } else {
            run(&memory, said);
        }
        assert_eq!(stats(&memory).turns, runs.min(5));
    }
    let everything = ReadOptions::default().query("question 7");
    let found = block_on(open().search(&everything)).unwrap();
    assert_eq!(found.iter().filter(|message| message.text() == "question 7").count(), 1);
}

#[test]
fn b1_nor_where_several_runs_begin_at_once() {
    let memory = memory(10_000, 50);
    write(&memory, exchange("how it began"));
    let runs: Vec<_> = (0..20).map(|number| (number, read(&memory))).collect();
    for (number, mut state) in runs {
        state.extend(exchange(&format!("branch {number}")));
        write(&memory, state);
    }
    assert_eq!((stats(&memory).turns, read(&memory).len()), (21, 42));
}

#[test]
fn b1_nor_where_a_stand_in_comes_back() {
    let memory = memory(10_000, 50);
    write(&memory, vec![Message::user("look it up"), round("k", "")[0].clone()]);
    run(&memory, exchange("never mind"));
    assert_eq!(read(&memory).len(), 5);
    // The late result replaces the stand-in.
    write(&memory, vec![round("k", "found")[1].clone()]);
    let window = read(&memory);
    assert_eq!((window.len(), window[2].text().as_str()), (5, "found"));
}

#[test]
fn b1_nor_where_a_result_takes_the_place_of_its_stand_in() {
    let memory = memory(10_000, 1);
    let asked = || Message::user("look it up");
    write(&memory, [exchange("one"), vec![asked(), round("k", "")[0].clone()]].concat());
    let mut state = read(&memory);
    assert!(state.pop().unwrap().text().contains("interrupted"));
    state.extend([round("k", "found")[1].clone(), Message::assistant("It is there.")]);
    write(&memory, state.clone());
    assert_eq!((stats(&memory).turns, texts(&read(&memory))), (1, texts(&state)));
    let found = block_on(memory.search(&ReadOptions::default().query("look it up")));
    assert_eq!(found.unwrap().len(), 1);
}

#[test]
fn b2_no_orphan_tool_results_after_a_trim() {
    let rounds = (0..4).flat_map(|number| round(&format!("k{number}"), &"r".repeat(30 * number)));
    let messages: Vec<_> = [Message::user("go")].into_iter().chain(rounds).chain(exchange("and then")).collect();
    for budget in 1..200 {
        let memory = memory(budget, 50);
        write(&memory, messages.clone());
        // `read` checks each window against the provider's rules.
        let window = vectors::json(DIALECT, &read(&memory));
        let all = vectors::json(DIALECT, &messages);
        assert!(all.as_array().unwrap().ends_with(window.as_array().unwrap()));
        assert_eq!(trim_to_token_budget(messages.clone(), budget).unwrap().len(), window.as_array().unwrap().len());
    }
}

#[test]
fn b3_the_newest_message_is_always_read() {
    for newest in [Message::user("x".repeat(4_000)), Message::assistant("y".repeat(4_000))] {
        let memory = memory(10, 50);
        write(&memory, [exchange("one"), vec![newest.clone()]].concat());
        assert_eq!(texts(&read(&memory)), [newest.text()]);
    }
}

#[test]
fn b4_arguments_and_reasoning_are_counted() {
    let arguments = format!(r#"{{"text":"{}"}}"#, "w".repeat(4_000));
    let memory = memory(100_000, 50);
    write(
        &memory,
        vec![Message::user("q"), Message::assistant_with_calls("", [ToolCall::new("k", "save", &*arguments)])],
    );
    assert!(stats(&memory).estimated_tokens > 1_000);
}

#[test]
fn b6_sessions_outlive_the_process_and_few_are_held_open() {
    let store = Arc::new(MemoryStore::new());
    let open = || SlidingWindowMemory::over(store.clone(), Options::default()).unwrap();
    let memory = open();
    for number in 0..300 {
        let id = format!("chat-{number}");
        block_on(memory.write(exchange(&id), &WriteOptions::session(&*id))).unwrap();
    }
    assert!(format!("{memory:?}").contains("open: Some(128)"), "{memory:?}");
    let memory = open();
    for number in [0, 150, 299] {
        let id = format!("chat-{number}");
        assert_eq!(texts(&block_on(memory.read(&ReadOptions::session(&*id))).unwrap()), texts(&exchange(&id)));
    }
    assert_eq!(block_on(memory.entries(None)).unwrap().len(), 300);
    // A session that one memory clears is gone for another memory over the same store.
    let other = open();
    block_on(other.clear(Some("chat-0"))).unwrap();
    assert!(block_on(memory.read(&ReadOptions::session("chat-0"))).unwrap().is_empty());
    block_on(memory.write(exchange("again"), &WriteOptions::session("chat-0"))).unwrap();
    assert_eq!(block_on(other.stats("chat-0")).unwrap().unwrap().turns, 1);
}

#[test]
fn b8_a_turn_without_end_is_read_and_held_in_part_and_counted_whole() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let options = Options::default().max_tokens(200).max_turns(2);
    let memory = SlidingWindowMemory::over(store.clone(), options).unwrap();
    write(&memory, vec![Message::user("go on and on")]);
    for number in 0..500 {
        for message in round(&format!("k{number}"), "r".repeat(80).as_str()) {
            write(&memory, vec![message]);
        }
        let window = read(&memory);
        assert_eq!(window.last().unwrap().text(), "r".repeat(80));
        assert!(window.len() <= 14);
    }
    // The memory holds at most twice the messages that reads have room for. The statistics count the whole turn.
    let settings = lookback_engine::Settings::default().counter(Utf16);
    let session = block_on(lookback_session::Session::open(store, "default", settings)).unwrap();
    assert!(session.view().totals().size.tokens <= 2 * 2 * 200);
    // The question has 7 tokens, and each round a call of 7 and a result of 25.
    let all = 7 + 500 * (7 + 25);
    let kept = block_on(memory.entries(Some("default"))).unwrap().remove(0);
    assert_eq!((stats(&memory).turns, kept.messages.len()), (1, 1_001));
    assert_eq!((stats(&memory).estimated_tokens, kept.token_count), (all, all));
    // If each turn fits the limit in tokens, none is dropped.
    let memory = self::memory(200, 5);
    (0..5).for_each(|number| write(&memory, exchange(&format!("{number} {}", "z".repeat(300)))));
    assert_eq!(stats(&memory).turns, 5);
}

#[test]
fn b9_a_write_costs_the_same_however_long_the_history() {
    let store = Arc::new(Counted::default());
    let memory = SlidingWindowMemory::over(store.clone(), Options::default().max_tokens(500).max_turns(10)).unwrap();
    let cost = |turns: std::ops::Range<u32>| {
        *store.appended.lock().unwrap() = (0, 0);
        turns.for_each(|number| write(&memory, exchange(&format!("question {number:05}"))));
        *store.appended.lock().unwrap()
    };
    cost(0..100);
    let (early, early_bytes) = cost(100..400);
    cost(400..1_700);
    let (late, late_bytes) = cost(1_700..2_000);
    // One of the two periods may have one more checkpoint.
    assert!(late <= early + 1, "{late} entries after {early}");
    assert!(late_bytes <= early_bytes + early_bytes / 20, "{late_bytes} bytes after {early_bytes}");
    assert!(late <= 4 * 300, "{late} entries for 300 writes");
}

#[test]
fn many_writers_lose_and_double_nothing() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    for (writers, count) in [(20, 1), (8, 250)] {
        let memory = memory(1_000_000, 10_000);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let memory = &memory;
                scope.spawn(move || {
                    for number in 0..count {
                        let message = Message::user(format!("writer {writer} says {number:03}"));
                        block_on(is_send(memory.write(vec![message], &WriteOptions::default()))).unwrap();
                    }
                });
            }
        });
        let all = texts(&read(&memory));
        assert_eq!(all.len(), writers * count);
        for writer in 0..writers {
            let own: Vec<_> = all.iter().filter(|text| text.starts_with(&format!("writer {writer} "))).collect();
            assert!(own.is_sorted());
            assert_eq!(own.len(), count);
        }
    }
}

fn tag(value: &str) -> Tags {
    Tags::from([("writer".to_owned(), value.to_owned())])
}

#[test]
fn tags_come_back_as_they_were_whatever_is_in_them() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let memory = SlidingWindowMemory::over(store.clone(), Options::default()).unwrap();
    let pairs = [("plain", "x"), ("empty", ""), ("a=b", "c=d"), ("100%", "%3D"), ("", "nothing"), ("a", "b=c=d")];
    let tags: Tags = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    for (index, (key, value)) in tags.iter().enumerate() {
        let tags = Tags::from([(key.clone(), value.clone())]);
        let to = WriteOptions::default().tags(tags.clone());
        block_on(memory.write(vec![Message::user(format!("under tag {index}"))], &to)).unwrap();
        assert_eq!(block_on(memory.entries(None)).unwrap()[0].tags, tags);
    }
    for (index, (key, value)) in tags.iter().enumerate() {
        let of = ReadOptions::default().tags(Tags::from([(key.clone(), value.clone())]));
        assert_eq!(texts(&block_on(memory.search(&of)).unwrap()), [format!("under tag {index}")]);
    }
    // Labels that other programs or older versions have written are keys without values.
    let label = lookback_engine::transcript::Label::default().tags(["empty"]);
    let mut session =
        block_on(lookback_session::Session::open(store, "other", lookback_engine::Settings::default())).unwrap();
    block_on(session.append(Batch::default().label(label))).unwrap();
    block_on(session.push(Message::user("from elsewhere"))).unwrap();
    let tags = Tags::from([("empty".to_owned(), String::new())]);
    let of = ReadOptions::session("other").tags(tags.clone());
    assert_eq!(texts(&block_on(memory.search(&of)).unwrap()), ["from elsewhere"]);
    assert_eq!(block_on(memory.entries(Some("other"))).unwrap()[0].tags, tags);
}

#[test]
fn what_is_written_has_its_own_tags_whoever_else_writes() {
    const WRITES: usize = 100;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let names = ["one", "two", "three"];
    let memories = names.map(|_| SlidingWindowMemory::over(store.clone(), Options::default()).unwrap());
    std::thread::scope(|scope| {
        for (memory, name) in memories.iter().zip(names) {
            scope.spawn(move || {
                let to = WriteOptions::default().tags(tag(name));
                for number in 0..WRITES {
                    block_on(memory.write(vec![Message::user(format!("{name} {number}"))], &to)).unwrap();
                }
            });
        }
    });
    let reader = SlidingWindowMemory::over(store, Options::default().max_tokens(100_000).max_turns(1)).unwrap();
    for name in names {
        let of = ReadOptions::default().tags(tag(name));
        let said = texts(&block_on(reader.search(&of)).unwrap());
        assert_eq!(said.len(), WRITES, "{name}");
        assert!(said.iter().all(|text| text.starts_with(name)), "{name}: {said:?}");
    }
}

#[test]
fn many_sessions_at_once_are_kept_apart() {
    let memory = memory(1_000_000, 10_000);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let memory = &memory;
            scope.spawn(move || {
                for number in 0..200 {
                    let id = format!("chat-{}", number % 190);
                    let message = Message::user(format!("writer {writer} says {number}"));
                    block_on(memory.write(vec![message], &WriteOptions::session(id))).unwrap();
                }
            });
        }
    });
    let entries = block_on(memory.entries(None)).unwrap();
    assert_eq!(entries.len(), 190);
    assert_eq!(entries.iter().map(|entry| entry.messages.len()).sum::<usize>(), 8 * 200);
    block_on(memory.clear(None)).unwrap();
    assert!(block_on(memory.entries(None)).unwrap().is_empty());
}

/// Makes a message from its kind, its call's identifier and its length.
fn said((kind, id, length): (u8, u8, usize), number: usize) -> Message {
    let (id, text) = (format!("k{id}"), format!("{number} {}", "x".repeat(length)));
    match kind {
        0 => Message::user(text),
        1 => Message::assistant(text),
        2 => Message::assistant_with_calls(
            "",
            [ToolCall::new(id, "look", "{}"), ToolCall::new(format!("b{number}"), "look", "{}")],
        ),
        _ => Message::tool_result(id, text),
    }
}

proptest! {
    #![proptest_config(Config { cases: 64, rng_seed: RngSeed::Fixed(7), ..Config::default() })]

    #[test]
    fn whatever_is_written_a_read_is_valid(
        all in prop::collection::vec((0..4u8, 0..4u8, 0..60usize), 1..40),
        (max_tokens, max_turns, limit, at_once) in (1..120u64, 1..6u64, 1..8u64, 1..5usize),
    ) {
        let memory = memory(max_tokens, max_turns);
        let all: Vec<_> = all.into_iter().enumerate().map(|(number, one)| said(one, number)).collect();
        for part in all.chunks(at_once) {
            write(&memory, part.to_vec());
            read(&memory);
            let newest = || ReadOptions::default().limit(limit);
            for options in [newest(), newest().query("x"), newest().query("look")] {
                let messages = block_on(memory.search(&options)).unwrap();
                assert_valid(DIALECT, &vectors::json(DIALECT, &messages), "a read with options");
            }
        }
    }

    #[test]
    fn an_agent_doubles_nothing_whatever_it_reads(
        runs in prop::collection::vec((prop::collection::vec((1..4u8, 0..4u8, 0..60usize), 0..5), 0..4u64), 1..12),
        max_tokens in 1..200u64,
    ) {
        let memory = memory(max_tokens, 1_000_000);
        let mut number = 0;
        for (index, (answers, limit)) in runs.iter().enumerate() {
            let limit = Some(*limit).filter(|limit| *limit > 0);
            let options = limit.map_or_else(ReadOptions::default, |limit| ReadOptions::default().limit(limit));
            let mut state = block_on(memory.read(&options)).unwrap();
            state.push(Message::user(format!("question {index}")));
            for answer in answers {
                state.push(said(*answer, number));
                number += 1;
            }
            // An answer follows, because a single message would always be new.
            state.push(Message::assistant(format!("answer {index}")));
            write(&memory, state);
            prop_assert_eq!(stats(&memory).turns, index as u64 + 1);
            let asked = block_on(memory.search(&ReadOptions::default().query("question")));
            prop_assert!(asked.unwrap().len() <= index + 1);
        }
    }
}
