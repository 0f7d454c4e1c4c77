//! Summaries in the background: each is made once and taken up completely, and if one fails, no message is lost.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::held::{Held, LONGEST};
use futures_lite::future::{block_on, poll_once};
use lookback_engine::policy::Summarize;
use lookback_engine::{
    Settings,
    policy::{Limits, Policy, Stage},
};
use lookback_session::Session;
use lookback_session::SummaryOptions;
use lookback_session::{CompactionOutcome, Hooks};
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Head, Hit, LogInfo, Record, StoreFuture as Reply};
use lookback_store::{FileStore, LogName, MemoryStore, Store};
use lookback_summarize::Job;
use lookback_summarize::{Completion, Summarizer, SummarizerError, SummaryTask};
use lookback_wire::{
    dialect::{Dialect, Request},
    message::{Message, ToolCall},
};

type Answer = dyn Fn(usize, &SummaryTask) -> Result<String, SummarizerError> + Send + Sync;

/// A summarizer for tests: answers by the number of the call, after its gate was opened.
#[derive(Clone)]
struct Scripted {
    answer: Arc<Answer>,
    calls: Arc<AtomicUsize>,
    held: Option<Arc<Held>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    fn new(answer: impl Fn(usize, &SummaryTask) -> Result<String, SummarizerError> + Send + Sync + 'static) -> Self {
        Scripted { answer: Arc::new(answer), calls: Arc::default(), held: None }
    }

    /// A summarizer whose answers wait until the gate is opened.
    fn held(answer: impl Fn(usize, &SummaryTask) -> Result<String, SummarizerError> + Send + Sync + 'static) -> Self {
        Scripted { held: Some(Arc::default()), ..Scripted::new(answer) }
    }

    fn let_go(&self) {
        self.held.as_ref().unwrap().let_go();
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Summarizer for Scripted {
    fn model(&self) -> &str {
        "scripted"
    }

    fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if let Some(held) = &self.held {
                held.wait();
            }
            (self.answer)(call, task)
        })
    }
}

fn settings(messages: u64, budget: u64) -> Settings {
    let summary = Summarize { budget, wording: "{summary}".into(), ..Summarize::default() };
    let system = lookback_engine::policy::SystemRule { counted: false, ..Default::default() };
    let limits = Limits::messages(messages);
    let policy = Policy { limits, system, stages: vec![Stage::Summarize(summary)], ..Policy::unlimited() };
    Settings::default().policy(policy)
}

fn open(store: &Arc<dyn Store>, settings: Settings, summarizer: &Scripted) -> Session {
    open_named(store, "chat", settings, summarizer)
}

fn open_named(store: &Arc<dyn Store>, name: &str, settings: Settings, summarizer: &Scripted) -> Session {
    block_on(Session::open(store.clone(), name, settings)).unwrap().with_summarizer(summarizer.clone())
}

fn say(session: &mut Session, number: usize) {
    block_on(session.push(Message::user(format!("message {number} says a little more than nothing")))).unwrap();
}

fn texts(session: &mut Session) -> Vec<String> {
    let window = block_on(session.window()).unwrap();
    window.view().messages().map(|item| item.message().text()).collect()
}

fn over_each(test: impl Fn(Arc<dyn Store>)) {
    test(Arc::new(MemoryStore::new()));
    let folder = tempfile::tempdir().unwrap();
    test(Arc::new(SqliteStore::open(folder.path().join("s.db")).unwrap()));
    test(Arc::new(FileStore::open(folder.path().join("s")).unwrap()));
}

#[test]
fn what_is_evicted_is_merged_into_a_summary_that_survives_a_restart() {
    over_each(|store| {
        let model = Scripted::new(|call, task| {
            assert_eq!(task.previous.is_some(), call > 0);
            Ok(format!("summary {call} of {}", task.passages.len()))
        });
        let mut session = open(&store, settings(3, 100), &model);
        for number in 0..6 {
            say(&mut session, number);
        }
        block_on(session.wait_for_summary()).unwrap();
        assert_eq!(texts(&mut session)[0], "summary 0 of 3");
        say(&mut session, 6);
        block_on(session.wait_for_summary()).unwrap();
        drop(session);
        let mut session = open(&store, settings(3, 100), &model);
        let shown = texts(&mut session);
        assert_eq!((shown.len(), shown[0].as_str()), (4, "summary 1 of 1"));
        assert!(shown[3].starts_with("message 6"));
        assert_eq!(block_on(session.history()).unwrap().len(), 7);
        let key = session.name().summary_of();
        assert_eq!(key.as_str(), "compact:chat:summary");
        let notes = block_on(async { store.read(&key, 0..100).await }).unwrap();
        assert!(notes.last().unwrap().contains("summary 1 of 1"));
    });
}

