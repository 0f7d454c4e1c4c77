//! Summaries in the background: made once, swapped in whole, and lost with nothing when they fail.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use lookback::policy::Summarize;
use lookback::session::{Hooks, Outcome};
use lookback::summarize::{Completion, Summarizer, SummarizerError, Task};
use lookback::{Limits, LogName, MemoryStore, Message, Policy, Session, Settings, SqliteStore, Stage, Store};

type Answer = dyn Fn(usize, &Task) -> Result<String, SummarizerError> + Send + Sync;

/// A summarizer of a test: answers by the number of the call, after it was let go.
#[derive(Clone)]
struct Scripted {
    answer: Arc<Answer>,
    calls: Arc<AtomicUsize>,
    delay: Duration,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    fn new(answer: impl Fn(usize, &Task) -> Result<String, SummarizerError> + Send + Sync + 'static) -> Self {
        Scripted { answer: Arc::new(answer), calls: Arc::default(), delay: Duration::ZERO }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Summarizer for Scripted {
    fn model(&self) -> &str {
        "scripted"
    }

    fn complete<'a>(&'a self, task: &'a Task) -> Completion<'a> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            std::thread::sleep(self.delay);
            (self.answer)(call, task)
        })
    }
}

fn settings(messages: u64, budget: u64) -> Settings {
    let summary = Summarize { budget, wording: "{summary}".into(), ..Summarize::default() };
    let system = lookback::SystemRule { counted: false, ..Default::default() };
    let limits = Limits::messages(messages);
    let policy = Policy { limits, system, stages: vec![Stage::Summarize(summary)], ..Policy::default() };
    Settings { policy, ..Settings::default() }
}

fn open(store: &Arc<dyn Store>, settings: Settings, summarizer: &Scripted) -> Session {
    block_on(Session::open(store.clone(), "chat", settings)).unwrap().with_summarizer(summarizer.clone())
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
        block_on(session.settled()).unwrap();
        assert_eq!(texts(&mut session)[0], "summary 0 of 3");
        say(&mut session, 6);
        block_on(session.settled()).unwrap();
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
fn no_push_and_no_window_waits_and_what_is_summarised_stays_until_then() {
    over_each(|store| {
        let model = Scripted { delay: Duration::from_millis(300), ..Scripted::new(|_, _| Ok("short".into())) };
        let mut session = open(&store, settings(3, 100), &model);
        for number in 0..5 {
            say(&mut session, number);
        }
        let begun = Instant::now();
        assert_eq!(texts(&mut session).len(), 5);
        say(&mut session, 5);
        assert_eq!(texts(&mut session).len(), 6);
        assert!(begun.elapsed() < Duration::from_millis(300), "a window waited");
        block_on(session.settled()).unwrap();
        let shown = texts(&mut session);
        assert_eq!((shown.len(), shown[0].as_str(), model.calls()), (4, "short", 2));
    });
}

#[test]
fn one_summary_is_made_at_a_time_whoever_asks() {
    over_each(|store| {
        let model = Scripted { delay: Duration::from_millis(200), ..Scripted::new(|_, _| Ok("short".into())) };
        let mut one = open(&store, settings(3, 100), &model);
        for number in 0..5 {
            say(&mut one, number);
        }
        let mut two = open(&store, settings(3, 100), &model);
        assert_eq!((texts(&mut one).len(), texts(&mut two).len()), (5, 5));
        // Whichever comes later takes up what the other has had made.
        block_on(two.settled()).unwrap();
        assert_eq!((texts(&mut two)[0].as_str(), model.calls()), ("short", 1));
        say(&mut one, 5);
        assert_eq!(block_on(one.history()).unwrap().len(), 6);
        block_on(one.settled()).unwrap();
        assert_eq!((texts(&mut one).len(), model.calls()), (4, 2));
    });
}

#[test]
fn a_summarizer_that_fails_is_empty_too_large_or_panics_loses_nothing_and_is_reported() {
    let long = "word ".repeat(5_000);
    let answers: [Box<dyn Fn() -> Result<String, SummarizerError> + Send + Sync>; 4] = [
        Box::new(|| Err(SummarizerError::Empty { model: "scripted".into() })),
        Box::new(|| Ok("  \n ".into())),
        Box::new(move || Ok(long.clone())),
        Box::new(|| panic!("the model is out")),
    ];
    for answer in answers {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        // The first two calls go wrong, the third does not.
        let model = Scripted::new(move |call, _| if call < 2 { answer() } else { Ok("fine".into()) });
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let hooks = Hooks::default().on_compact_end(move |end| heard.lock().unwrap().push(end.outcome.clone()));
        let mut session = open(&store, settings(2, 1_000), &model).with_hooks(hooks);
        for number in 0..4 {
            say(&mut session, number);
        }
        block_on(session.settled()).unwrap();
        let shown = texts(&mut session);
        assert_eq!(shown.len(), 4, "what has no summary stays: {shown:?}");
        assert!(matches!(told.lock().unwrap()[0], Outcome::Failed { .. }));
        // After the second failure in a row it waits a second.
        std::thread::sleep(Duration::from_millis(1_100));
        say(&mut session, 4);
        texts(&mut session);
        block_on(session.settled()).unwrap();
        let shown = texts(&mut session);
        assert_eq!((shown.len(), shown[0].as_str()), (3, "fine"), "{:?}", told.lock().unwrap());
        assert_eq!(block_on(session.history()).unwrap().len(), 5);
    }
}

#[test]
fn a_budget_is_kept_whatever_the_model_says() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted::new(|_, _| Ok("and so on ".repeat(10_000)));
    let mut session = open(&store, settings(2, 10), &model);
    for number in 0..9 {
        say(&mut session, number);
    }
    block_on(session.settled()).unwrap();
    texts(&mut session);
    let (_, summary) = session.view().summary().unwrap();
    assert!(!summary.text.is_empty() && summary.size.tokens <= 10 + 3, "{summary:?}");
}

