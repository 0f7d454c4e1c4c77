//! `LangChain4j`'s chat memories: the vectors of `corpus/systems/langchain4j.json`, which both memories pass, and
//! tests for its faults.
//!
//! A limit of n messages is 10 n + 3 tokens for the memory with a limit in tokens, because every message costs 10 and
//! a request 3. Two of the original's checks need no test, because their types have no such values: a limit below
//! zero, and a function or an identifier that is null.
//!
//! Two faults are required by the original's own tests, so they are repeated. The vector "the system message is never
//! evicted, and counts" shows both:
//!
//! - L4: a window may begin with the assistant.
//! - L6: the system message counts against the limit.

use crate::vectors;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use lookback_compat::langchain4j::{
    Builder, ChatMemory, ChatMemoryError, ChatMemoryStore, FromChatMemoryStore, MessageWindowChatMemory,
    OpenAiTokenCountEstimator, SingleSlotChatMemoryStore, TokenWindowChatMemory,
};
use lookback_engine::transcript::Millis;
use lookback_models::Frame;
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, Record, StoreFuture};
use lookback_store::{LogName, MemoryStore, Store, StoreError};
use lookback_tokens::measure;
use lookback_tokens::{OpenAiCounter, TokenCounter, Vocabulary};
use lookback_wire::{
    dialect::Dialect,
    message::{Message, ToolCall},
};
use serde_json::{Value, json};

use self::vectors::{Vector, assert_valid, messages, vectors};

const DIALECT: Dialect = Dialect::OpenAiChat;

/// A counter that counts 10 tokens for every message.
#[derive(Debug)]
struct Ten;

impl TokenCounter for Ten {
    fn name(&self) -> &str {
        "ten"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn text(&self, _: &str) -> u64 {
        0
    }

    fn frame(&self) -> Frame {
        Frame { message: 10, ..Frame::default() }
    }
}

/// A store that counts writes, and can be full.
#[derive(Debug, Default)]
struct Counted {
    store: MemoryStore,
    writes: AtomicU64,
    full: AtomicBool,
}

impl Store for Counted {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> StoreFuture<'a, ()> {
        if self.full.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(StoreError::Full { place: "counted".into() })));
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.store.append(log, append)
    }

    fn touch<'a>(&'a self, log: &'a LogName, time: Millis) -> StoreFuture<'a, bool> {
        self.store.touch(log, time)
    }

    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        self.store.read(log, span)
    }

    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.store.head(log, before)
    }

    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.store.info(log)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.store.list(prefix)
    }

    fn delete<'a>(&'a self, logs: &'a [LogName]) -> StoreFuture<'a, u64> {
        self.store.delete(logs)
    }

    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<lookback_store::Tombstone>) -> StoreFuture<'a, ()> {
        self.store.erase(log, tombstones)
    }

    fn clear(&self) -> StoreFuture<'_, u64> {
        self.store.clear()
    }

    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        self.store.search(log, query, most)
    }
}

/// One of the two memories.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Twin {
    Messages,
    Tokens,
}

/// Either of the two memories.
enum Memory {
    Messages(MessageWindowChatMemory),
    Tokens(TokenWindowChatMemory),
}

/// Calls a method of either memory.
macro_rules! on {
    ($memory:expr, $method:ident($($given:expr),*)) => {
        match $memory {
            Memory::Messages(memory) => block_on(memory.$method($($given),*)),
            Memory::Tokens(memory) => block_on(memory.$method($($given),*)),
        }
    };
}

impl Memory {
    fn id(&self) -> &str {
        match self {
            Memory::Messages(memory) => memory.id(),
            Memory::Tokens(memory) => memory.id(),
        }
    }
}

/// The options and the store of one vector.
struct Stage<'a> {
    options: &'a Value,
    twin: Twin,
    /// The current limit, which a step may change.
    limit: Arc<AtomicU64>,
    counted: Arc<Counted>,
}

