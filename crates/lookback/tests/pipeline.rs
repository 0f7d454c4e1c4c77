//! The pipeline: middleware in a chain, by vectors, and what no middleware may do to a run, however it fails.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod vectors;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_lite::future::{block_on, poll_once};
use lookback::dialect::TooLong;
use lookback::memory::{Memory, Scope, Source, Speaker, Statement};
use lookback::middleware::{
    Budget, CallUsage, ContextFilter, EndReason, Event, FactSheet, Failure, Middleware, MiddlewareSettings, Pipeline,
    Progress, Reaction, Run, Stopped, ToolUse,
};
use lookback::policy::Measure;
use lookback::store::{Head, Hit, LogInfo, Record, StoreFuture};
use lookback::transcript::{Entry, Origin};
use lookback::{
    Dialect, Limits, LogName, MemoryStore, Message, Policy, Session, Settings, Store, StoreError, ToolCall, presets,
};
use serde_json::{Value, json};
use vectors::run::{Vector, play};

#[test]
fn middleware_is_a_chain() {
    vectors::run::hold("pipeline.json");
}

const EVENTS: [&str; 9] = [
    "start",
    "before_iteration",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "after_iteration",
    "overflow",
    "stop",
];

/// Three iterations: tools, a refusal as too long with tools after it, and an answer.
fn troubled(how: &str, event: &str, on_failure: &str) -> Vector {
    // Only a middleware that hangs has a time limit, and a long one, so that a slow machine does not fail the test.
    let limit = if ["hang", "pending"].contains(&how) { 1_000 } else { 0 };
    let stages = vec![
        json!({"name": "before", "order": 1}),
        json!({"name": "bad", "order": 10, "time_limit": limit, "on_failure": on_failure, "at": {event: how}}),
        json!({"name": "after", "order": 50, "at": {"before_model": {"note": "still here"}}}),
    ];
    let long = "a result that is long enough to be shortened ".repeat(40);
    let model = vec![
        json!({"calls": [{"tool": "read", "result": long}, {"tool": "list", "result": "b"}]}),
        json!({"too_long": true, "calls": [{"tool": "read", "result": "c"}]}),
    ];
    Vector { name: how.to_owned(), stages, model, ..Vector::default() }
}

/// Every way to fail at every event: at once in every dialect, and after a time limit in one; all in parallel.
fn each_trouble(on_failure: &str, holds: impl Fn(Dialect, &str, &str, BTreeMap<String, Value>) + Sync) {
    let run = |dialect: Dialect, event: &str, how: &str| {
        let here = format!("{how} at {event} ({dialect})");
        holds(dialect, event, &here, play(&troubled(how, event, on_failure), dialect, &here));
    };
    let run = &run;
    std::thread::scope(|scope| {
        for event in EVENTS {
            for how in ["hang", "pending"] {
                scope.spawn(move || run(Dialect::Anthropic, event, how));
            }
        }
    });
    for dialect in Dialect::ALL {
        for event in EVENTS {
            ["fail", "panic"].iter().for_each(|how| run(dialect, event, how));
        }
    }
}

#[test]
fn a_middleware_that_fails_open_at_any_event_changes_nothing_for_the_others() {
    let others = |found: &Value| -> Vec<Value> {
        let told = |asked: &Value| !asked.as_str().unwrap().starts_with("bad");
        found.as_array().unwrap().iter().filter(|asked| told(asked)).cloned().collect()
    };
    let sound = Dialect::ALL.map(|dialect| (dialect, play(&troubled("", "none", "open"), dialect, "sound")));
    for (_, expected) in &sound {
        assert_eq!((&expected["stopped"], &expected["failures"]), (&json!("answered"), &json!([])));
    }
    each_trouble("open", |dialect, event, here, found| {
        let first = found["failures"][0].as_str().unwrap_or_else(|| panic!("{here}: nobody was told"));
        assert!(first.starts_with(&format!("middleware `bad` failed at `{event}`: it ")), "{here}: {first}");
        let (_, expected) = sound.iter().find(|(known, _)| *known == dialect).unwrap();
        assert_eq!(others(&found["asked"]), others(&expected["asked"]), "{here}");
        for (member, value) in expected.iter().filter(|(member, _)| !["asked", "failures"].contains(&member.as_str())) {
            assert_eq!(&found[member], value, "{here}: {member}");
        }
    });
}

#[test]
fn a_middleware_that_fails_closed_at_any_event_ends_the_run_in_order() {
    each_trouble("closed", |_, event, here, found| {
        if event == "stop" {
            assert_eq!(found["stopped"], "answered", "{here}: it was over already");
        } else {
            let stopped = found["stopped"].as_str().unwrap();
            assert!(stopped.starts_with(&format!("middleware `bad` failed at `{event}`: it ")), "{here}: {stopped}");
        }
        for other in ["before stop", "after stop"] {
            let times = found["asked"].as_array().unwrap().iter().filter(|asked| *asked == other).count();
            assert_eq!(times, 1, "{here}: {other}");
        }
    });
}