#[test]
fn no_push_and_no_window_waits_and_what_is_summarized_stays_until_then() {
    over_each(|store| {
        let model = Scripted::held(|_, _| Ok("short".into()));
        let mut session = open(&store, settings(3, 100), &model);
        for number in 0..5 {
            say(&mut session, number);
        }
        let begun = Instant::now();
        assert_eq!(texts(&mut session).len(), 5);
        say(&mut session, 5);
        assert_eq!(texts(&mut session).len(), 6);
        assert!(begun.elapsed() < LONGEST, "a window waited");
        model.let_go();
        block_on(session.wait_for_summary()).unwrap();
        let shown = texts(&mut session);
        assert_eq!((shown.len(), shown[0].as_str(), model.calls()), (4, "short", 2));
    });
}

#[test]
fn one_summary_is_made_at_a_time_whoever_asks() {
    over_each(|store| {
        let model = Scripted::held(|_, _| Ok("short".into()));
        let mut one = open(&store, settings(3, 100), &model);
        for number in 0..5 {
            say(&mut one, number);
        }
        let mut two = open(&store, settings(3, 100), &model);
        assert_eq!((texts(&mut one).len(), texts(&mut two).len()), (5, 5));
        model.let_go();
        // The second session takes up the summary that the first has made.
        block_on(two.wait_for_summary()).unwrap();
        assert_eq!((texts(&mut two)[0].as_str(), model.calls()), ("short", 1));
        say(&mut one, 5);
        assert_eq!(block_on(one.history()).unwrap().len(), 6);
        block_on(one.wait_for_summary()).unwrap();
        assert_eq!((texts(&mut one).len(), model.calls()), (4, 2));
    });
}

#[test]
fn a_summarizer_that_fails_is_empty_or_panics_loses_nothing_and_is_reported() {
    let answers: [Box<dyn Fn() -> Result<String, SummarizerError> + Send + Sync>; 3] = [
        Box::new(|| Err(SummarizerError::empty("scripted"))),
        Box::new(|| Ok("  \n ".into())),
        Box::new(|| panic!("the model is out")),
    ];
    for answer in answers {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        // The first two calls fail, the third succeeds.
        let model = Scripted::new(move |call, _| if call < 2 { answer() } else { Ok("fine".into()) });
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let hooks = Hooks::default().on_compact_end(move |end| heard.lock().unwrap().push(end.outcome.clone()));
        let mut session = open(&store, settings(2, 1_000), &model).with_hooks(hooks);
        for number in 0..4 {
            say(&mut session, number);
        }
        block_on(session.wait_for_summary()).unwrap();
        let shown = texts(&mut session);
        assert_eq!(shown.len(), 4, "what has no summary stays: {shown:?}");
        assert!(matches!(told.lock().unwrap()[0], CompactionOutcome::Failed { .. }));
        // After the second failure in a row, the session waits a second.
        std::thread::sleep(Duration::from_millis(1_100));
        say(&mut session, 4);
        texts(&mut session);
        block_on(session.wait_for_summary()).unwrap();
        let shown = texts(&mut session);
        assert_eq!((shown.len(), shown[0].as_str()), (3, "fine"), "{:?}", told.lock().unwrap());
        assert_eq!(block_on(session.history()).unwrap().len(), 5);
    }
}