impl Stage<'_> {
    /// Converts a limit to messages or tokens, whichever the memory counts.
    fn limit(&self, limit: u64) -> u64 {
        let in_messages = self.options.get("maxTokens").or(self.options.get("dynamicMaxTokens")).is_none();
        if self.twin == Twin::Tokens && in_messages && limit > 0 { 10 * limit + 3 } else { limit }
    }

    fn build(&self) -> Result<Memory, ChatMemoryError> {
        let options = self.options.as_object().unwrap();
        let known = ["maxMessages", "dynamicMaxMessages", "maxTokens", "dynamicMaxTokens", "id", "chatMemoryStore"];
        let more = ["alwaysKeepSystemMessageFirst", "tokenCountEstimator", "tokensPerRequest"];
        assert!(options.keys().all(|key| known.contains(&key.as_str()) || more.contains(&key.as_str())), "{options:?}");
        let fixed = options.get("maxMessages").or(options.get("maxTokens")).and_then(Value::as_u64);
        let dynamic = options.get("dynamicMaxMessages").or(options.get("dynamicMaxTokens"));
        let id = options.get("id").and_then(Value::as_str).unwrap_or("default");
        if let Some(limit) = fixed.or_else(|| dynamic.map(|limits| limits[id].as_u64().unwrap())) {
            let limit = self.limit(limit);
            self.limit.compare_exchange(u64::MAX, limit, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_default();
        }
        let (limit, own) = (self.limit.clone(), id.to_owned());
        let most = move |asked: &str| {
            assert_eq!(asked, own);
            limit.load(Ordering::SeqCst)
        };
        let now = self.limit.load(Ordering::SeqCst);
        match self.twin {
            Twin::Messages => {
                let builder = self.common(MessageWindowChatMemory::builder());
                let builder = match (fixed, dynamic) {
                    (Some(_), _) => builder.max_messages(now),
                    (None, Some(_)) => builder.dynamic_max_messages(most),
                    (None, None) => builder,
                };
                builder.build().map(Memory::Messages)
            }
            Twin::Tokens => {
                let mut builder = self.common(TokenWindowChatMemory::builder());
                if options.get("tokenCountEstimator") != Some(&Value::Null) {
                    builder = builder.token_counter(Ten);
                }
                if let Some(tokens) = options.get("tokensPerRequest") {
                    builder = builder.tokens_per_request(tokens.as_u64().unwrap());
                }
                let builder = match (fixed, dynamic) {
                    (Some(_), _) => builder.max_tokens(now),
                    (None, Some(_)) => builder.dynamic_max_tokens(most),
                    (None, None) => builder,
                };
                builder.build().map(Memory::Tokens)
            }
        }
    }

    /// Sets the options that both memories have.
    fn common<M>(&self, mut builder: Builder<M>) -> Builder<M> {
        if let Some(id) = self.options.get("id") {
            builder = builder.id(id.as_str().unwrap());
        }
        if let Some(first) = self.options.get("alwaysKeepSystemMessageFirst") {
            builder = builder.always_keep_system_message_first(first.as_bool().unwrap());
        }
        match self.options.get("chatMemoryStore").and_then(Value::as_str) {
            None => builder,
            Some("counted") => builder.chat_memory_store(self.counted.clone()),
            Some(of) => {
                let id = of.strip_prefix("of ").unwrap();
                builder.chat_memory_store(SingleSlotChatMemoryStore::new(id).unwrap())
            }
        }
    }
}

/// Returns the text of an error and of its causes.
fn describe(error: &ChatMemoryError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn json_of(messages: &[Message]) -> Value {
    vectors::json(DIALECT, messages)
}

/// Returns the window after the calls of the newest message are answered, which is when it is sent.
fn answered(window: &Value) -> Value {
    let mut list = window.as_array().unwrap().clone();
    let Some(last) = list.iter().rposition(|message| message["role"] != "tool") else { return window.clone() };
    for call in list[last]["tool_calls"].as_array().cloned().unwrap_or_default() {
        if !list[last..].iter().any(|message| message["tool_call_id"] == call["id"]) {
            list.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "seen"}));
        }
    }
    Value::Array(list)
}