/// An answer that asks for one page.
fn asks(number: u64) -> Message {
    Message::assistant_with_calls("", [ToolCall::new(format!("c{number}"), "read", format!(r#"{{"page":{number}}}"#))])
}

#[test]
fn what_one_middleware_did_no_other_undoes() {
    for dialect in Dialect::ALL {
        block_on(async {
            let settings = Settings::default().dialect(dialect);
            let own = settings.policy.tightened(&presets::named("two-tier:sliding_window_size=5").unwrap(), None);
            let alone = settings.clone().policy(own);
            let mut alone = Session::open(MemoryStore::new(), "alone", alone).await.unwrap();
            let session = Session::open(MemoryStore::new(), "run", settings).await.unwrap();
            let used = Arc::new(AtomicU64::new(0));
            let read = used.clone();
            let mut run = Pipeline::new(session)
                .with(Progress::new().nudge_after(3).nudge_again_after(10).last_answer_after(100))
                .with(ContextFilter::rounds(5).unwrap())
                .with(Budget::new(25_000, move || read.load(Ordering::Relaxed)));
            let task = Message::user("Find out why the build fails.");
            alone.push(task.clone()).await.unwrap();
            run.start(task).await.unwrap();
            let (mut nudges, mut calls) = (0, 0);
            while let Some(call) = run.next().await.unwrap() {
                calls += 1;
                let ours = origins(&run).await;
                let wire = |message: &Message| message.wire().unwrap().raw.get().to_owned();
                let sent: Vec<_> =
                    call.view.messages().map(|item| (ours[&item.position()], wire(item.message()))).collect();
                let expected = alone.window().await.unwrap();
                let expected: Vec<_> = expected.view().messages().map(|item| wire(item.message())).collect();
                let kept: Vec<_> = sent.iter().filter(|(ours, _)| !ours).map(|(_, wire)| wire.clone()).collect();
                assert_eq!(kept, expected, "{dialect}: call {calls}");
                let new = ours.values().filter(|ours| **ours).count() - nudges;
                nudges += new;
                assert!(sent.iter().rev().take(new).all(|(ours, _)| *ours), "{dialect}: the nudges of call {calls}");
                vectors::assert_valid(dialect, &serde_json::from_str(&call.to_json().unwrap()).unwrap(), "nudged");
                if calls == 21 {
                    run.answered(Message::assistant("I do not know."), None).await.unwrap();
                    break;
                }
                let answer = asks(calls);
                alone.receive(answer.clone(), Origin::Model, None).await.unwrap();
                for tool in run.answered(answer, None).await.unwrap() {
                    run.tool(&tool, |_| async { Ok::<_, String>(" ") }).await.unwrap();
                }
                alone.push(Message::tool_result(format!("c{calls}"), " ")).await.unwrap();
                used.fetch_add(1_000, Ordering::Relaxed);
            }
            assert_eq!((calls, run.stopped()), (21, Some(&Stopped::Answered)));
            assert_eq!(nudges, 3, "of the budget, and two of progress");
        });
    }
}

/// Which messages of the log are Lookback's own.
async fn origins(run: &Pipeline) -> std::collections::HashMap<u64, bool> {
    let entries = run.session().store().read(run.session().name(), 0..u64::MAX).await.unwrap();
    let entries = (0..).zip(entries.iter().map(|entry| serde_json::from_str::<Entry>(entry).unwrap()));
    let own = |(position, entry)| match entry {
        Entry::Message(arrival) => Some((position, arrival.origin == Origin::Lookback)),
        _ => None,
    };
    entries.filter_map(own).collect()
}

/// Reports what has left the window.
struct Leavers(Arc<std::sync::Mutex<Vec<u64>>>);

impl Middleware for Leavers {
    fn name(&self) -> &str {
        "leavers"
    }

    fn on(&mut self, _: &Event, run: &Run) -> Result<Reaction, Failure> {
        self.0.lock().unwrap().extend(run.left.iter().map(|(position, _)| *position));
        Ok(Reaction::none())
    }
}

#[test]
fn every_message_that_leaves_the_window_is_reported_once_to_each_middleware() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let lists = [(); 2].map(|()| Arc::new(std::sync::Mutex::new(Vec::new())));
        let early = MiddlewareSettings::default().order(1);
        let mut run = Pipeline::new(session)
            .with(ContextFilter::rounds(2).unwrap())
            .with_settings(Leavers(lists[0].clone()), early)
            .with(Leavers(lists[1].clone()))
            .iterations(8);
        run.start(Message::user("Find out why the build fails.")).await.unwrap();
        while let Some(call) = run.next().await.unwrap() {
            for tool in run.answered(asks(call.iteration), None).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
        }
        let mut session = run.into_session();
        let history = session.history().await.unwrap();
        let gone: Vec<_> = history.iter().filter(|entry| !entry.shown).map(|entry| entry.position).collect();
        assert!(gone.len() >= 10, "{gone:?}");
        for list in lists {
            let mut told = list.lock().unwrap().clone();
            told.sort_unstable();
            assert_eq!(told, gone);
        }
    });
}

/// Adds a note at each call, after a while.
struct Slow;

impl Middleware for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        std::thread::sleep(std::time::Duration::from_millis(2));
        Ok(match event {
            Event::BeforeModel => Reaction::none().note(format!("This is iteration {}.", run.iteration)),
            _ => Reaction::none(),
        })
    }
}