#[test]
fn of_nothing_said_there_is_no_summary_and_it_is_told_once() {
    let model = Scripted::new(|_, _| Ok("never asked".into()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let hooks = Hooks::default().on_compact_end(move |end| heard.lock().unwrap().push(end.outcome.clone()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut session = open(&store, settings(2, 1_000), &model).with_hooks(hooks);
    for text in [" ", "  ", "Hello", "Is anybody there?"] {
        block_on(session.push(Message::user(text))).unwrap();
    }
    block_on(session.wait_for_summary()).unwrap();
    assert_eq!(model.calls(), 0);
    let told = told.lock().unwrap();
    assert!(told.iter().all(|outcome| matches!(outcome, CompactionOutcome::Failed { .. })), "{told:?}");
}

#[test]
fn a_budget_is_kept_whatever_the_model_says() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::new(|_, _| Ok("and so on ".repeat(10_000)));
    let mut session = open(&store, settings(2, 10), &model);
    for number in 0..9 {
        say(&mut session, number);
    }
    block_on(session.wait_for_summary()).unwrap();
    texts(&mut session);
    let summary = session.view().summary().unwrap();
    assert!(!summary.text.is_empty() && summary.size.tokens <= 10 + 3, "{summary:?}");
}

#[test]
fn where_messages_are_limited_a_summary_may_grow_by_more_than_was_merged_into_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::new(|call, _| Ok("word ".repeat(20 + 8 * call)));
    let mut session = open(&store, settings(2, 1_000), &model);
    for number in 0..10 {
        say(&mut session, number);
        block_on(session.wait_for_summary()).unwrap();
    }
    assert_eq!((texts(&mut session).len(), model.calls()), (3, 8), "each message makes it longer, and all are taken");
}

#[test]
fn a_summary_within_its_budget_is_taken_though_it_is_larger_than_what_it_replaces() {
    let long = |words: usize| "word ".repeat(words).trim_end().to_owned();
    let by_messages = settings(2, 1_000);
    let mut by_tokens = settings(2, 40);
    by_tokens.policy.limits = Limits::tokens(150);
    by_tokens.policy.target = Some(Limits::tokens(80));
    for (settings, words) in [(by_messages, 900), (by_tokens, 40)] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let model = Scripted::new(move |_, _| Ok(long(words)));
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let hooks = Hooks::default().on_compact_end(move |end| heard.lock().unwrap().push(end.outcome.clone()));
        let mut session = open(&store, settings, &model).with_hooks(hooks);
        for number in 0..20 {
            say(&mut session, number);
            block_on(session.wait_for_summary()).unwrap();
        }
        let summary = session.view().summary().expect("there is a summary");
        assert_eq!(summary.text, long(words));
        let told = told.lock().unwrap();
        let is_made = |outcome: &CompactionOutcome| matches!(outcome, CompactionOutcome::Summarized);
        assert!(told.iter().all(is_made), "none was refused: {told:?}");
        assert_eq!(told.len(), model.calls(), "and none made twice");
    }
}

#[test]
fn a_summary_is_cut_to_what_a_hard_limit_leaves_beside_what_stays() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::new(|_, _| Ok("word ".repeat(180)));
    let mut settings = settings(2, 200);
    settings.policy.hard = Some(Limits::tokens(240));
    let mut session = open(&store, settings, &model);
    for number in 0..3 {
        block_on(session.push(Message::user(format!("{number} {}", "word ".repeat(90))))).unwrap();
    }
    assert_eq!(texts(&mut session).len(), 2, "there was no time to wait for a summary");
    block_on(session.wait_for_summary()).unwrap();
    assert!(block_on(session.window()).is_ok(), "it can be sent");
    let summary = session.view().summary().expect("there is a summary");
    assert!((50..180).contains(&summary.size.tokens), "{summary:?}");
}

/// A store in memory whose first append to a log of summaries is made, but never returns.
#[derive(Debug, Default)]
struct Sticks {
    inner: MemoryStore,
    stuck: AtomicUsize,
}

impl Store for Sticks {
    fn append<'a>(&'a self, log: &'a LogName, append: Append) -> Reply<'a, ()> {
        let made = self.inner.append(log, append);
        let sticks = log.is_derived() && self.stuck.fetch_add(1, Ordering::SeqCst) == 0;
        if sticks { Box::pin(pending()) } else { made }
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: i64) -> Reply<'a, bool> {
        self.inner.touch(log, time)
    }
    fn read<'a>(&'a self, log: &'a LogName, span: std::ops::Range<u64>) -> Reply<'a, Vec<String>> {
        self.inner.read(log, span)
    }
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> Reply<'a, Option<Head>> {
        self.inner.head(log, before)
    }
    fn info<'a>(&'a self, log: &'a LogName) -> Reply<'a, Option<LogInfo>> {
        self.inner.info(log)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<LogInfo>> {
        self.inner.list(prefix)
    }
    fn delete<'a>(&'a self, logs: &'a [LogName]) -> Reply<'a, u64> {
        self.inner.delete(logs)
    }
    fn erase<'a>(&'a self, log: &'a LogName, tombstones: Vec<lookback_store::Tombstone>) -> Reply<'a, ()> {
        self.inner.erase(log, tombstones)
    }

    fn clear(&self) -> Reply<'_, u64> {
        self.inner.clear()
    }
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a Query, most: usize) -> Reply<'a, Vec<Hit>> {
        self.inner.search(log, query, most)
    }
}