fn play(vector: &Vector, twin: Twin) {
    let name = format!("{} ({twin:?})", vector.name);
    let limit = Arc::new(AtomicU64::new(u64::MAX));
    let stage = Stage { options: &vector.options, twin, limit, counted: Arc::default() };
    let mut memory = None;
    for (number, step) in vector.steps.iter().enumerate() {
        let place = format!("{name}, step {}: {}", number + 1, step.call);
        if step.call == "limit" {
            stage.limit.store(stage.limit(step.with.as_u64().unwrap()), Ordering::SeqCst);
            continue;
        }
        if memory.is_none() || step.call == "reopen" {
            memory = match (step.call.as_str(), stage.build()) {
                ("build", Err(error)) => {
                    let wanted = step.fails.clone().unwrap_or_else(|| panic!("{place}: {error}"));
                    let option = if twin == Twin::Tokens { "maxTokens" } else { "maxMessages" };
                    assert!(describe(&error).contains(&wanted.replace("maxMessages", option)), "{place}: {error}");
                    continue;
                }
                (_, built) => Some(built.unwrap_or_else(|error| panic!("{place}: {error}"))),
            };
        }
        let memory = memory.as_ref().unwrap();
        let result = match step.call.as_str() {
            "id" => Ok(json!(memory.id())),
            "writes" => Ok(json!(stage.counted.writes.load(Ordering::SeqCst))),
            "reopen" => Ok(Value::Null),
            "add" if step.with.is_array() => on!(memory, add_all(messages(DIALECT, &step.with))).map(|()| Value::Null),
            "add" => {
                let given = messages(DIALECT, &json!([step.with])).remove(0);
                on!(memory, add(given)).map(|()| Value::Null)
            }
            "set" => on!(memory, set(messages(DIALECT, &step.with))).map(|()| Value::Null),
            "clear" => on!(memory, clear()).map(|()| Value::Null),
            "messages" => on!(memory, messages()).map(|window| {
                let window = json_of(&window);
                assert_valid(DIALECT, &answered(&window), &place);
                window
            }),
            call => panic!("{place}: there is no call {call}"),
        };
        match (result, &step.fails) {
            (Ok(given), None) => {
                let Some(wanted) = &step.gives else { continue };
                assert_eq!(&given, wanted, "{place} gives\n{given}\nand not\n{wanted}");
            }
            (Err(error), Some(wanted)) => {
                let wanted =
                    if twin == Twin::Tokens { wanted.replace("maxMessages", "maxTokens") } else { wanted.clone() };
                assert!(describe(&error).contains(&wanted), "{place} says: {}", describe(&error));
            }
            (Ok(given), Some(wanted)) => panic!("{place}: it gives {given}, and should fail: {wanted}"),
            (Err(error), None) => panic!("{place}: {}", describe(&error)),
        }
    }
}

#[test]
fn both_memories_do_what_the_vectors_say() {
    for vector in vectors("langchain4j.json") {
        let own = ["maxTokens", "dynamicMaxTokens"].iter().any(|option| vector.options.get(option).is_some());
        if !own {
            play(&vector, Twin::Messages);
        }
        play(&vector, Twin::Tokens);
    }
}

#[test]
fn every_fault_has_a_vector_a_test_or_a_line() {
    let vectors = vectors("langchain4j.json");
    let mut covered: BTreeSet<_> = vectors.iter().filter_map(|vector| vector.source.strip_prefix("fault ")).collect();
    let named = "the system message is never evicted, and counts";
    assert!(vectors.iter().any(|vector| vector.name == named && vector.source == "tests"));
    covered.extend(["L4", "L5", "L6"]);
    assert_eq!(Vec::from_iter(covered), ["L1", "L2", "L3", "L4", "L5", "L6"]);
}