/// Calls as an impatient caller does: drops the future while it waits, and calls again.
macro_rules! impatient {
    ($dropped:ident, $call:expr) => {
        loop {
            match poll_once($call).await {
                Some(done) => break done.unwrap(),
                None => $dropped += 1,
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
}

#[test]
fn a_call_that_is_dropped_anywhere_goes_on_when_it_is_made_again() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session).with(Slow).with(Slow);
        let mut dropped = 0;
        impatient!(dropped, run.start(Message::user("Count to three.")));
        let mut iterations = Vec::new();
        while let Some(call) = impatient!(dropped, run.next()) {
            iterations.push(call.iteration);
            let answer = match call.iteration {
                1 | 2 => asks(call.iteration),
                _ => Message::assistant("Three."),
            };
            for tool in impatient!(dropped, run.answered(answer.clone(), None)) {
                impatient!(dropped, run.tool(&tool, |_| async { Ok::<_, String>("one more") }));
            }
        }
        assert!(dropped > 20, "{dropped}");
        assert_eq!((iterations, run.stopped()), (vec![1, 2, 3], Some(&Stopped::Answered)));
        let texts: Vec<_> = run.into_session().view().messages().map(|item| item.message().text()).collect();
        let note = |number| format!("This is iteration {number}.");
        let call = |number| format!("read\n{{\"page\":{number}}}");
        let expected = [
            "Count to three.".to_owned(),
            note(1),
            note(1),
            call(1),
            "one more".to_owned(),
            note(2),
            note(2),
            call(2),
            "one more".to_owned(),
            note(3),
            note(3),
            "Three.".to_owned(),
        ];
        assert_eq!(texts, expected);
    });
}

/// Takes too long over the first iteration.
struct Late(std::sync::Mutex<std::sync::mpsc::Receiver<()>>, Arc<AtomicU64>);

impl Middleware for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        if matches!(event, Event::BeforeIteration) && run.iteration == 1 {
            self.0.lock().unwrap().recv()?;
            return Ok(Reaction::none().note("That was long ago."));
        }
        self.1.store(run.iteration, Ordering::Relaxed);
        Ok(Reaction::none())
    }
}

#[test]
fn a_middleware_that_is_back_is_asked_again_and_its_late_reaction_is_ignored() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (release, wait) = std::sync::mpsc::channel();
        let newest = Arc::new(AtomicU64::new(0));
        let settings = MiddlewareSettings::default().time_limit(std::time::Duration::from_millis(20));
        let mut run = Pipeline::new(session).with_settings(Late(wait.into(), newest.clone()), settings);
        run.start(Message::user("Read every page.")).await.unwrap();
        let mut iteration = 0;
        // It comes back at an unknown time.
        while newest.load(Ordering::Relaxed) < 2 && iteration < 2_000 {
            iteration = run.next().await.unwrap().unwrap().iteration;
            _ = release.send(());
            for tool in run.answered(asks(iteration), None).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(newest.load(Ordering::Relaxed) >= 2, "it was never asked again");
        assert!(run.failures().count() >= 2);
        assert!(origins(&run).await.values().all(|ours| !ours), "its note was heard");
    });
}

/// Waits at one event until it is released, and records what it was asked.
struct Held {
    at: &'static str,
    begun: std::sync::mpsc::Sender<()>,
    release: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
    asked: Arc<std::sync::Mutex<Vec<String>>>,
    held: bool,
}

/// The other side of a middleware that waits: when it began to, what releases it, and what it was asked.
struct Holder {
    begun: std::sync::mpsc::Receiver<()>,
    release: std::sync::mpsc::Sender<()>,
    asked: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Held {
    fn at(at: &'static str) -> (Held, Holder) {
        let ((begin, begun), (release, wait)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
        let held = Held { at, begun: begin, release: wait.into(), asked: asked.clone(), held: false };
        (held, Holder { begun, release, asked })
    }
}

impl Middleware for Held {
    fn name(&self) -> &str {
        "held"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        let left = run.left.iter().map(|(position, _)| format!("left {position}"));
        self.asked.lock().unwrap().extend(std::iter::once(event.name().to_owned()).chain(left));
        if event.name() == self.at && !self.held {
            self.held = true;
            self.begun.send(())?;
            self.release.lock().unwrap().recv()?;
        }
        Ok(match event {
            Event::BeforeTool(call) => Reaction::none().answer(format!("the answer to {}", call.id)),
            Event::BeforeModel => Reaction::none().note("This is a call."),
            _ => Reaction::none(),
        })
    }
}

/// Settings without a time limit.
fn unlimited() -> MiddlewareSettings {
    MiddlewareSettings::default().time_limit(std::time::Duration::ZERO)
}

/// Calls until the middleware waits, and drops the future then.
macro_rules! dropped_while_held {
    ($holder:ident, $call:expr) => {
        loop {
            assert!(poll_once($call).await.is_none(), "the middleware should be waited for");
            if $holder.begun.try_recv().is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
}

#[test]
fn a_run_that_is_stopped_in_the_middle_of_a_question_tells_the_middleware_of_its_end() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("before_model");
        let mut run = Pipeline::new(session).with_settings(held, unlimited());
        run.start(Message::user("Read every page.")).await.unwrap();
        dropped_while_held!(holder, run.next());
        holder.release.send(()).unwrap();
        run.stop("cancelled").await.unwrap();
        assert_eq!(*holder.asked.lock().unwrap(), ["start", "before_iteration", "before_model", "stop"]);
        assert!(origins(&run).await.values().all(|ours| !ours), "what it said of a call that is none was heard");
        assert_eq!(run.failures().count(), 0);
    });
}

#[test]
fn an_answer_to_one_call_is_never_given_to_another() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("before_tool");
        let mut run = Pipeline::new(session).with_settings(held, unlimited());
        run.start(Message::user("Read every page.")).await.unwrap();
        run.next().await.unwrap();
        let [one, two] = ["c1", "c2"].map(|id| ToolCall::new(id, "read", "{}"));
        run.answered(Message::assistant_with_calls("", [one.clone(), two.clone()]), None).await.unwrap();
        let tool = |_: ToolCall| async { Ok::<_, String>("it was run") };
        dropped_while_held!(holder, run.tool(&one, tool));
        holder.release.send(()).unwrap();
        run.tool(&two, tool).await.unwrap();
        run.tool(&one, tool).await.unwrap();
        let told: Vec<_> = run.session().view().messages().skip(2).map(|item| item.message().text()).collect();
        assert_eq!(told[1..], ["the answer to c2", "the answer to c1"]);
    });
}