#[test]
fn a_claim_that_was_interrupted_as_it_was_written_holds_nobody_up() {
    let store: Arc<dyn Store> = Arc::new(Sticks::default());
    let model = Scripted::new(|_, _| Ok("short".into()));
    let mut session = open(&store, settings(2, 100), &model);
    for number in 0..4 {
        say(&mut session, number);
    }
    assert!(block_on(poll_once(session.enforce_limits())).is_none(), "it was not interrupted");
    let begun = Instant::now();
    block_on(session.wait_for_summary()).unwrap();
    assert_eq!((texts(&mut session).len(), model.calls()), (3, 1));
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
}

#[test]
fn work_that_a_spawner_drops_is_done_again_at_once() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::new(|_, _| Ok("short".into()));
    let spawned = AtomicUsize::new(0);
    let mut session = open(&store, settings(2, 100), &model).with_summarizer(
        SummaryOptions::new(model.clone()).spawner(move |job| {
            if spawned.fetch_add(1, Ordering::SeqCst) > 0 {
                block_on(job);
            }
        }),
    );
    for number in 0..4 {
        say(&mut session, number);
    }
    let begun = Instant::now();
    block_on(session.wait_for_summary()).unwrap();
    assert_eq!((texts(&mut session).len(), model.calls()), (3, 1));
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
}

#[test]
fn who_is_behind_has_nothing_summarized_again_and_gets_a_valid_window() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let asked = Arc::new(Mutex::new(String::new()));
    let prompts = asked.clone();
    let model = Scripted::new(move |_, task| {
        prompts.lock().unwrap().push_str(&task.prompt());
        Ok("short".into())
    });
    let (mut one, mut two) = (open(&store, settings(3, 100), &model), open(&store, settings(3, 100), &model));
    for number in 0..4 {
        say(&mut one, number);
    }
    say(&mut two, 4);
    block_on(one.wait_for_summary()).unwrap();
    block_on(one.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))).unwrap();
    // The second session has read neither the summary nor the tool call, for which a provider requires a result.
    assert_eq!(two.view().messages().count(), 5);
    let window = block_on(two.window()).unwrap().to_json().unwrap();
    let request = Request::decode(window.clone(), Some(Dialect::OpenAiChat)).unwrap();
    assert!(Dialect::OpenAiChat.check(&request).is_empty(), "{window}");
    assert!(window.contains("short") && window.contains("c1"), "{window}");
    block_on(two.wait_for_summary()).unwrap();
    let asked = asked.lock().unwrap();
    assert!((0..3).all(|number| asked.matches(&format!("message {number}")).count() == 1), "{asked}");
    assert_eq!(model.calls(), 2);
}

#[test]
fn a_summary_of_a_session_that_was_erased_is_not_taken_up_by_the_next_of_its_name() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let secret = Scripted::held(|_, _| Ok("a secret".into()));
    let (tell, ended) = std::sync::mpsc::channel();
    let hooks = Hooks::default().on_compact_end(move |_| tell.send(()).unwrap());
    let mut session = open(&store, settings(2, 100), &secret).with_hooks(hooks);
    for number in 0..4 {
        say(&mut session, number);
    }
    block_on(session.enforce_limits()).unwrap();
    block_on(lookback_store::purge(&*store, &"chat".parse().unwrap())).unwrap();
    let slow = Scripted::held(|_, _| Ok("all else".into()));
    let mut session = open(&store, settings(2, 100), &slow);
    for number in 0..4 {
        say(&mut session, number);
    }
    block_on(session.enforce_limits()).unwrap();
    // While the second one is being made, the first one ends and tries to write its result.
    secret.let_go();
    ended.recv_timeout(LONGEST).unwrap();
    slow.let_go();
    for _ in 0..3 {
        block_on(session.wait_for_summary()).unwrap();
    }
    let shown = texts(&mut session);
    assert_eq!((shown.len(), shown[0].as_str()), (3, "all else"), "{shown:?}");
}

