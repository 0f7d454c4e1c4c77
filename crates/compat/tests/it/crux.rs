//! Crux's sliding window: the vectors of `corpus/systems/crux.json`, and a test for each fault that no vector covers.
//!
//! C1 is the vector "with a batch of 20 …". C3 and C5 to C11 are vectors, too; their source names the fault. C2 and C4
//! are tests below. `summarize.rs` tests the one-shot calls further: answers that are too long, empty, or do not match
//! the schema.

use crate::held::{Held, LONGEST};
use crate::vectors;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::vectors::{Step, Vector, assert_valid};
use futures_lite::future::block_on;
use lookback_compat::crux::{self, Error, SlidingWindow, SlidingWindowBuilder};
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, StoreFuture as Reply};
use lookback_store::{LogName, MemoryStore, Store, StoreError};
use lookback_summarize::{Ask, Completion, Function, SummarizeOptions, Summarizer, SummaryTask, summarize};
use lookback_wire::{
    dialect::Dialect,
    message::{Message, Role},
};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::OpenAiChat;
/// The faults that have tests instead of vectors.
const TESTED: [&str; 2] = ["C2", "C4"];

/// A store that fails while it is broken, and breaks after a given number of appends.
#[derive(Debug)]
struct Faulty {
    inner: Arc<MemoryStore>,
    broken: AtomicBool,
    appends: AtomicI64,
    /// Whether the failing append is still made.
    made: bool,
}

impl Faulty {
    fn new(inner: Arc<MemoryStore>, appends: i64, made: bool) -> Self {
        Faulty { inner, broken: AtomicBool::new(false), appends: AtomicI64::new(appends), made }
    }

    fn or_broken<'a, T: Send + 'a>(&self, reply: Reply<'a, T>) -> Reply<'a, T> {
        if self.broken.load(Ordering::SeqCst) { failed() } else { reply }
    }
}

fn failed<'a, T: Send + 'a>() -> Reply<'a, T> {
    Box::pin(async { Err(StoreError::Backend { place: "broken".into(), source: "told to".into() }) })
}

impl Store for Faulty {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> Reply<'a, ()> {
        if self.broken.load(Ordering::SeqCst) {
            return failed();
        }
        if self.appends.fetch_sub(1, Ordering::SeqCst) > 0 {
            return self.inner.append(log, append);
        }
        self.broken.store(true, Ordering::SeqCst);
        if self.made {
            block_on(self.inner.append(log, append)).ok();
        }
        failed()
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: i64) -> Reply<'a, bool> {
        self.or_broken(self.inner.touch(log, time))
    }
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> Reply<'a, Vec<String>> {
        self.or_broken(self.inner.read(log, span))
    }
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> Reply<'a, Option<Head>> {
        self.or_broken(self.inner.head(log, before))
    }
    fn info<'a>(&'a self, log: &'a LogName) -> Reply<'a, Option<LogInfo>> {
        self.or_broken(self.inner.info(log))
    }
    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<LogInfo>> {
        self.or_broken(self.inner.list(prefix))
    }
    fn delete<'a>(&'a self, logs: &'a [LogName]) -> Reply<'a, u64> {
        self.or_broken(self.inner.delete(logs))
    }
    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<lookback_store::Tombstone>) -> Reply<'a, ()> {
        self.or_broken(self.inner.erase(log, tombstones))
    }

    fn clear(&self) -> Reply<'_, u64> {
        self.or_broken(self.inner.clear())
    }
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> Reply<'a, Vec<Hit>> {
        self.or_broken(self.inner.search(log, query, most))
    }
}