#[test]
fn a_summarizer_that_hangs_is_given_up_in_time() {
    #[derive(Debug)]
    struct Hangs;
    impl Summarizer for Hangs {
        fn model(&self) -> &str {
            "hangs"
        }
        fn complete<'a>(&'a self, _: &'a Task) -> Completion<'a> {
            Box::pin(pending())
        }
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let limit = Duration::from_millis(50);
    let session = block_on(Session::open(store, "chat", settings(2, 100))).unwrap();
    let mut session = session.with_summarizer(Hangs).with_time_limit(limit);
    for number in 0..4 {
        say(&mut session, number);
    }
    let begun = Instant::now();
    block_on(session.settled()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(texts(&mut session).len(), 4);
}

#[test]
fn at_the_hard_limit_nothing_waits_and_the_summary_still_comes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model =
        Scripted { delay: Duration::from_millis(100), ..Scripted::new(|_, task| Ok(task.prompt()[..40].to_owned())) };
    let settings = settings(3, 100);
    let policy = Policy { hard: Some(Limits::messages(5)), ..settings.policy.clone() };
    let mut session = open(&store, Settings { policy, ..settings }, &model);
    for number in 0..5 {
        say(&mut session, number);
    }
    assert_eq!(texts(&mut session).len(), 5);
    say(&mut session, 5);
    let shown = texts(&mut session);
    assert_eq!(shown.len(), 3, "{shown:?}");
    block_on(session.settled()).unwrap();
    let shown = texts(&mut session);
    assert!(shown[0].contains("message 0"), "what was dropped meanwhile is in the summary: {shown:?}");
}

#[test]
fn a_summary_of_a_branch_that_was_left_is_not_taken_up() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = Scripted { delay: Duration::from_millis(100), ..Scripted::new(|_, _| Ok("of the old branch".into())) };
    let mut session = open(&store, settings(3, 100), &model);
    for number in 0..5 {
        say(&mut session, number);
    }
    texts(&mut session);
    block_on(session.replace(vec![Message::user("all else")])).unwrap();
    block_on(session.settled()).unwrap();
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
    block_on(session.settled()).unwrap();
    block_on(lookback::store::purge(&*store, &"chat".parse::<LogName>().unwrap())).unwrap();
    assert!(block_on(store.list("")).unwrap().is_empty());
}