#[test]
fn a_middleware_that_hangs_is_left_behind_though_each_poll_is_shorter_than_its_limit() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("before_iteration");
        let limit = std::time::Duration::from_millis(50);
        let settings = MiddlewareSettings::default().time_limit(limit);
        let mut run = Pipeline::new(session).with_settings(held, settings);
        run.start(Message::user("Read every page.")).await.unwrap();
        let mut ticks = 0;
        while poll_once(run.next()).await.is_none() {
            ticks += 1;
            assert!(ticks < 5_000, "it is waited for for ever");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let failure = run.failures().next().unwrap();
        assert_eq!(failure.to_string(), "middleware `held` failed at `before_iteration`");
        assert_eq!(failure.cause.to_string(), "it took longer than 50ms");
        drop(holder);
    });
}

#[test]
fn a_middleware_that_was_busy_is_told_all_that_left_meanwhile() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let (held, holder) = Held::at("after_iteration");
        let limit = std::time::Duration::from_millis(20);
        let settings = MiddlewareSettings::default().time_limit(limit);
        let mut run = Pipeline::new(session).with(ContextFilter::rounds(2).unwrap()).with_settings(held, settings);
        run.start(Message::user("Read every page.")).await.unwrap();
        let heard = || holder.asked.lock().unwrap().len();
        let (mut iteration, mut before) = (0, 0);
        // It comes back at an unknown time.
        while iteration < 8 || (heard() == before && iteration < 2_000) {
            iteration = run.next().await.unwrap().unwrap().iteration;
            for tool in run.answered(asks(iteration), None).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
            if iteration == 7 {
                before = heard();
                holder.release.send(()).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        run.stop("enough").await.unwrap();
        let asked = holder.asked.lock().unwrap().clone();
        let mut told: Vec<u64> = asked.iter().filter_map(|told| told.strip_prefix("left ")?.parse().ok()).collect();
        told.sort_unstable();
        let history = run.into_session().history().await.unwrap();
        let gone: Vec<_> = history
            .iter()
            .filter(|entry| !entry.shown && entry.arrival.origin != Origin::Lookback)
            .map(|entry| entry.position)
            .collect();
        assert!(gone.len() >= 8, "{gone:?}");
        assert_eq!(told, gone);
    });
}

#[test]
fn a_call_without_an_answer_is_handed_out_again() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session).with(Slow);
        run.start(Message::user("Count to three.")).await.unwrap();
        let first = run.next().await.unwrap().unwrap();
        let second = run.next().await.unwrap().unwrap();
        assert_eq!((first.iteration, first.to_json().unwrap()), (second.iteration, second.to_json().unwrap()));
        assert_eq!(second.tools, ToolUse::Free);
    });
}

#[test]
fn a_run_that_is_over_may_be_followed_by_another() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let limit = session.settings().policy.clone();
        let mut run = Pipeline::new(session).with(ContextFilter::rounds(5).unwrap());
        for task in ["Count to three.", "Count to four."] {
            run.start(Message::user(task)).await.unwrap();
            assert!(run.stopped().is_none());
            assert_eq!(run.next().await.unwrap().unwrap().iteration, 1);
            assert_eq!(run.session().settings().policy.limits.rounds, Some(5));
            run.answered(Message::assistant("I can count."), None).await.unwrap();
            assert_eq!(run.stopped(), Some(&Stopped::Answered));
            assert!(run.next().await.unwrap().is_none());
        }
        let session = run.into_session();
        assert_eq!(session.view().messages().count(), 4);
        assert_eq!(session.settings().policy, limit, "what a run tightened is its own");
    });
}

/// Nudges the model in its first run, and never again.
struct NudgesOnce(bool);

impl Middleware for NudgesOnce {
    fn name(&self) -> &str {
        "nudges_once"
    }

    fn on(&mut self, event: &Event, _run: &Run) -> Result<Reaction, Failure> {
        let nudges = matches!(event, Event::BeforeModel) && !std::mem::replace(&mut self.0, true);
        Ok(if nudges { Reaction::none().note("Two calls are left.") } else { Reaction::none() })
    }
}

