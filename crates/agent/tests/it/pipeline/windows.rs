//! The windows of a run's calls, and the messages that leave them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_lite::future::block_on;
use lookback_agent::{
    Budget, ContextFilter, Event, Failure, Middleware, MiddlewareSettings, Pipeline, Progress, Reaction, Run, Stopped,
};
use lookback_engine::Settings;
use lookback_engine::transcript::Origin;
use lookback_presets as presets;
use lookback_session::Batch;
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::{dialect::Dialect, message::Message};

use super::{asks, origins};
use crate::vectors;

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
                alone.append(Batch::from(answer.clone()).origin(Origin::Model).at(None)).await.unwrap();
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

/// Records the messages that have left the window.
struct Leavers(Arc<std::sync::Mutex<Vec<u64>>>);

impl Middleware for Leavers {
    fn name(&self) -> &str {
        "leavers"
    }

    fn on(&mut self, _: &Event, run: &Run) -> Result<Reaction, Failure> {
        self.0.lock().unwrap().extend(run.left.iter().map(|left| left.position));
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
            .with_iterations(8);
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
                .with_iterations(12);
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
                let mut run = Pipeline::new(session).with_iterations(3);
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