/// Returns a model that answers with the summaries of a vector in order, and then repeats the last one. `null` is a
/// failure.
fn scripted(options: &Value, asks: Arc<Mutex<Vec<Ask>>>) -> Arc<dyn Summarizer> {
    let answers: Option<Vec<Option<String>>> = serde_json::from_value(options["summaries"].clone()).unwrap();
    let model = options["model"].as_str().unwrap_or("model");
    Arc::new(Function::new(model, move |ask| {
        let mut asks = asks.lock().unwrap();
        asks.push(ask);
        let count = asks.len();
        let answer = match &answers {
            None => Some(format!("Summary v{count}")),
            Some(answers) => answers[(count - 1).min(answers.len() - 1)].clone(),
        };
        async move { answer.ok_or_else(|| "no credit".into()) }
    }))
}

/// The windows, store and model of one vector.
struct Stage {
    options: Value,
    store: Arc<Faulty>,
    asks: Arc<Mutex<Vec<Ask>>>,
    model: Arc<dyn Summarizer>,
    told: Arc<Mutex<Vec<Value>>>,
    windows: Vec<SlidingWindow>,
    at: usize,
}

impl Stage {
    fn new(options: &Value) -> Stage {
        let asks = Arc::<Mutex<Vec<Ask>>>::default();
        let store = Arc::new(Faulty::new(Arc::default(), i64::MAX, false));
        let model = scripted(options, asks.clone());
        let (told, windows) = (Arc::default(), Vec::new());
        Stage { options: options.clone(), store, asks, model, told, windows, at: 0 }
    }

    fn builder(&self) -> SlidingWindowBuilder {
        let number = |name: &str| self.options[name].as_u64();
        let mut builder = SlidingWindow::builder(number("windowSize").unwrap(), self.model.clone());
        builder = builder.store(self.store.clone());
        if let Some(budget) = number("summaryBudget") {
            builder = builder.summary_budget(budget);
        }
        if let Some(batch) = number("batch") {
            builder = builder.batch(batch);
        }
        if let Some(id) = self.options["id"].as_str() {
            builder = builder.id(id);
        }
        match self.options["summaryRole"].as_str() {
            Some("user") => builder = builder.summary_role(Role::User),
            Some("assistant") => builder = builder.summary_role(Role::Assistant),
            _ => {}
        }
        let [start, end, failed] = [self.told.clone(), self.told.clone(), self.told.clone()];
        let say = |told: &Mutex<Vec<Value>>, value| told.lock().unwrap().push(value);
        builder
            .on_compact_start(move |event| {
                say(&start, json!({"start": {"evictedCount": event.evicted_count, "totalTokens": event.total_tokens}}));
            })
            .on_compact_end(move |event| {
                let (before, after) = (event.tokens_before, event.tokens_after);
                let (summary, ratio) = (event.summary_tokens, event.ratio());
                let event =
                    json!({"summaryTokens": summary, "tokensBefore": before, "tokensAfter": after, "ratio": ratio});
                say(&end, json!({"end": event}));
            })
            .on_compact_failed(move |event| say(&failed, json!({"failed": format!("{:?}", event.outcome)})))
    }

    fn open(&mut self) -> Result<(), Error> {
        self.windows = vec![block_on(self.builder().open())?];
        self.at = 0;
        Ok(())
    }