#[test]
fn what_was_told_to_a_run_that_is_over_is_not_shown_to_the_next_and_what_is_remembered_is() {
    for (dialect, reopened) in Dialect::ALL.into_iter().flat_map(|dialect| [(dialect, false), (dialect, true)]) {
        block_on(async {
            let here = format!("{dialect}, {reopened}");
            let store = Arc::new(MemoryStore::new());
            let settings = Settings::default().dialect(dialect);
            let memory = Memory::open(store.clone(), "run").await.unwrap();
            let by = Source::of(Speaker::Person);
            let rule = Statement::new(lookback::memory::FactKind::Constraint, "Write no files.", by);
            memory.state(Scope::Session, rule).await.unwrap();
            let session = Session::open(store.clone(), "run", settings.clone()).await.unwrap();
            let mut run = Pipeline::new(session).with(NudgesOnce(false)).with(FactSheet::new(memory.clone()));
            run.start(Message::user("Count to three.")).await.unwrap();
            let sent = run.next().await.unwrap().unwrap().to_json().unwrap();
            assert!(sent.contains("Two calls are left.") && sent.contains("Write no files."), "{here}: {sent}");
            run.answered(Message::assistant("One, two, three."), None).await.unwrap();
            assert!(run.next().await.unwrap().is_none());
            if reopened {
                let session = Session::open(store.clone(), "run", settings).await.unwrap();
                run = Pipeline::new(session).with(FactSheet::new(memory));
            }
            run.start(Message::user("Count to four.")).await.unwrap();
            let sent = run.next().await.unwrap().unwrap().to_json().unwrap();
            assert!(!sent.contains("Two calls are left."), "{here}: {sent}");
            assert!(sent.contains("Count to three.") && sent.contains("One, two, three."), "{here}: {sent}");
            assert_eq!(sent.matches("Write no files.").count(), 1, "{here}: {sent}");
            vectors::assert_valid(dialect, &serde_json::from_str(&sent).unwrap(), &here);
            // It was dropped from the window, and stays in the log.
            let log = store.read(run.session().name(), 0..u64::MAX).await.unwrap().concat();
            assert!(log.contains("Two calls are left."), "{here}");
        });
    }
}

#[test]
fn a_policy_by_name_does_not_undo_what_a_middleware_tightened() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        // A new policy at each use.
        let asked = AtomicU64::new(100);
        let session = session.with_policies(move |_| {
            let limits = Limits { rounds: Some(asked.fetch_add(1, Ordering::Relaxed)), ..Limits::default() };
            Policy { limits, ..Policy::unlimited() }
        });
        let mut run = Pipeline::new(session).with(ContextFilter::rounds(2).unwrap()).iterations(6);
        run.start(Message::user("Find out why the build fails.")).await.unwrap();
        let mut most = 0;
        while let Some(call) = run.next().await.unwrap() {
            most = most.max(call.view.totals().rounds);
            for tool in run.answered(asks(call.iteration), None).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
        }
        assert_eq!(most, 2);
    });
}

#[test]
fn the_task_is_sent_at_each_call_of_a_session_that_goes_on() {
    for dialect in Dialect::ALL {
        block_on(async {
            let settings = Settings::default().dialect(dialect);
            let mut session = Session::open(MemoryStore::new(), "run", settings).await.unwrap();
            for number in 1..=20 {
                session.push(Message::user(format!("Question {number}?"))).await.unwrap();
                session.push(Message::assistant("An answer.")).await.unwrap();
            }
            let mut run = Pipeline::new(session)
                .with(ContextFilter::rounds(3).unwrap())
                .with(Progress::new().nudge_after(2).nudge_again_after(50).last_answer_after(100))
                .with_continuity(Session::RESUMED_TURNS)
                .iterations(12);
            run.start(Message::user("What is the build's fault?")).await.unwrap();
            let mut nudges = 0;
            while let Some(call) = run.next().await.unwrap() {
                let sent = call.to_json().unwrap();
                assert!(sent.contains("What is the build's fault?"), "{dialect}: call {}", call.iteration);
                assert!(call.view.totals().rounds <= 3);
                vectors::assert_valid(dialect, &serde_json::from_str(&sent).unwrap(), "goes on");
                nudges += call.view.messages().filter(|item| item.is_note()).count();
                for tool in run.answered(asks(call.iteration), None).await.unwrap() {
                    run.tool(&tool, |_| async { Err::<String, _>("no such page") }).await.unwrap();
                }
            }
            assert!(nudges > 0);
        });
    }
}