fn texts<M>(memory: &ChatMemory<M>) -> Vec<String> {
    block_on(memory.messages()).unwrap().iter().map(Message::text).collect()
}

/// Writes to one memory from several threads, each with its own messages, and returns what the memory shows.
fn write<M>(memory_of: impl Fn() -> ChatMemory<M> + Sync, writers: usize, each: usize) -> Vec<String> {
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let memory_of = &memory_of;
            scope.spawn(move || {
                let memory = memory_of();
                for number in 0..each {
                    block_on(memory.add(Message::user(format!("{writer} {number}")))).unwrap();
                }
            });
        }
    });
    texts(&memory_of())
}

fn assert_complete(texts: &[String], writers: usize, each: usize) {
    assert_eq!(texts.len(), writers * each);
    for writer in 0..writers {
        let begins = format!("{writer} ");
        let own: Vec<_> = texts.iter().filter(|text| text.starts_with(&begins)).collect();
        let wanted: Vec<_> = (0..each).map(|number| format!("{writer} {number}")).collect();
        assert_eq!(own, wanted.iter().collect::<Vec<_>>());
    }
}

#[test]
fn l5_eight_threads_lose_and_double_nothing() {
    let memory = MessageWindowChatMemory::with_max_messages(4_000).unwrap();
    let texts = write(|| memory.clone(), 8, 250);
    assert_complete(&texts, 8, 250);
}

#[test]
fn l5_a_full_memory_keeps_each_writers_newest_in_order() {
    let memory = MessageWindowChatMemory::with_max_messages(10).unwrap();
    let texts = write(|| memory.clone(), 4, 50);
    assert_eq!(texts.len(), 10);
    for writer in 0..4 {
        let begins = format!("{writer} ");
        let own: Vec<_> = texts.iter().filter_map(|text| text.strip_prefix(&begins)).collect();
        let newest: Vec<_> = (50 - own.len()..50).map(|number| number.to_string()).collect();
        assert_eq!(own, newest);
    }
}

#[test]
fn ten_threads_that_ask_for_one_identifier_share_one_memory() {
    let store = Arc::new(MemoryStore::new());
    let shared = |store: &Arc<MemoryStore>| {
        MessageWindowChatMemory::builder().max_messages(100).chat_memory_store(store.clone()).build().unwrap()
    };
    let texts = write(|| shared(&store), 10, 3);
    assert_complete(&texts, 10, 3);
    assert_eq!(block_on(store.list("")).unwrap().len(), 1);
}

#[test]
fn two_memories_of_one_identifier_see_what_the_other_wrote() {
    let store = Arc::new(MemoryStore::new());
    let build = || MessageWindowChatMemory::builder().max_messages(2).chat_memory_store(store.clone()).build().unwrap();
    let (one, two) = (build(), build());
    block_on(one.add(Message::user("a"))).unwrap();
    assert_eq!(texts(&two), ["a"]);
    block_on(two.add_all(vec![Message::user("b"), Message::user("c")])).unwrap();
    assert_eq!(texts(&one), ["b", "c"]);
    block_on(two.clear()).unwrap();
    assert!(texts(&one).is_empty());
    block_on(one.add(Message::user("d"))).unwrap();
    assert_eq!(texts(&two), ["d"]);
    // The log has the same length as before, but it is another log.
    block_on(one.clear()).unwrap();
    block_on(one.add(Message::user("e"))).unwrap();
    assert_eq!(texts(&two), ["e"]);
}

#[test]
fn a_memory_outlives_its_process_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let build = || {
        let store = lookback_sqlite::SqliteStore::open(folder.path().join("memory.db")).unwrap();
        MessageWindowChatMemory::builder().id("chat/1").max_messages(3).chat_memory_store(store).build().unwrap()
    };
    for text in ["a", "b", "c", "d"] {
        block_on(build().add(Message::user(text))).unwrap();
    }
    assert_eq!(texts(&build()), ["b", "c", "d"]);
    block_on(build().clear()).unwrap();
    assert!(texts(&build()).is_empty());
}

