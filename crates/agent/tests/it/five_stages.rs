//! A fault in each of the five middleware, in the middle of a run with all of them: an error, a panic, a hang.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_agent::{
    Budget, CallUsage, ContextFilter, Event, FactSheet, Failure, Middleware, MiddlewareSettings, Observe, OnFailure,
    Pipeline, Progress, Reaction, Run, Stopped,
};
use lookback_facts::{FactKind, Memory, Scope, Source, Speaker, Statement};
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::{
    dialect::{Dialect, Request},
    message::{Message, ToolCall},
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Error,
    Panic,
    Hang,
}

/// A middleware that works until an event of the third iteration, or until the start, and fails there.
struct Faulty<M> {
    middleware: M,
    fault: Fault,
    at: &'static str,
}

impl<M: Middleware> Middleware for Faulty<M> {
    fn name(&self) -> &str {
        self.middleware.name()
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        if event.name() == self.at && [0, 3].contains(&run.iteration) {
            match self.fault {
                Fault::None => {}
                Fault::Error => return Err("it is broken".into()),
                Fault::Panic => panic!("a test's own panic"),
                Fault::Hang => std::thread::sleep(Duration::from_secs(4)),
            }
        }
        self.middleware.on(event, run)
    }

    fn order(&self) -> u32 {
        self.middleware.order()
    }
}

/// The outcome of a run in which one middleware failed.
struct Played {
    calls: u64,
    stopped: Stopped,
    failures: Vec<String>,
    /// The messages of the last call.
    last: String,
}

/// The events at which middleware fails, and the number of calls before that.
const MOMENTS: [(&str, u64); 4] = [("start", 0), ("before_model", 2), ("after_model", 3), ("before_tool", 3)];

const MIDDLEWARE: [&str; 5] = ["observe", "budget", "context_filter", "fact_sheet", "progress"];