#[test]
fn a_run_has_the_last_turns_of_its_session_before_it_and_a_sub_agents_has_none() {
    let cases: [(bool, Option<u64>, u64); 4] =
        [(false, None, 16), (false, Some(2), 2), (true, None, 0), (true, Some(2), 2)];
    for (sub_agent, continuity, turns) in cases {
        for dialect in Dialect::ALL {
            block_on(async {
                let settings = Settings::default().dialect(dialect);
                let mut session = Session::open(MemoryStore::new(), "run", settings).await.unwrap();
                for number in 1..=20 {
                    session.push(Message::user(format!("Question {number}?"))).await.unwrap();
                    session.push(Message::assistant("An answer.")).await.unwrap();
                }
                let mut run = Pipeline::new(session).iterations(3);
                run = if sub_agent { run.sub_agent() } else { run };
                run = continuity.into_iter().fold(run, Pipeline::with_continuity);
                run.start(Message::user("What is the build's fault?")).await.unwrap();
                while let Some(call) = run.next().await.unwrap() {
                    let sent = call.to_json().unwrap();
                    vectors::assert_valid(dialect, &serde_json::from_str(&sent).unwrap(), "goes on");
                    let here = format!("{dialect}, sub-agent {sub_agent}, {continuity:?}: call {}", call.iteration);
                    let kept: Vec<_> =
                        (1..=20).filter(|number| sent.contains(&format!("Question {number}?"))).collect();
                    assert_eq!(kept, (21 - turns..=20).collect::<Vec<_>>(), "{here}");
                    assert!(sent.contains("What is the build's fault?"), "{here}");
                    if turns == 0 {
                        let before = usize::try_from(2 * (call.iteration - 1)).unwrap();
                        assert_eq!(call.view.messages().count(), 1 + before, "{here}: nothing stands before the task");
                    }
                    for tool in run.answered(asks(call.iteration), None).await.unwrap() {
                        run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
                    }
                }
            });
        }
    }
}

/// A store whose next writes fail as a test wants.
#[derive(Debug, Default)]
struct Shaky(MemoryStore, std::sync::Mutex<VecDeque<Fault>>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The write is not made.
    Before,
    /// The write is made, and reported as failed.
    After,
}

impl Shaky {
    fn next_writes(&self, faults: impl IntoIterator<Item = Fault>) {
        self.1.lock().unwrap().extend(faults);
    }
}

impl Store for Shaky {
    fn append<'a>(&'a self, log: &'a LogName, at: u64, records: Vec<Record>, time: Option<i64>) -> StoreFuture<'a, ()> {
        let fault = self.1.lock().unwrap().pop_front().unwrap_or(Fault::None);
        Box::pin(async move {
            if fault != Fault::Before {
                self.0.append(log, at, records, time).await?;
            }
            match fault {
                Fault::None => Ok(()),
                _ => Err(StoreError::Backend { place: "shaky".into(), source: "told to".into() }),
            }
        })
    }
    fn touch<'a>(&'a self, log: &'a LogName, time: i64) -> StoreFuture<'a, bool> {
        self.0.touch(log, time)
    }
    fn read<'a>(&'a self, log: &'a LogName, span: Range<u64>) -> StoreFuture<'a, Vec<String>> {
        self.0.read(log, span)
    }
    fn head<'a>(&'a self, log: &'a LogName, before: Option<u64>) -> StoreFuture<'a, Option<Head>> {
        self.0.head(log, before)
    }
    fn info<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, Option<LogInfo>> {
        self.0.info(log)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<LogInfo>> {
        self.0.list(prefix)
    }
    fn delete<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        self.0.delete(log)
    }
    fn clear(&self) -> StoreFuture<'_, u64> {
        self.0.clear()
    }
    fn search<'a>(&'a self, log: Option<&'a LogName>, query: &'a str, most: usize) -> StoreFuture<'a, Vec<Hit>> {
        self.0.search(log, query, most)
    }
}

/// Calls until the store accepts the write.
macro_rules! stubborn {
    ($failed:ident, $call:expr) => {
        loop {
            match $call.await {
                Ok(done) => break done,
                Err(_) => $failed += 1,
            }
        }
    };
}