#[test]
fn a_session_that_is_dropped_leaves_its_summary_to_the_next() {
    over_each(|store| {
        let model = Scripted::held(|_, _| Ok("short".into()));
        let mut session = open(&store, settings(2, 100), &model);
        for number in 0..4 {
            say(&mut session, number);
        }
        block_on(session.enforce_limits()).unwrap();
        drop(session);
        let mut session = open(&store, settings(2, 100), &model);
        model.let_go();
        block_on(session.wait_for_summary()).unwrap();
        assert_eq!((texts(&mut session).len(), model.calls()), (3, 1));
    });
}

#[test]
fn a_summarizer_that_hangs_is_given_up_in_time() {
    #[derive(Debug)]
    struct Hangs;
    impl Summarizer for Hangs {
        fn model(&self) -> &str {
            "hangs"
        }
        fn complete<'a>(&'a self, _: &'a SummaryTask) -> Completion<'a> {
            Box::pin(pending())
        }
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let limit = Duration::from_millis(50);
    let session = block_on(Session::open(store, "chat", settings(2, 100))).unwrap();
    let mut session = session.with_summarizer(SummaryOptions::new(Hangs).time_limit(limit));
    for number in 0..4 {
        say(&mut session, number);
    }
    let begun = Instant::now();
    block_on(session.wait_for_summary()).unwrap();
    assert!(begun.elapsed() < LONGEST);
    assert_eq!(texts(&mut session).len(), 4);
}

#[test]
fn at_the_hard_limit_nothing_waits_and_the_summary_still_comes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::held(|_, task| Ok(task.prompt()[..40].to_owned()));
    let settings = settings(3, 100);
    let policy = Policy { hard: Some(Limits::messages(5)), ..settings.policy.clone() };
    let mut session = open(&store, settings.policy(policy), &model);
    for number in 0..5 {
        say(&mut session, number);
    }
    assert_eq!(texts(&mut session).len(), 5);
    say(&mut session, 5);
    let shown = texts(&mut session);
    assert_eq!(shown.len(), 3, "{shown:?}");
    model.let_go();
    block_on(session.wait_for_summary()).unwrap();
    let shown = texts(&mut session);
    assert!(shown[0].contains("message 0"), "what was dropped meanwhile is in the summary: {shown:?}");
}

/// The numbers of the messages that are in none of these texts.
fn missing(texts: &[String], numbers: std::ops::Range<usize>) -> Vec<usize> {
    numbers.filter(|number| !texts.iter().any(|text| text.contains(&format!("message {number} says")))).collect()
}

#[test]
fn what_is_dropped_at_the_hard_limit_while_a_summary_is_made_is_in_the_next() {
    // The first is slow, the second fails.
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    let first = Arc::new(Held::default());
    let held = first.clone();
    let model = Scripted::new(move |call, task| {
        match call {
            0 => held.wait(),
            1 => return Err(SummarizerError::empty("scripted")),
            _ => {}
        }
        heard.lock().unwrap().push(task.prompt());
        Ok("short".into())
    });
    let mut settings = settings(6, 50);
    settings.policy.target = Some(Limits::messages(4));
    settings.policy.hard = Some(Limits::messages(8));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut session = open(&store, settings, &model);
    for number in 0..20 {
        say(&mut session, number);
        texts(&mut session);
    }
    first.let_go();
    block_on(session.wait_for_summary()).unwrap();
    for number in 20..25 {
        say(&mut session, number);
        texts(&mut session);
        block_on(session.wait_for_summary()).unwrap();
    }
    let mut said = asked.lock().unwrap().clone();
    said.extend(texts(&mut session));
    assert_eq!(missing(&said, 0..25), [0; 0], "neither shown nor summarized");
    let once =
        |number: &usize| said.iter().filter(|text| text.contains(&format!("message {number} says"))).count() == 1;
    assert!((0..25).all(|number| once(&number)));
}

#[test]
fn a_summary_of_a_branch_that_was_left_is_not_taken_up() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::held(|_, _| Ok("of the old branch".into()));
    let mut session = open(&store, settings(3, 100), &model);
    for number in 0..5 {
        say(&mut session, number);
    }
    texts(&mut session);
    block_on(session.replace(vec![Message::user("all else")])).unwrap();
    model.let_go();
    block_on(session.wait_for_summary()).unwrap();
    assert_eq!(texts(&mut session), ["all else"]);
    assert!(!block_on(session.search("message", 9)).unwrap().is_empty(), "the old log stays readable");
}