async fn play(bad: &str, fault: Fault, at: &'static str, on_failure: OnFailure, dialect: Dialect) -> Played {
    let store = Arc::new(MemoryStore::new());
    let memory = Memory::open(store.clone(), "run").await.unwrap();
    let said = Statement::new(FactKind::Constraint, "Write no files.", Source::new(Speaker::Person));
    memory.state(Scope::Session, said).await.unwrap();
    let settings = lookback_engine::Settings::default().dialect(dialect);
    let session = Session::open(store.clone(), "run", settings.clone()).await.unwrap();
    let here = |name: &str| {
        // A middleware that hangs has a short limit. The others may take as long as a busy machine needs.
        let limit = if name == bad && fault == Fault::Hang { 1_000 } else { 30_000 };
        MiddlewareSettings::default().time_limit(Duration::from_millis(limit)).on_failure(on_failure)
    };
    let of = |name: &str| if name == bad { fault } else { Fault::None };
    let budget = Budget::reported(10_000);
    let window = ContextFilter::rounds(3).unwrap();
    let mut run = Pipeline::new(session)
        .with_settings(Faulty { middleware: Observe::new(), fault: of("observe"), at }, here("observe"))
        .with_settings(Faulty { middleware: budget, fault: of("budget"), at }, here("budget"))
        .with_settings(Faulty { middleware: window, fault: of("context_filter"), at }, here("context_filter"))
        .with_settings(Faulty { middleware: FactSheet::new(memory), fault: of("fact_sheet"), at }, here("fact_sheet"))
        .with_settings(Faulty { middleware: Progress::new(), fault: of("progress"), at }, here("progress"))
        .with_iterations(12);
    run.start(Message::user("Read all pages.")).await.unwrap();
    let (mut calls, mut last) = (0, String::new());
    while let Some(call) = run.next().await.unwrap() {
        calls += 1;
        last = call.to_json().unwrap();
        let request = Request::decode(last.as_str(), Some(dialect)).unwrap();
        let findings = dialect.check(&request);
        assert!(findings.is_empty(), "{bad} {fault:?}: call {calls}: {findings:?}");
        let answer = if calls < 10 {
            Message::assistant_with_calls(
                "",
                [ToolCall::new(format!("c{calls}"), "read", format!(r#"{{"page":{calls}}}"#))],
            )
        } else {
            Message::assistant("All are blank.")
        };
        let usage = CallUsage::default().input(800).output(100);
        for tool in run.answered(answer, Some(usage)).await.unwrap() {
            run.tool(&tool, |call| async move { Ok::<_, String>(format!("result of {}", call.arguments)) })
                .await
                .unwrap();
        }
    }
    let failures = run.failures().map(ToString::to_string).collect();
    let stopped = run.stopped().unwrap().clone();
    drop(run);
    // The session can continue.
    let mut session = Session::open(store, "run", settings).await.unwrap();
    session.resume(Message::user("And the pictures?"), Session::RESUMED_TURNS).await.unwrap();
    let request = Request::decode(session.window().await.unwrap().to_json().unwrap(), Some(dialect)).unwrap();
    assert!(dialect.check(&request).is_empty(), "{bad} {fault:?}");
    Played { calls, stopped, failures, last }
}

/// Each middleware with each fault at each event.
fn each(on_failure: OnFailure, holds: impl Fn(&str, Fault, (&str, u64), Played) + Sync) {
    std::thread::scope(|scope| {
        for (middleware, moment) in
            MIDDLEWARE.into_iter().flat_map(|middleware| MOMENTS.map(|moment| (middleware, moment)))
        {
            for (fault, dialect) in [
                (Fault::Error, Dialect::OpenAiChat),
                (Fault::Panic, Dialect::Bedrock),
                (Fault::Hang, Dialect::Anthropic),
            ] {
                let holds = &holds;
                let played = move || block_on(play(middleware, fault, moment.0, on_failure, dialect));
                scope.spawn(move || holds(middleware, fault, moment, played()));
            }
        }
    });
}

#[test]
fn without_a_fault_all_five_do_their_part() {
    let played = block_on(play("none", Fault::None, "start", OnFailure::Open, Dialect::OpenAiChat));
    assert_eq!((played.calls, played.stopped, played.failures.len()), (10, Stopped::Answered, 0));
    assert!(played.last.contains("Write no files."), "the sheet");
    assert!(played.last.contains("Token budget"), "the nudge: {}", played.last);
    assert!(!played.last.contains(r#"\"page\":6"#) && played.last.contains(r#"\"page\":7"#), "the window");
}

#[test]
fn a_fault_in_any_of_the_five_leaves_the_run_valid_if_it_fails_open() {
    each(OnFailure::Open, |middleware, fault, (at, _), played| {
        let here = format!("{middleware} {fault:?} at {at}");
        assert_eq!((played.calls, &played.stopped), (10, &Stopped::Answered), "{here}");
        assert!(
            played.failures.iter().all(|told| told.starts_with(&format!("middleware `{middleware}` failed at"))),
            "{here}"
        );
        assert!(
            played.failures[0].starts_with(&format!("middleware `{middleware}` failed at `{at}`")),
            "{here}: somebody is told"
        );
        // The other middleware did their work. The filter's policy is set at the start of the run, and stays in force.
        // If the filter failed at the start, only the session's own policy applies.
        let whole = (middleware, at) == ("context_filter", "start");
        assert_eq!(played.last.contains(r#"\"page\":6"#), whole, "{here}: {}", played.last);
        assert!(played.last.contains(r#"\"page\":7"#), "{here}: {}", played.last);
        let lasting = |name| middleware != name || fault == Fault::Error;
        assert!(!lasting("fact_sheet") || played.last.contains("Write no files."), "{here}: {}", played.last);
        assert!(!lasting("budget") || played.last.contains("Token budget"), "{here}: {}", played.last);
    });
}

#[test]
fn a_fault_in_any_of_the_five_ends_the_run_in_order_if_it_fails_closed() {
    each(OnFailure::Closed, |middleware, fault, (at, calls), played| {
        let here = format!("{middleware} {fault:?} at {at}");
        assert_eq!(played.calls, calls, "{here}: no call is made without the middleware");
        let Stopped::Middleware(error) = &played.stopped else { panic!("{here}: {:?}", played.stopped) };
        assert_eq!((error.middleware.as_str(), error.event), (middleware, at), "{here}");
    });
}