#[test]
fn a_call_that_failed_in_the_store_goes_on_when_it_is_made_again_and_nothing_doubles() {
    block_on(async {
        let store = Shaky::default();
        for fault in [Fault::Before, Fault::After].repeat(50) {
            store.next_writes([Fault::None, Fault::None, fault]);
        }
        let session = Session::open(store, "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session).with(Slow).iterations(4);
        let mut failed = 0;
        stubborn!(failed, run.start(Message::user("Read every page.")));
        while let Some(call) = stubborn!(failed, run.next()) {
            for tool in stubborn!(failed, run.answered(asks(call.iteration), None)) {
                stubborn!(failed, run.tool(&tool, |_| async { Ok::<_, String>("a page") }));
            }
        }
        assert!(failed >= 4, "{failed}");
        let texts: Vec<_> = run.into_session().view().messages().map(|item| item.message().text()).collect();
        let of = |number| {
            let call = format!("read\n{{\"page\":{number}}}");
            [format!("This is iteration {number}."), call, "a page".to_owned()]
        };
        let expected: Vec<_> = ["Read every page.".to_owned()].into_iter().chain((1..=4).flat_map(of)).collect();
        assert_eq!(texts, expected);
    });
}

#[test]
fn results_of_the_same_words_are_not_taken_for_one_another() {
    for dialect in Dialect::ALL {
        block_on(async {
            let store = Arc::new(Shaky::default());
            let settings = Settings::default().dialect(dialect);
            let session = Session::open(store.clone(), "run", settings).await.unwrap();
            let mut run = Pipeline::new(session);
            run.start(Message::user("Write both pages.")).await.unwrap();
            run.next().await.unwrap();
            let [one, two] = ["c1", "c2"].map(|id| ToolCall::new(id, "write", "{}"));
            run.answered(Message::assistant_with_calls("", [one.clone(), two.clone()]), None).await.unwrap();
            let ok = |_: ToolCall| async { Ok::<_, String>("ok") };
            // The store fails for the second, while another process writes the first.
            store.next_writes([Fault::Before]);
            run.tool(&two, ok).await.unwrap_err();
            let mut other = Session::open(store.clone(), "run", Settings::default().dialect(dialect)).await.unwrap();
            other.push(Message::tool_result("c1", "ok")).await.unwrap();
            run.tool(&two, ok).await.unwrap();
            let entries = run.into_session().entries().await.unwrap();
            let results: Vec<_> = entries.iter().filter_map(result_of).collect();
            assert_eq!(results, ["c1", "c2"], "{dialect}");
        });
    }
}

/// The calls that an entry has results of.
fn result_of(entry: &Entry) -> Option<String> {
    let Entry::Message(arrival) = entry else { return None };
    arrival.message.tool_results().next().map(|(_, result)| result.call_id.clone())
}

#[test]
fn a_result_that_was_given_stands_there_once_whatever_is_asked_for_next() {
    for fault in [Fault::Before, Fault::After] {
        for stop in [false, true] {
            block_on(async {
                let store = Arc::new(Shaky::default());
                let session = Session::open(store.clone(), "run", Settings::default()).await.unwrap();
                let mut run = Pipeline::new(session);
                run.start(Message::user("Write both pages.")).await.unwrap();
                run.next().await.unwrap();
                let [one, two] = ["c1", "c2"].map(|id| ToolCall::new(id, "write", "{}"));
                run.answered(Message::assistant_with_calls("", [one.clone(), two.clone()]), None).await.unwrap();
                let ok = |_: ToolCall| async { Ok::<_, String>("ok") };
                store.next_writes([fault]);
                run.tool(&one, ok).await.unwrap_err();
                if stop {
                    run.stop("enough").await.unwrap();
                } else {
                    run.tool(&two, ok).await.unwrap();
                    run.tool(&one, ok).await.unwrap();
                }
                let mut session = run.into_session();
                let entries = session.entries().await.unwrap();
                let results: Vec<_> = entries.iter().filter_map(result_of).collect();
                assert_eq!(results, ["c1", "c2"], "{fault:?} {stop}");
                let texts: Vec<_> = session.view().messages().skip(2).map(|item| item.message().text()).collect();
                let second = if stop { "[This call was not run: the run has ended.]" } else { "ok" };
                assert_eq!(texts, ["ok", second], "{fault:?} {stop}");
            });
        }
    }
}

/// Adds a note each time a window is refused.
struct Sorry;

impl Middleware for Sorry {
    fn name(&self) -> &str {
        "sorry"
    }

    fn on(&mut self, event: &Event, _: &Run) -> Result<Reaction, Failure> {
        Ok(if matches!(event, Event::Overflow(_)) { Reaction::none().note("Sorry.") } else { Reaction::none() })
    }
}

/// A long session in a store that can be made to fail, and a run that has handed out its first call.
async fn at_first_call(run: impl FnOnce(Session) -> Pipeline) -> (Arc<Shaky>, Pipeline, lookback::middleware::Call) {
    let store = Arc::new(Shaky::default());
    let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o");
    let mut session = Session::open(store.clone(), "run", settings).await.unwrap();
    for number in 0..100 {
        session.push(Message::user(format!("Question {number}, at some length."))).await.unwrap();
    }
    let mut run = run(session);
    run.start(Message::user("Answer them.")).await.unwrap();
    let call = run.next().await.unwrap().unwrap();
    (store, run, call)
}

const TOO_LONG: TooLong = TooLong::new(Measure::Tokens);

#[test]
fn an_overflow_that_failed_in_the_store_is_told_once_and_makes_the_window_smaller_once() {
    for fault in [Fault::Before, Fault::After] {
        for again in [true, false] {
            block_on(async {
                let (store, mut run, _) = at_first_call(|session| Pipeline::new(session).with(Sorry)).await;
                let before = run.session().stats().entries;
                store.next_writes([fault]);
                run.overflow(TOO_LONG).await.unwrap_err();
                if again {
                    run.overflow(TOO_LONG).await.unwrap();
                }
                run.next().await.unwrap().unwrap();
                let entries = run.into_session().entries().await.unwrap();
                let new = entries.get(usize::try_from(before).unwrap()..).unwrap();
                let of = |is_it: fn(&Entry) -> bool| new.iter().filter(|entry| is_it(entry)).count();
                let notes = of(|entry| matches!(entry, Entry::Message(arrival) if arrival.message.text() == "Sorry."));
                let compactions = of(|entry| matches!(entry, Entry::Compaction(_)));
                assert_eq!((notes, compactions), (1, 1), "{fault:?}, made again: {again}");
            });
        }
    }
}

#[test]
fn an_answer_that_failed_in_the_store_is_reported_once() {
    // The report is written before the answer.
    for faults in
        [vec![Fault::Before], vec![Fault::After], vec![Fault::None, Fault::Before], vec![Fault::None, Fault::After]]
    {
        block_on(async {
            let (store, mut run, call) = at_first_call(Pipeline::new).await;
            let before = run.session().stats().entries;
            store.next_writes(faults.clone());
            let usage = CallUsage::default().model("gpt-4o").input(call.tokens * 2);
            run.answered(Message::assistant("One."), Some(usage.clone())).await.unwrap_err();
            run.answered(Message::assistant("One."), Some(usage)).await.unwrap();
            let entries = run.into_session().entries().await.unwrap();
            let new = entries.get(usize::try_from(before).unwrap()..).unwrap();
            let reports = new.iter().filter(|entry| matches!(entry, Entry::Usage(_))).count();
            let answers = new.iter().filter(|entry| matches!(entry, Entry::Message(_))).count();
            assert_eq!((reports, answers), (1, 1), "{faults:?}");
        });
    }
}

/// Records the compaction that it sees after the model's answer, by the messages that it left.
struct Compactions(Arc<std::sync::Mutex<Vec<Option<u64>>>>);

impl Middleware for Compactions {
    fn name(&self) -> &str {
        "compactions"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        if matches!(event, Event::AfterModel(_)) {
            let left = run.compaction.as_ref().map(|compaction| compaction.after.size.messages);
            self.0.lock().unwrap().push(left);
        }
        Ok(Reaction::none())
    }
}

#[test]
fn the_compaction_of_an_overflow_is_the_one_that_the_middleware_sees() {
    block_on(async {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let middleware = Compactions(seen.clone());
        let (_, mut run, _) =
            at_first_call(|session| Pipeline::new(session).with(middleware).with_continuity(1_000)).await;
        run.overflow(TOO_LONG).await.unwrap();
        let smaller = run.next().await.unwrap().unwrap();
        run.answered(asks(1), None).await.unwrap();
        let left = smaller.view.totals().size.messages;
        assert!(left < 100, "{left}");
        assert_eq!(*seen.lock().unwrap(), [Some(left)]);
        // The window of the next call is not compacted again.
        run.next().await.unwrap().unwrap();
        run.answered(Message::assistant("One."), None).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [Some(left), None]);
    });
}