    fn call(&mut self, step: &Step, name: &str) -> Result<Value, Error> {
        let with = &step.with;
        if self.windows.is_empty() && !matches!(step.call.as_str(), "summarizeMessages" | "extractKeyFacts") {
            self.open()?;
        }
        let asks = || self.asks.lock().unwrap();
        Ok(match step.call.as_str() {
            "open" => Value::Null,
            "push" => {
                let message = DIALECT.decode(&with.to_string()).unwrap();
                block_on(self.windows[self.at].push(message))?;
                Value::Null
            }
            "getMessages" => {
                let messages = block_on(self.windows[self.at].get_messages())?;
                let window = vectors::json(DIALECT, &messages);
                assert_valid(DIALECT, &window, name);
                window
            }
            "getStats" => serde_json::to_value(block_on(self.windows[self.at].get_stats())?).unwrap(),
            "reopen" | "restart" => {
                for (option, value) in with.as_object().into_iter().flatten() {
                    self.options[option] = value.clone();
                }
                if step.call == "restart" {
                    self.store = Arc::new(Faulty::new(Arc::default(), i64::MAX, false));
                }
                self.open()?;
                Value::Null
            }
            "second" | "first" => {
                if self.windows.len() < 2 {
                    self.windows.push(block_on(self.builder().open())?);
                }
                self.at = usize::from(step.call == "second");
                Value::Null
            }
            "break" | "mend" => {
                self.store.broken.store(step.call == "break", Ordering::SeqCst);
                Value::Null
            }
            "keys" => {
                let logs = block_on(self.store.list("")).unwrap();
                logs.iter().map(|log| log.name.to_string()).collect()
            }
            "stored" => {
                let logs = block_on(self.store.list("")).unwrap();
                let log = logs.iter().find(|log| Some(log.name.as_str()) == with["key"].as_str()).unwrap();
                let bodies = block_on(self.store.read(&log.name, 0..u64::MAX)).unwrap();
                let holds = with["holds"].as_str().unwrap();
                assert!(bodies.iter().any(|body| body.contains(holds)), "{name}: {holds}: {bodies:?}");
                Value::Null
            }
            "get" => {
                let stored = block_on(crux::get(self.store.clone(), with["key"].as_str().unwrap()))?;
                let mut stored = serde_json::to_value(stored).unwrap();
                if stored["metadata"]["type"] == "sliding-window-messages" {
                    stored["content"] = serde_json::from_str(stored["content"].as_str().unwrap()).unwrap();
                }
                stored
            }
            "asked" => asks().iter().map(|ask| ask.prompt.clone()).collect(),
            "models" => asks().iter().map(|ask| ask.model.clone()).collect(),
            "schemas" => asks().iter().map(|ask| ask.schema.clone()).collect(),
            "calls" => asks().len().into(),
            "told" => {
                for (ask, words) in with.as_object().unwrap() {
                    let system = &asks()[ask.parse::<usize>().unwrap()].system;
                    let missing =
                        words.as_array().unwrap().iter().find(|word| !system.contains(word.as_str().unwrap()));
                    assert_eq!(missing, None, "{name}: {system}");
                }
                Value::Null
            }
            "hooks" => self.told.lock().unwrap().clone().into(),
            "ratios" => {
                let told = self.told.lock().unwrap();
                let ratios = told.iter().filter_map(|event| event["end"]["ratio"].as_f64());
                ratios.map(|ratio| ratio > 0.0 && ratio <= 1.0).collect()
            }
            "failed" => self.told.lock().unwrap().iter().any(|event| event.get("failed").is_some()).into(),
            "within" => {
                let stats = block_on(self.windows[self.at].get_stats())?;
                assert!(
                    (1..=with["summaryTokens"].as_u64().unwrap()).contains(&stats.summary_tokens),
                    "{name}: {stats:?}"
                );
                Value::Null
            }
            "summarizeMessages" => self.summarize(with, name),
            "extractKeyFacts" => self.facts(with),
            call => panic!("{name}: `{call}` is no call"),
        })
    }

    fn summarize(&self, with: &Value, name: &str) -> Value {
        let mut options = SummarizeOptions::default();
        options.budget = with["maxTokens"].as_u64().unwrap_or(options.budget);
        options.focus = serde_json::from_value(with["focus"].clone()).unwrap_or_default();
        let messages = vectors::messages(DIALECT, &with["messages"]);
        let summary = block_on(summarize(&messages, &self.model, &options)).unwrap();
        let (before, after, ratio) = (summary.tokens_before, summary.tokens_after, summary.ratio());
        assert!(messages.len() < 2 || (before > 0 && after > 0 && ratio > 0.0 && ratio <= 1.0), "{name}: {summary:?}");
        assert!(before >= with["atLeast"].as_u64().unwrap_or(0), "{name}: {summary:?}");
        json!({"summary": summary.text, "tokensBefore": before, "tokensAfter": after, "ratio": ratio})
    }