#[test]
fn memories_of_one_store_stand_apart() {
    let store = Arc::new(MemoryStore::new());
    let build = |id: &str| {
        let builder = MessageWindowChatMemory::builder().id(id).max_messages(2);
        builder.chat_memory_store(store.clone()).build().unwrap()
    };
    let (one, two) = (build("one"), build("two"));
    block_on(one.add(Message::user("a"))).unwrap();
    block_on(two.add(Message::user("b"))).unwrap();
    block_on(one.clear()).unwrap();
    assert_eq!((texts(&one).len(), texts(&two)), (0, vec!["b".to_owned()]));
}

#[test]
fn setting_is_all_or_nothing() {
    let store = Arc::new(Counted::default());
    let builder = MessageWindowChatMemory::builder().max_messages(2);
    let memory = builder.chat_memory_store(store.clone()).build().unwrap();
    block_on(memory.add(Message::user("a"))).unwrap();
    store.full.store(true, Ordering::SeqCst);
    assert!(block_on(memory.set(vec![Message::user("b"), Message::user("c")])).is_err());
    assert!(block_on(memory.add(Message::user("d"))).is_err());
    assert_eq!(texts(&memory), ["a"]);
    store.full.store(false, Ordering::SeqCst);
    block_on(memory.set(vec![Message::user("b"), Message::user("c")])).unwrap();
    assert_eq!(texts(&memory), ["b", "c"]);
}

#[test]
fn what_was_evicted_is_found_until_the_memory_is_cleared() {
    let store = Arc::new(MemoryStore::new());
    let builder = MessageWindowChatMemory::builder().max_messages(1);
    let memory = builder.chat_memory_store(store.clone()).build().unwrap();
    block_on(memory.add_all(vec![Message::user("the blue boat"), Message::user("the red boat")])).unwrap();
    let found = || block_on(lookback_store::messages::search(&*store, None, "blue", 9)).unwrap().len();
    assert_eq!(found(), 1);
    block_on(memory.clear()).unwrap();
    assert_eq!((found(), block_on(store.list("")).unwrap().len()), (0, 0));
}

#[test]
fn a_slot_is_empty_then_holds_then_is_empty() {
    let slot = SingleSlotChatMemoryStore::new("X").unwrap();
    let (own, other): (LogName, LogName) = ("X".parse().unwrap(), "Y".parse().unwrap());
    let record = || Record::new("{}").text("word");
    assert!(block_on(slot.head(&own, None)).unwrap().is_none());
    block_on(slot.append(&own, Append::new(0, [record()]))).unwrap();
    assert_eq!(block_on(slot.read(&own, 0..9)).unwrap(), ["{}"]);
    assert_eq!(block_on(slot.search(None, &Query::new("word"), 9)).unwrap().len(), 1);
    assert!(block_on(slot.append(&other, Append::new(0, [record()]))).is_err());
    assert!(block_on(slot.read(&other, 0..9)).is_err());
    assert!(block_on(slot.search(Some(&other), &Query::new("word"), 9)).is_err());
    assert!(block_on(slot.delete(slice::from_ref(&other))).is_err());
    assert_eq!(block_on(slot.delete(slice::from_ref(&own))).unwrap(), 1);
    assert_eq!(block_on(slot.delete(slice::from_ref(&own))).unwrap(), 0);
}

#[test]
fn a_memory_can_be_used_by_tasks() {
    fn is_send<T: Send>(_: &T) {}
    let memory = MessageWindowChatMemory::with_max_messages(2).unwrap();
    let (add, set, read) = (memory.add(Message::user("a")), memory.set(vec![Message::user("b")]), memory.messages());
    is_send(&add);
    is_send(&set);
    is_send(&read);
    is_send(&memory.clear());
}