#[test]
fn a_provider_that_refuses_everything_is_not_asked_for_ever() {
    block_on(async {
        let mut session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        for number in 0..200 {
            session.push(Message::user(format!("Question {number}, at some length."))).await.unwrap();
        }
        let mut run = Pipeline::new(session).with(Sorry);
        run.start(Message::user("Answer them.")).await.unwrap();
        let mut tries = 0;
        let error = loop {
            run.next().await.unwrap().unwrap();
            tries += 1;
            match run.overflow(TOO_LONG).await {
                Ok(()) => assert!(tries < 50, "it goes on for ever"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, lookback::Error::Irreducible(_)), "{error}");
        assert!(tries <= 10, "{tries}");
        run.stop("the provider refuses everything").await.unwrap();
        assert!(run.next().await.unwrap().is_none());
    });
}

#[test]
fn the_standard_middleware_counts_what_is_reported() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let memory = Memory::open(store.clone(), "run").await.unwrap();
        let session = Session::open(store, "run", Settings::default()).await.unwrap();
        let window = ContextFilter::rounds(5).unwrap();
        let mut run = Pipeline::standard(session, Budget::reported(100), window, memory).iterations(20);
        run.start(Message::user("Find out why the build fails.")).await.unwrap();
        let mut calls = Vec::new();
        while let Some(call) = run.next().await.unwrap() {
            calls.push(call.tools != ToolUse::Free);
            let usage = CallUsage::default().input(50).output(10);
            for tool in run.answered(asks(call.iteration), Some(usage)).await.unwrap() {
                run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
            }
        }
        assert_eq!(calls, [false, false, true]);
        assert_eq!(run.stopped(), Some(&Stopped::NoAnswer(EndReason::Budget { used: 120, limit: 100 })));
        assert_eq!(run.failures().count(), 0);
    });
}

#[test]
fn what_is_reported_of_a_dated_model_corrects_the_counts_of_the_model_that_was_asked() {
    for (told, corrects) in [("gpt-4o-2024-11-20", true), ("gpt-4o", true), ("gpt-4o-mini", false), ("o3", false)] {
        block_on(async {
            let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o");
            let session = Session::open(MemoryStore::new(), "run", settings).await.unwrap();
            let mut run = Pipeline::new(session);
            run.start(Message::user("Count to ten thousand. ".repeat(50))).await.unwrap();
            let call = run.next().await.unwrap().unwrap();
            let usage = CallUsage::default().model(told).input(call.tokens * 3);
            run.answered(Message::assistant("One."), Some(usage)).await.unwrap();
            run.start(Message::user("Go on.")).await.unwrap();
            let next = run.next().await.unwrap().unwrap();
            let own = next.view.totals().size.tokens;
            assert_eq!(next.tokens > own, corrects, "{told}: {} of {own}", next.tokens);
        });
    }
}

#[test]
fn the_futures_of_a_run_may_move_between_threads() {
    fn moves<T: Send>(_: T) {}
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session);
        moves(run.start(Message::user("Count.")));
        moves(run.next());
        moves(run.answered(Message::assistant("One."), None));
        moves(run.stop("enough"));
        moves(run);
    });
}