    fn facts(&self, with: &Value) -> Value {
        let messages = vectors::messages(DIALECT, &with["messages"]);
        block_on(lookback_summarize::key_facts(&messages, &self.model, &with["schema"])).unwrap()
    }
}

/// Returns whether a value contains what is expected. Objects may have more members; lists may not have more elements.
fn holds(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(key, value)| actual.get(key).is_some_and(|actual| holds(actual, value)))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(actual, value)| holds(actual, value))
        }
        _ => actual == expected,
    }
}

fn run(vector: &Vector) {
    let (mut stage, name) = (Stage::new(&vector.options), &vector.name);
    for (number, step) in (1..).zip(&vector.steps) {
        let given = stage.call(step, name);
        match (&step.fails, given) {
            (None, Ok(given)) => {
                let exact = matches!(step.call.as_str(), "getMessages" | "getStats");
                let fits = |gives: &Value| if exact { given == *gives } else { holds(&given, gives) };
                let gives = step.gives.as_ref();
                assert!(gives.is_none_or(fits), "{name}, step {number}, {}:\n{given:#}\nnot\n{gives:#?}", step.call);
            }
            (Some(fails), Err(error)) => assert!(error.to_string().contains(fails.as_str()), "{name}: {error}"),
            (None, Err(error)) => panic!("{name}, step {number}: {error}"),
            (Some(fails), Ok(_)) => panic!("{name}, step {number}: it should fail with `{fails}`"),
        }
    }
}

#[test]
fn every_vector_holds() {
    let vectors = vectors::vectors("crux.json");
    let fails = |vector: &&Vector| std::panic::catch_unwind(|| run(vector)).is_err();
    let failed: Vec<_> = vectors.iter().filter(fails).map(|vector| &vector.name).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn every_fault_has_a_vector_or_a_test() {
    let vectors = vectors::vectors("crux.json");
    let shown = vectors.iter().filter_map(|vector| vector.source.strip_prefix("fault ")).chain(TESTED);
    let shown: BTreeSet<_> = shown.map(str::to_owned).collect();
    assert_eq!(shown, (1..=11).map(|number| format!("C{number}")).collect());
}

/// A summarizer that repeats everything, which shows messages that are summarized twice or never.
#[derive(Debug, Clone, Default)]
struct Echo {
    delay: Duration,
    held: Option<Arc<Held>>,
}

impl Summarizer for Echo {
    fn model(&self) -> &str {
        "echo"
    }
    fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
        if let Some(held) = &self.held {
            held.wait();
        }
        std::thread::sleep(self.delay);
        let said = task.previous.iter().map(String::as_str).chain(task.passages.iter().map(|passage| &*passage.text));
        let said = said.collect::<Vec<_>>().join(" ");
        Box::pin(async { Ok(said) })
    }
}

/// Returns everything in a window of echoes, word by word.
fn words(window: &SlidingWindow) -> Vec<String> {
    let messages = block_on(window.get_messages()).unwrap();
    messages.iter().flat_map(|message| message.text().split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn push(window: &SlidingWindow, text: impl Into<String>) -> Result<(), Error> {
    block_on(window.push(Message::user(text)))
}

/// Asserts that every word of each writer is there once, in its order.
fn holds_all(said: &[String], writers: usize, count: usize) {
    for writer in 0..writers {
        let own: Vec<_> = said.iter().filter(|word| word.starts_with(&format!("w{writer}-"))).cloned().collect();
        assert_eq!(own, (0..count).map(|n| format!("w{writer}-{n}")).collect::<Vec<_>>());
    }
    assert_eq!(said.len(), writers * count);
}

#[test]
fn c2_pushes_at_once_lose_and_double_nothing() {
    for (writers, count) in [(20, 1), (8, 250)] {
        let window = block_on(SlidingWindow::builder(5, Echo::default()).summary_budget(100_000).open()).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let window = &window;
                scope.spawn(move || (0..count).for_each(|n| push(window, format!("w{writer}-{n}")).unwrap()));
            }
        });
        holds_all(&words(&window), writers, count);
        let stats = block_on(window.get_stats()).unwrap();
        let total = (writers * count) as u64;
        assert_eq!((stats.total_messages, stats.windowed_messages, stats.evictions), (total, 5, total - 5));
    }
}