/// Returns a message for each number, in an order that no tool loop has: some calls are answered late, some twice,
/// some never.
fn anything(n: u64) -> Message {
    let id = |n: u64| format!("c{}", n % 7);
    match n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 {
        0 => Message::system(format!("rule {}", n % 3)),
        1 | 2 => Message::user(format!("question {n}")),
        3 => Message::assistant(format!("answer {n}")),
        4 => Message::assistant_with_calls(
            "",
            [ToolCall::new(id(n), "look", "{}"), ToolCall::new(id(n + 1), "look", "{}")],
        ),
        5 => Message::assistant_with_calls("", [ToolCall::new(id(n), "look", "{}")]),
        _ => Message::tool_result(id(n / 3), format!("seen {n}")),
    }
}

#[test]
fn whatever_comes_a_provider_takes_what_is_read_and_both_memories_agree() {
    for seed in 0..40 {
        let most = 1 + seed % 6;
        let first = seed % 2 == 0;
        let messages = MessageWindowChatMemory::builder().max_messages(most).always_keep_system_message_first(first);
        let tokens = TokenWindowChatMemory::builder().max_tokens(10 * most + 3).token_counter(Ten);
        let messages = messages.build().unwrap();
        let tokens = tokens.always_keep_system_message_first(first).build().unwrap();
        for n in 0..60 {
            let message = anything(seed * 1_000 + n);
            block_on(messages.add(message.clone())).unwrap();
            block_on(tokens.add(message)).unwrap();
            let window = json_of(&block_on(messages.messages()).unwrap());
            assert_valid(DIALECT, &answered(&window), &format!("seed {seed}, message {n}"));
            assert_eq!(window, json_of(&block_on(tokens.messages()).unwrap()), "seed {seed}, message {n}");
            let system = |message: &&Value| message["role"] == "system";
            let list = window.as_array().unwrap();
            assert!(list.iter().filter(system).count() <= 1);
            let called = |message: &Value| message.get("tool_calls").is_some();
            // Only these may exceed the limit: the system message, the round that the newest message answers, an open
            // round, and the end of the request.
            assert!(list.len() as u64 <= most.max(8), "{window}");
            assert!(list.len() as u64 <= most || list.iter().any(called) || most == 1, "{window}");
        }
    }
}

fn round(id: &str) -> [Message; 2] {
    [
        Message::assistant_with_calls("", [ToolCall::new(id, "look", "{}")]),
        Message::tool_result(id, format!("seen {id}")),
    ]
}

#[test]
fn what_was_read_in_the_middle_of_a_round_can_be_set_at_any_limit() {
    for most in 2..8 {
        let memory = MessageWindowChatMemory::with_max_messages(most).unwrap();
        let [call, result] = round("c1");
        block_on(memory.add_all(vec![Message::user("One?"), call])).unwrap();
        let before = json_of(&block_on(memory.messages()).unwrap());
        assert_eq!(before.as_array().unwrap().len(), 2);
        block_on(memory.set(block_on(memory.messages()).unwrap())).unwrap();
        assert_eq!(json_of(&block_on(memory.messages()).unwrap()), before);
        block_on(memory.add(result)).unwrap();
        assert_eq!(texts(&memory).last().unwrap(), "seen c1");
    }
}

#[test]
fn nothing_but_stand_ins_is_nothing_to_set() {
    let memory = MessageWindowChatMemory::with_max_messages(3).unwrap();
    let stand_in = Message::tool_result("c1", "[No result: the tool call was interrupted.]");
    block_on(memory.add(Message::user("One?"))).unwrap();
    assert!(matches!(block_on(memory.set(vec![stand_in])), Err(ChatMemoryError::Option(_))));
    assert_eq!(texts(&memory), ["One?"]);
}