#[test]
fn a_purged_session_takes_its_summary_with_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::new(|_, _| Ok("short".into()));
    let mut session = open(&store, settings(2, 100), &model);
    for number in 0..4 {
        say(&mut session, number);
    }
    block_on(session.wait_for_summary()).unwrap();
    block_on(lookback_store::purge(&*store, &"chat".parse::<LogName>().unwrap())).unwrap();
    assert!(block_on(store.list("")).unwrap().is_empty());
}

#[test]
fn a_summary_with_many_words_around_it_is_taken() {
    over_each(|store| {
        // The budget limits only the summary itself. The wording around it comes from the policy.
        let mut settings = settings(3, 100);
        let wording = format!("{}{{summary}}", "words ".repeat(300));
        settings.policy.stages = vec![Stage::Summarize(Summarize { budget: 100, wording, ..Summarize::default() })];
        let model = Scripted::new(|_, _| Ok("short".into()));
        let mut session = open(&store, settings, &model);
        for number in 0..5 {
            say(&mut session, number);
        }
        block_on(session.wait_for_summary()).unwrap();
        assert_eq!((texts(&mut session).len(), model.calls()), (4, 1));
    });
}

#[test]
fn nobody_waits_for_a_summary_that_the_policy_no_longer_wants() {
    over_each(|store| {
        let model = Scripted::held(|_, _| Ok("short".into()));
        let mut session = open(&store, settings(3, 100), &model);
        for number in 0..5 {
            say(&mut session, number);
        }
        assert_eq!(texts(&mut session).len(), 5);
        session.set_policy(Policy::unlimited());
        model.let_go();
        // On a separate thread, because a regression would loop forever without yielding to a timer.
        let (tell, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            block_on(session.wait_for_summary()).unwrap();
            tell.send(texts(&mut session).len()).unwrap();
        });
        assert_eq!(done.recv_timeout(LONGEST).unwrap(), 5);
    });
}

/// Appends a copy of the newest note in a log of summaries, with changes such as another maker or end.
fn noted(store: &Arc<dyn Store>, log: &LogName, change: impl FnOnce(&mut serde_json::Value)) {
    let end = block_on(store.head(log, None)).unwrap().unwrap().end;
    let body = block_on(store.read(log, end - 1..end)).unwrap().remove(0);
    let mut note: serde_json::Value = serde_json::from_str(&body).unwrap();
    change(&mut note);
    let record = Record::new(note.to_string());
    block_on(store.append(log, Append::new(end, [record]))).unwrap();
}

#[test]
fn a_claim_of_a_wrong_clock_stops_summaries_no_longer_than_a_reader_is_patient() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let asked = Arc::new(Mutex::new(String::new()));
    let prompts = asked.clone();
    let model = Scripted::new(move |_, task| {
        prompts.lock().unwrap().push_str(&task.prompt());
        Ok("short".into())
    });
    let hung = Scripted::held(|_, _| Ok("never".into()));
    let mut dead = open(&store, settings(2, 100), &hung);
    (0..4).for_each(|number| say(&mut dead, number));
    block_on(dead.enforce_limits()).unwrap();
    let log = dead.name().summary_of();
    drop(dead);
    // A process on another machine, with a clock that is years ahead, began a summary and died.
    noted(&store, &log, |note| {
        note["until"] = i64::MAX.into();
        note["id"] = "another".into();
        note["by"]["machine"] = "another".into();
    });
    // The claim is valid for the time limit plus five seconds of grace.
    let mut session = open(&store, settings(2, 100), &model)
        .with_summarizer(SummaryOptions::new(model.clone()).time_limit(Duration::ZERO));
    let shown = texts(&mut session);
    assert_eq!(model.calls(), 0, "it may still be at work");
    assert_eq!(shown.len(), 2, "the limit does not wait for somebody of whom nobody knows: {shown:?}");
    assert_eq!(block_on(session.history()).unwrap().len(), 4);
    let begun = Instant::now();
    for number in 4.. {
        if model.calls() > 0 || begun.elapsed() > LONGEST {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
        say(&mut session, number);
        block_on(session.enforce_limits()).unwrap();
    }
    block_on(session.wait_for_summary()).unwrap();
    assert!(model.calls() > 0);
    let asked = asked.lock().unwrap();
    let is_asked = |number: usize| asked.contains(&format!("message {number} says"));
    assert!((0..4).all(is_asked), "what was dropped meanwhile is in the next summary: {asked}");
}