/// Pushes until the store breaks after this number of appends, and then continues with the remaining contents of the
/// store. Returns whether the store broke.
fn crash(appends: i64, made: bool) -> bool {
    let inner = Arc::<MemoryStore>::default();
    let store = Arc::new(Faulty::new(inner.clone(), appends, made));
    let open = |store: Arc<dyn Store>| {
        let builder = SlidingWindow::builder(2, Echo::default()).store(store);
        block_on(builder.time_limit(Duration::from_millis(200)).open()).unwrap()
    };
    let window = open(store.clone());
    let mut pushed = 0;
    while pushed < 6 && push(&window, format!("w0-{pushed}")).is_ok() {
        pushed += 1;
        block_on(window.get_messages()).ok();
    }
    drop(window);
    let window = open(inner);
    let kept = block_on(window.get_stats()).unwrap().total_messages;
    assert!(kept == pushed || (made && kept == pushed + 1), "{kept} of {pushed} are left after {appends}");
    holds_all(&words(&window), 1, usize::try_from(kept).unwrap());
    (kept..9).for_each(|n| push(&window, format!("w0-{n}")).unwrap());
    holds_all(&words(&window), 1, 9);
    store.broken.load(Ordering::SeqCst)
}

#[test]
fn c4_a_crash_between_two_writes_loses_nothing_and_has_nothing_summarized_twice() {
    // The cases run in parallel, because each has to wait for the time limit of the summary that its crash left behind.
    let died = std::thread::scope(|scope| {
        let cases = (0..24).flat_map(|appends| [false, true].map(|made| (appends, made)));
        let runs: Vec<_> = cases.map(|(appends, made)| scope.spawn(move || crash(appends, made))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).filter(|died| *died).count()
    });
    assert!((24..48).contains(&died), "every append has its crash: {died}");
}

#[test]
fn a_summary_that_takes_long_holds_no_push_and_a_read_waits_for_it() {
    let held = Arc::<Held>::default();
    let echo = Echo { held: Some(held.clone()), ..Echo::default() };
    let window = block_on(SlidingWindow::builder(2, echo).open()).unwrap();
    std::thread::scope(|scope| {
        let begun = Instant::now();
        (0..3).for_each(|n| push(&window, format!("w0-{n}")).unwrap());
        let reader = scope.spawn(|| words(&window));
        std::thread::sleep(Duration::from_millis(50));
        push(&window, "w0-3").unwrap();
        assert!(begun.elapsed() < LONGEST, "a push waited");
        assert!(!reader.is_finished(), "the read did not wait");
        held.let_go();
        let said = reader.join().unwrap();
        holds_all(&said, 1, 4);
    });
    assert_eq!(block_on(window.get_stats()).unwrap().windowed_messages, 2);
}

#[test]
fn who_reads_does_not_wait_for_what_is_pushed_meanwhile() {
    let window =
        block_on(SlidingWindow::builder(2, Echo { delay: Duration::from_millis(100), held: None }).open()).unwrap();
    (0..3).for_each(|n| push(&window, format!("w0-{n}")).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut n = 3;
            while !done.load(Ordering::SeqCst) && n < 10_000 {
                push(&window, format!("w0-{n}")).unwrap();
                n += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            n
        });
        assert!(words(&window).len() >= 3);
        done.store(true, Ordering::SeqCst);
        assert!(writer.join().unwrap() < 10_000, "it waited for all of them");
    });
}

#[test]
fn an_id_that_is_none_is_refused() {
    for id in ["..", "a/../b", "a\0b", "compact:a:summary"] {
        let opened = block_on(SlidingWindow::builder(2, Echo::default()).id(id).open());
        assert!(matches!(opened, Err(Error::Session(lookback_session::Error::Name(_)))), "{id:?}");
    }
}