#[test]
fn a_counter_may_be_shared_and_chosen_at_run_time() {
    let counter: Arc<dyn TokenCounter> = Arc::new(Ten);
    let build = || TokenWindowChatMemory::builder().max_tokens(23).token_counter(counter.clone()).build().unwrap();
    for memory in [build(), build()] {
        block_on(memory.add_all(["a", "b", "c"].map(Message::user).to_vec())).unwrap();
        assert_eq!(texts(&memory), ["b", "c"]);
    }
}

#[test]
fn the_estimator_counts_four_for_a_message_and_what_calls_cost_beside_their_words() {
    let words = OpenAiCounter::new(Vocabulary::Cl100k);
    let text = |text: &str| words.text(text);
    let estimator = OpenAiTokenCountEstimator::new("gpt-3.5-turbo").unwrap();
    let of = |message: &Message| measure(message, &[], &estimator).tokens;
    assert_eq!(of(&Message::user("Where is the harbour?")), 4 + text("Where is the harbour?"));
    assert_eq!(of(&Message::tool_result("call-17", "By the sea.")), 4 + text("By the sea."));
    let call = |id: &str| ToolCall::new(id, "calculator", r#"{"first": 2, "second": "two"}"#);
    let one = 4 + 3 - 1 + 2 * text("calculator") + text(r#"{"first": 2, "second": "two"}"#);
    assert_eq!(of(&Message::assistant_with_calls("", [call("c1")])), one);
    let arguments = 2 + text("first") + text("2") + 2 + text("second") + text("two");
    let two = 4 + 3 + 15 + 2 * (7 + text("calculator") + arguments);
    assert_eq!(of(&Message::assistant_with_calls("", [call("c1"), call("c2")])), two);
    assert_eq!(of(&Message::assistant_with_calls("Let me see.", [call("c1"), call("c2")])), two + text("Let me see."));
    let late = OpenAiTokenCountEstimator::new("gpt-3.5-turbo-1106").unwrap();
    assert_eq!(late.message(&Message::assistant_with_calls("", [call("c1"), call("c2")])), Some(two + 3));
    let told = OpenAiTokenCountEstimator::new("my-own-model").unwrap_err().to_string();
    assert_eq!(told, "modelName must be the name of an OpenAI model, got `my-own-model`");
}

#[test]
fn a_memory_in_tokens_goes_by_what_the_counter_says_of_whole_messages() {
    let estimator = OpenAiTokenCountEstimator::new("gpt-4o").unwrap();
    let calls = Message::assistant_with_calls("", ["c1", "c2"].map(|id| ToolCall::new(id, "look", r#"{"at": "sea"}"#)));
    let whole = estimator.message(&calls).unwrap();
    let question = estimator.message(&Message::user("Where?")).unwrap();
    for (room, kept) in [(whole + question, 2), (whole + question - 1, 1)] {
        let builder = TokenWindowChatMemory::builder().max_tokens(room + 3).token_counter(estimator.clone());
        let memory = builder.build().unwrap();
        block_on(memory.add_all(vec![Message::user("Where?"), calls.clone()])).unwrap();
        assert_eq!(block_on(memory.messages()).unwrap().len(), kept, "{room} tokens");
    }
}

/// A store of the original's kind, which can be full.
#[derive(Debug, Default)]
struct Lists {
    lists: Mutex<HashMap<String, Vec<Message>>>,
    full: AtomicBool,
}

impl ChatMemoryStore for Lists {
    fn get_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, Vec<Message>> {
        Box::pin(async move { Ok(self.lists.lock().unwrap().get(memory_id).cloned().unwrap_or_default()) })
    }

    fn update_messages<'a>(&'a self, memory_id: &'a str, messages: Vec<Message>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            if self.full.load(Ordering::SeqCst) {
                return Err(StoreError::Full { place: "of lists".into() });
            }
            self.lists.lock().unwrap().insert(memory_id.to_owned(), messages);
            Ok(())
        })
    }

    fn delete_messages<'a>(&'a self, memory_id: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.lists.lock().unwrap().remove(memory_id);
            Ok(())
        })
    }
}