#[test]
fn a_claim_whose_work_was_dropped_holds_nobody_up_who_opens_the_session() {
    over_each(|store| {
        let model = Scripted::new(|_, _| Ok("short".into()));
        let jobs: Arc<Mutex<Vec<Job>>> = Arc::default();
        let waiting = jobs.clone();
        let mut session = open(&store, settings(2, 100), &model)
            .with_summarizer(SummaryOptions::new(model.clone()).spawner(move |job| waiting.lock().unwrap().push(job)));
        (0..4).for_each(|number| say(&mut session, number));
        block_on(session.enforce_limits()).unwrap();
        assert_eq!(jobs.lock().unwrap().len(), 1);
        drop(session);

        let mut session = open(&store, settings(2, 100), &model);
        assert_eq!((texts(&mut session).len(), model.calls()), (4, 0), "the work is still to be done");
        jobs.lock().unwrap().clear();
        let begun = Instant::now();
        block_on(session.wait_for_summary()).unwrap();
        assert_eq!((texts(&mut session)[0].as_str(), model.calls()), ("short", 1));
        assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    });
}

const STORE: &str = "LOOKBACK_TEST_SUMMARIZES_IN";

#[test]
#[ignore = "the next test runs it, in a process of its own"]
fn a_process_summarizes() {
    let Some(root) = std::env::var_os(STORE) else { return };
    let store: Arc<dyn Store> = Arc::new(FileStore::open(root).unwrap());
    let hung = Scripted::held(|_, _| Ok("never".into()));
    let mut session = open(&store, settings(2, 100), &hung);
    (0..4).for_each(|number| say(&mut session, number));
    block_on(session.enforce_limits()).unwrap();
    std::thread::sleep(Duration::from_secs(3600));
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_is_killed_while_it_summarizes_holds_nobody_up() {
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
    let log = "chat".parse::<LogName>().unwrap().summary_of();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "summaries::a_process_summarizes", "--ignored"]).env(STORE, folder.path());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    while block_on(store.head(&log, None)).unwrap().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    let model = Scripted::new(|_, _| Ok("short".into()));
    let mut session = open(&store, settings(2, 100), &model);
    assert_eq!((texts(&mut session).len(), model.calls()), (4, 0), "it is waited for");
    child.kill().unwrap();
    child.wait().unwrap();
    for mut session in [session, open(&store, settings(2, 100), &model)] {
        let begun = Instant::now();
        block_on(session.wait_for_summary()).unwrap();
        assert_eq!((texts(&mut session)[0].as_str(), model.calls()), ("short", 1));
        assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    }
}

#[test]
fn a_failure_noted_by_a_wrong_clock_holds_up_the_next_try_for_seconds_and_not_for_years() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let failing = Scripted::new(|_, _| Err(SummarizerError::empty("scripted")));
    let mut session = open(&store, settings(2, 100), &failing);
    (0..4).for_each(|number| say(&mut session, number));
    block_on(session.wait_for_summary()).unwrap();
    let log = session.name().summary_of();
    drop(session);
    noted(&store, &log, |note| {
        assert_eq!(note["kind"], "failed");
        note["retry"] = i64::MAX.into();
        note["failures"] = 1.into();
    });
    let model = Scripted::new(|_, _| Ok("short".into()));
    let mut session = open(&store, settings(2, 100), &model);
    let begun = Instant::now();
    while model.calls() == 0 && begun.elapsed() < LONGEST {
        block_on(session.enforce_limits()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(model.calls(), 1);
}

#[test]
fn sessions_whose_names_look_like_each_others_have_summaries_of_their_own() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let names = ["chat", "compact:chat:messages"];
    let model = Scripted::new(|_, _| Ok("short".into()));
    for name in names {
        let mut session = open_named(&store, name, settings(2, 100), &model);
        (0..4).for_each(|number| say(&mut session, number));
        block_on(session.wait_for_summary()).unwrap();
        assert_eq!(texts(&mut session)[0], "short", "{name}");
    }
    for name in names {
        assert!(block_on(lookback_store::purge(&*store, &name.parse().unwrap())).unwrap());
        let left = block_on(store.list("")).unwrap();
        assert_eq!(left.len(), if name == "chat" { 2 } else { 0 }, "{left:?}");
    }
}