#[test]
fn an_id_may_be_as_long_as_it_says() {
    let longest = SlidingWindow::LONGEST_ID;
    let store = Arc::new(MemoryStore::new());
    for character in ["a", "ä"] {
        let id = character.repeat(longest);
        let window = block_on(SlidingWindow::builder(1, Echo::default()).id(&id).store(store.clone()).open()).unwrap();
        ["one", "two"].iter().for_each(|text| push(&window, *text).unwrap());
        assert_eq!(words(&window), ["one", "two"]);
        assert_eq!(stored(&store, &format!("compact:{id}:summary")).as_deref(), Some("one"));
    }
    for length in [0, longest + 1, 10_000] {
        let refused = block_on(SlidingWindow::builder(1, Echo::default()).id("a".repeat(length)).open()).unwrap_err();
        assert_eq!(refused.to_string(), format!("id must be 1 to {longest} characters, got {length}"));
    }
}

/// Returns the content that a store holds under a key of the original's documentation.
fn stored(store: &Arc<MemoryStore>, key: &str) -> Option<String> {
    block_on(crux::get(store.clone(), key)).unwrap().map(|stored| stored.content)
}

#[test]
fn a_key_of_no_window_holds_nothing_and_is_not_made_by_reading_it() {
    let store = Arc::new(MemoryStore::new());
    let long = format!("compact:{}:summary", "a".repeat(10_000));
    let others =
        ["", "chat", "compact:", "compact:messages", "compact::summary", "compact:a:state", "compact:../b:messages"];
    for key in others.into_iter().chain([&*long, "compact:a:messages", "compact:a:summary"]) {
        assert_eq!(stored(&store, key), None, "{key}");
    }
    assert!(block_on(store.list("")).unwrap().is_empty());
    let window = block_on(SlidingWindow::builder(2, Echo::default()).id("a").store(store.clone()).open()).unwrap();
    push(&window, "one").unwrap();
    assert_eq!(stored(&store, "compact:a:summary"), None, "there is no summary yet");
    assert!(stored(&store, "compact:a:messages").is_some_and(|content| content.contains("one")));
}

