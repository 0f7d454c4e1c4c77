//! A run from its start to its end, and the run after it.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_agent::{
    Budget, CallUsage, ContextFilter, EndReason, Event, FactSheet, Failure, Middleware, Pipeline, Reaction, Run,
    Stopped, ToolUse,
};
use lookback_engine::Settings;
use lookback_facts::{Memory, Scope, Source, Speaker, Statement};
use lookback_session::Session;
use lookback_store::{MemoryStore, Store};
use lookback_wire::{dialect::Dialect, message::Message};

use super::{Slow, asks};
use crate::vectors;

#[test]
fn a_call_without_an_answer_is_handed_out_again() {
    block_on(async {
        let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
        let mut run = Pipeline::new(session).with(Slow);
        run.start(Message::user("Count to three.")).await.unwrap();
        let first = run.next().await.unwrap().unwrap();
        let second = run.next().await.unwrap().unwrap();
        assert_eq!((first.iteration, first.to_json().unwrap()), (second.iteration, second.to_json().unwrap()));
        assert_eq!(second.tools, ToolUse::Allowed);
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
            let by = Source::new(Speaker::Person);
            let rule = Statement::new(lookback_facts::FactKind::Constraint, "Write no files.", by);
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
            // The note has left the window, but stays in the log.
            let log = store.read(run.session().name(), 0..u64::MAX).await.unwrap().concat();
            assert!(log.contains("Two calls are left."), "{here}");
        });
    }
}

#[test]
fn the_standard_middleware_counts_what_is_reported() {
    block_on(async {
        let store = Arc::new(MemoryStore::new());
        let memory = Memory::open(store.clone(), "run").await.unwrap();
        let session = Session::open(store, "run", Settings::default()).await.unwrap();
        let window = ContextFilter::rounds(5).unwrap();
        let mut run = Pipeline::standard(session, Budget::reported(100), window, memory).with_iterations(20);
        run.start(Message::user("Find out why the build fails.")).await.unwrap();
        let mut calls = Vec::new();
        while let Some(call) = run.next().await.unwrap() {
            calls.push(call.tools != ToolUse::Allowed);
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
            let usage = CallUsage::default().input(call.tokens * 3).model(told);
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