impl Lists {
    fn texts(&self, memory_id: &str) -> Vec<String> {
        block_on(self.get_messages(memory_id)).unwrap().iter().map(Message::text).collect()
    }
}

#[test]
fn a_store_of_lists_has_what_the_memory_shows_under_its_own_identifier() {
    const ID: &str = "https://example.org/chats//7";
    let lists = Arc::new(Lists::default());
    let build = || {
        let builder = MessageWindowChatMemory::builder().id(ID).max_messages(3);
        builder.chat_memory_store(FromChatMemoryStore::new(lists.clone())).build().unwrap()
    };
    let memory = build();
    block_on(memory.add(Message::system("Be brief."))).unwrap();
    for text in ["One?", "Two?", "Three?"] {
        block_on(memory.add(Message::user(text))).unwrap();
    }
    assert_eq!(lists.texts(ID), ["Be brief.", "Two?", "Three?"]);
    // Another process continues from the list alone.
    let other = build();
    assert_eq!(texts(&other), ["Be brief.", "Two?", "Three?"]);
    block_on(other.add(Message::assistant("Yes."))).unwrap();
    assert_eq!(texts(&memory), ["Be brief.", "Three?", "Yes."]);
    let [call, result] = round("c1");
    block_on(memory.add(call)).unwrap();
    block_on(memory.add(result)).unwrap();
    assert_eq!(lists.texts(ID).last().unwrap(), "seen c1");
    assert_eq!(texts(&other), texts(&memory));
    block_on(memory.set(vec![Message::user("All else.")])).unwrap();
    assert_eq!(lists.texts(ID), ["All else."]);
    block_on(memory.clear()).unwrap();
    assert!(lists.lists.lock().unwrap().is_empty() && texts(&memory).is_empty() && texts(&other).is_empty());
}

#[test]
fn a_store_of_lists_that_takes_nothing_changes_nothing() {
    let lists = Arc::new(Lists::default());
    let builder = MessageWindowChatMemory::builder().max_messages(3);
    let memory = builder.chat_memory_store(FromChatMemoryStore::new(lists.clone())).build().unwrap();
    block_on(memory.add(Message::user("One?"))).unwrap();
    lists.full.store(true, Ordering::SeqCst);
    assert!(block_on(memory.add(Message::user("Two?"))).is_err());
    assert_eq!(texts(&memory), ["One?"]);
    lists.full.store(false, Ordering::SeqCst);
    block_on(memory.add(Message::user("Three?"))).unwrap();
    assert_eq!(
        (texts(&memory), lists.texts("default")),
        (vec!["One?".to_owned(), "Three?".to_owned()], texts(&memory))
    );
}

#[test]
fn writers_of_one_memory_over_a_store_of_lists_lose_nothing() {
    let lists = Arc::new(Lists::default());
    let builder = MessageWindowChatMemory::builder().max_messages(1_000);
    let memory = builder.chat_memory_store(FromChatMemoryStore::new(lists.clone())).build().unwrap();
    let texts = write(|| memory.clone(), 4, 20);
    assert_complete(&texts, 4, 20);
    assert_eq!(lists.texts("default"), texts);
}

#[test]
fn what_a_store_of_lists_holds_is_counted_by_the_counter_that_it_was_given() {
    let lists = Arc::new(Lists::default());
    block_on(lists.update_messages("default", ["a", "b", "c"].map(Message::user).to_vec())).unwrap();
    let store = FromChatMemoryStore::new(lists).token_counter(Ten);
    let builder = TokenWindowChatMemory::builder().max_tokens(23).token_counter(Ten);
    assert_eq!(texts(&builder.chat_memory_store(store).build().unwrap()), ["b", "c"]);
}