#[test]
fn the_keys_hold_a_summary_that_nobody_has_taken_up_and_no_message_of_it() {
    let store = Arc::new(MemoryStore::new());
    let window = block_on(SlidingWindow::builder(2, Echo::default()).id("a").store(store.clone()).open()).unwrap();
    ["one", "two", "three"].iter().for_each(|text| push(&window, *text).unwrap());
    drop(window);
    let begun = Instant::now();
    while stored(&store, "compact:a:summary").is_none() {
        assert!(begun.elapsed() < LONGEST, "no summary was made");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(stored(&store, "compact:a:summary").as_deref(), Some("one"));
    let messages: Value = serde_json::from_str(&stored(&store, "compact:a:messages").unwrap()).unwrap();
    assert_eq!(messages, json!([{"role": "user", "content": "two"}, {"role": "user", "content": "three"}]));
}

#[test]
fn a_summary_of_the_whole_budget_is_taken_whatever_was_said() {
    // This is the quick start of the original's documentation. The model uses the whole budget, although the messages
    // are short.
    let summary = |number: usize| format!("{} {number}", "note ".repeat(998).trim_end());
    let count = Arc::new(AtomicI64::new(0));
    let counted = count.clone();
    let model = Function::new("small-model", move |_| {
        let number = usize::try_from(counted.fetch_add(1, Ordering::SeqCst)).unwrap();
        async move { Ok(summary(number)) }
    });
    let window = block_on(SlidingWindow::builder(20, model).id("chat-1").summary_budget(1_000).open()).unwrap();
    for number in 0..100 {
        push(&window, format!("line {number}")).unwrap();
        let messages = block_on(window.get_messages()).unwrap();
        let made = usize::try_from(count.load(Ordering::SeqCst)).unwrap();
        assert_eq!(made, (number + 1usize).saturating_sub(20) / 5, "at message {}", number + 1);
        let shown = number + 1 - 5 * made;
        assert_eq!(messages.len(), shown + usize::from(made > 0));
        if let Some(last) = made.checked_sub(1) {
            assert_eq!((messages[0].role(), messages[0].text()), (Role::System, summary(last)));
        }
    }
}

#[test]
fn its_futures_can_be_sent_between_threads() {
    fn sent<T: Send>(future: T) -> T {
        future
    }
    let window = block_on(sent(SlidingWindow::builder(2, Echo::default()).open())).unwrap();
    block_on(sent(window.push(Message::user("w0-0")))).unwrap();
    assert_eq!(block_on(sent(window.get_messages())).unwrap().len(), 1);
    assert_eq!(block_on(sent(window.get_stats())).unwrap().total_messages, 1);
    assert_eq!(block_on(sent(crux::get(MemoryStore::new(), "compact:a:messages"))).unwrap(), None);
}

#[test]
fn a_window_that_is_dropped_leaves_its_summary_to_the_next() {
    let store = Arc::new(MemoryStore::new());
    let open =
        |delay| block_on(SlidingWindow::builder(2, Echo { delay, held: None }).store(store.clone()).open()).unwrap();
    let window = open(Duration::from_millis(100));
    (0..4).for_each(|n| push(&window, format!("w0-{n}")).unwrap());
    drop(window);
    let window = open(Duration::ZERO);
    holds_all(&words(&window), 1, 4);
    assert_eq!(block_on(window.get_stats()).unwrap().windowed_messages, 2);
}

#[test]
fn windows_of_one_id_in_one_store_keep_every_message_once() {
    let store = Arc::new(MemoryStore::new());
    let open = || {
        let builder = SlidingWindow::builder(5, Echo::default()).summary_budget(100_000);
        block_on(builder.store(store.clone()).open()).unwrap()
    };
    let windows = [open(), open()];
    std::thread::scope(|scope| {
        for (writer, window) in windows.iter().enumerate() {
            scope.spawn(move || (0..100).for_each(|n| push(window, format!("w{writer}-{n}")).unwrap()));
        }
    });
    for window in &windows {
        holds_all(&words(window), 2, 100);
        assert_eq!(block_on(window.get_stats()).unwrap().total_messages, 200);
    }
}

mod processes {
    use super::*;
    use lookback_sqlite::SqliteStore;
    use lookback_store::Durability;
    use std::process::{Command, Stdio};

    /// The environment variables that give a process of [`a_process_pushes`] its store and its number.
    const STORE: &str = "LOOKBACK_TEST_CRUX_STORE";
    const WRITER: &str = "LOOKBACK_TEST_CRUX_WRITER";

    fn open(path: impl AsRef<std::path::Path>) -> SlidingWindow {
        let store = SqliteStore::open_with(path, Durability::System).unwrap();
        block_on(SlidingWindow::builder(5, Echo::default()).summary_budget(100_000).store(store).open()).unwrap()
    }

    #[test]
    #[ignore = "another test runs it, in processes of their own"]
    fn a_process_pushes() {
        let (Some(path), Ok(writer)) = (std::env::var_os(STORE), std::env::var(WRITER)) else { return };
        let window = open(path);
        (0..50).for_each(|n| push(&window, format!("w{writer}-{n}")).unwrap());
        // Wait for the summary, which would otherwise be lost with the process.
        block_on(window.get_messages()).unwrap();
    }

    #[test]
    fn processes_of_one_id_keep_every_message_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let children: Vec<_> = (0..2)
            .map(|writer| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "crux::processes::a_process_pushes", "--ignored"]);
                command.env(STORE, &path).env(WRITER, writer.to_string()).stdout(Stdio::null()).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let window = open(&path);
        holds_all(&words(&window), 2, 50);
        assert_eq!(block_on(window.get_stats()).unwrap().windowed_messages, 5);
    }
}
